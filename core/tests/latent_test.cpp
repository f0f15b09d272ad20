// The latent cache of multi-head latent attention: rows [latent, rotated key] of the shapes of three models, against
// the formula in double; the same rows shifted; and calls that are refused. In C: c_test.cpp.
#include <gtest/gtest.h>

#include <cmath>

#include "core/tests/support/caches.h"
#include "core/tests/support/checks.h"

namespace rotary::tests {
namespace {

struct Model {
  const char* name;
  int heads, nope, latent, rope;  // per head of q: nope elements, then rope
  double base;
  Pairing pairing;
};
// files/tests/golden/configs: deepseek-v3, kimi-k2 and minicpm3-4b, without their scalings.
const Model models[] = {{"DeepSeek-V3", 128, 128, 512, 64, 10000, Pairing::interleaved},
                        {"Kimi-K2", 64, 128, 512, 64, 50000, Pairing::interleaved},
                        {"MiniCPM3", 40, 64, 256, 32, 10000, Pairing::half}};

constexpr std::int64_t tokens = 5, pages = 3, page_size = 4, first_position = 1000;

// A call with slots in two pages, the pages in no order; the fourth token is padding.
struct LatentCall {
  explicit LatentCall(const Model& m, DType type = DType::f32)
      : model(m),
        dtype(type),
        f(frequencies({.head_dim = m.rope, .base = m.base, .pairing = m.pairing})),
        table(f, positions(first_position, tokens)) {
    Random random(31);
    q = values(random, m.heads * (m.nope + m.rope));
    k = values(random, m.rope);
    latent = values(random, m.latent);
  }
  Bytes values(Random& random, std::int64_t each) const {
    Bytes x(static_cast<std::size_t>(tokens * each) * size_of(dtype));
    for (std::int64_t i = 0; i < tokens * each; ++i)
      set_bits(x.data(), dtype, i, oracle::narrow(static_cast<float>(below(random, 2001) - 1000) / 500, dtype));
    return x;
  }
  int width() const { return model.latent + model.rope; }
  Heads view(Bytes& x, std::int64_t heads, int head_dim) const {
    return {x.data(), dtype, thd(tokens, heads, head_dim)};
  }
  Cache rows(Bytes& memory, CacheType type) const {
    memory.assign(static_cast<std::size_t>(pages * page_size * width()) * oracle::bytes_in(type, dtype), std::byte{0});
    Cache cache = latent_rows(memory.data(), pages, page_size, model.latent, model.rope, type);
    cache.k_scale = 0.25F, cache.v_scale = 0.5F;
    return cache;
  }
  // Element d of the block of a token's head, at `first` of x, rotated by the formula.
  double turned(const Bytes& x, std::int64_t head, std::int64_t first, std::int64_t token, int d) const {
    const int n = model.rope / 2, i = model.pairing == Pairing::half ? d % n : d / 2;
    const bool second = model.pairing == Pairing::half ? d >= n : d % 2 == 1;
    const std::int64_t at_a = head + first + (model.pairing == Pairing::half ? i : 2 * i);
    const std::int64_t at_b = at_a + (model.pairing == Pairing::half ? n : 1);
    const double angle = static_cast<double>(first_position + token) * std::pow(model.base, -2.0 * i / model.rope);
    const auto a = double{oracle::at({x.data(), dtype, {}}, at_a)}, b = double{oracle::at({x.data(), dtype, {}}, at_b)};
    return second ? b * std::cos(angle) + a * std::sin(angle) : a * std::cos(angle) - b * std::sin(angle);
  }

