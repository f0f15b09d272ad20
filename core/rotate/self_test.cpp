#include "runtime/arithmetic.h"

#include "rotary/self_test.h"

#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "checks.h"
#include "cpu/targets.h"
#include "runtime/bits_hash.h"
#include "runtime/float_state.h"
#include "table/angle_job.h"
#include "table/turns.h"
#include "values/fail.h"

namespace rotary {

using namespace detail;
namespace {

// The hashes of every correct build. To change them is to change the promise.
constexpr std::uint64_t frequencies_bits = 0x573cf83ebb93859cu, table_bits = 0x61d104d3700dead7u,
                        f32_bits = 0x6d33c662c10045c9u, f16_bits = 0xfcbc448a3361039au, bf16_bits = 0x9cdbc624ebedf337u;

void expect(std::uint64_t wanted, std::uint64_t found, const std::string& what) {
  if (found == wanted) return;
  char hashes[80];
  std::snprintf(hashes, sizeof hashes, "must hash to %016llx but got %016llx", static_cast<unsigned long long>(wanted),
                static_cast<unsigned long long>(found));
  fail(Code::CHECK, "self_test", what, " ", hashes,
       ": this build of rotary computes other bits than every other. Compile its sources with -ffp-contract=off "
       "-fno-fast-math behind all other flags (docs/embedding.md)");
}

std::vector<Frequencies> speeds() {
  Rope llama{128, 0, 500000, Pairing::half, Llama3{8, 8192}};
  Rope yarn{64, 0, 10000, Pairing::half, Yarn{16, 4096}};
  Rope narrow{22, 0, 10000, Pairing::half};
  return {frequencies(llama), frequencies(yarn), frequencies(narrow)};
}

// ---- tables --------------------------------------------------------------------------------------

void add_table(BitsHash& hash, cpu::AnglesKernel kernel, const Frequencies& f,
               std::span<const std::int64_t> positions) {
  Turns turns;
  prepare(f.inv_freq, turns);
  const std::size_t size = positions.size() * f.inv_freq.size();
  std::vector<float> cos(size), sin(size);
  AngleJob job;
  job.pairs = static_cast<int>(f.inv_freq.size());
  job.padded = padded_pairs(job.pairs);
  job.rows = static_cast<std::int64_t>(positions.size());
  job.integers = positions.data();
  job.inv_freq = f.inv_freq.data();
  job.attention_factor = f.attention_factor;
  job.cos = cos.data();
  job.sin = sin.data();
  job.turns = turns.limbs.data();
  job.floor = turns.floor.data();
  for (const Rounding rounding : {Rounding::f32, Rounding::f16, Rounding::bf16}) {
    job.rounding = rounding;
    kernel(job, 0, job.rows);
    hash.add(std::span<const float>(cos));
    hash.add(std::span<const float>(sin));
  }
}

// Not inlined, to stay apart from the change of the floating-point state.
ROTARY_NOINLINE std::uint64_t tables_hash(cpu::AnglesKernel kernel, const std::vector<Frequencies>& all) {
  const std::int64_t positions[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 4095, 131071, -1, 1234567890123};
  BitsHash hash;
  for (const Frequencies& f : all) add_table(hash, kernel, f, positions);
  return hash.value;
}

// ---- rotations -----------------------------------------------------------------------------------

// The bits of a number of about the size of q, in the storage type.
std::uint32_t element(std::uint32_t n, DType dtype) {
  const std::uint32_t mixed = n * 2654435761u;
  const float value = (static_cast<float>(mixed >> 8) - 8388608.0f) * 0x1p-21f;
  if (dtype == DType::f16) return to_f16(value).bits;
  if (dtype == DType::bf16) return to_bf16(value).bits;
  return std::bit_cast<std::uint32_t>(value);
}

template <class Word>
void add_rotations(BitsHash& hash, cpu::RotateKernel kernel, DType dtype, const Table& table, int rest) {
  const Layout layout = bthd(1, table.tokens(), 3, table.rotary_dim() + rest);
  std::vector<Word> in(static_cast<std::size_t>(layout.tokens * layout.heads * layout.head_dim)), out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<Word>(element(static_cast<std::uint32_t>(i), dtype));
  const Heads x{in.data(), dtype, layout};
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    const Job apart = check_rotate("self_test", {x, Heads{out.data(), dtype, layout}}, table, direction);
    kernel(apart, 0, apart.rows());
    const Job in_place = check_rotate("self_test", x, table, direction);
    kernel(in_place, 0, in_place.rows());
    for (std::size_t i = 0; i < in.size(); ++i) hash.add(std::uint64_t{out[i]} << 32 | in[i]);
  }
}

ROTARY_NOINLINE std::uint64_t rotations_hash(cpu::RotateKernel kernel, DType dtype, std::span<const Table> tables) {
  BitsHash hash;
  for (const Table& table : tables) {
    for (const int rest : {0, 7}) {
      if (dtype == DType::f32) add_rotations<std::uint32_t>(hash, kernel, dtype, table, rest);
      if (dtype != DType::f32) add_rotations<std::uint16_t>(hash, kernel, dtype, table, rest);
    }
  }
  return hash.value;
}

// Rows of arbitrary values, so that a wrong table does not look like a wrong rotation.
std::vector<Table> rotation_tables() {
  std::vector<Table> all;
  for (const int pairs : {64, 11}) {
    std::vector<float> cos, sin;
    for (int i = 0; i < 3 * pairs; ++i) {
      cos.push_back(static_cast<float>(i * 5077 % 8191) * 0x1p-13f);
      sin.push_back(static_cast<float>(i * 3571 % 8191 - 4096) * 0x1p-12f);
    }
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved, Pairing::interleaved_to_half})
      all.emplace_back(std::span<const float>(cos), std::span<const float>(sin), pairs, pairing);
  }
  return all;
}

void test(const cpu::Kernels& kernels, const std::vector<Frequencies>& all, std::span<const Table> tables) {
  const FloatState ours;
  const std::string name = kernels.name;
  expect(table_bits, tables_hash(kernels.angles, all), "tables with target " + name);
  constexpr std::uint64_t bits[] = {f32_bits, f16_bits, bf16_bits};
  for (const StorageType& type : storage_types) {
    if (!is_built(type.value)) continue;
    expect(bits[static_cast<std::size_t>(type.value)], rotations_hash(kernels.rotate, type.value, tables),
           std::string("rotations of ") + type.name + " with target " + name);
  }
}

}  // namespace

void detail::self_test_of(const cpu::Kernels& kernels) { test(kernels, speeds(), rotation_tables()); }

void self_test() {
  const std::vector<Frequencies> all = speeds();
  BitsHash hash;
  for (const Frequencies& f : all) {
    hash.add(std::span<const double>(f.inv_freq));
    hash.add(std::span<const float>(f.inv_freq_float32));
    hash.add(f.attention_factor);
  }
  expect(frequencies_bits, hash.value, "frequencies");
  const std::vector<Table> tables = rotation_tables();
  for (const cpu::Kernels& kernels : cpu::built_targets()) {
    if (kernels.runs()) test(kernels, all, tables);
  }
}

}  // namespace rotary
