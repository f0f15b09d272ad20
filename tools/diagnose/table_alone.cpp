// Compares every entry of an engine's table of cos and sin, or the engine's frequencies, with the model's. To find the
// cause of a difference, a vector with (1, 0) in each pair is diagnosed, which the table turns into (cos, sin).
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "examination.h"
#include "rotary/checks.h"
#include "tensors/formats.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

using detail::shape_text;

// ---- the engine's table -------------------------------------------------------------------------

// cos and sin, [rows, columns]. A pair has one column or two copies of it: in two halves of the row, or side by side.
struct EngineTable {
  std::int64_t rows = 0;
  int pairs = 0, copies = 1;
  bool halves = true;
  std::vector<double> cos = {}, sin = {};
  double unit = 0x1p-24;  // the rounding of the type in which they are stored, at least that of float32

  std::size_t at(std::int64_t row, int pair, int copy) const {
    const int column = copies == 1 || halves ? pair + copy * pairs : 2 * pair + copy;
    return static_cast<std::size_t>(row * pairs * copies + column);
  }
};

std::vector<double> read_table(const Tensor& tensor, const char* what, EngineTable& table) {
  if (!is_float(tensor.type))
    fail(Code::DTYPE, "check", what, " must be F64, F32, F16 or BF16 but is ", name(tensor.type));
  std::vector<std::int64_t> shape = tensor.shape;
  while (shape.size() > 2 && shape.front() == 1) shape.erase(shape.begin());
  const bool fits = shape.size() == 2 && shape[0] > 0 && shape[1] > 0 && shape[1] <= 1 << 16;
  if (!fits || (table.rows != 0 && (shape[0] != table.rows || shape[1] != table.pairs))) {
    fail(Code::SHAPE, "check", what, " must be [rows, pairs] or [rows, 2 pairs], cos and sin alike, but is ",
         shape_text(tensor.shape), " (numpy.save(FILE, table[0]) saves one of several tables)");
  }
  table.rows = shape[0];
  table.pairs = static_cast<int>(shape[1]);
  table.unit = std::max(table.unit, storage_of(tensor.type).unit);
  std::vector<double> values = files::numbers_of(tensor);
  const auto odd = std::ranges::find_if_not(values, [](double value) { return std::isfinite(value); });
  if (odd != values.end()) {
    fail(Code::TENSOR, "check", "every entry of ", what, " must be finite but got ", detail::significant(*odd, 3),
         " in row ", (odd - values.begin()) / shape[1]);
  }
  return values;
}

EngineTable read_table(const Tensor& cos, const std::optional<Tensor>& sin) {
  EngineTable table;
  table.cos = read_table(cos, "cos", table);
  if (sin) {
    table.sin = read_table(*sin, "sin", table);
    return table;
  }
  if (table.pairs % 2 != 0)
    fail(Code::SHAPE, "check", "without --sin a row must hold cos and then sin, an even number of columns, but has ",
         table.pairs, " columns");
  table.pairs /= 2;
  const std::vector<double> both = std::move(table.cos);
  table.cos.clear();
  for (std::size_t i = 0; i < both.size(); ++i)
    (i / static_cast<std::size_t>(table.pairs) % 2 == 0 ? table.cos : table.sin).push_back(both[i]);
  return table;
}

// The table with the number of copies that the rope has: one if it has as many columns as the rope has pairs; else two
// if the values of cos or of sin stand twice. With the rope's width one value in eight may differ from its copy.
EngineTable with_copies(EngineTable table, const Rope& rope) {
  const EngineTable once = table;
  if (table.pairs % 2 != 0 || 2 * table.pairs == rope.rotary_dim) return table;
  table.pairs /= 2;
  table.copies = 2;
  const auto unlike = [&](bool halves, const std::vector<double>& values) {
    table.halves = halves;
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < table.rows * table.pairs; ++i) {
      const int pair = static_cast<int>(i % table.pairs);
      count += values[table.at(i / table.pairs, pair, 0)] != values[table.at(i / table.pairs, pair, 1)];
    }
    return count;
  };
  const std::int64_t half = std::min(unlike(true, table.cos), unlike(true, table.sin)),
                     side = std::min(unlike(false, table.cos), unlike(false, table.sin));
  table.halves = half != side ? half < side : rope.pairing == Pairing::half;
  const std::int64_t most = table.pairs == rope.rotary_dim / 2 ? table.rows * table.pairs / 8 : 0;
  return std::min(half, side) <= most ? table : once;
}

