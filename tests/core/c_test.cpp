// The C interface against the C++ one, bit for bit; and what a call has that both share: first, and parts.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>

#include "rotary/cache.h"
#include "rotary/rotary_c.h"
#include "tests/support/checks.h"
#include "tests/support/heads.h"

namespace rotary::tests {
namespace {

const std::vector<double> short_factor{1, 1.5, 2, 3}, long_factor{2, 3, 5, 8}, learned{1, 0.5, -0.25, 0};

template <class Struct>
Struct made(void (*init)(Struct*, std::size_t)) {
  Struct s;
  init(&s, sizeof s);
  return s;
}

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

struct RopeCase {
  Rope rope;
  void (*set)(rotary_rope&);
};
const RopeCase ropes[] = {
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
  for (const RopeCase& c : ropes) {
    for (const std::int64_t length : {std::int64_t{0}, std::int64_t{1000}}) {
      Rope rope = c.rope;
      rope.head_dim = 10, rope.rotary_dim = 8, rope.pairing = Pairing::interleaved;
      auto given = made(rotary_rope_init);
      given.head_dim = 10, given.rotary_dim = 8, given.pairing = ROTARY_INTERLEAVED;
      c.set(given);
      const Frequencies wanted = frequencies(rope, length);
      Handles h;
      ASSERT_EQ(rotary_frequencies_make(&given, length, &h.frequencies), ROTARY_OK) << rotary_error();
      ASSERT_EQ(rotary_frequencies_pairs(h.frequencies), 4);
      EXPECT_EQ(rotary_frequencies_axes(h.frequencies), wanted.axes());
      EXPECT_EQ(rotary_frequencies_attention_factor(h.frequencies), wanted.attention_factor) << name(rope.scaling);
      const double* inv_freq = rotary_frequencies_inv_freq(h.frequencies);
      EXPECT_EQ(std::vector(inv_freq, inv_freq + 4), wanted.inv_freq) << name(rope.scaling);
      ASSERT_EQ(rotary_table_make(h.frequencies, 6, &h.table), ROTARY_OK) << rotary_error();
      auto at = made(rotary_positions_init);
      at.first = 70000, at.tokens = 6;
      for (const int angles : {ROTARY_EXACT, ROTARY_FLOAT32}) {
        for (const int rounding : {ROTARY_F32, ROTARY_F16, ROTARY_BF16}) {
          const float* const memory = rotary_table_cos(h.table);
          expect_ok(rotary_table_assign(h.table, h.frequencies, &at, angles, rounding));
          EXPECT_EQ(rotary_table_cos(h.table), memory);
          const Table rows(wanted, positions(70000, 6), {static_cast<Angles>(angles), static_cast<Rounding>(rounding)});
          EXPECT_TRUE(same_bits(rows.cos(), std::span(rotary_table_cos(h.table), 24)));
          EXPECT_TRUE(same_bits(rows.sin(), std::span(rotary_table_sin(h.table), 24)));
        }
      }
    }
  }
}

Handles simple(int pairs = 4, int pairing = ROTARY_HALF) {
  auto rope = made(rotary_rope_init);
  rope.head_dim = 2 * pairs, rope.pairing = pairing;
  Handles h;
  expect_ok(rotary_frequencies_make(&rope, 0, &h.frequencies));
  expect_ok(rotary_table_make(h.frequencies, 30, &h.table));
  return h;
}

TEST(C, PositionsOfEveryTypeAndShape) {
  const Frequencies f = frequencies(Rope{.head_dim = 8, .pairing = Pairing::half, .axis = {0, 1, 1, 0}});
  auto rope = made(rotary_rope_init);
  const std::uint8_t axis[] = {0, 1, 1, 0};
  rope.head_dim = 8, rope.pairing = ROTARY_HALF, rope.axis = axis;
  Handles h;
  expect_ok(rotary_frequencies_make(&rope, 0, &h.frequencies));
  expect_ok(rotary_table_make(h.frequencies, 6, &h.table));
  const std::vector<std::int32_t> narrow{3, -1, 70000, 5, 6, 7, 1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> wide(narrow.begin(), narrow.end());
  std::vector<double> real(narrow.begin(), narrow.end());
  real[0] = 0.25;
  const auto check = [&](std::int32_t type, const void* values, const Positions& wanted) {
    auto at = made(rotary_positions_init);
    at.type = type, at.values = values, at.tokens = 3, at.batch = 2, at.axes = 2;
    expect_ok(rotary_table_assign(h.table, h.frequencies, &at, ROTARY_EXACT, ROTARY_F32));
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
  auto x = made(rotary_heads_init);
  x.data = data, x.dtype = static_cast<std::int32_t>(dtype), x.first = first;
  x.batch = l.batch, x.tokens = l.tokens, x.heads = l.heads, x.head_dim = l.head_dim;
  x.batch_stride = l.batch_stride, x.token_stride = l.token_stride, x.head_stride = l.head_stride;
  return x;
}

Bytes counted(DType dtype, const Layout& l) {
  Bytes x(bytes_of(l, dtype));
  for (std::int64_t i = 0; i < extent(l); ++i) {
    const float value = static_cast<float>(i * 7 % 23 - 11) / 4;
    const std::uint32_t bits = dtype == DType::f32   ? std::bit_cast<std::uint32_t>(value)
                               : dtype == DType::f16 ? to_f16(value).bits
                                                     : to_bf16(value).bits;
    set_bits(x.data(), dtype, i, bits);
  }
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

  Bytes rotated(const Bytes& x, const Layout& l) const {
    Bytes y = x;
    rotate(slice(Heads{y.data(), dtype, l}, first, head_dim - first), rows, direction);
    return y;
  }
};

TEST_P(Calls, InPlaceOutOfPlaceInPartsAndByAPoolGiveTheBitsOfCpp) {
  const Bytes wanted_q = rotated(q, q_layout), wanted_k = rotated(k, k_layout);
  Handles h = simple(4, static_cast<int>(pairing));
  auto at = made(rotary_positions_init);
  at.first = 1000, at.tokens = 5;
  expect_ok(rotary_table_assign(h.table, h.frequencies, &at, ROTARY_EXACT, ROTARY_F32));
  auto options = made(rotary_options_init);
  options.direction = static_cast<std::int32_t>(direction);
  rotary_pool* pool = nullptr;
  expect_ok(rotary_pool_make(3, &pool));
  for (const int parts : {1, 7}) {
    options.parts = parts;
    for (const bool in_place : {true, false}) {
      Bytes from_q = q, from_k = k, to_q(q.size()), to_k(k.size()), alone(q.size());
      const rotary_heads xq = view_of(from_q.data(), dtype, q_layout, first);
      const rotary_heads xk = view_of(from_k.data(), dtype, k_layout, first);
      const rotary_heads yq = view_of(to_q.data(), dtype, q_layout, first);
      const rotary_heads yk = view_of(to_k.data(), dtype, k_layout, first);
      const rotary_heads ya = view_of(alone.data(), dtype, q_layout, first);
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
  const rotary_heads x = view_of(q.data(), dtype, q_layout, first);
  expect_ok(rotary_rotate(&x, nullptr, h.table, &options));
  EXPECT_EQ(q, wanted_q);
  rotary_pool_free(pool);
}

TEST_P(Calls, FirstIsASliceWhoseFrontIsCopied) {
  const Bytes wanted = rotated(q, q_layout);
  Bytes out(q.size());
  RotateOptions options(direction);
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

INSTANTIATE_TEST_SUITE_P(Grid, Calls, grid, grid_name);

TEST(C, PackedTensorsAndCaches) {
  Handles h = simple();
  auto at = made(rotary_positions_init);
  at.tokens = 5;
  expect_ok(rotary_table_assign(h.table, h.frequencies, &at, ROTARY_EXACT, ROTARY_F32));
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
  for (const bool flat : {true, false}) {
    std::vector<bf16> k_cache(10 * 8), v_cache(10 * 8), wanted_k(10 * 8), wanted_v(10 * 8);
    std::vector<float> q_out(5 * 16), wanted_q(5 * 16);
    auto cache = made(rotary_cache_init);
    cache.type = ROTARY_CACHE_BF16, cache.k = k_cache.data(), cache.v = v_cache.data(), cache.pages = 2;
    cache.page_size = 5, cache.heads = 1, cache.head_dim = 8, cache.page_stride = 40, cache.token_stride = 8;
    cache.head_stride = 8, cache.slots = flat ? slots.data() : nullptr;
    Layout two = thd(5, 2, 8);
    two.token_stride = 32;
    const rotary_heads q = view_of(qkv.data(), DType::f32, two, 0);
    const rotary_heads q_to = view_of(q_out.data(), DType::f32, thd(5, 2, 8), 0);
    rotary_heads k = view_of(qkv.data() + 16, DType::f32, one, 0);
    const rotary_heads v = view_of(qkv.data() + 24, DType::f32, one, 0);
    expect_ok(rotary_rotate_append(&q, &q_to, &k, &v, h.table, &cache, nullptr));
    rotate_append(ConstHeads(qkv.data(), DType::f32, two), heads(wanted_q, thd(5, 2, 8)),
                  ConstHeads(qkv.data() + 16, DType::f32, one), ConstHeads(qkv.data() + 24, DType::f32, one), rows,
                  nhd(wanted_k.data(), wanted_v.data(), 2, 5, 1, 8, CacheType::bf16),
                  flat ? Slots::flat(slots.data()) : Slots::rows(0));
    EXPECT_EQ(q_out, wanted_q);
    EXPECT_EQ(k_cache, wanted_k);
    EXPECT_EQ(v_cache, wanted_v);
    k.first = 1;
    expect_refused(rotary_rotate_append(&q, &q_to, &k, &v, h.table, &cache, nullptr), ROTARY_SHAPE, "first must be 0");
  }
}

TEST(C, RowsOfTheCallers) {
  Handles h = simple();
  const std::vector<float> cos(8, 0.0f), sin(8, 1.0f);
  expect_ok(rotary_table_borrow(h.table, cos.data(), sin.data(), 2, 4, ROTARY_INTERLEAVED, 1));
  EXPECT_EQ(rotary_table_cos(h.table), cos.data());
  std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8};
  const rotary_heads heads = view_of(x.data(), DType::f32, thd(2, 1, 8), 0);
  expect_ok(rotary_rotate(&heads, nullptr, h.table, nullptr));
  EXPECT_EQ(x, (std::vector<float>{-2, 1, -4, 3, -6, 5, -8, 7, -2, 1, -4, 3, -6, 5, -8, 7}));
}

TEST(C, RefusesWithACodeAndASentenceOfThisThread) {
  rotary_frequencies* f = nullptr;
  auto rope = made(rotary_rope_init);
  rope.head_dim = 8;
  expect_refused(rotary_frequencies_make(&rope, 0, &f), ROTARY_PAIRING, "pairing");
  EXPECT_EQ(f, nullptr);
  rope.pairing = ROTARY_HALF;
  for (const int head_dim : {0, -2, 7, std::numeric_limits<int>::max()}) {
    auto wrong = rope;
    wrong.head_dim = head_dim;
    expect_refused(rotary_frequencies_make(&wrong, 0, &f), ROTARY_SHAPE, "[frequencies]");
  }
  for (const int scaling : {-1, 9}) {
    auto wrong = rope;
    wrong.scaling = scaling;
    expect_refused(rotary_frequencies_make(&wrong, 0, &f), ROTARY_SCALING, "scaling must be from 0 to 8");
  }
  expect_refused(rotary_frequencies_make(nullptr, 0, &f), ROTARY_VALUE, "rope must not be null");
  expect_refused(rotary_frequencies_make(&rope, 0, nullptr), ROTARY_VALUE, "frequencies must not be null");
  rotary_rope raw{};
  expect_refused(rotary_frequencies_make(&raw, 0, &f), ROTARY_VALUE, "must be filled by its _init function");

  Handles h = simple();
  std::vector<float> x(16);
  const rotary_heads heads = view_of(x.data(), DType::f32, thd(2, 1, 8), 0);
  expect_refused(rotary_rotate(&heads, nullptr, h.table, nullptr), ROTARY_SHAPE, "table has 0 rows");
  expect_refused(rotary_rotate(&heads, nullptr, nullptr, nullptr), ROTARY_VALUE, "table must not be null");
  auto options = made(rotary_options_init);
  options.part = 3, options.parts = 3;
  expect_refused(rotary_rotate(&heads, nullptr, h.table, &options), ROTARY_VALUE, "part must be from 0");
  auto at = made(rotary_positions_init);
  at.type = ROTARY_INT64, at.tokens = 2;
  expect_refused(rotary_table_assign(h.table, h.frequencies, &at, 0, 0), ROTARY_VALUE, "values of the positions");
  at.type = 9, at.values = x.data();
  expect_refused(rotary_table_assign(h.table, h.frequencies, &at, 0, 0), ROTARY_VALUE, "type of positions");
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

}  // namespace
}  // namespace rotary::tests
