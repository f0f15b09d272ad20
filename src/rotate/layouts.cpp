// Layouts of contiguous tensors, and parts of heads.
#include "runtime/arithmetic.h"

#include <cstddef>

#include "checks.h"

namespace rotary {

using namespace detail;

Layout bthd(std::int64_t batch, std::int64_t tokens, std::int64_t heads, int head_dim) {
  const std::int64_t token = checked_product("bthd", heads, head_dim);
  const std::int64_t row = checked_product("bthd", tokens, token);
  checked_product("bthd", batch, row);
  return {batch, tokens, heads, head_dim, row, token, head_dim};
}

Layout bhtd(std::int64_t batch, std::int64_t heads, std::int64_t tokens, int head_dim) {
  const std::int64_t head = checked_product("bhtd", tokens, head_dim);
  const std::int64_t row = checked_product("bhtd", heads, head);
  checked_product("bhtd", batch, row);
  return {batch, tokens, heads, head_dim, row, head_dim, head};
}

Layout tbhd(std::int64_t tokens, std::int64_t batch, std::int64_t heads, int head_dim) {
  const std::int64_t row = checked_product("tbhd", heads, head_dim);
  const std::int64_t token = checked_product("tbhd", batch, row);
  checked_product("tbhd", tokens, token);
  return {batch, tokens, heads, head_dim, row, token, head_dim};
}

Layout thd(std::int64_t tokens, std::int64_t heads, int head_dim) { return bthd(1, tokens, heads, head_dim); }

ConstHeads slice(const ConstHeads& x, int first, int head_dim) {
  check_slice(x.layout, first, head_dim);
  ConstHeads part = x;
  if (x.data != nullptr) {
    part.data = static_cast<const std::byte*>(x.data) + static_cast<std::size_t>(first) * size_of(x.dtype);
  }
  part.layout.head_dim = head_dim;
  return part;
}

Heads slice(const Heads& x, int first, int head_dim) {
  const ConstHeads part = slice(ConstHeads(x), first, head_dim);
  return {const_cast<void*>(part.data), part.dtype, part.layout};
}

}  // namespace rotary
