// Work whose instructions scripts/count_instructions.sh has counted by callgrind: a measure without noise.
//   count_instructions            one line a cell: number, units (elements; pairs of a table; calls), name
//   count_instructions NUMBER     does the cell's work once, in measured()
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rotary/rotary.h"

using namespace rotary;

namespace {

struct Cell {
  std::string name;
  std::int64_t units;
  std::function<std::function<void()>()> prepare;  // gives the work to be measured
};

struct Shape {
  const char* name;
  std::int64_t tokens;
  int head_dim, rotary_dim;
  bool heads_first = false;  // bhtd
};
constexpr Shape shapes[] = {
    {"1 token, 128", 1, 128, 128},      {"64 tokens, 128", 64, 128, 128}, {"64 tokens, 128, bhtd", 64, 128, 128, true},
    {"64 tokens, 64", 64, 64, 64},      {"64 tokens, 80", 64, 80, 80},    {"64 tokens, 256", 64, 256, 256},
    {"64 tokens, 24 of 96", 64, 96, 24}};
constexpr std::int64_t heads = 40;

Frequencies frequencies_of(int rotary_dim, Pairing pairing) {
  return frequencies({.head_dim = rotary_dim, .base = 500000, .pairing = pairing});
}

std::vector<std::int64_t> every(std::int64_t step, std::int64_t tokens) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 1; i <= tokens; ++i) result.push_back(i * step);
  return result;
}

Cell rotation(const Shape& shape, DType dtype, Pairing pairing) {
  const auto prepare = [=]() -> std::function<void()> {
    const std::int64_t bytes = shape.tokens * heads * shape.head_dim * static_cast<std::int64_t>(size_of(dtype));
    // A number near 0.01 as f32 and bf16, near 1 as f16.
    auto data = std::make_shared<std::vector<char>>(static_cast<std::size_t>(bytes), 0x3c);
    auto table = std::make_shared<Table>(frequencies_of(shape.rotary_dim, pairing), every(1, shape.tokens));
    const Layout layout =
        shape.heads_first ? bhtd(1, heads, shape.tokens, shape.head_dim) : bthd(1, shape.tokens, heads, shape.head_dim);
    return [=] { rotate({data->data(), dtype, layout}, *table); };
  };
  return {std::string("rotate ") + name(dtype) + " " + name(pairing) + ", " + shape.name,
          shape.tokens * heads * shape.rotary_dim, prepare};
}

Cell table(Angles angles, std::int64_t tokens, std::int64_t step) {
  const auto prepare = [=]() -> std::function<void()> {
    const Frequencies f = frequencies_of(128, Pairing::half);
    const std::vector<std::int64_t> where = every(step, tokens);
    return [=, table = std::make_shared<Table>(f, where, angles)] { table->assign(f, where, angles); };
  };
  return {std::string("table ") + (angles == Angles::exact ? "exact" : "float32") + ", " + std::to_string(tokens) +
              " rows, positions " + std::to_string(step) + " apart",
          tokens * 64, prepare};
}

// A call of one token, with its cost beside the elements: of one head, and of 32 + 8 heads in one call and in two.
Cell call(DType dtype, std::int64_t q_heads, std::int64_t k_heads, bool together) {
  const auto prepare = [=]() -> std::function<void()> {
    const auto side = [=](std::int64_t count) {
      return std::make_shared<std::vector<char>>(static_cast<std::size_t>(count * 128) * size_of(dtype), 0x3c);
    };
    return [=, q = side(q_heads), k = side(k_heads),
            table = std::make_shared<Table>(frequencies_of(128, Pairing::half), 1)] {
      const Heads queries{q->data(), dtype, thd(1, q_heads, 128)}, keys{k->data(), dtype, thd(1, k_heads, 128)};
      if (together) return rotate_qk(queries, keys, *table);
      rotate(queries, *table);
      if (k_heads > 0) rotate(keys, *table);
    };
  };
  const std::string what = together      ? "rotate_qk, 32 + 8 heads"
                           : k_heads > 0 ? "rotate, 32 heads, then 8"
                                         : "rotate, 1 head";
  return {std::string("a call, ") + name(dtype) + ": " + what, 1, prepare};
}

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    cells.push_back(call(dtype, 1, 0, false));
    cells.push_back(call(dtype, 32, 8, false));
    cells.push_back(call(dtype, 32, 8, true));
  }
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
  work();  // the first call alone does more
  measured(&work);
  return 0;
}
