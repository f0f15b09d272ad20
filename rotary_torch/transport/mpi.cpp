// ProcessGroup over MPI. One thread makes every call of MPI, from MPI_Init to MPI_Finalize. So sums continue while the
// caller computes, MPI_THREAD_FUNNELED is enough, and a call that never returns does not block the caller.
#include "rotary/error.h"
#include "rotary_torch/transport/parts.h"

#ifndef ROTARY_MPI

namespace rotary_torch::parallel {

const ProcessGroup& mpi_world(int processes) {
  throw rotary::Error(rotary::Code::MPI,
                      "[world] several processes need a build with MPI (libopenmpi-dev) but this one has none and " +
                          std::to_string(processes) + " were started");
}

}  // namespace rotary_torch::parallel

#else

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#define OMPI_SKIP_MPICXX 1  // the C interface only
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "rotary_torch/transport/processes.h"

namespace rotary_torch::parallel {
namespace {

using rotary::Code;
using rotary::Error;
using std::chrono::steady_clock;

constexpr auto look_every = std::chrono::milliseconds(50);    // for lost peers, while waiting
constexpr auto poll_pause = std::chrono::microseconds(50);    // between polls of MPI, while the caller computes
constexpr std::int64_t largest_call = std::int64_t{1} << 30;  // MPI counts in int

struct Job {
  enum class Kind : std::uint8_t { sum, broadcast };
  Kind kind;
  at::Tensor values;  // on the CPU, contiguous
  int from = 0;
  std::vector<MPI_Request> requests = {};
  bool done = false;  // under Messenger's mutex
};

MPI_Datatype mpi_type(const at::Tensor& values) {
  switch (values.scalar_type()) {
    case at::kFloat:
      return MPI_FLOAT;
    case at::kDouble:
      return MPI_DOUBLE;
    case at::kLong:
      return MPI_INT64_T;
    default:
      throw Error(Code::DTYPE, std::string("[sum over ranks] takes f32, f64 and int64 but got ") +
                                   at::toString(values.scalar_type()));
  }
}

class Messenger {
 public:
  explicit Messenger(int processes);

  void post(const std::shared_ptr<Job>& job);
  void wait(const Job& job);
  void check();
  int writer();

  int rank = 0, size = 1, local_rank = 0, local_size = 1;

 private:
  void run(int processes);
  void begin(int processes);
  void meet_neighbours();
  void start(Job& job);
  bool finished(Job& job);
  void serve(std::unique_lock<std::mutex>& lock);
  void require(int code, const char* call);
  void fail(const std::string& sentence);
  void look();
  int lowest_alive() const;
  void leave(bool well);

  std::mutex mutex_;
  std::condition_variable work_, news_;
  std::vector<std::shared_ptr<Job> > posted_, active_;
  std::string failure_;  // once set, MPI is not called again
  int writer_ = 0;       // set together with failure_
  bool ready_ = false, leaving_ = false, gone_ = false;
  std::atomic<int> waiting_{0};
  MPI_Comm world_ = MPI_COMM_NULL;
  Peers peers_;
  double patience_ = 0;  // seconds; 0: unlimited
  pid_t process_ = getpid();
  std::thread thread_;
};

double patience_of(const std::string& word) {
  double seconds = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), seconds);
  if (status != std::errc() || end != word.data() + word.size() || !(seconds > 0)) {
    throw rotary::Error(Code::MPI, "[world] ROTARY_PEER_TIMEOUT must be seconds above 0 but got '" + word + "'");
  }
  return seconds;
}

// Never destroyed: MPI may still hold its buffers after a failure.
Messenger::Messenger(int processes) {
  if (const char* seconds = std::getenv("ROTARY_PEER_TIMEOUT")) patience_ = patience_of(seconds);
  sigset_t all, before;  // the program's signal handlers stay with the program's threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this, processes] { run(processes); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::unique_lock lock(mutex_);
  news_.wait(lock, [&] { return ready_ || !failure_.empty(); });
  if (!failure_.empty()) {
    lock.unlock();
    thread_.join();
    throw Error(Code::MPI, failure_);
  }
#ifdef __GLIBC__
  on_exit([](int status, void* self) { static_cast<Messenger*>(self)->leave(status == 0); }, this);
#endif
}

// ---- on the caller's threads ----

void Messenger::post(const std::shared_ptr<Job>& job) {
  check();
  const std::lock_guard lock(mutex_);
  posted_.push_back(job);
  work_.notify_one();
}

