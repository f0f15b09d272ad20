// Chapters 1 to 4: from one arrow to the table of angles.
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "apps/shared/text.h"
#include "chapters.h"
#include "numbers.h"

namespace rotary::cli {

namespace {

const Frequencies one_radian{.inv_freq = {1}};

// The cosines of the first 128 positions, of a head of 128 elements.
HeatMap cosine_map(const Frequencies& speeds) {
  HeatMap map;
  map.title = "The cosines of a head of 128 elements";
  map.x_label = "position";
  map.y_label = "pair";
  map.value_label = "cos";
  const Table table(speeds, positions(0, 128));
  const std::size_t pairs = speeds.inv_freq.size();
  for (int position = 0; position < 128; ++position) map.x.push_back(position);
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    map.y.push_back(static_cast<std::int64_t>(pair));
    for (std::size_t row = 0; row < 128; ++row)
      map.values.push_back(static_cast<double>(table.cos()[row * pairs + pair]));
  }
  return map;
}

// The arrow (3, 1), and the same turned by 60 degrees.
Picture picture_of_turn(const Vector& arrow, const Frequencies& one_degree) {
  const Vector after = rotate_head(arrow, one_degree, 60);
  const std::pair<double, double> origin{0, 0}, tip{static_cast<double>(after[0]), static_cast<double>(after[1])};
  Plot turned{.title = "",
              .x_label = "a",
              .y_label = "b",
              .lines = {{.name = "before", .points = {origin, {3, 1}}, .faint = true},
                        {.name = "after", .points = {origin, tip}}}};
  Picture picture{"01-turn", "The arrow (3, 1) and the same arrow turned by 60 degrees", terminal_plot(turned, 32, 16),
                  ""};
  turned.title = "The arrow (3, 1), turned by 60 degrees";
  turned.lines = {{.name = "after", .points = {origin, tip}}, {.name = "before", .points = {origin, {3, 1}}}};
  turned.lines.push_back({.name = "60 degrees", .points = {}, .faint = true});
  for (int degrees = 0; degrees <= 60; degrees += 2) {
    const Vector moved = rotate_head(arrow, one_degree, degrees);
    turned.lines.back().points.emplace_back(static_cast<double>(moved[0]) / 2, static_cast<double>(moved[1]) / 2);
  }
  turned.names_on_lines = turned.same_scale = true;
  picture.svg = svg(turned);
  return picture;
}

}  // namespace

Page explain_turn() {
  const Frequencies one_degree{.inv_freq = {two_pi / 360}};
  const Vector arrow{3, 1};
  const Vector after = rotate_head(arrow, one_degree, 60);
  const double a = 3;
  const double b = 1;
  const double cosine = std::cos(60 * two_pi / 360);
  const double sine = std::sin(60 * two_pi / 360);

  Page page;
  page.say(R"(Attention compares the words of a text with each other. One word sends a vector `q`, the query; another
      offers a vector `k`, the key; the dot product of the two is their score. But a dot product does not know where
      the two words stood. "Dog bites man" and "man bites dog" have the same scores, word for word.)");
  page.say(
      R"(Rotary position embedding, RoPE, tells it. It turns the vectors: the further along a word stands in the text,
      the further its vectors turn. This chapter is about a single turn. All the rest is made of it.)");
  page.heading("By hand");
  page.say("An arrow in the plane is two numbers, `(a, b)`. Turned by an angle t, it is");
  page.show(R"(
a' = a cos t - b sin t
b' = b cos t + a sin t)");
  page.say("Take `(3, 1)` and turn it by 60 degrees:");
  page.show(R"(
cos 60 = {}      sin 60 = {}

a' = 3 * {} - 1 * {} = {}
b' = 1 * {} + 3 * {} = {}

rotate in the library: {})",
            {fixed(cosine, 6), fixed(sine, 6), fixed(cosine, 6), fixed(sine, 6), fixed(a * cosine - b * sine, 6),
             fixed(cosine, 6), fixed(sine, 6), fixed(b * cosine + a * sine, 6), list(after, 6)});
  page.picture(picture_of_turn(arrow, one_degree));
  page.say(R"(The arrow keeps its length. Before: the root of 3 * 3 + 1 * 1, which is {}. After: {}. A turn moves
      information about position into the direction of a vector, and leaves its size alone.)",
           {fixed(std::sqrt(dot(arrow, arrow)), 6), fixed(std::sqrt(dot(after, after)), 6)});
  page.heading("What a dot product sees");
  page.say("Multiply the old arrow with the new one, element by element, and add:");
  page.show(R"(
(3, 1) . {}  =  {}
length * length * cos 60       =  {} * {}  =  {})",
            {list(after, 6), fixed(dot(arrow, after), 6), fixed(a * a + b * b, 6), fixed(cosine, 6),
             fixed((a * a + b * b) * cosine, 6)});
  page.say("So the dot product measures the angle between the two. Here are some more turns of the same arrow:");
  std::vector<Cells> rows;
  for (const int degrees : {0, 30, 60, 90, 120, 180}) {
    const Vector moved = rotate_head(arrow, one_degree, degrees);
    rows.push_back({std::to_string(degrees), list(moved, 4), fixed(dot(arrow, moved), 4)});
  }
  page.table({"degrees", "turned", "dot with (3, 1)"}, std::move(rows));
  page.say(R"(Full agreement at 0, none at 90, the opposite at 180. In the next chapter we turn both vectors of a score,
      each by its own position.)");
  return page;
}

