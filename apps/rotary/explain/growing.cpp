// Chapter 15, the scalings that depend on the number of tokens in play: dynamic NTK and LongRoPE.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "apps/shared/text.h"
#include "chapters.h"
#include "numbers.h"

namespace rotary::cli {

namespace {

constexpr int head_dim = 128;
constexpr std::size_t pairs = 64;
constexpr std::int64_t trained = 4096;

Frequencies dynamic(std::int64_t length) {
  Rope rope;
  rope.head_dim = head_dim;
  rope.pairing = Pairing::interleaved;
  rope.scaling = Dynamic{2, trained};
  return frequencies(rope, length);
}

void say_dynamic(Page& page, const Frequencies& plain) {
  page.say(
      R"(The scalings of chapter 11 are chosen once, for all texts. Then a short text is stretched too, although the
      model could read it as it was trained. Two scalings look at the text first: their frequencies depend on the
      length, the number of tokens in play.)");
  page.heading("Dynamic NTK");
  page.say(R"(Within the trained length nothing changes. Beyond it, at length L, the base grows as NTK lets it, so far
      that the slowest pair is stretched by `factor * L / trained - (factor - 1)`: just 1 at the trained length, and
      more with every token. With factor 2 and 4096 trained tokens:)");
  std::vector<Cells> rows;
  for (const std::int64_t length : {1000, 4096, 4097, 6144, 8192, 16384, 32768}) {
    const Frequencies now = dynamic(length);
    // the base from pair 1: inv_freq is base^(-2/128)
    rows.push_back({std::to_string(length), fixed(std::pow(now.inv_freq[1], -64.0), 0),
                    fixed(plain.inv_freq[32] / now.inv_freq[32], 4), fixed(plain.inv_freq[63] / now.inv_freq[63], 4),
                    fixed(static_cast<double>(length - 1) * now.inv_freq[63], 4)});
  }
  page.table({"length", "base", "stretch of pair 32", "of pair 63", "its farthest angle"}, std::move(rows));
  page.say(R"(Factor 2 does not mean twice the length: at twice the length pair 63 is stretched by 3 already, and its
      farthest angle is smaller than any that ended a text in training, {}. The factor only says how fast the base
      grows.)",
           {fixed(4095 * plain.inv_freq[63], 4)});
  Plot plot;
  for (const std::int64_t length : {32768, 16384, 8192, 4096}) {
    const Frequencies now = dynamic(length);
    plot.lines.push_back(curve(std::to_string(length) + " tokens", static_cast<int>(pairs), [&](int pair) {
      const auto i = static_cast<std::size_t>(pair);
      return plain.inv_freq[i] / now.inv_freq[i];
    }));
  }
  page.picture(stretch_picture("15-dynamic", "How dynamic NTK stretches each pair at four lengths",
                               "Dynamic NTK, factor 2, trained on 4096 tokens", std::move(plot)));
}

void say_longrope(Page& page) {
  page.heading("LongRoPE");
  page.say(R"(LongRoPE (arXiv:2402.13753) has no formula for the stretch. A search tries lists, one number for each
      pair, keeps those with which the model reads long texts best, and changes them a little, many times over. A model
      comes with two lists: the short one is used up to the trained length, the long one beyond. Phi-3 with its 128k
      tokens is the best-known one. A made-up example of four pairs:)");
  const std::vector<double> short_list{1, 1.05, 1.1, 1.2}, long_list{1, 2.5, 12, 32};
  Rope rope;
  rope.head_dim = 8;
  rope.pairing = Pairing::half;
  rope.scaling =
      LongRope{.short_factor = short_list, .long_factor = long_list, .trained_length = trained, .factor = 32};
  const Frequencies plain = plain_frequencies(8);
  const Frequencies within = frequencies(rope, trained), beyond = frequencies(rope, trained + 1);
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < 4; ++i) {
    rows.push_back({std::to_string(i), fixed(plain.inv_freq[i], 6), fixed(short_list[i], 2), fixed(long_list[i], 2),
                    fixed(within.inv_freq[i], 6), fixed(beyond.inv_freq[i], 6)});
  }
  page.table({"pair", "inv_freq", "short", "long", "to 4096 tokens", "from 4097 on"}, std::move(rows));
  page.say(R"(The published lists rise as these do. The long list of Phi-3 begins near 1 and ends above 64, though the
      whole factor is 32: the search is free to do that. cos and sin are multiplied at every length by the root of 1 + ln(32) / ln(4096), which is {}.)",
           {fixed(beyond.attention_factor, 6)});
}

double mean(const Frequencies& of_q, std::int64_t m, const Frequencies& of_k, std::int64_t n) {
  Vector arrows(head_dim);
  for (std::size_t i = 0; i < pairs; ++i) arrows[2 * i] = 1;
  return dot(rotate_head(arrows, of_q, m), rotate_head(arrows, of_k, n)) / pairs;
}

void say_cache(Page& page, const Frequencies& plain) {
  page.heading("What stands in the cache");
  page.say(R"(Chapter 10 stores a key once it is turned. Here the frequencies change while the text grows, and the keys
      in the cache were turned with the old ones. A query at 8191, turned as dynamic NTK has it for 8192 tokens; keys
      that came when there were at most 4096. The mean cosine of the 64 pairs, with the keys turned anew and as the
      cache has them:)");
  const Frequencies now = dynamic(8192);
  std::vector<Cells> rows;
  for (const std::int64_t key : {4095, 4000, 3000, 1000, 0}) {
    rows.push_back({std::to_string(key), std::to_string(8191 - key), fixed(mean(now, 8191, now, key), 6),
                    fixed(mean(now, 8191, plain, key), 6)});
  }
  page.table({"key at", "distance", "turned anew", "from the cache"}, std::move(rows));
  page.say(R"(The second column is no longer a function of the distance: each pair is off by the key's position times
      what its frequency changed. The first key alone, at position 0, is right, because it never turned. Nothing
      fails; the text gets worse. Three ways out:)");
  page.item("store the keys unturned, and turn them when they are read;");
  page.item(
      "when the frequencies change, turn each stored key by its position times the change, as chapter 10 moves "
      "keys;");
  page.item(
      "decide for one length before the first token, and keep it: `frequencies(rope, length)` in the library, "
      "`--length` on the command line. vLLM and llama.cpp do that.");
  page.say(R"(A rope that depends on the length never gives frequencies without one: `frequencies(rope)` refuses. What
      the length does to a model:)");
  page.show(R"(
$ rotary inspect --base 10000 --pairing half --head-dim 128 \
    --scaling dynamic --factor 2 --trained-length 4096 --length 8192)");
}

}  // namespace

Page explain_growing() {
  const Frequencies plain = plain_frequencies(head_dim);
  Page page;
  say_dynamic(page, plain);
  say_longrope(page);
  say_cache(page, plain);
  return page;
}

}  // namespace rotary::cli
