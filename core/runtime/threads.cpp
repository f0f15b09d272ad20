#include "runtime/arithmetic.h"

#include "rotary/threads.h"

#include <algorithm>  // also defines the standard library's macros

#include "compiler.h"
#include "parts.h"
#include "values/fail.h"

// ROTARY_THREADS: 0 if the standard library has no threads, as in WebAssembly; detected unless the build sets it.
#ifndef ROTARY_THREADS
#if defined(_LIBCPP_HAS_NO_THREADS) || (defined(__GLIBCXX__) && !defined(_GLIBCXX_HAS_GTHREADS))
#define ROTARY_THREADS 0
#elif defined(_LIBCPP_HAS_THREADS)
#define ROTARY_THREADS _LIBCPP_HAS_THREADS
#else
#define ROTARY_THREADS 1
#endif
#endif

#if ROTARY_THREADS
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>
#endif

namespace rotary {
namespace {

class Serial final : public Executor {
 public:
  unsigned concurrency() const noexcept override { return 1; }
  void run(std::int64_t count, std::int64_t, Body body, void* context) const override {
    if (count > 0) body(context, 0, count);
  }
};

}  // namespace

const Executor& serial() noexcept {
  static const Serial one;
  return one;
}

#if ROTARY_THREADS

namespace {

// Set while this thread runs a body: a nested run stays on this thread.
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

void pause() noexcept {
#if defined(_MSC_VER) && !defined(__clang__)
  _YIELD_PROCESSOR();
#elif defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

using Clock = std::chrono::steady_clock;

// About the cost of putting a thread to sleep and waking it, most of it the caller's system call. For a shorter wait it
// is cheaper to stay awake.
constexpr Clock::duration nap = std::chrono::microseconds(10);

constexpr std::int64_t surely_long = 64;  // grains of a run that is certainly worth waking the workers

// The threads of a longer run finish less evenly, and one that sleeps misses the beginning of the next run: they stay
// awake for about the time of a thread's share, up to ten naps.
Clock::duration wait_for(std::int64_t grains_per_thread) noexcept {
  constexpr Clock::duration grain = std::chrono::microseconds(4);
  return std::clamp<Clock::duration>(std::min<std::int64_t>(grains_per_thread, 100) * grain, nap, 10 * nap);
}

// Waits for at most a nap: long enough for the next call of a busy caller, harmless where cores are scarce.
template <class Done>
void spin(const Done& done, Clock::duration longest) noexcept {
  if (done()) return;
  const Clock::time_point end = Clock::now() + longest;
  do {
    for (int i = 0; i < 8; ++i) {
      if (done()) return;
      pause();
    }
  } while (Clock::now() < end);
}

}  // namespace

// A run has seats. A worker takes a seat, claims parts and leaves. The caller claims parts too, removes the free seats
// when no part is left, and waits for the workers in taken seats, never for a thread that still sleeps. Thread i starts
// at the same part in every run of n parts, so its caches stay warm.
struct ThreadPool::State {
  struct Run {
    Body body = nullptr;
    void* context = nullptr;
    std::int64_t count = 0;
    std::int64_t parts = 0;
    Clock::duration wait = nap;  // for the end of the run, and then for the next one
  };

  // The parts that one thread claims first.
  struct alignas(64) Share {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };

  // The gate is one word: the number of the run, the number of free seats, the number of taken seats.
  static constexpr std::uint64_t sitting = 1, seat = 1 << 16, number = std::uint64_t{1} << 32;
  static constexpr std::uint64_t all_sitting = seat - sitting, all_seats = number - seat;

  alignas(64) std::atomic<std::uint64_t> gate{0};
  alignas(64) Run run;  // like the shares, written only while no seat is free or taken
  std::vector<Share> shares;
  std::size_t sharing = 0;  // the shares that have parts
  Clock::time_point idle_since{};
  Clock::duration missed{};  // time that sleeping workers could have saved in the current burst of runs
  std::atomic<int> sleepers{0};
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stopping{false};
  std::mutex callers;  // one run at a time
  std::mutex sleep;    // for the conditions only
  std::condition_variable opened;
  std::condition_variable left;
  std::vector<std::thread> workers;

  bool sit() {
    std::uint64_t now = gate.load(std::memory_order_relaxed);
    while ((now & all_seats) != 0) {
      if (gate.compare_exchange_weak(now, now - seat + sitting, std::memory_order_acquire)) return true;
    }
    return false;
  }

  void share_out() {
    sharing = std::min(shares.size(), static_cast<std::size_t>(run.parts));
    const auto count = static_cast<std::int64_t>(sharing);
    for (std::int64_t k = 0; k < count; ++k) {
      Share& share = shares[static_cast<std::size_t>(k)];
      share.next.store(run.parts * k / count, std::memory_order_relaxed);
      share.end = run.parts * (k + 1) / count;
    }
  }

