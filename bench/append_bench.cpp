// rotate_append beside its parts, rotate_qk in place and then a copy of k and v to their places by memcpy (with
// conversions: by append). Prints the median microseconds of each, and their ratio.
//   append_bench [SECONDS_PER_CASE] [PART_OF_A_NAME]
// 32 heads of q and 8 of k and v of 128 elements. Prefill: 2048 tokens in memory that is far larger than the caches;
// decode: one token of each sequence, in the first cache; layers: the same, in memory of another layer each time.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "apps/rotary/bench/measure.h"
#include "rotary/cache.h"

namespace {

using namespace rotary;
using Index = std::int64_t;

constexpr int head_dim = 128, page_size = 16;
constexpr Index q_heads = 32, kv_heads = 8;

enum class Form { pages, head_pages, contiguous };

struct Case {
  const char* name;
  DType dtype;
  CacheType type;
  Index batch, tokens;
  Form form;
  bool far = true;  // memory of another layer each time
};

// The tensors and caches of many layers, of which each run takes the next.
class Layers {
 public:
  explicit Layers(const Case& c)
      : case_(c),
        tokens_(c.batch * c.tokens),
        pages_(c.tokens == 1 ? tokens_ : (tokens_ + page_size - 1) / page_size),
        each_(size_of(c.dtype)),
        cached_(c.type == CacheType::same      ? each_
                : c.type == CacheType::f8_e4m3 ? 1
                                               : 2),
        q_bytes_(static_cast<std::size_t>(tokens_ * q_heads * head_dim) * each_),
        kv_bytes_(static_cast<std::size_t>(tokens_ * kv_heads * head_dim) * each_),
        cache_bytes_(static_cast<std::size_t>(pages_ * page_size * kv_heads * head_dim) * cached_),
        set_(std::max(q_bytes_ + 2 * kv_bytes_ + 2 * cache_bytes_, std::size_t{2} << 20)),
        sets_(c.far ? std::clamp<std::size_t>((std::size_t{1200} << 20) / set_, 2, 512) : 1),
        memory_(arena_.reserve(set_ * sets_)) {
    std::memset(memory_, 0x3c, set_ * sets_);  // a number near 0.01 as f32 and bf16, near 1 as f16
    for (Index i = 0; i < tokens_; ++i) {
      const Index page = c.tokens == 1 ? i * 7 % tokens_ : i / page_size * 37 % pages_;
      slots.push_back(c.form == Form::contiguous ? i : page * page_size + (c.tokens == 1 ? 3 : i % page_size));
    }
  }

  void next() { layer_ = (layer_ + 1) % sets_; }
  Heads q() const { return {at(0), case_.dtype, bthd(case_.batch, case_.tokens, q_heads, head_dim)}; }
  Heads k() const { return {at(q_bytes_), case_.dtype, kv_layout()}; }
  Heads v() const { return {at(q_bytes_ + kv_bytes_), case_.dtype, kv_layout()}; }
  Cache cache() const {
    std::byte* const keys = at(q_bytes_ + 2 * kv_bytes_);
    std::byte* const values = keys + cache_bytes_;
    if (case_.form == Form::contiguous) {
      return nhd(keys, values, 1, static_cast<int>(tokens_), kv_heads, head_dim, case_.type);
    }
    return case_.form == Form::pages ? nhd(keys, values, pages_, page_size, kv_heads, head_dim, case_.type)
                                     : hnd(keys, values, pages_, page_size, kv_heads, head_dim, case_.type);
  }

  // What a caller writes who has rotated k in place.
  void copy() const {
    const Cache c = cache();
    if (case_.type != CacheType::same) return append(k(), v(), c, Slots::flat(slots.data()));
    const std::size_t head = head_dim * each_, token = kv_heads * head;
    const char *keys = static_cast<const char*>(k().data), *values = static_cast<const char*>(v().data);
    char *to_k = static_cast<char*>(c.k), *to_v = static_cast<char*>(c.v);
    if (case_.form == Form::contiguous) {
      std::memcpy(to_k, keys, kv_bytes_);
      std::memcpy(to_v, values, kv_bytes_);
      return;
    }
    for (Index i = 0; i < tokens_; ++i) {
      const auto slot = static_cast<std::size_t>(slots[static_cast<std::size_t>(i)]),
                 from = static_cast<std::size_t>(i);
      if (case_.form == Form::pages) {
        std::memcpy(to_k + slot * token, keys + from * token, token);
        std::memcpy(to_v + slot * token, values + from * token, token);
        continue;
      }
      for (std::size_t h = 0; h < kv_heads; ++h) {
        const std::size_t place = ((slot / page_size * kv_heads + h) * page_size + slot % page_size) * head;
        std::memcpy(to_k + place, keys + from * token + h * head, head);
        std::memcpy(to_v + place, values + from * token + h * head, head);
      }
    }
  }

