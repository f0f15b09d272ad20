// The C interface against the C++ one, bit for bit; and what a call has that both share: first, and parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <type_traits>
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
template <class T>
rotary_positions positions_of(const std::vector<T>& values, int batch = 1, int axes = 1) {
  auto at = initialised(rotary_positions_init);
  at.type = std::is_same_v<T, double> ? ROTARY_DOUBLE : std::is_same_v<T, std::int32_t> ? ROTARY_INT32 : ROTARY_INT64;
  at.values = values.data(), at.tokens = std::ssize(values) / batch / axes, at.batch = batch, at.axes = axes;
  return at;
}
rotary_rows rows_of(const void* cos, const void* sin, std::int64_t stride, std::int64_t rows, int pairs) {
  auto r = initialised(rotary_rows_init);
  r.cos = cos, r.sin = sin, r.stride = stride, r.rows = rows, r.pairs = pairs, r.pairing = ROTARY_HALF;
  return r;
}
rotary_heads view_of(const ConstHeads& heads, int first = 0) {
  auto x = initialised(rotary_heads_init);
  const Layout& l = heads.layout;
  x.data = const_cast<void*>(heads.data), x.dtype = constant_of(heads.dtype), x.first = first;
  x.batch = l.batch, x.tokens = l.tokens, x.heads = l.heads, x.head_dim = l.head_dim;
  x.batch_stride = l.batch_stride, x.token_stride = l.token_stride, x.head_stride = l.head_stride;
  return x;
}
rotary_heads view_of(std::vector<float>& x, const Layout& l) { return view_of(heads(x, l)); }
rotary_cache cache_of(const Cache& c, const Slots& s) {
  auto to = initialised(rotary_cache_init);
  to.type = constant_of(c.type), to.k = c.k, to.v = c.v, to.pages = c.pages, to.heads = c.heads;
  to.page_size = c.page_size, to.head_dim = c.head_dim;
  to.page_stride = c.page_stride, to.token_stride = c.token_stride, to.head_stride = c.head_stride;
  to.slots = s.slot, to.firsts = s.firsts, to.first = s.firsts == nullptr ? s.first : 0;
  to.k_scale = c.k_scale, to.v_scale = c.v_scale, to.slots_int32 = s.slot_int32;
  to.indptr = s.indptr, to.indices = s.indices, to.batch_indices = s.batch_indices, to.token_positions = s.positions;
  to.sequences = s.sequences, to.skip_missing = s.skip_missing ? 1 : 0;
  to.k_offset = c.k_offset, to.v_head_dim = c.v_head_dim;
  to.v_page_stride = c.v_page_stride, to.v_token_stride = c.v_token_stride, to.v_head_stride = c.v_head_stride;
  return to;
}
// A struct that lives until the call has ended.
template <class Struct>
const Struct* address(const Struct& temporary) {
  return &temporary;
}

void assign(const Handles& h, const rotary_positions& at, int rounding = ROTARY_F32) {
  expect_ok(rotary_table_assign(h.table, h.frequencies, &at, ROTARY_EXACT, rounding));
}
void expect_rows(const Handles& h, const Table& wanted) {
  EXPECT_EQ(rotary_table_tokens(h.table), wanted.tokens());
  EXPECT_EQ(rotary_table_batch(h.table), wanted.batch());
  EXPECT_EQ(rotary_table_pairs(h.table), wanted.pairs());
  EXPECT_EQ(rotary_table_head_rows(h.table), wanted.head_rows());
  EXPECT_TRUE(same_bits(wanted.cos(), std::span(rotary_table_cos(h.table), wanted.cos().size())));
  EXPECT_TRUE(same_bits(wanted.sin(), std::span(rotary_table_sin(h.table), wanted.sin().size())));
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
        for (const DType rounding : dtypes) {
          const float* const memory = rotary_table_cos(h.table);
          expect_ok(rotary_table_assign(h.table, h.frequencies, &at, angles, constant_of(rounding)));
          EXPECT_EQ(rotary_table_cos(h.table), memory);
          expect_rows(h, Table(wanted, positions(70000, 6),
                               {static_cast<Angles>(angles - ROTARY_EXACT), static_cast<Rounding>(rounding)}));
        }
      }
    }
  }
}

TEST(C, PositionsOfEveryTypeAndShape) {
  const Frequencies f = frequencies(Rope{.head_dim = 8, .pairing = Pairing::half, .axis = {0, 1, 1, 0}});
  rotary_rope rope = rope_of(8);
  rope.axis = f.axis.data();
  const Handles h = handles_of(rope, 6);
  const std::vector<std::int32_t> narrow{3, -1, 70000, 5, 6, 7, 1, 2, 3, 4, 5, 6};
  const auto check = [&](const auto& values) {
    assign(h, positions_of(values, 2, 2));
    expect_rows(h, Table(f, Positions(values, 2, 2)));
  };
  check(narrow);
  check(std::vector<std::int64_t>(narrow.begin(), narrow.end()));
  std::vector<double> real(narrow.begin(), narrow.end());
  real[0] = 0.25;
  check(real);
}

