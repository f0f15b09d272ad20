// Chapters 11 and 12: scaling beyond the trained length, and the precision of angles at large positions.
#include <algorithm>
#include <array>
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

struct Method {
  const char* name;
  Frequencies speeds;
};

Frequencies scaled(const Scaling& scaling) {
  Rope rope;
  rope.head_dim = head_dim;
  rope.pairing = Pairing::half;
  rope.scaling = scaling;
  return frequencies(rope);
}

std::array<Method, 4> methods() {
  return {{{"linear", scaled(Linear{4})},
           {"NTK", scaled(Ntk{4})},
           {"YaRN", scaled(Yarn{4, trained})},
           {"llama3", scaled(Llama3{4, trained})}}};
}

void say_problem(Page& page, const Frequencies& plain) {
  page.say(R"(Train a model on texts of 4096 tokens and hand it 16384. What breaks? Not the fast pairs: they went round
      many times in training and have seen every angle. The slow pairs did not. Pair 63 turns at {} radians per
      position; the largest angle it ever met is {}, and now it goes on to {}. The model has no idea what that means,
      and writes nonsense.)",
           {fixed(plain.inv_freq[63], 9), fixed(4095 * plain.inv_freq[63], 6), fixed(16383 * plain.inv_freq[63], 6)});
  page.say(R"(All scalings give the same answer, with more or less finesse: turn more slowly, so that 16384 positions
      look like 4096. In other words, stretch the wavelengths by 4.)");
}

void say_methods(Page& page, const Frequencies& yarn) {
  page.item(
      "linear (position interpolation, arXiv:2306.15595): every pair by 4. Simple, but it blurs the small steps.");
  page.item(R"(NTK: a larger base, so chosen that the last pair is stretched by 4, the first not at all, the others in
      between. Its name here is ntk; what vLLM calls ntk is another formula, ntk_fixed.)");
  page.item(
      R"(YaRN (arXiv:2309.00071): pairs that turned more than 32 times in training stay, pairs that turned less than
      once are stretched by 4, a straight ramp between. It also multiplies cos and sin by {}, so that a score grows
      by a factor of {}: among more words, attention has to be sharper.)",
      {fixed(yarn.attention_factor, 6), fixed(yarn.attention_factor * yarn.attention_factor, 6)});
  page.item("llama3: like YaRN with other borders, 4 turns and 1 turn, and another curve between.");
}

struct Errors {
  double exact = 0;
  double float32 = 0;
};

// The largest error of a cosine over all pairs, compared with double precision.
Errors largest_errors(const Frequencies& speeds, std::int64_t position) {
  const Table exact(speeds, position);
  const Table float32(speeds, position, Angles::float32);
  Errors errors;
  for (std::size_t i = 0; i < pairs; ++i) {
    const double truth = std::cos(static_cast<double>(position) * speeds.inv_freq[i]);
    errors.exact = std::max(errors.exact, std::abs(static_cast<double>(exact.cos()[i]) - truth));
    errors.float32 = std::max(errors.float32, std::abs(static_cast<double>(float32.cos()[i]) - truth));
  }
  return errors;
}

Plot error_plot(const Frequencies& speeds) {
  Plot plot{.title = "The largest error of a cosine over 64 pairs",
            .x_label = "position",
            .y_label = "largest error of cos",
            .log_x = true,
            .log_y = true,
            .lines = {{.name = "float32", .points = {}}, {.name = "exact", .points = {}}}};
  plot.x_is_length = plot.names_on_lines = true;
  for (std::int64_t position = 1; position <= 1 << 20; position *= 2) {
    const Errors errors = largest_errors(speeds, position);
    plot.lines[0].points.emplace_back(position, errors.float32);
    plot.lines[1].points.emplace_back(position, errors.exact);
  }
  return plot;
}

}  // namespace

