// The ways to make tables, judged by mpmath: files/golden/make_accuracy_numbers.py wrote
// tools/tests/golden/accuracy.json.
#include "rotary/accuracy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "core/tests/support/checks.h"
#include "core/tests/support/scalings.h"
#include "rotary/rotary.h"

namespace rotary::accuracy {
namespace {

using Json = nlohmann::json;

Rope half_rope(int head_dim, double base = 10000, Scaling scaling = Unscaled{}) {
  Rope rope{.head_dim = head_dim, .base = base, .pairing = Pairing::half};
  rope.scaling = std::move(scaling);
  return rope;
}

// tolerance 1e-6: the search for float32's reach ends soon.
Request request_for(const Rope& rope, std::vector<Position> positions, double tolerance = 1e-6) {
  Request request;
  request.model.ropes.emplace_back();
  request.model.ropes.front().rope = rope;
  request.frequencies = frequencies(rope);
  request.positions = std::move(positions);
  request.tolerance = tolerance;
  return request;
}

Study study_of(const Rope& rope, std::vector<Position> positions, double tolerance = 1e-6, std::int64_t context = 0) {
  Request request = request_for(rope, std::move(positions), tolerance);
  request.model.parts = {{.path = "", .context = context}};
  return study(request);
}

// The errors of a way, by decade.
const std::vector<std::optional<Largest>>& errors_of(Way way, const Study& study) {
  return study.ways.at(static_cast<std::size_t>(way)).decades;
}

Json golden() {
  std::ifstream file(ROTARY_SOURCE_DIR "/tools/tests/golden/accuracy.json");
  return Json::parse(file).at("ropes");
}

Rope rope_of(const Json& json) {
  Rope rope = half_rope(json.at("head_dim").get<int>(), json.at("base").get<double>());
  rope.rotary_dim = json.value("rotary_dim", rope.head_dim);
  rope.scaling = test::scaling_of(json);
  return rope;
}

// The real entry is known to a rounding of double, and the error is rounded.
void expect_same(double found, const Json& text) {
  const double wanted = std::strtod(text.get<std::string>().c_str(), nullptr);
  EXPECT_NEAR(found, wanted, 3e-16 + 3e-16 * wanted);
}

TEST(Accuracy, all_errors_are_those_of_mpmath) {
  std::size_t judged = 0;
  for (const Json& one : golden()) {
    const Rope rope = rope_of(one.at("rope"));
    ASSERT_EQ(one.at("errors").size(), 5U);
    for (std::size_t k = 0; k < one.at("positions").size(); ++k) {
      const std::int64_t position = std::strtoll(one.at("positions")[k].get<std::string>().c_str(), nullptr, 10);
      for (const auto& [way, decades] : study_of(rope, {position}).ways) {
        SCOPED_TRACE(one.at("rope").dump() + " " + way.name + " at " + std::to_string(position));
        const Json& wanted = one.at("errors").at(way.name)[k];
        ASSERT_EQ(decades.size(), 1U);
        ASSERT_EQ(decades[0].has_value(), !wanted.is_null());
        if (!decades[0]) continue;
        expect_same(decades[0]->error, wanted);
        ++judged;
      }
    }
  }
  EXPECT_GT(judged, 700U);
}

TEST(Accuracy, the_largest_of_a_decade_is_that_of_mpmath) {
  std::vector<Position> positions;
  for (std::int64_t p = 0; p < 1000; ++p) positions.emplace_back(p);
  int judged = 0;
  for (const Json& one : golden()) {
    if (!one.contains("decades")) continue;
    const Rope rope = rope_of(one.at("rope"));
    for (const auto& [way, decades] : study_of(rope, positions).ways) {
      SCOPED_TRACE(way.name);
      ASSERT_EQ(decades.size(), 3U);
      for (std::size_t k = 0; k < 3; ++k) {
        ASSERT_TRUE(decades[k]);
        expect_same(decades[k]->error, one.at("decades").at(way.name)[k]);
        const Study there = study_of(rope, {decades[k]->position});
        EXPECT_EQ(errors_of(way.way, there)[0]->error, decades[k]->error);
        EXPECT_EQ(errors_of(way.way, there)[0]->pair, decades[k]->pair);
        ++judged;
      }
    }
  }
  EXPECT_EQ(judged, 30);
}

TEST(Accuracy, exact_is_exact_wherever_one_looks) {
  const Study study = study_of(half_rope(16), {}, 1e-6, std::int64_t{1} << 50);
  EXPECT_EQ(study.decades.back().last, 9999999999999999);
  for (const std::optional<Largest>& largest : errors_of(Way::exact, study)) EXPECT_LE(largest->error, 0x1.0001p-25);
}

TEST(Accuracy, a_running_rotation_is_not_run_at_far_positions_and_fractions) {
  const std::int64_t last = 1 << 20;
  const Rope rope = half_rope(8);
  EXPECT_TRUE(errors_of(Way::running_rotation, study_of(rope, {last, -last}))[0]);
  EXPECT_FALSE(errors_of(Way::running_rotation, study_of(rope, {last, last + 1}))[0]);
  EXPECT_FALSE(errors_of(Way::running_rotation, study_of(rope, {0.5}))[0]);
  EXPECT_TRUE(errors_of(Way::fast_sine, study_of(rope, {0.5}))[0]);
}

TEST(Accuracy, real_positions) {
  const Rope rope = half_rope(8);
  const Study study = study_of(rope, {12.5, -0.25});
  ASSERT_EQ(study.decades.size(), 2U);
  EXPECT_EQ(study.decades[0].positions, std::vector<Position>{-0.25});
  EXPECT_EQ(study.decades[1].first, 10);
  EXPECT_LE(errors_of(Way::exact, study)[1]->error, 0x1.0001p-25);
  EXPECT_EQ(errors_of(Way::float32_product, study_of(rope, {12.0}))[0]->error,
            errors_of(Way::float32_product, study_of(rope, {std::int64_t{12}}))[0]->error);
  for (const double wrong : {0x1p63, std::nan("")})
    tests::expect_error_with("POSITION", "finite and below 2^63", [&] { study_of(rope, {wrong}); });
}

TEST(Accuracy, requests_that_do_not_fit_are_refused) {
  Request request = request_for(half_rope(8), {std::int64_t{3}});
  request.rope = 1;
  tests::expect_error_with("ROPE", "one of the model's 1", [&] { study(request); });
  request.rope = 0;
  request.frequencies.summed_axes = 8;  // there are 4 values
  tests::expect_error_with("SHAPE", "", [&] { study(request); });
}

TEST(Accuracy, the_progress_counts_the_positions) {
  std::vector<std::int64_t> progress;
  study(request_for(half_rope(8), {std::int64_t{3}, std::int64_t{2000}, 0.5}),
        [&](std::int64_t done, std::int64_t all) {
          progress.push_back(done);
          EXPECT_EQ(all, 3);
        });
  EXPECT_EQ(progress, (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(Decades, the_sample_is_what_the_text_says) {
  const Study study = study_of(half_rope(2), {});
  ASSERT_EQ(study.decades.size(), 7U);
  std::int64_t next = 0;
  for (std::size_t k = 0; k < 4; ++k) {
    for (const Position& position : study.decades[k].positions) EXPECT_EQ(std::get<std::int64_t>(position), next++);
  }
  EXPECT_EQ(next, 10000);
  for (std::size_t k = 4; k < 7; ++k) {
    const Decade& decade = study.decades[k];
    EXPECT_EQ(decade.positions.front(), Position(decade.first));
    EXPECT_EQ(decade.positions.back(), Position(decade.last));
    EXPECT_GE(decade.positions.size(), 4096U);
    const auto has = [&](std::int64_t p) {
      return std::ranges::find(decade.positions, Position(p)) != decade.positions.end();
    };
    for (std::int64_t power = 1; power < decade.last; power *= 2) {
      EXPECT_TRUE(power <= decade.first || (has(power - 1) && has(power) && has(power + 1))) << power;
    }
  }
}

TEST(Decades, positions_stand_in_their_decades) {
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const std::vector<Decade> decades =
      study_of(half_rope(2), {std::int64_t{100}, std::int64_t{-7}, std::int64_t{9}, least}).decades;
  ASSERT_EQ(decades.size(), 3U);
  EXPECT_EQ(decades[0].positions.size(), 2U);
  EXPECT_EQ(decades[1].first, 100);
  EXPECT_EQ(decades[1].last, 999);
  EXPECT_EQ(decades[2].first, 1000000000000000000);
}

// The largest error of the table with float32 angles at a position, against long double.
double float32_error(const Frequencies& f, std::int64_t position) {
  const Table table(f, position, Angles::float32);
  double largest = 0;
  for (std::size_t i = 0; i < f.inv_freq.size(); ++i) {
    const long double angle = static_cast<long double>(position) * f.inv_freq[i], factor = f.attention_factor;
    largest = std::max(largest, static_cast<double>(std::fabs(table.cos()[i] - factor * std::cos(angle))));
    largest = std::max(largest, static_cast<double>(std::fabs(table.sin()[i] - factor * std::sin(angle))));
  }
  return largest;
}

// The quick search against the slow one.
TEST(Reach, is_the_last_position_before_the_first_error_above_the_tolerance) {
  for (const Rope& rope : {half_rope(128), half_rope(64, 500000), half_rope(32, 10000, Yarn{4, 128})}) {
    const Frequencies f = frequencies(rope);
    for (const double tolerance : {1e-5, 1e-4, 3e-4}) {
      std::int64_t first = 0;
      while (float32_error(f, first) <= tolerance) ++first;
      const Study study = study_of(rope, {std::int64_t{1}}, tolerance);
      EXPECT_EQ(study.last_within, first - 1);
      EXPECT_FALSE(study.to_the_end);
    }
  }
}

// Products with a power of two are exact, and a table of zeros has no error.
TEST(Reach, ends) {
  Rope zeros = half_rope(64);
  zeros.scaling = Yarn{.factor = 4, .trained_length = 128, .attention_factor = 0};
  for (const Rope& rope : {half_rope(2), zeros}) {
    const Study study = study_of(rope, {std::int64_t{1}}, 1e-3);
    EXPECT_TRUE(study.to_the_end);
    EXPECT_EQ(study.last_within, 1 << 24);
  }
}

}  // namespace
}  // namespace rotary::accuracy
