// Shared by the two tensor formats: the element types, and sizes checked for overflow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "rotary/tensors.h"

namespace rotary::files {

constexpr std::size_t max_dimensions = 64;  // numpy's limit

std::optional<ElementType> find_element_type(std::string_view name) noexcept;  // by its safetensors name
// By its npy name without the byte order, as in "f4". numpy_name is nullptr if numpy has no name for the type.
std::optional<ElementType> find_numpy_type(std::string_view name) noexcept;
const char* numpy_name(ElementType) noexcept;

// elements * bits_of(type). Empty if a size is negative, or if the product of the sizes other than 0 does not fit in 64
// bits: strides made of such a shape would overflow.
std::optional<std::uint64_t> checked_bits(ElementType, std::span<const std::int64_t> shape) noexcept;

bool is_float(ElementType) noexcept;            // f64, f32, f16, bf16
std::vector<double> numbers_of(const Tensor&);  // of a float type

std::uint64_t little_endian(std::span<const std::byte>) noexcept;  // of up to 8 bytes

// Before writing: checks that the shape is valid and that the data fills it exactly. Throws SHAPE.
void check_whole(const char* operation, const Tensor&);

}  // namespace rotary::files
