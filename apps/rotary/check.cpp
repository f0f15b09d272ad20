// rotary check: is a tensor rotated as the config asks?
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/failed.h"
#include "apps/shared/progress_line.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "diagnose/check.h"
#include "diagnosis.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;
using diagnose::Checked;

struct Options {
  DiagnosisRequest request;
  std::string input;
  std::string against;
  std::vector<std::string> tensors;
  std::optional<double> tolerance;
  bool json = false;
};

struct NamedCheck {
  std::string name;
  Checked checked;
};

Json json_of(const Checked& checked) {
  Json json;
  json["equal"] = checked.equal;
  json["max_error"] = checked.max_error;
  json["tolerance"] = checked.tolerance;
  json["first"] = nullptr;
  if (checked.first) {
    json["first"] = {{"batch", checked.first->batch},
                     {"token", checked.first->token},
                     {"head", checked.first->head},
                     {"pair", checked.first->pair ? Json(*checked.first->pair) : Json(nullptr)},
                     {"element", checked.first->element}};
  }
  return json;
}

// The check of all tensors: equal if each is; the first that is off stands for them.
Json json_of(const std::vector<NamedCheck>& checks, const std::optional<Diagnosed>& diagnosed) {
  const NamedCheck* shown = &checks.front();
  for (const NamedCheck& one : checks) {
    if (shown->checked.equal && !one.checked.equal) shown = &one;
  }
  Json json = json_of(shown->checked);
  for (const NamedCheck& one : checks) {
    json["max_error"] = std::max(json["max_error"].get<double>(), one.checked.max_error);
    json["tolerance"] = std::max(json["tolerance"].get<double>(), one.checked.tolerance);
  }
  json["tensor"] = shown->name;
  json["diagnosis"] = diagnosed ? json_of(*diagnosed) : Json(nullptr);
  if (checks.size() > 1) {
    for (const NamedCheck& one : checks) json["tensors"][one.name] = json_of(one.checked);
  }
  return json;
}

std::string label(const std::string& name) { return name.empty() ? "the tensor" : printable(name); }

void print(const std::vector<NamedCheck>& checks, const std::optional<Diagnosed>& diagnosed, const std::string& rope) {
  if (!diagnosed) {
    std::string names;
    double most = 0;
    for (const NamedCheck& one : checks) {
      names += (names.empty() ? "" : ", ") + label(one.name);
      most = std::max(most, one.checked.max_error);
    }
    std::cout << "equal: " << names << " rotated as the config asks (largest error " << significant(most, 2)
              << ", layout " << checks.front().checked.layout << (rope.empty() ? "" : ", " + rope) << ")\n";
    if (!checks.front().checked.moves) {
      std::cerr << "warning: at position 0 no rope moves anything: --positions says where the token is\n";
    }
    return;
  }
  for (const NamedCheck& one : checks) {
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
  std::cout << printable(diagnosed->all.sentence) << '\n';
}

// By one rope. Tensors of a file have one layout: what was compared in another one is compared again.
std::vector<NamedCheck> check_by(const std::vector<TensorPair>& pairs, const Asking& asking, std::size_t rope,
                                 std::optional<double> tolerance) {
  std::vector<NamedCheck> checks;
  std::vector<std::string> layouts;
  ProgressLine progress("check", static_cast<std::int64_t>(pairs.size()));
  for (const TensorPair& pair : pairs) {
    progress.done(static_cast<std::int64_t>(layouts.size()));
    checks.push_back(
        {pair.name, diagnose::check(pair.before, pair.after, asking.question(pair.name, rope), tolerance)});
    layouts.push_back(checks.back().checked.layout);
  }
  const std::string layout = settled_layout(pairs, layouts, asking, rope);
  for (std::size_t i = 0; i < pairs.size() && !layout.empty(); ++i) {
    if (layouts[i] == layout) continue;
    diagnose::Question question = asking.question(pairs[i].name, rope);
    question.layout = layout;
    checks[i].checked = diagnose::check(pairs[i].before, pairs[i].after, question, tolerance);
  }
  return checks;
}

bool all_equal(const std::vector<NamedCheck>& checks) {
  return std::all_of(checks.begin(), checks.end(), [](const NamedCheck& one) { return one.checked.equal; });
}

// By the rope that explains all tensors, else by the first; what differs is diagnosed.
struct Answer {
  std::vector<NamedCheck> checks;
  std::optional<Diagnosed> diagnosed;
  std::string rope;  // Asking::rope_text
};

Answer answer_of(const DiagnosisRequest& request, const std::vector<TensorPair>& pairs,
                 std::optional<double> tolerance) {
  const Asking asking(request, pairs);
  Answer answer{check_by(pairs, asking, 0, tolerance), std::nullopt, asking.rope_text(0)};
  for (std::size_t other = 1; other < asking.ropes() && !all_equal(answer.checks); ++other) {
    std::vector<NamedCheck> by_other = check_by(pairs, asking, other, tolerance);
    if (all_equal(by_other)) answer = {std::move(by_other), std::nullopt, asking.rope_text(other)};
  }
  if (!all_equal(answer.checks)) answer.diagnosed = diagnose_pairs(pairs, asking);
  return answer;
}

void run(const Options& options) {
  check_source(options.request.source);
  const std::vector<TensorPair> pairs = tensor_pairs("check", options.input, options.against, options.tensors);
  const Answer answer = answer_of(options.request, pairs, options.tolerance);
  if (options.json) {
    std::cout << json_text(json_of(answer.checks, answer.diagnosed)) << '\n';
  } else {
    print(answer.checks, answer.diagnosed, answer.rope);
  }
  if (answer.diagnosed) throw Failed{1};
}

}  // namespace

nlohmann::ordered_json check_json(const DiagnosisRequest& request, const std::vector<TensorPair>& pairs,
                                  std::optional<double> tolerance) {
  const Answer answer = answer_of(request, pairs, tolerance);
  return json_of(answer.checks, answer.diagnosed);
}

void add_check(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->request.operation = "check";
  DiagnosisRequest& request = options->request;
  Command command(app, "check", "Check that a tensor is rotated as the config asks");
  add_source_options(command, request.source);
  add_rope_option(command, request.source);
  command.option("--input", options->input, "the tensors before the rotation: a safetensors file, or one .npy")
      .type_name("FILE")
      .required();
  command.option("--against", options->against, "what an engine made of them").type_name("FILE").required();
  add_diagnosis_options(command, request, options->tensors);
  command
      .option("--tolerance", options->tolerance,
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
