// Runs a grid, one block after the other. Threads run on fibers, so that one can wait for another. A fiber whose thread
// has ended continues with the next thread, so a thread that never waits costs only a call.
#include "emulator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "fiber.h"
#include "runtime.h"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace gpu_emulator {
namespace {

constexpr int max_threads = 1024;
constexpr int lanes = 32;

enum class State : std::uint8_t { fresh, ready, waiting, ended };

struct Thread {
  State state = State::fresh;
  CallSite call = {};  // where it waits
  unsigned mask = 0;
  int source = 0;
  std::uint64_t value = 0;  // the value that the thread passes in, then the value that it gets
  Fiber* fiber = nullptr;
};

struct Meeting {  // lanes of a warp that wait for each other
  const char* name = nullptr;
  unsigned mask = 0;
  unsigned here = 0;
};

class Grid {
 public:
  void run(dim3 grid, dim3 block, const std::function<void()>& body, std::vector<std::unique_ptr<Fiber>>& fibers);
  std::uint64_t meet_warp(const CallSite&, unsigned mask, std::uint64_t value, int source);
  void meet_block(const CallSite&);
  int current() const { return current_; }
  [[noreturn]] void stuck(const char* why);
  void set_order(Order order, std::uint64_t seed) { order_ = order, random_.seed(seed); }

 private:
  void begin_block();
  void go(int thread);
  void work(Fiber& self);
  void wait(int thread);
  void finish(unsigned mask, int first);
  void release(const int* threads, int count);
  Fiber& idle();
  void arrange(int* first, int* last);

  const std::function<void()>* body_ = nullptr;
  std::vector<std::unique_ptr<Fiber>>* fibers_ = nullptr;
  std::vector<Fiber*> idle_;
  Fiber* caller_ = nullptr;
  std::int64_t blocks_ = 0, block_ = 0, first_block_ = 0, stride_ = 1;
  int count_ = 0;  // threads of a block
  int begun_ = 0, ended_ = 0, at_barrier_ = 0;
  int current_ = 0;
  int sequence_[max_threads] = {};
  uint3 index_[max_threads] = {};
  Thread threads_[max_threads];
  std::vector<Meeting> meetings_[max_threads / lanes];
  std::vector<int> ready_;  // the threads that can continue, from next_ready_ on
  std::size_t next_ready_ = 0;
  Order order_ = Order::forward;
  std::mt19937_64 random_;
};

Grid& the_grid() {
  static Grid grid;
  return grid;
}

void Grid::arrange(int* first, int* last) {
  if (order_ == Order::backward) std::reverse(first, last);
  if (order_ == Order::shuffled) std::shuffle(first, last, random_);
}

void Grid::run(dim3 grid, dim3 block, const std::function<void()>& body, std::vector<std::unique_ptr<Fiber>>& fibers) {
  body_ = &body;
  fibers_ = &fibers;
  idle_.clear();
  for (auto& fiber : fibers) idle_.push_back(fiber.get());
  gridDim = grid;
  blockDim = block;
  count_ = static_cast<int>(block.x * block.y * block.z);
  for (unsigned t = 0; t < static_cast<unsigned>(count_); ++t)
    index_[t] = {t % block.x, t / block.x % block.y, t / block.x / block.y};
  blocks_ = static_cast<std::int64_t>(grid.x) * grid.y * grid.z;
  block_ = 0;
  first_block_ = 0;
  stride_ = 1;
  if (order_ == Order::shuffled) {
    first_block_ = static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(blocks_));
    do {
      stride_ = static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(blocks_)) + 1;
    } while (std::gcd(stride_, blocks_) != 1);
  }
  std::iota(sequence_, sequence_ + count_, 0);
  if (order_ == Order::backward) arrange(sequence_, sequence_ + count_);
  begin_block();
  Fiber caller;
  caller_ = &caller;
  Fiber::change(caller, idle());
}

void Grid::begin_block() {
  std::int64_t at = block_;
  if (order_ == Order::backward) at = blocks_ - 1 - block_;
  if (order_ == Order::shuffled)
    at = static_cast<std::int64_t>((static_cast<__int128>(block_) * stride_ + first_block_) % blocks_);
  const auto x = static_cast<std::int64_t>(gridDim.x), y = static_cast<std::int64_t>(gridDim.y);
  blockIdx = {static_cast<unsigned>(at % x), static_cast<unsigned>(at / x % y), static_cast<unsigned>(at / x / y)};
  if (order_ == Order::shuffled) arrange(sequence_, sequence_ + count_);
  for (int t = 0; t < count_; ++t) threads_[t].state = State::fresh;
  begun_ = ended_ = at_barrier_ = 0;
  ready_.clear();
  next_ready_ = 0;
}

Fiber& Grid::idle() {
  if (idle_.empty()) {
    fibers_->push_back(std::make_unique<Fiber>([](Fiber& self) { the_grid().work(self); }));
    idle_.push_back(fibers_->back().get());
  }
  Fiber& fiber = *idle_.back();
  idle_.pop_back();
  return fiber;
}

void Grid::go(int thread) {
  current_ = thread;
  threadIdx = index_[thread];
}

// The loop of an idle fiber: runs threads that have not begun, or switches to one that can continue.
void Grid::work(Fiber& self) {
  for (;;) {
    if (next_ready_ < ready_.size()) {
      const int thread = ready_[next_ready_++];
      go(thread);
      idle_.push_back(&self);
      Fiber::change(self, *threads_[thread].fiber);
    } else if (begun_ < count_) {
      const int thread = sequence_[begun_++];
      go(thread);
      threads_[thread].fiber = &self;
      threads_[thread].state = State::ready;
      (*body_)();
      threads_[thread].state = State::ended;
      ++ended_;
    } else if (ended_ < count_) {
      stuck("threads wait for what never comes");
    } else if (++block_ < blocks_) {
      begin_block();
    } else {
      idle_.push_back(&self);
      Fiber::change(self, *caller_);
    }
  }
}

