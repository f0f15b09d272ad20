#include "element_types.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "files/text/io.h"
#include "values/names.h"

namespace rotary {
namespace {

struct Row {
  const char* name;   // in safetensors
  const char* numpy;  // nullptr: numpy has no spelling
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
std::optional<ElementType> find_row(Matches matches) noexcept {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (matches(rows[i])) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) value = fraction == 0 ? HUGE_VAL : std::nan("");
  return (bits & 0x8000) != 0 ? -value : value;
}

double brain_value(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

template <typename Bits, typename Convert>
std::vector<double> values_of(std::span<const std::byte> data, Convert convert) {
  std::vector<double> values(data.size() / sizeof(Bits));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Bits bits{};
    std::memcpy(&bits, data.data() + i * sizeof(Bits), sizeof(Bits));
    values[i] = convert(bits);
  }
  return values;
}

}  // namespace

const char* name(ElementType type) noexcept { return detail::name_in(named_types.row, type); }
ElementType parse_element_type(std::string_view text) {
  return detail::parse_in(named_types.row, text, "parse_element_type", Code::DTYPE);
}
unsigned bits_of(ElementType type) noexcept { return row(type).bits; }

std::optional<DType> dtype_of(ElementType type) noexcept {
  switch (type) {
    case ElementType::f32:
      return DType::f32;
    case ElementType::f16:
      return DType::f16;
    case ElementType::bf16:
      return DType::bf16;
    default:
      return std::nullopt;
  }
}

ElementType element_type(DType type) noexcept {
  switch (type) {
    case DType::f16:
      return ElementType::f16;
    case DType::bf16:
      return ElementType::bf16;
    default:
      return ElementType::f32;
  }
}

std::int64_t TensorInfo::elements() const noexcept {
  std::uint64_t product = 1;
  for (const std::int64_t size : shape) product *= static_cast<std::uint64_t>(size);
  return static_cast<std::int64_t>(product);
}

namespace files {

std::optional<ElementType> find_element_type(std::string_view name) noexcept {
  return find_row([name](const Row& r) { return name == r.name; });
}

std::optional<ElementType> find_numpy_type(std::string_view name) noexcept {
  return find_row([name](const Row& r) { return r.numpy != nullptr && name == r.numpy; });
}

const char* numpy_name(ElementType type) noexcept { return row(type).numpy; }

std::optional<std::uint64_t> checked_bits(ElementType type, std::span<const std::int64_t> shape) noexcept {
  std::uint64_t bits = bits_of(type);
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : bits;
}

bool is_float(ElementType type) noexcept { return type == ElementType::f64 || dtype_of(type).has_value(); }

std::vector<double> numbers_of(ElementType type, std::span<const std::byte> data) {
  if (type == ElementType::f16) return values_of<std::uint16_t>(data, half_value);
  if (type == ElementType::bf16) return values_of<std::uint16_t>(data, brain_value);
  if (type == ElementType::f64) return values_of<double>(data, [](double value) { return value; });
  return values_of<float>(data, [](float value) { return value; });
}

void check_whole(const char* operation, const Tensor& tensor) {
  const std::string where = "[" + std::string(operation) + "] tensor " + in_quotes(tensor.name) + ": ";
  if (tensor.shape.size() > most_dimensions) {
    throw Error(Code::SHAPE, where + "at most " + std::to_string(most_dimensions) + " dimensions but got " +
                             std::to_string(tensor.shape.size()));
  }
  const std::optional<std::uint64_t> bits = checked_bits(tensor.type, tensor.shape);
  if (!bits) throw Error(Code::SHAPE, where + "sizes must not be negative and their product must fit 64 bits");
  if (*bits % 8 != 0) {
    throw Error(Code::SHAPE, where + name(tensor.type) + " elements must fill whole bytes but got " +
                             std::to_string(*bits) + " bits");
  }
  if (*bits / 8 != tensor.data.size()) {
    throw Error(Code::SHAPE, where + "its shape takes " + std::to_string(*bits / 8) + " bytes but its data has " +
                             std::to_string(tensor.data.size()));
  }
}

}  // namespace files
}  // namespace rotary
