// Cells: what is counted of them, their properties, and those that rotary bench measures.
#include <algorithm>
#include <numeric>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>

#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "bench.h"
#include "values/names.h"

namespace rotary::cli::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr detail::Named<Op> ops[] = {{Op::rotate, "rotate"}, {Op::backward, "backward"},
                                     {Op::table, "table"},   {Op::fused, "fused"},
                                     {Op::append, "append"}, {Op::norm_append, "norm_append"}};

std::int64_t element_size(const Cell& cell) { return static_cast<std::int64_t>(size_of(cell.dtype)); }

std::int64_t table_bytes(const Cell& cell) {
  return cell.tokens * cell.rotary_dim * static_cast<std::int64_t>(sizeof(float));
}

// Counts the cache lines that hold the first `width` elements of each head, in address order, each line once.
std::int64_t lines_under(const Cell& cell, std::int64_t heads, std::int64_t width) {
  if (width == cell.head_dim) return round_up(heads_bytes(cell, heads), cache_line) / cache_line;
  std::int64_t count = 0;
  std::int64_t next = 0;  // the first line not counted yet
  for (std::int64_t head = 0; head < cell.batch * cell.tokens * heads; ++head) {
    const std::int64_t first = head * cell.head_dim * element_size(cell);
    const std::int64_t behind = round_up(first + width * element_size(cell), cache_line) / cache_line;
    count += std::max<std::int64_t>(0, behind - std::max(first / cache_line, next));
    next = std::max(next, behind);
  }
  return count;
}

std::int64_t counted_width(const Cell& cell) {
  return cell.in_place && cell.op != Op::norm_append ? cell.rotary_dim : cell.head_dim;
}

// Elements of k and v that are written to the cache.
std::int64_t appended(const Cell& cell) {
  return appends(cell.op) ? cell.batch * cell.tokens * 2 * cell.kv_heads * cell.head_dim : 0;
}

// Elements of q, and of k unless it goes to the cache.
std::int64_t rotated_elements(const Cell& cell) {
  const std::int64_t heads = cell.heads + (appends(cell.op) ? 0 : cell.kv_heads);
  return cell.batch * cell.tokens * heads * counted_width(cell);
}

// Bytes that measuring the cell allocates. A double, so that it cannot overflow.
double memory_needed(const Cell& cell) {
  const double tokens = static_cast<double>(cell.tokens);
  const double table = tokens * (4.0 * cell.rotary_dim + 8);  // rows and positions
  if (cell.op == Op::table) return 3 * table;                 // existing storage, new storage, and the ceiling
  const double row = static_cast<double>(cell.heads + (appends(cell.op) ? 2 : 1) * cell.kv_heads) * cell.head_dim;
  const double heads = tokens * static_cast<double>(cell.batch) * row * static_cast<double>(size_of(cell.dtype));
  return table + (cell.in_place && !cell.cuda ? 1 : 2) * heads;
}

bool only_out_of_place(Op op, Pairing pairing) noexcept {
  return op == Op::norm_append && pairing == Pairing::interleaved_to_half;
}

}  // namespace

const char* name(Op op) noexcept { return detail::name_in(ops, op); }

bool appends(Op op) noexcept { return op == Op::append || op == Op::norm_append; }

Layout layout_of(const Cell& cell, std::int64_t heads) {
  if (cell.layout == "bhtd") return bhtd(cell.batch, heads, cell.tokens, cell.head_dim);
  if (cell.layout == "tbhd") return tbhd(cell.tokens, cell.batch, heads, cell.head_dim);
  if (cell.layout == "thd") return thd(cell.tokens, heads, cell.head_dim);
  return bthd(cell.batch, cell.tokens, heads, cell.head_dim);
}

Rope rope_of(const Cell& cell) {
  return {.head_dim = cell.head_dim, .rotary_dim = cell.rotary_dim, .pairing = cell.pairing};
}

Rounding rounding_of(const Cell& cell) {
  return cell.op == Op::table ? parse_rounding(rotary::name(cell.dtype)) : Rounding::f32;
}

std::vector<std::int64_t> first_positions(const Cell& cell) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(cell.tokens));
  std::iota(positions.begin(), positions.end(), 1);
  return positions;
}

std::string kind_words(const Cell& cell) {
  const std::string dtype = rotary::name(cell.dtype);
  if (cell.op == Op::table) return dtype;
  return dtype + " " + rotary::name(cell.pairing) + (cell.in_place ? " in place" : " out of place") +
         (cell.with_table ? "" : " without a table") + (cell.f8 ? " to f8" : "");
}

std::string shape_words(const Cell& cell) {
  if (cell.op == Op::table) {
    return "[" + std::to_string(cell.tokens) + ", " + std::to_string(cell.rotary_dim / 2) + "]";
  }
  std::string text = cell.layout + " [";
  if (cell.layout != "thd") text += std::to_string(cell.batch) + ", ";
  text += std::to_string(cell.tokens) + ", " + std::to_string(cell.heads);
  if (cell.kv_heads > 0) text += "+" + std::to_string(cell.kv_heads);
  text += ", " + std::to_string(cell.head_dim);
  if (cell.rotary_dim != cell.head_dim) text += "/" + std::to_string(cell.rotary_dim);
  return text + "]";
}

