// The error of tables by position, of the ways that src/accuracy models.
#include <algorithm>
#include <cmath>

#include "accuracy/ways.h"
#include "apps/shared/text.h"
#include "request.h"
#include "rotary/positions.h"

namespace rotary::cli {

namespace {

using accuracy::Way;

// Positions of which the largest error is one point.
using Group = std::vector<accuracy::Position>;

// Of each octave four groups of eight positions that divide them evenly; fewer where there are not so many.
std::vector<Group> groups_to(std::int64_t last) {
  constexpr std::int64_t per_octave = 4, most = 8;
  std::vector<Group> groups;
  for (std::int64_t octave = 1; octave <= last; octave *= 2) {
    const std::int64_t width = std::max<std::int64_t>(1, octave / per_octave);
    for (std::int64_t first = octave; first < 2 * octave && first <= last; first += width) {
      Group group;
      const std::int64_t count = std::min(width, most);
      for (std::int64_t i = 0; i < count; ++i) group.emplace_back(first + i * width / count);
      groups.push_back(std::move(group));
    }
  }
  Group& end = groups.emplace_back();  // the last position, and those before it
  for (std::int64_t position = last; position >= 1 && last - position < most; --position) end.emplace_back(position);
  return groups;
}

std::vector<Group> groups_of(const PlotRequest& request, const std::vector<PlottedRope>& ropes) {
  constexpr std::size_t most = 65536;
  if (!request.positions) {
    std::int64_t last = std::int64_t{1} << 20;
    for (const PlottedRope& rope : ropes) last = std::max(last, context_tokens(request, *rope.used));
    return groups_to(request.context.value_or(last));
  }
  const PositionSet set = parse_ranges(*request.positions);
  if (set.open_from || set.integers.size() > most) {
    throw Error(Code::POSITION, "[plot] --positions must list at most " + std::to_string(most) + " but got '" +
                                    *request.positions + "'");
  }
  std::vector<Group> groups;
  for (const std::int64_t position : set.integers) groups.push_back({accuracy::Position(position)});
  return groups;
}

std::vector<Line> lines_of(const accuracy::Subject& subject, const std::vector<Way>& ways,
                           const std::vector<Group>& groups) {
  std::vector<Line> lines(ways.size());
  for (std::size_t w = 0; w < ways.size(); ++w) lines[w].name = accuracy::info(ways[w]).name;
  for (const Group& group : groups) {
    const std::vector<std::vector<double>> errors = accuracy::errors_at(subject, ways, group);
    for (std::size_t w = 0; w < ways.size(); ++w)
      lines[w].points.emplace_back(group.front().as_double(), *std::max_element(errors[w].begin(), errors[w].end()));
  }
  return lines;
}

}  // namespace

Figure accuracy_plot(const PlotRequest& request) {
  const auto [ropes, subject] = read_ropes(request, false);
  const std::vector<Group> groups = groups_of(request, ropes);
  Figure plot;
  plot.title = "Error of cos and sin by position" + subject;
  plot.note = request.positions ? "the largest over all pairs"
                                : "the largest over all pairs and up to 8 positions at each point";
  if (ropes.size() > 1) plot.note = std::string(accuracy::info(Way::float32_product).name) + "; " + plot.note;
  plot.x_label = "position, tokens";
  plot.y_label = "absolute error";
  plot.log_x = groups.front().front().whole() > 0;
  plot.log_y = true;
  for (const PlottedRope& rope : ropes) {
    const accuracy::Subject rows(rope.used->rope, rope.view.frequencies);
    std::vector<Way> shown = {Way::bf16_inv_freq, Way::float32_product, Way::running_product, Way::exact};
    if (ropes.size() > 1) shown = {Way::float32_product};
    if (!rows.chain) std::erase(shown, Way::running_product);
    for (Line& line : lines_of(rows, shown, groups)) {
      if (ropes.size() > 1) line.name = rope.name;
      plot.lines.push_back(std::move(line));
    }
  }
  const auto last = static_cast<double>(groups.back().back().whole());
  std::vector<MarkedLength> marks = marked_lengths(request, ropes).marks;
  std::erase_if(marks, [last](const MarkedLength& mark) { return mark.tokens > last; });
  add_upright_guides(plot, marks);
  return plot;
}

}  // namespace rotary::cli
