// rotary check: is a tensor rotated as the config asks?
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/failed.h"
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

void print(const std::vector<NamedCheck>& checks, const std::optional<Diagnosed>& diagnosed) {
  if (!diagnosed) {
    std::string names;
    double most = 0;
    for (const NamedCheck& one : checks) {
      names += (names.empty() ? "" : ", ") + label(one.name);
      most = std::max(most, one.checked.max_error);
    }
    std::cout << "equal: " << names << " rotated as the config asks (largest error " << significant(most, 2)
              << ", layout " << checks.front().checked.layout << ")\n";
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

void run(const Options& options) {
  check_source(options.request.source);
  const std::vector<TensorPair> pairs = tensor_pairs("check", options.input, options.against, options.tensors);
  std::vector<NamedCheck> checks;
  bool equal = true;
  const Asking asking(options.request, pairs);
  for (const TensorPair& pair : pairs) {
    checks.push_back(
        {pair.name, diagnose::check(pair.before, pair.after, asking.question(pair.name), options.tolerance)});
    equal = equal && checks.back().checked.equal;
  }
  std::optional<Diagnosed> diagnosed;
  if (!equal) diagnosed = diagnose_pairs(pairs, asking);
  if (options.json) {
    std::cout << json_text(json_of(checks, diagnosed)) << '\n';
  } else {
    print(checks, diagnosed);
  }
  if (!equal) throw Failed{1};
}

}  // namespace

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
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
