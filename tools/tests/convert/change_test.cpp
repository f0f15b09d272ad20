// Packed numbers of one tensor. (Rows and columns: families_test.cpp, formats_test.cpp)
#include "convert/change.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "folder.h"

namespace rotary::convert_tests {
namespace {

using conversion::Axis;
using conversion::Change;
using conversion::Sources;

TEST(Rules, sizes_fit) {
  const auto eight = std::make_shared<const Sources>(conversion::unchanged(8));
  struct Case {
    Axis axis;
    int bits;
    ElementType type;
    std::vector<std::int64_t> shape;
    bool fits;
  };
  for (const Case& row : std::vector<Case>{{Axis::rows, 0, ElementType::u8, {8, 3}, true},
                                           {Axis::rows, 0, ElementType::u8, {2, 4, 3}, true},
                                           {Axis::rows, 0, ElementType::u8, {3, 8}, false},
                                           {Axis::rows, 0, ElementType::u8, {}, false},
                                           {Axis::columns, 0, ElementType::u8, {3, 8}, true},
                                           {Axis::columns, 0, ElementType::u8, {8, 3}, false},
                                           {Axis::packed_columns, 4, ElementType::i32, {5, 1}, true},
                                           {Axis::packed_columns, 4, ElementType::u8, {5, 1}, false},
                                           {Axis::packed_columns, 8, ElementType::i32, {5, 1}, false},
                                           {Axis::packed_rows, 8, ElementType::i32, {2, 5}, true},
                                           {Axis::packed_rows, 64, ElementType::i32, {16, 5}, false}}) {
    const TensorInfo tensor{"t", row.type, row.shape, 0};
    EXPECT_EQ(conversion::has_size(tensor, {row.axis, row.bits, eight}), row.fits) << static_cast<int>(row.axis);
  }
}

// ---- packed numbers against their bits ------------------------------------------------------------

std::shared_ptr<const Sources> shuffled(std::size_t count, unsigned seed) {
  Sources sources = conversion::unchanged(static_cast<std::int64_t>(count));
  std::shuffle(sources.begin(), sources.end(), std::mt19937(seed));
  return std::make_shared<const Sources>(std::move(sources));
}

TEST(Stream, rows_and_columns_of_one_piece_and_of_many) {
  for (const std::int64_t inner : {7, 60000}) {
    for (const Axis axis : {Axis::rows, Axis::columns}) {
      const bool rows = axis == Axis::rows;
      const Tensor tensor = some_tensor("t", ElementType::u8, {96, inner});
      const auto sources = shuffled(static_cast<std::size_t>(rows ? 96 : inner), 3);
      const std::vector<std::byte> out = conversion::changed(tensor, {axis, 0, sources}, tensor.data);
      ASSERT_EQ(out.size(), tensor.data.size());
      const auto width = static_cast<std::size_t>(inner);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const std::size_t row = i / width, column = i % width;
        ASSERT_EQ(out[i], tensor.data[(rows ? (*sources)[row] : row) * width + (rows ? column : (*sources)[column])]);
      }
    }
  }
}

// A number of some bits by its bits, one by one.
std::uint32_t bits_at(const std::vector<std::byte>& bytes, std::size_t first, unsigned count) {
  std::uint32_t number = 0;
  for (unsigned i = 0; i < count; ++i) {
    const std::size_t bit = first + i;
    number |= (std::to_integer<std::uint32_t>(bytes[bit / 8]) >> bit % 8 & 1U) << i;
  }
  return number;
}

TEST(Packed, columns_of_every_width) {
  for (const unsigned bits : {2U, 3U, 4U, 8U}) {
    const std::size_t count = 64, words = count * bits / 32;
    const Tensor tensor = some_tensor("t", ElementType::i32, {3, static_cast<std::int64_t>(words)});
    const auto sources = shuffled(count, bits);
    const std::vector<std::byte> out =
        conversion::changed(tensor, {Axis::packed_columns, static_cast<int>(bits), sources}, tensor.data);
    for (std::size_t line = 0; line < 3; ++line) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t begin = line * words * 32;
        EXPECT_EQ(bits_at(out, begin + i * bits, bits), bits_at(tensor.data, begin + (*sources)[i] * bits, bits));
      }
    }
  }
}

TEST(Packed, even_numbers_first_as_awq_does) {
  constexpr std::size_t order[] = {0, 2, 4, 6, 1, 3, 5, 7};  // AutoAWQ: the number at each place of a word
  const Tensor tensor = some_tensor("t", ElementType::i32, {2, 4});
  const auto sources = shuffled(32, 9);
  const std::vector<std::byte> out = conversion::changed(tensor, {Axis::awq_columns, 4, sources}, tensor.data);
  const auto number = [&](const std::vector<std::byte>& bytes, std::size_t line, std::size_t i) {
    const auto place = static_cast<std::size_t>(std::find(order, order + 8, i % 8) - order);
    return bits_at(bytes, line * 128 + i / 8 * 32 + place * 4, 4);
  };
  for (std::size_t line = 0; line < 2; ++line) {
    for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(number(out, line, i), number(tensor.data, line, (*sources)[i]));
  }
}

TEST(Packed, rows) {
  const Tensor tensor = some_tensor("t", ElementType::i32, {4, 5});  // 32 rows of 4 bits, 5 columns
  const auto sources = shuffled(32, 11);
  const Change change{Axis::packed_rows, 4, sources};
  const std::vector<std::byte> out = conversion::changed(tensor, change, tensor.data);
  EXPECT_EQ(conversion::changed(tensor, conversion::inverse(change), out), tensor.data);
  for (std::size_t column = 0; column < 5; ++column) {
    for (std::size_t i = 0; i < 32; ++i) {
      const auto bit = [column](std::size_t row) { return (row / 8 * 5 + column) * 32 + row % 8 * 4; };
      EXPECT_EQ(bits_at(out, bit(i), 4), bits_at(tensor.data, bit((*sources)[i]), 4));
    }
  }
}

}  // namespace
}  // namespace rotary::convert_tests
