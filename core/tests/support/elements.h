// Layouts, elements and tables of random and hard values, and the targets of this machine. Without GoogleTest: the fuzz
// targets use them too.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/rotary.h"
#include "rotary/targets.h"
#include "values/dtypes.h"

namespace rotary::tests {

using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

inline constexpr auto dtypes = [] {
  std::array<DType, detail::storage_count> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = detail::storage_types[i].value;
  return all;
}();
inline constexpr std::array directions{Direction::forward, Direction::backward};
inline constexpr std::array pairings{Pairing::half, Pairing::interleaved, Pairing::interleaved_to_half};

inline int below(Random& random, int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }

inline std::int64_t extent(const Layout& l) {
  if (l.batch == 0 || l.tokens == 0 || l.heads == 0) return 0;
  return (l.batch - 1) * l.batch_stride + (l.tokens - 1) * l.token_stride + (l.heads - 1) * l.head_stride + l.head_dim;
}
// 0: bthd, 1: bhtd, 2: tbhd.
inline Layout layout_of(int named, std::int64_t batch, std::int64_t tokens, std::int64_t heads, int head_dim) {
  if (named == 0) return bthd(batch, tokens, heads, head_dim);
  return named == 1 ? bhtd(batch, heads, tokens, head_dim) : tbhd(tokens, batch, heads, head_dim);
}
// A layout of these sizes. Its dimensions are nested in a random order, with gaps of 0 to 3 times `gap` elements.
// may_broadcast: some strides are 0, which only an input may have.
inline Layout nested_layout(Random& random, const Layout& sizes, bool may_broadcast, int gap = 1) {
  Layout l = sizes;
  std::array order{0, 1, 2};
  std::shuffle(order.begin(), order.end(), random);
  std::int64_t reach = l.head_dim;
  for (const int k : order) {
    const std::int64_t count = k == 0 ? l.batch : k == 1 ? l.tokens : l.heads;
    std::int64_t& stride = k == 0 ? l.batch_stride : k == 1 ? l.token_stride : l.head_stride;
    stride = reach + gap * below(random, 4);
    if (may_broadcast && below(random, 6) == 0) stride = 0;
    if (count > 0) reach += (count - 1) * stride;
  }
  return l;
}

// Dimensions nested in a random order, with random gaps, or one of the layouts that have a name.
inline Layout random_layout(Random& random, std::int64_t batch, std::int64_t tokens, std::int64_t heads, int head_dim,
                            bool may_broadcast = false) {
  switch (below(random, 8)) {
    case 0:
    case 1:
      return bthd(batch, tokens, heads, head_dim);
    case 2:
      return bhtd(batch, heads, tokens, head_dim);
    case 3:
      return tbhd(tokens, batch, heads, head_dim);
    case 4: {  // a slice of packed heads, behind which others lie
      const std::int64_t token = (heads + 1 + below(random, 3)) * head_dim;
      return {batch, tokens, heads, head_dim, tokens * token, token, head_dim};
    }
    default:
      break;
  }
  const int step = std::array{1, 2, 4, 8, 16}[random() % 5];  // some keep the alignment, some do not
  return nested_layout(random, {batch, tokens, heads, head_dim, 0, 0, 0}, may_broadcast, step);
}

inline std::size_t bytes_of(const Layout& l, DType dtype) {
  return static_cast<std::size_t>(extent(l)) * size_of(dtype);
}

// Copies the elements of heads of one shape from one layout to another.
inline void copy_heads(const ConstHeads& from, const Heads& to) {
  const auto size = static_cast<std::int64_t>(size_of(from.dtype));
  const auto at = [](const Layout& l, std::int64_t head) {
    return head / l.heads / l.tokens * l.batch_stride + head / l.heads % l.tokens * l.token_stride +
           head % l.heads * l.head_stride;
  };
  for (std::int64_t i = 0; i < from.layout.batch * from.layout.tokens * from.layout.heads; ++i)
    std::memcpy(static_cast<std::byte*>(to.data) + at(to.layout, i) * size,
                static_cast<const std::byte*>(from.data) + at(from.layout, i) * size,
                static_cast<std::size_t>(from.layout.head_dim * size));
}

// The bytes of memory that must not be written; the byte depends on its place.
inline std::byte pattern(std::size_t at) { return static_cast<std::byte>(0xa5 ^ (at * 37) ^ (at >> 8)); }
inline Bytes patterned(std::size_t bytes) {
  Bytes memory(bytes);
  for (std::size_t i = 0; i < bytes; ++i) memory[i] = pattern(i);
  return memory;
}

// ---- elements as bits ----

inline std::uint32_t bits_at(const void* data, DType dtype, std::int64_t i) {
  if (dtype == DType::f32) return static_cast<const std::uint32_t*>(data)[i];
  return static_cast<const std::uint16_t*>(data)[i];
}
inline void set_bits(void* data, DType dtype, std::int64_t i, std::uint32_t bits) {
  if (dtype == DType::f32) {
    static_cast<std::uint32_t*>(data)[i] = bits;
  } else {
    static_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(bits);
  }
}

struct Format {
  int fraction;
  std::uint32_t infinity;
  std::uint32_t sign;
};
inline Format format(DType dtype) {
  const detail::StorageType& type = detail::storage_type(dtype);
  const std::uint32_t sign = 1u << (8 * type.bytes - 1);
  return {type.digits - 1, sign - (1u << (type.digits - 1)), sign};
}
inline bool is_nan(std::uint32_t bits, DType dtype) { return (bits & ~format(dtype).sign) > format(dtype).infinity; }
inline std::uint32_t signalling_nan(DType dtype) { return format(dtype).infinity | 5; }

inline void fill_signalling(void* data, DType dtype, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) set_bits(data, dtype, i, signalling_nan(dtype));
}

