// Several models in one table.
#include <algorithm>
#include <iostream>
#include <set>

#include "shared/columns.h"
#include "shared/terminal.h"
#include "shared/text.h"
#include "shown.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

// A row of cells, one for each model; "" where it has none.
struct Row {
  std::string key;
  std::vector<std::string> values;
  bool differs() const {
    return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) != values.end();
  }
};

std::set<std::size_t> rope_numbers(const std::vector<Inspected>& all) {
  std::set<std::size_t> numbers;
  for (const Inspected& inspected : all) {
    for (const auto& [number, view] : inspected.views) numbers.insert(number);
  }
  return numbers;
}

// The rows of rope `index` of every model, in the order in which they are first met.
std::vector<Row> rows_of(const std::vector<Inspected>& all, std::size_t index) {
  std::vector<Row> rows;
  const auto put = [&](std::size_t model, const std::string& key, const std::string& value, std::size_t& at) {
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& known) { return known.key == key; });
    if (row == rows.end()) {
      row = rows.insert(rows.begin() + static_cast<std::ptrdiff_t>(std::min(at, rows.size())),
                        {key, std::vector<std::string>(all.size())});
    }
    row->values[model] = value;
    at = static_cast<std::size_t>(row - rows.begin()) + 1;
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto found = all[i].views.find(index);
    if (found == all[i].views.end()) continue;
    const RopeView& view = found->second;
    std::size_t at = 0;
    if (!view.used->part.empty()) put(i, "part", in_locale(printable(view.used->part)), at);
    for (const SummaryRow& row : summary_of(view)) put(i, row.key, row.value, at);
  }
  return rows;
}

constexpr std::size_t key_width = 20, column_gap = 2;

// Prints `first`, then the values in columns of width `each`. A long value continues on the next lines.
void print_cells(const std::string& first, const std::vector<std::string>& values, std::size_t each) {
  std::vector<std::vector<std::string>> lines = {{first}};
  std::vector<Column> columns = {{.width = key_width}};
  std::size_t height = 1;
  for (const std::string& value : values) {
    lines.push_back(wrapped(value.empty() ? "-" : value, each));
    columns.push_back({.width = each});
    height = std::max(height, lines.back().size());
  }
  const Columns aligned(std::move(columns), column_gap);
  for (std::size_t line = 0; line < height; ++line) {
    Cells cells;
    for (const auto& cell : lines) cells.push_back(line < cell.size() ? cell[line] : "");
    std::cout << without_end_spaces(aligned.line(cells)) << '\n';
  }
}

void print_row(const Row& row, std::size_t each) {
  print_cells((row.differs() ? "* " : "  ") + row.key, row.values, each);
}

}  // namespace

void print_side_by_side(const std::vector<Inspected>& all) {
  constexpr std::size_t narrowest = 16;
  const std::size_t room = terminal_width() > key_width ? terminal_width() - key_width : 0;
  const std::size_t each = std::max(room / all.size(), narrowest + column_gap) - column_gap;
  Row named{"", {}}, type{"model_type", {}}, ropes{"ropes", {}};
  for (const Inspected& inspected : all) {
    const std::string name = in_locale(printable(short_name(inspected.config)));
    named.values.push_back(name.size() <= each ? name : "..." + name.substr(name.size() - each + 3));
    type.values.push_back(inspected.model.model_type.empty() ? "not stated"
                                                             : in_locale(printable(inspected.model.model_type)));
    ropes.values.push_back(std::to_string(inspected.model.ropes.size()));
  }
  print_cells("", named.values, each);
  print_row(type, each);
  print_row(ropes, each);
  for (const std::size_t index : rope_numbers(all)) {
    std::cout << "\nrope " << index << '\n';
    for (const Row& row : rows_of(all, index)) print_row(row, each);
  }
  std::cout << "\n* differs\n";
}

Json differences_of(const std::vector<Inspected>& all) {
  Json list = Json::array();
  for (const std::size_t index : rope_numbers(all)) {
    std::vector<Json> ropes;
    for (const Inspected& inspected : all) {
      const auto view = inspected.views.find(index);
      ropes.push_back(view == inspected.views.end() ? Json(nullptr) : rope_json(view->second));
    }
    Json keys = Json::array();
    const auto first = std::find_if(ropes.begin(), ropes.end(), [](const Json& rope) { return !rope.is_null(); });
    for (const auto& [key, value] : first->items()) {
      if (key == "origins") continue;
      const bool same = std::all_of(ropes.begin(), ropes.end(), [&, &word = key, &held = value](const Json& rope) {
        return !rope.is_null() && rope.at(word) == held;
      });
      if (!same) keys.push_back(key);
    }
    list.push_back({{"rope", index}, {"keys", std::move(keys)}});
  }
  return list;
}

}  // namespace rotary::cli
