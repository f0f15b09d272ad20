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

struct CheckOptions : DiagnosisOptions {
  std::string input;
  std::string against;
};

using diagnose::Outcome;

std::string label(const std::string& name) { return name.empty() ? "the tensor" : printable(name); }

std::string error_text(const diagnose::Checked& checked) {
  return "largest error " + significant(checked.error, checked.first ? 3 : 2) + " where " +
         significant(checked.allowed, 2) + " is allowed";
}

// "largest error 1.9e-07 where 3e-06 is allowed, layout bthd".
std::string found_text(const diagnose::NamedCheck& one) {
  std::string text = error_text(one.checked) + ", layout " + one.checked.layout;
  if (!one.note.empty()) text += "; " + one.note;
  return text + (one.rope.empty() ? "" : ", " + one.rope);
}

// Whether its sentence says all: of two engines' tensors, of a tensor of a layer without a rope.
bool says_itself(const diagnose::NamedCheck& one) {
  if (one.outcome == Outcome::equal) return one.checked.layout.empty() || !one.checked.moves;
  return one.outcome == Outcome::undecided || (one.checked.layout.empty() && !one.checked.first);
}

void print_one(const diagnose::NamedCheck& one) {
  const diagnose::Checked& checked = one.checked;
  std::cout << name(one.outcome) << ": ";
  if (says_itself(one)) {
    std::cout << printable(one.sentence) << '\n';
  } else if (one.outcome == Outcome::equal) {
    std::cout << label(one.name) << " (" << found_text(one) << ")\n";
  } else if (!checked.first) {
    std::cout << label(one.name) << ", though no element is off by more than its rounding (" << error_text(checked)
              << "): all together are\n";
  } else {
    const diagnose::Place& first = *checked.first;
    std::cout << label(one.name) << ", " << error_text(checked) << "; first at ";
    if (first.batch > 0) std::cout << "batch " << first.batch << ", ";
    std::cout << "token " << first.token << ", head " << first.head << ", ";
    if (first.pair) {
      std::cout << "pair " << *first.pair << '\n';
    } else {
      std::cout << "element " << first.element << ", which the model does not rotate\n";
    }
  }
}

// "10 of 12 tensors are equal; layers.3.q differs".
void print_summary(const std::vector<diagnose::NamedCheck>& checks) {
  std::vector<std::string> names[3];
  for (const diagnose::NamedCheck& one : checks) names[static_cast<int>(one.outcome)].push_back(label(one.name));
  std::cout << names[0].size() << " of " << checks.size() << " tensors are equal";
  for (const Outcome outcome : {Outcome::differs, Outcome::undecided}) {
    const auto& list = names[static_cast<int>(outcome)];
    std::string text;
    for (const std::string& one : list) text += (text.empty() ? "" : ", ") + one;
    if (list.empty()) continue;
    const bool one = list.size() == 1;
    std::cout << "; " << text
              << (outcome == Outcome::differs ? one ? " differs" : " differ"
                  : one                       ? " is undecided"
                                              : " are undecided");
  }
  std::cout << '\n';
}

void print(const diagnose::CheckResult& result) {
  const std::vector<diagnose::NamedCheck>& checks = result.tensors;
  const auto by_layer = [&](const diagnose::NamedCheck& one) { return one.layer != checks.front().layer; };
  const bool layers = std::any_of(checks.begin(), checks.end(), by_layer);
  const bool together = result.equal() && !layers && !says_itself(checks.front());
  if (together) {
    std::string names;
    const diagnose::NamedCheck* most = &checks.front();
    for (const diagnose::NamedCheck& one : checks) {
      if (says_itself(one)) continue;
      names += (names.empty() ? "" : ", ") + label(one.name);
      if (one.checked.error > most->checked.error) most = &one;
    }
    std::cout << "equal: " << names << " rotated as the config asks (" << found_text(*most) << ")\n";
  }
  for (const diagnose::NamedCheck& one : checks) {
    if (!together || says_itself(one)) print_one(one);
  }
  if (layers) print_summary(checks);
  if (result.equal() && result.power.tokens > 0) std::cout << result.power.sentence() << '\n';
  const bool found = result.diagnosed.all.verdict != diagnose::Verdict::as_configured;
  const bool said = checks.size() == 1 && says_itself(checks.front());
  if (found && !said && result.outcome() != Outcome::undecided)
    std::cout << printable(result.diagnosed.all.sentence) << '\n';
}

void run(CheckOptions& options) {
  const std::vector<diagnose::TensorPair> pairs = read_question(options, options.input, options.against);
  ProgressLine progress("steps of check", 4 * std::ssize(pairs));
  options.request.progress = [&](std::int64_t done, std::int64_t) { progress.done(done); };
  const diagnose::CheckResult result = diagnose::check(options.request, pairs);
  progress.clear();
  if (options.json) {
    std::cout << with_version(to_json(result)) << '\n';
  } else {
    print(result);
  }
  if (!result.equal()) throw Failed{result.outcome() == Outcome::differs ? 1 : 3};
}

}  // namespace

void add_check(Command& command) {
  auto options = std::make_shared<CheckOptions>();
  options->request.operation = "check";
  add_source_options(command, options->source);
  command.option("--input,--before", options->input);
  command.option("--against,--after", options->against);
  add_diagnosis_options(command, *options);
  command.option("--tolerance", options->request.tolerance);
  command.option("--rotated", options->request.rotated);
  command.option("--json", options->json);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
