// Prints a hash of the bits of frequencies, tables and rotations for each target that this machine runs, and last one
// line "bits HASH" if they are all the same. The hash is the same with every compiler on every machine. Needs nothing
// but the core, no exceptions and no threads.
//   bits_test [HASH]     exit 1 if targets differ, or if the hash is not HASH
#include "runtime/arithmetic.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/rotary.h"
#include "rotary/self_test.h"
#include "rotary/targets.h"
#include "runtime/bits_hash.h"
//
#include "../support/elements.h"

namespace rotary {
namespace {

using detail::BitsHash;
using tests::Bytes;

// splitmix64
struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
};

// ---- frequencies ---------------------------------------------------------------------------------

std::vector<Scaling> scalings(int pairs) {
  LongRope longrope;
  for (int i = 0; i < pairs; ++i) {
    longrope.short_factor.push_back(1 + 0.01 * i);
    longrope.long_factor.push_back(1 + 0.37 * i);
  }
  longrope.trained_length = 4096;
  longrope.factor = 32;
  const Yarn deepseek{.factor = 40, .trained_length = 4096, .mscale = 0.707, .mscale_all_dim = 1.0};
  const Yarn not_truncated{.factor = 32, .trained_length = 4096, .truncate = false};
  return {Unscaled{},
          Linear{3},
          Ntk{4},
          NtkFixed{5},
          NtkFixed{7, 0.6},
          Dynamic{2, 4096},
          Yarn{16, 32768},
          deepseek,
          not_truncated,
          longrope,
          Llama3{8, 8192},
          Llama3{32, 8192, 1, 4},
          Proportional{0.25},
          Proportional{0.5, 8}};
}

Rope rope_of(int rotary_dim, double base, const Scaling& scaling) {
  return {.head_dim = rotary_dim, .base = base, .pairing = Pairing::half, .scaling = scaling};
}

std::uint64_t frequencies_hash() {
  BitsHash hash;
  for (const int rotary_dim : {2, 6, 24, 64, 80, 96, 128, 256}) {
    for (const double base : {10000.0, 500000.0, 1e6, 150000.5, 1.25}) {
      for (const Scaling& scaling : scalings(rotary_dim / 2)) {
        for (const std::int64_t length : {0, 20000}) {
          if (rotary_dim == 2 && (std::holds_alternative<Ntk>(scaling) || std::holds_alternative<Dynamic>(scaling)))
            continue;
          const Frequencies f = frequencies(rope_of(rotary_dim, base, scaling), length);
          hash.add(std::span<const double>(f.inv_freq));
          hash.add(std::span<const float>(f.inv_freq_float32));
          hash.add(f.attention_factor);
        }
      }
    }
  }
  return hash.value;
}

// ---- tables --------------------------------------------------------------------------------------

// With Angles::float32 the angle is a float, so positions stay where it is finite.
void add_table(BitsHash& hash, const Frequencies& f, const Positions& at, Angles angles = Angles::exact) {
  for (const Rounding rounding : {Rounding::f32, Rounding::f16, Rounding::bf16}) {
    const Table table(f, at, {angles, rounding});
    hash.add(table.cos());
    hash.add(table.sin());
  }
}

std::uint64_t tables_hash() {
  BitsHash hash;
  Random random{1};
  std::vector<std::int64_t> far = {0, 1, -1, 131071, -131072, 123456789012345, INT64_MAX, INT64_MIN};
  std::vector<double> real = {0, -0.0, 0.5, -0.1, 1e-300, 4.9e-324, 1e18, 1.5e300, 127.99999999999999};
  for (int i = 0; i < 60; ++i) {
    far.push_back(static_cast<std::int64_t>(random.next() >> (random.next() % 64)));
    real.push_back(static_cast<double>(static_cast<std::int64_t>(random.next())) / 0x1p53);
  }
  for (const int rotary_dim : {2, 6, 14, 16, 18, 34, 64, 80, 96, 128, 130, 256}) {
    for (const Scaling& scaling : {Scaling{Unscaled{}}, Scaling{Yarn{16, 32768}}, Scaling{Llama3{8, 8192}}}) {
      Frequencies f = frequencies(rope_of(rotary_dim, rotary_dim == 128 ? 500000 : 10000, scaling));
      f.clockwise = rotary_dim == 96;
      for (const std::int64_t first :
           {std::int64_t{0}, std::int64_t{131000}, std::int64_t{-37}, std::int64_t{1} << 40}) {
        add_table(hash, f, positions(first, 67));
        add_table(hash, f, positions(first, 67), Angles::float32);
      }
      add_table(hash, f, far);
      add_table(hash, f, real);
      f.attention_factor = -0x1p-70;  // settled in wide arithmetic
      add_table(hash, f, positions(99990, 3));
    }
    if (rotary_dim % 6 != 0) continue;
    Rope images = rope_of(rotary_dim, 10000, Unscaled{});
    const std::vector<int> sections(3, rotary_dim / 6);
    images.axis = interleaved_axes(sections);
    std::vector<std::int64_t> grid;
    for (int i = 0; i < 3 * 2 * 9; ++i) grid.push_back(static_cast<std::int64_t>(random.next() % 100000));
    add_table(hash, frequencies(images), Positions(grid, 3, 2));
    add_table(hash, frequencies(images), Positions(grid, 3, 2), Angles::float32);
  }
  return hash.value;
}

// ---- rotations -----------------------------------------------------------------------------------

// Elements of any exponent, now and then an infinity, a NaN, a zero or a subnormal.
Bytes elements(Random& random, DType dtype, std::int64_t count) {
  const tests::Format f = tests::format(dtype);
  Bytes x(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random.next();
    const auto kind = static_cast<std::uint32_t>(bits >> 32) % 64;
    const std::uint32_t exponents = f.infinity >> f.fraction;
    const std::uint32_t middle = exponents / 2 - 4 + static_cast<std::uint32_t>(bits >> 40) % 8;
    const std::uint32_t any = static_cast<std::uint32_t>(bits >> 40) % (exponents + 1);
    const std::uint32_t exponent = kind == 0 ? exponents : kind == 1 ? 0 : kind < 12 ? any : middle;
    const std::uint32_t fraction = static_cast<std::uint32_t>(bits) & ((1u << f.fraction) - 1);
    const std::uint32_t sign = (bits >> 31 & 1) != 0 ? f.sign : 0;
    tests::set_bits(x.data(), dtype, i, sign | exponent << f.fraction | (kind == 0 && (bits & 3) != 0 ? 0 : fraction));
  }
  return x;
}

void add_elements(BitsHash& hash, const Bytes& x, DType dtype) {
  for (std::int64_t i = 0; i < std::ssize(x) / static_cast<std::int64_t>(size_of(dtype)); ++i) {
    const std::uint32_t word = tests::bits_at(x.data(), dtype, i);
    hash.add(std::uint64_t{tests::is_nan(word, dtype) ? 1 : word});  // the payload of a NaN is unspecified
  }
}

void add_rotations(BitsHash& hash, Random& random, DType dtype, const Table& table, int rest) {
  constexpr int tokens = 3, heads = 5;
  const int head_dim = table.rotary_dim() + rest;
  Bytes in;
  for (const Layout& layout : {bthd(2, tokens, heads, head_dim), bhtd(2, heads, tokens, head_dim)}) {
    for (const Direction direction : tests::directions) {
      in = elements(random, dtype, tests::extent(layout));
      Bytes out(in.size());
      rotate({in.data(), dtype, layout}, Heads{out.data(), dtype, layout}, table, {.direction = direction});
      add_elements(hash, out, dtype);
      rotate(Heads{in.data(), dtype, layout}, table, {.direction = direction});
      add_elements(hash, in, dtype);
    }
  }
  // q of three heads and k of one, apart, then side by side.
  const auto part = [&](std::int64_t first, std::int64_t count) {
    Layout l = bthd(2, tokens, heads, head_dim);
    l.heads = count;
    return Heads{in.data() + static_cast<std::size_t>(first * head_dim) * size_of(dtype), dtype, l};
  };
  const ThreadPool pool(2);
  rotate_qk(part(0, 3), part(4, 1), table, {.executor = &pool});
  rotate_qk(part(0, 3), part(3, 1), table);
  add_elements(hash, in, dtype);
}

std::uint64_t rotations_hash() {
  BitsHash hash;
  Random random{2};
  for (const int rotary_dim : {2, 4, 6, 10, 16, 24, 30, 36, 62, 64, 66, 80, 96, 128, 130, 256}) {
    for (const Pairing pairing : tests::pairings) {
      Frequencies f = frequencies(rope_of(rotary_dim, 10000, Unscaled{}));
      f.pairing = pairing;
      f.attention_factor = rotary_dim == 64 ? 1.25 : 1;
      const Table table(f, positions(1000, 3));
      for (const DType dtype : tests::dtypes) {
        for (const int rest : {0, 5, 72}) add_rotations(hash, random, dtype, table, rest);
      }
    }
  }
  return hash.value;
}

// Whether a rope without a pairing is refused: by an exception or, where the library was compiled without them, by the
// handler, which ends the program.
bool refuses() {
#if defined(__cpp_exceptions)
  try {
    frequencies({});
  } catch (const Error& e) {
    return e.code() == Code::PAIRING;
  }
#else
  on_failure([](Code code, const char* sentence) {
    std::printf("refused: %s\n", sentence);
    std::fflush(stdout);
    std::_Exit(code == Code::PAIRING ? 0 : 1);
  });
  frequencies({});
#endif
  std::puts("a rope without a pairing was not refused");
  return false;
}

int run(const char* wanted) {
  const std::uint64_t speeds = frequencies_hash();
  std::printf("frequencies %016" PRIx64 "\n", speeds);
  std::uint64_t first = 0;
  bool same = true;
  for (const Target& target : targets()) {
    if (!target.runs) continue;
    use_target(target.name);
    BitsHash all;
    const std::uint64_t tables = tables_hash(), rotations = rotations_hash();
    for (const std::uint64_t part : {speeds, tables, rotations}) all.add(part);
    std::printf("%-12s tables %016" PRIx64 " rotations %016" PRIx64 "\n", std::string(target.name).c_str(), tables,
                rotations);
    if (first == 0) first = all.value;
    same = same && all.value == first;
  }
  use_target("");
  if (!same) {
    std::puts("targets differ");
    return 1;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, first);
  std::printf("bits %s\n", text);
  if (wanted != nullptr && std::string_view(text) != wanted) {
    std::printf("expected %s\n", wanted);
    return 1;
  }
  std::fflush(stdout);
  self_test();
  return refuses() ? 0 : 1;
}

}  // namespace
}  // namespace rotary

int main(int argc, char** argv) { return rotary::run(argc > 1 ? argv[1] : nullptr); }
