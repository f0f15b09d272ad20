// The rules of a shift in any memory; they do not read the contents of the sequences.
#pragma once

#include <cstdint>

#include "checks.h"
#include "overlap.h"
#include "rotary/cache.h"

namespace rotary::detail {

template <class... Parts>
[[noreturn]] void refuse_shift(const Parts&... sentence) {
  fail(Code::SHAPE, "shift", sentence...);
}

// Checks elements that move, whatever part of them rotates.
inline void check_side(const char* name, const Heads& x) {
  check_heads({"shift", name, name, ""}, x, x, {Pairing::half, 0, 1, x.layout.tokens});
}

// Returns how many sequences there are.
template <class S>
std::int64_t check_sequences(const S& s, const Layout& l) {
  const bool paged = s.indptr != nullptr || s.indices != nullptr || s.sequences != 0;
  if (s.sequences < 0) refuse_shift("sequences must not be negative but got ", s.sequences);
  if (paged) {
    check_pointer("shift", "indptr", s.indptr, sizeof(std::int32_t));
    check_pointer("shift", "indices", s.indices, sizeof(std::int32_t));
  }
  if (paged || s.by_row) check_not_null("shift", "lengths", s.lengths);
  check_aligned("shift", "lengths", s.lengths, sizeof(std::int32_t));
  return paged ? s.sequences : l.batch;
}

// cos, sin: the table's row. Returns the number of sequences.
template <class S>
std::int64_t check_shift(const Heads& k, const Heads& v, const TableShape& table, const float* cos, const float* sin,
                         std::int64_t keep, std::int64_t drop, const S& sequences) {
  if (keep < 0 || drop < 0) refuse_shift("keep and drop must not be negative but got ", keep, " and ", drop);
  if (table.tokens != 1 || table.batch != 1)
    refuse_shift("the table must have one row but got ", table.batch, " times ", table.tokens);
  check_side("k", k);
  check_side("v", v);
  if (has_elements(v.layout) && (v.layout.batch != k.layout.batch || v.layout.tokens != k.layout.tokens))
    refuse_shift("v must have the batch and the tokens of k, ", shape(k.layout), ", but got ", shape(v.layout));
  const std::int64_t count = check_sequences(sequences, k.layout);
  if (!has_elements(k.layout)) {
    if (has_elements(v.layout)) refuse_shift("v must have no elements where k has none but got ", shape(v.layout));
    return count;
  }
  Writes written;
  written.add(memory_of("k", k));
  if (has_elements(v.layout)) {
    written.add(memory_of("v", v));
    check_disjoint("shift", written.memories[0], written.memories[1]);
  }
  const auto apart = [&](const char* name, const auto* data, std::int64_t values_of) {
    if (data != nullptr) check_disjoint("shift", written.all(), values(name, data, values_of));
  };
  apart("the table's cos", cos, std::int64_t{table.head_rows} * table.pairs);
  apart("the table's sin", sin, std::int64_t{table.head_rows} * table.pairs);
  apart("indptr", sequences.indptr, count + 1);
  apart("lengths", sequences.lengths, count);
  return count;
}

}  // namespace rotary::detail
