// The threads of one call.
#pragma once

#include <cstdint>

#include "checks.h"
#include "rotary/rotary.h"
#include "runtime/parts.h"
#include "values/fail.h"

namespace rotary::detail {

inline const Executor& executor_of(const RotateOptions& options) noexcept {
  return options.executor == nullptr ? serial() : *options.executor;
}

// Throws VALUE.
inline void check_part(const char* operation, const RotateOptions& options) {
  if (options.part < 0 || options.part >= options.parts)
    fail(Code::VALUE, operation, "part must be from 0 to parts - 1 but got ", options.part, " of ", options.parts);
  if (options.parts != 1 && options.executor != nullptr)
    fail(Code::VALUE, operation, "options must not have both parts and an executor or pool");
}

// Runs body over items [0, count), each of item_bytes, by the caller's executor, or over this call's part of them,
// which is checked, on this thread.
inline void run_items(const RotateOptions& options, std::int64_t count, std::int64_t item_bytes, Executor::Body body,
                      void* context) {
  if (options.executor != nullptr) return options.executor->run(count, grain(item_bytes), body, context);
  const std::int64_t parts = options.parts, part = options.part;
  const std::int64_t begin = parts == 1 ? 0 : begin_of(count, part, parts);
  const std::int64_t end = parts == 1 ? count : begin_of(count, part + 1, parts);
  if (begin < end) body(context, begin, end);
}

}  // namespace rotary::detail
