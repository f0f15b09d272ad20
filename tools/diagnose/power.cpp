// Which faults data that are as asked would have shown: each candidate's turns in place of the asked ones go through
// the diagnosis's test.
#include <algorithm>
#include <cmath>
#include <functional>

#include "examination.h"
#include "values/number_text.h"
#include "values/scaling_fields.h"

namespace rotary::diagnose {

namespace {

// Whether a fault shows, and would by less of it: other data of the kind deviate otherwise from what is asked.
// is_rival: the diagnosis tries it even where the asked motion holds.
bool shows(const Turns& turns, const Motion& asked, const Motion& fault, bool is_rival) {
  constexpr double less = 0.7, sure = 10;  // the share of the fault; an advantage, where the diagnosis takes 4
  const auto holds = [&](double share) {
    return compare(turns, asked, float32_slack,
                   [&](std::int64_t row, int pair) {
                     const Complex turn = asked.turn(row, pair);
                     return turn + share * (fault.turn(row, pair) - turn);
                   })
        .holds;
  };
  if (!holds(less) && !holds(-less)) return true;
  return is_rival && advantage(turns, asked, fault, true) > sure;
}

// Returns the name of the value that a candidate changes in the asked rope, or "" if it changes none, or changes one by
// so much that it would show where a smaller change may not.
std::string changed_value(const Explanation& other, const Rope& own) {
  bool near = true;
  const auto differs = [&](auto type, const char* field) {
    using Value = decltype(type);
    const Value *a = scalings::value_of<Value>(own.scaling, field),
                *b = scalings::value_of<Value>(other.rope.scaling, field);
    if (a == nullptr || b == nullptr || *a == *b) return false;
    if constexpr (!std::is_same_v<Value, bool>) near = *a <= 2 * *b && *b <= 2 * *a;
    return true;
  };
  const Cause cause = other.found.cause;
  if (cause == Cause::short_list || cause == Cause::long_list) return "list of longrope";
  if (cause == Cause::within_length || cause == Cause::other_length) return "length";
  if (cause == Cause::scaling_left_out) return std::string("scaling ") + name(own.scaling);
  if (cause != Cause::scaling || other.rope.scaling.index() != own.scaling.index()) return "";
  if (differs(0.0, "factor")) return near ? "factor" : "";
  if (differs(std::int64_t{0}, "trained_length")) return near ? "trained length" : "";
  return differs(false, "truncate") ? "truncate" : "";
}

// Puts `word` into one of the two lists: it shows if every fault of that word does.
void add_word(Power& power, const std::string& word, bool is_seen) {
  for (auto* list : {&power.would_show, &power.would_not_show}) {
    const auto known = std::ranges::find(*list, word);
    if (known == list->end()) continue;
    if (is_seen || list == &power.would_not_show) return;
    list->erase(known);
  }
  (is_seen ? power.would_show : power.would_not_show).push_back(word);
}

std::string faults_text(const Power& power, const std::vector<std::string>& words) {
  std::vector<std::string> texts;
  for (const std::string& word : words) {
    const bool of_scaling = word == "factor" || word == "trained length" || word == "length" || word == "truncate";
    texts.push_back(word + (of_scaling ? " of " + power.scaling : ""));
    if (word == "base" && power.base > 0) texts.back() += " to " + detail::significant(100 * power.base, 2) + " %";
  }
  return texts.empty() ? "nothing" : files::listed(texts);
}

}  // namespace

Power power_of(const Turns& all, const Asked& asked, bool pairing_shows, const std::vector<const ModelRope*>& others) {
  Power power{.tokens = all.layout().tokens, .unit = all.unit, .scaling = name(asked.used.rope.scaling)};
  Turns turns = thinned(all);
  for (int widened = 0; widened < 40 && !compare(turns, asked.motion).holds; ++widened) {  // by noise, which is known
    for (double& sigma : turns.sigma) sigma *= 2;
  }
  const Motion& own = asked.motion;
  const Rope rope = rope_for_block(asked.used.rope, asked.block);
  const auto try_motion = [&](const char* word, const std::function<void(Motion&)>& change, bool is_rival = false) {
    Motion fault = own;
    change(fault);
    add_word(power, word, shows(turns, own, fault, is_rival));
  };
  // Whether it shows; false where its speeds are the asked ones. An empty word is not listed.
  const auto try_rope = [&](const std::string& word, const Rope& other, std::int64_t length, bool is_rival) {
    const Motion fault = motion_of({other, length, {}}, asked);
    const bool is_other = has_one_speed_per_pair(rope) && fault.speed.size() == own.speed.size();
    if (!is_other || fault.speed == own.speed) return false;
    const bool is_seen = shows(turns, own, fault, is_rival);
    if (!word.empty()) add_word(power, word, is_seen);
    return is_seen;
  };
  add_word(power, "pairing", pairing_shows);
  try_motion("direction", [](Motion& one) { std::ranges::for_each(one.speed, [](double& speed) { speed = -speed; }); });
  const bool is_near = std::ranges::all_of(
      own.position, [](const std::vector<double>& of_axis) { return std::ranges::max(of_axis) < far_positions; });
  try_motion(
      "offset", [](Motion& one) { one.shift(1); }, is_near);
  for (const double change : {0.5, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001}) {
    Rope other = rope;
    other.base *= 1 + change;
    if (!try_rope(change == 0.5 ? "base" : "", other, asked.length, false)) break;
    power.base = change;
  }
  for (const Explanation& one : rivals(rope, asked.length, asked.context)) {
    if (const std::string word = changed_value(one, rope); !word.empty()) try_rope(word, one.rope, one.length, true);
  }
  if (rope.rotary_dim < rope.head_dim && rope.exponent_dim == 0) {  // exponents over the whole head
    Rope other = rope;
    other.exponent_dim = rope.head_dim;
    try_rope("block", other, asked.length, false);
  }
  for (const ModelRope* other : others)
    try_rope("layer's rope", rope_for_block(other->rope, asked.block), asked.length, true);
  if (asked.frequencies.head_rows > 1) {
    const Numbers rows(asked.rows.rbegin(), asked.rows.rend());
    try_motion("heads' rows", [&](Motion& one) { one = motion_of(asked.frequencies, own, rows); });
  }
  if (!own.phase.empty()) try_motion("phase", [](Motion& one) { one.phase.clear(); });
  if (!own.growth.empty()) try_motion("amplitude", [](Motion& one) { one.growth.clear(); });
  const double other_factor = own.from.empty() ? 1 : asked.frequencies.attention_factor;
  if (std::abs(own.factor - other_factor) > 1e-6)
    try_motion("attention factor", [=](Motion& one) { one.factor = other_factor; });
  return power;
}

std::string Power::sentence() const {
  const std::string text = (tokens == 1 ? "this token of " : "these " + std::to_string(tokens) + " tokens of ") +
                           type_of(unit) + (tokens == 1 ? " rules out " : " rule out ") +
                           (would_show.empty() ? "" : "a wrong ") + faults_text(*this, would_show);
  return text + (would_not_show.empty() ? "" : "; not ruled out: another " + faults_text(*this, would_not_show));
}

Power common_power(const std::vector<NamedCheck>& tensors) {
  Power common;
  for (const NamedCheck& one : tensors) {
    const Power& power = one.power;
    if (power.tokens == 0) continue;
    if (common.tokens == 0) common = {.tokens = power.tokens, .unit = power.unit, .scaling = power.scaling};
    if (power.scaling != name(Scaling{})) common.scaling = power.scaling;
    common.tokens = std::min(common.tokens, power.tokens);
    common.unit = std::max(common.unit, power.unit);
    common.base = std::max(common.base, power.base);
    for (const std::string& word : power.would_show) add_word(common, word, true);
    for (const std::string& word : power.would_not_show) add_word(common, word, false);
  }
  return common;
}

}  // namespace rotary::diagnose
