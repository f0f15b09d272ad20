// Executors: the caller decides which threads do the work.
#pragma once

#include <cstdint>
#include <memory>

#include "rotary/export.h"

namespace rotary {

// Runs body(context, begin, end) over disjoint ranges that cover [0, count) and returns when all are done.
// Every function that can run in parallel takes an executor, uses it until it returns, and without one does all work on
// the caller's thread.
//
// To use a thread pool of your own, derive from Executor. run() calls body exactly once per range, on any threads (the
// caller's too), several at a time. body does not throw, does not block and does not call run(). grain is the
// smallest range worth a thread; ranges may be smaller. run() may throw before or between calls of body (the operation
// then fails as a whole); it must not return while a body runs.
class ROTARY_API Executor {
 public:
  using Body = void (*)(void* context, std::int64_t begin, std::int64_t end);
  virtual ~Executor() = default;
  virtual unsigned concurrency() const noexcept = 0;
  virtual void run(std::int64_t count, std::int64_t grain, Body body, void* context) const = 0;
};

// Runs everything on the caller's thread.
ROTARY_API const Executor& serial() noexcept;

// A fixed set of threads, or only the caller's thread where the system has no threads. run() serves one caller at a
// time; other callers wait.
class ROTARY_API ThreadPool final : public Executor {
 public:
  explicit ThreadPool(unsigned threads);  // including the caller's; 0: all cores
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  unsigned concurrency() const noexcept override;
  void run(std::int64_t count, std::int64_t grain, Body body, void* context) const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rotary
