// A cell of rotary bench: the operation, the shape, what is counted of it, its properties, and grids of cells.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::cli::bench {

enum class Op : std::uint8_t {
  rotate,       // q, then k
  backward,     // the gradient of rotate
  table,        // Table::assign into existing storage
  fused,        // rotate_qk
  append,       // gpu::rotate_append, of q, k and v in one tensor
  norm_append,  // gpu::norm_rotate_append
};
const char* name(Op) noexcept;                 // "rotate", "backward", "table", "fused", "append", "norm_append"
Op parse_op(std::string_view);                 // throws VALUE
bool appends(Op) noexcept;                     // k and v go to a cache
bool only_out_of_place(Op, Pairing) noexcept;  // not in place

struct Cell {
  Op op = Op::rotate;
  DType dtype = DType::bf16;  // of a table: the type its values are rounded to
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
  std::string target = {};
  bool cuda = false;       // on a CUDA device; target is its name, threads has no meaning
  bool with_table = true;  // otherwise the kernel computes each angle itself
  bool f8 = false;         // the cache holds f8 e4m3, otherwise the type of the heads
};

const std::vector<std::string>& layout_words();  // bthd, bhtd, tbhd, thd

// Of q (heads = cell.heads) or of k (heads = cell.kv_heads).
Layout layout_of(const Cell&, std::int64_t heads);
Rope rope_of(const Cell&);
Rounding rounding_of(const Cell&);  // of a table; f32 for other cells
// 1, 2, 3, ..., one per token. Position 0 is left out: it rotates by nothing, unlike any decoding step.
std::vector<std::int64_t> first_positions(const Cell&);

// ---- what is counted ----

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

// Of q and k: in place the rotated elements, out of place all of them. Of k and v that go to a cache: all. Of a table:
// its pairs.
std::int64_t elements(const Cell&);
// Bytes of those elements, read and written; of a table those of cos and sin, written.
std::int64_t bytes(const Cell&);
// Bytes of the 64-byte cache lines that hold those elements, each counted once; of a table those of cos and sin.
std::int64_t line_bytes(const Cell&);
// Bytes of that many heads of every token.
std::int64_t heads_bytes(const Cell&, std::int64_t heads);
// Bytes that measuring the cell allocates. A double, so that it cannot overflow.
double memory_needed(const Cell&);

// ---- properties: the keys that describe a cell, in JSON, flags, grids and filters ----

using Words = std::map<std::string, std::string>;  // values by key, as in {"dtype": "bf16", "tokens": "64"}

// The cell with these values of the properties that it has. head_dim sets rotary_dim too where that is not given; a
// cell that becomes a table is f32 unless dtype is given. The words are right; of other keys there are none.
Cell with(Cell, const Words&);
// All properties, in output order; null for one that the cell does not have.
nlohmann::ordered_json describe(const Cell&);
std::string kind_words(const Cell&);   // "bf16 half in place"; of a table "f32"
std::string shape_words(const Cell&);  // "bthd [1, 64, 32+8, 128/64]": 64 rotate; of a table "[64, 32]"

// Every combination of the values in "KEY=VALUE,VALUE KEY=VALUE ...", the first key's slowest; words prevail over them.
// No cell is there twice.
std::vector<Cell> combined(const std::vector<std::string>& rows, const Words& words);
// name is "small" or "full"; threads is the number of all cores. A device has its own grids.
std::vector<Cell> grid(const std::string& name, unsigned threads, const Words& words);
// The cells whose describe() has the values of "KEY=VALUE,...": of a key that is there several times, one of its
// values. Throws UsageError if there is none.
std::vector<Cell> filtered(const std::vector<Cell>&, const std::string& filter);

// Throws what frequencies() throws for the rope, SHAPE for a batch with layout thd, MEMORY if the cell needs more than
// free_bytes.
void check(const Cell&, double free_bytes);

}  // namespace rotary::cli::bench
