// rotary check: is a tensor rotated as the config asks? rotary diagnose: what did somebody's rotation do to it?
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "diagnose/json.h"
#include "rotary/diagnose.h"
#include "shared/columns.h"
#include "shared/command.h"
#include "shared/program.h"
#include "shared/progress_line.h"
#include "shared/tensors.h"
#include "shared/text.h"
#include "source.h"
#include "text/paths.h"

namespace rotary::cli {

namespace {

using diagnose::NamedCheck;
using diagnose::Outcome;

struct Options {
  Source source;
  diagnose::Request request;
  std::string before, after;
  std::vector<std::string> tensors;
  unsigned threads = 0;  // all cores
};

std::string label(const std::string& name) { return name.empty() ? "the tensor" : printable(name); }

// ---- check ---------------------------------------------------------------------------------------

std::string error_text(const diagnose::Checked& checked) {
  return "largest error " + significant(checked.error, checked.first ? 3 : 2) + " where " +
         significant(checked.allowed, 2) + " is allowed";
}

// "largest error 1.9e-07 where 3e-06 is allowed, layout bthd".
std::string found_text(const NamedCheck& one) {
  std::string text = error_text(one.checked) + ", layout " + one.checked.layout;
  if (!one.note.empty()) text += "; " + one.note;
  return text + (one.rope.empty() ? "" : ", " + one.rope);
}

// Whether its sentence says all: of two engines' tensors, of a tensor of a layer without a rope.
bool says_itself(const NamedCheck& one) {
  if (one.outcome == Outcome::equal) return one.checked.layout.empty() || !one.checked.moves;
  return one.outcome == Outcome::undecided || (one.checked.layout.empty() && !one.checked.first);
}

std::string text_of(const NamedCheck& one) {
  const std::string text = std::string(name(one.outcome)) + ": ";
  if (says_itself(one)) return text + printable(one.sentence);
  if (one.outcome == Outcome::equal) return text + label(one.name) + " (" + found_text(one) + ")";
  if (!one.checked.first) {
    return text + label(one.name) + ", though no element is off by more than its rounding (" + error_text(one.checked) +
           "): all together are";
  }
  const diagnose::Place& first = *one.checked.first;
  return text + label(one.name) + ", " + error_text(one.checked) + "; first at " +
         (first.batch > 0 ? "batch " + std::to_string(first.batch) + ", " : "") + "token " +
         std::to_string(first.token) + ", head " + std::to_string(first.head) + ", " +
         (first.pair ? "pair " + std::to_string(*first.pair)
                     : "element " + std::to_string(first.element) + ", which the model does not rotate");
}

// "10 of 12 tensors are equal; layers.3.q differs".
std::string summary_of(const std::vector<NamedCheck>& checks) {
  std::vector<std::string> names[3];
  for (const NamedCheck& one : checks) names[static_cast<int>(one.outcome)].push_back(label(one.name));
  std::string text = std::to_string(names[0].size()) + " of " + std::to_string(checks.size()) + " tensors are equal";
  for (const auto& [outcome, one, several] :
       {std::tuple(Outcome::differs, " differs", " differ"), {Outcome::undecided, " is undecided", " are undecided"}}) {
    const std::vector<std::string>& list = names[static_cast<int>(outcome)];
    if (!list.empty()) text += "; " + joined(list) + (list.size() == 1 ? one : several);
  }
  return text;
}

void print(const diagnose::CheckResult& result) {
  const std::vector<NamedCheck>& checks = result.tensors;
  const bool layers = std::ranges::any_of(checks, [&](const NamedCheck& one) { return one.layer != checks[0].layer; });
  const bool together = result.equal() && !layers && !says_itself(checks[0]);
  if (together) {
    std::vector<std::string> names;
    const NamedCheck* most = &checks[0];
    for (const NamedCheck& one : checks) {
      if (says_itself(one)) continue;
      names.push_back(label(one.name));
      if (one.checked.error > most->checked.error) most = &one;
    }
    std::cout << "equal: " << joined(names) << " rotated as the config asks (" << found_text(*most) << ")\n";
  }
  for (const NamedCheck& one : checks) {
    if (!together || says_itself(one)) std::cout << text_of(one) << '\n';
  }
  if (layers) std::cout << summary_of(checks) << '\n';
  if (result.equal() && result.power.tokens > 0) std::cout << result.power.sentence() << '\n';
  const bool found = result.diagnosed.all.verdict != diagnose::Verdict::as_configured;
  const bool said = checks.size() == 1 && says_itself(checks[0]);
  if (found && !said && result.outcome() != Outcome::undecided)
    std::cout << printable(result.diagnosed.all.sentence) << '\n';
}

// ---- diagnose ------------------------------------------------------------------------------------

std::string short_text(const std::string& text) {
  constexpr std::size_t most = 60;
  return text.size() <= most ? text : text.substr(0, most) + " ...";
}

std::string block_text(const diagnose::Facts& facts) {
  if (!facts.first) return "";
  if (!facts.rotary_dim) return "from element " + std::to_string(*facts.first);
  return std::to_string(*facts.rotary_dim) + " elements from " + std::to_string(*facts.first);
}

// The facts of one tensor, a line each.
std::string facts_text(const std::string& tensor, const diagnose::Diagnosis& one) {
  const diagnose::Facts& facts = one.facts;
  const nlohmann::ordered_json positions = diagnose::json_of_positions(facts.positions);
  const auto number = [](const std::optional<double>& value, int digits) {
    return value ? significant(*value, digits) : "";
  };
  const std::string speeds =
      facts.inv_freq.empty() ? ""
                             : significant(facts.inv_freq.front(), 6) + " to " + significant(facts.inv_freq.back(), 6);
  std::vector<Cells> rows = {{"verdict", name(one.verdict)},
                             {"layout", facts.layout},
                             {"pairing", facts.pairing.value_or("")},
                             {"direction", facts.clockwise ? *facts.clockwise ? "clockwise" : "counterclockwise" : ""},
                             {"rotated block", block_text(facts)},
                             {"positions", positions.is_null() ? "" : short_text(positions.dump())},
                             {"inv_freq", speeds},
                             {"base", number(facts.base, 10)},
                             {"scaling", facts.scaling ? name(*facts.scaling) : ""},
                             {"attention factor", number(facts.attention_factor, 7)},
                             {"precision", facts.precision ? name(*facts.precision) : ""},
                             {"residual", significant(one.residual, 2)}};
  for (Cells& row : rows) row[1] = row[1].empty() ? "not known" : row[1];
  return label(tensor) + "\n" + Columns({{}, {}}, 2, "  ").fit(rows).text(rows);
}

void print(const diagnose::Diagnosed& diagnosed) {
  std::cout << printable(diagnosed.all.sentence) << '\n';
  for (const diagnose::NamedDiagnosis& one : diagnosed.tensors) {
    if (!one.diagnosis.facts.layout.empty()) std::cout << '\n' << facts_text(one.name, one.diagnosis);
  }
}

// ---- both ----------------------------------------------------------------------------------------

// Reads the tensors of the two files, then the rope that the source describes, where it describes one; prints what
// `answer` makes of them.
template <class Result>
Result run(Options& options, Result (*answer)(const diagnose::Request&, const std::vector<diagnose::TensorPair>&)) {
  if (is_dash(files::path_of(options.before)) && is_dash(files::path_of(options.after)))
    throw UsageError("standard input holds one file: - can stand for one of the two");
  diagnose::Request& request = options.request;
  ThreadPool pool(options.threads);
  request.executor = &pool;
  const std::vector<diagnose::TensorPair> pairs =
      diagnose::read_pairs(request.operation, options.before, options.after, options.tensors);
  const Source& source = options.source;
  static_cast<Choice&>(request) = source;
  if (!source.config.empty() || source.base || !source.inv_freq.empty())
    request.model = read_model(source, source.head_dim.value_or(tools::last_dimension(pairs.front().before)));
  ProgressLine progress("steps of " + request.operation, 4 * std::ssize(pairs));
  request.progress = [&](std::int64_t done, std::int64_t) { progress.done(done); };
  const Result result = answer(request, pairs);
  progress.clear();
  if (asks_json()) {
    print_json(to_json(result));
  } else {
    print(result);
  }
  return result;
}

std::shared_ptr<Options> add_options(Command& command, const char* before, const char* after) {
  auto options = std::make_shared<Options>();
  add_source_options(command, options->source);
  command.option(before, options->before);
  command.option(after, options->after);
  command.option("--tensor", options->tensors);
  add_positions_options(command, options->source);
  command.option("--layout", options->source.layout);
  command.option("--threads", options->threads);
  return options;
}

}  // namespace

void add_check(Command& command) {
  auto options = add_options(command, "--input,--before", "--against,--after");
  options->request.operation = "check";
  command.option("--tolerance", options->request.tolerance);
  command.option("--rotated", options->request.rotated);
  command.runs([options] {
    const diagnose::CheckResult result = run(*options, diagnose::check);
    if (!result.equal()) throw Failed{result.outcome() == Outcome::differs ? 1 : 3};
  });
}

void add_diagnose(Command& command) {
  auto options = add_options(command, "--before,--input", "--after,--against");
  command.runs([options] { run(*options, diagnose::diagnose); });
}

}  // namespace rotary::cli
