// Calls of rotate and rotate_qk that break one rule, with the sentence of the error, and similar calls that break none.
// They hold for the host's memory and for a device's.
#pragma once

#include <gtest/gtest.h>

#include "core/tests/support/random_calls.h"

namespace rotary::tests {

struct JudgedCall {
  const char* code;      // "": the call is accepted
  std::string sentence;  // behind "[operation] "; "": any sentence
  RandomCall call;

  void expect(const Outcome& got, const std::string& operation) const {
    if (*code == '\0') {
      EXPECT_FALSE(got.refused) << got.sentence;
      return;
    }
    EXPECT_TRUE(got.refused) << "no error instead of " << sentence;
    EXPECT_STREQ(rotary::name(got.code), code) << got.sentence;
    if (!sentence.empty()) {
      EXPECT_EQ(got.sentence, "[" + operation + "] " + sentence);
    }
  }
};

// In and around `memory` of 64 KiB: q from element 0 on, k from 2048, q_out from 8192, k_out from 10240.
class JudgedCalls {
 public:
  explicit JudgedCalls(std::byte* memory) : memory_(memory) {
    rotate_in_place();
    rotate_out_of_place();
    rotate_qk_in_place();
    rotate_qk_out_of_place();
    rotate_parts_of_one_tensor();
  }
  std::vector<JudgedCall> all;

 private:
  using C = RandomCall;
  static constexpr const char* overlap =
      " but their elements overlap, or interleave with strides that are not the same";

  // Sound: q of 4 and k of 2 heads of 16 elements.
  C sound(C::Operation operation, bool in_place) const {
    C call;
    call.operation = operation;
    call.in_place = in_place;
    call.table = {Pairing::half, 8, 1, 3};
    for (std::size_t s = 0; s < 4; ++s) {
      call.sides[s] = {nullptr, DType::f32, bthd(2, 3, s % 2 == 0 ? 4 : 2, 16)};
      put(call.sides[s], std::array{0, 2048, 8192, 10240}[s]);
    }
    return call;
  }
  void put(Heads& side, std::int64_t element) const { side.data = memory_ + 4 * element; }
  template <class Change>
  void add(const char* code, const std::string& sentence, C call, const Change& change) {
    change(call);
    all.push_back({code, sentence, call});
  }
  template <class Change>
  void pass(C call, const Change& change) {
    add("", "", call, change);
  }

  // Heads that are refused whichever argument they are. name: the argument's; of: " of k", the owner of the written
  // elements in the sentence, or "".
  template <class Refuse>
  static void unusable_heads(const std::string& name, const std::string& of, const Refuse& refuse) {
    refuse("SHAPE", "sizes must not be negative but got [batch, tokens, heads, head_dim] = [2, 3, -1, 16]",
           [](Heads& h) { h.layout.heads = -1; });
    refuse("DTYPE", "dtype must be f32, f16 or bf16 but got value 9",
           [](Heads& h) { h.dtype = static_cast<DType>(9); });
    refuse("SHAPE", name + " must point to its elements but got null", [](Heads& h) { h.data = nullptr; });
    refuse("DTYPE", name + " must be aligned to the 4 bytes of f32 but got an address 2 beyond",
           [](Heads& h) { h.data = static_cast<std::byte*>(h.data) + 2; });
    refuse("SHAPE", "the written elements" + of + " must be distinct but head_stride 15 steps over 16 elements",
           [](Heads& h) { h.layout.head_stride = 15; });
    refuse("SHAPE", name + " must span less than 2^63 bytes but got more",
           [](Heads& h) { h.layout.batch_stride = std::int64_t{1} << 61; });
  }

  void rotate_in_place() {
    const C call = sound(C::one, true);
    const auto x = [&](const char* code, const std::string& sentence, const auto& change) {
      add(code, sentence, call, [&](C& c) { change(c.sides[C::q]); });
    };
    unusable_heads("x", "", x);
    pass(call, [](C&) {});
    add("SHAPE", "table has 2 rows but x has 3 tokens", call, [](C& c) { c.table.tokens = 2; });
    add("SHAPE", "table has 2 rows but x has 3 tokens", call,
        [](C& c) { c.table.tokens = 2, c.direction = Direction::backward; });
    add("SHAPE", "table has 3 batch rows but x has 2", call, [](C& c) { c.table.batch = 3; });
    add("SHAPE", "rotary_dim must be at most 16, the elements of a head from first on, but the table's is 18", call,
        [](C& c) { c.table.pairs = 9; });
    add("VALUE", "direction must be forward or backward but got value 2", call,
        [](C& c) { c.direction = static_cast<Direction>(2); });
    x("SHAPE", "", [](Heads& h) { h.layout.batch = -1; });
    x("SHAPE", "", [](Heads& h) { h.layout.batch_stride = 0; });
    x("SHAPE", "x token_stride must not be negative but got -64", [](Heads& h) { h.layout.token_stride = -64; });
    x("SHAPE", "", [](Heads& h) { h.layout.batch_stride = INT64_MAX; });
    // Without elements there is no memory; the strides of single rows do not matter.
    for (const Layout& l :
         {bthd(0, 3, 4, 16), bthd(2, 3, 0, 16), Layout{INT64_MAX, 3, 0, 16, INT64_MAX, INT64_MAX, INT64_MAX}}) {
      x("", "", [&](Heads& h) { h = {nullptr, DType::f32, l}; });
    }
    pass(call, [](C& c) {
      c.table.tokens = 1;
      c.sides[C::q].layout = {1, 1, 1, 16, -5, 0, INT64_MAX};
    });
  }

