// Views of q and k, which lie in the caller's memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string_view>
#include <type_traits>

#include "rotary/error.h"
#include "rotary/export.h"

namespace rotary {

// ---- Heads: the caller's memory ------------------------------------------------------------------

// The storage type of q and k.
enum class DType : std::uint8_t { f32, f16, bf16 };
ROTARY_API std::size_t size_of(DType) noexcept;       // bytes of an element
ROTARY_API const char* name(DType) noexcept;          // "f32", "f16", "bf16"
ROTARY_API DType parse_dtype(std::string_view name);  // throws DTYPE

// The 16-bit storage types, as bits.
struct f16 {
  std::uint16_t bits;
  friend bool operator==(f16, f16) = default;  // compares bits
};
struct bf16 {
  std::uint16_t bits;
  friend bool operator==(bf16, bf16) = default;
};
// Round to nearest even; NaN stays NaN.
ROTARY_API f16 to_f16(float) noexcept;
ROTARY_API bf16 to_bf16(float) noexcept;
ROTARY_API float to_float(f16) noexcept;
ROTARY_API float to_float(bf16) noexcept;

// Element (b, t, h, d) lies at b * batch_stride + t * token_stride + h * head_stride + d. Strides are in elements and
// not negative; the stride of a dimension of size 1 does not matter.
struct Layout {
  std::int64_t batch = 1;
  std::int64_t tokens = 0;
  std::int64_t heads = 1;
  int head_dim = 0;
  std::int64_t batch_stride = 0;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
};
// Contiguous tensors. Throw SHAPE (a size below 0, or 2^63 or more elements).
ROTARY_API Layout bthd(std::int64_t batch, std::int64_t tokens, std::int64_t heads, int head_dim);
ROTARY_API Layout bhtd(std::int64_t batch, std::int64_t heads, std::int64_t tokens, int head_dim);
ROTARY_API Layout tbhd(std::int64_t tokens, std::int64_t batch, std::int64_t heads, int head_dim);
ROTARY_API Layout thd(std::int64_t tokens, std::int64_t heads, int head_dim);

// A view of the heads of a tensor. It does not check the size of the memory; heads() below does.
struct Heads {
  void* data = nullptr;
  DType dtype = DType::f32;
  Layout layout;
};
struct ConstHeads {
  ConstHeads(const Heads& x) : data(x.data), dtype(x.dtype), layout(x.layout) {}  // NOLINT: a view, as span
  ConstHeads(const void* d, DType t, const Layout& l) : data(d), dtype(t), layout(l) {}
  const void* data = nullptr;
  DType dtype = DType::f32;
  Layout layout;
};

namespace detail {
template <class T>
concept StorageElement = std::same_as<T, float> || std::same_as<T, f16> || std::same_as<T, bf16>;
template <StorageElement T>
inline constexpr DType storage_dtype = std::same_as<T, float> ? DType::f32
                                       : std::same_as<T, f16> ? DType::f16
                                                              : DType::bf16;
ROTARY_API void check_inside(const Layout&, std::size_t elements);
}  // namespace detail

// Makes Heads (ConstHeads if the elements are const) of a std::span, vector or array of float, f16 or bf16 that begins
// with the layout's first element. Throws SHAPE if the layout reaches beyond the memory. A temporary vector does not
// compile.
template <std::ranges::contiguous_range Range>
requires std::ranges::sized_range<Range> && std::ranges::borrowed_range<Range> &&
    detail::StorageElement<std::ranges::range_value_t<Range>>
auto heads(Range&& memory, const Layout& layout) {
  constexpr DType dtype = detail::storage_dtype<std::ranges::range_value_t<Range>>;
  detail::check_inside(layout, static_cast<std::size_t>(std::ranges::size(memory)));
  if constexpr (std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>) {
    return ConstHeads(std::ranges::data(memory), dtype, layout);
  } else {
    return Heads{std::ranges::data(memory), dtype, layout};
  }
}

// Elements [first, first + head_dim) of every head. Throws SHAPE.
ROTARY_API Heads slice(const Heads&, int first, int head_dim);
ROTARY_API ConstHeads slice(const ConstHeads&, int first, int head_dim);

}  // namespace rotary
