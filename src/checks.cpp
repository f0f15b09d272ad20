#include "checks.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

namespace rotary {
namespace {

// One dimension of a layout, with what each step means in x, out and the table.
struct Dimension {
  const char* stride_name;
  std::int64_t count;
  std::int64_t in_stride;
  std::int64_t out_stride;
  std::int64_t table_stride;
};
using Dimensions = std::array<Dimension, 3>;

std::string text(std::int64_t n) { return std::to_string(n); }

std::string text(const Layout& l) {
  std::string list = "[";
  for (const std::int64_t n : {l.batch, l.tokens, l.heads}) list += text(n) + ", ";
  return list + text(l.head_dim) + "]";
}

[[noreturn]] void fail(const char* code, const char* verb, const std::string& sentence) {
  throw Error(code, "[" + std::string(verb) + "] " + sentence);
}

bool has_elements(const Layout& l) { return l.batch > 0 && l.tokens > 0 && l.heads > 0 && l.head_dim > 0; }

void check_sizes(const char* verb, const Layout& x, const Layout& out, const Table& table) {
  if (x.batch < 0 || x.tokens < 0 || x.heads < 0 || x.head_dim < 0) {
    fail("SHAPE", verb, "sizes must not be negative but got [batch, tokens, heads, head_dim] = " + text(x));
  }
  if (x.batch != out.batch || x.tokens != out.tokens || x.heads != out.heads || x.head_dim != out.head_dim) {
    fail("SHAPE", verb, "out must have the shape of x, " + text(x) + ", but got " + text(out));
  }
  if (table.tokens() != x.tokens) {
    fail("SHAPE", verb, "table has " + text(table.tokens()) + " rows but x has " + text(x.tokens) + " tokens");
  }
  if (table.batch() != 1 && table.batch() != x.batch) {
    fail("SHAPE", verb, "table has " + text(table.batch()) + " batch rows but x has " + text(x.batch));
  }
  if (table.rotary_dim() > x.head_dim) {
    fail("SHAPE", verb,
         "rotary_dim must be at most head_dim " + text(x.head_dim) + " but the table's is " + text(table.rotary_dim()));
  }
}

void check_kinds(const char* verb, DType x, DType out, Pairing pairing) {
  if (x > DType::bf16 || out > DType::bf16) {
    fail("DTYPE", verb, "dtype must be f32, f16 or bf16 but got value " + text(static_cast<int>(std::max(x, out))));
  }
  if (x != out) {
    fail("DTYPE", verb, std::string("x and out must have one dtype but got ") + name(x) + " and " + name(out));
  }
  if (pairing > Pairing::interleaved_to_half) {
    fail("PAIRING", verb,
         "pairing must be half, interleaved or interleaved_to_half but got value " + text(static_cast<int>(pairing)));
  }
}

// The bytes from the first element to behind the last one.
std::int64_t check_extent(const char* verb, const char* which, const Layout& l, std::int64_t Dimension::*stride,
                          const Dimensions& dimensions, DType dtype) {
  std::int64_t extent = l.head_dim;
  for (const Dimension& d : dimensions) {
    if (d.count > 1 && d.*stride < 0) {
      fail("SHAPE", verb,
           std::string(which) + " " + d.stride_name + " must not be negative but got " + text(d.*stride));
    }
    std::int64_t step = 0;
    if (d.count > 1 &&
        (__builtin_mul_overflow(d.count - 1, d.*stride, &step) || __builtin_add_overflow(extent, step, &extent))) {
      fail("SHAPE", verb,
           std::string(which) + " must span less than 2^63 bytes but got " + d.stride_name + " " + text(d.*stride) +
               " times " + text(d.count));
    }
  }
  if (__builtin_mul_overflow(extent, static_cast<std::int64_t>(size_of(dtype)), &extent)) {
    fail("SHAPE", verb, std::string(which) + " must span less than 2^63 bytes but got more");
  }
  return extent;
}

void check_pointer(const char* verb, const char* which, const void* data, DType dtype, std::int64_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (data == nullptr) fail("SHAPE", verb, std::string(which) + " must point to its elements but got null");
  if (address % size_of(dtype) != 0) {
    fail("DTYPE", verb,
         std::string(which) + " must be aligned to the " + text(static_cast<int>(size_of(dtype))) + " bytes of " +
             name(dtype) + " but got an address " + text(static_cast<int>(address % size_of(dtype))) + " beyond");
  }
  if (address + static_cast<std::uintptr_t>(bytes) < address) {
    fail("SHAPE", verb, std::string(which) + " must end inside the address space but spans " + text(bytes) + " bytes");
  }
}

// Writable elements must be distinct: each stride steps over all that the smaller strides reach.
void check_distinct(const char* verb, const Dimensions& outermost_first, int head_dim) {
  std::int64_t extent = head_dim;
  for (auto d = outermost_first.rbegin(); d != outermost_first.rend(); ++d) {
    if (d->count <= 1) continue;
    if (d->out_stride < extent) {
      fail("SHAPE", verb,
           std::string("the written elements must be distinct but ") + d->stride_name + " " + text(d->out_stride) +
               " steps over " + text(extent) + " elements");
    }
    extent += (d->count - 1) * d->out_stride;
  }
}

// Whether some block of x overlaps some block of out, for equal and distinct strides: distance = sum(n_k * stride_k)
// up to head_dim, with |n_k| < count_k. What the inner dimensions reach is below the stride, so two n_k can serve.
bool blocks_meet(std::int64_t distance, const Dimension* d, const Dimension* end, int head_dim) {
  if (d == end) return -head_dim < distance && distance < head_dim;
  if (d->count <= 1) return blocks_meet(distance, d + 1, end, head_dim);
  const std::int64_t below = distance / d->out_stride - (distance % d->out_stride < 0 ? 1 : 0);
  for (const std::int64_t n : {below, below + 1}) {
    if (-d->count < n && n < d->count && blocks_meet(distance - n * d->out_stride, d + 1, end, head_dim)) return true;
  }
  return false;
}

bool same_strides(const Dimensions& dimensions) {
  return std::all_of(dimensions.begin(), dimensions.end(),
                     [](const Dimension& d) { return d.count <= 1 || d.in_stride == d.out_stride; });
}

void check_alias(const char* verb, const ConstHeads& x, std::int64_t x_bytes, const Heads& out, std::int64_t out_bytes,
                 const Dimensions& dimensions) {
  const auto from = reinterpret_cast<std::uintptr_t>(x.data);
  const auto to = reinterpret_cast<std::uintptr_t>(out.data);
  const bool apart =
      from + static_cast<std::uintptr_t>(x_bytes) <= to || to + static_cast<std::uintptr_t>(out_bytes) <= from;
  if (apart) return;
  const bool same = same_strides(dimensions);
  if (same && from == to) return;
  const std::int64_t distance = static_cast<std::int64_t>(to - from) / static_cast<std::int64_t>(size_of(x.dtype));
  if (same && !blocks_meet(distance, dimensions.data(), dimensions.data() + 3, x.layout.head_dim)) return;
  fail("ALIAS", verb,
       "x and out must be apart or the same with the same strides but out begins " + text(distance) +
           " elements from x" + (same ? "" : " with other strides"));
}

// Outermost first: sizes of one, then by the stride of what is written. Rows are walked as they lie in memory.
Dimensions loop_order(const Layout& x, const Layout& out, const Table& table) {
  const std::int64_t pairs = table.pairs();
  const std::int64_t batch_step = table.batch() == 1 ? 0 : table.tokens() * pairs;
  Dimensions d{{{"batch_stride", x.batch, x.batch_stride, out.batch_stride, batch_step},
                {"token_stride", x.tokens, x.token_stride, out.token_stride, pairs},
                {"head_stride", x.heads, x.head_stride, out.head_stride, 0}}};
  std::stable_sort(d.begin(), d.end(), [](const Dimension& a, const Dimension& b) {
    if ((a.count > 1) != (b.count > 1)) return b.count > 1;
    return a.count > 1 && a.out_stride > b.out_stride;
  });
  return d;
}

}  // namespace

Job check_rotate(const char* verb, const ConstHeads& x, const Heads& out, const Table& table, bool backward) {
  check_kinds(verb, x.dtype, out.dtype, table.pairing());
  check_sizes(verb, x.layout, out.layout, table);
  Job job;
  if (!has_elements(x.layout)) {
    job.count[0] = 0;
    return job;
  }
  const Dimensions dimensions = loop_order(x.layout, out.layout, table);
  const std::int64_t x_bytes = check_extent(verb, "x", x.layout, &Dimension::in_stride, dimensions, x.dtype);
  const std::int64_t out_bytes = check_extent(verb, "out", x.layout, &Dimension::out_stride, dimensions, x.dtype);
  check_pointer(verb, "x", x.data, x.dtype, x_bytes);
  check_pointer(verb, "out", out.data, out.dtype, out_bytes);
  check_distinct(verb, dimensions, x.layout.head_dim);
  check_alias(verb, x, x_bytes, out, out_bytes, dimensions);

  job.in = x.data;
  job.out = out.data;
  job.cos = table.cos().data();
  job.sin = table.sin().data();
  job.dtype = x.dtype;
  job.read_interleaved = backward ? table.pairing() == Pairing::interleaved : table.pairing() != Pairing::half;
  job.write_interleaved = backward ? table.pairing() != Pairing::half : table.pairing() == Pairing::interleaved;
  job.backward = backward;
  job.pairs = table.pairs();
  job.rest = x.data == out.data ? 0 : x.layout.head_dim - table.rotary_dim();
  for (std::size_t k = 0; k < dimensions.size(); ++k) {
    job.count[k] = dimensions[k].count;
    const bool moves = dimensions[k].count > 1;
    job.in_stride[k] = moves ? dimensions[k].in_stride : 0;
    job.out_stride[k] = moves ? dimensions[k].out_stride : 0;
    job.table_stride[k] = moves ? dimensions[k].table_stride : 0;
  }
  return job;
}

void check_slice(const Layout& x, int first, int head_dim) {
  if (first < 0 || head_dim < 0 || first > x.head_dim - head_dim) {
    fail("SHAPE", "slice",
         "elements must lie inside head_dim " + text(x.head_dim) + " but got " + text(first) + " to " +
             text(std::int64_t{first} + head_dim));
  }
}

std::int64_t checked_product(const char* verb, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (a < 0 || b < 0) fail("SHAPE", verb, "sizes must not be negative but got " + text(std::min(a, b)));
  if (__builtin_mul_overflow(a, b, &product)) {
    fail("SHAPE", verb, "the elements must number less than 2^63 but got " + text(a) + " times " + text(b));
  }
  return product;
}

}  // namespace rotary
