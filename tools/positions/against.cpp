// The position ids of packed and sharded sequences; and the comparison of an engine's ids with the model's.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "ids.h"
#include "tensors/formats.h"
#include "values/number_text.h"

namespace rotary {

namespace {

using made::Merge;
using made::refuse;

// In the order of IdsRule. The sentence of offset is composed with its number.
constexpr struct {
  const char *name, *sentence;
} rules[] = {
    {"as_asked", "they are as the model makes them"},
    {"through_padding", "the padding is counted too: the mask is not read"},
    {"through_sequences", "the packed sequences are counted as one sequence"},
    {"as_words", "every token is counted as a word, tokens of pictures too"},
    {"unmerged", "pictures have the sizes of their grids before merging"},
    {"unmerged_behind", "the tokens after a picture go on as if its grid were not merged"},
    {"without_seconds", "the seconds of a video's time steps are not read"},
    {"other_film_rule", "the tokens after a video go on by the other rule (--after-film chooses the rule)"},
    {"other_rank", "they are the ids of another rank, or of another split"},
    {"delta_twice", "the delta of decoding (--delta) is added once too often"},
    {"delta_left_out", "the delta of decoding (--delta) is left out"},
    {"delta_of_another_row", "the delta of decoding (--delta) is the delta of another row"},
    {"offset", ""},
    {"unknown", "no known rule makes them"},
};
static_assert(std::size(rules) == static_cast<std::size_t>(IdsRule::unknown) + 1);

// Keeps the ids of these tokens only, in this order, on each axis and batch row.
void pick(PositionSet& set, const std::vector<std::int64_t>& tokens) {
  const auto take = [&](auto& values) {
    auto all = std::exchange(values, {});
    for (std::size_t line = 0; line < all.size(); line += static_cast<std::size_t>(set.tokens)) {
      for (const std::int64_t token : tokens) values.push_back(all[line + static_cast<std::size_t>(token)]);
    }
  };
  take(set.integers);
  take(set.reals);
  set.tokens = std::ssize(tokens);
}

// Makes the ids of a batch with a row for each packed sequence, padded and masked, and packs them again. The grids are
// then used in the order of the sequences.
ModelPositions made_packed(const PositionsRequest& request, Merge merge) {
  std::vector<std::int64_t> bounds = request.cu_seqlens;
  made::check_sizes(request.inputs);
  ModelInputs rows = request.inputs;
  if (rows.batch != 1 || packed_positions(bounds).size() != rows.ids.size()) {
    refuse(Code::POSITION, "cu_seqlens must be the bounds of one row of ids and end with their number",
           made::by(rows.batch, rows.tokens));
  }
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());  // sequences without a token
  rows.batch = std::ssize(bounds) - 1;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i)
    rows.tokens = std::max(i == 0 ? 0 : rows.tokens, bounds[i + 1] - bounds[i]);
  rows.ids.clear(), rows.mask.clear();
  made::check_sizes(rows);
  rows.ids.assign(static_cast<std::size_t>(rows.batch * rows.tokens), -1);
  rows.mask.assign(rows.ids.size(), 0);
  std::vector<std::int64_t> places;  // the place of each token in these rows
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    for (std::int64_t token = bounds[i]; token < bounds[i + 1]; ++token) {
      places.push_back(static_cast<std::int64_t>(i) * rows.tokens + token - bounds[i]);
      const auto at = static_cast<std::size_t>(places.back()), from = static_cast<std::size_t>(token);
      rows.ids[at] = request.inputs.ids[from];
      rows.mask[at] = request.inputs.mask.empty() || request.inputs.mask[from] != 0 ? 1 : 0;
    }
  }
  ModelPositions made = made::positions_with(request.config, rows, merge);
  made.deltas.clear();
  made.positions.tokens *= std::exchange(made.positions.batch, 1);
  pick(made.positions, places);
  return made;
}

// The bounds of the sequences: of packed ones, else of one.
std::vector<std::int64_t> bounds_of(const PositionsRequest& request) {
  return request.cu_seqlens.empty() ? std::vector<std::int64_t>{0, request.inputs.tokens} : request.cu_seqlens;
}