// ---- the question -------------------------------------------------------------------------------

struct Question {
  const Request& request;
  const ModelRope& used;
  PositionSet positions;
  Frequencies frequencies;
};

Question question_of(const Request& request, const ModelRope& used, PositionSet positions) {
  Question one{request, used, std::move(positions), {}};
  one.frequencies = frequencies(used.rope, request.length.value_or(one.positions.length()));
  if (!has_one_speed_per_pair(used.rope) || !one.frequencies.phase.empty() || used.rope.xpos.scale != 0)
    fail(Code::ROPE, "check", "the rope of a table alone must have one speed for each pair and no phases");
  return one;
}

// The comparison of all entries.
struct Held {
  Checked checked = {};
  std::int64_t off = 0, all = 0;
  std::array<bool, 2> wrong = {};  // by copy
  double found = 0, asked = 0;     // the first entry that is off
};

// place.token is the row.
void add(Held& held, double found, double asked, double allowed, int copy, const ElementIndex& place) {
  Checked& checked = held.checked;
  const double off = std::abs(found - asked);
  ++held.all;
  checked.max_error = std::max(checked.max_error, off);
  checked.tolerance = std::max(checked.tolerance, allowed);
  if (off <= allowed) return;
  if (++held.off == 1 || off > checked.error) checked.error = off, checked.allowed = allowed;
  held.wrong[static_cast<std::size_t>(copy)] = true;
  if (checked.first) return;
  checked.first = place;
  held.found = found, held.asked = asked;
}

Held hold(const Question& question, const EngineTable& table, double unit) {
  const Frequencies& turns = question.frequencies;
  const Table right(turns, question.positions.view(), *question.request.executor);
  Held held;
  const bool as_wide = table.pairs == right.pairs();
  if (!as_wide) held.off = held.all = 1, held.wrong = {true, table.copies == 2};
  for (std::int64_t i = 0; as_wide && i < table.rows * table.pairs; ++i) {
    const std::int64_t row = i / table.pairs;
    const int pair = static_cast<int>(i % table.pairs);
    const std::size_t axis = turns.axis.empty() ? 0 : turns.axis[static_cast<std::size_t>(pair)];
    const double place = question.positions.value(axis, 0, static_cast<std::size_t>(row));
    const double angle = std::abs(turns.inv_freq[static_cast<std::size_t>(pair)] * place);
    const double cos = right.cos()[static_cast<std::size_t>(i)], sin = right.sin()[static_cast<std::size_t>(i)];
    const double steps = turns.attention_factor * steps_of(pair, angle);
    held.checked.moves = held.checked.moves || angle > 0;
    for (int copy = 0; copy < table.copies; ++copy) {
      const std::size_t at = table.at(row, pair, copy);
      const auto allowed = [&](double asked) {
        return question.request.tolerance.value_or(unit * std::abs(asked) + steps);
      };
      add(held, table.cos[at], cos, allowed(cos), copy, {.token = row, .element = pair, .pair = pair});
      add(held, table.sin[at], sin, allowed(sin), copy, {.token = row, .element = pair + table.pairs, .pair = pair});
    }
  }
  held.checked.equal = held.off == 0;
  if (held.checked.equal) held.checked.error = held.checked.max_error, held.checked.allowed = held.checked.tolerance;
  return held;
}

// ---- its cause -----------------------------------------------------------------------------------

Tensor tensor_of(const std::vector<double>& values, std::int64_t rows) {
  const auto bytes = std::as_bytes(std::span(values));
  return {{"", ElementType::f64, {rows, std::ssize(values) / rows}, bytes.size()}, {bytes.begin(), bytes.end()}};
}

