// What the two tensor formats share: the element types and sizes that cannot overflow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "rotary/tensors.h"

namespace rotary::files {

constexpr std::size_t max_dimensions = 64;  // numpy's own limit

std::optional<ElementType> find_element_type(std::string_view name) noexcept;  // by its safetensors name
// By its npy name without the byte order, as in "f4"; nullptr where numpy has none.
std::optional<ElementType> find_numpy_type(std::string_view name) noexcept;
const char* numpy_name(ElementType) noexcept;

// elements * bits_of(type). Nothing if a size is negative, or if the product passes 64 bits even without the sizes
// that are 0: strides made of such a shape would overflow.
std::optional<std::uint64_t> checked_bits(ElementType, std::span<const std::int64_t> shape) noexcept;

bool is_float(ElementType) noexcept;            // f64, f32, f16, bf16
std::vector<double> numbers_of(const Tensor&);  // of floats

// Before writing: the shape is sound and the data fills it exactly. Throws SHAPE.
void check_whole(const char* operation, const Tensor&);

}  // namespace rotary::files
