// Chapters as text: those of docs/explain for a terminal, and two of them for a reader's own model.
#pragma once

#include <string>
#include <string_view>

#include "apps/rotary/source.h"

namespace rotary::cli {

// Markdown for a terminal: titles, headings, paragraphs, items, tables and code blocks in at most `width` columns, but
// for tables and code. Pictures are left out.
std::string terminal_text(std::string_view markdown, std::size_t width);

// Chapters 8 and 11, as Markdown without titles, of the rope that --rope chooses, else of the rope that `rotary extend`
// extends.
struct OwnChapters {
  std::string frequencies, scaling;
};
OwnChapters explain_own(const Source&);

}  // namespace rotary::cli