// The tokens of the request's rank.
std::vector<std::int64_t> shard_of(const PositionsRequest& request) {
  return shard_tokens(*request.split, request.rank, request.ranks, bounds_of(request));
}

// Without token ids and a mask each packed sequence begins at 0, as in data collators and attention kernels.
ModelPositions counted_plainly(const PositionsRequest& request) {
  ModelInputs one;
  one.tokens = 1;
  if (!request.config.empty() && model_positions(request.config, one).positions.axes != 1)
    fail(Code::POSITION, "positions",
         "packed sequences and ranks need --tokens where the model makes position ids of its own, but none were given");
  made::take_only(request.inputs, "");
  ModelPositions made;
  made.positions.integers = packed_positions(bounds_of(request));
  made.positions.tokens = std::ssize(made.positions.integers);
  return made;
}

ModelPositions made_with(const PositionsRequest& request, Merge merge = Merge::as_asked) {
  const ModelInputs& inputs = request.inputs;
  const bool packed = !request.cu_seqlens.empty(), counts = packed || request.split || request.config.empty();
  const bool plain = counts && inputs.ids.empty() && inputs.mask.empty();
  ModelPositions made = plain    ? counted_plainly(request)
                        : packed ? made_packed(request, merge)
                                 : made::positions_with(request.config, inputs, merge);
  // The patches of a tower follow from its grids.
  if (!plain && !packed && inputs.tokens > 0 && inputs.tokens != made.positions.tokens)
    refuse(Code::SHAPE, "the length must be that of the ids, " + std::to_string(made.positions.tokens), inputs.tokens);
  if (request.split) pick(made.positions, shard_of(request));
  return made;
}

// ---- ids beside others ---------------------------------------------------------------------------

// The tokens that the mask of a request shows, by their places in the ids; it shows every token after those.
class Shown {
 public:
  explicit Shown(const PositionsRequest& request) {
    const ModelInputs& inputs = request.inputs;
    set_ = {.integers = inputs.mask, .tokens = inputs.tokens};
    if (request.split && !inputs.mask.empty()) pick(set_, shard_of(request));
  }
  bool at(std::size_t row, std::size_t token) const {
    const auto tokens = static_cast<std::size_t>(set_.tokens);
    return set_.integers.empty() || token >= tokens || set_.integers[row * tokens + token] != 0;
  }
  double hidden(std::size_t row) const {
    double count = 0;
    for (std::size_t token = 0; std::cmp_less(token, set_.tokens); ++token) count += at(row, token) ? 0 : 1;
    return count;
  }

 private:
  PositionSet set_;
};

// The ids of the request's tokens and of the tokens decoded after them, at least `tokens` in all.
PositionSet with_decoded(const PositionsRequest& request, const Shown& shown, const ModelPositions& made,
                         std::int64_t tokens) {
  const PositionSet& set = made.positions;
  if (tokens > set.tokens && (!request.cu_seqlens.empty() || request.split || (made.deltas.empty() && set.axes > 1)))
    refuse(Code::SHAPE, "the file must have " + std::to_string(set.tokens) + " tokens", tokens);
  PositionSet ids{.axes = set.axes, .batch = set.batch, .tokens = std::max(tokens, set.tokens)};
  for (std::size_t axis = 0; std::cmp_less(axis, set.axes); ++axis) {
    for (std::size_t row = 0; std::cmp_less(row, set.batch); ++row) {
      double next = 0, seen = 0;
      for (std::size_t token = 0; std::cmp_less(token, ids.tokens); ++token) {
        if (std::cmp_equal(token, set.tokens) && !made.deltas.empty()) next = seen + made.deltas[row];
        ids.reals.push_back(std::cmp_less(token, set.tokens) ? set.value(axis, row, token) : next);
        if (!shown.at(row, token)) continue;
        next = ids.reals.back() + 1;
        ++seen;
      }
    }
  }
  return ids;
}

