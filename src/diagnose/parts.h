// A sample that no one rotation explains, as it is looked at from its parts.
#pragma once

#include <array>
#include <set>

#include "examination.h"

namespace rotary::diagnose {

struct Scene {
  const Sample& sample;
  const Subject& subject;
  Reading reading;
  Asked asked;
  int depth;
  Piece all = {};
  // What differs from what is asked.
  Piece wrong = {}, right = {};        // with a head that differs; with one that moves as asked
  std::int64_t heads = 0;              // how many differ
  std::int64_t off = 0;                // how many elements differ
  std::vector<Element> elements = {};  // the first of them
  const Layout& layout() const noexcept { return reading.layout; }
};

// A before that is not what the rotation took: heads or rows in another order, or in front of a norm.
std::optional<Answer> answer_by_repair(const Scene&);

}  // namespace rotary::diagnose
