// rotate_append beside its parts, rotate_qk in place and then a copy of k and v to their places by memcpy (with
// conversions: by append). Prints the median microseconds of each, and their ratio.
// And shift beside memmove of the same bytes: 4096 tokens of 8 heads of k and of v, of which 4 stay and some leave.
//   append_bench [SECONDS_PER_CASE] [PART_OF_A_NAME]
// 32 heads of q and 8 of k and v of 128 elements. Prefill: 2048 tokens in memory that is far larger than the caches;
// decode: one token of each sequence, in the first cache; layers: the same, in memory of another layer each time.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "apps/rotary/bench/bench.h"
#include "rotary/cache.h"

namespace {

using namespace rotary;
using Index = std::int64_t;

constexpr Index q_heads = 32, kv_heads = 8, head_dim = 128, page_size = 16;
enum class Form { pages, head_pages, contiguous };

struct Case {
  const char* name;
  DType dtype;
  CacheType type;
  Form form;
  Index batch = 1, tokens = 2048;
  bool far = true;  // memory of another layer each time
};

struct Layer {
  Heads q, k, v;
  Cache cache;
};

std::vector<Layer> layers_of(const Case& c, Index pages, cli::bench::Arena& arena) {
  const auto each = static_cast<Index>(size_of(c.dtype)), row = c.batch * c.tokens * head_dim * each;
  const Index cached = c.type == CacheType::same ? each : c.type == CacheType::f8_e4m3 ? 1 : 2;
  const Index places = pages * page_size, cache_bytes = places * kv_heads * head_dim * cached;
  const Index set = std::max<Index>((q_heads + 2 * kv_heads) * row + 2 * cache_bytes, Index{2} << 20);
  const Index sets = c.far ? std::clamp<Index>((Index{1200} << 20) / set, 2, 512) : 1;
  std::byte* at = arena.reserve(static_cast<std::size_t>(set * sets));
  std::memset(at, 0x3c, static_cast<std::size_t>(set * sets));  // near 0.01 as f32 and bf16, near 1 as f16
  const bool whole = c.form == Form::contiguous;
  std::vector<Layer> layers;
  for (Index i = 0; i < sets; ++i, at += set) {
    const auto heads = [&](Index before, Index count) {
      return Heads{at + before * row, c.dtype, bthd(c.batch, c.tokens, count, head_dim)};
    };
    std::byte* const keys = at + (q_heads + 2 * kv_heads) * row;
    const auto cache = c.form == Form::head_pages ? hnd : nhd;
    layers.push_back({heads(0, q_heads), heads(q_heads, kv_heads), heads(q_heads + kv_heads, kv_heads),
                      cache(keys, keys + cache_bytes, whole ? 1 : pages, static_cast<int>(whole ? places : page_size),
                            kv_heads, head_dim, c.type)});
  }
  return layers;
}

// What a caller writes who has rotated k in place: as many heads at once as lie together in the cache.
void copy(const Case& c, const Layer& at, const std::vector<Index>& slots) {
  if (c.type != CacheType::same) return append(at.k, at.v, at.cache, Slots::flat(slots.data()));
  const Index all = c.batch * c.tokens * kv_heads, each = static_cast<Index>(size_of(c.dtype));
  const Index together = c.form == Form::contiguous ? all : c.form == Form::pages ? kv_heads : 1;
  for (Index i = 0; i < all; i += together) {
    const Index slot = slots[static_cast<std::size_t>(i / kv_heads)], size = at.cache.page_size;
    const Index to =
        slot / size * at.cache.page_stride + slot % size * at.cache.token_stride + i % kv_heads * at.cache.head_stride;
    const auto bytes = static_cast<std::size_t>(together * head_dim * each);
    const Index from = i * head_dim * each;
    std::memcpy(static_cast<char*>(at.cache.k) + to * each, static_cast<const char*>(at.k.data) + from, bytes);
    std::memcpy(static_cast<char*>(at.cache.v) + to * each, static_cast<const char*>(at.v.data) + from, bytes);
  }
}

void measure(const Case& c, double seconds) {
  cli::bench::Arena arena;
  const Index in_page = c.tokens == 1 ? 1 : page_size, pages = c.batch * c.tokens / in_page;
  std::vector<Index> slots;  // in pages in no order, or one after the other
  for (Index i = 0; i < c.batch * c.tokens; ++i)
    slots.push_back(c.form == Form::contiguous ? i : i / in_page * 37 % pages * page_size + i % in_page);
  const std::vector<Layer> layers = layers_of(c, pages, arena);
  const Table table(frequencies({.head_dim = head_dim, .pairing = Pairing::half}), positions(0, c.tokens));
  std::size_t next = 0;
  const auto in_turn = [&](auto work) { return [&, work] { work(layers[next++ % layers.size()]); }; };
  const Slots flat = Slots::flat(slots.data());
  const std::vector<cli::bench::Call> calls = {
      in_turn([&](const Layer& at) { rotate_append(at.q, at.k, at.v, table, at.cache, flat); }),
      in_turn([&](const Layer& at) { rotate_qk(at.q, at.k, table), copy(c, at, slots); })};
  const auto took = cli::bench::median_seconds(calls, {.seconds = seconds, .sample = 1e-3}, true).seconds;
  std::printf("%-28s rotate_append %10.2f us  rotate_qk and copy %10.2f  ratio %.2f\n", c.name, 1e6 * took[0],
              1e6 * took[1], took[1] / took[0]);
  std::fflush(stdout);
}

void measure_shift(const std::string& name, DType dtype, Index drop, double seconds) {
  constexpr Index tokens = 4096, keep = 4, token = kv_heads * head_dim;
  const Index each = static_cast<Index>(size_of(dtype));
  std::vector<std::byte> k(static_cast<std::size_t>(tokens * token * each), std::byte{0x3c}), v = k;
  const Frequencies f = frequencies({.head_dim = head_dim, .pairing = Pairing::half});
  const Table turn = between(f, drop, f, 0);
  const auto view = [&](std::vector<std::byte>& x) { return Heads{x.data(), dtype, thd(tokens, kv_heads, head_dim)}; };
  const auto move = [&](std::vector<std::byte>& x) {
    std::byte* const to = x.data() + keep * token * each;
    std::memmove(to, to + drop * token * each, static_cast<std::size_t>((tokens - keep - drop) * token * each));
  };
  const std::vector<cli::bench::Call> calls = {[&] { shift(view(k), view(v), turn, keep, drop); },
                                               [&] { move(k), move(v); }};
  const auto took = cli::bench::median_seconds(calls, {.seconds = seconds, .sample = 1e-3}, true).seconds;
  std::printf("%-28s shift %10.2f us  memmove %10.2f  ratio %.2f\n", name.c_str(), 1e6 * took[0], 1e6 * took[1],
              took[0] / took[1]);
}

constexpr DType f32 = DType::f32, bf16 = DType::bf16;
constexpr CacheType same = CacheType::same;
constexpr Case cases[] = {{"prefill bf16 pages", bf16, same, Form::pages},
                          {"prefill bf16 contiguous", bf16, same, Form::contiguous},
                          {"prefill bf16 HND pages", bf16, same, Form::head_pages},
                          {"prefill f32 pages", f32, same, Form::pages},
                          {"prefill f32 contiguous", f32, same, Form::contiguous},
                          {"prefill f32 in bf16 pages", f32, CacheType::bf16, Form::pages},
                          {"prefill f32 in f16 contiguous", f32, CacheType::f16, Form::contiguous},
                          {"prefill f32 in e4m3 pages", f32, CacheType::f8_e4m3, Form::pages},
                          {"decode 1 bf16", bf16, same, Form::pages, 1, 1, false},
                          {"decode 1 f32", f32, same, Form::pages, 1, 1, false},
                          {"decode 1 f32 in bf16", f32, CacheType::bf16, Form::pages, 1, 1, false},
                          {"decode 32 bf16", bf16, same, Form::pages, 32, 1, false},
                          {"decode 32 f32", f32, same, Form::pages, 32, 1, false},
                          {"decode 32 f32 in bf16", f32, CacheType::bf16, Form::pages, 32, 1, false},
                          {"layers decode 1 bf16", bf16, same, Form::pages, 1, 1},
                          {"layers decode 1 f32", f32, same, Form::pages, 1, 1},
                          {"layers decode 32 bf16", bf16, same, Form::pages, 32, 1},
                          {"layers decode 32 f32", f32, same, Form::pages, 32, 1}};

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1.5;
  const std::string part = argc > 2 ? argv[2] : "";
  for (const Case& c : cases) {
    if (std::string(c.name).find(part) != std::string::npos) measure(c, seconds);
  }
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Index drop : {1, 16, 256}) {
      const std::string name = std::string("shift ") + rotary::name(dtype) + " by " + std::to_string(drop);
      if (name.find(part) != std::string::npos) measure_shift(name, dtype, drop, seconds);
    }
  }
}
