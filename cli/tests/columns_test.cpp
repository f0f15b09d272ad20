// Tables of text cells, and numbers as text.
#include "shared/columns.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "values/number_text.h"

namespace rotary::cli {
namespace {

TEST(Columns, are_as_wide_as_their_widest_cell) {
  const std::vector<Cells> rows = {{"name", "n"}, {"a", "100"}, {"naïve", ""}};
  const Columns columns = Columns({Column{}, Column{.right = true}}, 2, "> ").fit(rows);
  EXPECT_EQ(columns.line(rows[0]), "> name     n");
  EXPECT_EQ(columns.line(rows[1]), "> a      100");
  EXPECT_EQ(columns.line(rows[2]), "> naïve     ") << "by columns of a terminal, not by bytes";
  EXPECT_EQ(without_end_spaces(columns.line(rows[2])), "> naïve");
}

TEST(Columns, are_not_widened_by_a_cell_that_is_too_long_or_ends_a_shorter_row) {
  const std::vector<Cells> rows = {{"ab", "x"}, {"a very long cell", "y"}, {"ends its row"}};
  const Columns columns = Columns({Column{.width = 1}, Column{}}).fit(rows, 10);
  EXPECT_EQ(columns.line(rows[0]), "ab  x");
  EXPECT_EQ(columns.line(rows[1]), "a very long cell  y");
  EXPECT_EQ(columns.line(rows[2]), "ends its row");
}

TEST(NumberText, is_what_printf_prints_but_for_minus_zero) {
  using namespace detail;
  EXPECT_EQ(fixed(-2.5, 2), "-2.50");
  EXPECT_EQ(fixed(-0.004, 2), "0.00");
  EXPECT_EQ(fixed(std::numeric_limits<double>::max(), 1).size(), 311U);
  EXPECT_EQ(fixed(std::nan(""), 3), "nan");
  EXPECT_EQ(scientific(3e-8, 1), "3.0e-08");
  EXPECT_EQ(significant(1e30, 17), "1e+30");
  EXPECT_EQ(significant(0.1, 17), "0.10000000000000001");
}

TEST(NumberText, is_the_shortest_that_reads_back) {
  using namespace detail;
  EXPECT_EQ(shortest(0.1F), "0.1");
  EXPECT_EQ(shortest(static_cast<double>(0.1F)), "0.10000000149011612");
  EXPECT_EQ(shortest(1e5), "1e+05");
  EXPECT_EQ(spelled(1e5), "100000");
  EXPECT_EQ(spelled(-0.0), "0");
  EXPECT_EQ(spelled(1e15), "1e+15");
  EXPECT_EQ(spelled(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(NumberText, groups_digits_and_lists_shapes) {
  using namespace detail;
  EXPECT_EQ(with_separators(999), "999");
  EXPECT_EQ(with_separators(-1000), "-1,000");
  EXPECT_EQ(with_separators(-100), "-100");
  EXPECT_EQ(with_separators(77509632), "77,509,632");
  EXPECT_EQ(shape_text(std::array<std::int64_t, 3>{1, 0, 64}), "[1, 0, 64]");
  EXPECT_EQ(shape_text({}), "[]");
}

}  // namespace
}  // namespace rotary::cli
