// What data that are as asked could have shown: the turns that a fault would have given go through the diagnosis's
// test.
#include <algorithm>
#include <cmath>

#include "examination.h"
#include "values/number_text.h"
#include "values/scaling_fields.h"

namespace rotary::diagnose {

namespace {

// Something else than what is asked, at the asked positions.
struct Fault {
  std::string word;
  Motion motion;
  bool is_rival = false;  // the diagnosis tries it even where what is asked holds
  double change = 0;      // of a base
  double further = 0;     // positions
};

// Rows of measured turns at other positions and of other elements, with the motion that is asked of them.
struct Probe {
  Turns turns;
  Motion asked;
  std::vector<Complex> deviation = {};
};

// `rows` rows, spread evenly over those of the turns; of more than there are, the same again behind them.
Probe probe_of(const Turns& turns, const Motion& asked, std::int64_t rows, double unit) {
  Probe probe{turns, asked};
  const double finer = unit / turns.unit;
  const std::int64_t all = turns.rows();
  probe.turns.reading.layout.batch = 1;
  probe.turns.reading.layout.tokens = rows;
  probe.turns.unit = unit;
  probe.turns.turn.clear();
  probe.turns.sigma.clear();
  probe.turns.weight.clear();
  for (std::vector<double>& positions : probe.asked.position) positions.clear();
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t from = rows < all ? row * (all - 1) / (rows - 1) : row % all;
    const double further = rows > all ? static_cast<double>(row - from) : 0;
    for (std::size_t axis = 0; axis < asked.position.size(); ++axis)
      probe.asked.position[axis].push_back(asked.position[axis][static_cast<std::size_t>(from)] + further);
    for (int pair = 0; pair < turns.pairs(); ++pair) {
      const std::size_t at = turns.at(from, pair);
      probe.deviation.push_back(finer * (turns.turn[at] - asked.turn(from, pair)));
      probe.turns.turn.push_back(probe.asked.turn(row, pair) + probe.deviation.back());
      probe.turns.sigma.push_back(turns.sigma[at] * finer);
      probe.turns.weight.push_back(turns.weight[at]);
    }
  }
  return probe;
}

// Whether a fault shows, and would by less: of what is just seen, other data of the kind show nothing.
bool shows(const Probe& probe, const Fault& fault) {
  constexpr double less = 0.7, sure = 10;  // of the fault; an advantage, of which the diagnosis takes 4
  Motion motion = fault.motion;
  motion.position = probe.asked.position;
  for (std::vector<double>& positions : motion.position)
    std::ranges::for_each(positions, [&](double& one) { one += fault.further; });
  const auto faulty = [&](double share, double sign) {
    Turns turns = probe.turns;
    for (std::int64_t row = 0; row < turns.rows(); ++row) {
      for (int pair = 0; pair < turns.pairs(); ++pair) {
        const Complex asked = probe.asked.turn(row, pair);
        turns.turn[turns.at(row, pair)] =
            asked + share * (motion.turn(row, pair) - asked) + sign * probe.deviation[turns.at(row, pair)];
      }
    }
    return turns;
  };
  if (!compare(faulty(less, 1), probe.asked).holds && !compare(faulty(less, -1), probe.asked).holds) return true;
  const Turns turns = faulty(1, 1);
  return fault.is_rival && compare(turns, motion).holds && advantage(turns, probe.asked, motion) > sure;
}

// The one value of the asked rope that another has otherwise; "": none of its own, or several.
std::string word_of(const Explanation& other, const Rope& own) {
  bool near = true;  // what shows of values far from the own, shows the more
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
  std::vector<Fault> faults = {{"direction", asked.motion}, {"offset", asked.motion, false, 0, 1}};
  for (double& speed : faults[0].motion.speed) speed = -speed;
  const bool one_each = has_one_speed_per_pair(own);
  const auto add = [&](const std::string& word, const Rope& rope, std::int64_t length, bool is_rival, double change) {
    Motion motion = motion_of({rope, length, {}}, asked);
    if (!one_each || word.empty() || motion.speed == asked.motion.speed ||
        motion.speed.size() != asked.motion.speed.size())
      return;
    faults.push_back({word, std::move(motion), is_rival, change});
  };
  for (const double change : {0.5, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001}) {
    Rope rope = own;
    rope.base *= 1 + change;
    add("base", rope, asked.length, false, change);
  }
  for (const Explanation& one : rivals(own, asked.length, asked.context))
    add(word_of(one, own), one.rope, one.length, true, 0);
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
  if (!asked.motion.phase.empty()) {
    faults.push_back({"phase", asked.motion});
    faults.back().motion.phase.clear();
  }
  if (!asked.motion.growth.empty()) {
    faults.push_back({"amplitude", asked.motion});
    faults.back().motion.growth.clear();
  }
  if (std::abs(asked.motion.factor - 1) > 1e-6) {
    faults.push_back({"attention factor", asked.motion});
    faults.back().motion.factor = 1;
  }
  return faults;
}

std::string list_of(const Power& power, const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ", ") + word;
    if (word == "base") text += power.base > 0 ? " to " + detail::significant(100 * power.base, 2) + " %" : "";
    if (word == "factor" || word == "trained length" || word == "length" || word == "truncate")
      text += " of " + power.scaling;
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace

Power power_of(Turns turns, const Asked& asked, bool pairing_shows, const std::vector<const ModelRope*>& others) {
  for (int widened = 0; widened < 40 && !compare(turns, asked.motion).holds; ++widened) {  // by noise, which is known
    for (double& sigma : turns.sigma) sigma *= 2;
  }
  constexpr std::int64_t few = 32, many = 512;  // what these show, all show
  const std::int64_t rows = std::min(turns.rows(), many);
  const Probe some = probe_of(turns, asked.motion, std::min(few, rows), turns.unit);
  const std::optional<Probe> all =
      rows > few ? std::optional(probe_of(turns, asked.motion, rows, turns.unit)) : std::nullopt;
  Power power{.tokens = turns.layout().tokens, .unit = turns.unit, .scaling = name(asked.used.rope.scaling)};
  std::vector<Fault> unseen;
  double last_base = 0;
  const auto say = [&](const std::string& word, bool is_seen, bool smaller) {
    for (auto* list : {&power.would_show, &power.would_not_show}) {
      if (std::ranges::find(*list, word) != list->end()) {
        if (list == &power.would_not_show || is_seen || smaller) return;
        list->erase(std::ranges::find(*list, word));
      }
    }
    (is_seen ? power.would_show : power.would_not_show).push_back(word);
  };
  say("pairing", pairing_shows, false);
  for (const Fault& fault : faults_of(asked, others)) {
    if (fault.change > 0 && fault.change < 0.5 && power.base != last_base) continue;  // larger ones did not show
    last_base = fault.change;
    const bool is_seen = shows(some, fault) || (all && shows(*all, fault));
    if (is_seen && fault.change > 0) power.base = fault.change;
    if (!is_seen && (fault.change == 0 || fault.change == 0.5)) unseen.push_back(fault);
    say(fault.word, is_seen, fault.change > 0);
  }
  if (unseen.empty()) return power;
  const auto shows_them = [&](const Probe& probe) {
    return std::ranges::all_of(unseen, [&](const Fault& fault) { return shows(probe, fault); });
  };
  power.in_f32 = turns.unit > 0x1p-24 && rows <= 4096 && shows_them(probe_of(turns, asked.motion, rows, 0x1p-24));
  for (const std::int64_t more : {64, 256, 1024}) {
    if (more <= turns.rows() || turns.layout().batch > 1 || asked.motion.position.size() > 1 || power.wanted > 0)
      continue;
    if (shows_them(probe_of(turns, asked.motion, more, turns.unit))) power.wanted = more;
  }
  return power;
}

std::string Power::sentence() const {
  std::string text = (tokens == 1 ? "this token" : "these " + std::to_string(tokens) + " tokens") + " of " +
                     type_of(unit) + " would show: " + list_of(*this, would_show);
  if (would_not_show.empty()) return text;
  text += "; not: " + list_of(*this, would_not_show);
  const std::string more = wanted > 0 ? std::to_string(wanted) + " tokens" : "";
  const std::string finer = in_f32 ? std::string(more.empty() ? "" : ", or ") + "f32" : "";
  return text + (more.empty() && finer.empty() ? "" : " (take " + more + finer + ")");
}

Power common_power(const std::vector<NamedCheck>& tensors) {
  Power common;
  for (const NamedCheck& one : tensors) {
    const Power& power = one.power;
    if (power.tokens == 0) continue;
    const bool first = common.tokens == 0, open = !power.would_not_show.empty(), known = common.would_not_show.empty();
    const bool same = common.would_not_show == power.would_not_show;
    if (open) common.wanted = known ? power.wanted : same ? std::max(common.wanted, power.wanted) : 0;
    if (open) common.in_f32 = power.in_f32 && (known || common.in_f32);
    common.base = std::max(common.base, power.base);
    common.tokens = first ? power.tokens : std::min(common.tokens, power.tokens);
    common.unit = first ? power.unit : common.unit;
    common.scaling = first ? power.scaling : common.scaling;
    for (const auto& [all, own] :
         {std::pair(&common.would_show, &power.would_show), {&common.would_not_show, &power.would_not_show}}) {
      for (const std::string& word : *own) {
        if (std::ranges::find(*all, word) == all->end()) all->push_back(word);
      }
    }
    std::erase_if(common.would_show, [&](const std::string& word) {
      return std::ranges::find(common.would_not_show, word) != common.would_not_show.end();
    });
  }
  return common;
}

}  // namespace rotary::diagnose
