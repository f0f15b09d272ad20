// The C interface against the C++ one, bit for bit; and what a call has that both share: first, and parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "core/tests/support/checks.h"
#include "core/tests/support/heads.h"
#include "core/tests/support/oracle.h"
#include "rotary/cache.h"
#include "rotary/query_scale.h"
#include "rotary/rotary_c.h"

namespace rotary::tests {
namespace {

const std::vector<double> short_factor{1, 1.5, 2, 3}, long_factor{2, 3, 5, 8}, learned{1, 0.5, -0.25, 0};

template <class Struct>
Struct initialised(void (*init)(Struct*, std::size_t)) {
  Struct s;
  init(&s, sizeof s);
  return s;
}

// The constant of C for an enumerator.
int constant_of(Pairing pairing) { return ROTARY_HALF - 1 + static_cast<int>(pairing); }
int constant_of(DType dtype) { return ROTARY_F32 + static_cast<int>(dtype); }
int constant_of(Direction direction) { return ROTARY_FORWARD + static_cast<int>(direction); }
int constant_of(CacheType type) { return ROTARY_CACHE_SAME + static_cast<int>(type); }

struct Handles {
  ~Handles() {
    rotary_table_free(table);
    rotary_frequencies_free(frequencies);
  }
  rotary_frequencies* frequencies = nullptr;
  rotary_table* table = nullptr;
};

void expect_ok(rotary_status status) { EXPECT_EQ(status, ROTARY_OK) << rotary_error(); }
void expect_refused(rotary_status status, rotary_status wanted, const std::string& part) {
  EXPECT_EQ(status, wanted) << rotary_status_name(status) << " " << rotary_error();
  EXPECT_NE(std::string(rotary_error()).find(part), std::string::npos) << rotary_error();
}

Handles handles_of(const rotary_rope& rope, std::int64_t tokens = 30) {
  Handles h;
  expect_ok(rotary_frequencies_make(&rope, 0, &h.frequencies));
  expect_ok(rotary_table_make(h.frequencies, tokens, &h.table));
  return h;
}
rotary_rope rope_of(int head_dim, int pairing = ROTARY_HALF) {
  auto rope = initialised(rotary_rope_init);
  rope.head_dim = head_dim, rope.pairing = pairing;
  return rope;
}
rotary_positions run_of(std::int64_t first, std::int64_t tokens) {
  auto at = initialised(rotary_positions_init);
  at.first = first, at.tokens = tokens;
  return at;
}
void assign(const Handles& h, const rotary_positions& at) {
  expect_ok(rotary_table_assign(h.table, h.frequencies, &at, ROTARY_EXACT, ROTARY_F32));
}

struct RopeCase {
  Rope rope;
  void (*set)(rotary_rope&);
};
const RopeCase rope_cases[] = {
    {{}, [](rotary_rope&) {}},
    {{.scaling = Linear{3}}, [](rotary_rope& r) { r.scaling = ROTARY_LINEAR, r.factor = 3; }},
    {{.scaling = Ntk{3}}, [](rotary_rope& r) { r.scaling = ROTARY_NTK, r.factor = 3; }},
    {{.scaling = NtkFixed{3, 0.5}},
     [](rotary_rope& r) { r.scaling = ROTARY_NTK_FIXED, r.factor = 3, r.mixed_b = 0.5; }},
    {{.scaling = Dynamic{2, 100}},
     [](rotary_rope& r) { r.scaling = ROTARY_DYNAMIC, r.factor = 2, r.trained_length = 100; }},
    {{.scaling = Yarn{4, 100}}, [](rotary_rope& r) { r.scaling = ROTARY_YARN, r.factor = 4, r.trained_length = 100; }},
    {{.scaling = Yarn{4, 100, 20, 2, false, {}, 0.7, 0.9, 0.07, true, 0.5, 1.5}},
     [](rotary_rope& r) {
       r.scaling = ROTARY_YARN, r.factor = 4, r.trained_length = 100, r.beta_fast = 20, r.beta_slow = 2, r.truncate = 0;
       r.mscale = 0.7, r.mscale_all_dim = 0.9, r.magnitude = 0.07, r.mscale_ratio = 1, r.extrapolation_factor = 0.5;
       r.attn_factor = 1.5;
     }},
    {{.scaling = LongRope{short_factor, long_factor, 100, 3, {}, 1.1, 1.2}},
     [](rotary_rope& r) {
       r.scaling = ROTARY_LONGROPE, r.factor = 3, r.trained_length = 100, r.short_factor = short_factor.data();
       r.long_factor = long_factor.data(), r.short_mscale = 1.1, r.long_mscale = 1.2;
     }},
    {{.scaling = Llama3{8, 100, 2, 5}},
     [](rotary_rope& r) { r.scaling = ROTARY_LLAMA3, r.factor = 8, r.trained_length = 100, r.low = 2, r.high = 5; }},
    {{.scaling = Proportional{0.5, 2}},
     [](rotary_rope& r) { r.scaling = ROTARY_PROPORTIONAL, r.fraction = 0.5, r.factor = 2; }},
    {{.scaling = YarnLog{4, 100, 20, 2, 0.5}},
     [](rotary_rope& r) {
       r.scaling = ROTARY_YARN_LOG, r.factor = 4, r.trained_length = 100, r.beta_fast = 20, r.beta_slow = 2;
       r.extrapolation_factor = 0.5;
     }},
    {{.scaling = ThetaScale{4, 100}},
     [](rotary_rope& r) { r.scaling = ROTARY_THETA_SCALE, r.factor = 4, r.trained_length = 100; }},
    {{.base = 500,
      .axis = {0, 1, 1, 0},
      .index = {0, 2, 1, 3},
      .exponent_dim = 6,
      .clockwise = true,
      .attention_factor = 0.75},
     [](rotary_rope& r) {
       static const std::uint8_t axis[] = {0, 1, 1, 0};
       static const std::int32_t index[] = {0, 2, 1, 3};
       r.base = 500, r.axis = axis, r.index = index, r.exponent_dim = 6, r.clockwise = 1, r.attention_factor = 0.75;
     }},
    {{.inv_freq = learned, .multiplier = short_factor},
     [](rotary_rope& r) { r.inv_freq = learned.data(), r.multiplier = short_factor.data(); }},
};

TEST(C, EveryScalingAndEveryFieldGivesTheBitsOfCpp) {
  for (const RopeCase& c : rope_cases) {
    for (const std::int64_t length : {std::int64_t{ROTARY_TRAINED_LENGTH}, std::int64_t{1000}}) {
      Rope rope = c.rope;
      rope.head_dim = 10, rope.rotary_dim = 8, rope.pairing = Pairing::interleaved;
      rotary_rope given = rope_of(10, ROTARY_INTERLEAVED);
      given.rotary_dim = 8;
      c.set(given);
      const Frequencies wanted = frequencies(rope, std::max<std::int64_t>(0, length));
      Handles h;
      const rotary_status unknown_length = rotary_frequencies_make(&given, 0, &h.frequencies);
      EXPECT_EQ(unknown_length, depends_on_length(rope.scaling) ? ROTARY_LENGTH : ROTARY_OK);
      rotary_frequencies_free(std::exchange(h.frequencies, nullptr));
      ASSERT_EQ(rotary_frequencies_make(&given, length, &h.frequencies), ROTARY_OK) << rotary_error();
      ASSERT_EQ(rotary_frequencies_pairs(h.frequencies), 4);
      EXPECT_EQ(rotary_frequencies_axes(h.frequencies), wanted.axes());
      EXPECT_EQ(rotary_frequencies_attention_factor(h.frequencies), wanted.attention_factor) << name(rope.scaling);
      const double* inv_freq = rotary_frequencies_inv_freq(h.frequencies);
      EXPECT_EQ(std::vector(inv_freq, inv_freq + 4), wanted.inv_freq) << name(rope.scaling);
      ASSERT_EQ(rotary_table_make(h.frequencies, 6, &h.table), ROTARY_OK) << rotary_error();
      const rotary_positions at = run_of(70000, 6);
      for (const int angles : {ROTARY_EXACT, ROTARY_FLOAT32}) {
        for (const int rounding : {ROTARY_F32, ROTARY_F16, ROTARY_BF16}) {
          const float* const memory = rotary_table_cos(h.table);
          expect_ok(rotary_table_assign(h.table, h.frequencies, &at, angles, rounding));
          EXPECT_EQ(rotary_table_cos(h.table), memory);
          const Table rows(wanted, positions(70000, 6),
                           {static_cast<Angles>(angles - ROTARY_EXACT), static_cast<Rounding>(rounding - ROTARY_F32)});
          EXPECT_TRUE(same_bits(rows.cos(), std::span(rotary_table_cos(h.table), 24)));
          EXPECT_TRUE(same_bits(rows.sin(), std::span(rotary_table_sin(h.table), 24)));
        }
      }
    }
  }
}

TEST(C, PositionsOfEveryTypeAndShape) {
  const Frequencies f = frequencies(Rope{.head_dim = 8, .pairing = Pairing::half, .axis = {0, 1, 1, 0}});
  rotary_rope rope = rope_of(8);
  const std::uint8_t axis[] = {0, 1, 1, 0};
  rope.axis = axis;
  const Handles h = handles_of(rope, 6);
  const std::vector<std::int32_t> narrow{3, -1, 70000, 5, 6, 7, 1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> wide(narrow.begin(), narrow.end());
  std::vector<double> real(narrow.begin(), narrow.end());
  real[0] = 0.25;
  const auto check = [&](std::int32_t type, const void* values, const Positions& wanted) {
    auto at = initialised(rotary_positions_init);
    at.type = type, at.values = values, at.tokens = 3, at.batch = 2, at.axes = 2;
    assign(h, at);
    EXPECT_EQ(rotary_table_tokens(h.table), 3);
    EXPECT_EQ(rotary_table_batch(h.table), 2);
    EXPECT_EQ(rotary_table_pairs(h.table), 4);
    EXPECT_TRUE(same_bits(Table(f, wanted).cos(), std::span(rotary_table_cos(h.table), 24)));
  };
  check(ROTARY_INT32, narrow.data(), Positions(narrow, 2, 2));
  check(ROTARY_INT64, wide.data(), Positions(wide, 2, 2));
  check(ROTARY_DOUBLE, real.data(), Positions(real, 2, 2));
}

rotary_heads view_of(void* data, DType dtype, const Layout& l, int first) {
  auto x = initialised(rotary_heads_init);
  x.data = data, x.dtype = constant_of(dtype), x.first = first;
  x.batch = l.batch, x.tokens = l.tokens, x.heads = l.heads, x.head_dim = l.head_dim;
  x.batch_stride = l.batch_stride, x.token_stride = l.token_stride, x.head_stride = l.head_stride;
  return x;
}

Bytes counted(DType dtype, const Layout& l) {
  Bytes x(bytes_of(l, dtype));
  for (std::int64_t i = 0; i < extent(l); ++i)
    set_bits(x.data(), dtype, i, oracle::narrow(static_cast<float>(i * 7 % 23 - 11) / 4, dtype));
  return x;
}

// q and k of one call by the slices of C++, with the elements before the block copied.
struct Calls : ::testing::TestWithParam<GridPoint> {
  static constexpr int head_dim = 13, first = 3;
  const Layout q_layout = bhtd(2, 3, 5, head_dim), k_layout = bthd(2, 5, 1, head_dim);
  DType dtype = std::get<0>(GetParam());
  Pairing pairing = std::get<1>(GetParam());
  Direction direction = std::get<2>(GetParam());
  Table rows{frequencies(Rope{.head_dim = 8, .pairing = pairing}), positions(1000, 5)};
  Bytes q = counted(dtype, q_layout), k = counted(dtype, k_layout);

  rotary_heads q_view(Bytes& x) const { return view_of(x.data(), dtype, q_layout, first); }
  rotary_heads k_view(Bytes& x) const { return view_of(x.data(), dtype, k_layout, first); }
  Bytes rotated(const Bytes& x, const Layout& l) const {
    Bytes y = x;
    rotate(slice(Heads{y.data(), dtype, l}, first, head_dim - first), rows, {.direction = direction});
    return y;
  }
};

TEST_P(Calls, InPlaceOutOfPlaceInPartsAndByAPoolGiveTheBitsOfCpp) {
  const Bytes wanted_q = rotated(q, q_layout), wanted_k = rotated(k, k_layout);
  const Handles h = handles_of(rope_of(8, constant_of(pairing)));
  assign(h, run_of(1000, 5));
  auto options = initialised(rotary_options_init);
  options.direction = constant_of(direction);
  rotary_pool* pool = nullptr;
  expect_ok(rotary_pool_make(3, &pool));
  for (const int parts : {1, 7}) {
    options.parts = parts;
    for (const bool in_place : {true, false}) {
      Bytes from_q = q, from_k = k, to_q(q.size()), to_k(k.size()), alone(q.size());
      const rotary_heads xq = q_view(from_q);
      const rotary_heads xk = k_view(from_k);
      const rotary_heads yq = q_view(to_q);
      const rotary_heads yk = k_view(to_k);
      const rotary_heads ya = q_view(alone);
      for (options.part = parts - 1; options.part >= 0; --options.part) {
        if (!in_place) expect_ok(rotary_rotate(&xq, &ya, h.table, &options));
        expect_ok(rotary_rotate_qk(&xq, in_place ? nullptr : &yq, &xk, in_place ? nullptr : &yk, h.table, &options));
      }
      EXPECT_EQ(in_place ? from_q : to_q, wanted_q);
      EXPECT_EQ(in_place ? from_k : to_k, wanted_k);
      EXPECT_EQ(in_place ? wanted_q : alone, wanted_q);
    }
  }
  options.part = 0, options.parts = 1, options.pool = pool;
  const rotary_heads x = q_view(q);
  expect_ok(rotary_rotate(&x, nullptr, h.table, &options));
  EXPECT_EQ(q, wanted_q);
  rotary_pool_free(pool);
}

TEST_P(Calls, QueriesTimesTheirFactorsAreThoseOfCpp) {
  std::vector<float> scale;
  for (int i = 0; i < 10; ++i) scale.push_back(1 + 0.3F * static_cast<float>(i));
  const Handles h = handles_of(rope_of(8, constant_of(pairing)));
  assign(h, run_of(1000, 5));
  auto options = initialised(rotary_options_init);
  options.direction = constant_of(direction), options.query_scale = scale.data();
  for (const std::size_t factors : {5U, 10U}) {
    options.query_scales = static_cast<std::int64_t>(factors);
    Bytes wanted_q = q, wanted_k = k, in_place = q, to_q(q.size()), to_k(k.size());
    rotate_qk(Heads{wanted_q.data(), dtype, q_layout}, Heads{wanted_k.data(), dtype, k_layout}, rows,
              {.direction = direction, .first = first}, std::span(scale).first(factors));
    EXPECT_NE(wanted_q, rotated(q, q_layout));
    const rotary_heads x = q_view(in_place), xk = k_view(k);
    const rotary_heads yq = q_view(to_q), yk = k_view(to_k);
    expect_ok(rotary_rotate_qk(&x, &yq, &xk, &yk, h.table, &options));
    expect_ok(rotary_rotate_qk(&x, nullptr, &xk, &yk, h.table, &options));
    EXPECT_EQ(to_q, wanted_q);
    EXPECT_EQ(to_k, wanted_k);
    EXPECT_EQ(in_place, wanted_q);
  }
  const rotary_heads x = q_view(q), y = k_view(k);
  const auto call = [&] { return rotary_rotate_qk(&x, nullptr, &y, nullptr, h.table, &options); };
  options.query_scales = 4;
  expect_refused(call(), ROTARY_SHAPE, "2 x 5, but got 4");
  options.query_scales = 0;
  expect_refused(call(), ROTARY_SHAPE, "query_scales must be at least 1");
  options.query_scales = 5;
  expect_refused(rotary_rotate(&x, nullptr, h.table, &options), ROTARY_VALUE, "must not have a query_scale");
  options.parts = 2;
  expect_refused(call(), ROTARY_VALUE, "both a query_scale and parts");
}

TEST_P(Calls, FirstIsASliceWhoseFrontIsCopied) {
  const Bytes wanted = rotated(q, q_layout);
  Bytes out(q.size());
  RotateOptions options{.direction = direction};
  options.first = first;
  rotate(ConstHeads(q.data(), dtype, q_layout), Heads{out.data(), dtype, q_layout}, rows, options);
  EXPECT_EQ(out, wanted);
  Bytes packed(q.size());
  rotate_qkv(ConstHeads(q.data(), dtype, q_layout), Heads{packed.data(), dtype, q_layout}, 0, rows, options);
  EXPECT_EQ(packed, wanted);
  // By a rope, whose block begins there too.
  Rope rope{.head_dim = head_dim, .rotary_dim = 8, .pairing = pairing};
  if (direction == Direction::forward) {
    Bytes of_q = q, of_k = k;
    rotate_qk(Heads{of_q.data(), dtype, q_layout}, Heads{of_k.data(), dtype, k_layout}, rope, 1000, options);
    EXPECT_EQ(of_q, wanted);
    EXPECT_EQ(of_k, rotated(k, k_layout));
  }
  options.first = head_dim + 1;
  EXPECT_EQ(code_of([&] { rotate(Heads{out.data(), dtype, q_layout}, rows, options); }), Code::SHAPE);
  options.first = 6;  // 8 elements do not fit behind it
  EXPECT_EQ(code_of([&] { rotate(Heads{out.data(), dtype, q_layout}, rows, options); }), Code::SHAPE);
  EXPECT_EQ(out, wanted);
}

// Rows of every type, cos and sin side by side with a gap, by numbers that rise, repeat and jump.
TEST_P(Calls, RowsByNumberAreThoseOfATable) {
  const Table all(frequencies(Rope{.head_dim = 8, .pairing = pairing}), positions(0, 40),
                  {Angles::exact, Rounding::bf16});
  const std::vector<std::int32_t> each{7, 8, 9, 3, 3, 39, 37, 0, 2, 4}, shared{10, 12, 14, 15, 15};
  for (const auto& [numbers, batch] : {std::pair(each, 2), std::pair(shared, 1)}) {
    std::vector<float> cos, sin;
    for (const auto n : numbers) {
      cos.insert(cos.end(), all.cos().begin() + n * 4, all.cos().begin() + n * 4 + 4);
      sin.insert(sin.end(), all.sin().begin() + n * 4, all.sin().begin() + n * 4 + 4);
    }
    const Table wanted(cos, sin, 4, pairing, batch);
    Bytes wanted_q = q, wanted_k = k;
    RotateOptions options{.direction = direction};
    options.first = first;
    rotate_qk(Heads{wanted_q.data(), dtype, q_layout}, Heads{wanted_k.data(), dtype, k_layout}, wanted, options);
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      Bytes cache(bytes_of(thd(40, 1, 11), type));
      for (std::int64_t i = 0; i < 40 * 4; ++i) {
        for (const auto& [values, at] : {std::pair(all.cos(), 0), std::pair(all.sin(), 4)}) {
          set_bits(cache.data(), type, i / 4 * 11 + i % 4 + at,
                   oracle::narrow(values[static_cast<std::size_t>(i)], type));
        }
      }
      auto given = initialised(rotary_rows_init);
      given.dtype = constant_of(type), given.cos = cache.data(), given.rows = 40, given.stride = 11;
      given.sin = cache.data() + 4 * size_of(type), given.pairs = 4, given.pairing = constant_of(pairing);
      auto at = initialised(rotary_positions_init);
      at.type = ROTARY_INT32, at.values = numbers.data(), at.tokens = 5, at.batch = batch;
      const Handles h = handles_of(rope_of(8));
      expect_ok(rotary_table_assign_rows(h.table, &given, &at));
      EXPECT_EQ(rotary_table_tokens(h.table), 5);
      EXPECT_EQ(rotary_table_batch(h.table), batch);
      EXPECT_TRUE(same_bits(wanted.cos(), std::span(rotary_table_cos(h.table), wanted.cos().size())));
      auto how = initialised(rotary_options_init);
      how.direction = constant_of(direction);
      for (const int parts : {1, 3, 11}) {
        Bytes got_q = q, got_k(k.size()), alone = q;
        how.parts = parts;
        for (how.part = 0; how.part < parts; ++how.part) {
          const rotary_heads xq = q_view(got_q);
          const rotary_heads xk = k_view(k);
          const rotary_heads yk = k_view(got_k);
          const rotary_heads x = q_view(alone);
          expect_ok(rotary_rotate_qk_rows(&xq, nullptr, &xk, &yk, &given, &at, &how));
          expect_ok(rotary_rotate_qk_rows(&x, nullptr, nullptr, nullptr, &given, &at, &how));
        }
        EXPECT_EQ(got_q, wanted_q) << name(type) << parts;
        EXPECT_EQ(got_k, wanted_k) << name(type) << parts;
        EXPECT_EQ(alone, wanted_q) << name(type) << parts;
      }
      const Rows by{given.cos, given.sin, type, 4, pairing, 11, 40, Positions(numbers, 1, batch)};
      Bytes in_place = q, out(q.size());
      const ThreadPool pool(2);
      options.executor = &pool;
      rotate(Heads{in_place.data(), dtype, q_layout}, by, options);
      rotate(ConstHeads(q.data(), dtype, q_layout), Heads{out.data(), dtype, q_layout}, by, options);
      EXPECT_EQ(in_place, wanted_q);
      EXPECT_EQ(out, wanted_q);
      options.executor = &serial();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Grid, Calls, grid, grid_name);

TEST(C, PackedTensorsAndCaches) {
  const Handles h = handles_of(rope_of(8));
  assign(h, run_of(0, 5));
  const Table rows(frequencies(Rope{.head_dim = 8, .pairing = Pairing::half}), positions(0, 5));
  std::vector<float> qkv(5 * 4 * 8), out(qkv.size()), wanted(qkv.size());
  for (std::size_t i = 0; i < qkv.size(); ++i) qkv[i] = static_cast<float>(i % 23) - 11;
  const Layout packed = thd(5, 4, 8);
  rotate_qkv(heads(std::as_const(qkv), packed), heads(wanted, packed), 1, rows);
  const rotary_heads x = view_of(qkv.data(), DType::f32, packed, 0), y = view_of(out.data(), DType::f32, packed, 0);
  expect_ok(rotary_rotate_qkv(&x, &y, 1, h.table, nullptr));
  EXPECT_EQ(out, wanted);

  const Layout one = [] {
    Layout l = thd(5, 1, 8);
    l.token_stride = 32;
    return l;
  }();
  const std::vector<std::int64_t> slots{3, -1, 8, 0, 9};
  for (const CacheType type : {CacheType::same, CacheType::f8_e4m3, CacheType::f32, CacheType::f16, CacheType::bf16}) {
    for (const bool flat : {true, false}) {
      std::vector<float> k_cache(10 * 8), v_cache(10 * 8), wanted_k(10 * 8), wanted_v(10 * 8);
      std::vector<float> q_out(5 * 16), wanted_q(5 * 16);
      auto cache = initialised(rotary_cache_init);
      cache.type = constant_of(type), cache.k = k_cache.data(), cache.v = v_cache.data(), cache.pages = 2;
      cache.page_size = 5, cache.heads = 1, cache.head_dim = 8, cache.page_stride = 40, cache.token_stride = 8;
      cache.head_stride = 8, cache.slots = flat ? slots.data() : nullptr, cache.k_scale = 0.5F, cache.v_scale = 2;
      Layout two = thd(5, 2, 8);
      two.token_stride = 32;
      const rotary_heads q = view_of(qkv.data(), DType::f32, two, 0);
      const rotary_heads q_to = view_of(q_out.data(), DType::f32, thd(5, 2, 8), 0);
      rotary_heads k = view_of(qkv.data() + 16, DType::f32, one, 0);
      const rotary_heads v = view_of(qkv.data() + 24, DType::f32, one, 0);
      expect_ok(rotary_rotate_append(&q, &q_to, &k, &v, h.table, &cache, nullptr));
      Cache wanted_cache = nhd(wanted_k.data(), wanted_v.data(), 2, 5, 1, 8, type);
      wanted_cache.k_scale = 0.5F, wanted_cache.v_scale = 2;
      rotate_append(ConstHeads(qkv.data(), DType::f32, two), heads(wanted_q, thd(5, 2, 8)),
                    ConstHeads(qkv.data() + 16, DType::f32, one), ConstHeads(qkv.data() + 24, DType::f32, one), rows,
                    wanted_cache, flat ? Slots::flat(slots.data()) : Slots::rows(0));
      EXPECT_EQ(q_out, wanted_q);
      EXPECT_TRUE(same_bits(std::span<const float>(k_cache), wanted_k)) << name(type);
      EXPECT_TRUE(same_bits(std::span<const float>(v_cache), wanted_v)) << name(type);
      k.first = 1;
      expect_refused(rotary_rotate_append(&q, &q_to, &k, &v, h.table, &cache, nullptr), ROTARY_SHAPE,
                     "k must have first 0 but got 1");
    }
  }
}

// A field and the constants that it takes. call runs a call whose every other field is right.
struct ConstantField {
  const char* name;
  std::vector<std::int32_t> taken;
  std::function<rotary_status(std::int32_t)> call;
};

TEST(C, AFieldRefusesTheConstantsOfEveryOtherKind) {
  const std::vector<std::int32_t> pairings{ROTARY_HALF, ROTARY_INTERLEAVED, ROTARY_INTERLEAVED_TO_HALF},
      scalings{ROTARY_UNSCALED, ROTARY_LINEAR, ROTARY_NTK,          ROTARY_NTK_FIXED, ROTARY_DYNAMIC,    ROTARY_YARN,
               ROTARY_LONGROPE, ROTARY_LLAMA3, ROTARY_PROPORTIONAL, ROTARY_YARN_LOG,  ROTARY_THETA_SCALE},
      position_types{ROTARY_RUN, ROTARY_INT32, ROTARY_INT64, ROTARY_DOUBLE}, angles{ROTARY_EXACT, ROTARY_FLOAT32},
      dtypes{ROTARY_F32, ROTARY_F16, ROTARY_BF16}, directions{ROTARY_FORWARD, ROTARY_BACKWARD},
      stores{ROTARY_AUTOMATIC, ROTARY_CACHED, ROTARY_STREAMING},
      cache_types{ROTARY_CACHE_SAME, ROTARY_CACHE_F8_E4M3, ROTARY_CACHE_F32, ROTARY_CACHE_F16, ROTARY_CACHE_BF16};
  std::vector<std::int32_t> constants{ROTARY_OK, ROTARY_SHAPE, ROTARY_DTYPE, ROTARY_INTERNAL, -1, 999};
  for (const auto& kind : {pairings, scalings, position_types, angles, dtypes, directions, stores, cache_types}) {
    for (const std::int32_t constant : kind) {
      EXPECT_EQ(std::ranges::count(constants, constant), 0) << constant;
      constants.push_back(constant);
    }
  }

  const Handles h = handles_of(rope_of(4));
  const rotary_positions two = run_of(0, 2);
  assign(h, two);
  const std::vector<double> factors{1, 2};
  std::vector<std::int64_t> numbers(2);  // zeros of any type that positions have
  std::vector<float> x(8), k_cache(8), v_cache(8);
  const auto view = [&](std::vector<float>& values) { return view_of(values.data(), DType::f32, thd(2, 1, 4), 0); };
  const auto rope_call = [&](auto set) {
    rotary_rope rope = rope_of(4);
    rope.factor = 2, rope.trained_length = 8, rope.short_factor = rope.long_factor = factors.data();
    set(rope);
    Handles other;
    return rotary_frequencies_make(&rope, 8, &other.frequencies);
  };
  const auto rows_call = [&](auto set) {
    auto rows = initialised(rotary_rows_init);
    rows.cos = k_cache.data(), rows.sin = v_cache.data(), rows.stride = 2, rows.rows = 2, rows.pairs = 2;
    rows.pairing = ROTARY_HALF;
    set(rows);
    Handles other = handles_of(rope_of(4));
    return rotary_table_assign_rows(other.table, &rows, &two);
  };
  const auto rotate_call = [&](auto set) {
    auto options = initialised(rotary_options_init);
    rotary_heads heads = view(x);
    set(heads, options);
    return rotary_rotate(&heads, nullptr, h.table, &options);
  };
  const std::vector<ConstantField> fields{
      {"rope.pairing", pairings, [&](int c) { return rope_call([&](rotary_rope& r) { r.pairing = c; }); }},
      {"rope.scaling", scalings, [&](int c) { return rope_call([&](rotary_rope& r) { r.scaling = c; }); }},
      {"positions.type", position_types,
       [&](int c) {
         rotary_positions at = two;
         at.type = c, at.values = numbers.data();
         return rotary_table_assign(h.table, h.frequencies, &at, ROTARY_EXACT, ROTARY_F32);
       }},
      {"angles", angles, [&](int c) { return rotary_table_assign(h.table, h.frequencies, &two, c, ROTARY_F32); }},
      {"rounding", dtypes, [&](int c) { return rotary_table_assign(h.table, h.frequencies, &two, ROTARY_EXACT, c); }},
      {"between's rounding", dtypes,
       [&](int c) { return rotary_table_between(h.table, h.frequencies, &two, h.frequencies, &two, c); }},
      {"borrow's pairing", pairings,
       [&](int c) {
         const Handles other = handles_of(rope_of(4));
         return rotary_table_borrow(other.table, k_cache.data(), v_cache.data(), 2, 2, c, 1);
       }},
      {"rows.dtype", dtypes, [&](int c) { return rows_call([&](rotary_rows& r) { r.dtype = c; }); }},
      {"rows.pairing", pairings, [&](int c) { return rows_call([&](rotary_rows& r) { r.pairing = c; }); }},
      {"write's angles", angles,
       [&](int c) { return rotary_rows_write(h.frequencies, &two, k_cache.data(), v_cache.data(), ROTARY_F32, 2, c); }},
      {"write's dtype", dtypes,
       [&](int c) {
         return rotary_rows_write(h.frequencies, &two, k_cache.data(), v_cache.data(), c, 2, ROTARY_EXACT);
       }},
      {"heads.dtype", dtypes,
       [&](int c) { return rotate_call([&](rotary_heads& heads, rotary_options&) { heads.dtype = c; }); }},
      {"options.direction", directions,
       [&](int c) { return rotate_call([&](rotary_heads&, rotary_options& o) { o.direction = c; }); }},
      {"options.stores", stores,
       [&](int c) { return rotate_call([&](rotary_heads&, rotary_options& o) { o.stores = c; }); }},
      {"cache.type", cache_types, [&](int c) {
         auto cache = initialised(rotary_cache_init);
         cache.k = k_cache.data(), cache.v = v_cache.data(), cache.pages = 1, cache.page_size = 2, cache.heads = 1;
         cache.head_dim = 4, cache.page_stride = 8, cache.token_stride = 4, cache.head_stride = 4, cache.type = c;
         std::vector<float> k(8), v(8);
         const rotary_heads from_q = view(x), from_k = view(k), from_v = view(v);
         return rotary_rotate_append(&from_q, nullptr, &from_k, &from_v, h.table, &cache, nullptr);
       }}};
  for (const ConstantField& field : fields) {
    for (const std::int32_t constant : constants) {
      const rotary_status status = field.call(constant);
      EXPECT_EQ(status == ROTARY_OK, std::ranges::count(field.taken, constant) == 1)
          << field.name << " = " << constant << ": " << (status == ROTARY_OK ? "" : rotary_error());
    }
  }
}

TEST(C, TablesBetweenTwoRopes) {
  rotary_rope rope = rope_of(8);
  const Handles from = handles_of(rope);
  rope.base = 500;
  const Handles to = handles_of(rope, 1);
  const rotary_positions at = run_of(100, 3);
  rotary_positions then = run_of(0, 3);
  const std::vector<std::int32_t> moved = {4, 0, -9};
  then.type = ROTARY_INT32, then.values = moved.data();
  expect_ok(rotary_table_between(to.table, from.frequencies, &at, to.frequencies, &then, ROTARY_BF16));
  const Table wanted = between(frequencies({.head_dim = 8, .pairing = Pairing::half}), positions(100, 3),
                               frequencies({.head_dim = 8, .base = 500, .pairing = Pairing::half}), moved,
                               {Angles::exact, Rounding::bf16});
  ASSERT_EQ(rotary_table_tokens(to.table), 3);
  EXPECT_TRUE(same_bits(wanted.cos(), std::span(rotary_table_cos(to.table), 12)));
  EXPECT_TRUE(same_bits(wanted.sin(), std::span(rotary_table_sin(to.table), 12)));
  then.tokens = 2;
  expect_refused(rotary_table_between(to.table, from.frequencies, &at, to.frequencies, &then, ROTARY_F32), ROTARY_SHAPE,
                 "the same number of tokens");
}

TEST(C, PageTablesAndShiftsGiveTheBitsOfCpp) {
  const Handles h = handles_of(rope_of(8));
  assign(h, run_of(0, 4));
  const Frequencies f = frequencies(Rope{.head_dim = 8, .pairing = Pairing::half});
  const std::vector<std::int32_t> indptr{0, 2, 3}, indices{2, 0, 1}, sequence{0, 0, 1, -1}, place{0, 3, 1, 0};
  const std::vector<std::int32_t> narrow{4, 1, 3, -2};
  std::vector<float> q(4 * 8), k(4 * 8), v(4 * 8);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = k[i] = v[i] = static_cast<float>(i % 13) - 6;
  const rotary_heads from_q = view_of(q.data(), DType::f32, thd(4, 1, 8), 0);
  const rotary_heads from_k = view_of(k.data(), DType::f32, thd(4, 1, 8), 0);
  const rotary_heads from_v = view_of(v.data(), DType::f32, thd(4, 1, 8), 0);
  std::vector<float> k_cache(3 * 2 * 8), v_cache(k_cache), wanted_k(k_cache), wanted_v(k_cache);
  auto cache = initialised(rotary_cache_init);
  cache.k = k_cache.data(), cache.v = v_cache.data(), cache.pages = 3, cache.page_size = 2, cache.heads = 1;
  cache.head_dim = 8, cache.page_stride = 16, cache.token_stride = cache.head_stride = 8;
  const auto append_by = [&](const Slots& slots) {
    std::vector<float> q_out = q;
    wanted_k.assign(wanted_k.size(), 0), wanted_v = k_cache = v_cache = wanted_k;
    rotate_append(heads(q_out, thd(4, 1, 8)), heads(k, thd(4, 1, 8)), heads(v, thd(4, 1, 8)), Table(f, positions(0, 4)),
                  nhd(wanted_k.data(), wanted_v.data(), 3, 2, 1, 8), slots);
    std::vector<float> copy = q;
    const rotary_heads to_q = view_of(copy.data(), DType::f32, thd(4, 1, 8), 0);
    expect_ok(rotary_rotate_append(&from_q, &to_q, &from_k, &from_v, h.table, &cache, nullptr));
    EXPECT_EQ(copy, q_out);
    EXPECT_EQ(k_cache, wanted_k);
    EXPECT_EQ(v_cache, wanted_v);
  };
  cache.slots_int32 = narrow.data();
  append_by(Slots::flat(narrow.data()));
  cache.slots_int32 = nullptr;
  cache.indptr = indptr.data(), cache.indices = indices.data(), cache.batch_indices = sequence.data();
  cache.token_positions = place.data(), cache.sequences = 2;
  append_by(Slots::paged(indptr.data(), indices.data(), sequence.data(), place.data(), 2));
  cache.sequences = 1;
  expect_refused(rotary_rotate_append(&from_q, nullptr, &from_k, &from_v, h.table, &cache, nullptr), ROTARY_SHAPE,
                 "below the 1 sequences");
  cache.skip_missing = 1;
  expect_ok(rotary_rotate_append(&from_q, nullptr, &from_k, &from_v, h.table, &cache, nullptr));

  const std::vector<std::int32_t> lengths{4, 2};
  const rotary_positions at = run_of(1, 1), then = run_of(0, 1);
  expect_ok(rotary_table_between(h.table, h.frequencies, &at, h.frequencies, &then, ROTARY_F32));
  const Table turn = between(f, positions(1, 1), f, positions(0, 1));
  const rotary_heads pages_k = view_of(k_cache.data(), DType::f32, bthd(3, 2, 1, 8), 0);
  const rotary_heads pages_v = view_of(v_cache.data(), DType::f32, bthd(3, 2, 1, 8), 0);
  auto sequences = initialised(rotary_sequences_init);
  sequences.indptr = indptr.data(), sequences.indices = indices.data(), sequences.lengths = lengths.data();
  sequences.sequences = 2;
  wanted_k = k_cache, wanted_v = v_cache;
  const Heads to_k{wanted_k.data(), DType::f32, bthd(3, 2, 1, 8)}, to_v{wanted_v.data(), DType::f32, bthd(3, 2, 1, 8)};
  shift(to_k, to_v, turn, 1, 1, Sequences::paged(indptr.data(), indices.data(), lengths.data(), 2));
  expect_ok(rotary_shift(&pages_k, &pages_v, h.table, 1, 1, &sequences, nullptr));
  EXPECT_EQ(k_cache, wanted_k);
  EXPECT_EQ(v_cache, wanted_v);
  shift(to_k, Heads{}, turn, 0, 1);
  expect_ok(rotary_shift(&pages_k, nullptr, h.table, 0, 1, nullptr, nullptr));
  EXPECT_EQ(k_cache, wanted_k);
  EXPECT_EQ(v_cache, wanted_v);
  expect_refused(rotary_shift(&pages_k, nullptr, h.table, -1, 1, nullptr, nullptr), ROTARY_SHAPE, "keep");
  shift(to_k, to_v, turn, 1, 1, Sequences::paged(indptr.data(), indices.data(), lengths.data(), 2));
  expect_ok(rotary_shift_cache(&cache, ROTARY_F32, h.table, 1, 1, &sequences, nullptr));
  EXPECT_EQ(k_cache, wanted_k);
  EXPECT_EQ(v_cache, wanted_v);
  sequences.reserved = 1;
  expect_refused(rotary_shift_cache(&cache, ROTARY_F32, h.table, 1, 1, &sequences, nullptr), ROTARY_VALUE,
                 "sequences's reserved field must be 0 but got 1");
}

TEST(C, SumsPhasesAmplitudesAndRowsPerHeadGiveTheBitsOfCpp) {
  const std::vector<double> speeds{1, 0.5, 2, 0.25, -1, 3, 0.75, 0.1, 0.3, 0.2, -0.4, 7}, phase{0, 1, 2, 3, 4, 5};
  rotary_rope given = rope_of(6);
  given.head_rows = 2, given.summed_axes = 2;
  given.inv_freq = speeds.data(), given.phase = phase.data();
  Rope rope{
      .head_dim = 6, .pairing = Pairing::half, .inv_freq = speeds, .head_rows = 2, .summed_axes = 2, .phase = phase};
  const std::vector<std::int64_t> places{0, 5, -7, 3, 2, 1};
  auto at = initialised(rotary_positions_init);
  at.type = ROTARY_INT64, at.values = places.data(), at.tokens = 3, at.axes = 2;
  const Handles h = handles_of(given, 3);
  EXPECT_EQ(rotary_frequencies_pairs(h.frequencies), 3);
  assign(h, at);
  const Table wanted(frequencies(rope), Positions(places, 2));
  EXPECT_EQ(rotary_table_head_rows(h.table), 2);
  EXPECT_TRUE(same_bits(wanted.cos(), std::span(rotary_table_cos(h.table), 18)));

  std::vector<float> x(3 * 4 * 6, 1.5F), y = x, z = x;
  const rotary_heads heads = view_of(x.data(), DType::f32, thd(3, 4, 6), 0);
  expect_ok(rotary_rotate(&heads, nullptr, h.table, nullptr));
  rotate(Heads{y.data(), DType::f32, thd(3, 4, 6)}, wanted);
  EXPECT_EQ(x, y);
  auto rows = initialised(rotary_rows_init);
  rows.cos = wanted.cos().data(), rows.sin = wanted.sin().data();
  rows.stride = 6, rows.rows = 3, rows.pairs = 3, rows.pairing = ROTARY_HALF, rows.head_rows = 2;
  const rotary_positions numbers = run_of(0, 3);
  const Handles by = handles_of(rope_of(8));
  expect_ok(rotary_table_assign_rows(by.table, &rows, &numbers));
  EXPECT_EQ(rotary_table_head_rows(by.table), 2);
  const rotary_heads others = view_of(z.data(), DType::f32, thd(3, 4, 6), 0);
  expect_ok(rotary_rotate_qk_rows(&others, nullptr, nullptr, nullptr, &rows, &numbers, nullptr));
  EXPECT_EQ(z, y);

  given = rope_of(6);
  given.xpos_scale = 4, given.xpos_center = 1000, given.xpos_reciprocal = 1;
  const Handles keys = handles_of(given, 3);
  assign(keys, run_of(1001, 3));
  const Table of_keys(frequencies(Rope{.head_dim = 6, .pairing = Pairing::half, .xpos = {4, 1000, true}}),
                      positions(1001, 3));
  EXPECT_TRUE(same_bits(of_keys.sin(), std::span(rotary_table_sin(keys.table), 9)));
  expect_ok(rotary_table_rows(keys.table, &rows));
  EXPECT_EQ(rows.xpos, 1);
  expect_ok(rotary_rotate_qk_rows(&others, nullptr, nullptr, nullptr, &rows, &numbers, nullptr));
  expect_refused(rotary_rotate_qk_rows(&heads, nullptr, &others, nullptr, &rows, &numbers, nullptr), ROTARY_SCALING,
                 "have no xPos");
}

// One table of all positions, and threads that rotate by its rows at a time, each with numbers of its own.
TEST(C, RowsOfOneTableServeSeveralThreads) {
  const Handles h = handles_of(rope_of(8)), other = handles_of(rope_of(8));
  assign(h, run_of(0, 30));
  auto rows = initialised(rotary_rows_init);
  expect_ok(rotary_table_rows(h.table, &rows));
  EXPECT_EQ(rows.rows, 30);
  std::vector<std::vector<float>> q(3, std::vector<float>(5 * 3 * 8, 1.5f)), k(3, std::vector<float>(5 * 8, -2.0f));
  const auto rotate_by_rows = [&](std::size_t i, const std::vector<std::int32_t>& at) {
    auto numbers = initialised(rotary_positions_init);
    numbers.type = ROTARY_INT32, numbers.values = at.data(), numbers.tokens = 5;
    const rotary_heads x = view_of(q[i].data(), DType::f32, thd(5, 3, 8), 0);
    const rotary_heads y = view_of(k[i].data(), DType::f32, thd(5, 1, 8), 0);
    for (int step = 0; step < 100; ++step)
      expect_ok(rotary_rotate_qk_rows(&x, nullptr, &y, nullptr, &rows, &numbers, nullptr));
  };
  const std::vector<std::int32_t> some{7, 8, 9, 0, 29}, others{3, 3, 21, 1, 2};
  std::thread first([&] { rotate_by_rows(0, some); }), second([&] { rotate_by_rows(1, others); });
  first.join(), second.join();
  for (std::size_t i = 0; i < 2; ++i) {
    auto at = initialised(rotary_positions_init);
    at.type = ROTARY_INT32, at.values = (i == 0 ? some : others).data(), at.tokens = 5;
    assign(other, at);
    q[2].assign(q[2].size(), 1.5f), k[2].assign(k[2].size(), -2.0f);
    const rotary_heads x = view_of(q[2].data(), DType::f32, thd(5, 3, 8), 0);
    const rotary_heads y = view_of(k[2].data(), DType::f32, thd(5, 1, 8), 0);
    for (int step = 0; step < 100; ++step) expect_ok(rotary_rotate_qk(&x, nullptr, &y, nullptr, other.table, nullptr));
    EXPECT_EQ(q[i], q[2]);
    EXPECT_EQ(k[i], k[2]);
  }
  const rotary_positions beyond = run_of(26, 5);
  const rotary_heads x = view_of(q[0].data(), DType::f32, thd(5, 3, 8), 0);
  expect_refused(rotary_rotate_qk_rows(&x, nullptr, nullptr, nullptr, &rows, &beyond, nullptr), ROTARY_POSITION,
                 "from 0 to 29 but token 4 has 30");
  expect_refused(rotary_rotate_qk_rows(&x, nullptr, nullptr, &x, &rows, &beyond, nullptr), ROTARY_VALUE, "k must not");
  expect_refused(rotary_table_rows(nullptr, &rows), ROTARY_VALUE, "table must not be null");
}

TEST(C, RowsOfTheCallers) {
  Handles h = handles_of(rope_of(8));
  const std::vector<float> cos(8, 0.0f), sin(8, 1.0f);
  expect_ok(rotary_table_borrow(h.table, cos.data(), sin.data(), 2, 4, ROTARY_INTERLEAVED, 1));
  EXPECT_EQ(rotary_table_cos(h.table), cos.data());
  std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8};
  const rotary_heads heads = view_of(x.data(), DType::f32, thd(2, 1, 8), 0);
  expect_ok(rotary_rotate(&heads, nullptr, h.table, nullptr));
  EXPECT_EQ(x, (std::vector<float>{-2, 1, -4, 3, -6, 5, -8, 7, -2, 1, -4, 3, -6, 5, -8, 7}));
}

TEST(C, WritesRowsIntoMemoryOfTheCallers) {
  Handles h = handles_of(rope_of(8));
  const Frequencies f = frequencies(Rope{.head_dim = 8, .pairing = Pairing::half});
  const rotary_positions at = run_of(99, 3), numbers = run_of(0, 3);
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    const Table wanted(f, positions(99, 3), {Angles::exact, static_cast<Rounding>(type)});
    const std::size_t each = size_of(type);
    Bytes memory(30 * each, std::byte{0x5a});
    const auto write = [&](int64_t stride) {
      return rotary_rows_write(h.frequencies, &at, memory.data(), memory.data() + 5 * each, constant_of(type), stride,
                               ROTARY_EXACT);
    };
    expect_ok(write(10));
    EXPECT_EQ(memory[4 * each], std::byte{0x5a}) << "between the rows";
    auto rows = initialised(rotary_rows_init);
    rows.dtype = constant_of(type), rows.cos = memory.data(), rows.sin = memory.data() + 5 * each;
    rows.stride = 10, rows.rows = 3, rows.pairs = 4, rows.pairing = ROTARY_HALF;
    expect_ok(rotary_table_assign_rows(h.table, &rows, &numbers));
    std::vector<float> x(3 * 8, 1.0f), y = x;
    const rotary_heads heads = view_of(x.data(), DType::f32, thd(3, 1, 8), 0);
    expect_ok(rotary_rotate(&heads, nullptr, h.table, nullptr));
    rotate(rotary::heads(y, thd(3, 1, 8)), wanted);
    EXPECT_EQ(x, y);
    expect_refused(write(3), ROTARY_SHAPE, "at least the 4 pairs");
    rows.rows = 2;
    expect_refused(rotary_table_assign_rows(h.table, &rows, &numbers), ROTARY_POSITION, "from 0 to 1 but token 2");
  }
}

TEST(C, RefusesWithACodeAndASentenceOfThisThread) {
  rotary_frequencies* f = nullptr;
  auto rope = initialised(rotary_rope_init);
  rope.head_dim = 8;
  expect_refused(rotary_frequencies_make(&rope, 0, &f), ROTARY_PAIRING, "pairing");
  EXPECT_EQ(f, nullptr);
  rope.pairing = ROTARY_HALF;
  for (const int head_dim : {0, -2, 7, std::numeric_limits<int>::max()}) {
    auto wrong = rope;
    wrong.head_dim = head_dim;
    expect_refused(rotary_frequencies_make(&wrong, 0, &f), ROTARY_SHAPE, "[frequencies]");
  }
  for (const int scaling : {-1, 11}) {
    auto wrong = rope;
    wrong.scaling = scaling;
    expect_refused(rotary_frequencies_make(&wrong, 0, &f), ROTARY_SCALING,
                   "scaling must be one from ROTARY_UNSCALED to ROTARY_THETA_SCALE");
  }
  expect_refused(rotary_frequencies_make(nullptr, 0, &f), ROTARY_VALUE, "rope must not be null");
  expect_refused(rotary_frequencies_make(&rope, 0, nullptr), ROTARY_VALUE, "frequencies must not be null");
  rotary_rope raw{};
  expect_refused(rotary_frequencies_make(&raw, 0, &f), ROTARY_VALUE, "must be filled by its _init function");

  Handles h = handles_of(rope_of(8));
  std::vector<float> x(16);
  const rotary_heads heads = view_of(x.data(), DType::f32, thd(2, 1, 8), 0);
  expect_refused(rotary_rotate(&heads, nullptr, h.table, nullptr), ROTARY_SHAPE, "table has 0 rows");
  expect_refused(rotary_rotate(&heads, nullptr, nullptr, nullptr), ROTARY_VALUE, "table must not be null");
  auto options = initialised(rotary_options_init);
  assign(h, run_of(0, 2));
  options.part = 3, options.parts = 3;
  expect_refused(rotary_rotate(&heads, nullptr, h.table, &options), ROTARY_VALUE, "part must be from 0");
  auto at = initialised(rotary_positions_init);
  at.type = ROTARY_INT64, at.tokens = 2;
  expect_refused(rotary_table_assign(h.table, h.frequencies, &at, ROTARY_EXACT, ROTARY_F32), ROTARY_VALUE,
                 "values of the positions");
  at.type = 9, at.values = x.data();
  expect_refused(rotary_table_assign(h.table, h.frequencies, &at, ROTARY_EXACT, ROTARY_F32), ROTARY_VALUE,
                 "type of positions");
  expect_refused(rotary_use_target("abacus"), ROTARY_TARGET, "abacus");
  std::string other = "unset";
  std::thread([&] { other = rotary_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_STREQ(rotary_status_name(ROTARY_INTERNAL), "INTERNAL");
  EXPECT_STREQ(rotary_status_name(ROTARY_VALUE), "VALUE");
  EXPECT_STREQ(rotary_status_name(99), "unknown");
  expect_ok(rotary_self_test());
}

// A caller of an older version has shorter structs, and one of a newer version longer ones.
TEST(C, StructsOfOtherVersions) {
  struct {
    rotary_rope rope;
    double later;
  } longer;
  rotary_rope_init(&longer.rope, sizeof longer);
  EXPECT_EQ(longer.later, 0);
  longer.rope.head_dim = 8, longer.rope.pairing = ROTARY_HALF;
  rotary_frequencies* f = nullptr;
  expect_ok(rotary_frequencies_make(&longer.rope, 0, &f));
  rotary_frequencies_free(f);
  longer.later = 1;
  expect_refused(rotary_frequencies_make(&longer.rope, 0, &f), ROTARY_VALUE, "does not know");

  alignas(rotary_rope) unsigned char shorter[offsetof(rotary_rope, attention_factor) + 8];
  std::memset(shorter, 0xff, sizeof shorter);
  auto* const rope = reinterpret_cast<rotary_rope*>(shorter);
  rotary_rope_init(rope, offsetof(rotary_rope, attention_factor));
  EXPECT_EQ(shorter[offsetof(rotary_rope, attention_factor)], 0xff);
  const std::int32_t head_dim = 8, pairing = ROTARY_HALF;  // not by rope->, which is larger than its memory
  std::memcpy(shorter + offsetof(rotary_rope, head_dim), &head_dim, sizeof head_dim);
  std::memcpy(shorter + offsetof(rotary_rope, pairing), &pairing, sizeof pairing);
  expect_ok(rotary_frequencies_make(rope, 0, &f));
  EXPECT_EQ(rotary_frequencies_attention_factor(f), 1);
  rotary_frequencies_free(f);
}

// A caller may have an older, shorter struct, or none.
TEST(CInterface, NullsAndShortStructsAreNotWritten) {
  std::vector<std::uint32_t> four(1);  // with nothing behind it that a sanitizer lets be written
  auto* const heads = reinterpret_cast<rotary_heads*>(four.data());
  rotary_heads_init(heads, sizeof(std::uint32_t));
  expect_ok(rotary_heads_order(heads, "bthd"));
  rotary_heads_init(nullptr, sizeof(rotary_heads));
  rotary_options_init(nullptr, 4);
  EXPECT_EQ(rotary_table_cos(nullptr), nullptr);
  EXPECT_EQ(rotary_table_tokens(nullptr), 0);
  EXPECT_EQ(rotary_table_head_rows(nullptr), 0);
  EXPECT_EQ(rotary_frequencies_pairs(nullptr), 0);
  EXPECT_EQ(rotary_frequencies_inv_freq(nullptr), nullptr);
  // A stride that was not set would take row 0 for every token.
  std::vector<float> q(8), cos(8), sin(8);
  const rotary_heads x = view_of(q.data(), DType::f32, thd(1, 1, 8), 0);
  auto rows = initialised(rotary_rows_init);
  rows.cos = cos.data(), rows.sin = sin.data(), rows.rows = 2, rows.pairs = 4, rows.pairing = ROTARY_HALF;
  const rotary_positions at = run_of(1, 1);
  expect_refused(rotary_rotate_qk_rows(&x, nullptr, nullptr, nullptr, &rows, &at, nullptr), ROTARY_SHAPE,
                 "stride must be at least the 4 values of a row but got 0");
  rows.stride = 4;
  expect_ok(rotary_rotate_qk_rows(&x, nullptr, nullptr, nullptr, &rows, &at, nullptr));
  rotary_rope rope;
  rotary_rope_init(&rope, sizeof rope);
  rope.head_dim = 8, rope.pairing = ROTARY_HALF, rope.reserved_too = 1;
  rotary_frequencies* frequencies = nullptr;
  expect_refused(rotary_frequencies_make(&rope, 0, &frequencies), ROTARY_VALUE, "rope's reserved field must be 0");
}

}  // namespace
}  // namespace rotary::tests
