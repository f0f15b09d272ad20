// A cell of rotary bench: which work, on which shape, and what it is called in JSON.
#pragma once

#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::cli::bench {

enum class Op : std::uint8_t {
  rotate,       // q, then k
  backward,     // the same, transposed
  table,        // Table::assign in storage that is there
  fused,        // rotate_qk
  append,       // gpu::rotate_append, of q, k and v in one tensor
  norm_append,  // gpu::norm_rotate_append
};
const char* name(Op) noexcept;                 // "rotate", "backward", "table", "fused", "append", "norm_append"
Op parse_op(std::string_view);                 // throws VALUE
bool appends(Op) noexcept;                     // k and v go to a cache
bool only_out_of_place(Op, Pairing) noexcept;  // not in place

// Where in memory the heads lie, when not one behind the other from the start of a page.
struct Placement {
  std::int64_t padding = 0;  // elements between the tokens
  std::int64_t offset = 0;   // bytes from a page's start
  bool aliased = false;      // out of place: a multiple of 4096 bytes between a value read and its place to be written
  bool operator==(const Placement&) const = default;
};

struct Cell {
  Op op = Op::rotate;
  DType dtype = DType::bf16;  // of a table: what its values are rounded to
  Pairing pairing = Pairing::half;
  std::string layout = "bthd";
  std::int64_t batch = 1;
  std::int64_t tokens = 64;
  std::int64_t heads = 32;    // of q
  std::int64_t kv_heads = 8;  // of k; 0: q only
  int head_dim = 128;
  int rotary_dim = 128;
  bool in_place = true;
  unsigned threads = 1;
  std::string target;
  Placement placement;
  bool cuda = false;       // on a CUDA device: one of the two below, no threads, its name as target
  bool with_table = true;  // else each angle is computed where it is needed
  bool f8 = false;         // the cache's type, where a cell has one: else the heads'
  bool operator==(const Cell&) const = default;
};

const std::vector<std::string>& layout_words();  // bthd, bhtd, tbhd, thd

// Of q (heads = cell.heads) or of k (heads = cell.kv_heads).
Layout layout_of(const Cell&, std::int64_t heads);
Rope rope_of(const Cell&);
Rounding rounding_of(const Cell&);  // of a table

// 1, 2, 3, ..., one for each token: at position 0 nothing turns, which no decoding step is.
std::vector<std::int64_t> first_positions(const Cell&);

// ---- what is counted ----

template <std::integral T>
constexpr T round_up(T value, std::type_identity_t<T> unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

// In place the elements that turn, out of place all, of q and k; of a table its pairs. Where k and v go to a cache, all
// of theirs.
std::int64_t elements(const Cell&);
// Those elements, read and written; of a table cos and sin, written.
std::int64_t bytes(const Cell&);
// The 64-byte lines that hold those elements, once: memory moves by lines. Of a table cos and sin.
std::int64_t line_bytes(const Cell&);
// Bytes from the first element of q (of k) to behind its last one; of a table those of cos and of sin together.
std::int64_t q_extent(const Cell&);
std::int64_t k_extent(const Cell&);
// Bytes that must be in memory to measure it. A double: no shape is too large for that.
double memory_needed(const Cell&);

// ---- names ----

// The keys that describe the cell, in the order of the JSON lines; null where a key has no meaning for it.
nlohmann::ordered_json describe(const Cell&);
std::string kind_words(const Cell&);   // "bf16 half in place"; of a table "f32"
std::string shape_words(const Cell&);  // "bthd [1, 64, 32+8, 128/64]": 64 turn; of a table "[64, 32]"

// Throws what the library throws for such a rope, SHAPE where batch does not go with thd, MEMORY where it is larger
// than what is free.
void check(const Cell&, double free_bytes);

}  // namespace rotary::cli::bench
