#include "diagnosis.h"

#include <algorithm>
#include <iostream>

#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "diagnose/json.h"
#include "files/text/paths.h"
#include "tables.h"

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

}  // namespace

void add_diagnosis_options(Command& command, DiagnosisOptions& options) {
  command
      .option("--tensor", options.tensors,
              "names of the tensors (default: q and k, whichever is there, else all that both\nfiles have)")
      .type_name("NAME");
  add_positions_options(command, options.request.positions);
  command
      .option("--layout", options.request.layout,
              "order of the dimensions: b batch, t tokens, h heads, d head_dim (default: found from\nthe heads of the "
              "config and from the rotation)")
      .one_of(layout_words)
      .type_name("WORD");
}

std::vector<diagnose::TensorPair> read_question(DiagnosisOptions& options, const std::string& before,
                                                const std::string& after) {
  if (is_dash(files::path_of(before)) && is_dash(files::path_of(after))) {
    throw UsageError("standard input holds one file: - can stand for one of the two");
  }
  diagnose::Request& request = options.request;
  std::vector<diagnose::TensorPair> pairs = diagnose::read_pairs(request.operation, before, after, options.tensors);
  const Source& source = options.source;
  request.config = source.config;
  request.rope = source.rope;
  request.length = source.length;
  if (source.config.empty() && !source.base && source.inv_freq.empty()) return pairs;
  const std::vector<std::int64_t>& shape = pairs.front().before.shape;
  const std::int64_t last = shape.empty() ? 0 : std::min<std::int64_t>(shape.back(), 65536);
  request.model = read_model(source, source.head_dim.value_or(static_cast<int>(last)));
  return pairs;
}

void print_diagnosis(const diagnose::Diagnosed& diagnosed) {
  std::cout << printable(diagnosed.all.sentence) << '\n';
  for (const auto& [name, one] : diagnosed.tensors) {
    if (!one.facts.layout.empty()) std::cout << '\n' << facts_text(name, one);
  }
}

}  // namespace rotary::cli