  void rotate_out_of_place() {
    const C call = sound(C::one, false);
    const auto out = [&](const char* code, const char* sentence, const auto& change) {
      add(code, sentence, call, [&](C& c) { change(c.sides[C::q_out]); });
    };
    out("SHAPE", "out must have the shape of x, [2, 3, 4, 16], but got [2, 3, 4, 17]",
        [](Heads& h) { h.layout = bthd(2, 3, 4, 17); });
    out("DTYPE", "x and out must have one dtype but got f32 and bf16", [](Heads& h) { h.dtype = DType::bf16; });
    out("ALIAS", "x and out must not overlap, or be the same with the same strides, but out begins 1 elements from x",
        [&](Heads& h) { put(h, 1); });
    out("ALIAS", "", [&](Heads& h) { put(h, 64); });
    add("SHAPE", "x token_stride must not be negative but got -64", call,
        [](C& c) { c.sides[C::q].layout.token_stride = -64; });
    add("DTYPE", "x must be aligned to the 4 bytes of f32 but got an address 2 beyond", call,
        [](C& c) { c.sides[C::q].data = static_cast<std::byte*>(c.sides[C::q].data) + 2; });
    out("ALIAS",
        "x and out must not overlap, or be the same with the same strides, but out begins 0 elements from x with other "
        "strides",
        [&](Heads& h) { put(h, 0), h.layout = bhtd(2, 4, 3, 16); });
    out("", "", [&](Heads& h) { put(h, 0); });
    out("", "", [&](Heads& h) { put(h, 2 * 3 * 4 * 16); });
    add("ALIAS", "", call, [&](C& c) { put(c.sides[C::q], 1), put(c.sides[C::q_out], 0); });
    pass(call, [](C& c) { c.sides[C::q].layout.batch_stride = 0; });  // a broadcast input can be read
    // Halves of heads in one memory.
    struct Halves {
      int from, to;
      const char* code;
    };
    for (const Halves& h : {Halves{0, 8, ""}, {8, 0, ""}, {0, 16 * 3 + 8, ""}, {0, 7, "ALIAS"}, {0, 16 * 3, "ALIAS"}}) {
      add(h.code, "", call, [&](C& c) {
        c.table.pairs = 4;
        for (const auto side : {C::q, C::q_out}) c.sides[side].layout.head_dim = 8;
        put(c.sides[C::q], h.from), put(c.sides[C::q_out], h.to);
      });
    }
  }

  void rotate_qk_in_place() {
    const C call = sound(C::qk, true);
    const auto k = [&](const char* code, const std::string& sentence, const auto& change) {
      add(code, sentence, call, [&](C& c) { change(c.sides[C::k]); });
    };
    unusable_heads("k", " of k", k);
    pass(call, [](C&) {});
    add("SHAPE", "table has 2 rows but q has 3 tokens", call, [](C& c) { c.table.tokens = 2; });
    add("SHAPE", "table has 3 rows but k has 4 tokens", call,
        [](C& c) { c.sides[C::k].layout = bthd(2, 4, 2, 16), c.direction = Direction::backward; });
    add("SHAPE", "table has 2 batch rows but k has 1", call,
        [](C& c) { c.sides[C::k].layout = bthd(1, 3, 2, 16), c.table.batch = 2; });
    add("SHAPE", "q token_stride must not be negative but got -64", call,
        [](C& c) { c.sides[C::q].layout.token_stride = -64; });
    add("VALUE", "direction must be forward or backward but got value 2", call,
        [](C& c) { c.direction = static_cast<Direction>(2); });
    add("", "", call, [](C& c) {  // nothing is done without tokens
      for (const auto side : {C::q, C::k}) c.sides[side] = {nullptr, DType::f32, thd(0, 6, 16)};
      c.table.tokens = 0;
    });
    k("SHAPE", "q and k must have one batch but got 2 and 1", [](Heads& h) { h.layout = bthd(1, 3, 2, 16); });
    k("SHAPE", "rotary_dim must be at most 14, the elements of a head from first on, but the table's is 16",
      [](Heads& h) { h.layout = bthd(2, 3, 2, 14); });
    k("ALIAS", std::string("what is written to q must not overlap k") + overlap, [&](Heads& h) { put(h, 64); });

    // q and k beside each other in one memory, from elements q_at and k_at on.
    const auto neighbours = [&](const char* code, std::int64_t q_at, const Layout& q, std::int64_t k_at,
                                const Layout& k_layout) {
      add(code, "", call, [&](C& c) {
        c.sides[C::q].layout = q, c.sides[C::k].layout = k_layout;
        put(c.sides[C::q], q_at), put(c.sides[C::k], k_at);
      });
    };
    const Layout thirds{2, 3, 4, 16, 3 * 4 * 48, 4 * 48, 48};  // [batch, tokens, heads, 3, head_dim]
    neighbours("", 0, thirds, 16, thirds);
    neighbours("", 16, thirds, 0, thirds);
    neighbours("ALIAS", 0, thirds, 15, thirds);
    neighbours("ALIAS", 0, thirds, 96, thirds);
    Layout two = thirds;
    two.heads = 2;
    neighbours("", 0, two, 96, two);  // heads 0 and 1 beside 2 and 3
    neighbours("ALIAS", 0, thirds, 96, two);
    // Grouped: [tokens, groups, 2 heads of q and one of k, head_dim], groups as the batch.
    const Layout group_q{4, 3, 2, 16, 48, 4 * 48, 16}, group_k{4, 3, 1, 16, 48, 4 * 48, 0};
    neighbours("", 0, group_q, 32, group_k);
    neighbours("ALIAS", 0, group_q, 16, group_k);
    // Extents that interleave with strides that do not nest are refused, though no element may be shared.
    neighbours("ALIAS", 0, {1, 3, 1, 16, 0, 64, 0}, 16, {1, 3, 1, 16, 0, 48, 0});
  }