void Messenger::wait(const Job& job) {
  const auto begun = steady_clock::now();
  std::unique_lock lock(mutex_);
  ++waiting_;
  while (!news_.wait_for(lock, look_every, [&] { return job.done || !failure_.empty(); })) {
    lock.unlock();
    look();
    const std::chrono::duration<double> waited = steady_clock::now() - begun;
    if (patience_ > 0 && waited.count() > patience_) {
      fail("[sum over ranks] the other ranks answer within ROTARY_PEER_TIMEOUT but " + std::to_string(patience_) +
           " s have passed");
    }
    lock.lock();
  }
  --waiting_;
  if (!job.done) throw Error(Code::PEER, failure_);
}

void Messenger::check() {
  look();
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw Error(Code::PEER, failure_);
}

// The writer at the time of the failure, so that of two ranks that notice it one after the other only one writes.
int Messenger::writer() {
  const std::lock_guard lock(mutex_);
  return failure_.empty() ? lowest_alive() : writer_;
}

int Messenger::lowest_alive() const {
  int lowest = 0;
  for (const int lost : peers_.lost()) lowest += lost == lowest ? 1 : 0;
  return lowest;
}

void Messenger::look() {
  if (const std::vector<int> lost = peers_.lost(); !lost.empty()) {
    std::string ranks;
    for (const int lost_rank : lost) ranks += (ranks.empty() ? "" : ", ") + std::to_string(lost_rank);
    fail("[sum over ranks] all " + std::to_string(size) + " processes must live to the end but rank " + ranks +
         " is gone");
  } else if (interrupted) {
    fail("[sum over ranks] all " + std::to_string(size) +
         " processes must live to the end but this one was told to stop, as mpirun does when another is lost");
  }
}

void Messenger::fail(const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) {
    failure_ = sentence;
    writer_ = lowest_alive();
  }
  work_.notify_all();
  news_.notify_all();
}

// Called when the process exits. MPI_Finalize waits for all ranks, so a process that fails must not call it: the other
// ranks wait for it too. mpirun then sees its exit status and ends the others.
void Messenger::leave(bool well) {
  if (getpid() != process_ || std::this_thread::get_id() == thread_.get_id()) return;
  std::unique_lock lock(mutex_);
  leaving_ = true;
  if (!well && failure_.empty()) failure_ = "[sum over ranks] this process is exiting";
  work_.notify_all();
  if (failure_.empty()) {
    news_.wait(lock, [&] { return gone_; });
  } else {
    news_.wait_for(lock, 4 * look_every, [&] { return gone_; });
  }
  const bool gone = gone_;
  lock.unlock();
  gone ? thread_.join() : thread_.detach();
}

// ---- on the messenger's own thread ----

void Messenger::run(int processes) {
  prctl(PR_SET_TIMERSLACK, 1000UL);  // the default slack would add 50 us to poll_pause
  try {
    begin(processes);
    std::unique_lock lock(mutex_);
    ready_ = true;
    news_.notify_all();
    while (!leaving_ && failure_.empty()) serve(lock);
    const bool finalize = failure_.empty();
    lock.unlock();
    if (finalize) MPI_Finalize();
  } catch (const std::exception& error) {
    fail(error.what());
  }
  const std::lock_guard lock(mutex_);
  gone_ = true;
  news_.notify_all();
}

void Messenger::begin(int processes) {
  int already = 0, support = 0;
  MPI_Initialized(&already);
  if (already != 0) throw Error(Code::MPI, "[world] rotary initialises MPI itself but the program has done so");
  require(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &support), "MPI_Init_thread");
  require(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(world_, &rank);
  MPI_Comm_size(world_, &size);
  if (size != processes) {
    throw Error(Code::MPI, "[world] the launcher must belong to the MPI that rotary was built with: it started " +
                               std::to_string(processes) + " processes but MPI sees " + std::to_string(size));
  }
  meet_neighbours();
}

void Messenger::meet_neighbours() {
  MPI_Comm machine = MPI_COMM_NULL;
  require(MPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine), "MPI_Comm_split_type");
  MPI_Comm_rank(machine, &local_rank);
  MPI_Comm_size(machine, &local_size);
  using Card = std::array<long long, 3>;  // rank, process, the namespace of process ids
  const Card mine{rank, process_, static_cast<long long>(process_namespace())};
  std::vector<Card> cards(static_cast<std::size_t>(local_size));
  require(MPI_Allgather(mine.data(), 3, MPI_LONG_LONG, cards.data(), 3, MPI_LONG_LONG, machine), "MPI_Allgather");
  for (const Card& card : cards) {
    if (card[0] != rank && card[2] == mine[2]) peers_.watch(static_cast<int>(card[0]), static_cast<pid_t>(card[1]));
  }
  MPI_Comm_free(&machine);
}

void Messenger::require(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(Code::PEER, "[sum over ranks] " + std::string(call) + " must succeed but says " + text.data());
}

