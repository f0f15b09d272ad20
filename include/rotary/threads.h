// Who runs the work: the caller decides.
#pragma once

#include <cstdint>
#include <memory>

namespace rotary {

// Runs body(context, begin, end) over disjoint ranges that cover [0, count), and returns when all are done.
// grain is the smallest range worth a thread; body does not throw. To use a pool of your own, derive from it.
class Executor {
 public:
  using Body = void (*)(void* context, std::int64_t begin, std::int64_t end);
  virtual ~Executor() = default;
  virtual unsigned concurrency() const noexcept = 0;
  virtual void run(std::int64_t count, std::int64_t grain, Body body, void* context) const = 0;
};

// The caller's own thread.
const Executor& serial() noexcept;

// A fixed set of threads. run() may be called from one thread at a time; a second caller waits.
class ThreadPool final : public Executor {
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
