// Work whose instructions scripts/count_instructions.sh has counted by callgrind: a measure without noise.
//   count_instructions            one line a cell: number, units (elements; pairs of a table), name
//   count_instructions NUMBER     does the cell's work once, in measured()
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rotary/rotary.h"
#include "rotary/targets.h"

using namespace rotary;

namespace {

struct Cell {
  std::string name;
  std::int64_t units;
  std::function<std::function<void()>()> prepare;  // gives the work to be measured
};

std::vector<std::int64_t> every(std::int64_t step, std::int64_t tokens) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<std::int64_t>(i + 1) * step;
  return result;
}

Frequencies frequencies_of(int rotary_dim, Pairing pairing) {
  Rope rope;
  rope.head_dim = rotary_dim;
  rope.base = 500000;
  rope.pairing = pairing;
  return frequencies(rope);
}

// Values from 1 to 2.
std::vector<std::byte> one_to_two(std::int64_t elements, DType dtype) {
  std::vector<std::byte> data(static_cast<std::size_t>(elements) * size_of(dtype));
  auto* words = reinterpret_cast<std::uint16_t*>(data.data());
  for (std::size_t i = 0; i < static_cast<std::size_t>(elements); ++i) {
    const auto low = static_cast<std::uint16_t>(i * 37 % 128);
    if (dtype == DType::f32) words[2 * i + 1] = static_cast<std::uint16_t>(0x3f80 + low);
    if (dtype == DType::bf16) words[i] = static_cast<std::uint16_t>(0x3f80 + low);
    if (dtype == DType::f16) words[i] = static_cast<std::uint16_t>(0x3c00 + low);
  }
  return data;
}

struct Shape {
  const char* name;
  std::int64_t tokens;
  int head_dim, rotary_dim;
  bool heads_first;  // bhtd
};
constexpr Shape shapes[] = {{"1 token, 128", 1, 128, 128, false},         {"64 tokens, 128", 64, 128, 128, false},
                            {"64 tokens, 128, bhtd", 64, 128, 128, true}, {"64 tokens, 64", 64, 64, 64, false},
                            {"64 tokens, 80", 64, 80, 80, false},         {"64 tokens, 256", 64, 256, 256, false},
                            {"64 tokens, 24 of 96", 64, 96, 24, false}};
constexpr std::int64_t heads = 40;

Cell rotation(const Shape& shape, DType dtype, Pairing pairing) {
  const std::int64_t elements = shape.tokens * heads * shape.rotary_dim;
  const auto prepare = [=]() -> std::function<void()> {
    auto data = std::make_shared<std::vector<std::byte>>(one_to_two(shape.tokens * heads * shape.head_dim, dtype));
    auto table = std::make_shared<Table>(frequencies_of(shape.rotary_dim, pairing), every(1, shape.tokens));
    const Layout layout =
        shape.heads_first ? bhtd(1, heads, shape.tokens, shape.head_dim) : bthd(1, shape.tokens, heads, shape.head_dim);
    return [=] { rotate({data->data(), dtype, layout}, *table); };
  };
  return {std::string("rotate ") + name(dtype) + " " + name(pairing) + ", " + shape.name, elements, prepare};
}

Cell table(Angles angles, std::int64_t tokens, std::int64_t step) {
  const auto prepare = [=]() -> std::function<void()> {
    auto f = std::make_shared<Frequencies>(frequencies_of(128, Pairing::half));
    auto where = std::make_shared<std::vector<std::int64_t>>(every(step, tokens));
    auto made = std::make_shared<Table>(*f, *where, angles);
    return [=] { made->assign(*f, *where, angles); };
  };
  return {std::string("table ") + (angles == Angles::exact ? "exact" : "float32") + ", " + std::to_string(tokens) +
              " rows, positions " + std::to_string(step) + " apart",
          tokens * 64, prepare};
}

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  for (const Shape& shape : shapes) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const Pairing pairing : {Pairing::half, Pairing::interleaved})
        cells.push_back(rotation(shape, dtype, pairing));
    }
  }
  for (const Angles angles : {Angles::exact, Angles::float32}) {
    cells.push_back(table(angles, 1, 1));
    cells.push_back(table(angles, 2048, 1));
    cells.push_back(table(angles, 2048, 2));
  }
  return cells;
}

}  // namespace

extern "C" [[gnu::noinline]] void measured(const std::function<void()>* work) { (*work)(); }

int main(int argc, char** argv) {
  const std::vector<Cell> cells = all_cells();
  if (argc < 2) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      std::printf("%zu %lld %s\n", i, static_cast<long long>(cells[i].units), cells[i].name.c_str());
    }
    return 0;
  }
  const auto number = static_cast<std::size_t>(std::atoll(argv[1]));
  if (number >= cells.size()) return 2;
  const std::function<void()> work = cells[number].prepare();
  work();  // what the first call alone does
  measured(&work);
  return 0;
}
