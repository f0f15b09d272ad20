// Chapters 8 to 10, RoPE in models: many frequencies, partial rotation, the KV cache.
#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "apps/shared/text.h"
#include "chapters.h"
#include "numbers.h"

namespace rotary::cli {

namespace {

constexpr int head_dim = 128;
constexpr std::size_t pairs = 64;

double one_pair(const Frequencies& speeds, std::size_t pair, int distance) {
  const Vector arrow{1, 0};
  return score(arrow, distance, arrow, 0, {.inv_freq = {speeds.inv_freq.at(pair)}});
}

// Small whole numbers as sample data.
Vector vector_of_token(int token) {
  return {static_cast<float>(token * 3 % 5 - 2), static_cast<float>(token * 2 % 5 - 1), static_cast<float>(token % 3),
          static_cast<float>(1 - token % 2)};
}

// The mean of all pairs at every distance. It is the real part of the mean of e^(i distance inv_freq), so it lies
// between plus and minus that number's absolute value.
Plot decay_plot(const Frequencies& speeds) {
  Plot plot{.title = "The mean cosine of 64 pairs, base 10000",
            .x_label = "distance, tokens",
            .y_label = "mean cosine",
            .log_x = true,
            .lines = {{.name = "mean of all pairs", .points = {}},
                      {.name = "", .points = {{1, 0}, {1e5, 0}}, .guide = true}}};
  plot.bands = {{"envelope", {}}};
  for (int i = 0; i <= 600; ++i) {
    const double distance = std::pow(10.0, i / 120.0);
    std::complex<double> sum = 0;
    for (const double speed : speeds.inv_freq) sum += std::polar(1.0, distance * speed);
    sum /= static_cast<double>(pairs);
    plot.lines[0].points.emplace_back(distance, sum.real());
    plot.bands[0].points.push_back({distance, -std::abs(sum), std::abs(sum)});
  }
  plot.note = "Envelope: plus and minus the absolute value of the mean of e^(i distance inv_freq) over the pairs";
  plot.names_on_lines = true;
  return plot;
}

Plot wavelength_plot(const Frequencies& speeds) {
  Plot plot{.title = "The wavelength of each pair, head_dim 128, base 10000",
            .x_label = "pair",
            .y_label = "tokens for one turn",
            .log_y = true,
            .lines = {{.name = "wavelength", .points = {}},
                      {.name = "4096 tokens", .points = {{0, 4096}, {63, 4096}}, .guide = true}}};
  plot.x_ticks = {0, 8, 16, 24, 32, 40, 48, 56, 63};
  plot.names_on_lines = true;
  for (std::size_t i = 0; i < pairs; ++i) {
    const double wavelength = two_pi / speeds.inv_freq[i];
    plot.lines[0].points.emplace_back(i, wavelength);
    plot.lines[0].tips.push_back("pair " + std::to_string(i) + ": " + fixed(wavelength, 2) + " tokens");
  }
  return plot;
}

void say_clock(Page& page, const Frequencies& speeds) {
  page.say(
      R"(A usual head has 128 elements: 64 pairs, with base 10000. Every pair is a little slower than the one before
      it; the last is slower than the first by a factor of 8660.)");
  std::vector<Cells> rows;
  for (const std::size_t i : std::vector<std::size_t>{0, 1, 8, 16, 32, 48, 63}) {
    const double speed = speeds.inv_freq[i];
    rows.push_back({std::to_string(i), fixed(speed, 9), fixed(two_pi / speed, 2), fixed(4096 * speed / two_pi, 3)});
  }
  page.table({"pair", "inv_freq", "wavelength", "turns in 4096 tokens"}, std::move(rows));
  page.picture({"08-wavelengths", "The wavelength of each pair on a logarithmic scale is a straight line", "",
                svg(wavelength_plot(speeds))});
  page.heading("Fast, slow, and all together");
  page.say(R"(A fast hand tells small steps, and repeats itself. A slow hand never repeats itself, and cannot see small
      steps. Here are the scores of pair 0 alone, of pair 63 alone, and the mean of all 64:)");
  rows.clear();
  Vector q(head_dim);
  for (std::size_t i = 0; i < pairs; ++i) q[2 * i] = 1;
  for (const int distance : {0, 1, 2, 44, 710, 10000}) {
    rows.push_back({std::to_string(distance), fixed(one_pair(speeds, 0, distance), 6),
                    fixed(one_pair(speeds, 63, distance), 6), fixed(score(q, distance, q, 0, speeds) / pairs, 6)});
  }
  page.table({"distance", "pair 0", "pair 63", "mean of all"}, std::move(rows));
  page.say(R"(To pair 0, distance 710 is distance 0: 113 full turns, to six digits. To pair 63, distances 0, 1 and 2 are
      the same. The mean tells them all apart. It is the second, minute and hour hand of one clock.)");
}

}  // namespace

Page explain_frequencies() {
  const Frequencies speeds = plain_frequencies(head_dim);
  Page page;
  say_clock(page, speeds);
  page.heading("Nearer is louder");
  page.say(R"(Draw the mean over a wide range, the distance growing tenfold from mark to mark, and something else shows:
      it falls. Near words agree in all pairs, far ones only in the slow ones; the fast ones cancel each other. So
      RoPE leans towards what is near, gently.)");
  Line mean{.name = "mean of all pairs", .points = {}, .dots = true};
  for (int i = 0; i <= 60; ++i) {
    const double distance = std::pow(10.0, i / 12.0);
    mean.points.emplace_back(distance, 100 * mean_cosine(speeds, distance));
  }
  const Line zero{.name = "", .points = {{1, 0}, {1e5, 0}}, .guide = true};
  page.picture(
      {"08-decay", "The mean cosine of 64 pairs falls with the distance",
       terminal_plot(
           {.title = "", .x_label = "distance", .y_label = "cosine, percent", .log_x = true, .lines = {mean, zero}}, 66,
           11),  // a column for each point
       svg(decay_plot(speeds))});
  page.heading("But a head may look elsewhere");
  Vector ones(head_dim);
  for (std::size_t i = 0; i < pairs; ++i) ones[2 * i] = 1;
  const Vector query = rotate_head(ones, speeds, -3);
  page.say(R"(Only equal `q` and `k` are loudest at distance 0. Let a layer learn a query that is already turned back by
      three positions, and the loudest key is the one three words ago:)");
  std::vector<Cells> rows;
  for (int distance = 0; distance <= 6; ++distance) {
    rows.push_back({std::to_string(distance), fixed(score(query, distance, ones, 0, speeds) / pairs, 6)});
  }
  page.table({"distance", "mean of all"}, std::move(rows));
  page.heading("The base");
  page.say("A larger base makes the slow pairs slower, and leaves pair 0 as it is. Long-context models use one:");
  rows.clear();
  for (const int base : {10000, 500000, 1000000}) {
    const Frequencies of_base = plain_frequencies(head_dim, base);
    rows.push_back(
        {std::to_string(base), fixed(two_pi / of_base.inv_freq[0], 2), fixed(two_pi / of_base.inv_freq[63], 2)});
  }
  page.table({"base", "wavelength of pair 0", "of pair 63"}, std::move(rows));
  return page;
}

Page explain_partial() {
  Rope rope;
  rope.head_dim = 8;
  rope.rotary_dim = 4;
  rope.pairing = Pairing::half;
  const Frequencies speeds = frequencies(rope);
  const Vector x{1, 2, 3, 4, 5, 6, 7, 8};
  const Vector rotated = rotate_head(x, speeds, 3, Pairing::half);

  Page page;
  page.say(
      R"(Not every element has to turn. Many models rotate a quarter or a half of each head (GPT-NeoX, GPT-J, GLM) and
      leave the rest alone. The size of the turning part is called `rotary_dim`. Here are 8 elements of which 4 turn,
      half pairing, at position 3:)");
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::string pair = i < 4 ? "pair " + std::to_string(i % 2) : "still";
    rows.push_back(
        {std::to_string(i), pair, fixed(static_cast<double>(x[i]), 4), fixed(static_cast<double>(rotated[i]), 4)});
  }
  page.table({"element", "part", "before", "after"}, std::move(rows));
  page.say(R"(The still elements keep their bits. The speeds are those of a rope of 4 elements, {} and {}; with all 8
      turning they would be {}, {}, {} and {}.)",
           {fixed(speeds.inv_freq[0], 3), fixed(speeds.inv_freq[1], 3), fixed(plain_frequencies(8).inv_freq[0], 3),
            fixed(plain_frequencies(8).inv_freq[1], 3), fixed(plain_frequencies(8).inv_freq[2], 3),
            fixed(plain_frequencies(8).inv_freq[3], 3)});
  page.heading("What it is good for");
  page.say("A score is a sum over elements, so it splits in two. With `q` and `k` all ones:");
  rows.clear();
  const Vector ones(8, 1.0F);
  for (const int distance : {0, 1, 10, 100, 1000}) {
    const Vector q = rotate_head(ones, speeds, distance, Pairing::half);
    const double moving = dot({q.begin(), q.begin() + 4}, Vector(4, 1.0F));
    const double still = dot({q.begin() + 4, q.end()}, Vector(4, 1.0F));
    rows.push_back({std::to_string(distance), fixed(moving, 4), fixed(still, 4), fixed(dot(q, ones), 4)});
  }
  page.table({"distance", "turning part", "still part", "score"}, std::move(rows));
  page.say(R"(The still part asks what a word is, however far away; the turning part asks where. Without it a head must
      build its memory for content out of the slowest pairs. The same rope on the command line:)");
  page.show("$ rotary inspect --base 10000 --pairing half --head-dim 8 --rotary-dim 4");
  return page;
}