// q and k of one call by the slices of C++, with the elements before the block copied.
struct Calls : ::testing::TestWithParam<GridPoint> {
  static constexpr int head_dim = 13, first = 3;
  const Layout q_layout = bhtd(2, 3, 5, head_dim), k_layout = bthd(2, 5, 1, head_dim);
  DType dtype = std::get<0>(GetParam());
  Pairing pairing = std::get<1>(GetParam());
  Direction direction = std::get<2>(GetParam());
  Frequencies f = frequencies(Rope{.head_dim = 8, .pairing = pairing});
  Table rows{f, positions(1000, 5)};
  Bytes q = elements(q_layout), k = elements(k_layout);
  Handles h = handles_of(rope_of(8, constant_of(pairing)));
  rotary_options how = initialised(rotary_options_init);
  void SetUp() override {
    assign(h, run_of(1000, 5));
    how.direction = constant_of(direction);
  }

  Bytes elements(const Layout& l) const {
    Bytes x(bytes_of(l, dtype));
    for (std::int64_t i = 0; i < extent(l); ++i)
      set_bits(x.data(), dtype, i, oracle::narrow(static_cast<float>(i * 7 % 23 - 11) / 4, dtype));
    return x;
  }
  Heads q_of(Bytes& x) const { return {x.data(), dtype, q_layout}; }
  Heads k_of(Bytes& x) const { return {x.data(), dtype, k_layout}; }
  rotary_heads q_view(Bytes& x) const { return view_of(q_of(x), first); }
  rotary_heads k_view(Bytes& x) const { return view_of(k_of(x), first); }
  Bytes rotated(const Bytes& x, const Layout& l, const Table& by) const {
    Bytes y = x;
    rotate(slice(Heads{y.data(), dtype, l}, first, head_dim - first), by, {.direction = direction});
    return y;
  }
};

TEST_P(Calls, InPlaceOutOfPlaceInPartsAndByAPoolGiveTheBitsOfCpp) {
  const Bytes wanted_q = rotated(q, q_layout, rows), wanted_k = rotated(k, k_layout, rows);
  for (const int parts : {1, 7}) {
    how.parts = parts;
    for (const bool in_place : {true, false}) {
      Bytes from_q = q, from_k = k, to_q(q.size()), to_k(k.size()), alone(q.size());
      const rotary_heads xq = q_view(from_q), xk = k_view(from_k), yq = q_view(to_q), yk = k_view(to_k);
      for (how.part = parts - 1; how.part >= 0; --how.part) {
        if (!in_place) expect_ok(rotary_rotate(&xq, address(q_view(alone)), h.table, &how));
        expect_ok(rotary_rotate_qk(&xq, in_place ? nullptr : &yq, &xk, in_place ? nullptr : &yk, h.table, &how));
      }
      EXPECT_EQ(in_place ? from_q : to_q, wanted_q);
      EXPECT_EQ(in_place ? from_k : to_k, wanted_k);
      EXPECT_EQ(in_place ? wanted_q : alone, wanted_q);
    }
  }
  rotary_pool* pool = nullptr;
  expect_ok(rotary_pool_make(3, &pool));
  how.part = 0, how.parts = 1, how.pool = pool;
  expect_ok(rotary_rotate(address(q_view(q)), nullptr, h.table, &how));
  EXPECT_EQ(q, wanted_q);
  rotary_pool_free(pool);
}

TEST_P(Calls, QueriesTimesTheirFactorsAreThoseOfCpp) {
  std::vector<float> scale;
  for (int i = 0; i < 10; ++i) scale.push_back(1 + 0.3F * static_cast<float>(i));
  how.query_scale = scale.data();
  for (const std::size_t factors : {5U, 10U}) {
    how.query_scales = static_cast<std::int64_t>(factors);
    Bytes wanted_q = q, wanted_k = k, in_place = q, to_q(q.size()), to_k(k.size());
    rotate_qk(q_of(wanted_q), k_of(wanted_k), rows, {.direction = direction, .first = first},
              std::span(scale).first(factors));
    EXPECT_NE(wanted_q, rotated(q, q_layout, rows));
    const rotary_heads x = q_view(in_place), xk = k_view(k), yk = k_view(to_k);
    expect_ok(rotary_rotate_qk(&x, address(q_view(to_q)), &xk, &yk, h.table, &how));
    expect_ok(rotary_rotate_qk(&x, nullptr, &xk, &yk, h.table, &how));
    EXPECT_EQ(to_q, wanted_q);
    EXPECT_EQ(to_k, wanted_k);
    EXPECT_EQ(in_place, wanted_q);
  }
  const rotary_heads x = q_view(q), y = k_view(k);
  const auto call = [&] { return rotary_rotate_qk(&x, nullptr, &y, nullptr, h.table, &how); };
  how.query_scales = 4;
  expect_refused(call(), ROTARY_SHAPE, "2 x 5, but got 4");
  how.query_scales = 0;
  expect_refused(call(), ROTARY_SHAPE, "query_scales must be at least 1");
  how.query_scales = 5;
  expect_refused(rotary_rotate(&x, nullptr, h.table, &how), ROTARY_VALUE, "must not have a query_scale");
  how.parts = 2;
  expect_refused(call(), ROTARY_VALUE, "both a query_scale and parts");
}

