#include "runtime/arithmetic.h"

#include "ceiling.h"

#include <algorithm>
#include <string>

#include "cpu/targets.h"
#include "cpu/tuning.h"
#include "rotary/error.h"
#include "runtime/float_state.h"
#include "values/fail.h"

namespace rotary::detail {
namespace {

constexpr std::int64_t line = 64;

struct Work {
  Traffic traffic;
  const char* in;
  char* out;
  std::int64_t bytes;
  cpu::MoveKernel kernel;
};

void move_lines(void* context, std::int64_t begin, std::int64_t end) {
  const FloatState ours;
  const Work& work = *static_cast<const Work*>(context);
  const std::int64_t last = std::min(end * line, work.bytes);
  work.kernel(work.traffic, work.in + begin * line, work.out + begin * line,
              static_cast<std::size_t>(last - begin * line));
}

}  // namespace

void move_bytes(Traffic traffic, const void* in, void* out, std::size_t bytes, const Executor& executor) {
  const auto from = reinterpret_cast<std::uintptr_t>(in), to = reinterpret_cast<std::uintptr_t>(out);
  if (from % line != 0 || to % line != 0)
    fail(Code::SHAPE, "move_bytes",
         "in and out must be aligned to 64 bytes but lie " + std::to_string(from % line) + " and " +
             std::to_string(to % line) + " beyond");
  const bool disjoint = from + bytes <= to || to + bytes <= from;
  if (traffic == Traffic::update ? from != to : !disjoint)
    fail(Code::ALIAS, "move_bytes",
         std::string("in and out must be ") + (traffic == Traffic::update ? "the same for update" : "apart") +
             " but out begins " + std::to_string(static_cast<std::int64_t>(to - from)) + " bytes from in");
  Work work{traffic, static_cast<const char*>(in), static_cast<char*>(out), static_cast<std::int64_t>(bytes),
            cpu::chosen().move};
  executor.run((work.bytes + line - 1) / line, tuning().grain_bytes / line, move_lines, &work);
}

}  // namespace rotary::detail