  std::vector<Index> slots;

 private:
  std::byte* at(std::size_t byte) const { return memory_ + layer_ * set_ + byte; }
  Layout kv_layout() const { return bthd(case_.batch, case_.tokens, kv_heads, head_dim); }

  const Case& case_;
  Index tokens_, pages_;
  std::size_t each_, cached_, q_bytes_, kv_bytes_, cache_bytes_, set_, sets_;
  cli::bench::Arena arena_;
  std::byte* const memory_;
  std::size_t layer_ = 0;
};

void measure(const Case& c, double seconds) {
  Layers layers(c);
  Rope rope;
  rope.head_dim = head_dim;
  rope.pairing = Pairing::half;
  const Table table(frequencies(rope), positions(0, c.tokens));
  const Slots slots = Slots::flat(layers.slots.data());
  std::vector<cli::bench::Call> calls;
  const auto add = [&](const auto& work) {  // in the memory of the next layer each time
    calls.push_back([&layers, work] {
      work();
      layers.next();
    });
  };
  add([&] { rotate_append(layers.q(), layers.k(), layers.v(), table, layers.cache(), slots); });
  add([&] {
    rotate_qk(layers.q(), layers.k(), table);
    layers.copy();
  });
  add([&] { rotate_qk(layers.q(), layers.k(), table); });
  add([&] { append(layers.k(), layers.v(), layers.cache(), slots); });
  std::vector<double> us = cli::bench::median_seconds(calls, {.seconds = seconds, .sample = 1e-3}, true).seconds;
  for (double& each : us) each *= 1e6;
  std::printf("%-28s rotate_append %10.2f us  rotate_qk and copy %10.2f  ratio %.2f   rotate_qk %10.2f  append %9.2f\n",
              c.name, us[0], us[1], us[1] / us[0], us[2], us[3]);
  std::fflush(stdout);
}

constexpr DType f32 = DType::f32, bf16 = DType::bf16;
constexpr CacheType same = CacheType::same;
constexpr Case cases[] = {
    {"prefill bf16 pages", bf16, same, 1, 2048, Form::pages},
    {"prefill bf16 contiguous", bf16, same, 1, 2048, Form::contiguous},
    {"prefill bf16 HND pages", bf16, same, 1, 2048, Form::head_pages},
    {"prefill f32 pages", f32, same, 1, 2048, Form::pages},
    {"prefill f32 contiguous", f32, same, 1, 2048, Form::contiguous},
    {"prefill f32 in bf16 pages", f32, CacheType::bf16, 1, 2048, Form::pages},
    {"prefill f32 in f16 contiguous", f32, CacheType::f16, 1, 2048, Form::contiguous},
    {"prefill f32 in e4m3 pages", f32, CacheType::f8_e4m3, 1, 2048, Form::pages},
    {"decode 1 bf16", bf16, same, 1, 1, Form::pages, false},
    {"decode 1 f32", f32, same, 1, 1, Form::pages, false},
    {"decode 1 f32 in bf16", f32, CacheType::bf16, 1, 1, Form::pages, false},
    {"decode 32 bf16", bf16, same, 32, 1, Form::pages, false},
    {"decode 32 f32", f32, same, 32, 1, Form::pages, false},
    {"decode 32 f32 in bf16", f32, CacheType::bf16, 32, 1, Form::pages, false},
    {"layers decode 1 bf16", bf16, same, 1, 1, Form::pages},
    {"layers decode 1 f32", f32, same, 1, 1, Form::pages},
    {"layers decode 32 bf16", bf16, same, 32, 1, Form::pages},
    {"layers decode 32 f32", f32, same, 32, 1, Form::pages},
};

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1.5;
  const std::string part = argc > 2 ? argv[2] : "";
  for (const Case& c : cases) {
    if (std::string(c.name).find(part) != std::string::npos) measure(c, seconds);
  }
}
