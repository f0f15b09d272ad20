// A page of text, which can be printed for a terminal of 80 columns or as Markdown.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "apps/shared/columns.h"

namespace rotary::cli {

using Words = std::initializer_list<std::string>;

// Characters for a terminal (none: it is left out there); in Markdown a file beside the page, FILE.svg.
struct Picture {
  std::string file;  // "08-decay": the number of the chapter stands first
  std::string alt;   // what it shows, in one line
  std::string characters;
  std::string svg;
};

class Page {
 public:
  enum class Kind : std::uint8_t { title, heading, paragraph, item, lines, table, picture };
  struct Block {
    Kind kind;
    std::string text;
    std::vector<Cells> rows = {};  // of a table; the first is the header
    Picture picture = {};
  };

  void title(std::string_view text);
  void heading(std::string_view text);
  // A paragraph. Each {} is replaced by the next word; runs of white space become one space. `code` is not wrapped, and
  // keeps its backticks in Markdown only.
  void say(std::string_view text, Words words = {});
  void item(std::string_view text, Words words = {});  // an item of a list
  // Preformatted lines, in which only {} is replaced: sums, plots, commands ("$ rotary ...").
  void show(std::string_view lines, Words words = {});
  void table(Cells header, std::vector<Cells> rows);
  void picture(Picture picture);
  void append(const Page& more);

  const std::vector<Block>& blocks() const noexcept { return blocks_; }

 private:
  std::vector<Block> blocks_;
};

std::string terminal_text(const Page& page);
std::string markdown_text(const Page& page);

}  // namespace rotary::cli
