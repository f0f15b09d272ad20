// The ways to make tables, judged by mpmath: tools/golden/make_accuracy_numbers.py wrote tests/golden/accuracy.json.
#include "accuracy/ways.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "rotary/rotary.h"

namespace rotary::accuracy {
namespace {

using Json = nlohmann::json;
constexpr std::int64_t largest_position = std::numeric_limits<std::int64_t>::max();

Subject subject_of(const Rope& rope) { return {rope, frequencies(rope)}; }

Rope half_rope(int head_dim, double base, Scaling scaling = Unscaled{}) {
  Rope rope;
  rope.head_dim = head_dim;
  rope.base = base;
  rope.pairing = Pairing::half;
  rope.scaling = std::move(scaling);
  return rope;
}

Subject plain(int head_dim = 128, double base = 10000) { return subject_of(half_rope(head_dim, base)); }

Json golden() {
  std::ifstream file(ROTARY_SOURCE_DIR "/tests/golden/accuracy.json");
  return Json::parse(file).at("ropes");
}

Rope rope_of(const Json& json) {
  Rope rope;
  rope.head_dim = json.at("head_dim").get<int>();
  rope.rotary_dim = json.value("rotary_dim", rope.head_dim);
  rope.base = json.at("base").get<double>();
  rope.pairing = Pairing::half;
  const std::string scaling = json.value("scaling", "");
  if (scaling == "linear") rope.scaling = Linear{json.at("factor").get<double>()};
  if (scaling == "yarn") rope.scaling = Yarn{json.at("factor").get<double>(), json.at("trained").get<std::int64_t>()};
  if (scaling == "llama3") {
    rope.scaling = Llama3{json.at("factor").get<double>(), json.at("trained").get<std::int64_t>(),
                          json.at("low").get<double>(), json.at("high").get<double>()};
  }
  return rope;
}

double number(const Json& text) { return std::strtod(text.get<std::string>().c_str(), nullptr); }

// Both are rounded to double once or twice on their way.
void expect_same(double found, const Json& text) {
  const double wanted = number(text);
  EXPECT_NEAR(found, wanted, 2e-17 + 4e-16 * wanted);
}

std::vector<Decade> every_position_to_999() {
  std::vector<Position> positions;
  for (std::int64_t p = 0; p < 1000; ++p) positions.emplace_back(p);
  return decades_of(positions);
}

WayErrors errors_of(Way way, const Subject& subject, const std::vector<Decade>& decades) {
  return measure(subject, decades).at(static_cast<std::size_t>(way));
}

std::vector<CosSin> row_of(Way way, const Subject& subject, const Position& position) {
  return WayRows(subject, way).at(SharedRow(subject, position));
}

std::vector<double> row_errors(Way way, const Subject& subject, const std::vector<Position>& positions) {
  return errors_at(subject, {&way, 1}, positions).front();
}

TEST(Accuracy, AllErrorsAreThoseOfMpmath) {
  std::size_t judged = 0;
  for (const Json& one : golden()) {
    const Subject subject = subject_of(rope_of(one.at("rope")));
    ASSERT_EQ(one.at("errors").size(), all_ways().size());
    for (const auto& [name, errors] : one.at("errors").items()) {
      const Way way = parse_way(name);
      std::vector<Position> positions;
      std::vector<Json> wanted;
      for (std::size_t k = 0; k < errors.size(); ++k) {
        const Position position = std::strtoll(one.at("positions")[k].get<std::string>().c_str(), nullptr, 10);
        ASSERT_EQ(has_row(subject, way, position), !errors[k].is_null()) << name << position.whole();
        if (errors[k].is_null()) continue;
        positions.push_back(position);
        wanted.push_back(errors[k]);
      }
      const std::vector<double> found = row_errors(way, subject, positions);
      for (std::size_t k = 0; k < found.size(); ++k) {
        SCOPED_TRACE(one.at("rope").dump() + " " + name + " at " + std::to_string(positions[k].whole()));
        expect_same(found[k], wanted[k]);
      }
      judged += found.size();
    }
  }
  EXPECT_GT(judged, 1500U);
}

TEST(Accuracy, TheLargestOfADecadeAndTheScoresAreThoseOfMpmath) {
  int judged = 0;
  for (const Json& one : golden()) {
    if (!one.contains("decades")) continue;
    const Subject subject = subject_of(rope_of(one.at("rope")));
    for (const WayErrors& way : measure(subject, every_position_to_999())) {
      const std::string name = info(way.way).name;
      SCOPED_TRACE(name);
      ASSERT_EQ(way.decades.size(), 3U);
      for (std::size_t k = 0; k < 3; ++k) {
        ASSERT_TRUE(way.decades[k].cos_sin);
        expect_same(way.decades[k].cos_sin->error, one.at("decades").at(name)[k]);
        const Largest& at = *way.decades[k].cos_sin;
        EXPECT_GE(row_errors(way.way, subject, {at.position}).front(), at.error);
      }
      // z = cos + i sin is held to 2^-53 here.
      ASSERT_TRUE(way.decades[0].scores);
      EXPECT_NEAR(way.decades[0].scores->largest, number(one.at("scores").at(name)[0]), 1e-15);
      EXPECT_NEAR(way.decades[0].scores->rms, number(one.at("scores").at(name)[1]), 1e-15);
      ++judged;
    }
  }
  EXPECT_EQ(judged, 22);
}

// The same question asked of vectors: no unit vectors do worse than `largest`, and many have the mean square of `rms`.
TEST(Accuracy, ScoresOfRandomUnitVectors) {
  const Subject subject = plain(16);
  const std::vector<Decade> decades = decades_of({Position(3000), Position(4095)});
  const WayErrors way = errors_of(Way::float32_product, subject, decades);
  const std::vector<CosSin> row_m = row_of(Way::float32_product, subject, 4095),
                            row_n = row_of(Way::float32_product, subject, 3000);
  std::uint64_t state = 1;
  const auto uniform = [&] {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (static_cast<double>(state >> 11) + 0.5) * 0x1p-53;
  };
  const auto unit = [&] {
    std::vector<double> v(16);
    double square = 0;
    for (std::size_t i = 0; i < 16; i += 2) {
      const double radius = std::sqrt(-2 * std::log(uniform())), turn = 2 * M_PI * uniform();
      v[i] = radius * std::cos(turn), v[i + 1] = radius * std::sin(turn);
      square += radius * radius;
    }
    for (double& x : v) x /= std::sqrt(square);
    return v;
  };
  double sum = 0, largest = 0;
  constexpr int count = 20000;
  for (int k = 0; k < count; ++k) {
    const std::vector<double> q = unit(), key = unit();
    double error = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      const auto turned = [&](const std::vector<double>& x, double c, double s) {
        return std::pair(x[2 * i] * c - x[2 * i + 1] * s, x[2 * i + 1] * c + x[2 * i] * s);
      };
      const auto score = [](const auto& a, const auto& b) { return a.first * b.first + a.second * b.second; };
      const ExactCosSin m = exact_cos_sin(4095, subject.inv_freq[i], 1),
                        n = exact_cos_sin(3000, subject.inv_freq[i], 1);
      error += score(turned(q, double{row_m[i].cos}, double{row_m[i].sin}),
                     turned(key, double{row_n[i].cos}, double{row_n[i].sin})) -
               score(turned(q, m.cos.high, m.sin.high), turned(key, n.cos.high, n.sin.high));
    }
    sum += error * error;
    largest = std::max(largest, std::fabs(error));
  }
  const ScoreErrors& scores = *way.decades.front().scores;
  EXPECT_NEAR(std::sqrt(sum / count) / scores.rms, 1, 0.03);
  EXPECT_LT(largest, scores.largest);
  EXPECT_GT(largest, scores.rms);
}

TEST(Accuracy, ExactAndFloat32AreTheTablesOfTheLibrary) {
  const Rope rope = half_rope(64, 500000, Yarn{4, 4096});
  const Frequencies turns = frequencies(rope);
  const Subject subject(rope, turns);
  const std::pair<Way, TableOptions> ways[] = {{Way::exact, {}}, {Way::float32_product, {Angles::float32}}};
  for (const auto& [way, options] : ways) {
    for (const std::int64_t p : {std::int64_t{0}, std::int64_t{77}, std::int64_t{-4097}, std::int64_t{1000003}}) {
      const Table table(turns, p, options);
      const std::vector<CosSin> row = row_of(way, subject, p);
      for (std::size_t i = 0; i < row.size(); ++i) {
        EXPECT_EQ(row[i].cos, table.cos()[i]);
        EXPECT_EQ(row[i].sin, table.sin()[i]);
      }
    }
  }
}

TEST(Accuracy, ExactIsExactWhereverOneLooks) {
  const Subject subject = plain();
  for (const Decade& decade : default_decades(largest_position)) {
    for (const double error : row_errors(Way::exact, subject, decade.positions)) EXPECT_LE(error, 0x1p-25);
  }
}

TEST(Accuracy, ARunningRotationGoesBackAndForth) {
  const Subject subject = plain(8);
  WayRows rows(subject, Way::running_rotation);
  const auto row = [&](std::int64_t position) { return rows.at(SharedRow(subject, position)); };
  const std::vector<CosSin> there = row(1000);
  row(3);
  const std::vector<CosSin> again = row(1000), negative = row(-1000);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(there[i].cos, again[i].cos);
    EXPECT_EQ(there[i].sin, again[i].sin);
    EXPECT_EQ(there[i].sin, -negative[i].sin);
  }
  EXPECT_TRUE(has_row(subject, Way::running_rotation, last_running_rotation));
  EXPECT_FALSE(has_row(subject, Way::running_rotation, last_running_rotation + 1));
  EXPECT_FALSE(has_row(subject, Way::running_rotation, Position::real(0.5)));
  EXPECT_THROW(row_errors(Way::running_rotation, subject, {last_running_rotation + 1}), Error);
}

