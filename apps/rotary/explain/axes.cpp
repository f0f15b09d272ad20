// Chapter 13, several axes: a rope whose pairs turn by different coordinates of a position.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/shared/text.h"
#include "chapters.h"
#include "numbers.h"

namespace rotary::cli {

namespace {

constexpr int image_width = 16;

using Place = std::vector<std::int64_t>;  // one coordinate for each axis

std::string coordinates(const Place& place) {
  std::string out;
  for (const std::int64_t at : place) out.append(out.empty() ? "(" : ", ").append(std::to_string(at));
  return out + ")";
}

Vector rotate_at(Vector head, const Frequencies& speeds, const Place& place) {
  const Positions positions(std::vector<std::int64_t>(place), static_cast<int>(place.size()));
  rotate(heads(head, thd(1, 1, static_cast<int>(head.size()))), Table(speeds, positions));
  return head;
}

double score_at(const Vector& q, const Place& m, const Vector& k, const Place& n, const Frequencies& speeds) {
  return dot(rotate_at(q, speeds, m), rotate_at(k, speeds, n));
}

// "tttthhhhhhwwwwww"
std::string letters(const std::vector<std::uint8_t>& axis) {
  std::string out;
  for (const std::uint8_t one : axis) out += "thw"[one];
  return out;
}

void say_two_axes(Page& page, const Frequencies& image) {
  page.say(R"(A token of a text has one position. A patch of an image has two, its row and its column. RoPE for it is
      the same rotation with one more decision: which of the coordinates turns which pair. The usual choice for an
      image is axial: the first half of the pairs turns by the row, the second half by the column, and each half has
      frequencies of its own that begin with the fastest. A head of 8 elements:)");
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < image.inv_freq.size(); ++i) {
    rows.push_back({std::to_string(i), image.axis[i] == 0 ? "row" : "column", fixed(image.inv_freq[i], 2)});
  }
  page.table({"pair", "turns by the", "inv_freq"}, std::move(rows));
  page.say(R"(The law of chapter 2 holds for each half: a score depends on how many rows and how many columns lie
      between two patches, and on nothing else. With `q = (1, 2, 3, 4, 4, 3, 2, 1)` and `k` eight ones:)");
  const Vector q{1, 2, 3, 4, 4, 3, 2, 1}, ones(8, 1.0F);
  rows.clear();
  const std::vector<std::pair<Place, Place>> pairs_of_patches = {
      {{2, 3}, {0, 0}}, {{7, 10}, {5, 7}}, {{502, 703}, {500, 700}}, {{3, 2}, {0, 0}}, {{0, 3}, {2, 0}}};
  for (const auto& [m, n] : pairs_of_patches) {
    rows.push_back({coordinates(m), coordinates(n), std::to_string(m[0] - n[0]), std::to_string(m[1] - n[1]),
                    fixed(score_at(q, m, ones, n, image), 4)});
  }
  page.table({"q at", "k at", "rows", "columns", "score"}, std::move(rows));
}

void say_why_not_number(Page& page) {
  page.heading("Why not number the patches?");
  const Frequencies image = frequencies(axial(64, 2, 10000, Pairing::interleaved));
  const Frequencies line = plain_frequencies(64);
  page.say(R"(One could count the patches from the first row to the last and use one position, as for a text. Then the
      patch below is as far away as the width of the image, and the end of one row is next to the beginning of the
      next. The mean cosine of the 32 pairs of a head of 64 elements, for an image of {} columns:)",
           {std::to_string(image_width)});
  Vector ones(64);
  for (std::size_t i = 0; i < 64; i += 2) ones[i] = 1;
  std::vector<Cells> rows;
  struct Step {
    const char* words;
    Place from, to;
  };
  const std::vector<Step> steps = {{"one to the right", {4, 4}, {4, 5}},
                                   {"one below", {4, 4}, {5, 4}},
                                   {"one below, one to the right", {4, 4}, {5, 5}},
                                   {"from the end of a row to the next", {4, 15}, {5, 0}}};
  for (const Step& step : steps) {
    const auto number = [](const Place& place) { return place[0] * image_width + place[1]; };
    rows.push_back({step.words, fixed(score_at(ones, step.to, ones, step.from, image) / 32, 6),
                    fixed(score(ones, number(step.to), ones, number(step.from), line) / 32, 6)});
  }
  page.table({"step", "two axes", "numbered"}, std::move(rows));
  page.say(R"(With two axes right and below are equally near, and the jump to the next row is far. Numbered, the patch
      below is farther than the one at the other edge of the image. An image is small, so many vision models take a
      smaller base, 100 for example, and the map of the scores around a patch gets contours.)");
}

// The mean cosine between the patch in the middle and each other one.
HeatMap map_of(const Frequencies& speeds) {
  HeatMap map;
  map.title = "The score of a patch with its neighbours, two axes, base 100";
  map.x_label = "columns to the right";
  map.y_label = "rows below";
  map.value_label = "cosine";
  for (std::int64_t at = -16; at <= 16; ++at) {
    map.x.push_back(at);
    map.y.push_back(at);
  }
  for (const std::int64_t row : map.y) {
    for (const std::int64_t column : map.x) {
      double sum = 0;
      for (std::size_t i = 0; i < speeds.inv_freq.size(); ++i) {
        sum += std::cos(static_cast<double>(speeds.axis[i] == 0 ? row : column) * speeds.inv_freq[i]);
      }
      map.values.push_back(sum / static_cast<double>(speeds.inv_freq.size()));
    }
  }
  return map;
}