  void rotate_qk_out_of_place() {
    const C call = sound(C::qk, false);
    const auto side = [&](const char* code, const std::string& sentence, C::Side which, const auto& change) {
      add(code, sentence, call, [&](C& c) { change(c.sides[which]); });
    };
    side("SHAPE", "k_out must have the shape of k, [2, 3, 2, 16], but got [2, 3, 3, 16]", C::k_out,
         [](Heads& h) { h.layout = bthd(2, 3, 3, 16); });
    add("SHAPE", "q_out must have the shape of q, [2, 3, 4, 16], but got [2, 3, 3, 16]", call, [&](C& c) {
      for (const auto s : {C::q, C::k, C::q_out, C::k_out}) c.sides[s].layout = bthd(2, 3, 6, 16);  // two tensors,
      for (const auto s : {C::q, C::k, C::q_out, C::k_out}) c.sides[s].layout.heads = std::array{4, 2, 3, 3}[s];
      put(c.sides[C::k], 4 * 16), put(c.sides[C::k_out], 8192 + 3 * 16);  // divided in two ways
    });
    side("DTYPE", "k and k_out must have one dtype but got f32 and bf16", C::k_out,
         [](Heads& h) { h.dtype = DType::bf16; });
    side("SHAPE", "q_out must point to its elements but got null", C::q_out, [](Heads& h) { h.data = nullptr; });
    side("ALIAS",
         "k and k_out must not overlap, or be the same with the same strides, but k_out begins 1 elements from k",
         C::k_out, [&](Heads& h) { put(h, 2049); });
    side("ALIAS", std::string("what is written to q_out must not overlap k_out") + overlap, C::k_out,
         [&](Heads& h) { put(h, 8192 + 64); });
    side("ALIAS", std::string("what is written to q_out must not overlap k") + overlap, C::q_out,
         [&](Heads& h) { put(h, 2048); });
    side("ALIAS", std::string("what is written to k_out must not overlap q") + overlap, C::k_out,
         [&](Heads& h) { put(h, 0); });
    side("", "", C::k, [&](Heads& h) { put(h, 0); });  // both may be read from one memory
  }

  // q, k and v in one tensor of 8 heads, in and out of place.
  void rotate_parts_of_one_tensor() {
    for (const bool in_place : {true, false}) {
      C call = sound(C::qk, in_place);
      for (std::size_t s = 0; s < 4; ++s) {
        call.sides[s].layout = bthd(2, 3, 8, 16);
        call.sides[s].layout.heads = s % 2 == 0 ? 4 : 2;
      }
      put(call.sides[C::k], 4 * 16), put(call.sides[C::k_out], 8192 + 4 * 16);
      const std::string q = in_place ? "q" : "q_out", k = in_place ? "k" : "k_out";
      const auto token_stride = [](C& c, std::int64_t stride) {
        for (Heads& side : c.sides) side.layout.token_stride = stride;
      };
      pass(call, [](C& c) { c.direction = Direction::backward; });
      pass(call, [&](C& c) { token_stride(c, 96); });
      add("", "", call, [](C& c) {
        c.table.tokens = 0;
        for (Heads& side : c.sides) side.data = nullptr, side.layout.tokens = 0;
      });
      add("SHAPE", "table has 2 rows but q has 3 tokens", call, [](C& c) { c.table.tokens = 2; });
      add("ALIAS", "what is written to " + q + " must not overlap " + k + overlap, call,
          [&](C& c) { token_stride(c, 80); });
      add("SHAPE", "the written elements of q must be distinct but token_stride 48 steps over 64 elements", call,
          [&](C& c) { token_stride(c, 48); });
      if (in_place) continue;
      add("SHAPE", "q_out must have the shape of q, [2, 3, 4, 16], but got [2, 3, 2, 16]", call,
          [](C& c) { c.sides[C::q_out].layout.heads = 2; });
    }
  }

  std::byte* memory_;
};

}  // namespace rotary::tests