Page explain_scaling() {
  const Frequencies plain = plain_frequencies(head_dim);
  const std::array<Method, 4> all = methods();
  Page page;
  say_problem(page, plain);
  say_methods(page, all[2].speeds);
  page.say("What each does to the wavelengths, as a factor; 1 is untouched:");
  const auto stretch = [&plain](const Method& method, std::size_t i) {
    return plain.inv_freq[i] / method.speeds.inv_freq[i];
  };
  std::vector<Cells> rows;
  for (const std::size_t i : std::vector<std::size_t>{0, 8, 16, 24, 32, 40, 48, 56, 63}) {
    Cells row{std::to_string(i), fixed(two_pi / plain.inv_freq[i], 2), fixed(4096 * plain.inv_freq[i] / two_pi, 3)};
    for (const Method& method : all) row.push_back(fixed(stretch(method, i), 4));
    rows.push_back(std::move(row));
  }
  page.table({"pair", "wavelength", "turns in 4096", "linear", "NTK", "YaRN", "llama3"}, std::move(rows));
  Plot plot;
  for (const Method& method : all) {
    plot.lines.push_back(curve(method.name, static_cast<int>(pairs),
                               [&](int pair) { return stretch(method, static_cast<std::size_t>(pair)); }));
  }
  page.picture(stretch_picture("11-scaling", "How far each of four methods stretches the wavelength of each pair",
                               "What four methods do to the wavelengths, factor 4", std::move(plot)));
  page.heading("The bargain");
  page.say(
      R"(Two numbers sum it up. How far does the slowest pair go (it should stay near what training showed)? And how
      far apart do two neighbours stand on the fastest pair (they should stay as far as in training)?)");
  rows.assign({{"no scaling", fixed(16383 * plain.inv_freq[63], 6), fixed(plain.inv_freq[0], 4)}});
  for (const Method& method : all) {
    rows.push_back({method.name, fixed(16383 * method.speeds.inv_freq[63], 6), fixed(method.speeds.inv_freq[0], 4)});
  }
  page.table({"method", "angle of pair 63 at 16383", "angle between neighbours, pair 0"}, std::move(rows));
  page.say(
      R"(Linear pays for the first number with the second; the others keep both. What your model does, pair by pair,
      with every default that was taken: `rotary inspect config.json`.)");
  return page;
}

Page explain_precision() {
  const Frequencies speeds = plain_frequencies(head_dim);
  Page page;
  page.say(R"(An angle is a position times `inv_freq`. Most programs compute it in float32, which has 24 bits for any
      number. At position 131071 the position alone takes 17 of them. What is left for the angle within the circle is
      poor.)");
  const double speed = speeds.inv_freq[1];
  const float product = 131071.0F * speeds.inv_freq_float32[1];
  const Table exact(speeds, 131071);
  const Table float32(speeds, 131071, Angles::float32);
  page.say("Pair 1 of a head of 128 elements with base 10000, at that position:");
  page.table(
      {"", "exact", "float32"},
      {{"inv_freq", fixed(speed, 10), fixed(static_cast<double>(speeds.inv_freq_float32[1]), 10)},
       {"angle", fixed(131071 * speed, 6), fixed(static_cast<double>(product), 6)},
       {"cosine", fixed(static_cast<double>(exact.cos()[1]), 7), fixed(static_cast<double>(float32.cos()[1]), 7)}});
  page.say(R"(Neighbouring float32 numbers near that angle lie {} apart: a float32 angle may miss by half
      of that. The library does not go that way. It counts turns in integers of 192 bits, where whole turns drop off by
      themselves, and rounds once, at the end. The largest error of a cosine over the 64 pairs, both ways:)",
           {fixed(static_cast<double>(std::nextafter(product, 2 * product) - product), 7)});
  std::vector<Cells> rows;
  for (const std::int64_t position : {1, 100, 4095, 32767, 131071, 1048575}) {
    const Errors errors = largest_errors(speeds, position);
    rows.push_back({std::to_string(position), scientific(errors.exact, 1), scientific(errors.float32, 1)});
  }
  page.table({"position", "exact", "float32"}, std::move(rows));
  page.picture({"12-precision", "The largest error of a cosine by position: that of float32 grows", "",
                svg(error_plot(speeds))});
  page.heading("Does the law still hold?");
  page.say(
      R"(A score depends on the distance only: so says chapter 2. Here is the score of two neighbours, pair 1 alone,
      `q = k = (1, 0)`, further and further out:)");
  const Vector q{1, 0};
  const Frequencies pair_1{.inv_freq = {speed}, .inv_freq_float32 = {speeds.inv_freq_float32[1]}};
  rows.clear();
  for (const std::int64_t n : {0, 4095, 131071, 1048575, 16777215}) {
    Cells row{std::to_string(n)};
    for (const Angles angles : {Angles::exact, Angles::float32}) {
      const Vector query = rotate_head(q, pair_1, n + 1, Pairing::half, angles);
      row.push_back(fixed(dot(query, rotate_head(q, pair_1, n, Pairing::half, angles)), 6));
    }
    rows.push_back(std::move(row));
  }
  page.table({"key at", "exact", "float32"}, std::move(rows));
  page.say(
      R"(In the last row float32 knows whole radians only: pair 1, which should turn by {} from one token to the next,
      turned by 1, and the score is the cosine of 1. Nearer to zero the harm is
      smaller, but it is there.)",
      {fixed(speed, 6)});
  page.say(
      R"(With exact angles the law holds at every position that 64 bits can count. Models that were trained with the
      float32 angles can have those too: `Angles::float32` takes the frameworks' steps.)");
  page.say(R"(Float32 is one way of many. A model that is cast to bf16 rounds `inv_freq` to 8 bits, and its tables are
      wrong from the first hundred positions on; some kernels turn the row before by one more step; graphics
      processors have a quick sine. How far each is off, by position, for your own model:)");
  page.show("$ rotary accuracy");
  return page;
}

}  // namespace rotary::cli
