// q and k in one memory, for the tests of calls that rotate both.
#pragma once

#include "core/tests/support/heads.h"

namespace rotary::tests {

// Heads somewhere in a memory that q, k and others share.
struct OffsetHeads {
  std::int64_t at = 0;  // in bytes
  DType dtype = DType::f32;
  Layout layout;

  ConstHeads in(const std::byte* memory) const { return {memory + at, dtype, layout}; }
  Heads in(std::byte* memory) const { return {memory + at, dtype, layout}; }
  std::int64_t end() const { return at + static_cast<std::int64_t>(bytes_of(layout, dtype)); }
};

// q and k at their offsets in one memory.
struct QkMemory {
  std::string name;
  OffsetHeads q;
  OffsetHeads k;
  std::int64_t bytes() const { return std::max(q.end(), k.end()); }
};

// One tensor: heads of q, of k, and as many of v.
inline QkMemory packed_memory(int layout, std::int64_t batch, std::int64_t tokens, std::int64_t q_heads,
                              std::int64_t k_heads, int head_dim, DType dtype) {
  const Layout all = layout_of(layout, batch, tokens, q_heads + 2 * k_heads, head_dim);
  QkMemory memory{"packed, layout " + std::to_string(layout), {0, dtype, all}, {0, dtype, all}};
  memory.q.layout.heads = q_heads;
  memory.k.layout.heads = k_heads;
  memory.k.at = q_heads * all.head_stride * static_cast<std::int64_t>(size_of(dtype));
  return memory;
}

inline Bytes filled(Random& random, const QkMemory& heads) {
  Bytes memory(static_cast<std::size_t>(heads.bytes()), static_cast<std::byte>(random() % 256));
  for (const OffsetHeads& p : {heads.q, heads.k}) {
    const Bytes values = hard_values(random, p.dtype, extent(p.layout));
    std::copy(values.begin(), values.end(), memory.begin() + p.at);
  }
  return memory;
}

// Replaces every NaN among the rotated elements by one NaN, because its payload differs from machine to machine.
inline void level_nans(std::byte* memory, const OffsetHeads& p, int rotary_dim) {
  const std::vector<bool> turns = rotated_elements(p.layout, rotary_dim);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (turns[i] && is_nan(bits_at(memory + p.at, p.dtype, at), p.dtype)) {
      set_bits(memory + p.at, p.dtype, at, signalling_nan(p.dtype));
    }
  }
}

}  // namespace rotary::tests