TEST_P(Calls, FirstIsASliceWhoseFrontIsCopied) {
  const Bytes wanted = rotated(q, q_layout, rows);
  Bytes out(q.size()), other(q.size()), k_out(k.size());
  RotateOptions options{.direction = direction, .first = first};
  rotate(ConstHeads(q_of(q)), q_of(out), rows, options);
  EXPECT_EQ(out, wanted);
  rotate_qk({q_of(q), q_of(other)}, {k_of(k), k_of(k_out)}, rows, options);
  EXPECT_EQ(other, wanted);
  EXPECT_EQ(k_out, rotated(k, k_layout, rows));
  if (direction == Direction::forward) {  // by a rope, whose block begins there too
    Bytes of_q = q, of_k = k;
    rotate_qk(q_of(of_q), k_of(of_k), {.head_dim = head_dim, .rotary_dim = 8, .pairing = pairing}, 1000, options);
    EXPECT_EQ(of_q, wanted);
    EXPECT_EQ(of_k, rotated(k, k_layout, rows));
  }
  for (const int wrong : {head_dim + 1, 6}) {  // 8 elements do not fit behind 6
    options.first = wrong;
    EXPECT_EQ(code_of([&] { rotate(q_of(out), rows, options); }), Code::SHAPE);
  }
  EXPECT_EQ(out, wanted);
}

