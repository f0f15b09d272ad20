// One job, by rows of the caller's, which it finds by number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/targets.h"
#include "job.h"
#include "runtime/float_state.h"
#include "table/positions.h"

namespace rotary::detail {

// Its items are the tokens whose rows have numbers of their own, each of `group` rows of the job: its heads.
struct NumberedRun {
  const Job& job;
  const Rows& rows;
  cpu::RotateKernel kernel;
  int token_at = 0, batch_at = 0;  // dimensions of the job; one of 1 token, of 1 batch row has no meaning
  std::int64_t tokens = 1, group = 0;

  NumberedRun(const Job& j, const Rows& r) : job(j), rows(r), kernel(cpu::chosen().rotate) {
    std::int64_t batch = 1;
    for (int k = 0; k < 3; ++k) {
      const std::int64_t stride = job.table_stride[k];
      if (stride == rows.pairs) tokens = job.count[token_at = k];
      if (stride > rows.pairs) batch = job.count[batch_at = k];
    }
    group = job.rows() / (batch * tokens);
  }

  // Items from `item` on whose rows lie equally far apart, at most `most`; sets the distance.
  std::int64_t stretch(std::int64_t item, std::int64_t most, std::int64_t& step) const {
    const auto number = [&](std::int64_t i) { return PositionsAccess::integer(rows.numbers, i); };
    most = std::min(most, tokens - item % tokens);
    std::int64_t count = 1;
    step = most > 1 ? number(item + 1) - number(item) : 0;
    while (step >= 0 && count < most && number(item + count) == number(item) + count * step) ++count;
    return count;
  }

  // Rows [begin, end) of the part of the job that has `count` items.
  void rotate(std::int64_t item, std::int64_t count, std::int64_t step, std::int64_t begin, std::int64_t end) const {
    Job part = job;
    const std::int64_t token = item % tokens, batch = item / tokens;
    const auto first = [&](const std::int64_t(&stride)[3]) {
      return (token * stride[token_at] + batch * stride[batch_at]) * job.element_bytes();
    };
    part.in = static_cast<const std::byte*>(job.in) + first(job.in_stride);
    part.out = static_cast<std::byte*>(job.out) + first(job.out_stride);
    const std::int64_t row = PositionsAccess::integer(rows.numbers, item) * rows.stride;
    part.cos = static_cast<const float*>(rows.cos) + row;
    part.sin = static_cast<const float*>(rows.sin) + row;
    part.call_bytes = job.bytes_read();
    for (int k = 0; k < 3; ++k) {
      if (job.table_stride[k] == 0) continue;
      part.count[k] = k == token_at ? count : 1;
      part.table_stride[k] = k == token_at ? step * rows.stride : 0;
    }
    kernel(part, begin, end);
  }
};

inline void rotate_numbered(void* context, std::int64_t begin, std::int64_t end) {
  const FloatState ours;
  const NumberedRun& run = *static_cast<const NumberedRun*>(context);
  for (std::int64_t next; begin < end; begin = next) {
    const std::int64_t from = begin % run.group, whole = (end - begin) / run.group;
    std::int64_t count = 1, step = 0;
    if (from == 0 && whole > 1) count = run.stretch(begin / run.group, whole, step);
    next = std::min(end, begin - from + count * run.group);
    run.rotate(begin / run.group, count, step, from, next - begin + from);
  }
}

}  // namespace rotary::detail
