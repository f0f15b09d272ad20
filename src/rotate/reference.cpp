// Scalar, slow and obvious. Values are taken apart and put together by the definition of their storage type.
#include "runtime/arithmetic.h"

#include "rotary/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "checks.h"
#include "runtime/compiler.h"
#include "runtime/float_state.h"
#include "values/dtypes.h"
#include "values/fail.h"

namespace rotary::reference {

using namespace detail;
namespace {

// ---- storage types, by definition ----

// The float nearest to x of those with `digits` significant bits and no bit below 2^lowest; ties to even.
float nearest(float x, int digits, int lowest, float largest) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int unit = std::max(std::ilogb(x) - (digits - 1), lowest);
  const double result = std::ldexp(std::nearbyint(std::ldexp(double{x}, -unit)), unit);
  const float infinity = std::numeric_limits<float>::infinity();
  return std::abs(result) > double{largest} ? std::copysign(infinity, x) : std::copysign(static_cast<float>(result), x);
}

float nearest(float x, DType dtype) {
  const StorageType& type = storage_type(dtype);
  return nearest(x, type.digits, type.lowest, type.largest);
}

// Sign, exponent, fraction. The exponents: 0 of zero and the subnormals, all ones of infinity and NaN.
struct Fields {
  explicit Fields(const StorageType& type)
      : fraction_bits(type.digits - 1), sign_bit(8 * type.bytes - 1), lowest(type.lowest) {}
  std::uint32_t sign() const { return std::uint32_t{1} << sign_bit; }
  std::uint32_t implied_one() const { return std::uint32_t{1} << fraction_bits; }
  std::uint32_t infinity() const { return sign() - implied_one(); }
  int smallest_normal() const { return lowest + fraction_bits; }  // its exponent of two
  int fraction_bits, sign_bit, lowest;
};

float decode(std::uint32_t bits, const StorageType& type) {
  const Fields is(type);
  const std::uint32_t magnitude = bits & (is.sign() - 1);
  const std::uint32_t fraction = magnitude & (is.implied_one() - 1);
  const int exponent = static_cast<int>(magnitude >> is.fraction_bits);
  float value;
  if (magnitude > is.infinity()) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (magnitude == is.infinity()) {
    value = std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), is.lowest);
  } else {
    value = std::ldexp(static_cast<float>(is.implied_one() + fraction), is.lowest + exponent - 1);
  }
  return (bits & is.sign()) != 0 ? -value : value;
}

// x is a value of the type.
std::uint32_t encode(float x, const StorageType& type) {
  const Fields is(type);
  const float magnitude = std::abs(x);
  std::uint32_t rest;
  if (std::isnan(x)) {
    rest = is.infinity() + is.implied_one() / 2;
  } else if (std::isinf(x)) {
    rest = is.infinity();
  } else if (magnitude < std::ldexp(1.0f, is.smallest_normal())) {
    rest = static_cast<std::uint32_t>(std::ldexp(double{magnitude}, -is.lowest));
  } else {
    const int exponent = std::ilogb(magnitude);
    const auto fraction = static_cast<std::uint32_t>(std::ldexp(magnitude, is.fraction_bits - exponent));
    rest = static_cast<std::uint32_t>(exponent - is.smallest_normal()) * is.implied_one() + fraction;
  }
  return (std::signbit(x) ? is.sign() : 0) | rest;
}

// The lowest `count` bytes of a word.
char* low_bytes(std::uint32_t& word, int count) {
  static_assert(std::endian::native == std::endian::little || std::endian::native == std::endian::big);
  return reinterpret_cast<char*>(&word) + (std::endian::native == std::endian::big ? 4 - count : 0);
}

float read(const void* data, DType dtype, std::int64_t index) {
  const StorageType& type = storage_type(dtype);
  std::uint32_t bits = 0;
  std::memcpy(low_bytes(bits, type.bytes), static_cast<const char*>(data) + index * type.bytes,
              static_cast<std::size_t>(type.bytes));
  return decode(bits, type);
}