  // Runs a part of the thread's own share, or else of another.
  bool claim_part(std::size_t thread) {
    for (std::size_t k = 0; k < sharing; ++k) {
      Share& share = shares[(thread + k) % sharing];
      if (share.next.load(std::memory_order_relaxed) >= share.end) continue;
      const std::int64_t part = share.next.fetch_add(1, std::memory_order_relaxed);
      if (part >= share.end) continue;
      run.body(run.context, detail::begin_of(run.count, part, run.parts),
               detail::begin_of(run.count, part + 1, run.parts));
      return true;
    }
    return false;
  }

  void work(std::size_t thread) {
    const Inside inside;
    std::uint64_t seen = 0;
    Clock::duration wait = nap;
    const auto news = [&] { return gate.load() / number != seen || stopping.load(); };
    for (;;) {
      spin(news, wait);
      if (!news()) {
        std::unique_lock lock(sleep);
        ++sleepers;  // before the last check of the gate: the caller opens the gate first, then reads this
        opened.wait(lock, news);
        --sleepers;
      }
      if (stopping) return;
      seen = gate.load() / number;
      if (!sit()) continue;
      wait = run.wait;
      while (claim_part(thread)) {
      }
      if (((gate.fetch_sub(sitting) - sitting) & all_sitting) == 0 && caller_sleeps.load()) {
        { const std::lock_guard lock(sleep); }
        left.notify_one();
      }
    }
  }

  void wake() {
    { const std::lock_guard lock(sleep); }
    opened.notify_all();
  }

  // Workers that are awake join at once. Sleeping workers are woken only if this run, or a burst of close runs, saves
  // more time than a wake-up costs.
  void run_all(const Run& r, std::int64_t seats, bool is_long) {
    const Inside inside;
    run = r;
    share_out();
    gate.store((gate.load() / number + 1) * number + static_cast<std::uint64_t>(seats) * seat);
    const bool some_sleep = sleepers.load() > 0;
    if (some_sleep && !is_long) {
      const Clock::time_point start = Clock::now();
      if (start - idle_since > nap) missed = {};
      claim_part(0);
      missed += (Clock::now() - start) * (r.parts - 1);
    }
    if (some_sleep && (is_long || missed > 2 * nap)) {
      missed = {};
      wake();
    }
    while (claim_part(0)) {
    }
    close();
    if (some_sleep) idle_since = Clock::now();
  }

  void close() {
    gate.fetch_and(~all_seats);
    const auto done = [&] { return (gate.load() & all_sitting) == 0; };
    spin(done, run.wait);
    if (done()) return;
    std::unique_lock lock(sleep);
    caller_sleeps = true;  // before the last check of the gate: a worker leaves first, then reads this
    left.wait(lock, done);
    caller_sleeps = false;
  }

  void stop() {
    stopping = true;
    wake();
    for (std::thread& worker : workers) worker.join();
  }
};

ThreadPool::ThreadPool(unsigned threads) : state_(std::make_unique<State>()) {
  const unsigned wanted = std::min(threads != 0 ? threads : std::max(1u, std::thread::hardware_concurrency()), 65535u);
  struct Stopping {  // stops the workers that did start, if one cannot
    State* state;
    ~Stopping() {
      if (state != nullptr) state->stop();
    }
  } guard{state_.get()};
  state_->shares = std::vector<State::Share>(wanted);
  for (unsigned i = 1; i < wanted; ++i) state_->workers.emplace_back([state = state_.get(), i] { state->work(i); });
  guard.state = nullptr;
}

ThreadPool::~ThreadPool() { state_->stop(); }

unsigned ThreadPool::concurrency() const noexcept { return static_cast<unsigned>(state_->workers.size()) + 1; }

void ThreadPool::run(std::int64_t count, std::int64_t grain, Body body, void* context) const {
  if (count <= 0) return;
  const std::int64_t threads = concurrency(), grains = count / std::max<std::int64_t>(1, grain);
  // Many parts per thread: a thread that starts late leaves parts of its share to the others.
  const std::int64_t parts = std::min(16 * threads, grains);
  if (parts <= 1 || threads == 1 || inside_body) return body(context, 0, count);
  const std::lock_guard lock(state_->callers);
  state_->run_all({body, context, count, parts, wait_for(grains / threads)}, std::min(threads, parts) - 1,
                  grains >= surely_long);
}

#else

struct ThreadPool::State {};

ThreadPool::ThreadPool(unsigned) {}
ThreadPool::~ThreadPool() = default;
unsigned ThreadPool::concurrency() const noexcept { return 1; }
void ThreadPool::run(std::int64_t count, std::int64_t grain, Body body, void* context) const {
  serial().run(count, grain, body, context);
}

#endif

}  // namespace rotary
