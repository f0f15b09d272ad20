// For tests of refused calls: tables of any size, and the sentence of an error.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::tests {

inline Table table_of(std::int64_t tokens, int pairs, int batch = 1, Pairing pairing = Pairing::half) {
  const auto count = static_cast<std::size_t>(tokens * pairs * batch);
  return Table(std::vector<float>(count, 0.0f), std::vector<float>(count, 1.0f), pairs, pairing, batch);
}

template <class Call>
void expect_error(const char* code, const std::string& sentence, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "no error instead of " << sentence;
  } catch (const Error& e) {
    EXPECT_EQ(std::string(rotary::name(e.code())), code);
    EXPECT_EQ(std::string(e.what()), sentence);
  }
}

}  // namespace rotary::tests