PositionSet found_ids(const PositionSet& asked, std::span<const double> values, std::span<const std::int64_t> shape) {
  PositionSet found{.reals = {values.begin(), values.end()}, .tokens = shape.empty() ? 0 : shape.back()};
  if (files::checked_bits(ElementType::f64, shape) != 64 * values.size())
    refuse(Code::SHAPE, "the ids must have the sizes of their shape", std::to_string(values.size()) + " values");
  std::size_t at = 0;
  const std::size_t least = asked.axes > 1 ? 2 : 3;  // dimensions where the first is axes
  const bool is_row_by_row = shape.size() == 2 && asked.batch > 1;  // [batch, tokens]: one axis for all
  if (shape.size() >= least && !is_row_by_row &&
      (shape[0] == asked.axes || (asked.axes > 1 && shape[0] == asked.axes + 1))) {
    found.axes = asked.axes;
    if (shape[at++] > asked.axes)
      found.reals.erase(found.reals.begin(), found.reals.begin() + std::ssize(values) / shape[0]);
  }
  if (shape.size() > at + 1) found.batch = static_cast<int>(shape[at++]);
  if (shape.size() != at + 1 || found.batch != asked.batch || found.tokens < asked.tokens) {
    const std::vector<std::int64_t> whole = {asked.axes, asked.batch, asked.tokens};
    refuse(Code::SHAPE, "the ids of --against must be " + detail::shape_text(whole),
           detail::shape_text(std::vector(shape.begin(), shape.end())));
  }
  return found;
}

// Calls visit(axis, row, token) for each id that the mask shows, until one returns false, and then returns false.
bool for_each_seen(const Shown& shown, const PositionSet& ids, int axes,
                   const std::function<bool(std::size_t axis, std::size_t row, std::size_t token)>& visit) {
  for (std::size_t row = 0; std::cmp_less(row, ids.batch); ++row) {
    for (std::size_t token = 0; std::cmp_less(token, ids.tokens); ++token) {
      for (std::size_t axis = 0; std::cmp_less(axis, axes) && shown.at(row, token); ++axis)
        if (!visit(axis, row, token)) return false;
    }
  }
  return true;
}

// ---- the rule that made them ---------------------------------------------------------------------

// The rule of ids that are off by one constant in each row from some token on. by: the constant of each row.
IdsRule rule_of_steps(const Shown& shown, const ModelPositions& asked, const std::vector<std::optional<double>>& by) {
  const auto all = [&](auto is_it) {
    for (std::size_t row = 0; row < by.size(); ++row)
      if (by[row] && !is_it(*by[row], row)) return false;
    return true;
  };
  const std::vector<double>& deltas = asked.deltas;
  if (all([&](double step, std::size_t row) { return step == shown.hidden(row); })) return IdsRule::through_padding;
  if (!deltas.empty()) {
    if (all([&](double step, std::size_t row) { return step == deltas[row]; })) return IdsRule::delta_twice;
    if (all([&](double step, std::size_t row) { return step == -deltas[row]; })) return IdsRule::delta_left_out;
    const auto of_other = [&](double step, std::size_t row) {
      return std::ranges::find(deltas, step + deltas[row]) != deltas.end();
    };
    if (all(of_other)) return IdsRule::delta_of_another_row;
  }
  const auto first = *std::ranges::find_if(by, [](const auto& step) { return step.has_value(); });
  return all([&](double step, std::size_t) { return step == *first; }) ? IdsRule::offset : IdsRule::unknown;
}