  Model model;
  DType dtype;
  Frequencies f;
  Table table;
  Bytes q, k, latent;
  const std::vector<std::int64_t> slots{9, 10, 11, -1, 2};
};

double tolerance(DType dtype) { return dtype == DType::f32 ? 4e-7 : 0x1p-8; }

TEST(LatentRows, AreTheFormulaInDouble) {
  for (const Model& model : models) {
    for (const auto& [dtype, type] : {std::pair{DType::f32, CacheType::same},
                                      {DType::bf16, CacheType::same},
                                      {DType::f32, CacheType::bf16},
                                      {DType::bf16, CacheType::f8_e4m3}}) {
      SCOPED_TRACE(std::string(model.name) + ", " + name(dtype) + " to " + name(type));
      LatentCall call(model, dtype);
      const Bytes q_before = call.q;
      Bytes memory;
      rotate_append(call.view(call.q, model.heads, model.nope + model.rope), call.view(call.k, 1, model.rope),
                    call.view(call.latent, 1, model.latent), call.table, call.rows(memory, type),
                    Slots::flat(call.slots.data()), {.first = model.nope});
      const std::int64_t q_width = model.nope + model.rope;
      for (std::int64_t i = 0; i < tokens * model.heads * q_width; ++i) {
        const std::int64_t head = i / q_width * q_width, d = i - head, token = head / (model.heads * q_width);
        const float got = oracle::at({call.q.data(), dtype, {}}, i);
        if (d < model.nope) {
          ASSERT_EQ(got, oracle::at({q_before.data(), dtype, {}}, i));
        } else {
          const double wanted = call.turned(q_before, head, model.nope, token, static_cast<int>(d - model.nope));
          ASSERT_NEAR(got, wanted, std::abs(wanted) * tolerance(dtype) + 1e-6) << "q " << i;
        }
      }
      const bool f8 = type == CacheType::f8_e4m3;
      const DType in_cache = oracle::type_in(type, dtype).value_or(dtype);
      const double relative = f8 ? 0x1p-3 : tolerance(in_cache);
      const auto stored = [&](std::int64_t at, double scale) {
        if (!f8) return double{oracle::at({memory.data(), in_cache, {}}, at)};
        const auto code = static_cast<unsigned>(memory[static_cast<std::size_t>(at)]);
        return oracle::values_of_e4m3()[code & 0x7f] * ((code & 0x80) != 0 ? -scale : scale);
      };
      for (std::int64_t t = 0; t < tokens; ++t) {
        if (call.slots[static_cast<std::size_t>(t)] < 0) continue;
        const std::int64_t row = call.slots[static_cast<std::size_t>(t)] * call.width();
        for (int d = 0; d < model.latent; ++d) {
          const double wanted = oracle::at({call.latent.data(), dtype, {}}, t * model.latent + d);
          EXPECT_NEAR(stored(row + d, 0.5), wanted, std::abs(wanted) * relative + (f8 ? 1e-3 : 0)) << "latent " << d;
        }
        for (int d = 0; d < model.rope; ++d) {
          const double wanted = call.turned(call.k, t * model.rope, 0, t, d);
          EXPECT_NEAR(stored(row + model.latent + d, 0.25), wanted, std::abs(wanted) * relative + (f8 ? 1e-3 : 1e-6))
              << "key " << d;
        }
      }
      for (std::int64_t i = 0; i < call.width(); ++i) ASSERT_EQ(stored(3 * call.width() + i, 1), 0) << "no slot";
    }
  }
}

// One row for both has the bits of two caches, whatever the slots, the threads and the place of q's result.
TEST(LatentRows, AreTwoCachesSideBySide) {
  const std::vector<std::int32_t> indptr{0, 2}, indices{2, 0}, sequence{0, 0, -1, 0, 0}, place{1, 2, 3, 6, 7};
  const std::vector<std::int64_t> flat{9, 10, 11, -1, 2};
  const Slots several[] = {Slots::flat(flat.data()),
                           Slots::paged(indptr.data(), indices.data(), sequence.data(), place.data(), 1)};
  const ThreadPool pool(2);
  for (const Model& model : models) {
    for (const CacheType type : cache_types) {
      for (const Slots& slots : several) {
        LatentCall call(model);
        Bytes memory, keys, values, q_out(call.q.size());
        const Cache rows = call.rows(memory, type);
        const std::size_t each = oracle::bytes_in(type, DType::f32), slot_count = pages * page_size;
        keys.resize(slot_count * static_cast<std::size_t>(model.rope) * each);
        values.resize(slot_count * static_cast<std::size_t>(model.latent) * each);
        Cache apart = nhd(keys.data(), values.data(), pages, page_size, 1, model.rope, type, model.latent);
        apart.k_scale = rows.k_scale, apart.v_scale = rows.v_scale;
        const int q_width = model.nope + model.rope;
        const Heads k = call.view(call.k, 1, model.rope), latent = call.view(call.latent, 1, model.latent);
        rotate_append(ConstHeads(call.view(call.q, model.heads, q_width)), call.view(q_out, model.heads, q_width), k,
                      latent, call.table, rows, slots, {.first = model.nope, .executor = &pool});
        rotate_append(call.view(call.q, model.heads, q_width), k, latent, call.table, apart, slots,
                      {.first = model.nope});
        EXPECT_EQ(q_out, call.q);
        for (std::size_t slot = 0; slot < slot_count; ++slot) {
          const std::size_t v_bytes = static_cast<std::size_t>(model.latent) * each;
          const std::size_t k_bytes = static_cast<std::size_t>(model.rope) * each;
          const std::byte* const row = memory.data() + slot * (v_bytes + k_bytes);
          EXPECT_EQ(std::memcmp(row, values.data() + slot * v_bytes, v_bytes), 0) << slot;
          EXPECT_EQ(std::memcmp(row + v_bytes, keys.data() + slot * k_bytes, k_bytes), 0) << slot;
        }
      }
    }
  }
}

// shift takes the rows as k, or the cache: the rows of tokens appended at positions 1 less, one slot down. The key
// alone turns.
TEST(LatentRows, Shift) {
  LatentCall call(models[0]);
  Bytes memory, wanted, none;
  const auto append_from = [&](Bytes& to, std::int64_t slot, std::int64_t position) {
    std::vector<std::int64_t> slots(tokens);
    std::iota(slots.begin(), slots.end(), slot);
    rotate_append(call.view(none, 0, 64), call.view(call.k, 1, 64), call.view(call.latent, 1, 512),
                  Table(call.f, positions(position, tokens)), call.rows(to, CacheType::same),
                  Slots::flat(slots.data()));
  };
  append_from(wanted, -1, first_position - 1);
  for (const int first : {0, 512}) {
    append_from(memory, 0, first_position);
    shift({memory.data(), DType::f32, bthd(1, pages * page_size, 1, 576)}, {}, between(call.f, 1, call.f, 0), 0, 1,
          {.first = first});
    float furthest = 0;
    for (std::int64_t i = 0; i < 4 * 576; ++i)
      furthest = std::max(furthest, std::fabs(oracle::at({memory.data(), DType::f32, {}}, i) -
                                              oracle::at({wanted.data(), DType::f32, {}}, i)));
    EXPECT_EQ(furthest <= 1e-6F, first == 512) << furthest;
  }
  Bytes again;
  append_from(again, 0, first_position);
  const std::vector<std::int32_t> indptr{0, 3}, indices{0, 1, 2}, lengths{12};
  const Cache cache = latent_rows(again.data(), pages, page_size, 512, 64);
  shift(cache, DType::f32, between(call.f, 1, call.f, 0), 0, 1,
        Sequences::paged(indptr.data(), indices.data(), lengths.data(), 1));
  EXPECT_EQ(again, memory);
  const Cache f8 = latent_rows(again.data(), 1, 4, 512, 64, CacheType::f8_e4m3);
  EXPECT_THROW(shift(f8, DType::f32, between(call.f, 1, call.f, 0), 0, 1), Error);
}

TEST(LatentRows, RefuseWhatDoesNotFit) {
  LatentCall call(models[0]);
  Bytes memory;
  const Cache rows = call.rows(memory, CacheType::same);
  const Heads q = call.view(call.q, 128, 192), k = call.view(call.k, 1, 64), latent = call.view(call.latent, 1, 512);
  const auto refused = [&](const std::string& sentence, const Heads& keys, const Heads& values, int first) {
    expect_error("SHAPE", "[rotate_append] " + sentence, [&] {
      rotate_append(q, keys, values, call.table, rows, Slots::flat(call.slots.data()), {.first = first});
    });
  };
  Bytes wide(tokens * 192 * 4);
  refused(
      "with first 128, k must be the 64 rotated elements alone, which slice(k, first, 64) gives, but its head_dim is "
      "192",
      call.view(wide, 1, 192), latent, 128);
  refused(
      "v must have the shape of k with the cache's v_head_dim, [1, 5, 1, 512], or no elements, but got "
      "[1, 5, 1, 64]",
      k, k, 128);
  refused("first must be an element of the head, of head_dim 192, but got 193", k, latent, 193);
  refused(
      "first must be 128, where the last 64 of the 192 elements of q's heads begin, in a call with latent rows, but "
      "got 0",
      k, latent, 0);
  EXPECT_NO_THROW(rotate_append(slice(q, 128, 64), k, latent, call.table, rows, Slots::flat(call.slots.data())));
  expect_error("SHAPE", "[latent_rows] latent_dim and rope_dim must be at least 1 but got 512 and 0",
               [] { latent_rows(nullptr, 1, 16, 512, 0); });
  expect_error("SHAPE", "[latent_rows] sizes must not be negative but got -1",
               [] { latent_rows(nullptr, -1, 16, 512, 64); });
}

}  // namespace
}  // namespace rotary::tests
