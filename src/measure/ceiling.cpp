#include "runtime/arithmetic.h"

#include "ceiling.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "cpu/targets.h"
#include "cpu/tuning.h"
#include "medians.h"
#include "rotary/error.h"
#include "runtime/float_state.h"
#include "values/fail.h"

namespace rotary::detail {
namespace {

constexpr std::int64_t line = 64;

struct Work {
  Move how;
  const char* in;
  char* out;
  std::int64_t bytes;
  cpu::MoveKernel kernel;
};

void move_lines(void* context, std::int64_t begin, std::int64_t end) {
  const FloatState ours;
  const Work& work = *static_cast<const Work*>(context);
  const char* const in = work.in + begin * line;
  char* const out = work.out + begin * line;
  const auto bytes = static_cast<std::size_t>(std::min(end * line, work.bytes) - begin * line);
  if (work.how.traffic == Traffic::copy) {
    std::memcpy(out, in, bytes);
  } else {
    work.kernel(work.how, in, out, bytes);
  }
}

}  // namespace

void move_bytes(const Move& how, const void* in, void* out, std::size_t bytes, const Executor& executor) {
  const auto from = reinterpret_cast<std::uintptr_t>(in), to = reinterpret_cast<std::uintptr_t>(out);
  const bool update = how.traffic == Traffic::update;
  if (from % line != 0 || to % line != 0)
    fail(Code::SHAPE, "move_bytes",
         "in and out must be aligned to 64 bytes but lie " + std::to_string(from % line) + " and " +
             std::to_string(to % line) + " beyond");
  const bool disjoint = from + bytes <= to || to + bytes <= from;
  if (update ? from != to : !disjoint)
    fail(Code::ALIAS, "move_bytes",
         std::string("in and out must be ") + (update ? "the same for update" : "apart") + " but out begins " +
             std::to_string(static_cast<std::int64_t>(to - from)) + " bytes from in");
  Work work{how, static_cast<const char*>(in), static_cast<char*>(out), static_cast<std::int64_t>(bytes),
            cpu::chosen().move};
  executor.run((work.bytes + line - 1) / line, tuning().grain_bytes / line, move_lines, &work);
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
