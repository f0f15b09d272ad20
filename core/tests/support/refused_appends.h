// Calls of append and rotate_append that break one rule, with the sentence of the error, and similar calls that break
// none. They hold for the host's memory and for a device's.
#pragma once

#include <gtest/gtest.h>

#include "core/tests/support/random_calls.h"
#include "rotary/cache.h"

namespace rotary::tests {

template <class Memory>
struct AppendCall {
  bool rotates = false;
  Heads q, q_out, k, v;
  const float *cos = nullptr, *sin = nullptr;  // [rows, pairs]
  std::int64_t rows = 3;
  int pairs = 8;
  CacheIn<Memory> cache;
  SlotsIn<Memory> slots;
};

template <class Memory>
struct JudgedAppend {
  const char* code;      // "": the call is accepted
  std::string sentence;  // behind "[operation] "
  AppendCall<Memory> call;

  void expect(const Outcome& got) const {
    const std::string wanted = *code == '\0' ? "let through" : call.rotates ? "[rotate_append] " : "[append] ";
    EXPECT_EQ(got.refused ? got.sentence : "let through", wanted + sentence);
    EXPECT_STREQ(got.refused ? rotary::name(got.code) : "", code) << got.sentence;
  }
};

// In `memory` of 64 KiB, in elements of f32: q from 0 on, k from 1024, v from 2048, q_out from 3072, the caches from
// 4096 and 6144, the table from 8192 and 8448. `nowhere`: 64 slots of -1.
template <class Memory>
class JudgedAppends {
 public:
  using Append = AppendCall<Memory>;
  using SlotsOf = SlotsIn<Memory>;

  JudgedAppends(std::byte* memory, const std::int64_t* nowhere) : memory_(memory), nowhere_(nowhere) {
    heads();
    caches();
    slots();
    overlaps();
    neighbours();
  }
  std::vector<JudgedAppend<Memory>> all;

  Append sound(bool rotates) const {
    Append call;
    call.rotates = rotates;
    call.q = at(0, bthd(2, 3, 4, 16)), call.q_out = at(3072, bthd(2, 3, 4, 16));
    call.k = at(1024, bthd(2, 3, 2, 16)), call.v = at(2048, bthd(2, 3, 2, 16));
    call.cos = floats(8192), call.sin = floats(8448);
    CacheIn<Memory>& c = call.cache;
    c.k = memory_ + 4 * 4096, c.v = memory_ + 4 * 6144;
    c.pages = 4, c.page_size = 4, c.heads = 2, c.head_dim = 16;
    c.page_stride = 128, c.token_stride = 32, c.head_stride = 16;
    call.slots = SlotsOf::flat(nowhere_);
    return call;
  }
  Heads at(std::int64_t element, const Layout& l) const { return {memory_ + 4 * element, DType::f32, l}; }
  const float* floats(std::int64_t element) const { return reinterpret_cast<const float*>(memory_ + 4 * element); }

 private:
  template <class Change>
  void add(const char* code, const std::string& sentence, bool rotates, const Change& change) {
    Append call = sound(rotates);
    change(call);
    all.push_back({code, sentence, call});
  }
  template <class Change>
  void append(const char* code, const std::string& sentence, const Change& change) {
    add(code, sentence, false, change);
  }
  template <class Change>
  void rotate_append(const char* code, const std::string& sentence, const Change& change) {
    add(code, sentence, true, change);
  }
  template <class Change>
  void meets(bool rotates, const std::string& written, const std::string& other, const Change& change) {
    add("ALIAS",
        "what is written to " + written + " must not overlap " + other +
            " but their elements overlap, or interleave with strides that are not the same",
        rotates, change);
  }
  static void* beyond(void* p, int bytes) { return static_cast<std::byte*>(p) + bytes; }