IdsRule find_rule(const PositionsRequest& request, const Shown& shown, const ModelPositions& asked,
                  const PositionSet& right, const PositionSet& found) {
  const auto is_made_by = [&](const auto& make) {
    try {
      const ModelPositions made = make();
      if (made.positions.tokens != asked.positions.tokens) return false;
      const PositionSet ids = with_decoded(request, shown, made, found.tokens);
      return for_each_seen(shown, found, right.axes, [&](auto axis, auto row, auto token) {
        return found.value(axis, row, token) == ids.value(axis, row, token);
      });
    } catch (const Error&) {  // the model does not take such inputs
      return false;
    }
  };
  const auto would_be = [&](const PositionsRequest& other, Merge merge = Merge::as_asked) {
    return is_made_by([&] { return made_with(other, merge); });
  };
  PositionsRequest no_mask = request, no_bounds = request, no_seconds = request, other_film = request;
  no_mask.inputs.mask.clear();
  no_bounds.cu_seqlens.clear();
  no_bounds.inputs.tokens = bounds_of(request).back();  // also where there are no ids
  no_seconds.inputs.seconds_per_grid.clear();
  other_film.inputs.publisher = !request.inputs.publisher;
  if (would_be(no_mask)) return IdsRule::through_padding;
  if (would_be(no_bounds)) return IdsRule::through_sequences;
  if (would_be(request, Merge::left_out)) return IdsRule::unmerged;
  if (would_be(request, Merge::left_out_behind)) return IdsRule::unmerged_behind;
  if (would_be(no_seconds)) return IdsRule::without_seconds;
  if (would_be(other_film)) return IdsRule::other_film_rule;
  for (std::int64_t rank = 0; request.split && rank < request.ranks; ++rank) {
    for (const Split split : {Split::contiguous, Split::zigzag, Split::striped}) {
      PositionsRequest other = request;
      other.rank = rank, other.split = split;
      if (would_be(other)) return IdsRule::other_rank;
    }
  }
  for (const files::Counts counts : {files::Counts::seen, files::Counts::every})
    if (is_made_by([&] { return made::counted(counts, no_bounds.inputs); })) return IdsRule::as_words;
  std::vector<std::optional<double>> by(static_cast<std::size_t>(found.batch));
  const bool steps = for_each_seen(shown, found, right.axes, [&](auto axis, auto row, auto token) {
    const double step = found.value(axis, row, token) - right.value(axis, row, token);
    std::optional<double>& own = by[row];
    if (step != 0 && !own) own = step;
    return step == 0 ? !own : step == *own;
  });
  return steps ? rule_of_steps(shown, asked, by) : IdsRule::unknown;
}

}  // namespace

ModelPositions make_positions(const PositionsRequest& request) { return made_with(request); }

const char* name(IdsRule rule) noexcept { return rules[static_cast<std::size_t>(rule)].name; }

std::string IdsCheck::sentence() const {
  if (rule != IdsRule::offset) return rules[static_cast<std::size_t>(rule)].sentence;
  return "they are " + detail::significant(std::abs(found - asked), 10) +
         (found > asked ? " too far from there on" : " too early from there on");
}

IdsCheck check_ids(const PositionsRequest& request, std::span<const double> values,
                   std::span<const std::int64_t> shape) {
  const ModelPositions asked = make_positions(request);
  const Shown shown(request);
  const PositionSet found = found_ids(asked.positions, values, shape),
                    right = with_decoded(request, shown, asked, found.tokens);
  IdsCheck check;
  bool is_counted = false;  // on an axis before
  for_each_seen(shown, found, right.axes, [&](std::size_t axis, std::size_t row, std::size_t token) {
    const double is = found.value(axis, row, token), wanted = right.value(axis, row, token);
    if (axis == 0) ++check.tokens, is_counted = false;
    if (is == wanted || is_counted) return true;
    is_counted = true;
    if (check.off++ > 0) return true;
    check.axis = static_cast<int>(axis), check.row = static_cast<int>(row);
    check.token = static_cast<std::int64_t>(token);
    check.found = is, check.asked = wanted;
    return true;
  });
  if (!check.equal()) check.rule = find_rule(request, shown, asked, right, found);
  return check;
}

std::string to_json(const IdsCheck& check) {
  files::OrderedJson json = {{"equal", check.equal()},
                             {"verdict", check.equal() ? "equal" : "differs"},
                             {"sentence", check.sentence()},
                             {"cause", name(check.rule)},
                             {"tokens", check.tokens},
                             {"off", check.off},
                             {"first", nullptr}};
  if (!check.equal()) {
    json["first"] = {{"axis", check.axis},
                     {"batch", check.row},
                     {"token", check.token},
                     {"found", check.found},
                     {"asked", check.asked}};
  }
  return files::json_text(json);
}

}  // namespace rotary