// A value of ordinary magnitude; one in sixteen is zero, subnormal, the largest, infinite, NaN or any bits at all.
inline std::uint32_t hard_value(Random& random, DType dtype) {
  const Format f = format(dtype);
  const auto any = static_cast<std::uint32_t>(random() >> 20);
  const std::uint32_t sign = (any & 1) != 0 ? f.sign : 0;
  const std::uint32_t fraction = (any >> 1) & ((1u << f.fraction) - 1);
  const std::uint32_t one = ((f.infinity >> f.fraction) - 1) / 2;
  switch (random() % 96) {
    case 0:
      return sign;
    case 1:
      return sign | fraction;
    case 2:
      return sign | (f.infinity - 1);
    case 3:
      return sign | f.infinity;
    case 4:
      return sign | f.infinity | fraction;
    case 5:
      return any & (f.sign | (f.sign - 1));
    default:
      return sign | (one - 4 + static_cast<std::uint32_t>(random() % 6)) << f.fraction | fraction;
  }
}

inline Bytes hard_values(Random& random, DType dtype, std::int64_t count) {
  Bytes data(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i) set_bits(data.data(), dtype, i, hard_value(random, dtype));
  return data;
}

// The elements of a buffer that rotate.
inline std::vector<bool> rotated_elements(const Layout& l, int rotary_dim) {
  std::vector<bool> rotated(static_cast<std::size_t>(extent(l)));
  for (std::int64_t b = 0; b < l.batch; ++b) {
    for (std::int64_t t = 0; t < l.tokens; ++t) {
      for (std::int64_t h = 0; h < l.heads; ++h) {
        const std::int64_t at = b * l.batch_stride + t * l.token_stride + h * l.head_stride;
        for (int d = 0; d < rotary_dim; ++d) rotated[static_cast<std::size_t>(at + d)] = true;
      }
    }
  }
  return rotated;
}

// The first element whose bits differ, "" without one; among the rotated elements any NaN equals any other.
inline std::string first_difference(const void* got, const void* wanted, DType dtype, std::int64_t count,
                                    const std::vector<bool>& rotated) {
  if (count == 0 || std::memcmp(got, wanted, static_cast<std::size_t>(count) * size_of(dtype)) == 0) return "";
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t g = bits_at(got, dtype, i), w = bits_at(wanted, dtype, i);
    const bool rotates = rotated[static_cast<std::size_t>(i)];
    if (g == w || (rotates && is_nan(g, dtype) && is_nan(w, dtype))) continue;
    std::ostringstream text;
    text << (rotates ? "rotated" : "still") << " element " << i << " is " << std::hex << g << " instead of " << w;
    return text.str();
  }
  return "";
}

// ---- tables ----

// Cosines and sines of random angles, with an attention factor; some entries are 0, 1, subnormal, or NaNs that rounding
// to bf16 without a test would turn into a number.
inline Table random_table(Random& random, std::int64_t tokens, int pairs, Pairing pairing, int batch = 1) {
  const auto count = static_cast<std::size_t>(tokens * pairs * batch);
  std::vector<float> cos(count), sin(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto angle = static_cast<float>(random() % 100000) * 1e-4f;
    cos[i] = 1.1f * std::cos(angle);
    sin[i] = 1.1f * std::sin(angle);
    if (random() % 32 == 0) sin[i] = -1e-41f;
    if (random() % 32 == 0) cos[i] = 0;
    if (random() % 32 == 0) cos[i] = 1, sin[i] = 0;
    if (random() % 64 == 0) std::memset(&cos[i], 0xff, sizeof(float));
    if (random() % 128 == 0) sin[i] = std::bit_cast<float>(0x7fffffffu);
  }
  return Table(cos, sin, pairs, pairing, batch);
}
// A random table with rows for `rows` heads.
inline Table random_table_by_head(Random& random, std::int64_t tokens, int pairs, Pairing pairing, int batch,
                                  std::int64_t rows) {
  const Table table = random_table(random, tokens * rows, pairs, pairing, batch);
  return Table(table.cos(), table.sin(), pairs, pairing, batch, static_cast<int>(rows));
}
// A random table; one in three has rows per head, for all of these heads or for half of them.
inline Table random_table_of_heads(Random& random, std::int64_t tokens, int pairs, Pairing pairing, int batch,
                                   std::int64_t heads) {
  std::int64_t rows = 1;
  if (random() % 3 == 0) {
    rows = heads;
    if (heads % 2 == 0 && random() % 2 == 0) rows /= 2;
  }
  return random_table_by_head(random, tokens, pairs, pairing, batch, rows);
}

// ---- targets ----

inline std::vector<std::string_view> running_targets() {
  std::vector<std::string_view> names;
  for (const Target& target : targets()) {
    if (target.runs) names.push_back(target.name);
  }
  return names;
}

// Selects a target for the lifetime of the object.
class Using {
 public:
  explicit Using(std::string_view name) : before_(chosen_target()) { use_target(name); }
  ~Using() { use_target(before_); }
  Using(const Using&) = delete;
  Using& operator=(const Using&) = delete;

 private:
  std::string_view before_;
};

}  // namespace rotary::tests
