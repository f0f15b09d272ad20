// The threads of one call.
#pragma once

#include <cstdint>

#include "rotary/rotary.h"
#include "runtime/parts.h"
#include "values/fail.h"

namespace rotary::detail {

// This thread, for one part of the work.
class OnePart final : public Executor {
 public:
  OnePart(int part, int parts) noexcept : part_(part), parts_(parts) {}
  unsigned concurrency() const noexcept override { return 1; }
  void run(std::int64_t count, std::int64_t, Body body, void* context) const override {
    const std::int64_t begin = begin_of(count, part_, parts_), end = begin_of(count, part_ + std::int64_t{1}, parts_);
    if (begin < end) body(context, begin, end);
  }

 private:
  int part_, parts_;
};

inline const Executor& executor_of(const RotateOptions& options) noexcept {
  return options.executor == nullptr ? serial() : *options.executor;
}

// Calls work with the caller's executor or, for a part of the call, with this thread. Throws VALUE.
template <class Work>
void on_threads(const char* operation, const RotateOptions& options, const Work& work) {
  if (options.parts == 1 && options.part == 0) return work(executor_of(options));
  if (options.part < 0 || options.part >= options.parts)
    fail(Code::VALUE, operation, "part must be from 0 to parts - 1 but got ", options.part, " of ", options.parts);
  if (options.executor != nullptr)
    fail(Code::VALUE, operation, "options must not have both parts and an executor or pool");
  work(OnePart(options.part, options.parts));
}

}  // namespace rotary::detail
