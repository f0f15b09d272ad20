// A page of explanation: written once, shown in a terminal of 80 columns or as Markdown.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "apps/shared/columns.h"

namespace rotary::cli {

using Words = std::initializer_list<std::string>;

class Page {
 public:
  enum class Kind : std::uint8_t { title, heading, paragraph, item, lines, table };
  struct Block {
    Kind kind;
    std::string text;
    std::vector<Cells> rows;  // of a table, its header first
  };

  void title(std::string_view text);
  void heading(std::string_view text);
  // Each {} is the next word; white space runs together. `code` is not broken over lines, and code in Markdown.
  void say(std::string_view text, Words words = {});
  void item(std::string_view text, Words words = {});  // of a list
  // Kept as they stand, but for the {}: sums, pictures, commands ("$ rotary ...").
  void show(std::string_view lines, Words words = {});
  void table(Cells header, std::vector<Cells> rows);
  void append(const Page& more);

  const std::vector<Block>& blocks() const noexcept { return blocks_; }

 private:
  std::vector<Block> blocks_;
};

std::string terminal_text(const Page& page);
std::string markdown_text(const Page& page);

}  // namespace rotary::cli
