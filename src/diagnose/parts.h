// A sample that no one rotation explains, as it is looked at from its parts.
#pragma once

#include <array>
#include <set>

#include "examination.h"

namespace rotary::diagnose {

// Numbers of rows, tokens and heads of a layout.
using Piece = std::array<std::set<std::int64_t>, 3>;
using Spot = std::array<std::int64_t, 3>;  // of one head: row, token, head

struct Scene {
  const Sample& sample;
  const Subject& subject;
  Layout layout;
  Asked asked;
  int depth;
  Piece all = {};
  // What differs from what is asked.
  Piece wrong = {}, right = {};             // with a head that differs; with one that moves as asked
  std::int64_t heads = 0;                   // how many differ
  std::int64_t off = 0;                     // how many elements differ
  std::vector<std::int64_t> elements = {};  // the first of them
  Spot first = {};                          // the head of the first of them
  std::vector<double> wanted = {};
};

template <class Visit>
void for_each_head(const Piece& piece, const Layout& layout, Visit visit) {
  for (const std::int64_t b : piece[0]) {
    for (const std::int64_t t : piece[1]) {
      for (const std::int64_t h : piece[2]) visit(Spot{b, t, h}, at(layout, b, t, h));
    }
  }
}

// A before that is not what the rotation took: heads or rows in another order, or in front of a norm.
std::optional<Answer> answer_by_repair(const Scene&);

}  // namespace rotary::diagnose
