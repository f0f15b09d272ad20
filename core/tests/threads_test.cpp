// The executors: every item once, whatever the split; the same bits from any number of threads.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/tests/support/heads.h"
#include "core/tests/support/splits.h"

namespace rotary::tests {
namespace {

// Counts how often each item is run, and over how many ranges.
struct Counted {
  explicit Counted(std::int64_t items) : times(static_cast<std::size_t>(items)) {}
  std::vector<std::atomic<int>> times;
  std::atomic<int> ranges{0};

  static void body(void* context, std::int64_t begin, std::int64_t end) {
    auto& self = *static_cast<Counted*>(context);
    ++self.ranges;
    for (std::int64_t i = begin; i < end; ++i) ++self.times[static_cast<std::size_t>(i)];
  }
  bool each_is(int n) const {
    for (const auto& t : times) {
      if (t != n) return false;
    }
    return true;
  }
};

TEST(Executors, RunEveryItemOnceWhateverTheCountAndTheGrain) {
  for (const unsigned threads : {1u, 2u, 3u, 4u}) {
    const ThreadPool pool(threads);
    EXPECT_EQ(pool.concurrency(), threads);
    for (const std::int64_t count : {0, 1, 2, 3, 7, 64, 1000}) {
      for (const std::int64_t grain : {0, 1, 3, 100, 5000}) {
        for (const Executor* executor : {static_cast<const Executor*>(&pool), &serial()}) {
          Counted counted(count);
          executor->run(count, grain, Counted::body, &counted);
          EXPECT_TRUE(counted.each_is(1)) << threads << " threads, count " << count << ", grain " << grain;
        }
      }
    }
  }
  EXPECT_EQ(serial().concurrency(), 1u);
  EXPECT_GE(ThreadPool(0).concurrency(), 1u) << "a pool of all cores";
}

TEST(Executors, NoRangeIsSmallerThanTheGrain) {
  const ThreadPool pool(4);
  struct Smallest {
    std::atomic<std::int64_t> size{1 << 30};
    static void body(void* context, std::int64_t begin, std::int64_t end) {
      auto& size = static_cast<Smallest*>(context)->size;
      std::int64_t seen = size;
      while (end - begin < seen && !size.compare_exchange_weak(seen, end - begin)) {
      }
    }
  } smallest;
  pool.run(1000, 130, Smallest::body, &smallest);
  EXPECT_GE(smallest.size, 130);
}

TEST(Executors, SmallWorkStaysOnTheCallersThread) {
  const ThreadPool pool(4);
  std::thread::id where;
  pool.run(
      100, 100,
      [](void* id, std::int64_t, std::int64_t) { *static_cast<std::thread::id*>(id) = std::this_thread::get_id(); },
      &where);
  EXPECT_EQ(where, std::this_thread::get_id());
}

// Runs long enough to wake sleeping workers for, one after the other and after pauses. Any worker may come late, or not
// at all: which thread runs an item is not tested.
TEST(Executors, LongRunsWakeWorkersThatSleep) {
  struct Slow {
    Counted counted{256};
    static void body(void* context, std::int64_t begin, std::int64_t end) {
      auto& self = *static_cast<Slow*>(context);
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(end - begin);
      while (std::chrono::steady_clock::now() < until) {
      }
      Counted::body(&self.counted, begin, end);
    }
  };
  const ThreadPool pool(3);
  for (const std::int64_t grain : {std::int64_t{1}, std::int64_t{16}}) {
    Slow slow;
    for (int i = 0; i < 300; ++i) {
      if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      pool.run(256, grain, Slow::body, &slow);
    }
    EXPECT_TRUE(slow.counted.each_is(300));
  }
}

TEST(Executors, APoolMayGoAtAnyTime) {
  for (int i = 0; i < 200; ++i) {
    Counted counted(40);
    const ThreadPool pool(1 + static_cast<unsigned>(i) % 4);
    for (int k = 0; k < i % 3; ++k) pool.run(40, 1, Counted::body, &counted);
    EXPECT_TRUE(counted.each_is(i % 3));
  }
}

TEST(Executors, SecondCallersWaitTheirTurn) {
  const ThreadPool pool(2);
  Counted counted(50);
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int k = 0; k < 200; ++k) pool.run(50, 1, Counted::body, &counted);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(counted.each_is(800));
}

TEST(Executors, ARunInsideARunStaysOnItsThread) {
  struct Nested {
    ThreadPool pool{3};
    Counted counted{10};
  } nested;
  nested.pool.run(
      8, 1,
      [](void* context, std::int64_t begin, std::int64_t end) {
        auto& n = *static_cast<Nested*>(context);
        for (std::int64_t i = begin; i < end; ++i) n.pool.run(10, 1, Counted::body, &n.counted);
      },
      &nested);
  EXPECT_TRUE(nested.counted.each_is(8));
  EXPECT_EQ(nested.counted.ranges, 8);
}

}  // namespace
}  // namespace rotary::tests
