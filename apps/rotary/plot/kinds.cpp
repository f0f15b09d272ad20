// The kinds of plots: by pair, wavelengths and what a scaling did to them; the entries of a table of cos or sin; and
// the errors of such tables by position, of the ways that src/accuracy models.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "accuracy/ways.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "request.h"
#include "rotary/positions.h"
#include "table/turns.h"
#include "values/scaling_fields.h"

namespace rotary::cli {

namespace {

// ---- by pair ----

// The colour and the name tell several ropes apart; of one, say in a line what it is.
std::string note_of(const PlotRequest& request, const std::vector<PlottedRope>& ropes) {
  if (ropes.size() != 1) return "";
  const Rope& rope = ropes[0].used->rope;
  std::string note = counted(ropes[0].view.pairs.size(), "pair");
  note += rope.inv_freq.empty() ? ", base " + significant(rope.base, 10) : ", inv_freq given";
  if (!std::holds_alternative<Unscaled>(rope.scaling)) note += std::string(", ") + name(rope.scaling);
  if (const auto* factor = scalings::value_of<double>(rope.scaling, "factor"))
    note += " factor " + significant(*factor, 6);
  const std::int64_t trained = trained_tokens(*ropes[0].used), context = context_tokens(request, *ropes[0].used);
  if (trained > 0) note += "; trained length " + std::to_string(trained);
  if (context > 0) note += "; context " + std::to_string(context);
  if (ropes[0].length) note += ", at " + std::to_string(*ropes[0].length) + " tokens";
  return note;
}

// Pairs up to the last that turns.
std::size_t turning_pairs(const PlottedRope& rope) {
  std::size_t end = rope.view.pairs.size();
  while (end > 0 && rope.view.pairs[end - 1].inv_freq == 0) --end;
  return end;
}

// Which pairs at the end of a rope have no wavelength, as they stand still.
std::string still_pairs(const std::vector<PlottedRope>& ropes) {
  std::string note;
  for (const PlottedRope& rope : ropes) {
    const std::size_t first = turning_pairs(rope), end = rope.view.pairs.size();
    if (first == end) continue;
    note += note.empty() ? "" : "; ";
    if (ropes.size() > 1) note += rope.name + ": ";
    note += first + 1 == end ? "pair " + std::to_string(first) + " stands still"
                             : "pairs " + std::to_string(first) + " to " + std::to_string(end - 1) + " stand still";
  }
  return note;
}

std::string scaling_of(const PlottedRope& rope) {
  const Scaling& scaling = rope.used->rope.scaling;
  return std::holds_alternative<Unscaled>(scaling) ? "no scaling" : name(scaling);
}

std::string tip_of(std::size_t index, const PairView& pair) {
  std::string tip = "pair " + std::to_string(index) + ": " + significant(std::abs(wavelength_of(pair)), 6) + " tokens";
  if (std::string_view(pair.effect) != "kept") tip += ", " + significant(pair.stretch, 5) + " times";
  return tip;
}

// value: of a pair that turns.
template <class Value>
Line line_by_pair(const PlottedRope& rope, Value value) {
  Line line;
  line.name = rope.name;
  for (std::size_t i = 0; i < rope.view.pairs.size(); ++i) {
    const PairView& pair = rope.view.pairs[i];
    if (pair.inv_freq == 0) continue;
    line.points.emplace_back(static_cast<double>(i), value(pair));
    line.names.push_back(tip_of(i, pair));
  }
  return line;
}

// One rope that is scaled, as it was before.
Line unscaled_line(const PlottedRope& rope) {
  Line line = line_by_pair(rope, [](const PairView& pair) { return std::abs(wavelength_of(pair)) / pair.stretch; });
  line.name = "without scaling";
  line.names.clear();
  line.faint = true;
  return line;
}

bool is_scaled(const PlottedRope& rope) {
  return std::any_of(rope.view.pairs.begin(), rope.view.pairs.end(),
                     [](const PairView& pair) { return pair.stretch != 0 && pair.stretch != 1; });
}

// The pair, perhaps between two, whose unscaled wavelength is that many tokens; empty where there is none.
std::optional<double> pair_of_wavelength(const PlottedRope& rope, double tokens) {
  for (std::size_t i = 0; i + 1 < rope.view.pairs.size(); ++i) {
    const PairView &a = rope.view.pairs[i], &b = rope.view.pairs[i + 1];
    if (a.stretch <= 0 || b.stretch <= 0 || a.axis != b.axis) continue;
    const double low = wavelength_of(a) / a.stretch, high = wavelength_of(b) / b.stretch;
    if (low <= tokens && tokens < high)
      return static_cast<double>(i) + (std::log(tokens) - std::log(low)) / (std::log(high) - std::log(low));
  }
  return std::nullopt;
}

Figure plot_by_pair(const PlotRequest& request, const std::vector<PlottedRope>& ropes, const std::string& title,
                    const std::string& y_label) {
  Figure plot;
  plot.title = title;
  plot.note = note_of(request, ropes);
  const bool by_head = std::ranges::any_of(ropes, [](const PlottedRope& r) { return r.view.frequencies.heads > 1; });
  plot.x_label = by_head ? "pair, head by head" : "pair";
  plot.y_label = y_label;
  return plot;
}

// ---- the table ----

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
      fail(Code::VALUE, "plot", "--pairs must be from 0 to ", pairs - 1, " but got ", pair);
    }
  }
  if (set.open_from)
    for (std::int64_t pair = *set.open_from + 1; pair < pairs; ++pair) chosen.push_back(pair);
  return chosen;
}