  void heads() {
    append("SHAPE", "v must have the shape of k, [2, 3, 2, 16], or no elements, but got [2, 3, 1, 16]",
           [](Append& c) { c.v.layout = bthd(2, 3, 1, 16); });
    append("SHAPE", "v must have no elements where k has none but got [2, 3, 2, 16]",
           [](Append& c) { c.k.layout.head_dim = 0, c.cache.v_head_dim = 16; });
    append("SHAPE", "k must point to its elements but got null", [](Append& c) { c.k.data = nullptr; });
    append("DTYPE", "v must be aligned to the 4 bytes of f32 but got an address 2 beyond",
           [](Append& c) { c.v.data = beyond(c.v.data, 2); });
    append("DTYPE", "dtype must be f32, f16 or bf16 but got value 9",
           [](Append& c) { c.k.dtype = static_cast<DType>(9); });
    append("SHAPE", "k token_stride must not be negative but got -1", [](Append& c) { c.k.layout.token_stride = -1; });
    append("SHAPE", "v token_stride must not be negative but got -32",
           [](Append& c) { c.v.layout.token_stride = -32; });
    rotate_append("SHAPE", "q_out must have the shape of q, [2, 3, 4, 16], but got [2, 3, 2, 16]",
                  [](Append& c) { c.q_out.layout = bthd(2, 3, 2, 16); });
    rotate_append("SHAPE", "table has 2 rows but q has 3 tokens", [](Append& c) { c.rows = 2; });
    rotate_append("SHAPE", "rotary_dim must be at most 16, the elements of a head from first on, but the table's is 18",
                  [](Append& c) { c.pairs = 9; });
  }

  void caches() {
    const auto cache = [&](const char* code, const char* sentence, const auto& change) {
      append(code, sentence, [&](Append& c) { change(c.cache); });
    };
    cache("SHAPE", "the cache must have pages of tokens but got 0 pages of 4", [](auto& c) { c.pages = 0; });
    cache("SHAPE", "the cache must have pages of tokens but got 4 pages of -4", [](auto& c) { c.page_size = -4; });
    cache("SHAPE", "the cache must have the heads and the head_dim of k, 2 and 16, but got 2 and 24",
          [](auto& c) { c.head_dim = 24; });
    rotate_append("SHAPE", "the cache must have the heads and the head_dim of k, 2 and 16, but got 3 and 16",
                  [](Append& c) { c.cache.heads = 3; });
    cache("SHAPE", "the cache's elements must be distinct but head_stride 15 steps over 16 elements",
          [](auto& c) { c.head_stride = 15; });
    cache("SHAPE", "the cache's token_stride must not be negative but got -32", [](auto& c) { c.token_stride = -32; });
    cache("SHAPE", "the cache's page_stride must not be negative but got -128", [](auto& c) { c.page_stride = -128; });
    cache("SHAPE", "the cache must span less than 2^63 bytes but got more",
          [](auto& c) { c.page_stride = std::int64_t{1} << 60; });
    cache("SHAPE", "the cache must span less than 2^63 bytes but got page_stride 4611686018427387903 times 4",
          [](auto& c) { c.page_stride = INT64_MAX / 2; });
    cache("SHAPE", "the cache's k must point to its elements but got null", [](auto& c) { c.k = nullptr; });
    cache("SHAPE", "the cache's v must point to its elements but got null", [](auto& c) { c.v = nullptr; });
    cache("DTYPE", "the cache's v must be aligned to 4 bytes but got an address 2 beyond",
          [](auto& c) { c.v = beyond(c.v, 2); });
    cache("SHAPE", "the cache's v must end inside the address space but spans 2048 bytes",
          [](auto& c) { c.v = reinterpret_cast<void*>(~std::uintptr_t{1023}); });

    const auto f8 = [&](const char* code, const char* sentence, const auto& change) {
      append(code, sentence, [&](Append& c) { c.cache.type = CacheType::f8_e4m3, change(c.cache); });
    };
    cache("", "", [](auto& c) { c.k_scale = 0; });  // nothing is scaled
    f8("VALUE", "k_scale must be finite and above 0 but got 0", [](auto& c) { c.k_scale = 0; });
    f8("VALUE", "v_scale must be finite and above 0 but got -2.5e-09", [](auto& c) { c.v_scale = -2.5e-9f; });
    f8("VALUE", "v_scale must be finite and above 0 but got inf",
       [](auto& c) { c.v_scale = std::numeric_limits<float>::infinity(); });
    f8("DTYPE", "scales must be aligned to 4 bytes but got an address 1 beyond",
       [&](auto& c) { c.scales = reinterpret_cast<const float*>(memory_ + 4 * 10000 + 1); });
    // A page_stride counts bytes for f8, four times as many for f32.
    f8("", "", [](auto& c) { c.pages = 2, c.page_stride = std::int64_t{1} << 61; });
  }