// Diagnoses a vector in the half pairing: (1, 0) in each pair before, and (cos, sin) of one copy of the table after.
Diagnosis explain(const Question& question, const EngineTable& table, int copy) {
  const int head_dim = question.used.rope.head_dim;
  if (2 * table.pairs > head_dim)
    fail(Code::SHAPE, "check", "a table must have at most ", head_dim / 2, " pairs, as many as a head, but has ",
         table.pairs);
  std::vector<double> before(static_cast<std::size_t>(table.rows * head_dim)), after = before;
  for (std::int64_t row = 0; row < table.rows; ++row) {
    for (int pair = 0; pair < table.pairs; ++pair) {
      const auto first = static_cast<std::size_t>(row * head_dim + pair), at = table.at(row, pair, copy);
      before[first] = 1;
      after[first] = table.cos[at];
      after[first + static_cast<std::size_t>(table.pairs)] = table.sin[at];
    }
  }
  ModelRope turned = question.used;
  turned.rope.pairing = Pairing::half;
  turned.first = 0;
  turned.heads = turned.kv_heads = 1;
  Request request = question.request;
  request.length = request.length.value_or(question.positions.length());
  request.layout = "td";
  request.positions = question.positions;
  request.rope = 0;
  request.layer.reset();
  request.model->ropes = {turned};
  Diagnosis found = diagnose(request, {{"", tensor_of(before, table.rows), tensor_of(after, table.rows)}}).all;
  std::erase_if(found.found, [](const Finding& one) { return one.cause == Cause::coarse_before; });  // the ones
  found.findings.clear();
  return found;
}

void conclude(NamedCheck& one, Finding found) {
  one.diagnosis.verdict = found.verdict;
  one.diagnosis.found = {std::move(found)};
}

// A table for a rope that turns clockwise may have the sin of either direction: nanochat's code negates it
// where it rotates.
NamedCheck judge(const Question& question, const EngineTable& table) {
  if (question.used.rope.clockwise) {
    ModelRope counter = question.used;
    counter.rope.clockwise = false;
    const Question stored = question_of(question.request, counter, question.positions);
    if (hold(stored, table, table.unit).off <= hold(question, table, table.unit).off) return judge(stored, table);
  }
  const Held held = hold(question, table, table.unit);
  NamedCheck one{.name = "a head with this table", .checked = held.checked};
  one.outcome = held.checked.equal ? Outcome::equal : Outcome::differs;
  conclude(one, finding(Cause::as_asked));
  if (table.copies == 2) one.note = table.halves ? "each value twice, in halves" : "each value twice, side by side";
  if (one.checked.equal && table.copies == 2 && !table.halves && question.used.rope.pairing == Pairing::half) {
    one.outcome = Outcome::differs;
    conclude(one, finding(Cause::table_of_other_pairing,
                          {{"found", name(Pairing::half)}, {"table", name(Pairing::interleaved)}}));
  } else if (one.checked.equal && !held.checked.moves) {
    one.outcome = Outcome::undecided;
    one.remarks = {finding(Cause::at_position_0)};
  }
  if (one.checked.equal) return one;
  std::vector<double> all = table.cos;
  all.insert(all.end(), table.sin.begin(), table.sin.end());
  const Storage& type = coarsest(all);
  if (type.unit > storage_of(ElementType::f32).unit && hold(question, table, type.unit).checked.equal) {
    conclude(one, finding(Cause::coarse_table, {{"type", type.name}}));
    return one;
  }
  if (table.copies == 2 && held.wrong[0] != held.wrong[1])
    one.name = std::string("a head with the ") + (held.wrong[0] ? "first" : "second") + " copy of this table";
  one.diagnosis = explain(question, table, held.wrong[0] ? 0 : 1);
  const Verdict verdict = one.diagnosis.verdict;
  const bool is_open = verdict == Verdict::cannot_tell || verdict == Verdict::elements || verdict == Verdict::noise ||
                       verdict == Verdict::as_configured;
  if (is_open && one.checked.first && (8 * held.off <= held.all || verdict == Verdict::as_configured)) {
    const bool is_cos = one.checked.first->element < table.pairs;
    Finding found = finding(Cause::table_entries, {{"of", is_cos ? "cos" : "sin"},
                                                   {"pair", number(*one.checked.first->pair)},
                                                   {"row", number(one.checked.first->token)},
                                                   {"found", held.found, 6},
                                                   {"asked", held.asked, 6}});
    if (held.off > 1) found.numbers.push_back({"others", number(held.off - 1)});
    conclude(one, std::move(found));
  }
  return one;
}

// ---- frequencies ---------------------------------------------------------------------------------

