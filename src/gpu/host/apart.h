// What a call writes meets nothing else that it writes or reads: ALIAS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "call.h"
#include "rotate/overlap.h"

namespace rotary::gpu {

// Elements in memory, and how sentences name them. Light to make: nearly all calls need no more than both ends.
struct Part {
  const char* name = nullptr;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::int64_t each = 1;           // bytes of an element
  const Layout* layout = nullptr;  // null: one behind the other
};

inline Part part(const char* name, const void* data, std::int64_t each, const Layout& l) noexcept {
  const std::int64_t elements = (l.batch > 1 ? (l.batch - 1) * l.batch_stride : 0) +
                                (l.tokens > 1 ? (l.tokens - 1) * l.token_stride : 0) +
                                (l.heads > 1 ? (l.heads - 1) * l.head_stride : 0) + l.head_dim;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return {name, begin, begin + static_cast<std::uintptr_t>(elements * each), each, &l};
}

inline Blocks blocks_of(const Part& p) noexcept {
  if (p.layout == nullptr) return {p.begin, static_cast<std::int64_t>(p.end - p.begin), {1, 1, 1}, {}};
  const Layout& l = *p.layout;
  Blocks blocks{p.begin, l.head_dim * p.each, {l.batch, l.tokens, l.heads}, {}};
  set_strides(blocks.stride, l);
  for (std::int64_t& stride : blocks.stride) stride *= p.each;
  return blocks;
}

// What a call writes: q_out, the cache's k and v.
struct Writes {
  Writes() = default;
  Writes(const Writes&) = delete;  // parts point to the layout
  Writes& operator=(const Writes&) = delete;
  void add(const Part& p) noexcept { parts[count++] = p; }
  std::span<const Part> all() const noexcept { return {parts, count}; }
  Part parts[3];
  std::size_t count = 0;
  Layout cache;
};

// a * b, or the most.
inline std::int64_t product(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
}

// `count` values one behind the other.
template <class T>
Part values(const char* name, const T* data, std::int64_t count) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return {name, begin, begin + static_cast<std::uintptr_t>(product(count, sizeof(T))), 1, nullptr};
}

inline Part values(const char* name, const Positions& p) noexcept {
  const std::int64_t count = product(p.axes, product(p.batch, p.tokens));
  if (p.i64 != nullptr) return values(name, p.i64, count);
  return p.i32 != nullptr ? values(name, p.i32, count) : values(name, p.f64, count);
}

// None of them is without elements. Throws ALIAS.
inline void check_apart(const char* verb, const Part& written, const Part& other) {
  if (other.end <= written.begin || written.end <= other.begin) return;
  if (blocks_meet(blocks_of(written), blocks_of(other))) refuse_meeting(verb, written.name, other.name);
}
inline void check_apart(const char* verb, std::span<const Part> written, const Part& other) {
  for (const Part& w : written) check_apart(verb, w, other);
}

// From what says how far to turn.
inline void check_apart(const char* verb, std::span<const Part> written, const Rotation& by) {
  if (by.table == nullptr) return check_apart(verb, written, values("the positions", *by.positions));
  const Table& table = *by.table;
  const std::int64_t count = table.batch() * table.tokens() * table.pairs();
  check_apart(verb, written, values("the table's cos", table.cos(), count));
  check_apart(verb, written, values("the table's sin", table.sin(), count));
}

}  // namespace rotary::gpu
