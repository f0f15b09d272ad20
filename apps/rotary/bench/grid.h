// Which cells rotary bench measures: grids, the shape that flags describe, filters.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cell.h"

namespace rotary::cli::bench {

// What flags say of a cell; what they leave open keeps its value.
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
  std::optional<bool> with_table, f8;  // on CUDA, where a cell has one of them

  bool describes_shape() const;  // more than threads and target
};

// The cell with the choice's values. A head_dim without a rotary_dim turns whole. Of a table f32, unless dtype is
// chosen.
Cell chosen(Cell, const Choice&);

// name is "small" or "full"; threads: of all cores; target: of all cells. With the choice's values in every cell, each
// cell once. CUDA has grids of its own.
std::vector<Cell> grid(const std::string& name, unsigned threads, const std::string& target, const Choice&);

// "dtype=bf16,tokens=64,tokens=2048" as keys and values. Throws UsageError for what is no KEY=VALUE of describe()'s
// keys.
using Filter = std::vector<std::pair<std::string, std::string>>;
Filter parse_filter(const std::vector<std::string>& texts, bool cuda = false);

// The cells that have, of every key in the filter, one of its values. Throws UsageError where a value, or all of them
// together, leave no cell.
std::vector<Cell> filtered(const std::vector<Cell>&, const Filter&);

}  // namespace rotary::cli::bench