// pairs: of a row of the table, or of the map where it names some several times.
void check_size(std::size_t positions, std::size_t pairs) {
  if (positions <= most_entries / pairs) return;
  fail(Code::VALUE, "plot", "positions times pairs must be at most ", most_entries, " but got ", positions,
       " positions of ", pairs, " pairs");
}

// ---- errors by position ----

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
    return groups_to(request.source.length.value_or(last));
  }
  const PositionSet set = parse_ranges(*request.positions);
  if (set.open_from || set.integers.size() > most) {
    fail(Code::POSITION, "plot", "--positions must list at most ", most, " but got '", *request.positions, "'");
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

Table table_on_every_axis(const Frequencies& f, const std::vector<std::int64_t>& positions) {
  std::vector<std::int64_t> all;
  const int axes = std::max(1, f.summed_axes);
  for (int axis = 0; axis < axes; ++axis) all.insert(all.end(), positions.begin(), positions.end());
  return Table(f, Positions(std::move(all), axes));
}

void add_marks(Figure& plot, const std::vector<MarkedLength>& lengths, bool level) {
  double low = 1e300, high = -1e300, last = 0;
  for (const Line& line : plot.lines) {
    for (const auto& [x, y] : outline_of(line)) {
      low = std::min(low, y);
      high = std::max(high, y);
      last = std::max(last, x);
    }
  }
  if (low == high) {  // level lines: as high as the axis that is made for them
    low -= 0.1 * std::abs(low);
    high += 0.1 * std::abs(high);
  }
  for (const auto& [tokens, name] : lengths) {
    const Points upright = {{tokens, high}, {tokens, low}}, across = {{0, tokens}, {last, tokens}};
    plot.lines.push_back({.name = name, .points = level ? across : upright, .guide = true});
  }
}

Figure wavelengths_plot(const PlotRequest& request) {
  const auto [ropes, subject] = read_ropes(request, true);
  Figure plot = plot_by_pair(request, ropes, "Wavelength of each pair" + subject, "wavelength, tokens");
  plot.log_y = true;
  const bool one = ropes.size() == 1;
  for (const PlottedRope& rope : ropes) {
    plot.lines.push_back(line_by_pair(rope, [](const PairView& pair) { return std::abs(wavelength_of(pair)); }));
    if (one && is_scaled(rope)) {
      plot.lines.back().name = name(rope.used->rope.scaling);
      plot.lines.push_back(unscaled_line(rope));
    } else if (one) {
      plot.lines.back().name = "wavelength";
    }
  }
  const MarkedLengths lengths = marked_lengths(request, ropes);
  if (plot.note.empty()) plot.note = lengths.note;
  add_to_note(plot.note, still_pairs(ropes));
  add_marks(plot, lengths.marks, true);
  return plot;
}

Figure stretch_plot(const PlotRequest& request) {
  const auto [ropes, subject] = read_ropes(request, true);
  Figure plot = plot_by_pair(request, ropes, "Stretch of each pair's wavelength" + subject,
                             "scaled / unscaled wavelength, times");
  for (const PlottedRope& rope : ropes) {
    plot.lines.push_back(line_by_pair(rope, [](const PairView& pair) { return pair.stretch; }));
    if (ropes.size() == 1) plot.lines.back().name = scaling_of(rope);
  }
  add_to_note(plot.note, still_pairs(ropes));
  std::vector<double> stretches = {1};
  for (const Line& line : plot.lines)
    for (const auto& [x, y] : line.points) stretches.push_back(y);
  const auto [low, high] = std::minmax_element(stretches.begin(), stretches.end());
  plot.log_y = *low > 0 && *high > 20 * *low;
  std::vector<MarkedLength> turns;
  std::set<std::int64_t> seen;
  for (const PlottedRope& rope : ropes) {
    const std::int64_t trained = trained_tokens(*rope.used);
    if (trained <= 0 || !seen.insert(trained).second) continue;
    if (const auto pair = pair_of_wavelength(rope, static_cast<double>(trained)))
      turns.push_back({*pair, "one turn in " + std::to_string(trained) + " tokens"});
  }
  if (turns.size() == 1) add_marks(plot, turns, false);
  return plot;
}

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
  Frequencies f = rope.view.frequencies;
  const auto pairs = static_cast<std::size_t>(f.heads * f.pairs());
  grid.y = pairs_of_map(request, static_cast<std::int64_t>(pairs));
  if (grid.x.empty() || grid.y.empty()) throw UsageError("plot table needs at least one position and one pair");
  const std::size_t wide = grid.x.size();
  check_size(wide, std::max(pairs, grid.y.size()));
  const Table table = table_on_every_axis(f, grid.x);
  const std::span<const float> values = request.sin ? table.sin() : table.cos();
  f.phase.clear();
  std::vector<double> terms;  // [axes, pairs]: their sum is the speed on every axis at once
  detail::fill_terms(f, f.axes(), static_cast<std::int64_t>(pairs), terms);
  for (const std::int64_t pair : grid.y) {
    const auto i = static_cast<std::size_t>(pair);
    PairView view;
    for (std::size_t term = i; term < terms.size(); term += pairs) view.inv_freq += terms[term];
    grid.turns.push_back(view.inv_freq == 0 ? std::numeric_limits<double>::infinity() : std::abs(wavelength_of(view)));
    for (std::size_t row = 0; row < wide; ++row) grid.values.push_back(static_cast<double>(values[row * pairs + i]));
  }
  grid.limit = f.attention_factor;
  for (const double value : grid.values)
    grid.limit = f.xpos.scale > 0 ? std::max(grid.limit, std::abs(value)) : grid.limit;
  if (grid.limit != 1) map.note = "times the attention factor " + significant(grid.limit, 6);
  return map;
}

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
  std::erase_if(marks, [last](const MarkedLength& mark) { return mark.tokens > last + 1; });
  for (MarkedLength& mark : marks) mark.tokens = std::min(mark.tokens, last);  // the length of all positions
  add_marks(plot, marks, false);
  return plot;
}

}  // namespace rotary::cli
