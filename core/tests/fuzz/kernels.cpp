// Random requests: every target that runs here has the reference's bits and writes nothing else.
#include "core/tests/support/elements.h"
#include "fuzz.h"
#include "rotary/reference.h"

namespace rotary::fuzz {

using namespace tests;

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  std::mt19937 random(1);
  for (int i = 0; i < 24; ++i) {
    std::string text;
    for (int n = 0; n < 32; ++n) text += static_cast<char>(random());
    texts.push_back(text);
  }
  return texts;
}

std::vector<std::string> words() { return {std::string(4, '\0'), "\x01\x02", "\x3F\x40", "\xFF"}; }

// The input chooses the kernel and the sizes; strides, elements and the table are drawn by it as a seed.
void one(const std::string& input) {
  Choices choices(input);
  const auto dtype = static_cast<DType>(choices.below(3));
  const auto pairing = static_cast<Pairing>(1 + choices.below(3));
  const auto direction = static_cast<Direction>(choices.below(2));
  const bool in_place = choices.coin(), per_batch = choices.coin();
  const int pairs = 1 + choices.below(137);
  const std::int64_t first = choices.below(17);  // elements before the data, which misalign it
  const Layout sizes{
      1 + choices.below(3), 1 + choices.below(4), 1 + choices.below(4), 2 * pairs + choices.below(9), 0, 0, 0};
  std::seed_seq seed(input.begin(), input.end());
  Random random(seed);
  const Layout from = nested_layout(random, sizes, !in_place),
               to = in_place ? from : nested_layout(random, sizes, false);
  const Table table = random_table(random, sizes.tokens, pairs, pairing, per_batch ? static_cast<int>(sizes.batch) : 1);
  const Bytes in = hard_values(random, dtype, first + extent(from) + 8);
  const Bytes untouched = in_place ? in : hard_values(random, dtype, first + extent(to) + 8);
  const std::size_t offset = static_cast<std::size_t>(first) * size_of(dtype);

  // As `rotates`: the reference, or the chosen target. Elements outside the layout are compared too.
  const auto rotated = [&](const auto& rotates) {
    Bytes out = untouched;
    const Heads heads{&out[offset], dtype, to};
    rotates(in_place ? ConstHeads(heads) : ConstHeads(&in[offset], dtype, from), heads);
    return out;
  };
  const Bytes wanted =
      rotated([&](const ConstHeads& x, const Heads& out) { reference::rotate(x, out, table, direction); });
  for (const std::string_view target : running_targets()) {
    const Using forced(target);
    const Bytes got = rotated([&](const ConstHeads& x, const Heads& out) {
      in_place ? rotate(out, table, {.direction = direction}) : rotate(x, out, table, {.direction = direction});
    });
    for (std::int64_t i = 0; i < first + extent(to) + 8; ++i) {
      const std::uint32_t a = bits_at(got.data(), dtype, i), b = bits_at(wanted.data(), dtype, i);
      require(a == b || (is_nan(a, dtype) && is_nan(b, dtype)), std::string(target) + ", element " + std::to_string(i));
    }
  }
}

}  // namespace rotary::fuzz
