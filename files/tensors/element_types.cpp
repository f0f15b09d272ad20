#include "formats.h"

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "runtime/compiler.h"
#include "text/io.h"
#include "values/dtypes.h"
#include "values/names.h"

namespace rotary {
namespace {

struct Row {
  const char* name;   // in safetensors
  const char* numpy;  // nullptr: numpy has no name for it
  unsigned bits;
};

// In the order of ElementType.
constexpr std::array<Row, 22> rows = {{
    {"BOOL", "b1", 8},
    {"F4", nullptr, 4},
    {"F6_E2M3", nullptr, 6},
    {"F6_E3M2", nullptr, 6},
    {"U8", "u1", 8},
    {"I8", "i1", 8},
    {"F8_E5M2", nullptr, 8},
    {"F8_E4M3", nullptr, 8},
    {"F8_E8M0", nullptr, 8},
    {"F8_E4M3FNUZ", nullptr, 8},
    {"F8_E5M2FNUZ", nullptr, 8},
    {"I16", "i2", 16},
    {"U16", "u2", 16},
    {"F16", "f2", 16},
    {"BF16", nullptr, 16},
    {"I32", "i4", 32},
    {"U32", "u4", 32},
    {"F32", "f4", 32},
    {"C64", "c8", 64},
    {"F64", "f8", 64},
    {"I64", "i8", 64},
    {"U64", "u8", 64},
}};
static_assert(static_cast<std::size_t>(ElementType::u64) + 1 == rows.size());

const Row& row(ElementType type) noexcept { return rows[static_cast<std::size_t>(type)]; }

struct NamedTypes {
  detail::Named<ElementType> row[rows.size()];
};
constexpr NamedTypes named_types = [] {
  NamedTypes named{};
  for (std::size_t i = 0; i < rows.size(); ++i) named.row[i] = {static_cast<ElementType>(i), rows[i].name};
  return named;
}();

template <typename Matches>
std::optional<ElementType> row_where(Matches matches) noexcept {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (matches(rows[i])) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

template <typename T>
std::vector<double> widened(const Tensor& tensor) {
  const std::span<const T> elements = tensor.as<T>();
  std::vector<double> values(elements.size());
  std::transform(elements.begin(), elements.end(), values.begin(), [](T element) {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<double>(element);
    } else {
      return static_cast<double>(to_float(element));
    }
  });
  return values;
}

}  // namespace

const char* name(ElementType type) noexcept { return detail::name_in(named_types.row, type); }
ElementType parse_element_type(std::string_view text) {
  return detail::parse_in(named_types.row, text, "parse_element_type", Code::DTYPE);
}
unsigned bits_of(ElementType type) noexcept { return row(type).bits; }

std::optional<DType> dtype_of(ElementType type) noexcept {
  for (const detail::StorageType& storage : detail::storage_types) {
    if (element_type(storage.value) == type) return storage.value;
  }
  return std::nullopt;
}

bool is_float(ElementType type) noexcept { return type == ElementType::f64 || dtype_of(type).has_value(); }

ElementType element_type(DType type) noexcept {
  switch (type) {
    case DType::f32:
      return ElementType::f32;
    case DType::f16:
      return ElementType::f16;
    case DType::bf16:
      return ElementType::bf16;
  }
  return ElementType::f32;
}

std::int64_t TensorInfo::elements() const noexcept {
  std::uint64_t product = 1;
  for (const std::int64_t size : shape) product *= static_cast<std::uint64_t>(size);
  return static_cast<std::int64_t>(product);
}

namespace files {

std::optional<ElementType> find_element_type(std::string_view name) noexcept {
  return row_where([name](const Row& r) { return name == r.name; });
}

std::optional<ElementType> find_numpy_type(std::string_view name) noexcept {
  return row_where([name](const Row& r) { return r.numpy != nullptr && name == r.numpy; });
}

const char* numpy_name(ElementType type) noexcept { return row(type).numpy; }

std::optional<std::uint64_t> checked_bits(ElementType type, std::span<const std::int64_t> shape) noexcept {
  std::uint64_t bits = bits_of(type);
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      empty = true;
    } else if (detail::multiply_overflows(bits, static_cast<std::uint64_t>(size), &bits)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : bits;
}

std::vector<double> numbers_of(const Tensor& tensor) {
  if (tensor.type == ElementType::f16) return widened<f16>(tensor);
  if (tensor.type == ElementType::bf16) return widened<bf16>(tensor);
  if (tensor.type == ElementType::f64) return widened<double>(tensor);
  return widened<float>(tensor);
}

std::uint64_t little_endian(std::span<const std::byte> bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

void check_whole(const char* operation, const Tensor& tensor) {
  const auto refuse = [&](const std::string& rule) {
    throw Error(Code::SHAPE, operation, rule, "tensor " + in_quotes(tensor.name));
  };
  if (tensor.shape.size() > max_dimensions) {
    refuse("at most " + std::to_string(max_dimensions) + " dimensions but got " + std::to_string(tensor.shape.size()));
  }
  const std::optional<std::uint64_t> bits = checked_bits(tensor.type, tensor.shape);
  if (!bits) refuse("sizes must not be negative and their product must fit 64 bits");
  if (*bits % 8 != 0) {
    refuse(name(tensor.type) + (" elements must fill whole bytes but got " + std::to_string(*bits)) + " bits");
  }
  if (*bits / 8 != tensor.data.size()) {
    refuse("its shape takes " + std::to_string(*bits / 8) + " bytes but its data has " +
           std::to_string(tensor.data.size()));
  }
}

}  // namespace files
}  // namespace rotary
