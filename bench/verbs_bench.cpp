// Development benchmarks of the verbs: the table beside libm, and rotate beside a copy of the same bytes.
//   build/release/bench/verbs_bench --benchmark_filter=rotate --benchmark_repetitions=5
//   build/release/bench/verbs_bench --benchmark_filter=table --benchmark_enable_random_interleaving=true
// Each rotate row has its ceiling, "copy", in the same run: compare ratios, not absolute figures, these machines are
// noisy.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "rotary/rotary.h"
#include "rotary/targets.h"

namespace {

using rotary::DType;
using rotary::Pairing;

constexpr int head_dim = 128;
constexpr std::int64_t heads = 40;  // 32 of q and 8 of k

std::vector<std::int64_t> first_positions(std::int64_t tokens) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(tokens));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

rotary::Rope llama(Pairing pairing) {
  rotary::Rope rope;
  rope.head_dim = head_dim;
  rope.base = 500000;
  rope.pairing = pairing;
  return rope;
}

void count_each(benchmark::State& state, const char* what, double count) {
  state.counters[what] =
      benchmark::Counter(count * 1e-9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
void per_element(benchmark::State& state, double elements) { count_each(state, "ns_per_element", elements); }
void per_pair(benchmark::State& state) {
  count_each(state, "ns_per_pair", static_cast<double>(state.range(0)) * head_dim / 2);
}

// ---- tables --------------------------------------------------------------------------------------

// A new table each time, page faults included.
void new_table(benchmark::State& state, std::string target, rotary::Angles angles) {
  rotary::use_target(target);
  const auto frequencies = rotary::frequencies(llama(Pairing::half));
  const auto positions = first_positions(state.range(0));
  for (auto _ : state) {
    rotary::Table made(frequencies, Pairing::half, positions, angles);
    benchmark::DoNotOptimize(made.cos().data());
  }
  per_pair(state);
  rotary::use_target("");
}

// The storage and the frequencies stay, as in decoding. Positions that rise by one come by adding angles; `apart`, with
// gaps, each row comes by itself.
void same_table(benchmark::State& state, std::string target, rotary::TableOptions options, bool apart) {
  rotary::use_target(target);
  const auto frequencies = rotary::frequencies(llama(Pairing::half));
  auto positions = first_positions(state.range(0));
  for (std::int64_t& p : positions) p = apart ? 2 * p + 1 : p;
  rotary::Table made(frequencies, Pairing::half, rotary::Positions(positions), options);
  for (auto _ : state) {
    made.assign(frequencies, Pairing::half, rotary::Positions(positions), options);
    benchmark::DoNotOptimize(made.cos().data());
  }
  per_pair(state);
  rotary::use_target("");
}

// What a program without a table library does: the angle, cos and sin in Real, stored as float.
template <class Real>
void libm(benchmark::State& state) {
  const auto frequencies = rotary::frequencies(llama(Pairing::half));
  const std::vector<Real> inv_freq(frequencies.inv_freq.begin(), frequencies.inv_freq.end());
  const auto positions = first_positions(state.range(0));
  std::vector<float> cos(positions.size() * inv_freq.size()), sin(cos.size());
  for (auto _ : state) {
    for (std::size_t t = 0; t < positions.size(); ++t) {
      for (std::size_t i = 0; i < inv_freq.size(); ++i) {
        const Real angle = static_cast<Real>(positions[t]) * inv_freq[i];
        cos[t * inv_freq.size() + i] = static_cast<float>(std::cos(angle));
        sin[t * inv_freq.size() + i] = static_cast<float>(std::sin(angle));
      }
    }
    benchmark::DoNotOptimize(cos.data());
    benchmark::DoNotOptimize(sin.data());
    benchmark::ClobberMemory();
  }
  per_pair(state);
}

void add_tables() {
  using rotary::Angles;
  benchmark::RegisterBenchmark("table/libm/double", libm<double>)->Arg(2048);
  benchmark::RegisterBenchmark("table/libm/float", libm<float>)->Arg(2048);
  for (const rotary::Target& target : rotary::targets()) {
    if (!target.runs) continue;
    const std::string on = std::string("/") + std::string(target.name), chosen(target.name);
    for (const Angles angles : {Angles::exact, Angles::float32}) {
      const std::string kind = angles == Angles::exact ? "exact" : "float32";
      const rotary::TableOptions plain{angles, DType::f32, nullptr};
      benchmark::RegisterBenchmark(("table/" + kind + "/new" + on).c_str(), new_table, chosen, angles)
          ->Arg(1)
          ->Arg(131072)
          ->Unit(benchmark::kMicrosecond);
      benchmark::RegisterBenchmark(("table/" + kind + "/assign" + on).c_str(), same_table, chosen, plain, false)
          ->Arg(1)
          ->Arg(64)
          ->Arg(2048);
      benchmark::RegisterBenchmark(("table/" + kind + "/apart" + on).c_str(), same_table, chosen, plain, true)
          ->Arg(2048);
      for (const DType rounding : {DType::bf16, DType::f16}) {
        const rotary::TableOptions rounded{angles, rounding, nullptr};
        const std::string label = "table/" + kind + "/" + name(rounding) + on;
        benchmark::RegisterBenchmark(label.c_str(), same_table, chosen, rounded, false)->Arg(2048);
      }
    }
  }
}

// ---- rotate --------------------------------------------------------------------------------------

void rotate(benchmark::State& state, DType dtype, Pairing pairing, std::string target) {
  rotary::use_target(target);
  const std::int64_t tokens = state.range(0);
  const rotary::Table made(rotary::frequencies(llama(pairing)), pairing, first_positions(tokens));
  std::vector<std::byte> memory(static_cast<std::size_t>(tokens * heads * head_dim) * rotary::size_of(dtype));
  const rotary::Heads x{memory.data(), dtype, rotary::thd(tokens, heads, head_dim)};
  for (auto _ : state) {
    rotary::rotate(x, made);
    benchmark::ClobberMemory();
  }
  per_element(state, static_cast<double>(tokens * heads * head_dim));
  rotary::use_target("");
}

void copy(benchmark::State& state, DType dtype) {
  const auto bytes = static_cast<std::size_t>(state.range(0) * heads * head_dim) * rotary::size_of(dtype);
  std::vector<std::byte> from(bytes);
  std::vector<std::byte> to(bytes);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  per_element(state, static_cast<double>(state.range(0) * heads * head_dim));
}

void add_all() {
  const std::vector<std::int64_t> sizes{1, 64, 2048, 8192};
  add_tables();
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    benchmark::RegisterBenchmark((std::string("copy/") + name(dtype)).c_str(), copy, dtype)->ArgsProduct({sizes});
    for (const rotary::Target& target : rotary::targets()) {
      if (!target.runs) continue;
      for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
        const std::string label =
            std::string("rotate/") + name(dtype) + "/" + name(pairing) + "/" + std::string(target.name);
        benchmark::RegisterBenchmark(label.c_str(), rotate, dtype, pairing, std::string(target.name))
            ->ArgsProduct({sizes});
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  add_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
