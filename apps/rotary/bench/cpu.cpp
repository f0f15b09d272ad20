// Cells on the CPU.
#include <algorithm>
#include <cstring>
#include <map>

#include "measure.h"
#include "rotary/targets.h"
#include "rotary/threads.h"
#include "runtime/last_cache.h"

namespace rotary::cli::bench {

using namespace rotary::detail;

namespace {

const char* word_of(Traffic traffic) {
  return traffic == Traffic::update ? "update" : traffic == Traffic::copy ? "copy" : "stream";
}

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
    sets.emplace_back(cell, arena.reserve(Tensors::bytes_of(cell)));
    const Heads q = sets[0].q, k = sets[0].k, q_out = sets[0].q_out, k_out = sets[0].k_out;
    const bool two = cell.kv_heads > 0;
    const RotateOptions how(cell.op == Op::backward ? Direction::backward : Direction::forward, threads);
    if (cell.op == Op::fused) {
      calls.push_back([=, this] { rotate_qk({q, q_out}, {k, k_out}, table_, how); });
    } else {
      calls.push_back([=, this] {
        rotate(q, q_out, table_, how);
        if (two) rotate(k, k_out, table_, how);
      });
    }
  }

  Table table() const override { return table_; }
  void write(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
  void read(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

  void time(const Pace& pace, Result& result) const override {
    const auto bytes_of_table = static_cast<std::size_t>(line_bytes(cell));
    const bool heads = !sets.empty();
    std::byte* const in = heads ? sets[0].in : arena_.reserve(bytes_of_table);
    std::byte* const out = heads ? sets[0].out : in;
    const std::size_t moved = heads ? sets[0].moved : bytes_of_table;
    const std::vector<Move> moves = ceiling_moves(in, out, moved, threads_);
    std::vector<Call> all = calls;
    all.insert(all.end(), beside.begin(), beside.end());
    if (!heads) all.push_back([this] { const Table made(turns, positions_, options_); });
    const std::size_t first_move = all.size();
    for (const Move& move : moves) all.push_back([=, this] { move_bytes(move, in, out, moved, threads_); });
    const Medians medians = median_seconds(all, pace, leaves_something_cached());
    const auto from = medians.seconds.begin() + static_cast<std::ptrdiff_t>(first_move);
    const auto fastest = std::min_element(from, medians.seconds.end());
    result.samples = medians.samples;
    result.seconds = medians.seconds.front();
    result.beside_seconds.assign(medians.seconds.begin() + 1, from - (heads ? 0 : 1));
    if (!heads) result.cold_seconds = *(from - 1);
    result.ceiling_seconds = *fastest;
    const Move& best = moves[static_cast<std::size_t>(fastest - from)];
    result.ceiling = word_of(best.traffic);
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
