#include "diagnosis.h"

#include <algorithm>
#include <iostream>

#include "apps/rotary/inspect/rope.h"
#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/progress_line.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "files/text/paths.h"
#include "tables.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

const TensorInfo* find(const std::vector<TensorInfo>& infos, const std::string& name) {
  const auto found =
      std::find_if(infos.begin(), infos.end(), [&](const TensorInfo& info) { return info.name == name; });
  return found == infos.end() ? nullptr : &*found;
}

std::vector<std::string> common_names(const std::vector<TensorInfo>& before, const std::vector<TensorInfo>& after) {
  std::vector<std::string> names;
  for (const char* name : {"q", "k"}) {
    if (find(before, name) != nullptr && find(after, name) != nullptr) names.emplace_back(name);
  }
  if (!names.empty()) return names;
  for (const TensorInfo& info : before) {
    const bool is_float = info.type == ElementType::f64 || dtype_of(info.type).has_value();
    if (is_float && info.shape.size() > 1 && find(after, info.name) != nullptr) names.push_back(info.name);
  }
  return names;
}

std::string names_of(const std::vector<TensorInfo>& infos) {
  std::string text;
  for (const TensorInfo& info : infos) text += (text.empty() ? "" : ", ") + info.name;
  return text.empty() ? "none" : text;
}

diagnose::GivenPositions given_positions(const PositionSet& set) {
  diagnose::GivenPositions given;
  given.values = set.reals;
  for (const std::int64_t position : set.integers) given.values.push_back(static_cast<double>(position));
  given.axes = set.axes;
  given.batch = set.batch;
  given.tokens = set.tokens;
  if (set.open_from) given.open_from = static_cast<double>(*set.open_from);
  return given;
}

// {"offset": n, "step": s} for positions that rise evenly, else a list; rows of lists where the rows differ.
Json positions_json(const std::vector<std::vector<double>>& rows) {
  if (rows.empty()) return nullptr;
  const auto number = [](double value) {
    const bool is_whole = value == static_cast<double>(static_cast<std::int64_t>(value));
    return is_whole ? Json(static_cast<std::int64_t>(value)) : Json(value);
  };
  if (rows.size() == 1) {
    const std::vector<double>& row = rows[0];
    const double step = row.size() > 1 ? row[1] - row[0] : 1;
    bool even = true;
    for (std::size_t t = 1; t < row.size(); ++t) even = even && row[t] - row[t - 1] == step;
    if (even) return {{"offset", number(row[0])}, {"step", number(step)}};
  }
  Json list = Json::array();
  for (const std::vector<double>& row : rows) {
    Json inner = Json::array();
    for (const double position : row) inner.push_back(number(position));
    list.push_back(std::move(inner));
  }
  return rows.size() == 1 ? list[0] : list;
}

