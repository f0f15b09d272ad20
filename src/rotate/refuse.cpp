#include "runtime/arithmetic.h"

#include "refuse.h"

#include <algorithm>
#include <array>
#include <limits>

#include "overlap.h"
#include "values/dtypes.h"
#include "values/number_text.h"
#include "values/pairings.h"

namespace rotary::detail {

std::string shape(const Layout& l) {
  return shape_text(std::array<std::int64_t, 4>{l.batch, l.tokens, l.heads, l.head_dim});
}

namespace {

void refuse_kinds(const Names& names, DType x, DType out, Pairing pairing, Direction direction) {
  check_dtype(names.operation, std::max(x, out));
  if (x != out) {
    fail(Code::DTYPE, names.operation,
         std::string(names.x) + " and " + names.out + " must have one dtype but got " + name(x) + " and " + name(out));
  }
  check_pairing(names.operation, pairing);
  if (direction > Direction::backward) {
    fail(Code::VALUE, names.operation,
         "direction must be forward or backward but got value " + std::to_string(static_cast<int>(direction)));
  }
}

void refuse_negative(const Names& names, const Layout& x) {
  if (x.batch >= 0 && x.tokens >= 0 && x.heads >= 0 && x.head_dim >= 0) return;
  fail(Code::SHAPE, names.operation,
       "sizes must not be negative but got [batch, tokens, heads, head_dim] = " + shape(x));
}

void refuse_sizes(const Names& names, const Layout& x, const Layout& out, const TableShape& table) {
  const std::string side = names.x;
  refuse_negative(names, x);
  if (!same_shape(x, out)) {
    fail(Code::SHAPE, names.operation,
         std::string(names.out) + " must have the shape of " + side + ", " + shape(x) + ", but got " + shape(out));
  }
  if (table.tokens != x.tokens) {
    fail(Code::SHAPE, names.operation,
         "table has " + std::to_string(table.tokens) + " rows but " + side + " has " + std::to_string(x.tokens) +
             " tokens");
  }
  if (table.batch != 1 && table.batch != x.batch) {
    fail(Code::SHAPE, names.operation,
         "table has " + std::to_string(table.batch) + " batch rows but " + side + " has " + std::to_string(x.batch));
  }
  if (table.rotary_dim() > x.head_dim) {
    fail(Code::SHAPE, names.operation,
         "rotary_dim must be at most head_dim " + std::to_string(x.head_dim) + " but the table's is " +
             std::to_string(table.rotary_dim()));
  }
}

struct Stride {
  const char* name;
  std::int64_t count;
  std::int64_t stride;
};
using Strides = std::array<Stride, 3>;

// Outermost first, as `written` lies in memory.
Strides strides(const Layout& l, const Layout& written) {
  struct Both {
    Stride stride;
    std::int64_t rank;
  };
  const auto both = [](const char* stride_name, std::int64_t count, std::int64_t stride, std::int64_t rank) {
    return Both{{stride_name, count, stride}, count > 1 ? rank : std::numeric_limits<std::int64_t>::max()};
  };
  Both all[] = {both("batch_stride", l.batch, l.batch_stride, written.batch_stride),
                both("token_stride", l.tokens, l.token_stride, written.token_stride),
                both("head_stride", l.heads, l.head_stride, written.head_stride)};
  for (const int k : {0, 1, 0}) {
    if (all[k].rank < all[k + 1].rank) std::swap(all[k], all[k + 1]);
  }
  return {all[0].stride, all[1].stride, all[2].stride};
}

// The bytes from the first element to behind the last one.
std::int64_t refuse_extent(const Names& names, const std::string& side, const Strides& all, int head_dim, DType dtype) {
  std::int64_t extent = head_dim;
  for (const Stride& s : all) {
    if (s.count <= 1) continue;
    if (s.stride < 0) {
      fail(Code::SHAPE, names.operation,
           side + " " + s.name + " must not be negative but got " + std::to_string(s.stride));
    }
    if (!extend(extent, s.count, s.stride)) {
      fail(Code::SHAPE, names.operation,
           side + " must span less than 2^63 bytes but got " + s.name + " " + std::to_string(s.stride) + " times " +
               std::to_string(s.count));
    }
  }
  if (multiply_overflows(extent, static_cast<std::int64_t>(size_of(dtype)), &extent)) {
    fail(Code::SHAPE, names.operation, side + " must span less than 2^63 bytes but got more");
  }
  return extent;
}

void refuse_pointer(const Names& names, const std::string& side, const void* data, DType dtype, std::int64_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (data == nullptr) fail(Code::SHAPE, names.operation, side + " must point to its elements but got null");
  if (address % size_of(dtype) != 0) {
    fail(Code::DTYPE, names.operation,
         side + " must be aligned to the " + std::to_string(static_cast<int>(size_of(dtype))) + " bytes of " +
             name(dtype) + " but got an address " + std::to_string(static_cast<int>(address % size_of(dtype))) +
             " beyond");
  }
  if (address + static_cast<std::uintptr_t>(bytes) < address) {
    fail(Code::SHAPE, names.operation,
         side + " must end inside the address space but spans " + std::to_string(bytes) + " bytes");
  }
}

void refuse_indistinct(const Names& names, const Strides& written, int head_dim) {
  std::int64_t extent = head_dim;
  for (auto s = written.rbegin(); s != written.rend(); ++s) {
    if (s->count <= 1) continue;
    if (s->stride < extent) {
      fail(Code::SHAPE, names.operation,
           "the written elements" + std::string(names.of_x) + " must be distinct but " + s->name + " " +
               std::to_string(s->stride) + " steps over " + std::to_string(extent) + " elements");
    }
    extent += (s->count - 1) * s->stride;
  }
}

void refuse_alias(const Names& names, const ConstHeads& x, const Heads& out, bool same_strides) {
  if (x.data == out.data && same_strides) return;
  const auto each = static_cast<std::int64_t>(size_of(x.dtype));
  if (!blocks_meet(blocks_of(address_of(x.data), x.layout, each), blocks_of(address_of(out.data), out.layout, each)))
    return;
  const auto distance =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out.data) - reinterpret_cast<std::uintptr_t>(x.data));
  fail(Code::ALIAS, names.operation,
       std::string(names.x) + " and " + names.out + " must not overlap, or be the same with the same strides, but " +
           names.out + " begins " + std::to_string(distance / each) + " elements from " + names.x +
           (same_strides ? "" : " with other strides"));
}

}  // namespace