Page explain_distance() {
  const Vector q{3, 1};
  const Vector k{2, 2};
  Page page;
  page.say(
      R"(Here is the rule of RoPE for a vector of two elements: at position p, turn it by p times a fixed speed. Let
      the speed be 1 radian per position (a full circle is {} radians). The first word turns by 0, the next by 1
      radian, the next by 2.)",
      {fixed(two_pi, 6)});
  page.say(R"(A query `q = (3, 1)` stands at position m, a key `k = (2, 2)` at position n. Both are turned, then
      multiplied. Watch the last two columns:)");
  struct Places {
    std::int64_t m;
    std::int64_t n;
  };
  std::vector<Cells> rows;
  for (const auto& [m, n] :
       {Places{3, 0}, {5, 2}, {103, 100}, {1000003, 1000000}, {2, 0}, {4, 2}, {1000002, 1000000}, {0, 3}}) {
    const Vector rotated_q = rotate_head(q, one_radian, m);
    const Vector rotated_k = rotate_head(k, one_radian, n);
    rows.push_back({std::to_string(m), std::to_string(n), list(rotated_q, 3), list(rotated_k, 3), std::to_string(m - n),
                    fixed(dot(rotated_q, rotated_k), 4)});
  }
  page.table({"m", "n", "q at m", "k at n", "m - n", "score"}, std::move(rows));
  page.say(
      R"(The vectors are different every time. The score is not: wherever the two stand, at distance 3 it is {}, and
      a million positions further on it is {} still. At distance 2 it is another number. And when the key comes after
      the query, at distance -3, it is a third one: before and behind are different things.)",
      {fixed(score(q, 3, k, 0, one_radian), 4), fixed(score(q, 1000003, k, 1000000, one_radian), 4)});
  page.show(R"(
k at 2       q at 5                     k at 100     q at 103
   |------------|         . . .            |------------|
     distance 3                              distance 3
   score {}                           score {})",
            {fixed(score(q, 5, k, 2, one_radian), 4), fixed(score(q, 103, k, 100, one_radian), 4)});
  page.heading("Why");
  page.say(R"(Turn two arrows by the same angle, and the angle between them stays. So does their dot product. Now turn
      both back by m. The query is again as it was, and the key is left turned by `n - m`, which is minus the
      distance:)");
  const double cosine = std::cos(3.0);
  const double sine = std::sin(3.0);
  page.show(R"(
(q turned by m) . (k turned by n)  =  q . (k turned by n - m)

k turned by -3 = {}
(3, 1) . that  = {}
by hand: 8 cos 3 + 4 sin 3 = 8 * {} + 4 * {} = {})",
            {list(rotate_head(k, one_radian, -3), 6), fixed(dot(q, rotate_head(k, one_radian, -3)), 5),
             fixed(cosine, 6), fixed(sine, 6), fixed(8 * cosine + 4 * sine, 5)});
  page.say(R"(That is the whole trick. Each vector is turned on its own, knowing only its own position; so a key can be
      turned once and kept. And yet every score depends on the distance only.)");
  return page;
}