std::string short_text(const std::string& text) {
  constexpr std::size_t most = 60;
  return text.size() <= most ? text : text.substr(0, most) + " ...";
}

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json facts_json(const diagnose::Diagnosis& one) {
  const diagnose::Facts& facts = one.facts;
  Json json;
  json["verdict"] = name(one.verdict);
  json["sentence"] = one.sentence;
  json["findings"] = one.findings;
  json["pairing"] = or_null(facts.pairing);
  json["direction"] = facts.clockwise ? Json(*facts.clockwise ? "clockwise" : "counterclockwise") : Json(nullptr);
  json["first"] = or_null(facts.first);
  json["rotary_dim"] = or_null(facts.rotary_dim);
  json["positions"] = positions_json(facts.positions);
  json["inv_freq"] = facts.inv_freq.empty() ? Json(nullptr) : Json(facts.inv_freq);
  json["axis"] = facts.axis.empty() ? Json(nullptr) : Json(facts.axis);
  json["base"] = or_null(facts.base);
  json["scaling"] = facts.scaling ? Json(name(*facts.scaling)) : Json(nullptr);
  json["scaling_parameters"] = facts.scaling ? parameters_of(*facts.scaling) : Json(nullptr);
  json["attention_factor"] = or_null(facts.attention_factor);
  json["precision"] = facts.precision ? Json(name(*facts.precision)) : Json(nullptr);
  json["layout"] = facts.layout.empty() ? Json(nullptr) : Json(facts.layout);
  json["heads"] = facts.heads.empty() ? Json(nullptr) : Json(facts.heads);
  json["residual"] = one.residual;
  return json;
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
  const Json positions = positions_json(facts.positions);
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

std::vector<TensorPair> tensor_pairs(const char* operation, const std::string& before, const std::string& after,
                                     const std::vector<std::string>& names) {
  if (is_dash(files::path_of(before)) && is_dash(files::path_of(after))) {
    throw UsageError("standard input holds one file: - can stand for one of the two");
  }
  InputTensors first(files::path_of(before)), second(files::path_of(after));
  std::vector<TensorPair> pairs;
  const auto add = [&](const std::string& name) {
    pairs.push_back({name, first.read(name), second.read(name)});
    pairs.back().before.name = pairs.back().after.name = name;
  };
  if (first.format() == files::Format::npy || second.format() == files::Format::npy) {
    const InputTensors& named = first.format() == files::Format::npy ? second : first;
    if (names.empty() && named.infos().size() != 1) {
      throw Error(Code::TENSOR, "[" + std::string(operation) + "] --tensor must name one of " +
                                    names_of(named.infos()) + " beside an .npy but got none");
    }
    add(names.empty() ? named.infos().front().name : names.front());
    return pairs;
  }
  const std::vector<std::string> chosen = names.empty() ? common_names(first.infos(), second.infos()) : names;
  if (chosen.empty()) {
    throw Error(Code::TENSOR, "[" + std::string(operation) + "] the files must have a tensor of one name but got " +
                                  names_of(first.infos()) + " in '" + first.name() + "' and " +
                                  names_of(second.infos()) + " in '" + second.name() + "'");
  }
  for (const std::string& name : chosen) add(name);
  return pairs;
}

void add_diagnosis_options(Command& command, DiagnosisRequest& request, std::vector<std::string>& tensors) {
  command
      .option("--tensor", tensors,
              "names of the tensors (default: q and k, whichever is there, else all that both\nfiles have)")
      .type_name("NAME");
  add_positions_options(command, request.positions);
  command
      .option("--layout", request.layout,
              "order of the dimensions: b batch, t tokens, h heads, d head_dim (default: found from\nthe heads of the "
              "config and from the rotation)")
      .one_of(layout_words)
      .type_name("WORD");
}

namespace {

// Whether the tensor's heads are the rope's: whole, the bare block, or flat.
bool fits_width(const Tensor& tensor, const ModelRope& used) {
  const std::int64_t last = tensor.shape.empty() ? 0 : tensor.shape.back();
  if (used.first > 0 && last == used.rope.rotary_dim) return true;
  return last == used.rope.head_dim || (tensor.shape.size() < 4 && last % used.rope.head_dim == 0);
}

}  // namespace

Asking::Asking(const DiagnosisRequest& request, const std::vector<TensorPair>& pairs) {
  const Source& source = request.source;
  const bool check = std::string_view(request.operation) == "check";
  question_.layout = request.layout;
  question_.length = source.length;
  if (source.config.empty() && !source.base && source.inv_freq.empty()) {
    if (request.positions.spec) question_.positions = given_positions(parse_positions(*request.positions.spec, 1));
    if (request.positions.set) question_.positions = given_positions(*request.positions.set);
    return;
  }
  const std::int64_t last = pairs.front().before.shape.empty() ? 0 : pairs.front().before.shape.back();
  model_ = read_model(source, source.head_dim.value_or(static_cast<int>(std::min<std::int64_t>(last, 65536))));
  const auto meant = [&](const ModelRope& used) {
    Meant one{&used, std::nullopt, false};
    if (request.positions.given() || check) {  // check throws where 0, 1, 2, ... are no positions
      const PositionSet set = positions_of(request.operation, request.positions, model_, used);
      if (request.positions.given()) one.positions = given_positions(set);
    } else {
      one.places_unknown = used.coordinates && !request.positions.same_on_every_axis;
    }
    return one;
  };
  named_ = source.rope.has_value() || model_.ropes.size() == 1;
  if (!named_) {
    std::optional<Error> first;
    for (const ModelRope& used : model_.ropes) {
      if (!fits_width(pairs.front().before, used)) continue;
      try {
        ropes_.push_back(meant(used));
      } catch (const Error& error) {  // positions of another rope's axes
        if (!first) first = error;
      }
    }
    if (ropes_.empty() && first) throw *first;
  }
  if (ropes_.empty()) ropes_.push_back(meant(chosen_rope(model_, source)));
}

diagnose::Question Asking::question(const std::string& tensor, std::size_t rope) const {
  diagnose::Question question = question_;
  question.role = diagnose::role_of(tensor);
  if (ropes_.empty()) return question;
  question.rope = ropes_[rope].rope;
  question.positions = ropes_[rope].positions;
  question.places_unknown = ropes_[rope].places_unknown;
  return question;
}

std::string Asking::rope_text(std::size_t rope) const {
  if (named_) return "";
  return "rope " + std::to_string(ropes_[rope].rope - model_.ropes.data()) + " of " +
         std::to_string(model_.ropes.size());
}

std::string settled_layout(const std::vector<TensorPair>& pairs, const std::vector<std::string>& layouts,
                           const Asking& asking, std::size_t rope) {
  if (!asking.has_rope()) return "";
  std::vector<diagnose::FoundLayout> found;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    found.push_back({layouts[i], diagnose::role_of(pairs[i].name), pairs[i].before.shape});
  }
  return diagnose::settled_layout(found, *asking.question("", rope).rope);
}