// ---- what is counted -------------------------------------------------------------------------------

std::int64_t elements(const Cell& cell) {
  if (cell.op == Op::table) return cell.tokens * cell.rotary_dim / 2;
  return rotated_elements(cell) + appended(cell);
}

std::int64_t bytes(const Cell& cell) {
  if (cell.op == Op::table) return table_bytes(cell);
  const std::int64_t size = element_size(cell);
  return 2 * rotated_elements(cell) * size + appended(cell) * (size + (cell.f8 ? 1 : size));
}

std::int64_t line_bytes(const Cell& cell) {
  if (cell.op == Op::table) return round_up(table_bytes(cell), cache_line);
  if (appends(cell.op)) return round_up(bytes(cell) / 2, cache_line);
  const std::int64_t width = counted_width(cell);
  return cache_line * (lines_under(cell, cell.heads, width) + lines_under(cell, cell.kv_heads, width));
}

std::int64_t heads_bytes(const Cell& cell, std::int64_t heads) {
  return cell.batch * cell.tokens * heads * cell.head_dim * element_size(cell);
}

void check(const Cell& cell, double free_bytes) {
  if (cell.op != Op::table && cell.layout == "thd" && cell.batch != 1) {
    fail(Code::SHAPE, "bench", "layout thd must have a batch of 1 but got ", cell.batch);
  }
  frequencies(rope_of(cell));
  const double needed = memory_needed(cell);
  if (needed > free_bytes) {
    fail(Code::MEMORY, "bench", "a cell must fit in the ", significant(free_bytes / 0x1p30, 3),
         " GiB of memory that are free but got ", kind_words(cell), " ", shape_words(cell), ", which takes ",
         significant(needed / 0x1p30, 3), " GiB");
  }
}

// ---- properties ------------------------------------------------------------------------------------

namespace {

using Member = std::variant<Op Cell::*, DType Cell::*, Pairing Cell::*, std::string Cell::*, std::int64_t Cell::*,
                            int Cell::*, unsigned Cell::*, bool Cell::*>;

bool always(const Cell&) { return true; }
bool of_heads(const Cell& cell) { return cell.op != Op::table; }
bool on_cpu(const Cell& cell) { return !cell.cuda; }
bool of_cache(const Cell& cell) { return appends(cell.op); }

struct Property {
  const char* key;
  Member member;
  bool (*has)(const Cell&);  // null for a cell that has not
  bool of_device = false;    // not there on the CPU
  const char* no = nullptr;  // the words of a bool that is none in JSON
  const char* yes = "true";
};

// In the order of describe().
constexpr Property properties[] = {{"op", &Cell::op, always},
                                   {"dtype", &Cell::dtype, always},
                                   {"pairing", &Cell::pairing, of_heads},
                                   {"layout", &Cell::layout, of_heads},
                                   {"batch", &Cell::batch, of_heads},
                                   {"tokens", &Cell::tokens, always},
                                   {"heads", &Cell::heads, of_heads},
                                   {"kv_heads", &Cell::kv_heads, of_heads},
                                   {"head_dim", &Cell::head_dim, always},
                                   {"rotary_dim", &Cell::rotary_dim, always},
                                   {"in_place", &Cell::in_place, of_heads},
                                   {"threads", &Cell::threads, on_cpu},
                                   {"target", &Cell::target, always},
                                   {"device", &Cell::cuda, always, false, "cpu", "cuda"},
                                   {"table", &Cell::with_table, of_heads, true},
                                   {"cache", &Cell::f8, of_cache, true, "same", "f8"}};

void set(Cell& cell, const Property& property, const std::string& word) {
  const auto assign = [&](auto member) {
    auto& value = cell.*member;
    using Value = std::remove_reference_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, Op>) value = detail::parse_in(ops, word, "bench", Code::VALUE);
    if constexpr (std::is_same_v<Value, DType>) value = parse_dtype(word);
    if constexpr (std::is_same_v<Value, Pairing>) value = parse_pairing(word);
    if constexpr (std::is_same_v<Value, std::string>) value = word;
    if constexpr (std::is_same_v<Value, bool>) value = word == property.yes;
    if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>)
      value = static_cast<Value>(std::stoll(word));
  };
  std::visit(assign, property.member);
}

Json value_of(const Cell& cell, const Property& property) {
  const auto json = [&](auto member) -> Json {
    const auto& value = cell.*member;
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_enum_v<Value>) return name(value);
    if constexpr (std::is_same_v<Value, bool>) {
      if (property.no != nullptr) return value ? property.yes : property.no;
    }
    if constexpr (!std::is_enum_v<Value>) return value;
  };
  return property.has(cell) ? std::visit(json, property.member) : Json();
}

// "KEY=VALUE"; of a word without "=" the value is "".
std::pair<std::string, std::string> key_and_value(const std::string& word) {
  const std::size_t end = std::min(word.find('='), word.size());
  return {word.substr(0, end), word.substr(std::min(end + 1, word.size()))};
}

}  // namespace

