// The known word that a misspelt word is likely to mean.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io.h"

namespace rotary::files {

// The number of letters to add, remove, change or swap with their neighbour to turn a into b.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

// The nearest of the words, the first of equals; "" if none is near. Near is an edit distance of at most 2 and at most
// a third of word's length. Upper and lower case count as equal.
inline std::string_view nearest(std::string_view word, std::span<const std::string_view> words) {
  constexpr std::size_t most = 2;
  constexpr std::size_t longest = 80;  // no name is longer
  if (word.size() > longest) return {};
  const std::string wanted = lower(word);
  std::string_view found;
  std::size_t least = std::min(most, wanted.size() / 3) + 1;
  for (const std::string_view known : words) {
    if (known.size() > wanted.size() + most || wanted.size() > known.size() + most) continue;
    const std::size_t distance = edit_distance(wanted, lower(known));
    if (distance < least) {
      least = distance;
      found = known;
    }
  }
  return found;
}

// ": did you mean llama?" with the nearest other word; "" if none is near.
inline std::string suggestion(std::string_view word, std::span<const std::string_view> words) {
  const std::string_view meant = nearest(word, words);
  return meant.empty() || meant == word ? "" : ": did you mean " + std::string(meant) + "?";
}

}  // namespace rotary::files