  void slots() {
    const auto* four = reinterpret_cast<const std::int32_t*>(nowhere_);
    const auto* odd = reinterpret_cast<const std::int32_t*>(reinterpret_cast<const char*>(nowhere_) + 2);
    const auto by = [&](const char* code, const char* sentence, const SlotsOf& slots) {
      append(code, sentence, [&](Append& c) { c.slots = slots; });
    };
    by("SHAPE", "slots must be given by a slot mapping or by pages but got neither", {});
    append("SHAPE", "slots must be given by a slot mapping or by pages but got both",
           [](Append& c) { c.slots.sequences = 1; });
    by("DTYPE", "the slot mapping must be aligned to 8 bytes but got an address 4 beyond",
       SlotsOf::flat(reinterpret_cast<const std::int64_t*>(four + 1)));
    by("SHAPE", "sequences must not be negative but got -1", SlotsOf::paged(four, four, four, four, -1));
    by("SHAPE", "indptr must point to its elements but got null", SlotsOf::paged(nullptr, four, four, four, 1));
    by("SHAPE", "indices must point to its elements but got null", SlotsOf::paged(four, nullptr, four, four, 1));
    by("SHAPE", "batch_indices must point to its elements but got null", SlotsOf::paged(four, four, nullptr, four, 1));
    by("SHAPE", "positions must point to its elements but got null", SlotsOf::paged(four, four, four, nullptr, 1));
    by("DTYPE", "indices must be aligned to 4 bytes but got an address 2 beyond",
       SlotsOf::paged(four, odd, four, four, 1));
    by("", "", SlotsOf::paged(four, four, four, four, 0));
  }

  void overlaps() {
    meets(false, "the cache's k", "the cache's v", [](Append& c) { c.cache.v = c.cache.k; });
    meets(false, "the cache's k", "the cache's v", [](Append& c) { c.cache.v = beyond(c.cache.k, 64); });
    meets(false, "the cache's k", "k", [](Append& c) { c.cache.k = c.k.data; });
    meets(false, "the cache's v", "v", [](Append& c) { c.cache.v = c.v.data; });
    meets(true, "q_out", "the cache's k", [](Append& c) { c.cache.k = c.q_out.data; });
    meets(true, "the cache's k", "q", [](Append& c) { c.cache.k = c.q.data; });
    meets(true, "q_out", "k", [](Append& c) { c.q_out.data = beyond(c.k.data, -32); });
    meets(true, "q_out", "v", [](Append& c) { c.q_out.data = beyond(c.v.data, 128); });
    add("ALIAS",
        "q and q_out must not overlap, or be the same with the same strides, but q_out begins 1 elements from q", true,
        [](Append& c) { c.q_out.data = beyond(c.q.data, 4); });
    meets(true, "the cache's k", "the table's cos",
          [](Append& c) { c.cos = static_cast<const float*>(c.cache.k) + 4; });
    meets(true, "the cache's v", "the table's sin", [](Append& c) { c.sin = static_cast<const float*>(c.cache.v); });

    const auto* four = reinterpret_cast<const std::int32_t*>(nowhere_);
    const auto* inside = reinterpret_cast<const std::int32_t*>(memory_ + 4 * 4096);  // the cache's k
    const auto slots = [&](const char* other, const SlotsOf& s) {
      meets(false, "the cache's k", other, [&](Append& c) { c.slots = s; });
    };
    slots("the slot mapping", SlotsOf::flat(reinterpret_cast<const std::int64_t*>(inside - 2)));
    slots("indptr", SlotsOf::paged(inside - 2, four, four, four, 2));
    slots("batch_indices", SlotsOf::paged(four, four, inside - 5, four, 1));
    slots("positions", SlotsOf::paged(four, four, four, inside, 1));
    append("", "", [&](Append& c) { c.slots = SlotsOf::paged(four, four, inside - 6, four, 0); });
    meets(true, "q_out", "the slot mapping",
          [](Append& c) { c.slots = SlotsOf::flat(static_cast<const std::int64_t*>(c.q_out.data)); });
  }

