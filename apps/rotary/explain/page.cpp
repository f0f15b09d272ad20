#include "page.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <stdexcept>

#include "apps/shared/text.h"

namespace rotary::cli {

namespace {

constexpr std::size_t columns = 80;
constexpr std::string_view indent = "    ";

std::string fill(std::string_view text, Words words) {
  std::string filled;
  const std::string* word = words.begin();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) != "{}") {
      filled += text[i];
      continue;
    }
    if (word == words.end()) throw std::logic_error("more {} than words: " + std::string(text));
    filled += *word++;
    ++i;
  }
  if (word != words.end()) throw std::logic_error("more words than {}: " + std::string(text));
  return filled;
}

std::string one_line(const std::string& text) {
  std::istringstream stream(text);
  std::string line;
  for (std::string word; stream >> word;) line.append(line.empty() ? "" : " ").append(word);
  return line;
}

// At the spaces, but for those between ticks.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  bool in_code = false;
  for (const char c : line) {
    in_code = in_code != (c == '`');
    if (c == ' ' && !in_code) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

std::string without_ticks(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '`'), text.end());
  return text;
}

// Lines of at most `columns`, each begun by margin, the first by first_margin.
std::string wrapped(const std::string& text, bool keep_ticks, std::string_view first_margin, std::string_view margin) {
  std::string out(first_margin);
  std::size_t used = first_margin.size();
  bool begun = false;
  for (const std::string& piece : words_of(text)) {
    const std::string word = keep_ticks ? piece : without_ticks(piece);
    if (begun && used + 1 + word.size() > columns) {
      out.append("\n").append(margin);
      used = margin.size();
    } else if (begun) {
      out += ' ';
      ++used;
    }
    out += word;
    used += word.size();
    begun = true;
  }
  return out + '\n';
}

// Columns whose cells are all numbers, or lists of numbers, stand to the right.
bool is_numeric(const std::vector<Row>& rows, std::size_t column) {
  return std::all_of(rows.begin() + 1, rows.end(), [column](const Row& row) {
    const std::string& cell = row.at(column);
    return std::none_of(cell.begin(), cell.end(),
                        [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 && c != 'e'; });
  });
}

std::string aligned(const std::string& cell, std::size_t width, bool right) {
  return right ? lead(cell, width) : pad(cell, width);
}

std::string terminal_table(const std::vector<Row>& rows) {
  std::string out;
  std::vector<std::string> lines(rows.size() + 1, std::string(indent));  // the header, a rule, the rows
  for (std::size_t column = 0; column < rows.front().size(); ++column) {
    std::size_t width = 0;
    for (const Row& row : rows) width = std::max(width, row.at(column).size());
    const bool right = is_numeric(rows, column);
    if (column > 0) {
      for (std::string& line : lines) line += "   ";
    }
    lines[0] += aligned(rows[0][column], width, right);
    lines[1].append(width, '-');
    for (std::size_t i = 1; i < rows.size(); ++i) lines[i + 1] += aligned(rows[i][column], width, right);
  }
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

std::string markdown_table(const std::vector<Row>& rows) {
  std::string out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out += '|';
    for (const std::string& cell : rows[i]) out.append(" ").append(cell).append(" |");
    out += '\n';
    if (i > 0) continue;
    out += '|';
    for (std::size_t column = 0; column < rows[0].size(); ++column) out += is_numeric(rows, column) ? "---:|" : "---|";
    out += '\n';
  }
  return out;
}

std::string indented(const std::string& text) {
  std::istringstream stream(text);
  std::string out;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) out.append(indent).append(line);
    out += '\n';
  }
  return out;
}

std::string terminal_block(const Page::Block& block) {
  using Kind = Page::Kind;
  switch (block.kind) {
    case Kind::title:
      return block.text + '\n' + std::string(block.text.size(), '=') + '\n';
    case Kind::heading:
      return block.text + '\n' + std::string(block.text.size(), '-') + '\n';
    case Kind::paragraph:
      return wrapped(block.text, false, "", "");
    case Kind::item:
      return wrapped(block.text, false, "  * ", "    ");
    case Kind::lines:
      return indented(block.text);
    case Kind::table:
      return terminal_table(block.rows);
  }
  return {};
}

std::string markdown_block(const Page::Block& block) {
  using Kind = Page::Kind;
  switch (block.kind) {
    case Kind::title:
      return "# " + block.text + '\n';
    case Kind::heading:
      return "## " + block.text + '\n';
    case Kind::paragraph:
      return wrapped(block.text, true, "", "");
    case Kind::item:
      return wrapped(block.text, true, "* ", "  ");
    case Kind::lines:
      return (block.text.starts_with("$ ") ? "```sh\n" : "```text\n") + block.text + "\n```\n";
    case Kind::table:
      return markdown_table(block.rows);
  }
  return {};
}

std::string joined(const Page& page, std::string (*write)(const Page::Block&)) {
  std::string out;
  const Page::Block* before = nullptr;
  for (const Page::Block& block : page.blocks()) {
    const bool same_list = before != nullptr && before->kind == Page::Kind::item && block.kind == Page::Kind::item;
    if (before != nullptr && !same_list) out += '\n';
    if (before != nullptr && block.kind == Page::Kind::title) out += '\n';
    out += write(block);
    before = &block;
  }
  return out;
}

}  // namespace

void Page::title(std::string_view text) { blocks_.push_back({Kind::title, std::string(text), {}}); }
void Page::heading(std::string_view text) { blocks_.push_back({Kind::heading, std::string(text), {}}); }
void Page::say(std::string_view text, Words words) {
  blocks_.push_back({Kind::paragraph, one_line(fill(text, words)), {}});
}
void Page::item(std::string_view text, Words words) {
  blocks_.push_back({Kind::item, one_line(fill(text, words)), {}});
}

void Page::show(std::string_view lines, Words words) {
  const std::size_t first = lines.find_first_not_of('\n');
  const std::size_t last = lines.find_last_not_of(" \n");
  blocks_.push_back({Kind::lines, fill(lines.substr(first, last + 1 - first), words), {}});
}

void Page::table(Row header, std::vector<Row> rows) {
  rows.insert(rows.begin(), std::move(header));
  blocks_.push_back({Kind::table, {}, std::move(rows)});
}

void Page::append(const Page& more) { blocks_.insert(blocks_.end(), more.blocks_.begin(), more.blocks_.end()); }

std::string terminal_text(const Page& page) { return joined(page, terminal_block); }
std::string markdown_text(const Page& page) { return joined(page, markdown_block); }

}  // namespace rotary::cli
