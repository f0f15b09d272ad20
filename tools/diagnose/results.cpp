// One diagnosis of several tensors.
#include <algorithm>
#include <cmath>

#include "examination.h"
#include "values/scaling_fields.h"

namespace rotary::diagnose {

namespace {

int weight(Verdict verdict) {
  if (verdict == Verdict::as_configured) return 0;
  return verdict == Verdict::noise ? 1 : verdict == Verdict::cannot_tell ? 2 : 3;
}

bool is_said_by_remarks(const NamedCheck& one) { return one.outcome == Outcome::undecided && !one.remarks.empty(); }

// One sentence for tensors of one fault, with the residuals of the first.
std::string sentence_of(const std::vector<NamedCheck>& tensors, std::size_t first, std::vector<bool>& is_done) {
  const std::vector<Finding>& found = tensors[first].diagnosis.found;
  std::vector<std::string> names;
  for (std::size_t i = first; i < tensors.size(); ++i) {
    const bool same = !is_done[i] && !tensors[first].name.empty() && tensors[i].diagnosis.found == found;
    if (i != first && !same) continue;
    names.push_back(who(tensors[i].name));
    is_done[i] = true;
  }
  return render(names, found);
}

// ---- as JSON; the keys are a contract ----------------------------------------------------------

using Json = nlohmann::ordered_json;
using files::finite_or_null;

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

void add_first(Json& json, const std::vector<Finding>& found) {
  const Json first = found.empty() ? Json() : finding_json(found.front());
  for (const char* key : {"cause", "numbers", "where"}) json[key] = found.empty() ? Json(nullptr) : first[key];
}

Json diagnosis_json(const Diagnosis& one) {
  const Facts& facts = one.facts;
  Json json;
  json["verdict"] = name(one.verdict);
  json["sentence"] = one.sentence;
  json["findings"] = one.findings;
  add_first(json, one.found);
  json["found"] = Json::array();
  for (const Finding& finding : one.found) json["found"].push_back(finding_json(finding));
  json["pairing"] = or_null(facts.pairing);
  json["direction"] = facts.clockwise ? Json(*facts.clockwise ? "clockwise" : "counterclockwise") : Json(nullptr);
  json["first"] = or_null(facts.first);
  json["rotary_dim"] = or_null(facts.rotary_dim);
  json["positions"] = positions_json(facts.positions);
  json["inv_freq"] = facts.inv_freq.empty() ? Json(nullptr) : Json(facts.inv_freq);
  json["axis"] = facts.axis.empty() ? Json(nullptr) : Json(facts.axis);
  json["base"] = or_null(facts.base);
  json["scaling"] = facts.scaling ? Json(name(*facts.scaling)) : Json(nullptr);
  json["scaling_parameters"] = facts.scaling ? fields_json(*facts.scaling) : Json(nullptr);
  json["attention_factor"] = or_null(facts.attention_factor);
  json["precision"] = facts.precision ? Json(name(*facts.precision)) : Json(nullptr);
  json["noise"] = or_null(facts.noise);
  json["layout"] = facts.layout.empty() ? Json(nullptr) : Json(facts.layout);
  json["heads"] = facts.heads.empty() ? Json(nullptr) : Json(facts.heads);
  json["residual"] = finite_or_null(one.residual);
  return json;
}

Json diagnosed_json(const Diagnosed& diagnosed) {
  Json json = diagnosis_json(diagnosed.all);
  if (diagnosed.tensors.size() > 1) {
    for (const NamedCheck& one : diagnosed.tensors) {
      Json& tensor = json["tensors"][one.name] = diagnosis_json(one.diagnosis);
      if (one.layer) tensor["layer"] = *one.layer;
      if (!one.rope.empty()) tensor["rope"] = one.rope;
    }
  }
  return json;
}

void add_power(Json& json, const Power& power) {
  json["would_show"] = power.would_show;
  json["would_not_show"] = power.would_not_show;
  json["base_shown_from"] = power.base > 0 ? Json(power.base) : Json(nullptr);
}

Json check_json(const NamedCheck& one) {
  const Checked& checked = one.checked;
  Json json;
  json["equal"] = one.outcome == Outcome::equal;
  json["verdict"] = name(one.outcome);
  json["sentence"] = one.sentence;
  add_first(json, is_said_by_remarks(one) ? one.remarks : one.diagnosis.found);
  json["max_error"] = finite_or_null(checked.max_error);
  json["tolerance"] = finite_or_null(checked.tolerance);
  json["worst"] = {{"error", finite_or_null(checked.error)}, {"allowed", finite_or_null(checked.allowed)}};
  json["first"] = nullptr;
  if (checked.first) {
    json["first"] = {{"batch", checked.first->batch},
                     {"token", checked.first->token},
                     {"head", checked.first->head},
                     {"pair", or_null(checked.first->pair)},
                     {"element", checked.first->element}};
  }
  json["layout"] = checked.layout.empty() ? Json(nullptr) : Json(checked.layout);
  json["layer"] = or_null(one.layer);
  json["rope"] = one.rope.empty() ? Json(nullptr) : Json(one.rope);
  add_power(json, one.power);
  return json;
}

}  // namespace

std::string who(const std::string& tensor) { return tensor.empty() ? "the tensor" : tensor; }

void say(NamedCheck& one) {
  one.diagnosis.sentence = render({who(one.name)}, one.diagnosis.found);
  for (const Finding& finding : one.diagnosis.found) {
    if (is_fault(finding)) one.diagnosis.findings.push_back(render(finding));
  }
  const bool undecided = is_said_by_remarks(one);
  one.sentence = undecided ? render({who(one.name)}, one.remarks) : one.diagnosis.sentence;
  for (const Finding& remark : one.remarks) {
    if (!undecided) one.note += (one.note.empty() ? "" : "; ") + render(remark);
  }
}

Diagnosis combine(const std::vector<NamedCheck>& tensors, const std::string& as) {
  const auto worst = std::max_element(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return weight(a.diagnosis.verdict) < weight(b.diagnosis.verdict);
  });
  Diagnosis result = worst->diagnosis;
  std::vector<std::string> still, moved, right;
  std::vector<bool> is_done(tensors.size(), false);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Verdict verdict = tensors[i].diagnosis.verdict;
    const Cause cause = tensors[i].diagnosis.found.front().cause;
    const bool is_still = cause == Cause::not_to_rotate || cause == Cause::changed_nonetheless;
    if (verdict != Verdict::cannot_tell && !is_still)
      (verdict == Verdict::not_rotated ? still : moved).push_back(tensors[i].name);
    if (verdict != Verdict::as_configured) continue;
    right.push_back(tensors[i].name);
    is_done[i] = weight(result.verdict) > 0;
  }
  const bool some = !still.empty() && !moved.empty();
  if (some) {
    result.verdict = Verdict::some_heads;
    result.sentence = "only " + files::listed(moved, " and ") + (moved.size() == 1 ? " is" : " are") + " rotated; " +
                      files::listed(still, " and ") + (still.size() == 1 ? " is" : " are") +
                      " the same before and after";
    for (std::size_t i = 0; i < tensors.size(); ++i)
      is_done[i] = is_done[i] || tensors[i].diagnosis.verdict == Verdict::not_rotated;
  } else {
    result.sentence = sentence_of(tensors, static_cast<std::size_t>(worst - tensors.begin()), is_done);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!is_done[i]) result.sentence += ". " + sentence_of(tensors, i, is_done);
  }
  if (weight(result.verdict) > 0 && !right.empty() && !some) {
    result.sentence += ". " + files::listed(right, " and ") + (right.size() == 1 ? " is " : " are ") + as;
  }
  return result;
}