namespace {

Diagnosed diagnose_by(const std::vector<TensorPair>& pairs, const Asking& asking, std::size_t rope) {
  Diagnosed result;
  std::vector<std::string> layouts;
  ProgressLine progress("diagnose", static_cast<std::int64_t>(pairs.size()));
  for (const TensorPair& pair : pairs) {
    progress.done(static_cast<std::int64_t>(layouts.size()));
    result.tensors.push_back(
        {pair.name, diagnose::diagnose(pair.before, pair.after, asking.question(pair.name, rope))});
    layouts.push_back(result.tensors.back().diagnosis.facts.layout);
  }
  const std::string layout = settled_layout(pairs, layouts, asking, rope);
  for (std::size_t i = 0; i < pairs.size() && !layout.empty(); ++i) {
    if (layouts[i] == layout || layouts[i].empty()) continue;
    diagnose::Question question = asking.question(pairs[i].name, rope);
    question.layout_of_heads = layout;
    result.tensors[i].diagnosis = diagnose::diagnose(pairs[i].before, pairs[i].after, question);
  }
  result.all = diagnose::combine(result.tensors);
  return result;
}

// Of a diagnosis by a rope that may not be the one meant: another base is the last thing to believe.
int wrongness(const Diagnosed& diagnosed) {
  int sum = 0;
  for (const diagnose::NamedDiagnosis& one : diagnosed.tensors) {
    const diagnose::Verdict verdict = one.diagnosis.verdict;
    if (verdict == diagnose::Verdict::as_configured) continue;
    const bool base = verdict == diagnose::Verdict::base, scaling = verdict == diagnose::Verdict::scaling;
    sum += 2 * static_cast<int>(one.diagnosis.findings.size()) + (base ? 4 : scaling ? 2 : 0);
    if (verdict == diagnose::Verdict::cannot_tell) sum += 6;
  }
  return sum;
}

}  // namespace

Diagnosed diagnose_pairs(const std::vector<TensorPair>& pairs, const Asking& asking) {
  Diagnosed best = diagnose_by(pairs, asking, 0);
  std::size_t chosen = 0;
  for (std::size_t rope = 1; rope < asking.ropes() && wrongness(best) > 0; ++rope) {
    Diagnosed other = diagnose_by(pairs, asking, rope);
    if (wrongness(other) >= wrongness(best)) continue;
    best = std::move(other);
    chosen = rope;
  }
  if (const std::string text = asking.rope_text(chosen); !text.empty()) {
    best.all.sentence += " (by " + text + (asking.ropes() > 1 ? ", which fits best; --rope names one)" : ")");
  }
  return best;
}

Diagnosed diagnose_scores(const std::vector<TensorPair>& pairs, const Asking& asking) {
  Diagnosed result;
  for (const TensorPair& pair : pairs) {
    result.tensors.push_back(
        {pair.name, diagnose::diagnose_scores(pair.before, pair.after, asking.question(pair.name, 0))});
  }
  result.all = diagnose::combine(result.tensors);
  return result;
}

void print_diagnosis(const Diagnosed& diagnosed) {
  std::cout << printable(diagnosed.all.sentence) << '\n';
  for (const auto& [name, one] : diagnosed.tensors) {
    if (!one.facts.layout.empty()) std::cout << '\n' << facts_text(name, one);
  }
}

nlohmann::ordered_json json_of(const Diagnosed& diagnosed) {
  Json json = facts_json(diagnosed.all);
  if (diagnosed.tensors.size() > 1) {
    for (const auto& [name, one] : diagnosed.tensors) json["tensors"][name] = facts_json(one);
  }
  return json;
}

}  // namespace rotary::cli
