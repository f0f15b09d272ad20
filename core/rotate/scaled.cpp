// rotate and rotate_qk with a factor for each query: rows of the table times the factor rotate; the rest of the head is
// multiplied element by element.
#include "runtime/arithmetic.h"

#include "rotary/query_scale.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "call_threads.h"
#include "checks.h"
#include "runtime/float_state.h"
#include "values/fail.h"
#include "values/storage.h"

namespace rotary {

using namespace detail;
namespace {

void check_factors(const char* operation, const Layout& l, std::span<const float> scale) {
  const auto size = static_cast<std::int64_t>(scale.size());
  if (size == 0) return;  // no factors
  if (size != l.tokens && size != checked_product(operation, l.batch, l.tokens))
    fail(Code::SHAPE, operation, "query_scale must have a factor for each token of q, [tokens] or [batch, tokens] of ",
         l.batch, " x ", l.tokens, ", but got ", size);
  const auto bad = std::find_if(scale.begin(), scale.end(), [](float factor) { return !std::isfinite(factor); });
  if (bad != scale.end())
    fail(Code::VALUE, operation, "query_scale must be finite but is not at element ", bad - scale.begin());
}

// The rows of the table times the factors, rounded to f32.
Table times(const Table& table, std::span<const float> scale) {
  const FloatState ours;
  const auto tokens = static_cast<std::size_t>(table.tokens()), rows = static_cast<std::size_t>(table.batch()) * tokens;
  const std::size_t row = static_cast<std::size_t>(table.head_rows()) * static_cast<std::size_t>(table.pairs());
  const std::size_t many = std::max(rows, scale.size());
  std::vector<float> cos, sin;
  cos.reserve(many * row);
  sin.reserve(many * row);
  for (std::size_t r = 0; r < many; ++r) {
    const float factor = scale[r % scale.size()];
    for (std::size_t i = r % rows * row, end = i + row; i < end; ++i) {
      cos.push_back(table.cos()[i] * factor);
      sin.push_back(table.sin()[i] * factor);
    }
  }
  return Table(cos, sin, table.pairs(), table.pairing(), static_cast<int>(many / tokens), table.head_rows());
}

// Multiplies the elements of each head by the factor of its token, in place. Its items are heads.
struct Multiplied {
  const Heads& x;
  std::span<const float> scale;
  std::int64_t begin, end;  // elements of the head that are not to be multiplied
};

template <class Storage>
void multiply_heads(void* context, std::int64_t item, std::int64_t last) {
  const FloatState ours;
  const Multiplied& work = *static_cast<const Multiplied*>(context);
  const Layout& l = work.x.layout;
  for (; item < last; ++item) {
    Storage* const elements = static_cast<Storage*>(work.x.data) + head_at(l, item);
    const float factor = work.scale[static_cast<std::size_t>(item / l.heads) % work.scale.size()];
    for (std::int64_t d = 0; d < l.head_dim; ++d) {
      if (d < work.begin || d >= work.end) elements[d] = encode<Storage>(decode(elements[d]) * factor);
    }
  }
}

// The call is checked.
void multiply_but(const char* operation, const Heads& x, std::span<const float> scale, std::int64_t begin,
                  std::int64_t end, const RotateOptions& options) {
  if (!has_elements(x.layout) || (begin == 0 && end == x.layout.head_dim)) return;
  check_part(operation, options);
  Multiplied work{x, scale, begin, end};
  const Layout& l = x.layout;
  by_type(x.dtype, [&]<class T>(T) {
    run_items(options, l.batch * l.tokens * l.heads, l.head_dim * bytes_of(x.dtype), multiply_heads<T>, &work);
  });
}

// The call is checked.
void rotate_by_scaled_rows(const char* operation, const InOut& x, const Table& table, const RotateOptions& options,
                           std::span<const float> scale) {
  if (scale.empty() || !has_elements(x.in.layout)) return rotate(x.in, x.out, table, options);
  rotate(x.in, x.out, times(table, scale), options);
  multiply_but(operation, x.out, scale, options.first, options.first + table.rotary_dim(), options);
}

void rotate_scaled(const Names& names, const InOut& x, const Table& table, const RotateOptions& options,
                   std::span<const float> scale) {
  check_heads_from(names, x, table, options);
  check_stores(names.operation, options.stores);
  check_factors(names.operation, x.in.layout, scale);
  rotate_by_scaled_rows(names.operation, x, table, options, scale);
}

}  // namespace

void rotate(const Heads& x, const Table& table, const RotateOptions& options, std::span<const float> query_scale) {
  rotate_scaled({"rotate", "x", "x", ""}, {x, x}, table, options, query_scale);
}
void rotate(const ConstHeads& x, const Heads& out, const Table& table, const RotateOptions& options,
            std::span<const float> query_scale) {
  rotate_scaled({"rotate", "x", "out", ""}, {x, out}, table, options, query_scale);
}

void rotate_qk(const Heads& q, const Heads& k, const Table& table, const RotateOptions& options,
               std::span<const float> query_scale) {
  if (query_scale.empty()) return rotate_qk(q, k, table, options);
  rotate_qk({q, q}, {k, k}, table, options, query_scale);
}
void rotate_qk(const InOut& q, const InOut& k, const Table& table, const RotateOptions& options,
               std::span<const float> query_scale) {
  if (query_scale.empty()) return rotate_qk(q, k, table, options);
  constexpr const char* operation = "rotate_qk";
  check_heads_from(operation, q, k, table, options);
  check_stores(operation, options.stores);
  check_factors(operation, q.in.layout, query_scale);
  rotate_by_scaled_rows(operation, q, table, options, query_scale);
  rotate(k.in, k.out, table, options);
}

void multiply(const Heads& q, std::span<const float> query_scale, const RotateOptions& options) {
  check_first_is_0("multiply", options.first);
  check_heads({"multiply", "q", "q", ""}, q, q, TableShape{Pairing::half, 0, 1, q.layout.tokens});
  check_factors("multiply", q.layout, query_scale);
  if (!query_scale.empty()) multiply_but("multiply", q, query_scale, 0, 0, options);
}

}  // namespace rotary
