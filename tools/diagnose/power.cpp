// Which faults data that are as asked would have shown: each candidate's turns in place of the asked ones go through
// the diagnosis's test.
#include <algorithm>
#include <cmath>

#include "examination.h"
#include "values/number_text.h"
#include "values/scaling_fields.h"

namespace rotary::diagnose {

namespace {

struct Fault {
  std::string word;
  Motion motion;          // at the asked positions
  bool is_rival = false;  // the diagnosis tries it even where the asked motion holds
  double change = 0;      // a base's, relative
};

// Whether the fault shows, and would by less of it: other data of the kind deviate otherwise from what is asked.
bool shows(const Turns& turns, const Motion& asked, const Fault& fault) {
  constexpr double less = 0.7, sure = 10;  // the share of the fault; an advantage, where the diagnosis takes 4
  const auto holds = [&](double share) {
    return compare(turns, asked, float32_slack,
                   [&](std::int64_t row, int pair) {
                     const Complex turn = asked.turn(row, pair);
                     return turn + share * (fault.motion.turn(row, pair) - turn);
                   })
        .holds;
  };
  if (!holds(less) && !holds(-less)) return true;
  return fault.is_rival && advantage(turns, asked, fault.motion, true) > sure;
}

// The one value of the asked rope that a candidate changes; "" where it changes none, or one to a far value, which
// shows where a nearer one may not.
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

std::vector<Fault> faults_of(const Asked& asked, const std::vector<const ModelRope*>& others) {
  const Rope own = rope_for_block(asked.used.rope, asked.block);
  std::vector<Fault> faults;
  const auto change = [&](const char* word) -> Motion& {
    return faults.emplace_back(Fault{word, asked.motion}).motion;
  };
  for (double& speed : change("direction").speed) speed = -speed;
  for (std::vector<double>& positions : change("offset").position)
    std::ranges::for_each(positions, [](double& one) { ++one; });
  const auto add = [&](const std::string& word, const Rope& rope, std::int64_t length, bool is_rival, double of_base) {
    Motion motion = motion_of({rope, length, {}}, asked);
    const bool moves_alike = motion.speed == asked.motion.speed || motion.speed.size() != asked.motion.speed.size();
    if (has_one_speed_per_pair(own) && !word.empty() && !moves_alike)
      faults.push_back({word, std::move(motion), is_rival, of_base});
  };
  for (const double of_base : {0.5, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001}) {
    Rope rope = own;
    rope.base *= 1 + of_base;
    add("base", rope, asked.length, false, of_base);
  }
  for (const Explanation& one : rivals(own, asked.length, asked.context))
    add(changed_value(one, own), one.rope, one.length, true, 0);
  if (own.rotary_dim < own.head_dim && own.exponent_dim == 0) {  // exponents over the whole head
    Rope rope = own;
    rope.exponent_dim = own.head_dim;
    add("block", rope, asked.length, false, 0);
  }
  for (const ModelRope* other : others)
    add("layer's rope", rope_for_block(other->rope, asked.block), asked.length, true, 0);
  if (asked.frequencies.heads > 1) {
    Numbers rows = asked.rows;
    std::ranges::reverse(rows);
    faults.push_back({"heads' rows", motion_of(asked.frequencies, asked.motion, rows)});
  }
  if (!asked.motion.phase.empty()) change("phase").phase.clear();
  if (!asked.motion.growth.empty()) change("amplitude").growth.clear();
  if (std::abs(asked.motion.factor - 1) > 1e-6) change("attention factor").factor = 1;
  return faults;
}

// Some rows, evenly spread, of turns and of the motion that is asked of them.
void take_some_rows(Turns& turns, Motion& asked) {
  constexpr std::int64_t most = 256;
  const std::int64_t all = turns.rows();
  if (all <= most) return;
  Turns some = turns;
  some.reading.layout.batch = 1;
  some.reading.layout.tokens = most;
  for (std::int64_t row = 0; row < most; ++row) {
    const std::int64_t from = row * (all - 1) / (most - 1);
    for (std::vector<double>& positions : asked.position)
      positions[static_cast<std::size_t>(row)] = positions[static_cast<std::size_t>(from)];
    for (int pair = 0; pair < turns.pairs(); ++pair) {
      some.turn[some.at(row, pair)] = turns.turn[turns.at(from, pair)];
      some.sigma[some.at(row, pair)] = turns.sigma[turns.at(from, pair)];
      some.weight[some.at(row, pair)] = turns.weight[turns.at(from, pair)];
    }
  }
  turns = std::move(some);
}

// Puts `word` into one of the two lists: it shows if every fault of that word does. any_suffices: if one does.
void add_word(Power& power, const std::string& word, bool is_seen, bool any_suffices) {
  for (auto* list : {&power.would_show, &power.would_not_show}) {
    const auto known = std::ranges::find(*list, word);
    if (known == list->end()) continue;
    if (is_seen || any_suffices || list == &power.would_not_show) return;
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
  return texts.empty() ? "nothing" : list_of(texts, ", ");
}

}  // namespace

Power power_of(Turns turns, Asked asked, bool pairing_shows, const std::vector<const ModelRope*>& others) {
  Power power{.tokens = turns.layout().tokens, .unit = turns.unit, .scaling = name(asked.used.rope.scaling)};
  take_some_rows(turns, asked.motion);
  for (int widened = 0; widened < 40 && !compare(turns, asked.motion).holds; ++widened) {  // by noise, which is known
    for (double& sigma : turns.sigma) sigma *= 2;
  }
  add_word(power, "pairing", pairing_shows, false);
  double last_base = 0;
  for (const Fault& fault : faults_of(asked, others)) {
    if (fault.change > 0 && fault.change < 0.5 && power.base != last_base) continue;  // larger ones did not show
    last_base = fault.change;
    const bool is_seen = shows(turns, asked.motion, fault);
    if (is_seen && fault.change > 0) power.base = fault.change;
    add_word(power, fault.word, is_seen, fault.change > 0);
  }
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
    common.tokens = std::min(common.tokens, power.tokens);
    common.base = std::max(common.base, power.base);
    for (const std::string& word : power.would_show) add_word(common, word, true, false);
    for (const std::string& word : power.would_not_show) add_word(common, word, false, false);
  }
  return common;
}

}  // namespace rotary::diagnose