// Rows of every type, written cos and sin side by side with a gap, by numbers that rise, fall, repeat and jump.
TEST_P(Calls, RowsByNumberAreThoseOfATable) {
  const std::vector<std::int32_t> each{7, 8, 9, 3, 3, 39, 37, 0, 2, 4}, shared{14, 12, 10, 12, 15};
  for (const DType type : dtypes) {
    const std::size_t size = size_of(type);
    Bytes cache(40 * 11 * size, std::byte{0x5a});
    auto given = rows_of(cache.data(), cache.data() + 5 * size, 11, 40, 4);
    given.dtype = constant_of(type), given.pairing = constant_of(pairing);
    const rotary_positions all = run_of(0, 40);
    const auto write = [&](std::int64_t stride) {
      return rotary_rows_write(h.frequencies, &all, cache.data(), cache.data() + 5 * size, given.dtype, stride,
                               ROTARY_EXACT);
    };
    expect_ok(write(11));
    EXPECT_EQ(cache[4 * size], std::byte{0x5a}) << "between the rows";
    expect_refused(write(3), ROTARY_SHAPE, "at least the 4 pairs");
    expect_refused(rotary_rows_write(h.frequencies, &all, nullptr, cache.data(), given.dtype, 11, ROTARY_EXACT),
                   ROTARY_SHAPE, "cos must point to its elements but got null");
    expect_refused(rotary_rows_write(h.frequencies, &all, cache.data(), nullptr, given.dtype, 11, ROTARY_EXACT),
                   ROTARY_SHAPE, "sin must point to its elements but got null");
    for (const auto& [numbers, batch] : {std::pair(each, 2), std::pair(shared, 1)}) {
      const Table wanted(f, Positions(numbers, 1, batch), {Angles::exact, static_cast<Rounding>(type)});
      const Bytes wanted_q = rotated(q, q_layout, wanted), wanted_k = rotated(k, k_layout, wanted);
      const rotary_positions at = positions_of(numbers, batch);
      const Handles other = handles_of(rope_of(8));
      expect_ok(rotary_table_assign_rows(other.table, &given, &at));
      expect_rows(other, wanted);
      for (const int parts : {1, 3, 11}) {
        Bytes got_q = q, got_k(k.size()), alone = q;
        how.parts = parts;
        for (how.part = 0; how.part < parts; ++how.part) {
          expect_ok(rotary_rotate_qk_rows(address(q_view(got_q)), nullptr, address(k_view(k)), address(k_view(got_k)),
                                          &given, &at, &how));
          expect_ok(rotary_rotate_qk_rows(address(q_view(alone)), nullptr, nullptr, nullptr, &given, &at, &how));
        }
        EXPECT_EQ(got_q, wanted_q) << name(type) << parts;
        EXPECT_EQ(got_k, wanted_k) << name(type) << parts;
        EXPECT_EQ(alone, wanted_q) << name(type) << parts;
      }
      const Rows by{given.cos, given.sin, type, 4, pairing, 11, 40, Positions(numbers, 1, batch)};
      const ThreadPool pool(2);
      const RotateOptions options{.direction = direction, .first = first, .executor = &pool};
      Bytes in_place = q, out(q.size());
      rotate(q_of(in_place), by, options);
      rotate(ConstHeads(q_of(q)), q_of(out), by, options);
      EXPECT_EQ(in_place, wanted_q);
      EXPECT_EQ(out, wanted_q);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Grid, Calls, grid, grid_name);

// ---- packed tensors and caches ----

// Tokens that append to a cache of zeros, in C and in C++.
struct Appends {
  Handles h = handles_of(rope_of(8));
  Table rows{frequencies(Rope{.head_dim = 8, .pairing = Pairing::half}), positions(0, 5)};
  std::vector<float> qkv = counted(5 * 4 * 8);
  Appends() { assign(h, run_of(0, 5)); }

  ConstHeads part(std::int64_t first, std::int64_t heads, int head_dim = 8) const {
    Layout l = thd(5, heads, head_dim);
    l.token_stride = 32;
    return {qkv.data() + first, DType::f32, l};
  }
  void expect_same(Cache cache, const Slots& slots, const ConstHeads& k, const ConstHeads& v, int first = 0) const {
    SCOPED_TRACE(name(cache.type));
    const ConstHeads q = part(0, 1, 8 + first);
    std::vector<float> q_out(5 * 16), wanted_q(5 * 16), memory(500), wanted(500);
    const auto to = [&](std::vector<float>& out) { return heads(out, thd(5, 1, q.layout.head_dim)); };
    cache.k_scale = 0.5F, cache.v_scale = 2;
    cache.k = wanted.data(), cache.v = cache.k_offset > 0 ? wanted.data() : wanted.data() + 250;
    rotate_append(q, to(wanted_q), k, v, rows, cache, slots, {.first = first});
    cache.k = memory.data(), cache.v = cache.k_offset > 0 ? memory.data() : memory.data() + 250;
    expect_ok(rotary_rotate_append(address(view_of(q, first)), address(view_of(to(q_out), first)), address(view_of(k)),
                                   v.data == nullptr ? nullptr : address(view_of(v)), h.table,
                                   address(cache_of(cache, slots)), nullptr));
    EXPECT_EQ(q_out, wanted_q);
    EXPECT_TRUE(same_bits(memory, wanted));
    EXPECT_NE(wanted, std::vector<float>(500));
  }
};

TEST(C, PackedTensorsAndCaches) {
  Appends call;
  std::vector<float> out = call.qkv, wanted = call.qkv;
  const auto part = [](std::vector<float>& qkv, std::int64_t first, std::int64_t count) {
    Heads some{qkv.data() + first * 8, DType::f32, thd(5, 4, 8)};
    some.layout.heads = count;
    return some;
  };
  rotate_qk(part(wanted, 0, 2), part(wanted, 2, 1), call.rows);
  expect_ok(rotary_rotate_qk(address(view_of(part(out, 0, 2))), nullptr, address(view_of(part(out, 2, 1))), nullptr,
                             call.h.table, nullptr));
  EXPECT_EQ(out, wanted);

  const std::vector<std::int64_t> slots{3, -1, 8, 0, 9}, firsts{1};
  const std::vector<std::int32_t> narrow{4, 1, 3, -2, 9}, indptr{0, 2, 3}, indices{2, 0, 1}, sequence{0, 0, 1, -1, 0},
      place{0, 3, 1, 0, 9};
  const Slots paged = Slots::paged(indptr.data(), indices.data(), sequence.data(), place.data(), 2);
  const ConstHeads k = call.part(16, 1), v = call.part(24, 1);
  for (const CacheType type : {CacheType::same, CacheType::f8_e4m3, CacheType::f32, CacheType::f16, CacheType::bf16}) {
    for (const Slots& to :
         {Slots::flat(slots.data()), Slots::flat(narrow.data()), Slots::rows(0), Slots::each_row(firsts.data()), paged})
      call.expect_same(nhd(nullptr, nullptr, 3, 6, 1, 8, type), to, k, v);
  }
  call.expect_same(hnd(nullptr, nullptr, 3, 6, 1, 8, CacheType::same, 12), paged, k, call.part(4, 1, 12));
  // Rows of 12 elements of a latent, then the key; without the latent they stay 0.
  const Cache latent = latent_rows(nullptr, 3, 6, 12, 8);
  call.expect_same(latent, Slots::flat(slots.data()), k, call.part(4, 1, 12), 3);
  call.expect_same(latent, Slots::flat(slots.data()), k, Heads{}, 3);
  auto cache = initialised(rotary_cache_init);
  expect_ok(rotary_latent_rows(&cache, nullptr, 3, 6, 12, 8));
  const rotary_cache same = cache_of(latent, {});
  EXPECT_EQ(std::memcmp(&cache, &same, sizeof cache), 0);
  expect_refused(rotary_latent_rows(&cache, nullptr, 3, 6, 0, 8), ROTARY_SHAPE, "latent_dim");
  expect_refused(rotary_latent_rows(nullptr, nullptr, 3, 6, 12, 8), ROTARY_VALUE, "cache must not be null");

  std::vector<float> memory(500);
  cache = cache_of(nhd(memory.data(), memory.data() + 250, 3, 6, 1, 8), paged);
  const auto append = [&](int first) {
    return rotary_rotate_append(address(view_of(call.part(0, 1))), address(view_of(out, thd(5, 1, 8))),
                                address(view_of(k, first)), address(view_of(v)), call.h.table, &cache, nullptr);
  };
  expect_refused(append(1), ROTARY_SHAPE, "k must have first 0 but got 1");
  cache.sequences = 1;
  expect_refused(append(0), ROTARY_SHAPE, "below the 1 sequences");
  cache.skip_missing = 1;
  expect_ok(append(0));
  cache.firsts = firsts.data();
  expect_refused(append(0), ROTARY_SHAPE, "slots must be given by firsts, by a slot mapping or by pages");
}

// The fields that take constants, in calls of which all else is right.
struct Fields {
  rotary_rope rope = rope_of(4);
  rotary_positions at = run_of(0, 2);
  std::int32_t angles = ROTARY_EXACT, rounding = ROTARY_F32, between = ROTARY_F32, borrowed = ROTARY_HALF,
               write_angles = ROTARY_EXACT, write_dtype = ROTARY_F32;
  rotary_rows rows{};
  rotary_heads x{};
  rotary_options options = initialised(rotary_options_init);
  rotary_cache cache{};
};

// The first status of these calls that is not OK.
rotary_status call_with(const std::function<void(Fields&)>& change) {
  static const std::vector<std::int64_t> zeros(2);  // positions of any type
  std::vector<float> x(8), k(8), v(8), k_cache(8), v_cache(8), cos(4), sin(4);
  Fields f;
  f.rope.trained_length = 8;
  f.at.values = zeros.data(), f.at.type = ROTARY_INT64;
  f.rows = rows_of(k_cache.data(), v_cache.data(), 2, 2, 2);
  f.x = view_of(x, thd(2, 1, 4));
  f.cache = cache_of(nhd(k_cache.data(), v_cache.data(), 1, 2, 1, 4), Slots::rows(0));
  change(f);
  const Handles h = handles_of(rope_of(4)), other = handles_of(rope_of(4));
  assign(h, run_of(0, 2));
  const rotary_positions two = run_of(0, 2);
  const rotary_heads from_q = view_of(x, thd(2, 1, 4)), from_k = view_of(k, thd(2, 1, 4)),
                     from_v = view_of(v, thd(2, 1, 4));
  Handles made;
  for (const rotary_status status :
       {rotary_frequencies_make(&f.rope, 8, &made.frequencies),
        rotary_table_assign(other.table, h.frequencies, &f.at, f.angles, f.rounding),
        rotary_table_between(other.table, h.frequencies, &two, h.frequencies, &two, f.between),
        rotary_table_borrow(other.table, cos.data(), sin.data(), 2, 2, f.borrowed, 1),
        rotary_table_assign_rows(other.table, &f.rows, &two),
        rotary_rows_write(h.frequencies, &two, cos.data(), sin.data(), f.write_dtype, 2, f.write_angles),
        rotary_rotate(&f.x, nullptr, h.table, &f.options),
        rotary_rotate_append(&from_q, nullptr, &from_k, &from_v, h.table, &f.cache, nullptr)}) {
    if (status != ROTARY_OK) return status;
  }
  return ROTARY_OK;
}

TEST(C, AFieldRefusesTheConstantsOfEveryOtherKind) {
  using Constants = std::vector<std::int32_t>;
  const Constants pairings{ROTARY_HALF, ROTARY_INTERLEAVED, ROTARY_INTERLEAVED_TO_HALF},
      scalings{ROTARY_UNSCALED, ROTARY_LINEAR, ROTARY_NTK,          ROTARY_NTK_FIXED, ROTARY_DYNAMIC,    ROTARY_YARN,
               ROTARY_LONGROPE, ROTARY_LLAMA3, ROTARY_PROPORTIONAL, ROTARY_YARN_LOG,  ROTARY_THETA_SCALE},
      position_types{ROTARY_RUN, ROTARY_INT32, ROTARY_INT64, ROTARY_DOUBLE}, angles{ROTARY_EXACT, ROTARY_FLOAT32},
      types{ROTARY_F32, ROTARY_F16, ROTARY_BF16}, ways{ROTARY_FORWARD, ROTARY_BACKWARD},
      stores{ROTARY_AUTOMATIC, ROTARY_CACHED, ROTARY_STREAMING},
      caches{ROTARY_CACHE_SAME, ROTARY_CACHE_F8_E4M3, ROTARY_CACHE_F32, ROTARY_CACHE_F16, ROTARY_CACHE_BF16};
  Constants constants{ROTARY_OK, ROTARY_SHAPE, ROTARY_DTYPE, ROTARY_INTERNAL, -1, 999};
  for (const Constants& kind : {pairings, scalings, position_types, angles, types, ways, stores, caches}) {
    for (const std::int32_t constant : kind) {
      EXPECT_EQ(std::ranges::count(constants, constant), 0) << constant;
      constants.push_back(constant);
    }
  }
  struct Field {
    const char* name;
    const Constants& taken;
    void (*set)(Fields&, std::int32_t);
  };
  const Field fields[] = {
      {"rope.pairing", pairings, [](Fields& f, std::int32_t c) { f.rope.pairing = c; }},
      {"rope.scaling", scalings,
       [](Fields& f, std::int32_t c) {
         static constexpr double factors[] = {1, 2};
         f.rope.scaling = c;
         if (c == ROTARY_LONGROPE) f.rope.short_factor = f.rope.long_factor = factors;
       }},
      {"positions.type", position_types,
       [](Fields& f, std::int32_t c) {
         f.at.type = c;
         if (c == ROTARY_RUN) f.at.values = nullptr;
       }},
      {"angles", angles, [](Fields& f, std::int32_t c) { f.angles = c; }},
      {"rounding", types, [](Fields& f, std::int32_t c) { f.rounding = c; }},
      {"between's rounding", types, [](Fields& f, std::int32_t c) { f.between = c; }},
      {"borrow's pairing", pairings, [](Fields& f, std::int32_t c) { f.borrowed = c; }},
      {"rows.dtype", types, [](Fields& f, std::int32_t c) { f.rows.dtype = c; }},
      {"rows.pairing", pairings, [](Fields& f, std::int32_t c) { f.rows.pairing = c; }},
      {"write's angles", angles, [](Fields& f, std::int32_t c) { f.write_angles = c; }},
      {"write's dtype", types, [](Fields& f, std::int32_t c) { f.write_dtype = c; }},
      {"heads.dtype", types, [](Fields& f, std::int32_t c) { f.x.dtype = c; }},
      {"options.direction", ways, [](Fields& f, std::int32_t c) { f.options.direction = c; }},
      {"options.stores", stores, [](Fields& f, std::int32_t c) { f.options.stores = c; }},
      {"cache.type", caches, [](Fields& f, std::int32_t c) { f.cache.type = c; }},
  };
  for (const Field& field : fields) {
    for (const std::int32_t constant : constants) {
      const rotary_status status = call_with([&](Fields& f) { field.set(f, constant); });
      EXPECT_EQ(status == ROTARY_OK, std::ranges::count(field.taken, constant) == 1)
          << field.name << " = " << constant << ": " << (status == ROTARY_OK ? "" : rotary_error());
    }
  }
}

TEST(C, TablesBetweenTwoRopesAndShiftsGiveTheBitsOfCpp) {
  rotary_rope rope = rope_of(8);
  const Handles from = handles_of(rope);
  rope.base = 500;
  const Handles to = handles_of(rope, 1);
  const Frequencies f = frequencies({.head_dim = 8, .pairing = Pairing::half}),
                    g = frequencies({.head_dim = 8, .base = 500, .pairing = Pairing::half});
  const rotary_positions at = run_of(100, 3);
  const std::vector<std::int32_t> moved = {4, 0, -9};
  rotary_positions then = positions_of(moved);
  expect_ok(rotary_table_between(to.table, from.frequencies, &at, to.frequencies, &then, ROTARY_BF16));
  expect_rows(to, between(f, positions(100, 3), g, moved, {Angles::exact, Rounding::bf16}));
  then.tokens = 2;
  expect_refused(rotary_table_between(to.table, from.frequencies, &at, to.frequencies, &then, ROTARY_F32), ROTARY_SHAPE,
                 "the same number of tokens");

  const std::vector<std::int32_t> indptr{0, 2, 3}, indices{2, 0, 1}, lengths{4, 2};
  const Table turn = between(f, 1, f, 0);
  expect_ok(rotary_table_between(from.table, from.frequencies, address(run_of(1, 1)), from.frequencies,
                                 address(run_of(0, 1)), ROTARY_F32));
  std::vector<float> k = counted(3 * 2 * 8), v = k, wanted_k = k, wanted_v = k;
  const Layout pages = bthd(3, 2, 1, 8);
  const rotary_heads of_k = view_of(k, pages), of_v = view_of(v, pages);
  auto sequences = initialised(rotary_sequences_init);
  sequences.indptr = indptr.data(), sequences.indices = indices.data(), sequences.lengths = lengths.data();
  sequences.sequences = 2;
  shift(heads(wanted_k, pages), heads(wanted_v, pages), turn, 1, 1,
        Sequences::paged(indptr.data(), indices.data(), lengths.data(), 2));
  expect_ok(rotary_shift(&of_k, &of_v, from.table, 1, 1, &sequences, nullptr));
  shift(heads(wanted_k, pages), Heads{}, turn, 0, 1);
  expect_ok(rotary_shift(&of_k, nullptr, from.table, 0, 1, nullptr, nullptr));
  EXPECT_EQ(k, wanted_k);
  EXPECT_EQ(v, wanted_v);
  EXPECT_NE(v, counted(3 * 2 * 8));
  expect_refused(rotary_shift(&of_k, nullptr, from.table, -1, 1, nullptr, nullptr), ROTARY_SHAPE, "keep");
  const rotary_cache cache = cache_of(nhd(k.data(), v.data(), 3, 2, 1, 8), {});
  shift(heads(wanted_k, pages), heads(wanted_v, pages), turn, 0, 1,
        Sequences::paged(indptr.data(), indices.data(), lengths.data(), 2));
  expect_ok(rotary_shift_cache(&cache, ROTARY_F32, from.table, 0, 1, &sequences, nullptr));
  EXPECT_EQ(k, wanted_k);
  EXPECT_EQ(v, wanted_v);
  sequences.reserved = 1;
  expect_refused(rotary_shift_cache(&cache, ROTARY_F32, from.table, 0, 1, &sequences, nullptr), ROTARY_VALUE,
                 "sequences's reserved field must be 0 but got 1");
}

TEST(C, SumsPhasesAmplitudesAndRowsPerHeadGiveTheBitsOfCpp) {
  const std::vector<double> speeds{1, 0.5, 2, 0.25, -1, 3, 0.75, 0.1, 0.3, 0.2, -0.4, 7}, phase{0, 1, 2, 3, 4, 5};
  rotary_rope given = rope_of(6);
  given.head_rows = 2, given.summed_axes = 2;
  given.inv_freq = speeds.data(), given.phase = phase.data();
  const Rope rope{
      .head_dim = 6, .pairing = Pairing::half, .inv_freq = speeds, .head_rows = 2, .summed_axes = 2, .phase = phase};
  const std::vector<std::int64_t> places{0, 5, -7, 3, 2, 1};
  const Handles h = handles_of(given, 3);
  EXPECT_EQ(rotary_frequencies_pairs(h.frequencies), 3);
  assign(h, positions_of(places, 1, 2));
  const Table wanted(frequencies(rope), Positions(places, 2));
  expect_rows(h, wanted);

  std::vector<float> x(3 * 4 * 6, 1.5F), y = x, z = x;
  const Layout l = thd(3, 4, 6);
  expect_ok(rotary_rotate(address(view_of(x, l)), nullptr, h.table, nullptr));
  rotate(heads(y, l), wanted);
  EXPECT_EQ(x, y);
  auto rows = rows_of(wanted.cos().data(), wanted.sin().data(), 6, 3, 3);
  rows.head_rows = 2;
  const rotary_positions numbers = run_of(0, 3);
  const Handles by = handles_of(rope_of(8));
  expect_ok(rotary_table_assign_rows(by.table, &rows, &numbers));
  expect_rows(by, wanted);
  const rotary_heads others = view_of(z, l);
  expect_ok(rotary_rotate_qk_rows(&others, nullptr, nullptr, nullptr, &rows, &numbers, nullptr));
  EXPECT_EQ(z, y);

  given = rope_of(6);
  given.xpos_scale = 4, given.xpos_center = 1000, given.xpos_reciprocal = 1;
  const Handles keys = handles_of(given, 3);
  assign(keys, run_of(1001, 3));
  expect_rows(keys, Table(frequencies(Rope{.head_dim = 6, .pairing = Pairing::half, .xpos = {4, 1000, true}}),
                          positions(1001, 3)));
  expect_ok(rotary_table_rows(keys.table, &rows));
  EXPECT_EQ(rows.xpos, 1);
  expect_ok(rotary_rotate_qk_rows(&others, nullptr, nullptr, nullptr, &rows, &numbers, nullptr));
  expect_refused(rotary_rotate_qk_rows(address(view_of(x, l)), nullptr, &others, nullptr, &rows, &numbers, nullptr),
                 ROTARY_SCALING, "have no xPos");
}

// One table of all positions, and threads that rotate by its rows at a time, each with numbers of its own.
TEST(C, RowsOfOneTableServeSeveralThreads) {
  const Handles h = handles_of(rope_of(8));
  assign(h, run_of(0, 30));
  auto rows = initialised(rotary_rows_init);
  expect_ok(rotary_table_rows(h.table, &rows));
  EXPECT_EQ(rows.rows, 30);
  const auto expect_same = [&](const std::vector<std::int32_t>& at) {
    std::vector<float> q(5 * 3 * 8, 1.5f), k(5 * 8, -2.0f), wanted_q = q, wanted_k = k;
    const Table table(frequencies({.head_dim = 8, .pairing = Pairing::half}), at);
    const rotary_positions numbers = positions_of(at);
    const rotary_heads x = view_of(q, thd(5, 3, 8)), y = view_of(k, thd(5, 1, 8));
    for (int step = 0; step < 100; ++step) {
      expect_ok(rotary_rotate_qk_rows(&x, nullptr, &y, nullptr, &rows, &numbers, nullptr));
      rotate_qk(heads(wanted_q, thd(5, 3, 8)), heads(wanted_k, thd(5, 1, 8)), table);
    }
    EXPECT_EQ(q, wanted_q);
    EXPECT_EQ(k, wanted_k);
  };
  std::thread first(expect_same, std::vector{7, 8, 9, 0, 29}), second(expect_same, std::vector{3, 3, 21, 1, 2});
  first.join(), second.join();
  std::vector<float> q(5 * 3 * 8);
  const rotary_positions beyond = run_of(26, 5);
  const rotary_heads x = view_of(q, thd(5, 3, 8));
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
  expect_ok(rotary_rotate(address(view_of(x, thd(2, 1, 8))), nullptr, h.table, nullptr));
  EXPECT_EQ(x, (std::vector<float>{-2, 1, -4, 3, -6, 5, -8, 7, -2, 1, -4, 3, -6, 5, -8, 7}));
}

TEST(C, RefusesWithACodeAndASentenceOfThisThread) {
  rotary_frequencies* f = nullptr;
  auto rope = rope_of(8, 0);
  expect_refused(rotary_frequencies_make(&rope, 0, &f), ROTARY_PAIRING, "pairing");
  EXPECT_EQ(f, nullptr);
  rope.pairing = ROTARY_HALF;
  for (const int head_dim : {0, -2, 7, std::numeric_limits<int>::max()}) {
    expect_refused(rotary_frequencies_make(address(rope_of(head_dim)), 0, &f), ROTARY_SHAPE, "[frequencies]");
  }
  auto wrong = rope;
  wrong.scaling = 11;
  expect_refused(rotary_frequencies_make(&wrong, 0, &f), ROTARY_SCALING,
                 "scaling must be one from ROTARY_UNSCALED to ROTARY_THETA_SCALE");
  wrong = rope, wrong.factor = 8;
  expect_refused(rotary_frequencies_make(&wrong, 0, &f), ROTARY_VALUE,
                 "factor is set but the scaling does not read it");
  wrong = rope, wrong.summed_axes = 257, wrong.inv_freq = &wrong.base;
  expect_refused(rotary_frequencies_make(&wrong, 0, &f), ROTARY_SHAPE, "summed_axes must be from 0 to 256 but got 257");
  wrong = rope, wrong.head_dim = 2000000000, wrong.axis = reinterpret_cast<const std::uint8_t*>(&wrong.base);
  expect_refused(rotary_frequencies_make(&wrong, 0, &f), ROTARY_SHAPE, "head_dim must be from 1 to 2^20");
  expect_refused(rotary_frequencies_make(nullptr, 0, &f), ROTARY_VALUE, "rope must not be null");
  expect_refused(rotary_frequencies_make(&rope, 0, nullptr), ROTARY_VALUE, "frequencies must not be null");
  rotary_rope raw{};
  expect_refused(rotary_frequencies_make(&raw, 0, &f), ROTARY_VALUE, "must be filled by its _init function");

  Handles h = handles_of(rope_of(8));
  std::vector<float> x(16);
  const rotary_heads heads = view_of(x, thd(2, 1, 8));
  expect_refused(rotary_rotate(&heads, nullptr, h.table, nullptr), ROTARY_SHAPE, "table has 0 rows");
  expect_refused(rotary_rotate(&heads, nullptr, nullptr, nullptr), ROTARY_VALUE, "table must not be null");
  auto options = initialised(rotary_options_init);
  assign(h, run_of(0, 2));
  options.query_scales = 2;
  expect_refused(rotary_rotate(&heads, nullptr, h.table, &options), ROTARY_VALUE, "query_scale must not be null");
  options.query_scales = 0, options.part = 3, options.parts = 3;
  expect_refused(rotary_rotate(&heads, nullptr, h.table, &options), ROTARY_VALUE, "part must be from 0");
  auto at = run_of(0, 2);
  const auto expect_refused_at = [&](const std::string& rule) {
    expect_refused(rotary_table_assign(h.table, h.frequencies, &at, ROTARY_EXACT, ROTARY_F32), ROTARY_VALUE, rule);
  };
  at.type = ROTARY_INT64;
  expect_refused_at("values of the positions must not be null");
  const std::int64_t numbers[] = {5, 6};
  at.values = numbers, at.first = 5;
  expect_refused_at("first must be 0 where positions have values but got 5");
  at.type = ROTARY_RUN;
  expect_refused_at("must be null where their type is ROTARY_RUN");
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
TEST(C, NullsAndShortStructsAreNotWritten) {
  std::vector<std::uint32_t> four(1);  // with nothing behind it that a sanitizer lets be written
  auto* const shorter = reinterpret_cast<rotary_heads*>(four.data());
  rotary_heads_init(shorter, sizeof(std::uint32_t));
  expect_ok(rotary_heads_order(shorter, "bthd"));
  rotary_heads_init(nullptr, sizeof(rotary_heads));
  rotary_options_init(nullptr, 4);
  EXPECT_EQ(rotary_table_cos(nullptr), nullptr);
  EXPECT_EQ(rotary_table_tokens(nullptr), 0);
  EXPECT_EQ(rotary_table_head_rows(nullptr), 0);
  EXPECT_EQ(rotary_frequencies_pairs(nullptr), 0);
  EXPECT_EQ(rotary_frequencies_inv_freq(nullptr), nullptr);
  // A stride that was not set would take row 0 for every token.
  std::vector<float> q(8), cos(8), sin(8);
  const rotary_heads x = view_of(heads(q, thd(1, 1, 8)));
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