Outcome CheckResult::outcome() const noexcept {
  Outcome worst = Outcome::equal;
  for (const NamedCheck& one : tensors) worst = std::max(worst, one.outcome);
  return worst;
}

const char* name(Outcome outcome) noexcept {
  return outcome == Outcome::equal ? "equal" : outcome == Outcome::differs ? "differs" : "undecided";
}

nlohmann::ordered_json positions_json(const std::vector<std::vector<double>>& rows) {
  if (rows.empty()) return nullptr;
  const auto number = [](double value) {
    const bool is_whole = std::abs(value) < 0x1p63 && value == static_cast<double>(static_cast<std::int64_t>(value));
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

nlohmann::ordered_json fields_json(const Scaling& scaling) {
  Json fields = Json::object();
  scalings::for_each_field(scaling, [&](const auto& field, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::optional<double>>) {
      fields[field.name] = or_null(value);
    } else {
      fields[field.name] = value;
    }
  });
  return fields;
}

std::string to_json(const Diagnosed& diagnosed) { return files::json_text(diagnosed_json(diagnosed)); }

// The worst tensor stands for all, with the largest error and tolerance of any.
std::string to_json(const CheckResult& result) {
  const NamedCheck* shown = &result.tensors.front();
  double max_error = shown->checked.max_error, tolerance = shown->checked.tolerance;
  for (const NamedCheck& one : result.tensors) {
    if (one.outcome > shown->outcome) shown = &one;
    max_error = std::max(max_error, one.checked.max_error);
    tolerance = std::max(tolerance, one.checked.tolerance);
  }
  Json json = check_json(*shown);
  json["max_error"] = finite_or_null(max_error);
  json["tolerance"] = finite_or_null(tolerance);
  add_power(json, result.power);
  json["tensor"] = shown->name;
  const bool right = result.all.verdict == Verdict::as_configured && result.equal();
  json["diagnosis"] = right ? Json(nullptr) : diagnosed_json(result);
  if (result.tensors.size() > 1) {
    for (const NamedCheck& one : result.tensors) json["tensors"][one.name] = check_json(one);
  }
  return files::json_text(json);
}

}  // namespace rotary::diagnose
