// append and rotate_append on every target against the reference and plain loops, bit for bit; what is not a slot keeps
// its bytes.
#include <gtest/gtest.h>

#include "core/tests/support/caches.h"
#include "core/tests/support/splits.h"
#include "cpu/targets.h"
#include "rotary/reference.h"
#include "rotary/threads.h"
#include "rotate/refuse.h"

namespace rotary::tests {

using namespace detail;
namespace {

struct Tensor {
  Tensor(Random& random, const Layout& sizes, bool may_broadcast)
      : dtype(dtypes[random() % 3]),
        layout(random_layout(random, sizes.batch, sizes.tokens, sizes.heads, sizes.head_dim, may_broadcast)),
        data(hard_values(random, dtype, extent(layout))) {}
  ConstHeads view() const { return {data.data(), dtype, layout}; }
  DType dtype;
  Layout layout;
  Bytes data;
};

// A call, its inputs and what it must give.
struct RandomAppend {
  RandomAppend(Random& random, bool large)
      : batch(1 + below(random, 3)),
        tokens(random() % 24 == 0  ? 0
               : random() % 3 == 0 ? 1
                                   : 1 + below(random, large ? 300 : 20)),
        pairs(1 + below(random, below(random, 12) == 0 ? 300 : 40)),
        head_dim(2 * pairs + (random() % 2 == 0 ? 0 : below(random, 9))),
        v_head_dim(random() % 3 == 0 ? 1 + below(random, 80) : 0),
        first(head_dim == 2 * pairs && random() % 3 == 0 ? below(random, 20) : 0),
        kv_heads(random() % 20 == 0 ? 0 : 1 + below(random, 4)),
        with_v(random() % 10 != 0),
        q(random, {batch, tokens, kv_heads * below(random, 4), first + 2 * pairs + below(random, 6), 0, 0, 0}, false),
        k(random, {batch, tokens, kv_heads, head_dim, 0, 0, 0}, true),
        v(random, {batch, tokens, with_v ? kv_heads : 0, v_head_dim > 0 ? v_head_dim : head_dim, 0, 0, 0}, true),
        q_out(random, q.layout, false),
        in_place(random() % 2 == 0),
        direction(directions[random() % 2]),
        table(random_table_by_head(random, tokens, pairs, pairings[random() % 3],
                                   random() % 2 == 0 ? 1 : static_cast<int>(batch),
                                   random() % 3 == 0 ? std::max<std::int64_t>(1, kv_heads) : 1)),
        to(random, cache_types, k.dtype, v.dtype, kv_heads, head_dim, batch, tokens, v_head_dim),
        slots(random, to.shape, batch, tokens, true),
        k_memory(to.k.size()),
        v_memory(to.v.size()),
        cache(to.at(k_memory.at_end(to.k.size()), v_memory.at_end(to.v.size()), to.scales.data())) {
    q_out.dtype = q.dtype;
    q_out.data = Bytes(bytes_of(q_out.layout, q.dtype));
    fill_signalling(q_out.data.data(), q.dtype, extent(q_out.layout));
    if (in_place) q_out.layout = q.layout, q_out.data = q.data;
    if (!with_v) cache.v = nullptr;
  }

  // Rotates by the reference, appends by hand.
  void expect(bool rotated) {
    const Layout near = bthd(batch, tokens, kv_heads, head_dim);
    Bytes turned(bytes_of(near, k.dtype));
    ConstHeads from = k.view();
    if (rotated) {
      reference::rotate(k.view(), {turned.data(), k.dtype, near}, table, direction);
      from = {turned.data(), k.dtype, near};
      wanted_q = q_out.data;
      const ConstHeads source(in_place ? wanted_q.data() : q.data.data(), q.dtype, q.layout);
      const Heads wanted{wanted_q.data(), q.dtype, q_out.layout};
      const int rest = q.layout.head_dim - first;
      reference::rotate(slice(source, first, rest), slice(wanted, first, rest), table, direction);
      copy_heads(slice(source, 0, first), slice(wanted, 0, first));
    }
    to.append(from, v.view(), slots.slot);
  }
  void empty_cache() const {
    const Bytes k_before = patterned(to.k.size()), v_before = patterned(to.v.size());
    std::copy(k_before.begin(), k_before.end(), static_cast<std::byte*>(cache.k));
    if (with_v) std::copy(v_before.begin(), v_before.end(), static_cast<std::byte*>(cache.v));
  }
  void check_cache(bool rotated) const {
    ASSERT_TRUE(same_cache(cache.k, to.k, cache, k.dtype, rotated ? 2 * pairs : 0)) << "of keys";
    if (!with_v) return;
    ASSERT_TRUE(same_cache(cache.v, to.v, oracle::v_side(cache), v.dtype, 0)) << "of values";
  }