  void neighbours() {
    const auto both = [&](const auto& change) {
      append("", "", change);
      rotate_append("", "", change);
    };
    both([](Append&) {});
    both([](Append& c) { c.v = c.k; });  // both may be read from one memory
    both([](Append& c) { c.cache.v = beyond(c.cache.k, 4 * 128), c.cache.page_stride *= 2; });  // [pages, 2, ...]
    const auto interleaved = [](Append& c) {  // [pages, page_size, heads, 2 * head_dim]
      c.cache.v = beyond(c.cache.k, 4 * 16);
      c.cache.head_stride = 32, c.cache.token_stride = 64, c.cache.page_stride = 256;
    };
    both(interleaved);
    // Latent rows, [pages, page_size, heads, v_head_dim + head_dim]: v before k in one memory.
    const auto latent = [&](Append& c) {
      interleaved(c);
      c.cache.v = c.cache.k, c.cache.k_offset = c.cache.v_head_dim = 16;
      c.cache.v_page_stride = 256, c.cache.v_token_stride = 64, c.cache.v_head_stride = 32;
    };
    both(latent);
    for (const bool rotates : {false, true})
      meets(rotates, "the cache's k", "the cache's v", [&](Append& c) { latent(c), c.cache.k_offset = 15; });
    append("SHAPE", "k_offset and v_head_dim must not be negative but got -1 and 16",
           [&](Append& c) { latent(c), c.cache.k_offset = -1; });
    append("SHAPE", "the cache's elements must be distinct but token_stride 15 steps over 16 elements",
           [&](Append& c) { latent(c), c.cache.v_head_stride = 512, c.cache.v_token_stride = 15; });
    rotate_append("", "", [](Append& c) { c.q_out = c.q; });
    rotate_append("", "", [](Append& c) {  // the table on both sides of what is written, either way round
      c.cos = static_cast<const float*>(c.cache.k) - 24, c.sin = static_cast<const float*>(c.cache.v) + 512;
    });
    rotate_append("", "", [](Append& c) {
      c.sin = static_cast<const float*>(c.cache.k) - 24, c.cos = static_cast<const float*>(c.cache.v) + 512;
    });
    // Nothing is done without elements.
    append("", "", [](Append& c) { c.k = c.v = {nullptr, DType::f32, bthd(2, 3, 0, 16)}, c.cache = {}, c.slots = {}; });
    rotate_append("", "", [](Append& c) {
      c.k = c.v = {nullptr, DType::f32, bthd(2, 3, 0, 16)}, c.cache = {}, c.slots = {};
    });
    rotate_append("", "", [](Append& c) { c.q = c.q_out = {nullptr, DType::f32, bthd(2, 3, 0, 16)}; });
    rotate_append("", "", [](Append& c) {
      c.q = c.q_out = c.k = c.v = {nullptr, DType::f32, bthd(2, 0, 2, 16)}, c.rows = 0;
    });
  }

  std::byte* memory_;
  const std::int64_t* nowhere_;
};

}  // namespace rotary::tests
