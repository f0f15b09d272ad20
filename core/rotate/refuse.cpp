#include "runtime/arithmetic.h"

#include "refuse.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "overlap.h"
#include "values/number_text.h"
#include "values/pairings.h"

namespace rotary::detail {

std::string shape(const Layout& l) {
  return shape_text(std::array<std::int64_t, 4>{l.batch, l.tokens, l.heads, l.head_dim});
}

void check_sizes(const char* operation, const Layout& x) {
  if (x.batch >= 0 && x.tokens >= 0 && x.heads >= 0 && x.head_dim >= 0) return;
  fail(Code::SHAPE, operation, "sizes must not be negative but got [batch, tokens, heads, head_dim] = ", shape(x));
}

namespace {

void refuse_kinds(const Names& names, DType x, DType out, Pairing pairing, Direction direction) {
  check_dtype(names.operation, std::max(x, out));
  if (x != out)
    fail(Code::DTYPE, names.operation, names.x, " and ", names.out, " must have one dtype but got ", name(x), " and ",
         name(out));
  check_pairing(names.operation, pairing);
  if (direction > Direction::backward)
    fail(Code::VALUE, names.operation, "direction must be forward or backward but got value ",
         static_cast<int>(direction));
}

void refuse_sizes(const Names& names, const Layout& x, const Layout& out, const TableShape& table) {
  const std::string side = names.x;
  check_sizes(names.operation, x);
  if (!same_shape(x, out))
    fail(Code::SHAPE, names.operation, names.out, " must have the shape of ", side, ", ", shape(x), ", but got ",
         shape(out));
  if (table.tokens != x.tokens)
    fail(Code::SHAPE, names.operation, "table has ", table.tokens, " rows but ", side, " has ", x.tokens, " tokens");
  if (table.batch != 1 && table.batch != x.batch)
    fail(Code::SHAPE, names.operation, "table has ", table.batch, " batch rows but ", side, " has ", x.batch);
  if (x.heads % table.head_rows != 0)
    fail(Code::SHAPE, names.operation, side, " must have a multiple of the ", table.head_rows,
         " heads that the table has rows for but has ", x.heads);
  if (table.rotary_dim() > x.head_dim)
    fail(Code::SHAPE, names.operation, "rotary_dim must be at most ", x.head_dim,
         ", the elements of a head from first on, but the table's is ", table.rotary_dim());
}

struct Stride {
  const char* name;
  std::int64_t count, stride;
  std::int64_t rank;  // larger ranks are further outside
};
using Strides = std::array<Stride, 3>;

// The strides, outermost first, in the order of `written` in memory.
Strides strides(const Layout& l, const Layout& written, const char* batch_stride = "batch_stride") noexcept {
  Strides all{{{batch_stride, l.batch, l.batch_stride, written.batch_stride},
               {"token_stride", l.tokens, l.token_stride, written.token_stride},
               {"head_stride", l.heads, l.head_stride, written.head_stride}}};
  for (Stride& s : all) s.rank = s.count > 1 ? s.rank : std::numeric_limits<std::int64_t>::max();
  for (const unsigned k : {0u, 1u, 0u}) {
    if (all[k].rank < all[k + 1].rank) std::swap(all[k], all[k + 1]);
  }
  return all;
}
Strides reversed(Strides all) noexcept {
  std::swap(all.front(), all.back());
  return all;
}

// Words for memory in sentences: its name, the text between its name and a stride's, and, if each stride must step over
// the extent of the strides before it, the name of its elements, else null.
struct Memory {
  const char *name, *has, *distinct;
};

// The bytes from the first element to the end of the last.
std::int64_t checked_extent(const char* operation, const Memory& memory, const Strides& all, int head_dim,
                            std::int64_t each) {
  std::int64_t extent = head_dim;
  const auto refuse_span = [&](const auto&... got) {
    fail(Code::SHAPE, operation, memory.name, " must span less than 2^63 bytes but got ", got...);
  };
  for (const Stride& s : all) {
    if (s.count <= 1) continue;
    if (s.stride < 0)
      fail(Code::SHAPE, operation, memory.name, memory.has, s.name, " must not be negative but got ", s.stride);
    if (memory.distinct != nullptr && s.stride < extent)
      fail(Code::SHAPE, operation, memory.distinct, " must be distinct but ", s.name, " ", s.stride, " steps over ",
           extent, " elements");
    if (!extend(extent, s.count, s.stride)) refuse_span(s.name, " ", s.stride, " times ", s.count);
  }
  if (multiply_overflows(extent, each, &extent)) refuse_span("more");
  return extent;
}

void refuse_pointer(const char* operation, const char* side, const void* data, DType dtype, std::int64_t bytes) {
  check_not_null(operation, side, data);
  if (address_of(data) % size_of(dtype) != 0)
    fail(Code::DTYPE, operation, side, " must be aligned to the ", size_of(dtype), " bytes of ", name(dtype),
         " but got an address ", address_of(data) % size_of(dtype), " beyond");
  check_end(operation, side, data, bytes);
}

void refuse_alias(const Names& names, const ConstHeads& x, const Heads& out, bool same_strides) {
  if (x.data == out.data && same_strides) return;
  if (!blocks_meet(blocks_of(memory_of(names.x, x)), blocks_of(memory_of(names.out, out)))) return;
  const auto distance = static_cast<std::int64_t>(address_of(out.data) - address_of(x.data));
  fail(Code::ALIAS, names.operation, names.x, " and ", names.out,
       " must not overlap, or be the same with the same strides, but ", names.out, " begins ",
       distance / bytes_of(x.dtype), " elements from ", names.x, same_strides ? "" : " with other strides");
}

}  // namespace

void refuse_xpos(const char* operation) {
  fail(Code::SCALING, operation,
       "a table of queries and keys must have no xPos, whose inverse keys take (XPos::reciprocal), but has it: turn "
       "each "
       "by a table of its own");
}

void refuse(const Names& names, const ConstHeads& x, const Heads& out, const TableShape& table, Direction direction) {
  refuse_kinds(names, x.dtype, out.dtype, table.pairing, direction);
  refuse_sizes(names, x.layout, out.layout, table);
  const Strides read = strides(x.layout, out.layout), written = strides(out.layout, out.layout);
  const int head_dim = x.layout.head_dim;
  const std::int64_t each = bytes_of(x.dtype);
  const std::int64_t x_bytes = checked_extent(names.operation, {names.x, " ", nullptr}, read, head_dim, each);
  const std::int64_t out_bytes = checked_extent(names.operation, {names.out, " ", nullptr}, written, head_dim, each);
  refuse_pointer(names.operation, names.x, x.data, x.dtype, x_bytes);
  refuse_pointer(names.operation, names.out, out.data, x.dtype, out_bytes);
  const std::string elements = std::string("the written elements") + names.of_x;
  checked_extent(names.operation, {names.out, " ", elements.c_str()}, reversed(written), head_dim, each);
  refuse_alias(names, x, out,
               std::equal(read.begin(), read.end(), written.begin(),
                          [](const Stride& a, const Stride& b) { return a.count <= 1 || a.stride == b.stride; }));
  fail(Code::INTERNAL, names.operation, "the call was refused but no rule that it breaks was found: please report it");
}

void refuse_overlap(const char* operation, const char* written, const char* other) {
  fail(Code::ALIAS, operation, "what is written to ", written, " must not overlap ", other,
       " but their elements overlap, or interleave with strides that are not the same");
}

void check_readable(const char* operation, const char* side, const ConstHeads& x) {
  const Layout& l = x.layout;
  if (Range range; readable(x, range)) return;  // without making strings
  check_dtype(operation, x.dtype);
  check_sizes(operation, l);
  if (!has_elements(l)) return;
  const Memory memory{side, " ", nullptr};
  refuse_pointer(operation, side, x.data, x.dtype,
                 checked_extent(operation, memory, strides(l, l), l.head_dim, bytes_of(x.dtype)));
}

std::int64_t checked_extent(const char* operation, const Layout& cache, std::int64_t each) {
  return checked_extent(operation, {"the cache", "'s ", "the cache's elements"},
                        reversed(strides(cache, cache, "page_stride")), cache.head_dim, each);
}

}  // namespace rotary::detail