void write(void* data, DType dtype, std::int64_t index, float x) {
  const StorageType& type = storage_type(dtype);
  std::uint32_t bits = encode(nearest(x, dtype), type);
  std::memcpy(static_cast<char*>(data) + index * type.bytes, low_bytes(bits, type.bytes),
              static_cast<std::size_t>(type.bytes));
}

// ---- the rotation ----

struct Pair {
  float a;
  float b;
};

Pair rotated(Pair x, float cos, float sin, DType dtype, Arithmetic arithmetic) {
  const auto step = [&](float value) { return arithmetic == Arithmetic::each_step ? nearest(value, dtype) : value; };
  const float c = step(cos);
  const float s = step(sin);
  return {step(step(x.a * c) - step(x.b * s)), step(step(x.b * c) + step(x.a * s))};
}

void rotate_head(const void* in, std::int64_t in_at, void* out, std::int64_t out_at, DType dtype, const float* cos,
                 const float* sin, const Table& table, bool backward, Arithmetic arithmetic) {
  const int pairs = table.pairs();
  const bool crosses = table.pairing() == Pairing::interleaved_to_half;
  const bool reads_half = table.pairing() == Pairing::half || (crosses && backward);
  const bool writes_half = table.pairing() == Pairing::half || (crosses && !backward);
  std::vector<Pair> results;
  for (int i = 0; i < pairs; ++i) {
    const Pair x = reads_half ? Pair{read(in, dtype, in_at + i), read(in, dtype, in_at + pairs + i)}
                              : Pair{read(in, dtype, in_at + 2 * i), read(in, dtype, in_at + 2 * i + 1)};
    results.push_back(rotated(x, cos[i], backward ? -sin[i] : sin[i], dtype, arithmetic));
  }
  for (int i = 0; i < pairs; ++i) {
    const Pair x = results[static_cast<std::size_t>(i)];
    write(out, dtype, out_at + (writes_half ? i : 2 * i), x.a);
    write(out, dtype, out_at + (writes_half ? pairs + i : 2 * i + 1), x.b);
  }
}

// Not inlined: the arithmetic must not move across the change of the floating-point state.
ROTARY_NOINLINE void rotate_all(const ConstHeads& x, const Heads& out, const Table& table, bool backward,
                                Arithmetic arithmetic) {
  const Layout& from = x.layout;
  const Layout& to = out.layout;
  const std::size_t size = size_of(x.dtype);
  for (std::int64_t b = 0; b < from.batch; ++b) {
    for (std::int64_t t = 0; t < from.tokens; ++t) {
      const std::int64_t token = (table.batch() == 1 ? 0 : b) * table.tokens() + t;
      for (std::int64_t h = 0; h < from.heads; ++h) {
        const std::int64_t row = (token * table.heads() + h / (from.heads / table.heads())) * table.pairs();
        const std::int64_t in_at = b * from.batch_stride + t * from.token_stride + h * from.head_stride;
        const std::int64_t out_at = b * to.batch_stride + t * to.token_stride + h * to.head_stride;
        rotate_head(x.data, in_at, out.data, out_at, x.dtype, table.cos().data() + row, table.sin().data() + row, table,
                    backward, arithmetic);
        for (int d = table.rotary_dim(); d < from.head_dim && x.data != out.data; ++d) {
          std::memcpy(static_cast<char*>(out.data) + static_cast<std::size_t>(out_at + d) * size,
                      static_cast<const char*>(x.data) + static_cast<std::size_t>(in_at + d) * size, size);
        }
      }
    }
  }
}

}  // namespace

void rotate(const ConstHeads& x, const Heads& out, const Table& table, Direction direction, Arithmetic arithmetic) {
  check_rotate("reference::rotate", {x, out}, table, direction);
  if (arithmetic > Arithmetic::each_step) {
    fail(Code::VALUE, "reference::rotate", "arithmetic must be f32 or each_step but got value ",
         static_cast<int>(arithmetic));
  }
  const FloatState ours;
  rotate_all(x, out, table, direction == Direction::backward, arithmetic);
}

}  // namespace rotary::reference