Cell with(Cell cell, const Words& words) {
  const Op before = cell.op;
  for (const Property& property : properties) {
    if (const auto word = words.find(property.key); word != words.end()) set(cell, property, word->second);
  }
  if (words.contains("head_dim") && !words.contains("rotary_dim")) cell.rotary_dim = cell.head_dim;
  if (cell.op == Op::table && before != Op::table && !words.contains("dtype")) cell.dtype = DType::f32;
  if (cell.op == Op::table) cell.with_table = true;
  if (!appends(cell.op)) cell.f8 = false;
  if (only_out_of_place(cell.op, cell.pairing)) cell.in_place = false;
  return cell;
}

Json describe(const Cell& cell) {
  Json json;
  for (const Property& property : properties) {
    if (cell.cuda || !property.of_device) json[property.key] = value_of(cell, property);
  }
  return json;
}

std::vector<Cell> combined(const std::vector<std::string>& rows, const Words& words) {
  std::vector<Cell> cells;
  std::set<std::string> seen;
  for (const std::string& row : rows) {
    std::vector<Words> combinations(1);
    for (const std::string& part : split(row, ' ')) {
      const auto [key, values] = key_and_value(part);
      std::vector<Words> product;
      for (const Words& before : combinations) {
        for (const std::string& value : split(values, ',')) {
          product.push_back(before);
          product.back()[key] = value;
        }
      }
      combinations = std::move(product);
    }
    for (const Words& each : combinations) {
      const Cell cell = with(with({}, each), words);
      if (seen.insert(describe(cell).dump()).second) cells.push_back(cell);
    }
  }
  return cells;
}

std::vector<Cell> filtered(const std::vector<Cell>& cells, const std::string& filter) {
  std::map<std::string, std::set<std::string>> wanted;
  for (const std::string& term : split(filter, ',')) {
    const auto [key, value] = key_and_value(term);
    wanted[key].insert(value);
  }
  std::vector<Cell> kept;
  for (const Cell& cell : cells) {
    const Json keys = describe(cell);
    const auto has = [&keys](const auto& one) {
      if (!keys.contains(one.first)) return false;
      const Json& value = keys.at(one.first);
      return one.second.contains(value.is_string() ? value.get<std::string>() : value.dump());
    };
    if (std::all_of(wanted.begin(), wanted.end(), has)) kept.push_back(cell);
  }
  if (kept.empty()) throw UsageError("--filter takes KEY=VALUE,... but no cell has '" + filter + "'");
  return kept;
}

std::vector<Cell> grid(const std::string& name, unsigned threads, const Words& words) {
  const std::string types = "dtype=f32,bf16,f16 ", kinds = types + "pairing=half,interleaved in_place=true,false ";
  const std::string all = " threads=" + std::to_string(threads), both = " threads=1," + std::to_string(threads);
  // A decode step, prefills that fit the cache and that do not, and variants that differ in one property.
  const std::vector<std::string> small = {types + "tokens=1,64,8192",        types + "tokens=1,8192 in_place=false",
                                          "pairing=interleaved tokens=2048", "tokens=2048 layout=bhtd",
                                          "tokens=2048 head_dim=64",         "tokens=2048 head_dim=96 rotary_dim=24",
                                          "op=backward,fused tokens=2048",   "tokens=2048" + all,
                                          "op=table tokens=1,8192"};
  const std::string counts = "tokens=1,64,2048,8192";
  const std::vector<std::string> full = {kinds + counts + " layout=bthd,bhtd head_dim=64,80,96,128,256" + both,
                                         kinds + counts + " layout=bthd,bhtd head_dim=96 rotary_dim=24" + both,
                                         "op=backward,fused " + kinds + counts + both,
                                         "op=table " + counts + ",131072 head_dim=64,128" + both};
  const std::vector<std::string> small_cuda = {"op=fused tokens=1,64,512,8192,32768 in_place=true,false",
                                               "op=fused tokens=1,8192 head_dim=64,80,96,256",
                                               "op=fused dtype=f16,f32 tokens=1,8192",
                                               "op=fused pairing=interleaved tokens=1,8192",
                                               "op=fused table=false tokens=1,8192",
                                               "op=rotate,backward,append,norm_append tokens=1,8192",
                                               "op=norm_append cache=f8 tokens=1,8192",
                                               "op=table tokens=1,8192"};
  const std::string bf16 = "pairing=half,interleaved in_place=true,false ", more = "tokens=1,64,512,8192,32768";
  const std::vector<std::string> full_cuda = {"op=fused " + kinds + more + " head_dim=64,80,96,128,256",
                                              "op=fused table=false " + kinds + more,
                                              "op=rotate,backward " + bf16 + more,
                                              "op=append,norm_append " + kinds + more,
                                              "op=append,norm_append cache=f8 " + bf16 + more,
                                              "op=table " + more + ",131072 head_dim=64,128"};
  if (with({}, words).cuda) return combined(name == "full" ? full_cuda : small_cuda, words);
  return combined(name == "full" ? full : small, words);
}

}  // namespace rotary::cli::bench