void say_sections(Page& page) {
  page.heading("Words, images and videos in one sequence");
  page.say(R"(A video adds a third coordinate, the frame, and a chat holds all of it between words. M-RoPE, of Qwen2-VL,
      gives every token three coordinates, time, height and width. There is one run of frequencies; each pair of it is
      given to one axis. Two ways to deal them out, here for 16 pairs, the fastest first:)");
  const std::vector<int> in_sections{4, 6, 6}, in_turn{6, 5, 5};
  page.show(R"(
pairs         0123456789012345
in sections   {}      Qwen2-VL
in turn       {}      Qwen3-VL)",
            {letters(sectioned_axes(in_sections)), letters(interleaved_axes(in_turn))});
  page.say(R"(The first way gives the fast pairs to time, so width is left with slow ones. With 64 pairs, base 1000000
      and the published shares, the wavelengths of each axis, and how far its fastest pair turns from the first to the
      last of 40 patches:)");
  std::vector<Cells> rows;
  const Frequencies speeds = plain_frequencies(128, 1000000);
  const std::vector<std::pair<const char*, std::vector<std::uint8_t>>> layouts = {
      {"in sections, 16 24 24", sectioned_axes(std::vector<int>{16, 24, 24})},
      {"in turn, 24 20 20", interleaved_axes(std::vector<int>{24, 20, 20})}};
  const char* const names[] = {"time", "height", "width"};
  for (const auto& [words, axis] : layouts) {
    for (std::uint8_t wanted = 0; wanted < 3; ++wanted) {
      const auto first = static_cast<std::size_t>(std::find(axis.begin(), axis.end(), wanted) - axis.begin());
      const auto last =
          axis.size() - 1 - static_cast<std::size_t>(std::find(axis.rbegin(), axis.rend(), wanted) - axis.rbegin());
      rows.push_back({words, names[wanted], fixed(two_pi / speeds.inv_freq[first], 2),
                      fixed(two_pi / speeds.inv_freq[last], 0), fixed(39 * speeds.inv_freq[first], 6)});
    }
  }
  page.table({"pairs", "axis", "shortest", "longest", "radians over 40"}, std::move(rows));
  page.say("In turn, every axis has fast and slow hands. That is why the newer models deal that way.");
}

void say_counting(Page& page) {
  page.heading("How the coordinates are counted");
  page.say(R"(A word has its three coordinates equal. Then it does not matter which axis turns a pair, and a text turns
      as if there were one axis. An image begins where the words before it ended; its patches share one time and count
      rows and columns from there. The next word goes on after the largest coordinate. Three words, an image of 2 rows
      and 3 columns, two words:)");
  std::vector<Place> places;
  for (std::int64_t p = 0; p < 3; ++p) places.push_back({p, p, p});
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t column = 0; column < 3; ++column) places.push_back({3, 3 + row, 3 + column});
  }
  for (std::int64_t p = 6; p < 8; ++p) places.push_back({p, p, p});
  std::vector<Cells> rows;
  for (std::size_t token = 0; token < places.size(); ++token) {
    const bool word = token < 3 || token >= 9;
    rows.push_back({std::to_string(token), word ? "word" : "patch", coordinates(places[token])});
  }
  page.table({"token", "", "time, height, width"}, std::move(rows));
  const auto tokens = static_cast<std::int64_t>(places.size());
  page.say(R"(Eleven tokens, but the next position is 8: a program that decodes must add {} to the number of tokens in
      the cache, or every word after an image stands too far out. Hugging Face calls that number `rope_deltas`.)",
           {std::to_string(8 - tokens)});
  Rope rope;
  rope.head_dim = 8;
  rope.pairing = Pairing::interleaved;
  rope.axis = sectioned_axes(std::vector<int>{2, 1, 1});
  const Vector x{1, 2, 3, 4, 5, 6, 7, 8};
  page.say("The same head of 8 elements as a word at position 5, with one axis, and with three of 2, 1 and 1 pairs:");
  page.show(R"(
one axis    {}
three axes  {})",
            {list(rotate_head(x, plain_frequencies(8), 5), 3), list(rotate_at(x, frequencies(rope), {5, 5, 5}), 3)});
  page.say(R"(`rotary inspect config.json` names the axis of each pair and the shares; `rotary table` takes coordinates
      from a file of `[3, tokens]`.)");
}

}  // namespace

Page explain_axes() {
  const Frequencies image = frequencies(axial(8, 2, 10000, Pairing::interleaved));
  Page page;
  say_two_axes(page, image);
  say_why_not_number(page);
  page.picture({"13-axes", "The score of a patch with its neighbours: high in the middle and along both axes", "",
                svg(map_of(frequencies(axial(64, 2, 100, Pairing::interleaved))))});
  say_sections(page);
  say_counting(page);
  return page;
}

}  // namespace rotary::cli
