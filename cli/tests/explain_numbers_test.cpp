// Every number with decimals in docs/explain, in reading order, computed anew by the library.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <initializer_list>
#include <map>
#include <numbers>
#include <regex>

#include "files/tests/file_helpers.h"
#include "rotary/rotary.h"
#include "values/number_text.h"

namespace rotary::explain_tests {
namespace {

using Vector = std::vector<float>;
using Place = std::vector<std::int64_t>;

constexpr double two_pi = 2 * std::numbers::pi;
constexpr Pairing interleaved = Pairing::interleaved, half = Pairing::half, to_half = Pairing::interleaved_to_half;

// The numbers of a chapter as they are printed.
class Numbers {
 public:
  void add(int decimals, std::initializer_list<double> values) {
    for (const double value : values) texts_.push_back(detail::fixed(value, decimals));
  }
  void add(int decimals, const Vector& values) {
    for (const float value : values) add(decimals, {static_cast<double>(value)});
  }
  void add_power(double value) { texts_.push_back(detail::scientific(value, 1)); }
  void add(int decimals, std::complex<double> z) { add(decimals, {z.real(), std::abs(z.imag())}); }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
};

// ---- one head, rotated by the library ----

Vector turned(Vector head, const Frequencies& speeds, const Positions& positions, Pairing pairing = interleaved,
              Angles angles = Angles::exact) {
  Frequencies paired = speeds;
  paired.pairing = pairing;
  rotate(heads(head, thd(1, 1, static_cast<int>(head.size()))), Table(paired, positions, angles));
  return head;
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

double score(const Vector& q, std::int64_t m, const Vector& k, std::int64_t n, const Frequencies& speeds) {
  return dot(turned(q, speeds, m), turned(k, speeds, n));
}

Frequencies speeds_of(int head_dim, double base = 10000, const Scaling& scaling = Unscaled{}, std::int64_t length = 0) {
  Rope rope;
  rope.head_dim = head_dim;
  rope.base = base;
  rope.pairing = interleaved;
  rope.scaling = scaling;
  return length > 0 ? frequencies(rope, length) : frequencies(rope);
}

const Frequencies one_radian{.inv_freq = {1}};
const Frequencies one_degree{.inv_freq = {two_pi / 360}};

Vector arrows(std::size_t elements) {
  Vector ones(elements);
  for (std::size_t i = 0; i < elements; i += 2) ones[i] = 1;
  return ones;
}

double mean_cosine(const Frequencies& of_q, std::int64_t m, const Frequencies& of_k, std::int64_t n) {
  const Vector ones = arrows(2 * of_q.inv_freq.size());
  return dot(turned(ones, of_q, m), turned(ones, of_k, n)) / static_cast<double>(of_q.inv_freq.size());
}

void turn(Numbers& numbers) {
  const Vector arrow{3, 1}, after = turned(arrow, one_degree, 60);
  const double cosine = std::cos(two_pi / 6), sine = std::sin(two_pi / 6);
  numbers.add(6, {cosine, sine, cosine, sine, 3 * cosine - sine, cosine, sine, cosine + 3 * sine});
  numbers.add(6, after);
  numbers.add(6, {std::sqrt(dot(arrow, arrow)), std::sqrt(dot(after, after))});
  numbers.add(6, after);
  numbers.add(6, {dot(arrow, after), 10, cosine, 10 * cosine});
  for (const int degrees : {0, 30, 60, 90, 120, 180}) {
    numbers.add(4, turned(arrow, one_degree, degrees));
    numbers.add(4, {dot(arrow, turned(arrow, one_degree, degrees))});
  }
}

void distance(Numbers& numbers) {
  const Vector q{3, 1}, k{2, 2};
  numbers.add(6, {two_pi});
  for (const auto& [m, n] : std::vector<std::pair<int, int>>{
           {3, 0}, {5, 2}, {103, 100}, {1000003, 1000000}, {2, 0}, {4, 2}, {1000002, 1000000}, {0, 3}}) {
    numbers.add(3, turned(q, one_radian, m));
    numbers.add(3, turned(k, one_radian, n));
    numbers.add(4, {score(q, m, k, n, one_radian)});
  }
  for (const auto& [m, n] : std::vector<std::pair<int, int>>{{3, 0}, {1000003, 1000000}, {5, 2}, {103, 100}})
    numbers.add(4, {score(q, m, k, n, one_radian)});
  const Vector back = turned(k, one_radian, -3);
  numbers.add(6, back);
  numbers.add(5, {dot(q, back)});
  numbers.add(6, {std::cos(3.0), std::sin(3.0)});
  numbers.add(5, {8 * std::cos(3.0) + 4 * std::sin(3.0)});
}

void pairs(Numbers& numbers) {
  const Vector q{1, 0}, four = arrows(4);
  for (const int apart : {0, 1, 2, 10, 100, 1000}) numbers.add(6, {score(q, apart, q, 0, one_radian), std::cos(apart)});
  numbers.add(6, {two_pi, score(q, 44, q, 0, one_radian)});
  const Frequencies two = speeds_of(4), slow{.inv_freq = {two.inv_freq[1]}};
  numbers.add(2, {two.inv_freq[0], two.inv_freq[1]});
  for (const int apart : {0, 1, 2, 10, 44, 100, 1000})
    numbers.add(6, {score(q, apart, q, 0, one_radian), score(q, apart, q, 0, slow), score(four, apart, four, 0, two)});
  numbers.add(6, {score(four, 44, four, 0, two), score(four, 0, four, 0, two)});
}

void angles(Numbers& numbers) {
  const Frequencies speeds = speeds_of(8);
  for (int i = 0; i < 4; ++i) {
    const double speed = speeds.inv_freq[static_cast<std::size_t>(i)];
    numbers.add(6, {std::pow(10000.0, -i / 4.0), speed});
    numbers.add(4, {speed * 360 / two_pi, two_pi / speed});
  }
  const Place places{0, 1, 2, 3, 10, 100, 1000};
  for (const std::int64_t place : places)
    for (const double speed : speeds.inv_freq) numbers.add(3, {static_cast<double>(place) * speed});
  const Table table(speeds, places);
  numbers.add(5, Vector(table.cos().begin(), table.cos().end()));
  numbers.add(5, Vector(table.sin().begin(), table.sin().end()));
}

void matrix(Numbers& numbers) {
  const Frequencies speeds = speeds_of(4);
  const Vector x{1, 2, 3, 4}, rotated = turned(x, speeds, 2);
  std::array<double, 4> sums{}, cosines{}, sines{};
  for (std::size_t i = 0; i < 4; ++i) {
    const double partner = static_cast<double>(i % 2 == 0 ? -x[i + 1] : x[i - 1]);
    cosines[i] = std::cos(2 * speeds.inv_freq[i / 2]);
    sines[i] = std::sin(2 * speeds.inv_freq[i / 2]);
    sums[i] = static_cast<double>(x[i]) * cosines[i] + partner * sines[i];
  }
  numbers.add(2, {2 * speeds.inv_freq[0], 2 * speeds.inv_freq[1]});
  for (std::size_t i = 0; i < 4; ++i) {
    numbers.add(6, {i % 2 == 0 ? cosines[i] : sines[i], i % 2 == 0 ? -sines[i] : cosines[i], sums[i]});
  }
  for (std::size_t i = 0; i < 4; ++i) numbers.add(6, {cosines[i], sines[i], sums[i], static_cast<double>(rotated[i])});
  Vector back = rotated;
  rotate(heads(back, thd(1, 1, 4)), Table(speeds, 2), {.direction = Direction::backward});
  numbers.add(6, back);
}

void complex(Numbers& numbers) {
  using namespace std::complex_literals;
  const std::complex<double> z{3, 1}, turn = std::exp(1i * (two_pi / 6)), content = z * std::conj(2.0 + 2i),
                                      place = std::exp(3i);
  numbers.add(6, turn);
  numbers.add(6, z * turn);
  numbers.add(6, turned({3, 1}, one_degree, 60));
  for (const auto& value : {content, place, content * place}) numbers.add(6, value);
  numbers.add(4, {(content * place).real(), score({3, 1}, 5, {2, 2}, 2, one_radian)});
}

void pairing(Numbers& numbers) {
  const Frequencies speeds = speeds_of(4);
  const Vector q{1, 2, 3, 4}, k{4, 1, 3, 2}, q_half{1, 3, 2, 4}, k_half{4, 3, 1, 2};
  const auto add = [&](const Vector& left, Pairing of_left, const Vector& right, Pairing of_right) {
    for (const int n : {4, 104})
      numbers.add(4, {dot(turned(left, speeds, n + 3, of_left), turned(right, speeds, n, of_right))});
  };
  add(q, interleaved, k, interleaved);
  add(q_half, half, k_half, half);
  add(q, half, k, half);
  add(q, half, k, interleaved);
}

void frequencies_of_a_head(Numbers& numbers) {
  const Frequencies speeds = speeds_of(128);
  for (const std::size_t i : std::initializer_list<std::size_t>{0, 1, 8, 16, 32, 48, 63}) {
    const double speed = speeds.inv_freq[i];
    numbers.add(9, {speed});
    numbers.add(2, {two_pi / speed});
    numbers.add(3, {4096 * speed / two_pi});
  }
  const auto alone = [&](std::size_t pair, int apart) {
    return score({1, 0}, apart, {1, 0}, 0, {.inv_freq = {speeds.inv_freq[pair]}});
  };
  for (const int apart : {0, 1, 2, 44, 710, 10000})
    numbers.add(6, {alone(0, apart), alone(63, apart), mean_cosine(speeds, apart, speeds, 0)});
  const Vector query = turned(arrows(128), speeds, -3);
  for (int apart = 0; apart <= 6; ++apart) numbers.add(6, {score(query, apart, arrows(128), 0, speeds) / 64});
  for (const int base : {10000, 500000, 1000000}) {
    const Frequencies of_base = speeds_of(128, base);
    numbers.add(2, {two_pi / of_base.inv_freq[0], two_pi / of_base.inv_freq[63]});
  }
}

void partial(Numbers& numbers) {
  Rope rope;
  rope.head_dim = 8;
  rope.rotary_dim = 4;
  rope.pairing = half;
  const Frequencies speeds = frequencies(rope);
  const Vector x{1, 2, 3, 4, 5, 6, 7, 8}, ones(8, 1.0F), rotated = turned(x, speeds, 3, half);
  for (std::size_t i = 0; i < 8; ++i) numbers.add(4, Vector{x[i], rotated[i]});
  for (const Frequencies& each : {speeds, speeds_of(8)})
    for (const double speed : each.inv_freq) numbers.add(3, {speed});
  for (const int apart : {0, 1, 10, 100, 1000}) {
    const Vector q = turned(ones, speeds, apart, half);
    numbers.add(4, {dot({q.begin(), q.begin() + 4}, ones), dot({q.begin() + 4, q.end()}, ones), dot(q, ones)});
  }
}

void cache(Numbers& numbers) {
  const Frequencies speeds = speeds_of(4);
  const auto key = [](int token) {
    return Vector{static_cast<float>(token * 3 % 5 - 2), static_cast<float>(token * 2 % 5 - 1),
                  static_cast<float>(token % 3), static_cast<float>(1 - token % 2)};
  };
  Vector together;  // all keys, rotated in one call
  for (int token = 0; token < 5; ++token) {
    numbers.add(5, turned(key(token), speeds, token));
    for (const float value : key(token)) together.push_back(value);
  }
  rotate(heads(together, thd(5, 1, 4)), Table(speeds, positions(0, 5)));
  const Vector q{1, 2, 0, 1}, query = turned(q, speeds, 4);
  for (int token = 0; token < 5; ++token) {
    const Vector full(together.begin() + 4 * token, together.begin() + 4 * token + 4);
    EXPECT_EQ(full, turned(key(token), speeds, token)) << "the chapter says that all 5 are equal";
    numbers.add(5, {dot(query, turned(key(token), speeds, token)), dot(query, full), dot(q, full)});
  }
  numbers.add(5, turned(turned(key(4), speeds, 4), speeds, -1));
  numbers.add(5, turned(key(4), speeds, 3));
}

void scaling(Numbers& numbers) {
  const Frequencies plain = speeds_of(128), yarn = speeds_of(128, 10000, Yarn{4, 4096});
  const std::vector<Frequencies> all = {speeds_of(128, 10000, Linear{4}), speeds_of(128, 10000, Ntk{4}), yarn,
                                        speeds_of(128, 10000, Llama3{4, 4096})};
  numbers.add(9, {plain.inv_freq[63]});
  numbers.add(6, {4095 * plain.inv_freq[63], 16383 * plain.inv_freq[63]});
  numbers.add(6, {yarn.attention_factor, yarn.attention_factor * yarn.attention_factor});
  for (const std::size_t i : std::initializer_list<std::size_t>{0, 8, 16, 24, 32, 40, 48, 56, 63}) {
    numbers.add(2, {two_pi / plain.inv_freq[i]});
    numbers.add(3, {4096 * plain.inv_freq[i] / two_pi});
    for (const Frequencies& method : all) numbers.add(4, {plain.inv_freq[i] / method.inv_freq[i]});
  }
  const auto add_ends = [&](const Frequencies& speeds) {
    numbers.add(6, {16383 * speeds.inv_freq[63]});
    numbers.add(4, {speeds.inv_freq[0]});
  };
  add_ends(plain);
  for (const Frequencies& method : all) add_ends(method);
}

void precision(Numbers& numbers) {
  const Frequencies speeds = speeds_of(128);
  const double speed = speeds.inv_freq[1];
  const float single = speeds.inv_freq_float32[1], product = 131071.0F * single;
  const auto cosine = [&](std::int64_t position, std::size_t pair, Angles how) {
    return static_cast<double>(Table(speeds, position, how).cos()[pair]);
  };
  numbers.add(10, {speed, static_cast<double>(single)});
  numbers.add(6, {131071 * speed, static_cast<double>(product)});
  numbers.add(7, {cosine(131071, 1, Angles::exact), cosine(131071, 1, Angles::float32),
                  static_cast<double>(std::nextafter(product, 2 * product) - product)});
  for (const std::int64_t position : {1, 100, 4095, 32767, 131071, 1048575}) {
    for (const Angles how : {Angles::exact, Angles::float32}) {
      double largest = 0;
      for (std::size_t i = 0; i < 64; ++i)
        largest = std::max(
            largest, std::abs(cosine(position, i, how) - std::cos(static_cast<double>(position) * speeds.inv_freq[i])));
      numbers.add_power(largest);
    }
  }
  const Frequencies pair_1{.inv_freq = {speed}, .inv_freq_float32 = {single}};
  for (const std::int64_t n : {0, 4095, 131071, 1048575, 16777215})
    for (const Angles how : {Angles::exact, Angles::float32})
      numbers.add(6, {dot(turned({1, 0}, pair_1, n + 1, half, how), turned({1, 0}, pair_1, n, half, how))});
  numbers.add(6, {speed});
}

void axes(Numbers& numbers) {
  const auto at = [](const Place& place) { return Positions(Place(place), static_cast<int>(place.size())); };
  const auto patches = [&](const Vector& q, const Place& m, const Vector& k, const Place& n,
                           const Frequencies& speeds) {
    return dot(turned(q, speeds, at(m)), turned(k, speeds, at(n)));
  };
  const Frequencies image = frequencies(axial(8, 2, 10000, interleaved));
  for (const double speed : image.inv_freq) numbers.add(2, {speed});
  for (const auto& [m, n] : std::vector<std::pair<Place, Place>>{
           {{2, 3}, {0, 0}}, {{7, 10}, {5, 7}}, {{502, 703}, {500, 700}}, {{3, 2}, {0, 0}}, {{0, 3}, {2, 0}}})
    numbers.add(4, {patches({1, 2, 3, 4, 4, 3, 2, 1}, m, Vector(8, 1.0F), n, image)});
  const Frequencies large = frequencies(axial(64, 2, 10000, interleaved));
  for (const auto& [from, to] :
       std::vector<std::pair<Place, Place>>{{{4, 4}, {4, 5}}, {{4, 4}, {5, 4}}, {{4, 4}, {5, 5}}, {{4, 15}, {5, 0}}})
    numbers.add(6, {patches(arrows(64), to, arrows(64), from, large) / 32,
                    mean_cosine(speeds_of(64), 16 * to[0] + to[1], speeds_of(64), 16 * from[0] + from[1])});
  const Frequencies text = speeds_of(128, 1000000);
  for (const auto& axis : {sectioned_axes(std::vector{16, 24, 24}), interleaved_axes(std::vector{24, 20, 20})}) {
    for (const int wanted : {0, 1, 2}) {
      const auto first = static_cast<std::size_t>(std::find(axis.begin(), axis.end(), wanted) - axis.begin());
      numbers.add(2, {two_pi / text.inv_freq[first]});
      numbers.add(6, {39 * text.inv_freq[first]});
    }
  }
  Rope rope;
  rope.head_dim = 8;
  rope.pairing = interleaved;
  rope.axis = sectioned_axes(std::vector{2, 1, 1});
  const Vector x{1, 2, 3, 4, 5, 6, 7, 8};
  numbers.add(3, turned(x, speeds_of(8), 5));
  numbers.add(3, turned(x, frequencies(rope), at({5, 5, 5})));
}

void deepseek(Numbers& numbers) {
  const Frequencies speeds = speeds_of(4);
  const Vector x{1, 2, 3, 4}, k{4, 1, 3, 2};
  numbers.add(4, turned(x, speeds, 3));
  numbers.add(4, turned(x, speeds, 3, to_half));
  for (const auto& [of_q, of_k] : std::vector<std::pair<Pairing, Pairing>>{
           {interleaved, interleaved}, {to_half, to_half}, {to_half, interleaved}, {half, half}})
    for (const int n : {4, 104}) numbers.add(4, {dot(turned(x, speeds, n + 3, of_q), turned(k, speeds, n, of_k))});
  const Vector stored = turned(k, speeds, 4, to_half);
  numbers.add(5, turned(k, speeds, 3, to_half));
  numbers.add(5, turned(stored, speeds, -1, half));
  numbers.add(5, turned(stored, speeds, -1, to_half));
  numbers.add(1, {128 * (128 + 64 + 128) / (512.0 + 64)});
  const double magnitude = 0.1 * std::log(40.0) + 1;
  numbers.add(6, {magnitude, magnitude * magnitude, std::pow(magnitude, 4)});
  Yarn yarn{40, 4096};
  numbers.add(6, {speeds_of(64, 10000, yarn).attention_factor});
  yarn.mscale = yarn.mscale_all_dim = 1;
  numbers.add(6, {speeds_of(64, 10000, yarn).attention_factor});
}

void length(Numbers& numbers) {
  const auto dynamic = [](std::int64_t tokens) { return speeds_of(128, 10000, Dynamic{2, 4096}, tokens); };
  const Frequencies plain = speeds_of(128), now = dynamic(8192);
  for (const std::int64_t tokens : {1000, 4096, 4097, 6144, 8192, 16384, 32768}) {
    const std::vector<double> speeds = dynamic(tokens).inv_freq;
    numbers.add(4, {plain.inv_freq[32] / speeds[32], plain.inv_freq[63] / speeds[63],
                    static_cast<double>(tokens - 1) * speeds[63]});
  }
  numbers.add(4, {4095 * plain.inv_freq[63]});
  const std::vector<double> short_list{1, 1.05, 1.1, 1.2}, long_list{1, 2.5, 12, 32};
  const LongRope longrope{.short_factor = short_list, .long_factor = long_list, .trained_length = 4096, .factor = 32};
  const Frequencies within = speeds_of(8, 10000, longrope, 4096), beyond = speeds_of(8, 10000, longrope, 4097);
  for (std::size_t i = 0; i < 4; ++i) {
    numbers.add(6, {speeds_of(8).inv_freq[i]});
    numbers.add(2, {short_list[i], long_list[i]});
    numbers.add(6, {within.inv_freq[i], beyond.inv_freq[i]});
  }
  numbers.add(6, {beyond.attention_factor});
  for (const std::int64_t key : {4095, 4000, 3000, 1000, 0})
    numbers.add(6, {mean_cosine(now, 8191, now, key), mean_cosine(now, 8191, plain, key)});
}

// Numbers with a decimal point or a power of ten, in reading order; not the numbers of papers.
std::vector<std::string> decimals_of(const std::string& text) {
  const std::regex token("arXiv:[0-9.]+|-?[0-9]+\\.[0-9]+(e[-+]?[0-9]+)?|-?[0-9]+e[-+]?[0-9]+");
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), token), end; at != end; ++at) {
    if (!at->str().starts_with("arXiv:")) found.push_back(at->str());
  }
  return found;
}

TEST(ExplainNumbers, every_number_with_decimals_is_what_the_library_computes) {
  const std::map<std::string, void (*)(Numbers&)> chapters = {
      {"01-turn", turn},       {"02-distance", distance},
      {"03-pairs", pairs},     {"04-angles", angles},
      {"05-matrix", matrix},   {"06-complex", complex},
      {"07-pairing", pairing}, {"08-frequencies", frequencies_of_a_head},
      {"09-partial", partial}, {"10-cache", cache},
      {"11-scaling", scaling}, {"12-precision", precision},
      {"13-axes", axes},       {"14-deepseek", deepseek},
      {"15-length", length}};
  std::size_t judged = 0;
  for (const auto& [file, compute] : chapters) {
    Numbers numbers;
    compute(numbers);
    EXPECT_EQ(decimals_of(test::read_text(ROTARY_SOURCE_DIR "/docs/explain/" + file + ".md")), numbers.texts()) << file;
    judged += numbers.texts().size();
  }
  EXPECT_GT(judged, 500U);
}

}  // namespace
}  // namespace rotary::explain_tests
