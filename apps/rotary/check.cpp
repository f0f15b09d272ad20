// rotary check: is a tensor rotated as the config asks?
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/program.h"
#include "apps/shared/progress_line.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "diagnosis.h"

namespace rotary::cli {

namespace {

struct Options : DiagnosisOptions {
  std::string input;
  std::string against;
};

std::string label(const std::string& name) { return name.empty() ? "the tensor" : printable(name); }

void print(const diagnose::CheckResult& result) {
  const std::vector<diagnose::NamedCheck>& checks = result.tensors;
  if (result.equal()) {
    std::string names;
    double most = 0;
    for (const diagnose::NamedCheck& one : checks) {
      names += (names.empty() ? "" : ", ") + label(one.name);
      most = std::max(most, one.checked.max_error);
    }
    std::cout << "equal: " << names << " rotated as the config asks (largest error " << significant(most, 2)
              << ", layout " << checks.front().checked.layout << (result.rope.empty() ? "" : ", " + result.rope)
              << ")\n";
    if (!checks.front().checked.moves)
      std::cerr << "warning: at position 0 no rope moves anything: --positions says where the token is\n";
    return;
  }
  for (const diagnose::NamedCheck& one : checks) {
    if (one.checked.equal) {
      std::cout << "equal: " << label(one.name) << " (largest error " << significant(one.checked.max_error, 2) << ")\n";
      continue;
    }
    const diagnose::Place& first = *one.checked.first;
    std::cout << "differs: " << label(one.name) << ", largest error " << significant(one.checked.max_error, 3)
              << ", allowed up to " << significant(one.checked.tolerance, 2) << "; first at ";
    if (first.batch > 0) std::cout << "batch " << first.batch << ", ";
    std::cout << "token " << first.token << ", head " << first.head << ", ";
    if (first.pair) {
      std::cout << "pair " << *first.pair << '\n';
    } else {
      std::cout << "element " << first.element << ", which the model does not rotate\n";
    }
  }
  std::cout << printable(result.diagnosed->all.sentence) << '\n';
}

void run(Options& options) {
  check_source(options.source);
  const std::vector<diagnose::TensorPair> pairs = read_question(options, options.input, options.against);
  ProgressLine progress("check", static_cast<std::int64_t>(pairs.size()));
  options.request.progress = [&](std::int64_t done, std::int64_t) { progress.done(done); };
  const diagnose::CheckResult result = diagnose::check(options.request, pairs);
  progress.clear();
  if (options.json) {
    std::cout << to_json(result) << '\n';
  } else {
    print(result);
  }
  if (!result.equal()) throw Failed{1};
}

}  // namespace

void add_check(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->request.operation = "check";
  Command command(app, "check", "Check that a tensor is rotated as the config asks");
  add_source_options(command, options->source);
  add_rope_option(command, options->source);
  command.option("--input", options->input, "the tensors before the rotation: a safetensors file, or one .npy")
      .type_name("FILE")
      .required();
  command.option("--against", options->against, "what an engine made of them").type_name("FILE").required();
  add_diagnosis_options(command, *options);
  command
      .option("--tolerance", options->request.tolerance,
              "the largest difference of an element (default: the rounding of the dtype and of\nfloat32 angles)")
      .range(0.0, 1e300)
      .type_name("T");
  command.flag("--json", options->json, "as JSON, every double with 17 digits");
  command.footer(
      "Equal: one line, exit status 0. Else the first token, head and pair that differ, what is wrong (as\n"
      "'rotary diagnose' says it), and exit status 1.\n"
      "  rotary check Llama-3.1-8B/ --input qk.safetensors --against rotated.safetensors\n"
      "  rotary check config.json --input q.npy --against engine_q.npy --positions 100:116 --json");
  command.can_be_quiet();
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