Page explain_cache() {
  const Frequencies speeds = plain_frequencies(4);
  constexpr int tokens = 5;
  std::vector<Vector> cache;
  Vector together;  // the same keys, rotated in one call
  for (int token = 0; token < tokens; ++token) {
    const Vector key = vector_of_token(token);
    cache.push_back(rotate_head(key, speeds, token));
    together.insert(together.end(), key.begin(), key.end());
  }
  rotate(heads(together, thd(tokens, 1, 4)), Table(speeds, positions(0, tokens)));

  Page page;
  page.say(R"(A language model writes one token at a time. Each new token looks at the keys of all tokens before it.
      Since a key is turned by its own position and by nothing else, it is turned once, when it comes, and stored
      turned. This store is the KV cache. Five tokens, heads of four elements, interleaved pairs:)");
  std::vector<Cells> rows;
  for (int token = 0; token < tokens; ++token) {
    const auto at = static_cast<std::size_t>(token);
    rows.push_back({std::to_string(token), list(vector_of_token(token), 0), list(cache[at], 5)});
  }
  page.table({"position", "key", "key in the cache"}, std::move(rows));
  page.heading("One more token");
  const Vector q{1, 2, 0, 1};
  const Vector query = rotate_head(q, speeds, 4);
  page.say(
      R"(The query of the last token is `{}`. It stands at position 4, so it turns by 4. Here are its scores with the
      cached keys; beside them the scores when all keys are turned together, as in training; and the scores of a
      program that forgot the offset and turned the new query as if it stood at 0:)",
      {list(q, 0)});
  rows.clear();
  int equal = 0;
  for (std::size_t token = 0; token < tokens; ++token) {
    const Vector full(together.begin() + static_cast<std::ptrdiff_t>(4 * token),
                      together.begin() + static_cast<std::ptrdiff_t>(4 * token + 4));
    equal += cache[token] == full ? 1 : 0;
    rows.push_back({std::to_string(token), fixed(dot(query, cache[token]), 5), fixed(dot(query, full), 5),
                    fixed(dot(rotate_head(q, speeds, 0), cache[token]), 5)});
  }
  page.table({"key", "from the cache", "full pass", "offset forgotten"}, std::move(rows));
  page.say(
      R"({} of {} cached keys equal those of the full pass bit for bit. The last column is the classic mistake: a step
      sees one token, and one token alone would be at position 0. Hence the `position_ids`, offsets and
      `cache_position` of so many programs. Here a `Table` is made for the positions that you name.)",
      {std::to_string(equal), std::to_string(tokens)});
  page.heading("Moving what is stored");
  page.say(R"(Turns add up. So a stored key can be moved without its original: to drop the first token and shift the
      others down by one, turn each cached key by -1. The key of token 4, moved to position 3:)");
  page.show(R"(
stored at 4, turned by -1:  {}
made fresh at 3:            {})",
            {list(rotate_head(cache[4], speeds, -1), 5), list(rotate_head(vector_of_token(4), speeds, 3), 5)});
  return page;
}

}  // namespace rotary::cli
