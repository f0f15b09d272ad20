// By pair: wavelengths, and what a scaling did to them.
#include <algorithm>
#include <cmath>
#include <set>

#include "apps/shared/text.h"
#include "request.h"
#include "values/scaling_fields.h"

namespace rotary::cli {

namespace {

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

void add_to_note(Figure& plot, const std::string& text) {
  if (!text.empty()) plot.note += (plot.note.empty() ? "" : "; ") + text;
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
  plot.x_label = "pair";
  plot.y_label = y_label;
  return plot;
}

// low and high of all points.
std::pair<double, double> heights(const Figure& plot) {
  double low = 1e300, high = -1e300;
  for (const Line& line : plot.lines) {
    for (const auto& [x, y] : outline_of(line)) {
      low = std::min(low, y);
      high = std::max(high, y);
    }
  }
  return {low, high};
}

}  // namespace

void add_level_guides(Figure& plot, const std::vector<MarkedLength>& lengths) {
  double last = 0;
  for (const Line& line : plot.lines)
    for (const auto& [x, y] : line.points) last = std::max(last, x);
  for (const MarkedLength& length : lengths)
    plot.lines.push_back({.name = length.name, .points = {{0, length.tokens}, {last, length.tokens}}, .guide = true});
}

void add_upright_guides(Figure& plot, const std::vector<MarkedLength>& lengths) {
  auto [low, high] = heights(plot);
  if (low == high) {  // level lines: as high as the axis that is made for them
    low -= 0.1 * std::abs(low);
    high += 0.1 * std::abs(high);
  }
  for (const MarkedLength& length : lengths)
    plot.lines.push_back({.name = length.name, .points = {{length.tokens, high}, {length.tokens, low}}, .guide = true});
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
  add_to_note(plot, still_pairs(ropes));
  add_level_guides(plot, lengths.marks);
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
  add_to_note(plot, still_pairs(ropes));
  const auto [low, high] = heights(plot);
  plot.log_y = low > 0 && high > 20 * std::min(low, 1.0);
  std::vector<MarkedLength> turns;
  std::set<std::int64_t> seen;
  for (const PlottedRope& rope : ropes) {
    const std::int64_t trained = trained_tokens(*rope.used);
    if (trained <= 0 || !seen.insert(trained).second) continue;
    if (const auto pair = pair_of_wavelength(rope, static_cast<double>(trained)))
      turns.push_back({*pair, "one turn in " + std::to_string(trained) + " tokens"});
  }
  if (turns.size() == 1) add_upright_guides(plot, turns);
  return plot;
}

}  // namespace rotary::cli
