// rotary diagnose: what somebody's rotation did to a tensor.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/progress_line.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "diagnosis.h"

namespace rotary::cli {

namespace {

struct Options : DiagnosisOptions {
  std::string before;
  std::string after;
};

void run(Options& options) {
  const Source& source = options.source;
  if (!source.config.empty() || source.base || !source.inv_freq.empty()) check_source(source);
  const std::vector<diagnose::TensorPair> pairs = read_question(options, options.before, options.after);
  ProgressLine progress("diagnose", static_cast<std::int64_t>(pairs.size()));
  options.request.progress = [&](std::int64_t done, std::int64_t) { progress.done(done); };
  const diagnose::Diagnosed diagnosed = diagnose::diagnose(options.request, pairs);
  progress.clear();
  if (options.json) {
    std::cout << to_json(diagnosed) << '\n';
    return;
  }
  print_diagnosis(diagnosed);
}

}  // namespace

void add_diagnose(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Command command(app, "diagnose", "Find out what a rotation did to a tensor, and what is wrong with it");
  command.option("--before", options->before, "the tensors before the rotation: a safetensors file, or one .npy")
      .type_name("FILE")
      .required();
  command.option("--after", options->after, "the tensors after it, of the same names and shapes")
      .type_name("FILE")
      .required();
  add_source_options(command, options->source, "--config");
  add_rope_option(command, options->source);
  add_diagnosis_options(command, *options);
  command.flag(
      "--scores", options->request.scores,
      "the tensors are q.k before and after, [..., tokens of q, tokens of k]: test that a\nscore depends on the "
      "distance");
  command.flag("--json", options->json, "as JSON, every double with 17 digits");
  command.footer(
      "With a config: what differs from what it asks, likeliest first, with the residuals that show it.\n"
      "Without: what the tensors tell of themselves. What they do not tell is said to be unknown. Exit\n"
      "status 0, whatever the verdict.\n"
      "  rotary diagnose --before qk.safetensors --after rotated.safetensors --config config.json\n"
      "  rotary diagnose --before q.npy --after engine_q.npy --positions 0:64 --json");
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
