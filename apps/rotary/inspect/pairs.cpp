// The table of `rotary inspect --pairs`.
#include <iostream>
#include <string>
#include <string_view>
#include <utility>

#include "apps/shared/columns.h"
#include "apps/shared/terminal.h"
#include "apps/shared/text.h"
#include "effects.h"
#include "summary.h"

namespace rotary::cli {

void print_pairs(const RopeView& view) {
  const bool with_axis = view.axes > 1, with_turns = view.turns_over > 0;
  const auto cells = [=](const std::string& pair, const std::string& axis, const std::string& inv_freq,
                         const std::string& wavelength, const std::string& turns) {
    Cells row = {pair, inv_freq, wavelength};
    if (with_turns) row.push_back(turns);
    if (with_axis) row.insert(row.begin() + 1, axis);
    return row;
  };
  std::vector<Cells> rows = {cells("pair", "axis", "inv_freq", "wavelength", "turns")};
  for (std::size_t i = 0; i < view.pairs.size(); ++i) {
    const PairView& pair = view.pairs[i];
    rows.push_back(cells(std::to_string(i), view.axis_names[static_cast<std::size_t>(pair.axis)],
                         significant(pair.inv_freq, 6), pair.inv_freq != 0 ? significant(wavelength_of(pair), 6) : "-",
                         significant(static_cast<double>(view.turns_over) * pair.inv_freq / 6.283185307179586, 5)));
  }
  std::vector<Column> columns = {{true, 4}, {true, 12}, {true, 12}};
  if (with_turns) columns.push_back({true, 10});
  if (with_axis) columns.insert(columns.begin() + 1, Column{});
  const Columns aligned = Columns(std::move(columns), 2, "  ").fit(rows);
  std::cout << '\n';
  if (with_turns && view.turns_over != view.context)
    std::cout << "  turns over " << view.turns_over << " tokens: " << which_lengths(view.lengths) << '\n';
  std::cout << aligned.line(rows.front()) << "  scaling\n";
  for (std::size_t i = 0; i < view.pairs.size(); ++i) {
    const PairView& pair = view.pairs[i];
    const bool changed = pair.inv_freq != 0 && std::string_view(pair.effect) != "kept";
    const std::string effect = pair.effect + (changed ? " x " + significant(pair.stretch, 6) : "");
    std::cout << aligned.line(rows[i + 1]) << "  " << painted(effect, colour_of(pair.effect)) << '\n';
  }
}

}  // namespace rotary::cli
