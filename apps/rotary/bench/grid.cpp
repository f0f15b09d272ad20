#include "grid.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "apps/shared/usage_error.h"

namespace rotary::cli::bench {

namespace {

// Every combination of the values; an empty list leaves what `cell` has.
struct Cross {
  Cell cell = {};
  std::vector<Op> ops = {};
  std::vector<DType> dtypes = {};
  std::vector<Pairing> pairings = {};
  std::vector<std::int64_t> tokens = {};
  std::vector<bool> in_place = {};
  std::vector<std::string> layouts = {};
  std::vector<int> head_dims = {};
  std::vector<unsigned> threads = {};
};

template <class Values, class Member>
void multiply(std::vector<Cell>& cells, const Values& values, Member Cell::*member) {
  if (values.empty()) return;
  std::vector<Cell> product;
  for (const Cell& cell : cells) {
    for (const auto& value : values) {
      product.push_back(cell);
      product.back().*member = value;
    }
  }
  cells = std::move(product);
}

void add(std::vector<Cell>& cells, const Cross& cross) {
  std::vector<Cell> product = {cross.cell};
  multiply(product, cross.ops, &Cell::op);
  multiply(product, cross.dtypes, &Cell::dtype);
  multiply(product, cross.pairings, &Cell::pairing);
  multiply(product, cross.tokens, &Cell::tokens);
  multiply(product, cross.in_place, &Cell::in_place);
  multiply(product, cross.layouts, &Cell::layout);
  multiply(product, cross.head_dims, &Cell::head_dim);
  multiply(product, cross.threads, &Cell::threads);
  for (Cell& cell : product) {
    if (!cross.head_dims.empty()) cell.rotary_dim = cell.head_dim;
    if (cell.op == Op::table) cell.dtype = DType::f32;
    cells.push_back(cell);
  }
}

using Grid = std::vector<Cross>;

const std::vector<DType> dtypes = {DType::f32, DType::bf16, DType::f16};
const std::vector<Pairing> pairings = {Pairing::half, Pairing::interleaved};
const std::vector<bool> places = {true, false};
const Cell part_of_head = {.head_dim = 96, .rotary_dim = 24};

// A decode step, a prefill that fits the cache and one that does not, and variants that differ in one property.
Grid small_grid(unsigned threads) {
  const std::vector<std::int64_t> one = {2048};
  return {{.dtypes = dtypes, .tokens = {1, 64, 8192}},
          {.dtypes = dtypes, .tokens = {1, 8192}, .in_place = {false}},
          {.pairings = {Pairing::interleaved}, .tokens = one},
          {.tokens = one, .layouts = {"bhtd"}},
          {.tokens = one, .head_dims = {64}},
          {.cell = part_of_head, .tokens = one},
          {.ops = {Op::backward, Op::fused}, .tokens = one},
          {.tokens = one, .threads = {threads}},
          {.ops = {Op::table}, .tokens = {1, 8192}}};
}

Grid full_grid(unsigned threads) {
  const std::vector<std::int64_t> tokens = {1, 64, 2048, 8192}, rows = {1, 64, 2048, 8192, 131072};
  const std::vector<std::string> layouts = {"bthd", "bhtd"};
  const std::vector<unsigned> both = {1, threads};
  return {{{}, {}, dtypes, pairings, tokens, places, layouts, {64, 80, 96, 128, 256}, both},
          {part_of_head, {}, dtypes, pairings, tokens, places, layouts, {}, both},
          {{}, {Op::backward, Op::fused}, dtypes, pairings, tokens, places, {}, {}, both},
          {.ops = {Op::table}, .tokens = rows, .head_dims = {64, 128}, .threads = both}};
}

// A decode step and a prefill, and variants that differ in one property.
Grid small_cuda_grid() {
  const std::vector<std::int64_t> two = {1, 8192};
  const Cell fused = {.op = Op::fused};
  return {{.cell = fused, .tokens = {1, 64, 512, 8192, 32768}, .in_place = places},
          {.cell = fused, .tokens = two, .head_dims = {64, 80, 96, 256}},
          {.cell = fused, .dtypes = {DType::f16, DType::f32}, .tokens = two},
          {.cell = fused, .pairings = {Pairing::interleaved}, .tokens = two},
          {.cell = {.op = Op::fused, .with_table = false}, .tokens = two},
          {.ops = {Op::rotate, Op::backward, Op::append, Op::norm_append}, .tokens = two},
          {.cell = {.op = Op::norm_append, .f8 = true}, .tokens = two},
          {.ops = {Op::table}, .tokens = two}};
}

Grid full_cuda_grid() {
  const std::vector<std::int64_t> tokens = {1, 64, 512, 8192, 32768}, rows = {1, 64, 512, 8192, 32768, 131072};
  const std::vector<DType> bf16 = {DType::bf16};
  const std::vector<Op> two_calls = {Op::rotate, Op::backward}, appending = {Op::append, Op::norm_append};
  return {{{}, {Op::fused}, dtypes, pairings, tokens, places, {}, {64, 80, 96, 128, 256}, {}},
          {{.with_table = false}, {Op::fused}, dtypes, pairings, tokens, places, {}, {}, {}},
          {{}, two_calls, bf16, pairings, tokens, places, {}, {}, {}},
          {{}, appending, dtypes, pairings, tokens, places, {}, {}, {}},
          {{.f8 = true}, appending, bf16, pairings, tokens, places, {}, {}, {}},
          {.ops = {Op::table}, .tokens = rows, .head_dims = {64, 128}}};
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
  std::vector<Cell> cells;
  for (const Cross& cross : choice.cuda ? (full ? full_cuda_grid() : small_cuda_grid())
                                        : (full ? full_grid(threads) : small_grid(threads))) {
    add(cells, cross);
  }
  for (Cell& cell : cells) {
    cell.target = target;
    cell = chosen(cell, choice);
  }
  return each_once(cells);
}

std::vector<Cell> filtered(const std::vector<Cell>& cells, const std::string& filter) {
  std::map<std::string, std::set<std::string>> wanted;
  std::istringstream terms(filter);
  for (std::string term; std::getline(terms, term, ',');) {
    const std::size_t end = std::min(term.find('='), term.size());
    wanted[term.substr(0, end)].insert(term.substr(std::min(end + 1, term.size())));
  }
  std::vector<Cell> kept;
  for (const Cell& cell : cells) {
    const nlohmann::ordered_json keys = describe(cell);
    if (std::all_of(wanted.begin(), wanted.end(), [&keys](const auto& one) {
          return keys.contains(one.first) && one.second.contains(text_of(keys.at(one.first)));
        })) {
      kept.push_back(cell);
    }
  }
  if (kept.empty()) throw UsageError("--filter takes KEY=VALUE,... but no cell has '" + filter + "'");
  return kept;
}

}  // namespace rotary::cli::bench
