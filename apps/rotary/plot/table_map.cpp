// The entries of a table of cos or sin, as a heat map.
#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "request.h"
#include "rotary/positions.h"

namespace rotary::cli {

namespace {

constexpr std::size_t most_entries = std::size_t{1} << 24;

std::vector<std::int64_t> positions_of_map(const PlotRequest& request) {
  const PositionSet set = parse_ranges(request.positions.value_or("0:128"));
  return set.open_from ? set.closed(std::max<std::int64_t>(128, set.tokens)).integers : set.integers;
}

std::vector<std::int64_t> pairs_of_map(const PlotRequest& request, std::int64_t pairs) {
  if (!request.pairs) return parse_ranges("0:" + std::to_string(pairs)).integers;
  const PositionSet set = parse_ranges(*request.pairs);
  std::vector<std::int64_t> chosen = set.integers;
  if (set.open_from) chosen.push_back(*set.open_from);
  for (const std::int64_t pair : chosen) {
    if (pair < 0 || pair >= pairs) {
      throw Error(Code::VALUE,
                  "[plot] --pairs must be from 0 to " + std::to_string(pairs - 1) + " but got " + std::to_string(pair));
    }
  }
  if (set.open_from)
    for (std::int64_t pair = *set.open_from + 1; pair < pairs; ++pair) chosen.push_back(pair);
  return chosen;
}

// pairs: of a row of the table, or of the map where it names some several times.
void check_size(std::size_t positions, std::size_t pairs) {
  if (positions <= most_entries / pairs) return;
  throw Error(Code::VALUE, "[plot] positions times pairs must be at most " + std::to_string(most_entries) +
                               " but got " + std::to_string(positions) + " positions of " + std::to_string(pairs) +
                               " pairs");
}

}  // namespace

Figure table_map(const PlotRequest& request) {
  const PlottedRopes read = read_ropes(request, false);
  if (read.ropes.size() != 1) throw UsageError("plot table draws one rope: name one CONFIG and one scaling");
  const PlottedRope& rope = read.ropes[0];
  Figure map;
  Grid& grid = map.grid;
  grid.value = request.sin ? "sin" : "cos";
  map.title = grid.value + "(position * inv_freq)" + read.subject;
  if (!request.source.scaling.empty() || !request.scalings.empty()) map.title += ", " + rope.name;
  map.x_label = "position, tokens";
  map.y_label = "pair";
  grid.x = positions_of_map(request);
  grid.y = pairs_of_map(request, static_cast<std::int64_t>(rope.view.pairs.size()));
  if (grid.x.empty() || grid.y.empty()) throw UsageError("plot table needs at least one position and one pair");
  const std::size_t wide = grid.x.size(), pairs = rope.view.pairs.size();
  check_size(wide, std::max(pairs, grid.y.size()));
  const Table table(rope.view.frequencies, grid.x);
  const std::span<const float> values = request.sin ? table.sin() : table.cos();
  for (const std::int64_t pair : grid.y) {
    const PairView& view = rope.view.pairs[static_cast<std::size_t>(pair)];
    grid.turns.push_back(view.inv_freq == 0 ? std::numeric_limits<double>::infinity() : std::abs(wavelength_of(view)));
    for (std::size_t row = 0; row < wide; ++row)
      grid.values.push_back(static_cast<double>(values[row * pairs + static_cast<std::size_t>(pair)]));
  }
  grid.limit = rope.view.frequencies.attention_factor;
  if (grid.limit != 1) map.note = "times the attention factor " + significant(grid.limit, 6);
  return map;
}

}  // namespace rotary::cli
