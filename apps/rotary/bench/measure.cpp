#include "measure.h"

#include <algorithm>

#include "rotary/targets.h"
#include "runtime/last_cache.h"
#include "verify.h"

namespace rotary::cli::bench {

using namespace rotary::detail;

namespace {

template <typename Work>
Repeat repeat(Work work) {
  return [work](int runs) {
    for (int i = 0; i < runs; ++i) work();
  };
}

int runs_per_sample(const Repeat& work) {
  constexpr double least = 40e-6;
  constexpr int most = 1 << 20;
  int runs = 1;
  while (runs < most && seconds_of([&] { work(runs); }) < least) runs *= 2;
  return runs;
}

Repeat work_of(const Cell& cell, const Places& at, const Table& table, const Executor& executor) {
  const Heads q = at.q, k = at.k, q_out = at.q_out, k_out = at.k_out;
  const bool two = cell.kv_heads > 0;
  if (cell.op == Op::fused && cell.in_place)
    return repeat([=, &table, &executor] { rotate_qk(q, k, table, executor); });
  if (cell.op == Op::fused)
    return repeat([=, &table, &executor] { rotate_qk({q, q_out}, {k, k_out}, table, executor); });
  const RotateOptions options(cell.op == Op::backward ? Direction::backward : Direction::forward, executor);
  if (cell.in_place) {
    return repeat([=, &table] {
      rotate(q, table, options);
      if (two) rotate(k, table, options);
    });
  }
  return repeat([=, &table] {
    rotate(q, q_out, table, options);
    if (two) rotate(k, k_out, table, options);
  });
}

// The ways to move bytes of which the fastest is the ceiling, and the work of each.
struct Ceiling {
  Ceiling(const void* in, void* out, std::size_t bytes, const Executor& executor)
      : moves(ceiling_moves(in, out, bytes, executor)) {
    for (const Move& how : moves)
      works.push_back(repeat([=, &executor] { move_bytes(how, in, out, bytes, executor); }));
  }
  std::vector<Move> moves;
  std::vector<Repeat> works;
};

// Whether a run leaves data in the last cache that the next one finds.
bool leaves_something_cached(const Cell& cell) {
  return static_cast<double>(line_bytes(cell)) * (cell.in_place ? 1 : 2) < 2 * static_cast<double>(last_cache_bytes());
}

}  // namespace

double Result::ns_per_element() const { return seconds * 1e9 / static_cast<double>(elements(cell)); }
double Result::gb_per_s() const { return static_cast<double>(bytes(cell)) * 1e-9 / seconds; }
double Result::ceiling_gb_per_s() const { return static_cast<double>(bytes(cell)) * 1e-9 / ceiling_seconds; }
double Result::percent_of_ceiling() const { return 100 * ceiling_seconds / seconds; }

Medians median_seconds(const std::vector<Repeat>& works, const Pace& pace) {
  constexpr SampleLimits limits{.least = 7, .least_slow = 3, .most = 2001};
  std::vector<int> runs;
  for (const Repeat& work : works) runs.push_back(runs_per_sample(work));
  return medians_in_turn(works.size(), pace.seconds, limits, [&](std::size_t i) {
    if (pace.warm_up) works[i](1);
    return seconds_of([&] { works[i](runs[i]); }) / runs[i];
  });
}

const Executor& Bench::executor(unsigned threads) {
  if (threads == 1) return serial();
  std::unique_ptr<ThreadPool>& pool = pools_[threads];
  if (!pool) pool = std::make_unique<ThreadPool>(threads);
  return *pool;
}

Result Bench::measure(const Cell& cell) {
  use_target(cell.target);
  return cell.op == Op::table ? measure_table(cell) : measure_heads(cell);
}

Result Bench::measure_heads(const Cell& cell) {
  const Executor& threads = executor(cell.threads);
  const std::vector<std::int64_t> positions = first_positions(cell);
  const Table table(frequencies(rope_of(cell)), positions, threads);
  const Places at(cell, arena_);
  const Repeat work = work_of(cell, at, table, threads);
  Result result;
  result.cell = cell;
  result.verified = verify(cell, at, table, [&work] { work(1); });

  const Ceiling ceiling(at.in, at.out, at.moved, threads);
  std::vector<Repeat> works = ceiling.works;
  works.push_back(work);
  const Medians medians = median_seconds(works, {seconds_, leaves_something_cached(cell)});
  result.samples = medians.samples;
  result.seconds = medians.seconds.back();
  const auto fastest = std::min_element(medians.seconds.begin(), medians.seconds.end() - 1);
  result.ceiling_seconds = *fastest;
  result.ceiling = ceiling.moves[static_cast<std::size_t>(fastest - medians.seconds.begin())];
  return result;
}

Result Bench::measure_table(const Cell& cell) {
  const Executor& threads = executor(cell.threads);
  const std::vector<std::int64_t> positions = first_positions(cell);
  const Frequencies turns = frequencies(rope_of(cell));
  const TableOptions options(Angles::exact, rounding_of(cell), threads);
  const Positions view(positions);
  Table table(turns, view, options);
  const Repeat work = repeat([&] { table.assign(turns, view, options); });
  work(1);
  Result result;
  result.cell = cell;
  result.verified = verify_table(cell, turns, table);

  const auto bytes_of_table = static_cast<std::size_t>(line_bytes(cell));
  std::byte* const memory = arena_.reserve(bytes_of_table);
  const Repeat cold = repeat([&] { const Table made(turns, view, options); });
  const Ceiling ceiling(memory, memory, bytes_of_table, threads);
  std::vector<Repeat> works = ceiling.works;
  works.push_back(work);
  works.push_back(cold);
  const Medians medians = median_seconds(works, {seconds_, leaves_something_cached(cell)});
  result.samples = medians.samples;
  result.cold_seconds = medians.seconds.back();
  result.seconds = *(medians.seconds.end() - 2);
  result.ceiling_seconds = *std::min_element(medians.seconds.begin(), medians.seconds.end() - 2);
  return result;
}

double Bench::level_gb_per_s(std::size_t bytes, bool in_place) {
  const std::size_t moved = (in_place ? bytes : bytes / 2) / 64 * 64;
  std::byte* const in = arena_.reserve(2 * moved);
  std::byte* const out = in_place ? in : in + moved;
  const Medians medians = median_seconds(Ceiling(in, out, moved, executor(1)).works, {seconds_, true});
  return 2e-9 * static_cast<double>(moved) / *std::min_element(medians.seconds.begin(), medians.seconds.end());
}

}  // namespace rotary::cli::bench
