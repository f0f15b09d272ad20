#include "runtime/arithmetic.h"

#include "ceiling.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/targets.h"
#include "cpu/tuning.h"
#include "medians.h"
#include "runtime/float_state.h"

namespace rotary::detail {
namespace {

constexpr std::int64_t line = 64;

struct MoveTask {
  Move how;
  const char* in;
  char* out;
  std::int64_t bytes;
  cpu::MoveKernel kernel;
};

void move_lines(void* context, std::int64_t begin, std::int64_t end) {
  const FloatState ours;
  const MoveTask& task = *static_cast<const MoveTask*>(context);
  const char* const in = task.in + begin * line;
  char* const out = task.out + begin * line;
  const auto bytes = static_cast<std::size_t>(std::min(end * line, task.bytes) - begin * line);
  if (task.how.traffic == Traffic::copy) {
    std::memcpy(out, in, bytes);
  } else {
    task.kernel(task.how, in, out, bytes);
  }
}

}  // namespace

void move_bytes(const Move& how, const void* in, void* out, std::size_t bytes, const Executor& executor) {
  MoveTask task{how, static_cast<const char*>(in), static_cast<char*>(out), static_cast<std::int64_t>(bytes),
                cpu::move_of(cpu::chosen())};
  executor.run((task.bytes + line - 1) / line, tuning().grain_bytes / line, move_lines, &task);
}

std::vector<Move> ceiling_moves(const void* in, void* out, std::size_t bytes, const Executor& executor) {
  const bool in_place = in == out;
  std::vector<Move> moves;
  if (!in_place) moves.push_back({Traffic::copy});
  for (const int runs : in_place ? std::array{1, 4, 16} : std::array{1, 2, 4}) {
    for (const int ahead : {0, 1024}) moves.push_back({in_place ? Traffic::update : Traffic::stream, runs, ahead});
  }
  constexpr double moment = 100e-6, far = 1.15;
  const int repeats = static_cast<int>(std::clamp(moment * 1e10 / static_cast<double>(bytes + 1), 1.0, 1000.0));
  const SampleLimits few{.least = 3, .least_slow = 3, .most = 3};
  const std::vector<double> seconds = medians_in_turn(moves.size(), 20 * moment, few, [&](std::size_t i) {
                                        if (repeats > 1) move_bytes(moves[i], in, out, bytes, executor);
                                        return seconds_of([&] {
                                          for (int k = 0; k < repeats; ++k)
                                            move_bytes(moves[i], in, out, bytes, executor);
                                        });
                                      }).seconds;
  const double most = far * *std::min_element(seconds.begin(), seconds.end());
  std::vector<Move> kept;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    if (seconds[i] <= most) kept.push_back(moves[i]);
  }
  return kept;
}

}  // namespace rotary::detail
