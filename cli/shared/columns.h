// Rows of text cells, aligned under each other.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace rotary::cli {

using Cells = std::vector<std::string>;

struct Column {
  bool right = false;     // aligned to the right
  std::size_t width = 0;  // in columns of a terminal; a longer cell shifts the rest of its row
};

class Columns {
 public:
  // gap: spaces between two columns; indent: in front of every row.
  explicit Columns(std::vector<Column> columns, std::size_t gap = 2, std::string indent = {});

  // Widens each column to its longest cell of at most max_width columns. The last cell of a row with fewer cells than
  // columns is not counted, because nothing follows it.
  Columns& fit(std::span<const Cells> rows, std::size_t max_width = static_cast<std::size_t>(-1));

  // One row without its line end. There are at most as many cells as columns; no spaces follow the last one.
  std::string line(const Cells& cells) const;
  std::string text(std::span<const Cells> rows) const;  // all rows, with their line ends

 private:
  std::vector<Column> columns_;
  std::size_t gap_;
  std::string indent_;
};

std::string without_end_spaces(std::string text);

}  // namespace rotary::cli
