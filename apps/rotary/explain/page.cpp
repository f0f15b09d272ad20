#include "page.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <stdexcept>

namespace rotary::cli {

namespace {

constexpr std::size_t line_width = 80;
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

// Splits at spaces, except those between backticks.
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

// Wrapped to line_width characters; the first line begins with first_margin, the others with margin.
std::string wrapped(const std::string& text, bool keep_ticks, std::string_view first_margin, std::string_view margin) {
  std::string out(first_margin);
  std::size_t used = first_margin.size();
  bool begun = false;
  for (const std::string& piece : words_of(text)) {
    const std::string word = keep_ticks ? piece : without_ticks(piece);
    if (begun && used + 1 + word.size() > line_width) {
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

// Columns whose cells are all numbers, or lists of numbers, are aligned to the right.
std::vector<Column> columns_of(const std::vector<Cells>& rows) {
  const auto is_word = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 && c != 'e'; };
  std::vector<Column> columns;
  for (std::size_t i = 0; i < rows.front().size(); ++i) {
    const bool numeric = std::all_of(rows.begin() + 1, rows.end(), [i, is_word](const Cells& row) {
      return std::none_of(row.at(i).begin(), row.at(i).end(), is_word);
    });
    columns.push_back({.right = numeric});
  }
  return columns;
}

std::string terminal_table(const std::vector<Cells>& rows) {
  const Columns columns = Columns(columns_of(rows), 3, std::string(indent)).fit(rows);
  std::string out;
  for (const Cells& row : rows) {
    out += without_end_spaces(columns.line(row)) + '\n';
    if (&row == &rows.front()) out += columns.rule() + '\n';
  }
  return out;
}

std::string markdown_table(const std::vector<Cells>& rows) {
  std::string out;
  for (const Cells& row : rows) {
    out += '|';
    for (const std::string& cell : row) out.append(" ").append(cell).append(" |");
    out += '\n';
    if (&row != &rows.front()) continue;
    out += '|';
    for (const Column& column : columns_of(rows)) out += column.right ? "---:|" : "---|";
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
    case Kind::picture:
      return indented(block.picture.characters);
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
    case Kind::picture:
      return "![" + block.picture.alt + "](" + block.picture.file + ".svg)\n";
  }
  return {};
}

std::string joined(const Page& page, std::string (*write)(const Page::Block&)) {
  std::string out;
  const Page::Block* before = nullptr;
  for (const Page::Block& block : page.blocks()) {
    const std::string written = write(block);
    if (written.empty()) continue;
    const bool same_list = before != nullptr && before->kind == Page::Kind::item && block.kind == Page::Kind::item;
    if (before != nullptr && !same_list) out += '\n';
    if (before != nullptr && block.kind == Page::Kind::title) out += '\n';
    out += written;
    before = &block;
  }
  return out;
}

}  // namespace

void Page::title(std::string_view text) { blocks_.push_back({.kind = Kind::title, .text = std::string(text)}); }
void Page::heading(std::string_view text) { blocks_.push_back({.kind = Kind::heading, .text = std::string(text)}); }
void Page::say(std::string_view text, Words words) {
  blocks_.push_back({.kind = Kind::paragraph, .text = one_line(fill(text, words))});
}
void Page::item(std::string_view text, Words words) {
  blocks_.push_back({.kind = Kind::item, .text = one_line(fill(text, words))});
}

void Page::show(std::string_view lines, Words words) {
  const std::size_t first = lines.find_first_not_of('\n');
  const std::size_t last = lines.find_last_not_of(" \n");
  blocks_.push_back({.kind = Kind::lines, .text = fill(lines.substr(first, last + 1 - first), words)});
}

void Page::table(Cells header, std::vector<Cells> rows) {
  rows.insert(rows.begin(), std::move(header));
  blocks_.push_back({.kind = Kind::table, .text = {}, .rows = std::move(rows)});
}

void Page::picture(Picture picture) {
  blocks_.push_back({.kind = Kind::picture, .text = {}, .picture = std::move(picture)});
}

void Page::append(const Page& more) { blocks_.insert(blocks_.end(), more.blocks_.begin(), more.blocks_.end()); }

std::string terminal_text(const Page& page) { return joined(page, terminal_block); }
std::string markdown_text(const Page& page) { return joined(page, markdown_block); }

}  // namespace rotary::cli