Page explain_pairs() {
  const Vector q{1, 0};
  Page page;
  page.say(R"(How does a score change as two words move apart? Take the simplest vectors, `q = k = (1, 0)`, and again 1
      radian per position. The score at distance D is then `cos D`.)");
  std::vector<Cells> rows;
  for (const int distance : {0, 1, 2, 10, 100, 1000}) {
    rows.push_back({std::to_string(distance), fixed(score(q, distance, q, 0, one_radian), 6),
                    fixed(std::cos(static_cast<double>(distance)), 6)});
  }
  page.table({"distance", "score", "cos by hand"}, std::move(rows));
  page.say(R"(It does not simply fall. It goes round, like the hand of a clock, and after {} positions it is back.
      Distance 44 is seven rounds and almost nothing: the score is {}, nearly that of distance 0. A single pair cannot
      tell the two apart.)",
           {fixed(two_pi, 6), fixed(score(q, 44, q, 0, one_radian), 6)});
  page.heading("A second, slower hand");
  const Frequencies two = plain_frequencies(4);
  const Vector four{1, 0, 1, 0};
  page.say(R"(So take four elements: two pairs, each with a speed of its own. RoFormer, the paper that began all this
      (arXiv:2104.09864), gives pair i of a vector of d elements the speed)");
  page.show("speed of pair i = 10000^(-2i/d)        d = 4:  pair 0: {}   pair 1: {}",
            {fixed(two.inv_freq[0], 2), fixed(two.inv_freq[1], 2)});
  page.say("With `q = k = (1, 0, 1, 0)` each pair adds its own cosine to the score:");
  rows.clear();
  const Frequencies slow{.inv_freq = {two.inv_freq[1]}};
  for (const int distance : {0, 1, 2, 10, 44, 100, 1000}) {
    rows.push_back({std::to_string(distance), fixed(score(q, distance, q, 0, one_radian), 6),
                    fixed(score(q, distance, q, 0, slow), 6), fixed(score(four, distance, four, 0, two), 6)});
  }
  page.table({"distance", "pair 0", "pair 1", "score"}, std::move(rows));
  page.say(R"(Pair 1 says at distance 100 what pair 0 said at 1: it is the same hand, a hundred times slower. Now
      distance 44 no longer looks like distance 0: the score is {}, not {}. The fast pair reads the small steps, the
      slow pair tells which round we are in.)",
           {fixed(score(four, 44, four, 0, two), 6), fixed(score(four, 0, four, 0, two), 6)});
  const auto cosine = [](double speed) { return [speed](int column) { return std::cos(speed * column); }; };
  Plot plot{.title = "", .x_label = "distance", .y_label = "cosine", .lines = {}};
  plot.lines.push_back(curve("pair 0", 66, cosine(two.inv_freq[0])));
  plot.lines.push_back(curve("pair 1", 66, cosine(two.inv_freq[1])));
  plot.lines.back().faint = true;
  Picture picture{"03-pairs", "The cosines of a fast and of a slow pair, by distance", terminal_plot(plot, 70, 11), ""};
  plot.title = "What two pairs add to a score";
  plot.x_label = "distance, tokens";
  plot.lines = {{.name = "pair 0: 1 radian per token", .points = {}},
                {.name = "pair 1: a hundredth of it", .points = {}},
                {.name = "both, halved", .points = {}}};
  for (int i = 0; i <= 1000; ++i) {
    const double distance = 0.1 * i, first = std::cos(distance * two.inv_freq[0]),
                 second = std::cos(distance * two.inv_freq[1]);
    plot.lines[0].points.emplace_back(distance, first);
    plot.lines[1].points.emplace_back(distance, second);
    plot.lines[2].points.emplace_back(distance, (first + second) / 2);
  }
  plot.names_on_lines = true;
  picture.svg = svg(plot);
  page.picture(std::move(picture));
  return page;
}

Page explain_angles() {
  const Frequencies speeds = plain_frequencies(8);
  Page page;
  page.say(R"(A real head has 64 or 128 elements, that is 32 or 64 pairs. Eight elements show all there is to see: four
      pairs, four speeds. The speed of a pair is called `inv_freq`. The wavelength is the number of positions after
      which the pair has gone full circle.)");
  std::vector<Cells> rows;
  for (int i = 0; i < 4; ++i) {
    const double speed = speeds.inv_freq[static_cast<std::size_t>(i)];
    rows.push_back({std::to_string(i), "10000^(-" + std::to_string(2 * i) + "/8)",
                    fixed(std::pow(10000.0, -i / 4.0), 6), fixed(speed, 6), fixed(speed * 360 / two_pi, 4),
                    fixed(two_pi / speed, 4)});
  }
  page.table({"pair", "formula", "by hand", "inv_freq", "degrees", "wavelength"}, std::move(rows));
  page.say("The angle of a pair is the position times its `inv_freq`. In radians:");
  rows.clear();
  for (const int position : {0, 1, 2, 3, 10, 100, 1000}) {
    Cells row{std::to_string(position)};
    for (const double speed : speeds.inv_freq) row.push_back(fixed(position * speed, 3));
    rows.push_back(std::move(row));
  }
  page.table({"position", "pair 0", "pair 1", "pair 2", "pair 3"}, std::move(rows));
  page.say(R"(A rotation needs the cosine and the sine of each angle. The library keeps them in a `Table`: a row per
      position, two numbers per pair.)");
  const std::vector<std::int64_t> positions{0, 1, 2, 3, 10, 100, 1000};
  const Table table(speeds, positions);
  for (const auto& [name, values] : {std::pair("cos", table.cos()), std::pair("sin", table.sin())}) {
    rows.clear();
    for (std::size_t row = 0; row < positions.size(); ++row) {
      Cells cells{std::to_string(positions[row])};
      for (std::size_t i = 0; i < 4; ++i) cells.push_back(fixed(static_cast<double>(values[4 * row + i]), 5));
      rows.push_back(std::move(cells));
    }
    page.table({name, "pair 0", "pair 1", "pair 2", "pair 3"}, std::move(rows));
  }
  page.picture({"04-angles", "The cosines of a table as colours: fast pairs swing often, slow ones hardly move", "",
                svg(cosine_map(plain_frequencies(128)))});
  page.say(
      R"(Read a row from left to right: the first pairs have gone far, the last have hardly begun. Together they spell
      the position, as digits spell a number. The table holds nothing of `q` or `k`. It is made once per step, and
      every layer and every head uses it. The speeds of any rope, from the command line:)");
  page.show("$ rotary inspect --base 10000 --pairing interleaved --head-dim 8 --pairs");
  return page;
}

}  // namespace rotary::cli
