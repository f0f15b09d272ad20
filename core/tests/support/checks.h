// For tests of refused calls: tables of any size, and the code and the sentence of an error.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/tests/support/outcome.h"
#include "core/tests/support/tables.h"
#include "rotary/rotary.h"

namespace rotary::tests {

inline Table table_of(std::int64_t tokens, int pairs, int batch = 1, Pairing pairing = Pairing::half) {
  const auto count = static_cast<std::size_t>(tokens * pairs * batch);
  return Table(std::vector<float>(count, 0.0f), std::vector<float>(count, 1.0f), pairs, pairing, batch);
}

template <class Function>
Code code_of(const Function& call) {
  const Outcome got = outcome_of(call);
  EXPECT_TRUE(got.refused);
  return got.code;
}

template <class Function>
void expect_error(const char* code, const std::string& sentence, const Function& call) {
  EXPECT_EQ(outcome_of(call).text(), code + (": " + sentence));
}

// Expects an error of that code whose sentence contains `part`.
template <class Function>
void expect_error_with(const char* code, const std::string& part, const Function& call) {
  const std::string got = outcome_of(call).text();
  EXPECT_TRUE(got.starts_with(std::string(code) + ": ") && got.find(part) != std::string::npos)
      << got << " is not " << code << " about " << part;
}

inline void expect_same_table(const Table& a, const Table& b, const std::string& what = {}) {
  EXPECT_EQ(a.pairing(), b.pairing()) << what;
  EXPECT_EQ(a.pairs(), b.pairs()) << what;
  EXPECT_EQ(a.batch(), b.batch()) << what;
  EXPECT_EQ(a.tokens(), b.tokens()) << what;
  EXPECT_TRUE(same_bits(a.cos(), b.cos()) && same_bits(a.sin(), b.sin())) << what;
}

}  // namespace rotary::tests