  std::int64_t batch, tokens;
  int pairs, head_dim, v_head_dim, first;
  std::int64_t kv_heads;
  bool with_v;
  Tensor q, k, v, q_out;
  bool in_place;
  Direction direction;
  Table table;
  RandomCache<Host> to;
  RandomSlots slots;
  Guarded k_memory, v_memory;
  Cache cache;
  Bytes wanted_q;
};

void rotate_append_on(const RandomAppend& call, const Executor& executor) {
  Bytes out = call.q_out.data, k = call.k.data, v = call.v.data;
  const Heads q_out{out.data(), call.q.dtype, call.q_out.layout};
  const RotateOptions options{.direction = call.direction, .first = call.first, .executor = &executor};
  if (call.in_place) {
    rotate_append(q_out, call.k.view(), call.v.view(), call.table, call.cache, call.slots.host(), options);
  } else {
    rotate_append(call.q.view(), q_out, call.k.view(), call.v.view(), call.table, call.cache, call.slots.host(),
                  options);
  }
  ASSERT_TRUE(same(out.data(), call.wanted_q.data(), call.q.dtype, extent(call.q_out.layout),
                   rotated_elements(call.q_out.layout, call.first + 2 * call.pairs)));
  EXPECT_EQ(k, call.k.data);
  EXPECT_EQ(v, call.v.data);
}

// On every target, each by another split of the work.
template <class Run>
void compare(RandomAppend& call, bool rotated, std::uint64_t seed, const Run& run) {
  static const ThreadPool two(2), three(3);
  const Shuffled shuffled(seed);
  const Executor* const executors[] = {&serial(), &two, &three, &shuffled};
  call.expect(rotated);
  for (const std::string_view target : running_targets()) {
    SCOPED_TRACE(std::string(target));
    const Using forced(target);
    call.empty_cache();
    run(*executors[seed++ % std::size(executors)]);
    call.check_cache(rotated);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(RotateAppend, IsTheReferenceAndPlainLoopsWhateverTheCall) {
  Random random(21);
  for (int round = 0; round < 1500; ++round) {
    SCOPED_TRACE(round);
    RandomAppend call(random, round % 10 == 0);
    compare(call, true, random(), [&](const Executor& executor) { rotate_append_on(call, executor); });
    if (HasFatalFailure()) return;
  }
}

TEST(Append, IsPlainLoopsWhateverTheCall) {
  Random random(22);
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(round);
    RandomAppend call(random, round % 10 == 0);
    compare(call, false, random(), [&](const Executor& executor) {
      append(call.k.view(), call.v.view(), call.cache, call.slots.host(), {.executor = &executor});
    });
    if (HasFatalFailure()) return;
  }
}

// Heads that a stage holds one at a time, and some of.
TEST(RotateAppend, WideAndManyHeadsAreConverted) {
  Random random(24);
  for (const auto& [heads, head_dim] : {std::pair<std::int64_t, int>{2, 4096}, {3, 4096 - 2}, {40, 192}, {130, 128}}) {
    const Layout l = bthd(1, 3, heads, head_dim);
    const Bytes x = hard_values(random, DType::f32, extent(l));
    const Table table = random_table(random, 3, head_dim / 2, Pairing::interleaved);
    Bytes turned(x.size()), q = x;
    reference::rotate({x.data(), DType::f32, l}, {turned.data(), DType::f32, l}, table);
    const std::size_t bytes = static_cast<std::size_t>(4 * heads * head_dim) * 2;
    Bytes k(bytes), v(bytes), wanted(bytes);
    const Cache cache = nhd(k.data(), v.data(), 1, 4, heads, head_dim, CacheType::bf16);
    oracle::append({turned.data(), DType::f32, l}, cache, wanted, 1, {1, 2, 3});
    rotate_append({q.data(), DType::f32, l}, {x.data(), DType::f32, l}, {x.data(), DType::f32, l}, table, cache,
                  Slots::rows(1));
    ASSERT_TRUE(same_cache(k.data(), wanted, cache, DType::f32, head_dim));
  }
}

// ---- the kernel alone: lengths, alignments, and stores past the caches ----

TEST(Transfer, EveryTargetConvertsEveryLengthAsTheDefinition) {
  Random random(25);
  constexpr std::int64_t most = 2100;
  Guarded in_memory(most * 4 + 64), out_memory(most * 4 + 64);
  for (const DType from : dtypes) {
    for (const CacheType type : cache_types) {
      for (int round = 0; round < 120; ++round) {
        const std::int64_t count = round < 100 ? round : 100 + below(random, most - 100);
        const std::size_t each = oracle::bytes_in(type, from), bytes = static_cast<std::size_t>(count) * each;
        const Layout l = thd(1, 1, static_cast<int>(count));
        const Bytes x = hard_values(random, from, count);
        Cache cache = nhd(nullptr, nullptr, 1, 1, 1, static_cast<int>(count), type);
        Bytes wanted(bytes);
        const float scale = round % 2 == 0 ? 1.0f : 0.37f;
        oracle::append({x.data(), from, l}, cache, wanted, scale, {0});
        std::byte* const in = in_memory.at_end(x.size());
        std::copy(x.begin(), x.end(), in);
        for (const bool stream : {false, true}) {
          for (const std::string_view target : running_targets()) {
            SCOPED_TRACE(std::string(target) + (stream ? ", past the caches" : "") + ", " + name(from) + " to " +
                         name(type) + ", " + std::to_string(count));
            const Using forced(target);
            std::byte* const out = round % 3 == 0 ? out_memory.at_start() + each : out_memory.at_end(bytes);
            std::memset(out, 0x55, bytes);
            const std::optional<DType> to = oracle::type_in(type, from);
            cpu::transfer_of(cpu::chosen())(
                {in, out, from, {!to, to.value_or(DType::f32)}, stream, scale, 1, 1, count, 0, 0, 0, 0});
            ASSERT_TRUE(same_cache(out, wanted, cache, from, 0));
          }
        }
      }
    }
  }
}

// With a scale of 1: every boundary of e4m3.
TEST(Transfer, EveryValueOfSixteenBitsBecomesItsE4m3) {
  for (const DType from : {DType::f16, DType::bf16}) {
    Bytes x(65536 * 2);
    for (std::uint32_t i = 0; i < 65536; ++i) set_bits(x.data(), from, i, i);
    const Layout l = thd(1, 1, 65536);
    const Cache cache = nhd(nullptr, nullptr, 1, 1, 1, 65536, CacheType::f8_e4m3);
    for (const float scale : {1.0f, 0.0078125f, 1.7f}) {
      Bytes wanted(65536), got(65536);
      oracle::append({x.data(), from, l}, cache, wanted, scale, {0});
      for (const std::string_view target : running_targets()) {
        const Using forced(target);
        cpu::transfer_of(cpu::chosen())(
            {x.data(), got.data(), from, {true, DType::f32}, false, scale, 1, 1, 65536, 0, 0, 0, 0});
        ASSERT_TRUE(same_cache(got.data(), wanted, cache, from, false)) << target;
      }
    }
  }
}

}  // namespace
}  // namespace rotary::tests
