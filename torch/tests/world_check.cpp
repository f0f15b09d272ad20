// One rank of a real world, driven by test_world.py: world_check alone|averages|losses FILE. Exits 0
// where all is right, 1 with a sentence where not, 3 where a rank was lost and was noticed as it should be.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "rotary/error.h"
#include "rotary_torch/training/trainer.h"

namespace {

using rotary_torch::ProcessGroup;

void require(bool holds, const std::string& what) {
  if (!holds) throw rotary::Error(rotary::Code::CHECK, "check", what);
}

// Requires that every rank has rank 0's bits.
void require_same_bits(const ProcessGroup& world, const at::Tensor& values, const std::string& what) {
  const at::Tensor first = values.clone();
  world.copy_first({first});
  require(first.equal(values), what + ": ranks differ in bits");
}

void averages(const ProcessGroup& world) {
  const int rank = world.rank(), size = world.size();
  require(world.local_size() == size && world.local_rank() == rank, "world");
  for (const std::int64_t length : {1, 3, 1000, 100003, 3000001}) {
    const auto of_rank = [length](int r) { return at::arange(length, at::kFloat).mul(0.37 * (r + 1)).sin(); };
    at::Tensor expected = at::zeros({length}, at::kDouble);
    for (int r = 0; r < size; ++r) expected.add_(of_rank(r).to(at::kDouble).div(size));
    const at::Tensor values = of_rank(rank), other = at::full({2, 3}, rank, at::kFloat).t();
    world.average({values, other});  // one call: any shapes and strides
    require(values.to(at::kDouble).sub(expected).abs().max().item<double>() < 1e-6, "an average");
    require(other.equal(at::full({3, 2}, (size - 1) / 2.0, at::kFloat)), "an average of the second tensor");
    require_same_bits(world, values, "an average");
    for (int again = 0; again < 3; ++again) {  // whatever the timing
      std::this_thread::sleep_for(std::chrono::microseconds(((rank + again) % size) * 300));
      const at::Tensor repeated = of_rank(rank);
      world.average({repeated, other});
      require(repeated.equal(values), "an average: repeated with other bits");
    }
  }
  world.wait_for_all();
}

rotary_torch::Trainer trainer_of(const ProcessGroup& world, std::uint64_t seed) {
  at::manual_seed(seed);
  rotary_torch::Preset preset = rotary_torch::preset("smoke");
  preset.training.evaluate_batches = 3;
  rotary_torch::Corpus corpus = rotary_torch::corpus(rotary_torch::smoke_text(), preset.training.block);
  preset.model.vocabulary = corpus.vocabulary.size();
  rotary_torch::Decoder model(preset.model);
  model->initialise();
  model->to(at::kDouble);
  return rotary_torch::Trainer(model, corpus, preset.training, at::kCPU, world);
}

// Writes the losses of an f64 model, which must not depend on the number of processes. Only the initial weights of
// rank 0 count.
void losses(const ProcessGroup& world, const std::string& file) {
  rotary_torch::Trainer trainer = trainer_of(world, 3 + static_cast<std::uint64_t>(world.rank()));
  std::string text;
  const auto add = [&text](double value) {
    char word[32];
    std::snprintf(word, sizeof word, "%.17g\n", value);
    text += word;
  };
  for (int step = 0; step < 30; ++step) add(trainer.step().train_loss);
  add(*trainer.evaluate());
  for (const at::Tensor& parameter : trainer.model()->parameters()) require_same_bits(world, parameter, "weights");
  if (world.rank() == 0) std::ofstream(file) << text;
  world.wait_for_all();
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  at::set_num_threads(1);
  try {
    const ProcessGroup& world = ProcessGroup::world();
    if (words.at(0) == "alone") require(&world == &ProcessGroup::alone(), "alone");
    if (words.at(0) == "averages") averages(world);
    if (words.at(0) == "losses") losses(world, words.at(1));
    return 0;
  } catch (const rotary::Error& error) {
    std::fprintf(stderr, "error: %s: %s\n", rotary::name(error.code()), error.what());
    return error.code() == rotary::Code::PEER ? 3 : 1;
  }
}
