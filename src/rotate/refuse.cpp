#include "refuse.h"

#include <algorithm>
#include <array>
#include <limits>

namespace rotary {

std::string shape(const Layout& l) {
  std::string list = "[";
  for (const std::int64_t n : {l.batch, l.tokens, l.heads}) list += text(n) + ", ";
  return list + text(l.head_dim) + "]";
}

namespace {

void refuse_dtype(const Names& names, DType dtype) {
  if (dtype <= DType::bf16) return;
  fail("DTYPE", names.verb, "dtype must be f32, f16 or bf16 but got value " + text(static_cast<int>(dtype)));
}

void refuse_kinds(const Names& names, DType x, DType out, Pairing pairing) {
  refuse_dtype(names, std::max(x, out));
  if (x != out) {
    fail("DTYPE", names.verb,
         std::string(names.x) + " and " + names.out + " must have one dtype but got " + name(x) + " and " + name(out));
  }
  if (pairing > Pairing::interleaved_to_half) {
    fail("PAIRING", names.verb,
         "pairing must be half, interleaved or interleaved_to_half but got value " + text(static_cast<int>(pairing)));
  }
}

void refuse_negative(const Names& names, const Layout& x) {
  if (x.batch >= 0 && x.tokens >= 0 && x.heads >= 0 && x.head_dim >= 0) return;
  fail("SHAPE", names.verb, "sizes must not be negative but got [batch, tokens, heads, head_dim] = " + shape(x));
}

void refuse_sizes(const Names& names, const Layout& x, const Layout& out, const TableShape& table) {
  const std::string side = names.x;
  refuse_negative(names, x);
  if (!same_shape(x, out)) {
    fail("SHAPE", names.verb,
         std::string(names.out) + " must have the shape of " + side + ", " + shape(x) + ", but got " + shape(out));
  }
  if (table.tokens != x.tokens) {
    fail("SHAPE", names.verb,
         "table has " + text(table.tokens) + " rows but " + side + " has " + text(x.tokens) + " tokens");
  }
  if (table.batch != 1 && table.batch != x.batch) {
    fail("SHAPE", names.verb, "table has " + text(table.batch) + " batch rows but " + side + " has " + text(x.batch));
  }
  if (table.rotary_dim() > x.head_dim) {
    fail("SHAPE", names.verb,
         "rotary_dim must be at most head_dim " + text(x.head_dim) + " but the table's is " + text(table.rotary_dim()));
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
      fail("SHAPE", names.verb, side + " " + s.name + " must not be negative but got " + text(s.stride));
    }
    if (!extend(extent, s.count, s.stride)) {
      fail("SHAPE", names.verb,
           side + " must span less than 2^63 bytes but got " + s.name + " " + text(s.stride) + " times " +
               text(s.count));
    }
  }
  if (__builtin_mul_overflow(extent, static_cast<std::int64_t>(size_of(dtype)), &extent)) {
    fail("SHAPE", names.verb, side + " must span less than 2^63 bytes but got more");
  }
  return extent;
}

void refuse_pointer(const Names& names, const std::string& side, const void* data, DType dtype, std::int64_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (data == nullptr) fail("SHAPE", names.verb, side + " must point to its elements but got null");
  if (address % size_of(dtype) != 0) {
    fail("DTYPE", names.verb,
         side + " must be aligned to the " + text(static_cast<int>(size_of(dtype))) + " bytes of " + name(dtype) +
             " but got an address " + text(static_cast<int>(address % size_of(dtype))) + " beyond");
  }
  if (address + static_cast<std::uintptr_t>(bytes) < address) {
    fail("SHAPE", names.verb, side + " must end inside the address space but spans " + text(bytes) + " bytes");
  }
}

void refuse_overlap(const Names& names, const Strides& written, int head_dim) {
  std::int64_t extent = head_dim;
  for (auto s = written.rbegin(); s != written.rend(); ++s) {
    if (s->count <= 1) continue;
    if (s->stride < extent) {
      fail("SHAPE", names.verb,
           "the written elements" + std::string(names.of_x) + " must be distinct but " + s->name + " " +
               text(s->stride) + " steps over " + text(extent) + " elements");
    }
    extent += (s->count - 1) * s->stride;
  }
}

}  // namespace

void fail(const char* code, const char* verb, const std::string& sentence) {
  throw Error(code, "[" + std::string(verb) + "] " + sentence);
}

void refuse(const Names& names, const ConstHeads& x, const Heads& out, const TableShape& table) {
  refuse_kinds(names, x.dtype, out.dtype, table.pairing);
  refuse_sizes(names, x.layout, out.layout, table);
  const Strides read = strides(x.layout, out.layout), written = strides(out.layout, out.layout);
  const int head_dim = x.layout.head_dim;
  const std::int64_t x_bytes = refuse_extent(names, names.x, read, head_dim, x.dtype);
  const std::int64_t out_bytes = refuse_extent(names, names.out, written, head_dim, x.dtype);
  refuse_pointer(names, names.x, x.data, x.dtype, x_bytes);
  refuse_pointer(names, names.out, out.data, x.dtype, out_bytes);
  refuse_overlap(names, written, head_dim);
  const auto distance =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out.data) - reinterpret_cast<std::uintptr_t>(x.data));
  const bool same = std::equal(read.begin(), read.end(), written.begin(),
                               [](const Stride& a, const Stride& b) { return a.count <= 1 || a.stride == b.stride; });
  fail("ALIAS", names.verb,
       std::string(names.x) + " and " + names.out + " must be apart or the same with the same strides but " +
           names.out + " begins " + text(distance / static_cast<std::int64_t>(size_of(x.dtype))) + " elements from " +
           names.x + (same ? "" : " with other strides"));
}

void refuse_meeting(const char* verb, const char* written, const char* other) {
  fail("ALIAS", verb,
       std::string("what is written to ") + written + " must be apart from " + other +
           " but their elements overlap, or interleave with strides that are not the same");
}

void check_readable(const char* verb, const char* side, const ConstHeads& x) {
  const Names names{verb, side, side, ""};
  refuse_dtype(names, x.dtype);
  refuse_negative(names, x.layout);
  const Layout& l = x.layout;
  if (l.batch == 0 || l.tokens == 0 || l.heads == 0 || l.head_dim == 0) return;
  const std::int64_t bytes = refuse_extent(names, side, strides(l, l), l.head_dim, x.dtype);
  refuse_pointer(names, side, x.data, x.dtype, bytes);
}

}  // namespace rotary
