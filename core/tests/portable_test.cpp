// Replacements for what a compiler lacks, against what the others have.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "runtime/compiler.h"
#include "values/fraction.h"

namespace rotary::detail {
namespace {

template <class T>
void expect_overflows_like_the_builtins() {
  constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  std::vector<T> values = {0, 1, 2, 3, most, most - 1, most / 2, most / 2 + 1, least, least + 1, least / 2};
  if constexpr (std::is_signed_v<T>) values.insert(values.end(), {T{-1}, T{-2}, T{-3}});
  std::mt19937_64 random(1);
  for (int i = 0; i < 100; ++i) values.push_back(static_cast<T>(random() >> (random() % 64)));
  for (const T a : values) {
    for (const T b : values) {
      T wanted, got;
      EXPECT_EQ(__builtin_add_overflow(a, b, &wanted), plain::add_overflows(a, b, &got)) << a << " + " << b;
      EXPECT_EQ(wanted, got) << a << " + " << b;
      EXPECT_EQ(__builtin_mul_overflow(a, b, &wanted), plain::multiply_overflows(a, b, &got)) << a << " * " << b;
      EXPECT_EQ(wanted, got) << a << " * " << b;
    }
  }
}

TEST(Portable, SumsAndProductsOverflowAsTheBuiltinsSay) {
  expect_overflows_like_the_builtins<std::int64_t>();
  expect_overflows_like_the_builtins<std::uint64_t>();
  expect_overflows_like_the_builtins<std::int32_t>();
  expect_overflows_like_the_builtins<std::uint32_t>();
}

#if defined(__SIZEOF_INT128__)
TEST(Portable, TwoWordsAreAnIntegerOf128Bits) {
  std::mt19937_64 random(2);
  const auto word = [&] {
    const std::uint64_t any = random();
    return random() % 4 == 0 ? ~std::uint64_t{0} >> (any % 64) : any >> (random() % 64);
  };
  const auto same = [](Wide wide, TwoWords words) { return high(wide) == high(words) && low(wide) == low(words); };
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t a1 = word(), a0 = word(), b1 = word(), b0 = word();
    const Wide a = static_cast<Wide>(a1) << 64 | a0, b = static_cast<Wide>(b1) << 64 | b0;
    const TwoWords p(a1, a0), q(b1, b0);
    ASSERT_TRUE(same(a + b, p + q));
    ASSERT_TRUE(same(a - b, p - q));
    ASSERT_TRUE(same(a * b0, p * b0));
    ASSERT_EQ(a == b, p == q);
    const int bits = static_cast<int>(random() % 128);
    ASSERT_TRUE(same(a << bits, p << bits)) << bits;
    ASSERT_TRUE(same(a >> bits, p >> bits)) << bits;
  }
}
#endif

}  // namespace
}  // namespace rotary::detail
