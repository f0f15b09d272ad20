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
#include "grid.h"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace gpu_emulator {
namespace {

constexpr int max_threads = 1024;
constexpr int lanes = 32;
constexpr const char* names[] = {"__shfl_sync",   "__shfl_up_sync",   "__shfl_down_sync",  "__shfl_xor_sync",
                                 "__ballot_sync", "__any_sync",       "__all_sync",        "__syncwarp",
                                 "__syncthreads", "__syncthreads_or", "__syncthreads_and", "__syncthreads_count"};

enum class State : std::uint8_t { fresh, ready, waiting, ended };

struct Thread {
  State state = State::fresh;
  Call call = {};
  bool yes = false;
  int source = 0;
  unsigned mask = 0;
  std::uint64_t value = 0;  // passed in
  std::uint64_t result = 0;
  const char* file = nullptr;
  int line = 0;
  Fiber* fiber = nullptr;
};

struct Meeting {  // lanes of a warp that wait for each other
  Call call = {};
  unsigned mask = 0;
  unsigned here = 0;
};

class Grid {
 public:
  void run(dim3 grid, dim3 block, const std::function<void()>& body, std::vector<std::unique_ptr<Fiber>>& fibers);
  std::uint64_t meet_warp(Call, unsigned mask, bool yes, std::uint64_t value, int source, const char* file, int line);
  int meet_block(Call, bool yes, const char* file, int line);
  int current() const { return current_; }
  [[noreturn]] void stuck(const char* why);
  void set_order(Order order, std::uint64_t seed) { order_ = order, random_.seed(seed); }

 private:
  void begin_block();
  bool next_block();
  void go(int thread);
  void work(Fiber& self);
  void wait(int thread);
  void finish(Meeting&, int first);
  void release(const int* threads, int count);
  Fiber& idle();
  void arrange(int* first, int* last);
  std::string where() const;

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
  std::vector<int> ready_;  // from next_ready_ on
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

int Grid::meet_block(Call call, bool yes, const char* file, int line) {
  const int self = current_;
  Thread& thread = threads_[self];
  thread.state = State::waiting;
  thread.call = call;
  thread.yes = yes;
  thread.file = file;
  thread.line = line;
  if (++at_barrier_ == count_) {
    at_barrier_ = 0;
    std::uint64_t sum = 0;
    int all[max_threads];
    for (int t = 0; t < count_; ++t) {
      const Thread& other = threads_[t];
      if (other.call != call || other.line != line || std::strcmp(other.file, file) != 0)
        stuck("threads of a block wait at different barriers");
      sum += other.yes;
      all[t] = t;
    }
    for (int t = 0; t < count_; ++t) threads_[t].result = sum;
    release(all, count_);
  }
  wait(self);
  return static_cast<int>(thread.result);
}

std::uint64_t Grid::meet_warp(Call call, unsigned mask, bool yes, std::uint64_t value, int source, const char* file,
                              int line) {
  const int self = current_, lane = self % lanes;
  Thread& thread = threads_[self];
  thread.state = State::waiting;
  thread.call = call;
  thread.mask = mask;
  thread.yes = yes;
  thread.value = value;
  thread.source = source == own_value ? lane : source;
  thread.file = file;
  thread.line = line;
  if (!(mask >> lane & 1)) stuck("a lane is missing in its own mask");
  if (thread.source < 0 || thread.source >= lanes || !(mask >> thread.source & 1))
    stuck("a lane reads a lane that its mask does not have");
  auto& meetings = meetings_[self / lanes];
  auto meeting = std::find_if(meetings.begin(), meetings.end(),
                              [&](const Meeting& m) { return m.mask == mask && m.call == call; });
  if (meeting == meetings.end()) meeting = meetings.insert(meetings.end(), {call, mask, 0});
  meeting->here |= 1u << lane;
  if (meeting->here == mask) {
    finish(*meeting, self - lane);
    meetings.erase(meeting);
  }
  wait(self);
  return thread.result;
}

void Grid::finish(Meeting& meeting, int first) {
  int here[lanes];
  int count = 0;
  std::uint64_t votes = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(meeting.mask >> lane & 1)) continue;
    here[count++] = first + lane;
    votes |= static_cast<std::uint64_t>(threads_[first + lane].yes) << lane;
  }
  const bool shuffles = meeting.call <= Call::shuffle_xor;
  for (int k = 0; k < count; ++k)
    threads_[here[k]].result = shuffles ? threads_[first + threads_[here[k]].source].value : votes;
  release(here, count);
}

std::string Grid::where() const {
  char text[200];
  std::snprintf(text, sizeof text, "block (%u, %u, %u) of grid (%u, %u, %u), block size (%u, %u, %u)", blockIdx.x,
                blockIdx.y, blockIdx.z, gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z);
  return text;
}

void Grid::stuck(const char* why) {
  std::fprintf(stderr, "[gpu emulator] %s, in %s:\n", why, where().c_str());
  const auto what = [&](int t) {
    const Thread& thread = threads_[t];
    if (thread.state == State::fresh) return std::string("not begun");
    if (thread.state == State::ended) return std::string("ended");
    if (thread.state == State::ready) return std::string("running");
    char mask[32] = {};
    if (thread.call < Call::sync) std::snprintf(mask, sizeof mask, " with mask 0x%08x", thread.mask);
    return std::string("at ") + names[static_cast<int>(thread.call)] + mask + ", " + thread.file + ":" +
           std::to_string(thread.line);
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

std::uint64_t exchange(Call call, unsigned mask, std::uint64_t value, int source, const char* file, int line) {
  return the_grid().meet_warp(call, mask, false, value, source, file, line);
}

unsigned ballot(Call call, unsigned mask, bool yes, const char* file, int line) {
  return static_cast<unsigned>(the_grid().meet_warp(call, mask, yes, 0, own_value, file, line));
}

int sync_block(Call call, bool yes, const char* file, int line) { return the_grid().meet_block(call, yes, file, line); }

void trap(const char* what, const char* file, int line) {
  std::fprintf(stderr, "[gpu emulator] %s, %s:%d, thread (%u, %u, %u) of block (%u, %u, %u)\n", what, file, line,
               threadIdx.x, threadIdx.y, threadIdx.z, blockIdx.x, blockIdx.y, blockIdx.z);
  std::abort();
}

}  // namespace gpu_emulator
