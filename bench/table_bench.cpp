// Development benchmark of tables: what `rotary bench --op table` does not have, which is libm beside them, the float32
// formula, and positions that do not rise by one.
//   build/release/bench/table_bench --benchmark_filter=assign --benchmark_enable_random_interleaving=true
// Compare rows of one run, not absolute figures: these machines are noisy.
#include <benchmark/benchmark.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "rotary/rotary.h"
#include "rotary/targets.h"

namespace {

using rotary::Rounding;

constexpr int head_dim = 128;

std::vector<std::int64_t> first_positions(std::int64_t tokens) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(tokens));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

rotary::Frequencies llama() {
  return rotary::frequencies({.head_dim = head_dim, .base = 500000, .pairing = rotary::Pairing::half});
}

void per_pair(benchmark::State& state) {
  const double pairs = static_cast<double>(state.range(0)) * head_dim / 2;
  state.counters["ns_per_pair"] =
      benchmark::Counter(pairs * 1e-9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// A new table each time, page faults included.
void new_table(benchmark::State& state, std::string target, rotary::Angles angles) {
  rotary::use_target(target);
  const auto frequencies = llama();
  const auto positions = first_positions(state.range(0));
  for (auto _ : state) {
    rotary::Table made(frequencies, positions, angles);
    benchmark::DoNotOptimize(made.cos().data());
  }
  per_pair(state);
  rotary::use_target("");
}

// The storage and the frequencies stay, as in decoding. Positions that rise by one come by adding angles; with
// `gaps`, each row comes by itself.
void same_table(benchmark::State& state, std::string target, rotary::TableOptions options, bool gaps) {
  rotary::use_target(target);
  const auto frequencies = llama();
  auto positions = first_positions(state.range(0));
  for (std::int64_t& p : positions) p = gaps ? 2 * p + 1 : p;
  rotary::Table made(frequencies, positions, options);
  for (auto _ : state) {
    made.assign(frequencies, positions, options);
    benchmark::DoNotOptimize(made.cos().data());
  }
  per_pair(state);
  rotary::use_target("");
}

// What a program without a table library does: the angle, cos and sin in Real, stored as float.
template <class Real>
void libm(benchmark::State& state) {
  const auto frequencies = llama();
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
      const std::string kind = name(angles);
      const rotary::TableOptions plain(angles);
      benchmark::RegisterBenchmark(("table/" + kind + "/new" + on).c_str(), new_table, chosen, angles)
          ->Arg(1)
          ->Arg(131072)
          ->Unit(benchmark::kMicrosecond);
      benchmark::RegisterBenchmark(("table/" + kind + "/assign" + on).c_str(), same_table, chosen, plain, false)
          ->Arg(1)
          ->Arg(64)
          ->Arg(2048);
      benchmark::RegisterBenchmark(("table/" + kind + "/gaps" + on).c_str(), same_table, chosen, plain, true)
          ->Arg(2048);
      for (const Rounding rounding : {Rounding::bf16, Rounding::f16}) {
        const rotary::TableOptions rounded(angles, rounding);
        const std::string label = "table/" + kind + "/" + name(rounding) + on;
        benchmark::RegisterBenchmark(label.c_str(), same_table, chosen, rounded, false)->Arg(2048);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  add_tables();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
