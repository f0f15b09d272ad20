// Forces the ways in which kernels walk memory, which otherwise depend on the size of a call, and compares rotations in
// each of these ways with the reference.
#pragma once

#include <cstdint>

#include "core/tests/support/guarded.h"
#include "core/tests/support/heads.h"
#include "cpu/tuning.h"
#include "rotary/reference.h"

namespace rotary::tests {

struct Walk {
  std::int64_t memory_from, copy_memory_from, first_cache, fetched_ahead;
  int runs_in_place;
};
// From the first-level cache, from the last one, and from memory, tuned as on AMD and as on Intel.
inline constexpr Walk walks[] = {
    {INT64_MAX, INT64_MAX, INT64_MAX, 0, 2}, {INT64_MAX, 0, 0, 0, 2}, {0, 0, 0, 0, 2}, {0, 0, 0, 1024, 4}};

class Walking {
 public:
  explicit Walking(std::int64_t table_bytes) { detail::tuning().table_bytes = table_bytes; }
  explicit Walking(const Walk& walk) {
    detail::Tuning& tuning = detail::tuning();
    tuning.memory_from = tuning.half_memory_from = walk.memory_from;
    tuning.copy_memory_from = walk.copy_memory_from;
    tuning.heads_of_part = 3;
    tuning.first_cache = walk.first_cache;
    tuning.fetched_ahead = walk.fetched_ahead;
    tuning.runs_in_place = walk.runs_in_place;
  }
  ~Walking() { detail::tuning() = before_; }
  Walking(const Walking&) = delete;
  Walking& operator=(const Walking&) = delete;

 private:
  const detail::Tuning before_ = detail::tuning();
};

// Memory between guard pages for one case after the other, at its beginning or at its end.
class Arena {
 public:
  explicit Arena(std::size_t bytes) : in_(bytes), out_(bytes) {}

  // Draws the elements of a case and has the reference rotate them.
  void draw(const Layout& layout, DType dtype, const Table& table, Direction direction, Random& random) {
    layout_ = layout;
    dtype_ = dtype;
    x_ = hard_values(random, dtype, extent(layout));
    turns_ = rotated_elements(layout, table.rotary_dim());
    wanted_.resize(x_.size());
    fill_signalling(wanted_.data(), dtype, extent(layout));
    reference::rotate({x_.data(), dtype, layout}, {wanted_.data(), dtype, layout}, table, direction);
    in_place_ = x_;
    for (std::int64_t i = 0; i < extent(layout); ++i) {
      if (turns_[static_cast<std::size_t>(i)]) set_bits(in_place_.data(), dtype, i, bits_at(wanted_.data(), dtype, i));
    }
  }

  // Expects the reference's bits of rotate(in, out, stores): out of place, past the caches and in place.
  template <class Rotate>
  void check(const Rotate& rotate) const {
    const std::int64_t count = extent(layout_);
    for (const Walk& walk : walks) {
      const Walking walking(walk);
      const bool end = walk.memory_from == 0;
      std::byte* const in = end ? in_.at_end(x_.size()) : in_.at_start() + size_of(dtype_);
      std::byte* const out = end ? out_.at_end(x_.size()) : out_.at_start();
      std::memcpy(in, x_.data(), x_.size());
      for (const Stores stores : {Stores::cached, Stores::streaming}) {
        fill_signalling(out, dtype_, count);
        rotate(ConstHeads(in, dtype_, layout_), Heads{out, dtype_, layout_}, stores);
        ASSERT_TRUE(same(out, wanted_.data(), dtype_, count, turns_))
            << (stores == Stores::cached ? "out of place" : "past the caches");
      }
      ASSERT_EQ(std::memcmp(in, x_.data(), x_.size()), 0) << "the input has changed";
      rotate(ConstHeads(in, dtype_, layout_), Heads{in, dtype_, layout_}, Stores::automatic);
      ASSERT_TRUE(same(in, in_place_.data(), dtype_, count, turns_)) << "in place";
    }
  }

 private:
  Guarded in_, out_;
  Layout layout_;
  DType dtype_ = DType::f32;
  Bytes x_, wanted_, in_place_;
  std::vector<bool> turns_;
};

}  // namespace rotary::tests
