#include "columns.h"

#include <algorithm>
#include <utility>

#include "text.h"

namespace rotary::cli {

Columns::Columns(std::vector<Column> columns, std::size_t gap, std::string indent)
    : columns_(std::move(columns)), gap_(gap), indent_(std::move(indent)) {}

Columns& Columns::fit(std::span<const Cells> rows, std::size_t max_width) {
  for (const Cells& row : rows) {
    const std::size_t counted = row.size() < columns_.size() ? row.size() - 1 : row.size();
    for (std::size_t i = 0; i < counted; ++i) {
      const std::size_t width = columns(row[i]);
      if (width <= max_width) columns_[i].width = std::max(columns_[i].width, width);
    }
  }
  return *this;
}

std::string Columns::line(const Cells& cells) const {
  std::string text = indent_;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Column& column = columns_.at(i);
    const std::size_t used = columns(cells[i]);
    const std::string spaces(column.width - std::min(used, column.width), ' ');
    if (i > 0) text.append(gap_, ' ');
    if (column.right) text += spaces;
    text += cells[i];
    if (!column.right && i + 1 < cells.size()) text += spaces;
  }
  return text;
}

std::string Columns::text(std::span<const Cells> rows) const {
  std::string text;
  for (const Cells& row : rows) text += line(row) + "\n";
  return text;
}

std::string without_end_spaces(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace rotary::cli
