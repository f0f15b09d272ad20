// Development benchmarks of the verbs: the table, and rotate beside a copy of the same bytes.
//   build/release/verbs_bench --benchmark_filter=rotate --benchmark_repetitions=5
// Each rotate row has its ceiling, "copy", in the same run: compare ratios, not absolute figures, these machines are
// noisy.
#include <benchmark/benchmark.h>

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

void per_element(benchmark::State& state, double elements) {
  state.counters["ns_per_element"] =
      benchmark::Counter(elements * 1e-9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void table(benchmark::State& state, rotary::Angles angles) {
  const auto frequencies = rotary::frequencies(llama(Pairing::half));
  const auto positions = first_positions(state.range(0));
  for (auto _ : state) {
    rotary::Table made(frequencies, Pairing::half, positions, angles);
    benchmark::DoNotOptimize(made.cos().data());
  }
  per_element(state, static_cast<double>(state.range(0)) * head_dim / 2);
}

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
  benchmark::RegisterBenchmark("table/exact", table, rotary::Angles::exact)->Arg(1)->Arg(131072);
  benchmark::RegisterBenchmark("table/float32", table, rotary::Angles::float32)->Arg(1)->Arg(131072);
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