TEST(Accuracy, ARunningProductNeedsASeries) {
  Rope rope;
  rope.head_dim = 8;
  rope.pairing = Pairing::half;
  const auto chain = [&](std::vector<double> given) {
    rope.inv_freq = std::move(given);
    return subject_of(rope).chain;
  };
  EXPECT_FALSE(chain({1, 0.5, 0.3, 0.1}));
  EXPECT_FALSE(chain({0, 0, 0, 0}));
  ASSERT_TRUE(chain({2, 1, 0.5, 0.25}));
  EXPECT_EQ(chain({2, 1, 0.5, 0.25})->theta_scale, 0.5F);
  EXPECT_EQ(chain({2, 1, 0.5, 0.25})->multiplier, (std::vector<float>{2, 2, 2, 2}));
  EXPECT_EQ(chain({2, 1, 0.5, 0})->multiplier, (std::vector<float>{2, 2, 2, 0}));
}

TEST(Accuracy, RealPositions) {
  const Subject subject = plain(8);
  const std::vector<Decade> decades = decades_of({Position::real(12.5), Position::real(-0.25)});
  ASSERT_EQ(decades.size(), 2U);
  EXPECT_EQ(decades[0].positions.front().as_double(), -0.25);
  EXPECT_EQ(decades[1].first, 10);
  EXPECT_LE(row_errors(Way::exact, subject, decades[1].positions).front(), 0x1p-25);
  EXPECT_EQ(row_errors(Way::exact, subject, {Position::real(12)}), row_errors(Way::exact, subject, {Position(12)}));
  EXPECT_THROW(Position::real(0x1p63), Error);
  EXPECT_THROW(Position::real(std::nan("")), Error);
}

