// Random requests: every target that runs here has the reference's bits and writes nothing else.
#include <bit>
#include <cstring>
#include <random>

#include "fuzz.h"
#include "rotary/reference.h"
#include "rotary/rotary.h"
#include "rotary/targets.h"

namespace rotary::fuzz {
namespace {

struct Request {
  DType dtype = DType::f32;
  Pairing pairing = Pairing::half;
  Direction direction = Direction::forward;
  bool in_place = false;
  int pairs = 1;
  Layout in;
  Layout out;
  std::int64_t first = 0;  // elements before the data, which misalign it
};

std::int64_t extent(const Layout& l) {
  return (l.batch - 1) * l.batch_stride + (l.tokens - 1) * l.token_stride + (l.heads - 1) * l.head_stride + l.head_dim;
}

// Strides of the three outer dimensions in any order, with gaps.
Layout random_strides(Choices& choices, Layout layout) {
  struct Dimension {
    std::int64_t size;
    std::int64_t* stride;
  };
  Dimension dimensions[3] = {
      {layout.batch, &layout.batch_stride}, {layout.tokens, &layout.token_stride}, {layout.heads, &layout.head_stride}};
  std::swap(dimensions[0], dimensions[choices.below(3)]);
  std::swap(dimensions[1], dimensions[1 + choices.below(2)]);
  std::int64_t stride = layout.head_dim;
  for (const Dimension& dimension : dimensions) {
    stride += choices.below(4);
    *dimension.stride = stride;
    stride *= dimension.size;
  }
  return layout;
}

Request random_request(Choices& choices) {
  Request r;
  r.dtype = static_cast<DType>(choices.below(3));
  r.pairing = static_cast<Pairing>(1 + choices.below(3));
  r.direction = static_cast<Direction>(choices.below(2));
  r.in_place = choices.coin();
  r.pairs = 1 + choices.below(137);
  r.first = choices.below(17);
  Layout layout;
  layout.head_dim = 2 * r.pairs + choices.below(9);
  layout.batch = 1 + choices.below(3);
  layout.tokens = 1 + choices.below(4);
  layout.heads = 1 + choices.below(4);
  r.in = random_strides(choices, layout);
  r.out = r.in_place ? r.in : random_strides(choices, layout);
  return r;
}

// Mostly ordinary numbers, every eighth of them unusual: 0, -0, subnormal, largest, infinite, NaN with a payload.
std::uint32_t random_f32(std::mt19937& random) {
  constexpr std::uint32_t unusual[] = {0, 0x80000000, 1, 0x807FFFFF, 0x7F7FFFFF, 0xFF800000, 0x7FC01234, 0x00800000};
  if (random() % 8 == 0) return unusual[random() % 8];
  return std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(random())) * 0x1p-28F);
}

std::vector<std::byte> random_elements(std::mt19937& random, DType dtype, std::int64_t count) {
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size);
  for (std::size_t i = 0; i < bytes.size(); i += size) {
    const std::uint32_t bits = size == 4 ? random_f32(random) : static_cast<std::uint32_t>(random());
    std::memcpy(&bytes[i], &bits, size);
  }
  return bytes;
}

bool is_nan(DType dtype, std::uint32_t bits) {
  if (dtype == DType::f32) return (bits & 0x7FFFFFFF) > 0x7F800000;
  return (bits & 0x7FFF) > (dtype == DType::f16 ? 0x7C00U : 0x7F80U);
}

// Compares bits; a NaN made by arithmetic equals any other NaN.
void require_same(const std::vector<std::byte>& got, const std::vector<std::byte>& wanted, DType dtype,
                  const std::string& what) {
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < got.size(); i += size) {
    std::uint32_t a = 0, b = 0;
    std::memcpy(&a, &got[i], size);
    std::memcpy(&b, &wanted[i], size);
    require(a == b || (is_nan(dtype, a) && is_nan(dtype, b)), what + ", element " + std::to_string(i / size));
  }
}

Table random_table(std::mt19937& random, const Request& r, bool per_batch) {
  const std::int64_t batch = per_batch ? r.in.batch : 1;
  std::vector<float> cos(static_cast<std::size_t>(batch * r.in.tokens * r.pairs)), sin(cos.size());
  for (float& value : cos) value = std::bit_cast<float>(random_f32(random));
  for (float& value : sin) value = std::bit_cast<float>(random_f32(random));
  return Table(cos, sin, r.pairs, r.pairing, static_cast<int>(batch));
}

}  // namespace

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

void one(const std::string& input) {
  Choices choices(input);
  const Request r = random_request(choices);
  const bool per_batch = choices.coin();
  std::seed_seq seed(input.begin(), input.end());
  std::mt19937 random(seed);
  const Table table = random_table(random, r, per_batch);
  const std::vector<std::byte> in = random_elements(random, r.dtype, r.first + extent(r.in) + 8);
  const std::vector<std::byte> untouched =
      r.in_place ? in : random_elements(random, r.dtype, r.first + extent(r.out) + 8);
  const std::size_t offset = static_cast<std::size_t>(r.first) * size_of(r.dtype);

  std::vector<std::byte> wanted = untouched;
  const Heads wanted_heads{&wanted[offset], r.dtype, r.out};
  const ConstHeads x(&in[offset], r.dtype, r.in);
  const ConstHeads from = r.in_place ? ConstHeads(wanted_heads) : x;
  reference::rotate(from, wanted_heads, table, r.direction);

  for (const Target& target : targets()) {
    if (!target.runs) continue;
    use_target(target.name);
    std::vector<std::byte> got = untouched;
    const Heads heads{&got[offset], r.dtype, r.out};
    if (r.in_place) {
      rotate(heads, table, r.direction);
    } else {
      rotate(x, heads, table, r.direction);
    }
    require_same(got, wanted, r.dtype, std::string(target.name));
  }
  use_target("");
}

}  // namespace rotary::fuzz
