// rotary check: is a tensor rotated as the config asks, and if not, what did somebody's rotation do to it?
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "check_others.h"
#include "commands.h"
#include "diagnose/findings.h"
#include "rotary/diagnose.h"
#include "shared/columns.h"
#include "shared/command.h"
#include "shared/program.h"
#include "shared/progress_line.h"
#include "shared/tensors.h"
#include "shared/text.h"
#include "source.h"
#include "text/paths.h"
#include "values/names.h"

namespace rotary::cli {

namespace {

using diagnose::NamedCheck;
using diagnose::Outcome;

struct Options {
  Source source;
  diagnose::Request request;
  TableFiles table;
  std::filesystem::path run;
  std::string before, after;
  std::optional<PositionSet> to;  // with --from: replaces --positions
  std::vector<std::string> tensors;
  bool details = false;
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

// Whether the sentence alone says everything, as for two engines' tensors or a tensor of a layer without a rope.
bool says_itself(const NamedCheck& one) {
  if (one.outcome == Outcome::equal) return one.checked.layout.empty() || !one.checked.moves;
  return one.outcome == Outcome::undecided || (one.checked.layout.empty() && !one.checked.first);
}

std::string check_text(const NamedCheck& one) {
  const std::string text = std::string(name(one.outcome)) + ": ";
  if (says_itself(one)) return text + printable(one.sentence) + (one.note.empty() ? "" : "; " + one.note);
  if (one.outcome == Outcome::equal) return text + label(one.name) + " (" + found_text(one) + ")";
  if (!one.checked.first) {
    return text + label(one.name) + ", though every element is within its rounding (" + error_text(one.checked) +
           "): together they are off";
  }
  const diagnose::ElementIndex& first = *one.checked.first;
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
    if (!together || says_itself(one)) std::cout << check_text(one) << '\n';
  }
  if (layers) std::cout << summary_of(checks) << '\n';
  if (result.equal() && result.power.tokens > 0) std::cout << result.power.sentence() << '\n';
  const bool found = result.all.verdict != diagnose::Verdict::as_configured;
  const bool is_printed = checks.size() == 1 && says_itself(checks[0]);
  if (found && !is_printed && result.outcome() != Outcome::undecided)
    std::cout << printable(result.all.sentence) << '\n';
}

// ---- details -------------------------------------------------------------------------------------

std::string block_text(const diagnose::Facts& facts) {
  if (!facts.first) return "";
  if (!facts.rotary_dim) return "from element " + std::to_string(*facts.first);
  return "elements " + std::to_string(*facts.first) + "-" + std::to_string(*facts.first + *facts.rotary_dim - 1);
}

// "begin at 3, step 1"; the list of positions if they do not rise evenly.
std::string positions_text(const nlohmann::ordered_json& positions) {
  if (positions.is_null()) return "";
  if (!positions.is_object()) return files::cut(positions.dump(), 60);
  return "begin at " + positions.at("offset").dump() + ", step " + positions.at("step").dump();
}

// The facts of one tensor, a line each.
std::string facts_text(const std::string& tensor, const diagnose::Diagnosis& one) {
  const diagnose::Facts& facts = one.facts;
  const nlohmann::ordered_json positions = diagnose::positions_json(facts.positions);
  const auto number = [](const std::optional<double>& value, int digits) {
    return value ? significant(*value, digits) : "";
  };
  const std::string speeds =
      facts.inv_freq.empty() ? ""
                             : significant(facts.inv_freq.front(), 6) + " to " + significant(facts.inv_freq.back(), 6);
  std::vector<Cells> rows = {{"verdict", name(one.verdict)},
                             {"layout", facts.layout},
                             {"pairing", detail::with_familiar_name(facts.pairing.value_or(""))},
                             {"direction", facts.clockwise ? *facts.clockwise ? "clockwise" : "counterclockwise" : ""},
                             {"rotated block", block_text(facts)},
                             {"positions", positions_text(positions)},
                             {"inv_freq", speeds},
                             {"base", number(facts.base, 10)},
                             {"scaling", facts.scaling ? scaling_text(*facts.scaling) : ""},
                             {"attention factor", number(facts.attention_factor, 7)},
                             {"precision", facts.precision ? name(*facts.precision) : ""},
                             {"fits to", significant(one.residual, 2)}};
  for (Cells& row : rows) row[1] = row[1].empty() ? "not known" : row[1];
  return label(tensor) + "\n" + Columns({{}, {}}, 2, "  ").fit(rows).text(rows);
}

void print_details(const diagnose::Diagnosed& diagnosed) {
  for (const NamedCheck& one : diagnosed.tensors) {
    if (!one.diagnosis.facts.layout.empty()) std::cout << '\n' << facts_text(one.name, one.diagnosis);
  }
}

// ---- the command ---------------------------------------------------------------------------------

// Reads the tensors of the two files, then the rope that the source describes, where it describes one.
std::vector<diagnose::TensorPair> read(Options& options) {
  if (is_dash(files::path_of(options.before)) && is_dash(files::path_of(options.after)))
    throw UsageError("standard input holds one file: - can stand for one of the two");
  diagnose::Request& request = options.request;
  std::vector<diagnose::TensorPair> pairs =
      diagnose::read_pairs(request.operation, options.before, options.after, options.tensors);
  for (const diagnose::TensorPair& pair : pairs) {
    if (pair.name.ends_with(".weight") && pair.before.shape.size() == 2)
      fail(Code::TENSOR, request.operation, "a tensor must hold queries or keys, not weights, but '", pair.name,
           "' is a weight: --before and --after take the folders of two checkpoints");
  }
  const Source& source = options.source;
  static_cast<Choice&>(request) = source;
  if (options.to) request.positions = options.to;
  if (!source.config.empty() || source.base || !source.inv_freq.empty())
    request.model = read_model(source, source.head_dim.value_or(tools::last_dimension(pairs.front().before)));
  else if (source.pairing)
    throw UsageError("--pairing needs CONFIG, --base or --inv-freq: it describes the rope that is expected");
  return pairs;
}

// The layout in which all tensors are as asked, if they are not so in the layout of --layout; "" if there is none.
std::string layout_instead(diagnose::Request request, const std::vector<diagnose::TensorPair>& pairs) {
  if (std::exchange(request.layout, "").empty()) return "";
  const diagnose::CheckResult free = diagnose::check(request, pairs);
  return free.equal() ? free.tensors.front().checked.layout : "";
}

bool is_folder(const std::string& path) { return std::filesystem::is_directory(files::path_of(path)); }

// without_verdict: as the old command diagnose, whose exit status is 0 whatever it finds.
void run(Options& options, bool without_verdict) {
  diagnose::Request& request = options.request;
  request.operation = without_verdict ? "diagnose" : "check";
  const auto end_with = [&](Outcome outcome) {
    if (!without_verdict && outcome != Outcome::equal) throw Failed{outcome == Outcome::differs ? 1 : 3};
  };
  if (!options.run.empty()) return end_with(check_run_of(options.run));
  if (options.before.empty()) return end_with(check_table_alone(request, options.source, options.table));
  if (is_folder(options.before))
    return end_with(
        check_weights(files::path_of(options.before), files::path_of(options.after), options.source.pairing));
  const std::vector<diagnose::TensorPair> pairs = read(options);
  ThreadPool pool(options.threads);
  request.executor = &pool;
  ProgressLine progress("steps of " + request.operation, 4 * std::ssize(pairs));
  request.progress = [&](std::int64_t done, std::int64_t) { progress.done(done); };
  if (without_verdict || !request.model) {
    const diagnose::Diagnosed found = diagnose::diagnose(request, pairs);
    progress.clear();
    if (asks_json()) {
      print_json(to_json(found));
    } else {
      std::cout << printable(found.all.sentence) << '\n';
      print_details(found);
    }
    if (without_verdict) return;
    throw Failed{3};
  }
  const diagnose::CheckResult result = diagnose::check(request, pairs);
  const Outcome outcome = result.outcome();
  const std::string instead = outcome == Outcome::differs ? layout_instead(request, pairs) : "";
  progress.clear();
  if (asks_json()) {
    print_json(options.details ? to_json(static_cast<const diagnose::Diagnosed&>(result)) : to_json(result));
  } else if (instead.empty()) {
    print(result);
  } else {
    std::cout << "differs: not in the layout " << request.layout << ", as --layout says; in " << instead
              << " all is rotated as the config asks\n";
  }
  if (options.details && !asks_json()) print_details(result);
  end_with(outcome);
}

void add(Command& command, bool without_verdict) {
  auto options = std::make_shared<Options>();
  add_source_options(command, options->source);
  command.option("--before", options->before);
  command.option("--after", options->after);
  command.option("--run", options->run);
  command.option("--cos", options->table.cos);
  command.option("--sin", options->table.sin);
  command.option("--details", options->details);
  command.option("--tensor", options->tensors);
  add_positions_options(command, options->source);
  command.option("--layout", options->source.layout);
  command.option("--threads", options->threads);
  command.option("--tolerance", options->request.tolerance);
  command.option("--rotated", options->request.rotated);
  command.option("--from", options->request.from, written_positions);
  command.option("--to", options->to, written_positions);
  command.option("--backward", options->request.backward);
  command.option("--query-scale", options->source.query_scale);
  command.runs([=, &command] {
    const std::vector<std::string> taken = {"--before", "--after", "--pairing", "--json", "-q,--quiet", "--models"};
    if (is_folder(options->before) && command.has_beside(taken))
      throw UsageError("the folders of two checkpoints go together with --pairing and --json alone");
    run(*options, without_verdict);
  });
}

}  // namespace

void add_check(Command& command) { add(command, false); }
void add_diagnose(Command& command) { add(command, true); }

}  // namespace rotary::cli