TEST(Decades, TheSampleIsWhatTheHeaderSays) {
  const std::vector<Decade> decades = default_decades(1000000);
  ASSERT_EQ(decades.size(), 7U);
  std::int64_t next = 0;
  for (std::size_t k = 0; k < 4; ++k) {
    for (const Position& position : decades[k].positions) EXPECT_EQ(position.whole(), next++);
  }
  EXPECT_EQ(next, all_below);
  for (std::size_t k = 4; k < 7; ++k) {
    const std::vector<Position>& all = decades[k].positions;
    EXPECT_EQ(all.front().whole(), decades[k].first);
    EXPECT_EQ(all.back().whole(), decades[k].last);
    EXPECT_GE(all.size(), 4096U);
    const auto has = [&](std::int64_t p) {
      return std::any_of(all.begin(), all.end(), [p](const Position& one) { return one.whole() == p; });
    };
    for (std::int64_t power = 1; power < decades[k].last; power *= 2) {
      if (power <= decades[k].first) continue;
      EXPECT_TRUE(has(power - 1) && has(power) && has(power + 1)) << power;
    }
  }
  EXPECT_EQ(default_decades(9).size(), 1U);
  EXPECT_EQ(default_decades(largest_position).back().last, largest_position);
}

TEST(Decades, PositionsStandInTheirDecades) {
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const std::vector<Decade> decades = decades_of({Position(100), Position(-7), Position(9), Position(least)});
  ASSERT_EQ(decades.size(), 3U);
  EXPECT_EQ(decades[0].positions.size(), 2U);
  EXPECT_EQ(decades[1].first, 100);
  EXPECT_EQ(decades[1].last, 999);
  EXPECT_EQ(decades[2].first, 1000000000000000000);
}