// Makes the running thread wait until another releases it.
void Grid::wait(int thread) {
  Fiber& self = *threads_[thread].fiber;
  if (next_ready_ < ready_.size()) {
    const int other = ready_[next_ready_++];
    if (other != thread) {
      go(other);
      Fiber::change(self, *threads_[other].fiber);
    }
  } else if (begun_ < count_) {
    Fiber::change(self, idle());
  } else {
    stuck("threads wait for what never comes");
  }
}

void Grid::release(const int* threads, int count) {
  if (next_ready_ == ready_.size()) {
    ready_.clear();
    next_ready_ = 0;
  }
  const std::size_t first = ready_.size();
  for (int k = 0; k < count; ++k) {
    threads_[threads[k]].state = State::ready;
    ready_.push_back(threads[k]);
  }
  arrange(ready_.data() + first, ready_.data() + ready_.size());
}

void Grid::meet_block(const CallSite& call) {
  const int self = current_;
  threads_[self].state = State::waiting;
  threads_[self].call = call;
  threads_[self].mask = 0;
  if (++at_barrier_ == count_) {
    at_barrier_ = 0;
    int all[max_threads];
    for (int t = 0; t < count_; ++t) {
      const CallSite& other = threads_[t].call;
      if (other.name != call.name || other.line != call.line || std::strcmp(other.file, call.file) != 0)
        stuck("threads of a block wait at different barriers");
      all[t] = t;
    }
    release(all, count_);
  }
  wait(self);
}

std::uint64_t Grid::meet_warp(const CallSite& call, unsigned mask, std::uint64_t value, int source) {
  const int self = current_, lane = self % lanes;
  Thread& thread = threads_[self];
  thread.state = State::waiting;
  thread.call = call;
  thread.mask = mask;
  thread.value = value;
  thread.source = source;
  if (!(mask >> lane & 1)) stuck("a lane is missing in its own mask");
  if (source < 0 || source >= lanes || !(mask >> source & 1)) stuck("a lane reads a lane that its mask does not have");
  auto& meetings = meetings_[self / lanes];
  auto meeting = std::find_if(meetings.begin(), meetings.end(),
                              [&](const Meeting& m) { return m.mask == mask && m.name == call.name; });
  if (meeting == meetings.end()) meeting = meetings.insert(meetings.end(), {call.name, mask, 0});
  meeting->here |= 1u << lane;
  if (meeting->here == mask) {
    finish(mask, self - lane);
    meetings.erase(meeting);
  }
  wait(self);
  return thread.value;
}

void Grid::finish(unsigned mask, int first) {
  int here[lanes];
  int count = 0;
  std::uint64_t values[lanes];
  for (int lane = 0; lane < lanes; ++lane) {
    values[lane] = threads_[first + lane].value;
    if (mask >> lane & 1) here[count++] = first + lane;
  }
  for (int k = 0; k < count; ++k) threads_[here[k]].value = values[threads_[here[k]].source];
  release(here, count);
}

void Grid::stuck(const char* why) {
  std::fprintf(stderr, "[gpu emulator] %s, in block (%u, %u, %u) of grid (%u, %u, %u), block size (%u, %u, %u):\n", why,
               blockIdx.x, blockIdx.y, blockIdx.z, gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z);
  const auto what = [&](int t) {
    const Thread& thread = threads_[t];
    if (thread.state == State::fresh) return std::string("not begun");
    if (thread.state == State::ended) return std::string("ended");
    if (thread.state == State::ready) return std::string("running");
    char mask[32] = {};
    if (thread.mask != 0) std::snprintf(mask, sizeof mask, " with mask 0x%08x", thread.mask);
    return std::string("at ") + thread.call.name + mask + ", " + thread.call.file + ":" +
           std::to_string(thread.call.line);
  };
  for (int t = 0; t < count_;) {
    int end = t + 1;
    while (end < count_ && what(end) == what(t)) ++end;
    std::fprintf(stderr, "  threads %d to %d: %s\n", t, end - 1, what(t).c_str());
    t = end;
  }
  std::abort();
}

}  // namespace

void run_grid(dim3 grid, dim3 block, const std::function<void()>& body) {
  static std::mutex one_at_a_time;  // __shared__ is static
  thread_local std::vector<std::unique_ptr<Fiber>> fibers;
  const std::lock_guard lock(one_at_a_time);
  the_grid().run(grid, block, body, fibers);
}

void set_order(Order order, std::uint64_t seed) { the_grid().set_order(order, seed); }

int lane() { return the_grid().current() % lanes; }

std::uint64_t exchange(const CallSite& call, unsigned mask, std::uint64_t value, int source) {
  return the_grid().meet_warp(call, mask, value, source);
}

void sync_block(const CallSite& call) { the_grid().meet_block(call); }

void trap(const CallSite& call) {
  std::fprintf(stderr, "[gpu emulator] %s, %s:%d, thread (%u, %u, %u) of block (%u, %u, %u)\n", call.name, call.file,
               call.line, threadIdx.x, threadIdx.y, threadIdx.z, blockIdx.x, blockIdx.y, blockIdx.z);
  std::abort();
}

}  // namespace gpu_emulator
