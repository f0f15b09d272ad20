// Selects the cells that rotary bench measures: grids, the shape that flags describe, a filter.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cell.h"

namespace rotary::cli::bench {

// The properties of a cell that flags set; the others keep their values.
struct Choice {
  std::optional<Op> op;
  std::optional<DType> dtype;
  std::optional<Pairing> pairing;
  std::optional<std::string> layout;
  std::optional<std::int64_t> batch, tokens, heads, kv_heads;
  std::optional<int> head_dim, rotary_dim;
  std::optional<bool> in_place;
  std::optional<unsigned> threads;
  std::optional<std::string> target;
  bool cuda = false;
  std::optional<bool> with_table, f8;  // on CUDA, for cells that have a table or a cache

  bool describes_shape() const;  // something besides threads and target is set
};

// The cell with the choice's values. head_dim alone sets rotary_dim too. A cell that becomes a table is f32 unless
// dtype is chosen.
Cell chosen(Cell, const Choice&);

// name is "small" or "full"; threads is the number of all cores; target is that of every cell. Every cell has the
// choice's values; duplicates are removed. CUDA has its own grids.
std::vector<Cell> grid(const std::string& name, unsigned threads, const std::string& target, const Choice&);

// The cells whose describe() has the values of "KEY=VALUE,...": of a key that is there several times, one of its
// values. Throws UsageError if there is none.
std::vector<Cell> filtered(const std::vector<Cell>&, const std::string& filter);

}  // namespace rotary::cli::bench