// The quick search against the slow one.
TEST(Reach, IsTheFirstErrorAboveTheTolerance) {
  Rope scaled;
  scaled.head_dim = 32;
  scaled.pairing = Pairing::half;
  scaled.scaling = Yarn{4, 128};
  for (const Subject& subject : {plain(), plain(64, 500000), subject_of(scaled)}) {
    for (const double tolerance : {1e-5, 1e-4, 3e-4}) {
      std::int64_t first = 0;
      while (row_errors(Way::float32_product, subject, {Position(first)}).front() <= tolerance) ++first;
      const Reach reach = float32_reach(subject, tolerance, 1 << 20);
      EXPECT_EQ(reach.last, first - 1);
      EXPECT_FALSE(reach.to_the_end);
      EXPECT_TRUE(float32_reach(subject, tolerance, first - 1).to_the_end);
      EXPECT_EQ(float32_reach(subject, tolerance, first).last, first - 1);
    }
  }
}

// Products with a power of two are exact, a table of zeros has no error, and the search ends after so many entries.
TEST(Reach, Ends) {
  const std::int64_t most = std::int64_t{1} << 24;
  const Reach of_one = float32_reach(subject_of({.head_dim = 2, .pairing = Pairing::half}), 1e-3, most);
  EXPECT_TRUE(of_one.to_the_end);
  EXPECT_EQ(of_one.last, most);

  Rope zeros{.head_dim = 64, .pairing = Pairing::half};
  zeros.scaling = Yarn{.factor = 4, .trained_length = 128, .attention_factor = 0};
  EXPECT_EQ(float32_reach(subject_of(zeros), 1e-3, most).last, most);

  const Reach cut = float32_reach(plain(), 1, most);  // 2^24 pairs of cos and sin end before
  EXPECT_TRUE(cut.to_the_end);
  EXPECT_GT(cut.last, 1 << 20);
  EXPECT_LT(cut.last, most);
}

// Rows of 2048 pairs for 512 positions; of more pairs fewer positions.
TEST(Measure, KeepsFewerPositionsOfARopeOfManyPairs) {
  const std::vector<Decade> decades = decades_of([] {
    std::vector<Position> positions;
    for (std::int64_t p = 1000; p < 1300; ++p) positions.emplace_back(p);
    return positions;
  }());
  const WayErrors wide = errors_of(Way::float32_product, plain(8192), decades);
  ASSERT_TRUE(wide.decades.front().scores.has_value());
  EXPECT_GT(wide.decades.front().scores->largest, 1e-5);
  EXPECT_LT(wide.decades.front().scores->largest, 1e-3);
}

TEST(Ways, HaveNames) {
  for (const WayInfo& known : all_ways()) {
    EXPECT_EQ(parse_way(known.name), known.way);
    EXPECT_STREQ(info(known.way).name, known.name);
  }
  EXPECT_THROW(parse_way("float16"), Error);
}

}  // namespace
}  // namespace rotary::accuracy
