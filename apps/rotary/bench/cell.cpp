#include "cell.h"

#include <algorithm>
#include <numeric>

#include "apps/shared/text.h"
#include "values/names.h"

namespace rotary::cli::bench {

namespace {

constexpr std::int64_t line = 64;  // bytes

constexpr detail::Named<Op> ops[] = {{Op::rotate, "rotate"}, {Op::backward, "backward"},
                                     {Op::table, "table"},   {Op::fused, "fused"},
                                     {Op::append, "append"}, {Op::norm_append, "norm_append"}};

std::int64_t size(const Cell& cell) { return static_cast<std::int64_t>(size_of(cell.dtype)); }

std::int64_t table_bytes(const Cell& cell) {
  return cell.tokens * cell.rotary_dim * static_cast<std::int64_t>(sizeof(float));
}

// Counts the cache lines that hold the first `width` elements of each head, in address order, each line once.
std::int64_t lines_under(const Cell& cell, std::int64_t heads, std::int64_t width) {
  if (width == cell.head_dim) return round_up(heads_bytes(cell, heads), line) / line;
  std::int64_t count = 0;
  std::int64_t next = 0;  // the first line not counted yet
  for (std::int64_t head = 0; head < cell.batch * cell.tokens * heads; ++head) {
    const std::int64_t first = head * cell.head_dim * size(cell);
    const std::int64_t behind = round_up(first + width * size(cell), line) / line;
    count += std::max<std::int64_t>(0, behind - std::max(first / line, next));
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
std::int64_t rotated(const Cell& cell) {
  const std::int64_t heads = cell.heads + (appends(cell.op) ? 0 : cell.kv_heads);
  return cell.batch * cell.tokens * heads * counted_width(cell);
}

}  // namespace

const char* name(Op op) noexcept { return detail::name_in(ops, op); }
Op parse_op(std::string_view text) { return detail::parse_in(ops, text, "bench", Code::VALUE); }

bool appends(Op op) noexcept { return op == Op::append || op == Op::norm_append; }

bool only_out_of_place(Op op, Pairing pairing) noexcept {
  return op == Op::norm_append && pairing == Pairing::interleaved_to_half;
}

const std::vector<std::string>& layout_words() {
  static const std::vector<std::string> words = {"bthd", "bhtd", "tbhd", "thd"};
  return words;
}

Layout layout_of(const Cell& cell, std::int64_t heads) {
  Layout layout = bthd(cell.batch, cell.tokens, heads, cell.head_dim);
  if (cell.layout == "bhtd") layout = bhtd(cell.batch, heads, cell.tokens, cell.head_dim);
  if (cell.layout == "tbhd") layout = tbhd(cell.tokens, cell.batch, heads, cell.head_dim);
  if (cell.layout == "thd") layout = thd(cell.tokens, heads, cell.head_dim);
  return layout;
}

Rope rope_of(const Cell& cell) {
  Rope rope;
  rope.head_dim = cell.head_dim;
  rope.rotary_dim = cell.rotary_dim;
  rope.pairing = cell.pairing;
  return rope;
}

Rounding rounding_of(const Cell& cell) {
  return cell.op == Op::table ? parse_rounding(rotary::name(cell.dtype)) : Rounding::f32;
}

std::vector<std::int64_t> first_positions(const Cell& cell) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(cell.tokens));
  std::iota(positions.begin(), positions.end(), 1);
  return positions;
}

std::int64_t elements(const Cell& cell) {
  if (cell.op == Op::table) return cell.tokens * cell.rotary_dim / 2;
  return rotated(cell) + appended(cell);
}

std::int64_t bytes(const Cell& cell) {
  if (cell.op == Op::table) return table_bytes(cell);
  return 2 * rotated(cell) * size(cell) + appended(cell) * (size(cell) + (cell.f8 ? 1 : size(cell)));
}

std::int64_t line_bytes(const Cell& cell) {
  if (cell.op == Op::table) return round_up(table_bytes(cell), line);
  if (appends(cell.op)) return round_up(bytes(cell) / 2, line);
  const std::int64_t width = counted_width(cell);
  return line * (lines_under(cell, cell.heads, width) + lines_under(cell, cell.kv_heads, width));
}

std::int64_t heads_bytes(const Cell& cell, std::int64_t heads) {
  return cell.batch * cell.tokens * heads * cell.head_dim * size(cell);
}

double memory_needed(const Cell& cell) {
  const double tokens = static_cast<double>(cell.tokens);
  const double rows = tokens * static_cast<double>(cell.batch);
  const double table = tokens * (4.0 * cell.rotary_dim + 8);  // rows and positions
  if (cell.op == Op::table) return 3 * table;                 // existing storage, new storage, and the ceiling
  const double row = static_cast<double>(cell.heads + (appends(cell.op) ? 2 : 1) * cell.kv_heads) * cell.head_dim;
  const double heads = rows * row * static_cast<double>(size_of(cell.dtype));
  return table + (cell.in_place && !cell.cuda ? 1 : 2) * heads;
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

void check(const Cell& cell, double free_bytes) {
  if (cell.op != Op::table && cell.layout == "thd" && cell.batch != 1) {
    throw Error(Code::SHAPE, "[bench] layout thd must have a batch of 1 but got " + std::to_string(cell.batch));
  }
  frequencies(rope_of(cell));
  const double needed = memory_needed(cell);
  if (needed > free_bytes) {
    throw Error(Code::MEMORY, "[bench] a cell must fit in the " + significant(free_bytes / 0x1p30, 3) +
                                  " GiB of memory that are free but got " + kind_words(cell) + " " + shape_words(cell) +
                                  ", which takes " + significant(needed / 0x1p30, 3) + " GiB");
  }
}

}  // namespace rotary::cli::bench
