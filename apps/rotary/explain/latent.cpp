// Chapter 14, DeepSeek's reading order, and the small part of a head that turns in latent attention.
#include <cmath>
#include <string>
#include <vector>

#include "apps/shared/text.h"
#include "chapters.h"
#include "numbers.h"

namespace rotary::cli {

namespace {

constexpr Pairing to_half = Pairing::interleaved_to_half;

void say_order(Page& page, const Frequencies& speeds) {
  page.say(R"(Chapter 7 has two pairings, half and interleaved. Checkpoints of DeepSeek's family (V2, V3, Kimi K2,
      LongCat) hold interleaved pairs. Hugging Face's code for V3 first moves the even elements to the front and the
      odd ones behind them, then turns halves. Both in one step: pairs are read from neighbours and written half a
      head apart. The pairing has a name of its own here, interleaved_to_half.)");
  page.show(R"(
element        0   1   2   3   4   5   6   7

read           a   a   b   b   c   c   d   d      (x[2i], x[2i + 1])
written        a   b   c   d   a   b   c   d      (x[i], x[i + 4]))");
  const Vector x{1, 2, 3, 4};
  page.say("The head `{}` at position 3, both ways: the same numbers in other places.", {list(x, 0)});
  page.show(R"(
interleaved          {}
interleaved_to_half  {})",
            {list(rotate_head(x, speeds, 3, Pairing::interleaved), 4), list(rotate_head(x, speeds, 3, to_half), 4)});
}

void say_scores(Page& page, const Frequencies& speeds) {
  page.heading("What may be mixed, and what not");
  page.say(R"(A score adds products over all elements, so an order that `q` and `k` share does not show. The sample of
      chapter 7 again, `q = (1, 2, 3, 4)` and `k = (4, 1, 3, 2)` at distance 3:)");
  const Vector q{1, 2, 3, 4}, k{4, 1, 3, 2};
  struct Case {
    const char* words;
    Pairing of_q, of_k;
  };
  const std::vector<Case> cases = {{"both interleaved", Pairing::interleaved, Pairing::interleaved},
                                   {"both interleaved_to_half", to_half, to_half},
                                   {"q interleaved_to_half, k interleaved", to_half, Pairing::interleaved},
                                   {"both half: the move left out", Pairing::half, Pairing::half}};
  std::vector<Cells> rows;
  for (const Case& one : cases) {
    const auto at = [&](std::int64_t m, std::int64_t n) {
      return fixed(dot(rotate_head(q, speeds, m, one.of_q), rotate_head(k, speeds, n, one.of_k)), 4);
    };
    rows.push_back({one.words, at(7, 4), at(107, 104)});
  }
  page.table({"pairing", "at 7 and 4", "at 107 and 104"}, std::move(rows));
  page.item(R"(The first two rows agree: a model may be served either way. Its cached keys differ, though, so a cache
      cannot be passed from one engine to the other.)");
  page.item("The third is no RoPE at all, and the fourth is another one than the model was trained with.");
  page.say(R"(The order is read once. A key in the cache stands in halves already; to move it, as chapter 10 does, turn
      it as half. Key `{}`, stored at position 4 and moved to 3:)",
           {list(k, 0)});
  const Vector stored = rotate_head(k, speeds, 4, to_half);
  page.show(R"(
made fresh at 3                {}
moved as half                  {}
moved as interleaved_to_half   {}  wrong)",
            {list(rotate_head(k, speeds, 3, to_half), 5), list(rotate_head(stored, speeds, -1, Pairing::half), 5),
             list(rotate_head(stored, speeds, -1, to_half), 5)});
}

void say_latent(Page& page) {
  page.heading("A small part turns: MLA");
  page.say(R"(DeepSeek's attention (MLA, arXiv:2405.04434) stores no keys and values of heads. It stores one vector of
      512 numbers for each token, the latent, from which two matrices make the keys and values of all 128 heads. At
      the time of scoring nobody makes them: `q` times (matrix times latent) is (`q` times matrix) times latent, so the
      matrix goes to the side of the query.)");
  page.say(R"(A rotation would stand between the two, and it is another one for every token: the trick would be gone.
      So the head is split. 128 elements come from the latent and do not turn. 64 more turn, and their key is one for
      all heads. Only this key is stored turned:)");
  constexpr int query_heads = 128, still = 128, turning = 64, value = 128, latent = 512;
  const int usual = query_heads * (still + turning + value), stored = latent + turning;
  page.table({"in the cache, for a token of a layer", "numbers"},
             {{"keys of 128 heads, 128 + 64 each", with_separators(query_heads * (still + turning))},
              {"values of 128 heads, 128 each", with_separators(query_heads * value)},
              {"latent and turned key", with_separators(stored)}});
  page.say("That is {} numbers instead of {}, a factor of {}.",
           {with_separators(stored), with_separators(usual), fixed(static_cast<double>(usual) / stored, 1)});
  page.say(R"(To the library the turning block is the end of a head of 192 elements: `first` is 128, and the elements
      before it keep their bits.)");
  page.show(R"(
$ rotary inspect --base 10000 --pairing interleaved_to_half \
    --head-dim 192 --first 128)");
}

void say_softmax(Page& page) {
  page.heading("Where YaRN's factor went");
  const double magnitude = 0.1 * std::log(40.0) + 1;
  page.say(R"(V3 is stretched by YaRN with factor 40. Chapter 11 says that YaRN multiplies cos and sin; with factor 40
      that would be {}. But it would reach only the turning third of a head. So these models multiply the scale of the
      softmax instead, once for the whole score, by the square, {}, and leave the tables alone: `mscale` equals
      `mscale_all_dim`, whose quotient is the attention factor, 1. An engine that does both sharpens the turning part
      by {}.)",
           {fixed(magnitude, 6), fixed(magnitude * magnitude, 6), fixed(std::pow(magnitude, 4), 6)});
  Rope rope;
  rope.head_dim = 64;
  rope.pairing = to_half;
  Yarn yarn{40, 4096};
  const double alone = frequencies([&] {
                         rope.scaling = yarn;
                         return rope;
                       }())
                           .attention_factor;
  yarn.mscale = yarn.mscale_all_dim = 1;
  rope.scaling = yarn;
  page.table({"keys in the config", "attention factor of the tables"},
             {{"factor 40", fixed(alone, 6)},
              {"factor 40, mscale 1, mscale_all_dim 1", fixed(frequencies(rope).attention_factor, 6)}});
}

}  // namespace

Page explain_latent() {
  const Frequencies speeds = plain_frequencies(4);
  Page page;
  say_order(page, speeds);
  say_scores(page, speeds);
  say_latent(page);
  say_softmax(page);
  return page;
}

}  // namespace rotary::cli