// One round: starts posted jobs and polls active ones. The lock is held on entry and on return.
void Messenger::serve(std::unique_lock<std::mutex>& lock) {
  if (active_.empty()) work_.wait(lock, [&] { return !posted_.empty() || leaving_ || !failure_.empty(); });
  if (!failure_.empty()) return;
  std::vector<std::shared_ptr<Job> > fresh;
  fresh.swap(posted_);
  lock.unlock();
  for (const auto& job : fresh) start(*job);
  active_.insert(active_.end(), fresh.begin(), fresh.end());
  const auto ended = std::stable_partition(active_.begin(), active_.end(), [&](auto& job) { return !finished(*job); });
  const bool progress = ended != active_.end();
  // A waiting caller does not need the core; a computing one does.
  if (!progress && !active_.empty()) {
    waiting_ > 0 ? std::this_thread::yield() : std::this_thread::sleep_for(poll_pause);
  }
  lock.lock();
  for (auto job = ended; job != active_.end(); ++job) (*job)->done = true;
  active_.erase(ended, active_.end());
  if (progress) news_.notify_all();
}

void Messenger::start(Job& job) {
  auto* bytes = static_cast<std::byte*>(job.values.data_ptr());
  const bool sums = job.kind == Job::Kind::sum;
  const std::int64_t unit = sums ? static_cast<std::int64_t>(job.values.element_size()) : 1;
  std::int64_t left = static_cast<std::int64_t>(job.values.nbytes()) / unit;
  while (left > 0) {
    const auto count = static_cast<int>(std::min(left, largest_call));
    MPI_Request& request = job.requests.emplace_back(MPI_REQUEST_NULL);
    require(sums ? MPI_Iallreduce(MPI_IN_PLACE, bytes, count, mpi_type(job.values), MPI_SUM, world_, &request)
                 : MPI_Ibcast(bytes, count, MPI_BYTE, job.from, world_, &request),
            sums ? "MPI_Iallreduce" : "MPI_Ibcast");
    bytes += count * unit;
    left -= count;
  }
}

bool Messenger::finished(Job& job) {
  int all = 0;
  require(MPI_Testall(static_cast<int>(job.requests.size()), job.requests.data(), &all, MPI_STATUSES_IGNORE),
          "MPI_Testall");
  return all != 0;
}

// ---- the group ----

class MpiGroup final : public ProcessGroup {
 public:
  explicit MpiGroup(Messenger& messenger) : messenger_(messenger) {}

  int rank() const noexcept override { return messenger_.rank; }
  int size() const noexcept override { return messenger_.size; }
  const char* transport() const noexcept override { return "mpi"; }
  int local_rank() const noexcept override { return messenger_.local_rank; }
  int local_size() const noexcept override { return messenger_.local_size; }
  void check() const override { messenger_.check(); }
  int writer() const noexcept override { return messenger_.writer(); }

  void sum(at::Tensor& values) const override { begin_sum(values)->wait(); }
  std::unique_ptr<Pending> begin_sum(at::Tensor& values) const override {
    mpi_type(values);
    return begin(values, Job::Kind::sum, 0);
  }
  void broadcast(at::Tensor& values, int from) const override {
    if (from < 0 || from >= size()) {
      throw Error(Code::SHAPE,
                  "[broadcast] from is a rank below " + std::to_string(size()) + " but got " + std::to_string(from));
    }
    begin(values, Job::Kind::broadcast, from)->wait();
  }
  void barrier() const override {
    at::Tensor nothing = at::zeros({1}, at::kLong);
    sum(nothing);
  }

 private:
  class Begun final : public Pending {
   public:
    Begun(Messenger& messenger, std::shared_ptr<Job> job, at::Tensor values)
        : messenger_(messenger), job_(std::move(job)), values_(std::move(values)) {}
    void wait() override {
      messenger_.wait(*job_);
      if (!job_->values.is_same(values_)) values_.copy_(job_->values);
    }

   private:
    Messenger& messenger_;
    std::shared_ptr<Job> job_;
    at::Tensor values_;
  };

  // Values that MPI cannot access, because they are strided or on a device, are copied there and back.
  std::unique_ptr<Pending> begin(const at::Tensor& given, Job::Kind kind, int from) const {
    const at::NoGradGuard no_grad;
    const at::Tensor values = given.detach();
    const at::Tensor reachable = values.is_cpu() && values.is_contiguous() ? values : values.to(at::kCPU).contiguous();
    auto job = std::make_shared<Job>(Job{kind, reachable, from});
    messenger_.post(job);
    return std::make_unique<Begun>(messenger_, std::move(job), values);
  }

  Messenger& messenger_;
};

}  // namespace

const ProcessGroup& mpi_world(int processes) {
  static const MpiGroup& group = *new MpiGroup(*new Messenger(processes));
  return group;
}

}  // namespace rotary_torch::parallel

#endif
