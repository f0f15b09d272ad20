// rotary train: trains a small decoder on a text.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/text.h"
#include "apps/shared/torch_commands.h"
#include "apps/shared/usage_error.h"
#include "run_folder.h"
#include "training_run.h"

namespace rotary::cli {

namespace {

using rotary_torch::ProcessGroup;

void check_usage(const TrainRequest& request) {
  if (request.output.empty()) throw UsageError("--output must name a folder");
  if (request.text == "") throw UsageError("--text must name a file");
  if (request.rope_fraction && request.position.value_or("rope") != "rope")
    throw UsageError("--rope-fraction is for --position rope but got --position " + *request.position);
}

// Without --threads the processes of one machine share its cores.
void use_threads(const TrainRequest& request, const ProcessGroup& group) {
  if (request.threads) {
    at::set_num_threads(*request.threads);
  } else if (group.local_size() > 1) {
    const auto cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    at::set_num_threads(std::clamp(cores / group.local_size(), 1, std::max(1, at::get_num_threads())));
  }
}

// Initial weights on the CPU: the same seed gives the same weights on every device.
rotary_torch::Decoder fresh_model(const rotary_torch::Preset& preset) {
  at::manual_seed(preset.training.seed);
  rotary_torch::Decoder model(preset.model);
  if (preset.gpt2_init) model->initialise();
  return model;
}

void print_summary(const TrainingRun& run, const Plan& plan, const RunFolder& folder, std::int64_t parameters) {
  const Progress& progress = run.progress();
  std::cout << plan.preset.name << ", position " << plan.notes.at("position") << ", " << with_separators(parameters)
            << " parameters\n"
            << "validation loss " << fixed(run.validation_loss(), 4) << " after " << run.steps() << " steps\n";
  if (progress.seconds_per_step() > 0) {
    const auto tokens = static_cast<double>(plan.preset.training.batch * plan.preset.training.block);
    std::cout << fixed(1000 * progress.seconds_per_step(), 1) << " ms per step, "
              << with_separators(static_cast<std::int64_t>(tokens / progress.seconds_per_step())) << " tokens/s, "
              << duration(progress.seconds()) << " in all\n";
  } else {
    std::cout << "nothing was left to do\n";
  }
  std::cout << "written to " << printable(folder.folder.string())
            << ": model.safetensors config.json vocab.json loss.jsonl checkpoint.safetensors\n";
}

void print_json(const TrainingRun& run, const Plan& plan, const RunFolder& folder, std::int64_t parameters) {
  std::cout << versioned({{"preset", plan.preset.name},
                          {"position", plan.notes.at("position")},
                          {"parameters", parameters},
                          {"steps", run.steps()},
                          {"validation_loss", run.validation_loss()},
                          {"seconds_per_step", run.progress().seconds_per_step()},
                          {"seconds", run.progress().seconds()},
                          {"output", folder.folder.string()}})
            << '\n';
}

// Rank 0 alone prints and writes; every rank reads the text and, to resume, the checkpoint.
void run_train(const TrainRequest& request) {
  check_usage(request);
  rotary_torch::open_device("train", request.device);
  const RunFolder folder{request.output};
  if (request.resume) folder.check_begun();
  Plan plan = plan_of(request, folder);
  rotary_torch::Corpus corpus = rotary_torch::corpus(plan.text, plan.preset.training.block);
  plan.preset.model.vocabulary = corpus.vocabulary.size();

  const at::DeviceType kind = request.device == "cuda" ? at::kCUDA : at::kCPU;
  const ProcessGroup& group = ProcessGroup::world();
  const at::Device device =
      rotary_torch::open_device("train", request.device, kind == at::kCUDA ? group.local_rank() : 0);
  use_threads(request, group);

  const StopSignals signals;
  rotary_torch::Trainer trainer(fresh_model(plan.preset), corpus, plan.preset.training, device, group);
  std::optional<FolderLock> lock;
  if (group.rank() == 0) lock.emplace(folder);
  if (group.rank() == 0 && !request.resume) folder.check_new();
  const std::int64_t parameters = rotary_torch::parameter_count(*trainer.model());
  TrainingRun run(plan, folder, request.resume, trainer, group);
  if (group.rank() == 0) corpus.vocabulary.write(folder.vocabulary());
  group.barrier();  // no rank may save into the folder before rank 0 has accepted it
  run.run();
  if (group.rank() == 0) (request.json ? print_json : print_summary)(run, plan, folder, parameters);
}

}  // namespace

void add_train(CLI::App& app) {
  auto request = std::make_shared<TrainRequest>();
  Command command(app, "train");
  command.option("--output", request->output);
  command.option("--text", request->text);
  command.option("--preset", request->preset, rotary_torch::preset_names());
  command.option("--position", request->position);
  command.option("--rope-fraction", request->rope_fraction);
  command.option("--steps", request->steps);
  command.option("--seed", request->seed);
  command.option("--threads", request->threads);
  command.option("--device", request->device);
  command.option("--resume", request->resume);
  command.option("--json", request->json);
  command.runs([request] { run_train(*request); });
}

}  // namespace rotary::cli