// Positions that show fast and slow pairs: close together at first, then farther and farther apart.
PositionSet telling_positions(int axes) {
  PositionSet set{.axes = axes};
  for (int axis = 0; axis < axes; ++axis) {
    for (std::int64_t place = 0; place < 1 << 22; place += std::max<std::int64_t>(1, place / 64))
      set.integers.push_back(place);
  }
  set.tokens = std::ssize(set.integers) / axes;
  return set;
}

// The table that the frequencies make in double precision, with the model's attention factor.
EngineTable table_of(const Question& question, const std::vector<double>& inv_freq) {
  EngineTable table{.rows = question.positions.tokens, .pairs = static_cast<int>(inv_freq.size()), .unit = 0};
  const double factor = question.frequencies.attention_factor;
  for (std::size_t row = 0; std::cmp_less(row, table.rows); ++row) {
    for (const double speed : inv_freq) {
      table.cos.push_back(factor * std::cos(speed * question.positions.value(0, 0, row)));
      table.sin.push_back(factor * std::sin(speed * question.positions.value(0, 0, row)));
    }
  }
  return table;
}

// The answer for the chosen rope; if none is chosen, for the rope with so many pairs that fits best.
CheckResult best_of(const Request& request, int pairs, const std::function<NamedCheck(const ModelRope&)>& judge_by) {
  const std::vector<ModelRope>& all = request.model->ropes;
  std::vector<const ModelRope*> ropes;
  for (const ModelRope& one : all) {
    if (!request.names_rope() && one.rope.rotary_dim == 2 * pairs) ropes.push_back(&one);
  }
  if (ropes.empty()) ropes = {&chosen_rope(*request.model, request)};
  NamedCheck best;
  bool open = false;
  for (const ModelRope* used : ropes) {
    NamedCheck one = judge_by(*used);
    one.layer = request.layer;
    if (all.size() > 1) one.rope = "rope " + std::to_string(used - all.data()) + " of " + std::to_string(all.size());
    const auto badness = [](const NamedCheck& of) { return std::pair(of.outcome, of.diagnosis.residual); };
    open = open || (used != ropes.front() && one.outcome != best.outcome);
    if (used == ropes.front() || badness(one) < badness(best)) best = std::move(one);
  }
  if (open && best.outcome == Outcome::equal) {
    best.outcome = Outcome::undecided;
    best.remarks = {finding(Cause::open_rope, {{"rope", best.rope}})};
  }
  say(best);
  return {{{best}, combine({best})}, {}};
}

}  // namespace

CheckResult check_table(const Request& request, const Tensor& cos, const std::optional<Tensor>& sin) {
  const EngineTable table = read_table(cos, sin);
  const bool twice = std::ranges::any_of(request.model->ropes, [&](const ModelRope& one) {
    return one.rope.rotary_dim == table.pairs && with_copies(table, one.rope).copies == 2;
  });
  return best_of(request, twice ? table.pairs / 2 : table.pairs, [&](const ModelRope& used) {
    if (request.positions && !request.positions->spec) expect_whole("check", *request.positions, used.rope.axes());
    const PositionSet positions = positions_of("check", request, *request.model, used).closed(table.rows);
    if (positions.tokens != table.rows || positions.batch != 1) {
      fail(Code::SHAPE, "check", "positions must be one for each of the ", table.rows, " rows but are ",
           shape_text(positions.shape()));
    }
    const Question question = question_of(request, used, positions);
    return judge(question, with_copies(table, used.rope));
  });
}

CheckResult check_inv_freq(const Request& request, const std::vector<double>& inv_freq) {
  Request at_length = request;
  at_length.length = request.length.value_or(0);
  CheckResult result = best_of(at_length, static_cast<int>(inv_freq.size()), [&](const ModelRope& used) {
    const Question question = question_of(at_length, used, telling_positions(used.rope.axes()));
    return judge(question, table_of(question, inv_freq));
  });
  const Cause cause = result.tensors[0].diagnosis.found[0].cause;
  const bool of_a_length = cause == Cause::short_list || cause == Cause::long_list || cause == Cause::within_length ||
                           cause == Cause::other_length;
  if (!request.length && of_a_length) result.tensors[0].outcome = Outcome::undecided;
  return result;
}

}  // namespace rotary::diagnose
