#include "grid.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "apps/shared/usage_error.h"

namespace rotary::cli::bench {

namespace {

constexpr std::array<DType, 3> dtypes = {DType::f32, DType::bf16, DType::f16};
constexpr std::array<Pairing, 2> pairings = {Pairing::half, Pairing::interleaved};
constexpr std::array<std::int64_t, 4> token_counts = {1, 64, 2048, 8192};

Cell table_cell(std::int64_t tokens, int head_dim) {
  Cell cell;
  cell.op = Op::table;
  cell.dtype = DType::f32;
  cell.tokens = tokens;
  cell.head_dim = cell.rotary_dim = head_dim;
  return cell;
}

// Calls add(cell) with every combination of dtype, pairing, number of tokens, and in place or not.
template <typename Add>
void for_each_kind(Cell cell, std::span<const DType> all_dtypes, std::span<const std::int64_t> all_tokens,
                   const Add& add) {
  for (const DType dtype : all_dtypes) {
    for (const Pairing pairing : pairings) {
      for (const std::int64_t tokens : all_tokens) {
        for (const bool in_place : {true, false}) {
          cell.dtype = dtype;
          cell.pairing = pairing;
          cell.tokens = tokens;
          cell.in_place = in_place;
          add(cell);
        }
      }
    }
  }
}

// A decode step, a prefill that fits the cache and one that does not, and variants that differ in one property.
std::vector<Cell> small_grid(unsigned threads) {
  std::vector<Cell> cells;
  for (const DType dtype : dtypes) {
    for (const std::int64_t tokens : token_counts) {
      for (const bool in_place : {true, false}) {
        if (tokens == 2048 || (!in_place && tokens == 64)) continue;
        Cell cell;
        cell.dtype = dtype;
        cell.tokens = tokens;
        cell.in_place = in_place;
        cells.push_back(cell);
      }
    }
  }
  Cell cell;
  cell.tokens = 2048;
  const auto add = [&cells](Cell other, auto change) {
    change(other);
    cells.push_back(std::move(other));
  };
  add(cell, [](Cell& c) { c.pairing = Pairing::interleaved; });
  add(cell, [](Cell& c) { c.layout = "bhtd"; });
  add(cell, [](Cell& c) { c.head_dim = c.rotary_dim = 64; });
  add(cell, [](Cell& c) { c.head_dim = 96, c.rotary_dim = 24; });
  add(cell, [](Cell& c) { c.op = Op::backward; });
  add(cell, [](Cell& c) { c.op = Op::fused; });
  add(cell, [threads](Cell& c) { c.threads = threads; });
  cells.push_back(table_cell(1, 128));
  cells.push_back(table_cell(8192, 128));
  return cells;
}

std::vector<Cell> full_grid(unsigned threads) {
  std::vector<Cell> cells;
  const auto add = [&cells, threads](Cell cell) {
    for (const unsigned each : {1U, threads}) {
      cell.threads = each;
      cells.push_back(cell);
    }
  };
  for_each_kind(Cell{}, dtypes, token_counts, [&add](Cell cell) {
    for (const std::string layout : {"bthd", "bhtd"}) {
      for (const auto& [head_dim, rotary_dim] :
           {std::pair{64, 64}, {80, 80}, {96, 96}, {128, 128}, {256, 256}, {96, 24}}) {
        cell.layout = layout;
        cell.head_dim = head_dim;
        cell.rotary_dim = rotary_dim;
        add(cell);
      }
    }
  });
  for (const Op op : {Op::backward, Op::fused}) {
    Cell cell;
    cell.op = op;
    for_each_kind(cell, dtypes, token_counts, add);
  }
  for (const int head_dim : {64, 128}) {
    for (const std::int64_t tokens : token_counts) add(table_cell(tokens, head_dim));
    add(table_cell(131072, head_dim));
  }
  return cells;
}

// ---- on CUDA ----

constexpr std::array<DType, 3> cuda_dtypes = {DType::bf16, DType::f16, DType::f32};
constexpr std::array<std::int64_t, 5> cuda_token_counts = {1, 64, 512, 8192, 32768};

// A decode step and a prefill, and variants that differ in one property.
std::vector<Cell> small_cuda_grid() {
  std::vector<Cell> cells;
  const auto add = [&cells](const Cell& cell, auto change) {
    cells.push_back(cell);
    change(cells.back());
  };
  Cell cell;
  cell.op = Op::fused;
  for (const std::int64_t tokens : cuda_token_counts) {
    cell.tokens = tokens;
    for (const bool in_place : {true, false}) add(cell, [in_place](Cell& c) { c.in_place = in_place; });
  }
  for (const std::int64_t tokens : {1, 8192}) {
    cell.tokens = tokens;
    for (const int head_dim : {64, 80, 96, 256}) add(cell, [=](Cell& c) { c.head_dim = c.rotary_dim = head_dim; });
    for (const DType dtype : {DType::f16, DType::f32}) add(cell, [dtype](Cell& c) { c.dtype = dtype; });
    add(cell, [](Cell& c) { c.pairing = Pairing::interleaved; });
    add(cell, [](Cell& c) { c.with_table = false; });
    for (const Op op : {Op::rotate, Op::backward, Op::append, Op::norm_append}) add(cell, [op](Cell& c) { c.op = op; });
    add(cell, [](Cell& c) { c.op = Op::norm_append, c.f8 = true; });
    cells.push_back(table_cell(tokens, 128));
  }
  return cells;
}

std::vector<Cell> full_cuda_grid() {
  std::vector<Cell> cells;
  Cell fused;
  fused.op = Op::fused;
  for_each_kind(fused, cuda_dtypes, cuda_token_counts, [&cells](Cell cell) {
    for (const int head_dim : {64, 80, 96, 128, 256}) {
      cell.head_dim = cell.rotary_dim = head_dim;
      cells.push_back(cell);
    }
    cell.head_dim = cell.rotary_dim = 128;
    cell.with_table = false;
    cells.push_back(cell);
    cell.with_table = true;
    for (const Op op : {Op::rotate, Op::backward}) {
      cell.op = op;
      if (cell.dtype == DType::bf16) cells.push_back(cell);
    }
    for (const Op op : {Op::append, Op::norm_append}) {
      cell.op = op;
      for (const bool f8 : {false, true}) {
        cell.f8 = f8;
        if (cell.dtype == DType::bf16 || !f8) cells.push_back(cell);
      }
    }
  });
  for (const int head_dim : {64, 128}) {
    for (const std::int64_t tokens : cuda_token_counts) cells.push_back(table_cell(tokens, head_dim));
    cells.push_back(table_cell(131072, head_dim));
  }
  return cells;
}

std::vector<Cell> each_once(const std::vector<Cell>& cells) {
  std::vector<Cell> kept;
  std::set<std::string> seen;
  for (const Cell& cell : cells) {
    if (seen.insert(describe(cell).dump()).second) kept.push_back(cell);
  }
  return kept;
}

// A value as it is written in a filter: words without quotes.
std::string text_of(const nlohmann::ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool allows(const Filter& filter, const nlohmann::ordered_json& cell) {
  return std::all_of(filter.begin(), filter.end(), [&](const auto& term) {
    return std::any_of(filter.begin(), filter.end(), [&](const auto& other) {
      return other.first == term.first && other.second == text_of(cell[other.first]);
    });
  });
}

// The distinct values of that key, in the order of the cells.
std::string values_of(const std::vector<nlohmann::ordered_json>& cells, const std::string& key) {
  std::string list;
  std::set<std::string> seen;
  for (const nlohmann::ordered_json& cell : cells) {
    const std::string text = text_of(cell[key]);
    if (cell[key].is_null() || !seen.insert(text).second) continue;
    list += (list.empty() ? "" : ", ") + text;
  }
  return list.empty() ? "none" : list;
}

}  // namespace

bool Choice::describes_shape() const {
  return op || dtype || pairing || layout || batch || tokens || heads || kv_heads || head_dim || rotary_dim || in_place;
}

Cell chosen(Cell cell, const Choice& choice) {
  const bool becomes_table = choice.op == Op::table && cell.op != Op::table;
  cell.op = choice.op.value_or(cell.op);
  cell.dtype = choice.dtype.value_or(becomes_table ? DType::f32 : cell.dtype);
  cell.pairing = choice.pairing.value_or(cell.pairing);
  cell.layout = choice.layout.value_or(cell.layout);
  cell.batch = choice.batch.value_or(cell.batch);
  cell.tokens = choice.tokens.value_or(cell.tokens);
  cell.heads = choice.heads.value_or(cell.heads);
  cell.kv_heads = choice.kv_heads.value_or(cell.kv_heads);
  if (choice.head_dim) cell.head_dim = cell.rotary_dim = *choice.head_dim;
  cell.rotary_dim = choice.rotary_dim.value_or(cell.rotary_dim);
  cell.in_place = choice.in_place.value_or(cell.in_place) && !only_out_of_place(cell.op, cell.pairing);
  cell.threads = choice.threads.value_or(cell.threads);
  cell.target = choice.target.value_or(cell.target);
  cell.cuda = choice.cuda;
  if (cell.op != Op::table) cell.with_table = choice.with_table.value_or(cell.with_table);
  if (appends(cell.op)) cell.f8 = choice.f8.value_or(cell.f8);
  return cell;
}

std::vector<Cell> grid(const std::string& name, unsigned threads, const std::string& target, const Choice& choice) {
  const bool full = name == "full";
  std::vector<Cell> cells =
      choice.cuda ? (full ? full_cuda_grid() : small_cuda_grid()) : (full ? full_grid(threads) : small_grid(threads));
  for (Cell& cell : cells) {
    cell.target = target;
    cell = chosen(cell, choice);
  }
  return each_once(cells);
}

Filter parse_filter(const std::vector<std::string>& texts, bool cuda) {
  Cell any;
  any.cuda = cuda;
  const nlohmann::ordered_json keys = describe(any);
  Filter filter;
  for (const std::string& text : texts) {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      const std::string term = text.substr(begin, end - begin);
      const std::size_t equals = term.find('=');
      if (equals == std::string::npos) throw UsageError("--filter takes KEY=VALUE,... but got '" + term + "'");
      filter.emplace_back(term.substr(0, equals), term.substr(equals + 1));
      if (!keys.contains(filter.back().first)) {
        std::string known;
        for (const auto& item : keys.items()) known += (known.empty() ? "" : ", ") + item.key();
        throw UsageError("--filter has no key '" + filter.back().first + "'; the keys are " + known);
      }
      begin = end + 1;
    }
  }
  return filter;
}

std::vector<Cell> filtered(const std::vector<Cell>& cells, const Filter& filter) {
  std::vector<nlohmann::ordered_json> described;
  for (const Cell& cell : cells) described.push_back(describe(cell));
  for (const auto& [key, value] : filter) {
    const Filter one = {{key, value}};
    if (std::none_of(described.begin(), described.end(), [&one](const auto& cell) { return allows(one, cell); })) {
      throw UsageError("--filter " + key + "=" + value + " matches no cell; its values here are " +
                       values_of(described, key));
    }
  }
  std::vector<Cell> kept;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (allows(filter, described[i])) kept.push_back(cells[i]);
  }
  if (kept.empty()) throw UsageError("--filter matches no cell: no cell has all of its values");
  return kept;
}

}  // namespace rotary::cli::bench
