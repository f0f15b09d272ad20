// Measuring: verified, filled, and timed in turn. Cells on the CPU.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "bench.h"
#include "rotary/targets.h"
#include "rotary/threads.h"
#include "runtime/last_cache.h"

namespace rotary::cli::bench {

using namespace rotary::detail;

// ---- measuring -------------------------------------------------------------------------------------

Medians median_seconds(const std::vector<Call>& calls, const Pace& pace, bool warm_up) {
  const SampleLimits limits = pace.rounds > 0 ? SampleLimits{pace.rounds, pace.rounds, pace.rounds}
                                              : SampleLimits{.least = 7, .least_slow = 3, .most = 2001};
  const auto repeated = [&](std::size_t i, int runs) {
    return seconds_of([&] {
      for (int run = 0; run < runs; ++run) calls[i]();
    });
  };
  std::vector<int> runs(calls.size(), 1);  // of a sample
  for (std::size_t i = 0; i < calls.size(); ++i) {
    while (runs[i] < 1 << 20 && repeated(i, runs[i]) < pace.sample) runs[i] *= 2;
  }
  return medians_in_turn(calls.size(), pace.seconds, limits, [&](std::size_t i) {
    if (i == 0 && pace.rest > 0) std::this_thread::sleep_for(std::chrono::duration<double>(pace.rest));
    if (warm_up) calls[i]();
    return repeated(i, runs[i]) / runs[i];
  });
}

void fill(const ReadyCell& ready, const Tensors& at) {
  const auto repeat = [&ready](std::byte* to, std::size_t bytes, const std::vector<std::byte>& values) {
    for (std::size_t done = 0; done < bytes; done += values.size())
      ready.write(to + done, values.data(), std::min(values.size(), bytes - done));
  };
  if (at.out != at.in) repeat(at.out, at.out_bytes, std::vector<std::byte>(std::size_t{1} << 20, std::byte{0xee}));
  repeat(at.in, at.in_bytes, fill_pattern(ready.cell.dtype));
}

Result measure(ReadyCell& ready, const Pace& pace) {
  Result result{.cell = ready.cell};
  result.verified = verify(ready);
  for (const Tensors& set : ready.sets) fill(ready, set);
  ready.time(pace, result);
  return result;
}

// ---- the CPU ---------------------------------------------------------------------------------------

namespace {

class CpuCell : public ReadyCell {
 public:
  CpuCell(const Cell& c, const Executor& threads, Arena& arena)
      : ReadyCell(c),
        threads_(threads),
        arena_(arena),
        positions_(first_positions(c)),
        options_(Angles::exact, rounding_of(c), threads),
        table_(turns, positions_, options_) {
    if (cell.op == Op::table) {
      calls.push_back([this] { table_.assign(turns, positions_, options_); });
      calls.front()();
      return;
    }
    const Tensors& at = sets.emplace_back(cell, arena.reserve(Tensors(cell).all_bytes));
    const RotateOptions how(cell.op == Op::backward ? Direction::backward : Direction::forward, threads);
    if (cell.op == Op::fused) {
      calls.push_back([=, this] { rotate_qk({at.q, at.q_out}, {at.k, at.k_out}, table_, how); });
    } else {
      calls.push_back([=, this] {
        rotate(at.q, at.q_out, table_, how);
        if (cell.kv_heads > 0) rotate(at.k, at.k_out, table_, how);
      });
    }
  }

  Table table() const override { return table_; }
  void write(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
  void read(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

  void time(const Pace& pace, Result& result) const override {
    const bool heads = !sets.empty();
    const auto moved = heads ? sets[0].moved : static_cast<std::size_t>(line_bytes(cell));
    std::byte* const in = heads ? sets[0].in : arena_.reserve(moved);
    std::byte* const out = heads ? sets[0].out : in;
    const std::vector<Move> moves = ceiling_moves(in, out, moved, threads_);
    std::vector<Call> all = calls;
    all.insert(all.end(), beside.begin(), beside.end());
    if (!heads) all.push_back([this] { const Table made(turns, positions_, options_); });
    const auto first_move = static_cast<std::ptrdiff_t>(all.size());
    for (const Move& move : moves) all.push_back([=, this] { move_bytes(move, in, out, moved, threads_); });
    const Medians medians = median_seconds(all, pace, leaves_something_cached());
    const auto from = medians.seconds.begin() + first_move;
    const auto fastest = std::min_element(from, medians.seconds.end());
    result.samples = medians.samples;
    result.seconds = medians.seconds.front();
    result.beside_seconds.assign(medians.seconds.begin() + 1, from - (heads ? 0 : 1));
    if (!heads) result.cold_seconds = *(from - 1);
    result.ceiling_seconds = *fastest;
    const Move& best = moves[static_cast<std::size_t>(fastest - from)];
    result.ceiling = best.traffic == Traffic::update ? "update" : best.traffic == Traffic::copy ? "copy" : "stream";
    if (best.traffic != Traffic::copy) result.move = best;
  }

 private:
  // Whether a run leaves data in the last cache that the next one finds.
  bool leaves_something_cached() const {
    const double touched = static_cast<double>(line_bytes(cell)) * (cell.in_place ? 1 : 2);
    return touched < 2 * static_cast<double>(last_cache_bytes());
  }

  const Executor& threads_;
  Arena& arena_;
  const std::vector<std::int64_t> positions_;
  const TableOptions options_;
  Table table_;
};

class Cpu : public Machine {
 public:
  explicit Cpu(bool huge_pages) : arena_(huge_pages) {}

  double free_bytes() const override { return free_memory(); }

  std::unique_ptr<ReadyCell> prepare(const Cell& cell) override {
    use_target(cell.target);
    if (cell.threads == 1) return std::make_unique<CpuCell>(cell, serial(), arena_);
    std::unique_ptr<ThreadPool>& pool = pools_[cell.threads];
    if (!pool) pool = std::make_unique<ThreadPool>(cell.threads);
    return std::make_unique<CpuCell>(cell, *pool, arena_);
  }

 private:
  Arena arena_;
  std::map<unsigned, std::unique_ptr<ThreadPool>> pools_;
};

}  // namespace

std::unique_ptr<Machine> cpu(bool huge_pages) { return std::make_unique<Cpu>(huge_pages); }

}  // namespace rotary::cli::bench
