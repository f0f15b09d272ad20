// Scalar, slow and obvious. Values of f16 and bf16 are taken apart and put together by their definition.
#include "rotary/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "checks.h"
#include "runtime/float_state.h"
#include "values/dtypes.h"

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
  const detail::StorageType& type = detail::storage_type(dtype);
  return nearest(x, type.digits, type.lowest, type.largest);
}

float decode_f16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31 && fraction != 0) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 31) return sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

// x is a value of f16.
std::uint16_t encode_f16(float x) {
  const unsigned sign = std::signbit(x) ? 0x8000 : 0;
  const float magnitude = std::abs(x);
  unsigned rest;
  if (std::isnan(x)) {
    rest = 0x7e00;
  } else if (std::isinf(x)) {
    rest = 0x7c00;
  } else if (magnitude < 0x1p-14f) {
    rest = static_cast<unsigned>(std::ldexp(magnitude, 24));
  } else {
    const int exponent = std::ilogb(magnitude);
    const auto fraction = static_cast<unsigned>(std::ldexp(magnitude, 10 - exponent)) - 1024;
    rest = static_cast<unsigned>(exponent + 15) * 1024 + fraction;
  }
  return static_cast<std::uint16_t>(sign | rest);
}

float read(const void* data, DType dtype, std::int64_t index) {
  if (dtype == DType::f32) return static_cast<const float*>(data)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[index];
  if (dtype == DType::f16) return decode_f16(bits);
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float x;
  std::memcpy(&x, &wide, sizeof x);
  return x;
}

void write(void* data, DType dtype, std::int64_t index, float x) {
  const float rounded = nearest(x, dtype);
  if (dtype == DType::f32) {
    static_cast<float*>(data)[index] = rounded;
  } else if (dtype == DType::f16) {
    static_cast<std::uint16_t*>(data)[index] = encode_f16(rounded);
  } else {
    std::uint32_t wide;
    std::memcpy(&wide, &rounded, sizeof wide);
    static_cast<std::uint16_t*>(data)[index] = std::isnan(x) ? 0x7fc0 : static_cast<std::uint16_t>(wide >> 16);
  }
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
__attribute__((noinline)) void rotate_all(const ConstHeads& x, const Heads& out, const Table& table, bool backward,
                                        Arithmetic arithmetic) {
  const Layout& from = x.layout;
  const Layout& to = out.layout;
  const std::size_t size = size_of(x.dtype);
  for (std::int64_t b = 0; b < from.batch; ++b) {
    for (std::int64_t t = 0; t < from.tokens; ++t) {
      const std::int64_t row = ((table.batch() == 1 ? 0 : b) * table.tokens() + t) * table.pairs();
      for (std::int64_t h = 0; h < from.heads; ++h) {
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
  check_rotate("reference::rotate", x, out, table, direction);
  if (arithmetic > Arithmetic::each_step) {
    throw Error(Code::VALUE, "[reference::rotate] arithmetic must be f32 or each_step but got value " +
                                 std::to_string(static_cast<int>(arithmetic)));
  }
  const FloatState ours;
  rotate_all(x, out, table, direction == Direction::backward, arithmetic);
}

}  // namespace rotary::reference
