#include "page.h"

#include <algorithm>

#include "apps/shared/columns.h"
#include "apps/shared/text.h"

namespace rotary::cli {

namespace {

constexpr std::string_view indent = "    ";

// Wrapped; code between backticks stays in one line, without the backticks.
std::string filled(const std::string& paragraph, std::size_t margin, std::size_t width) {
  constexpr char held = '\x01';  // a space of code
  std::string text;
  bool in_code = false;
  for (const char letter : paragraph) {
    if (letter == '`') {
      in_code = !in_code;
    } else {
      text += in_code && letter == ' ' ? held : letter;
    }
  }
  text = wrapped(text, margin, width);
  std::replace(text.begin(), text.end(), held, ' ');
  return text + "\n";
}

Cells cells_of(std::string_view row) {
  Cells cells;
  for (row.remove_prefix(1); !row.empty();) {
    const std::size_t end = std::min(row.find('|'), row.size());
    const std::string_view cell = row.substr(0, end);
    const std::size_t first = std::min(cell.find_first_not_of(' '), cell.size());
    cells.emplace_back(cell.substr(first, cell.find_last_not_of(' ') + 1 - first));
    row.remove_prefix(std::min(end + 1, row.size()));
  }
  return cells;
}

// rows: the header, the row of dashes, the others.
std::string aligned(std::vector<Cells> rows) {
  std::vector<Column> columns;
  for (const std::string& dashes : rows.at(1)) columns.push_back({.right = dashes.ends_with(':')});
  rows.erase(rows.begin() + 1);
  const Columns table = Columns(std::move(columns), 3, std::string(indent)).fit(rows);
  std::string text;
  for (const Cells& row : rows) {
    text += without_end_spaces(table.line(row)) + "\n";
    if (&row == &rows.front()) text += table.rule() + "\n";
  }
  return text;
}

class Writer {
 public:
  explicit Writer(std::size_t width) : width_(width) {}

  void line(std::string_view line) {
    if (line.starts_with("```")) {
      in_code_ = !in_code_;
    } else if (in_code_) {
      text_.append(line.empty() ? "" : indent).append(line).append("\n");
    } else if (line.starts_with("|")) {
      table_.push_back(cells_of(line));
    } else if (line.empty() || line.starts_with("![")) {
      finish();
      if (line.empty() && !text_.ends_with("\n\n")) text_ += "\n";
    } else if (line.starts_with("#")) {
      const std::string_view title = line.substr(line.find(' ') + 1);
      text_.append(title).append("\n").append(title.size(), line.starts_with("##") ? '-' : '=').append("\n");
    } else {
      if (line.starts_with("* ")) finish();
      paragraph_.append(paragraph_.empty() ? "" : " ").append(line);
    }
  }

  std::string text() {
    finish();
    return text_.erase(text_.find_last_not_of('\n') + 1) + "\n";
  }

 private:
  void finish() {
    if (!table_.empty()) text_ += aligned(std::move(table_));
    const bool item = paragraph_.starts_with("* ");
    if (item) text_.append("  * ").append(filled(paragraph_.substr(2), 4, width_));
    if (!item && !paragraph_.empty()) text_ += filled(paragraph_, 0, width_);
    table_.clear();
    paragraph_.clear();
  }

  std::size_t width_;
  bool in_code_ = false;
  std::string text_, paragraph_;
  std::vector<Cells> table_;
};

}  // namespace

std::string terminal_text(std::string_view markdown, std::size_t width) {
  Writer writer(width);
  while (!markdown.empty()) {
    const std::size_t end = std::min(markdown.find('\n'), markdown.size());
    writer.line(markdown.substr(0, end));
    markdown.remove_prefix(std::min(end + 1, markdown.size()));
  }
  return writer.text();
}

}  // namespace rotary::cli