void refuse(const Names& names, const ConstHeads& x, const Heads& out, const TableShape& table, Direction direction) {
  refuse_kinds(names, x.dtype, out.dtype, table.pairing, direction);
  refuse_sizes(names, x.layout, out.layout, table);
  const Strides read = strides(x.layout, out.layout), written = strides(out.layout, out.layout);
  const int head_dim = x.layout.head_dim;
  const std::int64_t x_bytes = refuse_extent(names, names.x, read, head_dim, x.dtype);
  const std::int64_t out_bytes = refuse_extent(names, names.out, written, head_dim, x.dtype);
  refuse_pointer(names, names.x, x.data, x.dtype, x_bytes);
  refuse_pointer(names, names.out, out.data, x.dtype, out_bytes);
  refuse_indistinct(names, written, head_dim);
  refuse_alias(names, x, out,
               std::equal(read.begin(), read.end(), written.begin(),
                          [](const Stride& a, const Stride& b) { return a.count <= 1 || a.stride == b.stride; }));
  fail(Code::INTERNAL, names.operation, "the call was refused but no rule that it breaks was found: please report it");
}

void refuse_overlap(const char* operation, const char* written, const char* other) {
  fail(Code::ALIAS, operation,
       std::string("what is written to ") + written + " must not overlap " + other +
           " but their elements overlap, or interleave with strides that are not the same");
}

void check_readable(const char* operation, const char* side, const ConstHeads& x) {
  const Names names{operation, side, side, ""};
  check_dtype(operation, x.dtype);
  refuse_negative(names, x.layout);
  const Layout& l = x.layout;
  if (!has_elements(l)) return;
  const std::int64_t bytes = refuse_extent(names, side, strides(l, l), l.head_dim, x.dtype);
  refuse_pointer(names, side, x.data, x.dtype, bytes);
}

}  // namespace rotary::detail
