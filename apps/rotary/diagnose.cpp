// rotary diagnose: what somebody's rotation did to a tensor.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/progress_line.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "diagnose/json.h"
#include "diagnosis.h"

namespace rotary::cli {

namespace {

std::string short_text(const std::string& text) {
  constexpr std::size_t most = 60;
  return text.size() <= most ? text : text.substr(0, most) + " ...";
}

std::string or_unknown(const std::string& text) { return text.empty() ? "not known" : text; }

std::string block_text(const diagnose::Facts& facts) {
  if (!facts.first) return "";
  if (!facts.rotary_dim) return "from element " + std::to_string(*facts.first);
  return std::to_string(*facts.rotary_dim) + " elements from " + std::to_string(*facts.first);
}

std::string speeds_text(const diagnose::Facts& facts) {
  if (facts.inv_freq.empty()) return "";
  return significant(facts.inv_freq.front(), 6) + " to " + significant(facts.inv_freq.back(), 6);
}

// What is known of one tensor, a line each.
std::string facts_text(const std::string& tensor, const diagnose::Diagnosis& one) {
  const diagnose::Facts& facts = one.facts;
  const nlohmann::ordered_json positions = diagnose::json_of_positions(facts.positions);
  std::vector<Cells> rows = {
      {"verdict", name(one.verdict)},
      {"layout", facts.layout},
      {"pairing", or_unknown(facts.pairing.value_or(""))},
      {"direction", or_unknown(facts.clockwise ? *facts.clockwise ? "clockwise" : "counterclockwise" : "")},
      {"rotated block", or_unknown(block_text(facts))},
      {"positions", or_unknown(positions.is_null() ? "" : short_text(positions.dump()))},
      {"inv_freq", or_unknown(speeds_text(facts))},
      {"base", or_unknown(facts.base ? significant(*facts.base, 10) : "")},
      {"scaling", or_unknown(facts.scaling ? name(*facts.scaling) : "")},
      {"attention factor", or_unknown(facts.attention_factor ? significant(*facts.attention_factor, 7) : "")},
      {"precision", or_unknown(facts.precision ? name(*facts.precision) : "")},
      {"residual", significant(one.residual, 2)}};
  const Columns columns = Columns({{}, {}}, 2, "  ").fit(rows);
  std::string text = (tensor.empty() ? "the tensor" : printable(tensor)) + "\n";
  for (const Cells& row : rows) text += columns.line(row) + "\n";
  return text;
}

void print_diagnosis(const diagnose::Diagnosed& diagnosed) {
  std::cout << printable(diagnosed.all.sentence) << '\n';
  for (const diagnose::NamedDiagnosis& one : diagnosed.tensors) {
    if (!one.diagnosis.facts.layout.empty()) std::cout << '\n' << facts_text(one.name, one.diagnosis);
  }
}

struct DiagnoseOptions : DiagnosisOptions {
  std::string before;
  std::string after;
};

void run(DiagnoseOptions& options) {
  const std::vector<diagnose::TensorPair> pairs = read_question(options, options.before, options.after);
  ProgressLine progress("steps of diagnose", 4 * std::ssize(pairs));
  options.request.progress = [&](std::int64_t done, std::int64_t) { progress.done(done); };
  const diagnose::Diagnosed diagnosed = diagnose::diagnose(options.request, pairs);
  progress.clear();
  if (options.json) {
    std::cout << with_version(to_json(diagnosed)) << '\n';
    return;
  }
  print_diagnosis(diagnosed);
}

}  // namespace

void add_diagnose(Command& command) {
  auto options = std::make_shared<DiagnoseOptions>();
  command.option("--before,--input", options->before);
  command.option("--after,--against", options->after);
  add_source_options(command, options->source);
  add_diagnosis_options(command, *options);
  command.option("--json", options->json);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
