#include "rotary/threads.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace rotary {
namespace {

// Set while this thread runs a body: a nested run stays on its thread.
thread_local bool inside_body = false;

class Inside {
 public:
  Inside() noexcept : outer_(inside_body) { inside_body = true; }
  ~Inside() { inside_body = outer_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  bool outer_;
};

class Serial final : public Executor {
 public:
  unsigned concurrency() const noexcept override { return 1; }
  void run(std::int64_t count, std::int64_t, Body body, void* context) const override {
    if (count > 0) body(context, 0, count);
  }
};

void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Waits a few microseconds at most: enough for the next call of a busy caller, harmless where cores are scarce.
template <class Done>
void spin(const Done& done) noexcept {
  for (int i = 0; i < 128 && !done(); ++i) pause();
}

}  // namespace

const Executor& serial() noexcept {
  static const Serial one;
  return one;
}

// A run is open while parts of it are unclaimed. Workers join an open run, claim parts and leave; the caller claims
// parts too, closes the run when none is left, and waits for those who joined: never for a thread that still sleeps.
struct ThreadPool::State {
  struct Run {
    Body body = nullptr;
    void* context = nullptr;
    std::int64_t count = 0;
    std::int64_t parts = 0;
    std::int64_t seats = 0;  // workers that may still join
  };

  std::mutex callers;  // one run at a time
  std::mutex mutex;    // guards run, open and stopping, and the changes of number and joined
  std::condition_variable opened;
  std::condition_variable left;
  Run run;
  bool open = false;
  bool stopping = false;
  std::atomic<std::uint64_t> number{0};  // of runs opened so far
  std::atomic<int> joined{0};
  std::atomic<std::int64_t> next_part{0};
  std::vector<std::thread> workers;

  void claim_parts(const Run& r) {
    const Inside inside;
    for (std::int64_t part; (part = next_part.fetch_add(1, std::memory_order_relaxed)) < r.parts;) {
      r.body(r.context, begin_of(r, part), begin_of(r, part + 1));
    }
  }

  // Parts differ by one item at most; count / parts first, so that nothing overflows.
  static std::int64_t begin_of(const Run& r, std::int64_t part) {
    return r.count / r.parts * part + std::min(part, r.count % r.parts);
  }

  void work() {
    std::uint64_t seen = 0;
    for (;;) {
      spin([&] { return number.load(std::memory_order_relaxed) != seen; });
      std::unique_lock lock(mutex);
      opened.wait(lock, [&] { return stopping || (open && number.load() != seen); });
      if (stopping) return;
      seen = number.load();
      if (run.seats == 0) continue;
      --run.seats;
      ++joined;
      const Run mine = run;
      lock.unlock();
      claim_parts(mine);
      lock.lock();
      if (--joined == 0) left.notify_one();
    }
  }

  void run_all(const Run& r) {
    {
      const std::lock_guard lock(mutex);
      run = r;
      next_part = 0;
      open = true;
      ++number;
    }
    opened.notify_all();
    claim_parts(r);
    {
      const std::lock_guard lock(mutex);
      open = false;
    }
    spin([&] { return joined.load(std::memory_order_acquire) == 0; });
    std::unique_lock lock(mutex);
    left.wait(lock, [&] { return joined == 0; });
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    opened.notify_all();
    for (std::thread& worker : workers) worker.join();
  }
};

ThreadPool::ThreadPool(unsigned threads) : state_(std::make_unique<State>()) {
  const unsigned wanted = threads != 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  try {
    for (unsigned i = 1; i < wanted; ++i) state_->workers.emplace_back([state = state_.get()] { state->work(); });
  } catch (...) {
    state_->stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { state_->stop(); }

unsigned ThreadPool::concurrency() const noexcept { return static_cast<unsigned>(state_->workers.size()) + 1; }

void ThreadPool::run(std::int64_t count, std::int64_t grain, Body body, void* context) const {
  if (count <= 0) return;
  const std::int64_t threads = concurrency();
  // A few parts per thread: a thread that starts late leaves its share to the others.
  const std::int64_t parts = std::min(4 * threads, count / std::max<std::int64_t>(1, grain));
  if (parts <= 1 || threads == 1 || inside_body) return body(context, 0, count);
  const std::lock_guard lock(state_->callers);
  state_->run_all({body, context, count, parts, std::min(threads, parts) - 1});
}

}  // namespace rotary
