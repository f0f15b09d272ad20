// Training a Decoder on a text: vocabularies, presets (presets.json), batches, schedules, torch's AdamW, checkpoints
// from which a run resumes bit for bit.
#pragma once

#include <torch/optim/adamw.h>

#include "rotary_torch/models/decoder.h"
#include "rotary_torch/training/parallel.h"

namespace rotary::embedded {
std::string_view smoke_text() noexcept;  // the text of the smoke preset, smoke.txt
}

namespace rotary_torch {

// One id per Unicode code point, in rising order of code points; Tiny Shakespeare has 65.
class Vocabulary {
 public:
  static Vocabulary of(std::string_view utf8);                      // throws TEXT if it is not UTF-8
  static Vocabulary read(const std::filesystem::path& vocab_json);  // {"\n": 0, " ": 1, ...}; throws JSON, FORMAT
  void write(const std::filesystem::path& vocab_json) const;        // atomically

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(characters_.size()); }
  at::Tensor encode(std::string_view utf8) const;  // int64 [tokens]; throws TEXT naming the character it lacks
  std::string decode(std::int64_t id) const;       // one character in UTF-8; throws VALUE

 private:
  std::vector<std::string> characters_;  // in UTF-8, rising: bytes rise as code points do
};

std::string read_text(const std::filesystem::path&);  // throws FILE
using rotary::embedded::smoke_text;
// 16 hexadecimal digits (FNV-1a), by which a resumed run knows its text again.
std::string text_hash(std::string_view text);

struct Corpus {
  Vocabulary vocabulary;
  at::Tensor train;       // int64 [tokens], the first 90 %
  at::Tensor validation;  // the rest
};
// Throws TEXT if a part is shorter than block + 1.
Corpus corpus(std::string_view utf8, std::int64_t block);

enum class Schedule : std::uint8_t {
  cosine,  // linear warm-up, then a cosine from rate to last_rate (nanoGPT)
  noam,    // rate * width^-0.5 * min(step^-0.5, step * warm_up^-1.5) (Attention is all you need)
};

struct TrainingOptions {
  std::int64_t steps = 2000;
  std::int64_t batch = 12;  // sequences per step, of all processes together
  std::int64_t block = 64;  // tokens per sequence
  Schedule schedule = Schedule::cosine;
  double rate = 1e-3, last_rate = 1e-4;
  std::int64_t warm_up = 100;
  double beta1 = 0.9, beta2 = 0.99, epsilon = 1e-8;
  double weight_decay = 0.1;  // decoupled (AdamW), of matrices and embeddings only; 0: Adam
  double clip = 1;            // largest norm of the gradient; 0: no clipping
  std::int64_t evaluate_every = 250;
  std::int64_t evaluate_batches = 200;  // random validation batches, the same at every evaluation
  std::uint64_t seed = 1337;
};

struct Preset {
  std::string name;
  DecoderConfig model = {};  // vocabulary is the corpus's
  TrainingOptions training = {};
  bool gpt2_init = true;     // N(0, 0.02); false: torch's defaults, as labml
  double rope_fraction = 1;  // the part of each head that rotates
};
// rope_fraction 0: the preset's own. Throws PRESET, naming the presets; VALUE if that fraction of a head is not an even
// number of elements.
Preset preset(std::string_view name, PositionEncoding = PositionEncoding::rope, double rope_fraction = 0);

double learning_rate(const TrainingOptions&, std::int64_t width, std::int64_t step);  // step counts from 0

// Random windows of a text. Batch number `step` depends on the seed and the step alone.
class Batches {
 public:
  // text: int64 [tokens] on the CPU, longer than block. Batches of equal seed and stream are equal.
  Batches(at::Tensor text, std::int64_t block, std::uint64_t seed, std::uint64_t stream);
  // Rows [first, first + rows) of the batch: ids and, for each, the id that follows it; both int64 [rows, block].
  std::pair<at::Tensor, at::Tensor> draw(std::int64_t step, std::int64_t first, std::int64_t rows) const;

 private:
  at::Tensor text_;
  std::int64_t block_;
  std::uint64_t seed_;
};

struct StepReport {
  std::int64_t step = 0;  // steps done
  double train_loss = 0;  // the joint batch's
  double rate = 0;
  double seconds = 0;
  double gradient_norm = 0;  // before clipping
};

class Trainer {
 public:
  // Moves the model to device. In a group of processes every rank holds the weights of rank 0 and takes its own rows of
  // the joint batch. The group must outlive the trainer. Throws SHAPE if the ranks cannot share the batch evenly.
  Trainer(Decoder model, Corpus corpus, TrainingOptions options, at::Device device = at::kCPU,
          const ProcessGroup& group = ProcessGroup::alone());
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // One step of the optimiser. If it throws (PEER), weights and moments are those of the previous step.
  StepReport step();
  // Mean loss over evaluate_batches random validation batches; empty if stop, called between them, returned true.
  std::optional<double> evaluate(const std::function<bool()>& stop = {});
  std::int64_t steps() const noexcept { return steps_; }  // done

  // Writes the whole state to one file, atomically: weights, moments, the step, the options and notes.
  void save(const std::filesystem::path& checkpoint, const std::map<std::string, std::string>& notes = {}) const;
  // Throws FILE, FORMAT, TENSOR; RESUME if the checkpoint was made with other options. With the Noam schedule
  // options.steps may differ, because it affects only the end.
  void load(const std::filesystem::path& checkpoint);

  Decoder& model() noexcept { return model_; }

 private:
  at::Tensor loss(const Batches&, std::int64_t number);             // mean cross-entropy of this rank's rows of a batch
  std::vector<std::pair<std::string, at::Tensor>> tensors() const;  // the weights and moments of a checkpoint

  Decoder model_;
  TrainingOptions options_;
  at::Device device_;
  const ProcessGroup& group_;
  std::vector<at::Tensor> parameters_;
  std::int64_t steps_ = 0;
  torch::optim::AdamW optimiser_;  // two groups: with weight decay and without
  Batches train_, validation_;
};

// The facts that a checkpoint holds beside its tensors. Throws FILE, FORMAT.
struct SavedRun {
  TrainingOptions options;
  std::int64_t steps = 0;  // done
  std::map<std::string, std::string> notes = {};
};
SavedRun saved_run(const std::filesystem::path& checkpoint);

}  // namespace rotary_torch
