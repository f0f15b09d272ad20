// The summary of one rope: a row for each value, and where it comes from.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rope.h"

namespace rotary::cli {

struct SummaryRow {
  std::string key;
  std::string value;
  std::string origin = {};  // "" where it is not known
  bool operator==(const SummaryRow&) const = default;
};

std::vector<SummaryRow> summary_of(const RopeView&);

// "rope 0 of text_config", then a line for each row. What equals the row of that key in `before`, a rope of the same
// part printed above, is named only: before_index is its number.
void print_summary(const RopeView&, std::size_t index, const RopeView* before = nullptr, std::size_t before_index = 0);

// The pairs one by one: inv_freq with 6 digits, wavelength, turns, what the scaling did.
void print_pairs(const RopeView&);

// text broken between words into lines of at most width columns; a longer word (the path of a key) behind a dot.
std::vector<std::string> wrapped(const std::string& text, std::size_t width);

// A title, and below it the sentences, if there are any: one line each, so that a search finds a whole one; in a
// terminal they are broken between words.
void print_sentences(std::string_view title, const std::vector<std::string>& sentences);

}  // namespace rotary::cli
