// What one process can tell about several: which world it is in, the order in which gradients are summed, who is lost,
// and how NCCL is called (by way of a fake libnccl, since no GPU is needed for that).
#include "rotary_torch/transport/parallel.h"

#include <ATen/Functions.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "rotary/error.h"
#include "rotary_torch/transport/parts.h"
#include "rotary_torch/transport/processes.h"

namespace {

using rotary_torch::GradientAverager;
using rotary_torch::ProcessGroup;
namespace parallel = rotary_torch::parallel;

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const rotary::Error& error) {
    return error.code() + ": " + error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Two ranks that hold the same values; events are written down.
class Twins final : public ProcessGroup {
 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 2; }
  const char* transport() const noexcept override { return "twins"; }
  void sum(at::Tensor& values) const override { values.mul_(2); }
  void broadcast(at::Tensor& /*values*/, int /*from*/) const override {}
  void barrier() const override {}
  std::unique_ptr<Pending> begin_sum(at::Tensor& values) const override {
    events.push_back("sum " + std::to_string(values.numel()));
    return std::make_unique<Twice>(values);
  }
  void check() const override {
    if (lost) throw rotary::Error("PEER", "[twins] two are needed but one is lost");
  }

  mutable std::vector<std::string> events;
  bool lost = false;

 private:
  class Twice final : public Pending {
   public:
    explicit Twice(at::Tensor values) : values_(std::move(values)) {}
    void wait() override { values_.mul_(2); }

   private:
    at::Tensor values_;
  };
};

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

std::vector<at::Tensor> chain(std::int64_t layers, std::int64_t width) {
  std::vector<at::Tensor> weights;
  for (std::int64_t i = 0; i < layers; ++i) {
    weights.push_back(at::linspace(-0.5, 0.7, width * width).view({width, width}).set_requires_grad(true));
  }
  return weights;
}

at::Tensor loss_of(const std::vector<at::Tensor>& weights) {
  at::Tensor x = at::linspace(-1, 1, 2 * weights.front().size(0)).view({2, -1});
  for (const at::Tensor& weight : weights) x = x.mm(weight).tanh();
  return x.square().mean();
}

TEST(World, IsAloneWithoutALauncher) {
  EXPECT_EQ(parallel::launched_processes(), 1);
  EXPECT_STREQ(ProcessGroup::world().transport(), "none");
  EXPECT_EQ(&ProcessGroup::world(at::kCUDA), &ProcessGroup::alone());
}

TEST(World, KnowsItsLaunchersByTheEnvironment) {
  {
    const Environment open_mpi("OMPI_COMM_WORLD_SIZE", "4");
    EXPECT_EQ(parallel::launched_processes(), 4);
  }
  {
    const Environment pmi("PMI_SIZE", "3");
    EXPECT_EQ(parallel::launched_processes(), 3);
  }
  const Environment tasks("SLURM_STEP_NUM_TASKS", "8");
  EXPECT_EQ(parallel::launched_processes(), 1) << "an sbatch script's own process is no task";
  const Environment task("SLURM_PROCID", "2");
  EXPECT_TRUE(contains(refusal([] { parallel::launched_processes(); }), "MPI: [world]"));
  const Environment pmix("PMIX_RANK", "2");
  EXPECT_EQ(parallel::launched_processes(), 8);
}

TEST(World, UnderALauncherWithoutMpiSaysSo) {
  if (dlsym(RTLD_DEFAULT, "MPI_Init_thread") != nullptr) GTEST_SKIP() << "built with MPI";
  const Environment open_mpi("OMPI_COMM_WORLD_SIZE", "4");
  EXPECT_TRUE(contains(refusal([] { ProcessGroup::world(); }), "MPI: [world] several processes need a build with MPI"));
}

TEST(Averager, ChangesNothingInAGroupOfOne) {
  const std::vector<at::Tensor> weights = chain(3, 4);
  loss_of(weights).backward();
  const at::Tensor expected = weights[1].grad().clone();
  weights[1].mutable_grad().zero_();
  GradientAverager averager(weights, ProcessGroup::alone());
  averager.begin();
  loss_of(weights).backward();
  averager.finish();
  EXPECT_TRUE(weights[1].grad().equal(expected));
  EXPECT_EQ(averager.bytes_per_step(), 0);
}

TEST(Averager, MeanOfTwinsIsTheirGradientBitForBit) {
  for (const std::int64_t bucket_bytes : {std::int64_t{1}, std::int64_t{200}, std::int64_t{1} << 20}) {
    const std::vector<at::Tensor> weights = chain(5, 6);
    loss_of(weights).backward();
    std::vector<at::Tensor> expected;
    for (const at::Tensor& weight : weights) {
      expected.push_back(weight.grad().clone());
      weight.mutable_grad().zero_();
    }
    const Twins twins;
    GradientAverager averager(weights, twins, bucket_bytes);
    for (int step = 0; step < 2; ++step) {
      for (const at::Tensor& weight : weights) weight.mutable_grad().zero_();
      averager.begin();
      loss_of(weights).backward();
      averager.finish();
      for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_TRUE(weights[i].grad().equal(expected[i])) << i;
    }
    EXPECT_EQ(averager.bytes_per_step(), 4 * (5 * 36 + 5));  // one more number for each parameter: who gave it
  }
}

TEST(Averager, SumsBeginBeforeTheBackwardPassEnds) {
  const std::vector<at::Tensor> weights = chain(4, 5);
  const Twins twins;
  GradientAverager averager(weights, twins, 2 * 25 * 4);  // two weights each
  // The hook of the first weight's own gradient is the last of the pass.
  weights[0].register_hook([&](const at::Tensor& gradient) {
    twins.events.push_back("first layer");
    return gradient;
  });
  averager.begin();
  loss_of(weights).backward();
  twins.events.push_back("backward returned");
  averager.finish();
  EXPECT_EQ(twins.events, (std::vector<std::string>{"sum 52", "first layer", "sum 52", "backward returned"}));
}

TEST(Averager, LeavesParametersWithoutAGradientAloneAndSharedOnesOnce) {
  std::vector<at::Tensor> weights = chain(3, 4);
  const at::Tensor unused = at::ones({7}).set_requires_grad(true);
  const at::Tensor frozen = at::ones({3});
  std::vector<at::Tensor> parameters = weights;
  parameters.push_back(unused);
  parameters.push_back(weights[0]);
  parameters.push_back(frozen);
  const Twins twins;
  GradientAverager averager(parameters, twins, 1);
  averager.begin();
  loss_of(weights).backward();
  averager.finish();
  EXPECT_FALSE(unused.grad().defined());
  EXPECT_EQ(twins.events, (std::vector<std::string>{"sum 8", "sum 17", "sum 17", "sum 17"}));
}

TEST(Averager, TakesGradientsAccumulatedBefore) {
  const std::vector<at::Tensor> weights = chain(2, 4);
  const Twins twins;
  loss_of(weights).backward();
  const at::Tensor once = weights[0].grad().clone();
  GradientAverager averager(weights, twins);
  averager.begin();
  loss_of(weights).backward();
  averager.finish();
  EXPECT_TRUE(weights[0].grad().equal(once.mul(2)));
}

TEST(Averager, RefusesASecondBackwardPassWithinAStep) {
  const std::vector<at::Tensor> weights = chain(2, 4);
  const Twins twins;
  GradientAverager averager(weights, twins);
  averager.begin();
  loss_of(weights).backward();
  EXPECT_TRUE(contains(refusal([&] { loss_of(weights).backward(); }), "one backward pass belongs between"));
}

TEST(Averager, LostRankEndsTheBackwardPass) {
  const std::vector<at::Tensor> weights = chain(4, 5);
  Twins twins;
  GradientAverager averager(weights, twins);
  averager.begin();
  const at::Tensor loss = loss_of(weights);
  twins.lost = true;
  EXPECT_EQ(refusal([&] { loss.backward(); }), "PEER: [twins] two are needed but one is lost");
  EXPECT_EQ(refusal([&] { averager.begin(); }), "PEER: [twins] two are needed but one is lost");
}

TEST(Averager, LeavesNoHookBehind) {
  const std::vector<at::Tensor> weights = chain(2, 4);
  const Twins twins;
  { GradientAverager averager(weights, twins); }
  loss_of(weights).backward();
  EXPECT_TRUE(twins.events.empty());
}

TEST(Peers, SeeAKilledProcessAtOnce) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  parallel::Peers peers;
  peers.watch(3, child);
  EXPECT_TRUE(peers.lost().empty());
  kill(child, SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  while (peers.lost().empty() && std::chrono::steady_clock::now() - killed < std::chrono::seconds(5)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(peers.lost(), std::vector<int>{3}) << "before its parent has asked for its status";
  waitpid(child, nullptr, 0);
}

// ---- NCCL ----

#ifdef FAKE_NCCL
const std::string fake_nccl = FAKE_NCCL;  // the library made of fake_nccl.cpp
#else
const std::string fake_nccl;
#endif

struct FakeStream final : parallel::SideStream {
  struct FakeMark final : Mark {
    explicit FakeMark(int rounds) : left(rounds) {}
    bool done() override { return left-- <= 0; }
    int left;
  };
  void* after_current() override { return reinterpret_cast<void*>(++calls); }
  std::unique_ptr<Mark> mark() override { return std::make_unique<FakeMark>(rounds); }
  std::uintptr_t calls = 0;
  int rounds = 3;
};

class NcclCalls : public testing::Test {
 protected:
  void SetUp() override {
    if (fake_nccl.empty()) GTEST_SKIP() << "built without fake_nccl.cpp";
    void* library = dlopen(fake_nccl.c_str(), RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    log_ = reinterpret_cast<const char* (*)()>(dlsym(library, "fake_nccl_log"));
    lose_ = reinterpret_cast<void (*)(bool)>(dlsym(library, "fake_nccl_lose"));
    seen_ = std::string(log_()).size();
  }
  void TearDown() override {
    if (lose_ != nullptr) lose_(false);
  }
  std::string calls() const { return std::string(log_()).substr(seen_); }  // of this test
  std::unique_ptr<ProcessGroup> group(int rounds = 3) {
    auto stream = std::make_unique<FakeStream>();
    stream->rounds = rounds;
    return parallel::nccl_group(twins_, at::kCPU, std::move(stream), fake_nccl);
  }

  const char* (*log_)() = nullptr;
  void (*lose_)(bool) = nullptr;
  std::size_t seen_ = 0;
  Twins twins_;
};

TEST_F(NcclCalls, AreMadeInOrderWithTheSizesAndTypes) {
  const auto nccl = group();
  EXPECT_STREQ(nccl->transport(), "nccl");
  at::Tensor values = at::arange(6, at::kFloat);
  nccl->sum(values);
  EXPECT_TRUE(values.equal(at::arange(6, at::kFloat).mul(2)));
  at::Tensor strided = at::ones({4, 3}, at::kLong).t();
  nccl->sum(strided);
  EXPECT_TRUE(strided.equal(at::full({3, 4}, 2, at::kLong)));
  at::Tensor bytes = at::zeros({5}, at::kHalf);
  nccl->broadcast(bytes, 1);
  EXPECT_EQ(calls(),
            "ncclGetUniqueId\nncclCommInitRank 0 of 2\nncclAllReduce 6 of type 7 by 0 on stream 1\n"
            "ncclAllReduce 12 of type 4 by 0 on stream 2\nncclBroadcast 10 of type 1 from 1 on stream 3\n");
}

TEST_F(NcclCalls, AverageGradientsInBuckets) {
  const auto nccl = group();
  const std::vector<at::Tensor> weights = chain(3, 4);
  loss_of(weights).backward();
  const at::Tensor expected = weights[2].grad().clone();
  weights[2].mutable_grad().zero_();
  GradientAverager averager(weights, *nccl, 2 * 16 * 4);
  averager.begin();
  loss_of(weights).backward();
  averager.finish();
  EXPECT_TRUE(weights[2].grad().equal(expected));
  EXPECT_TRUE(contains(calls(), "ncclAllReduce 34 of type 7 by 0 on stream 3\nncclAllReduce 17 of type 7"));
}

TEST_F(NcclCalls, FailWithTheLibrarysOwnWords) {
  {
    const Environment failing("FAKE_NCCL_FAILS", "ncclCommInitRank");
    EXPECT_EQ(refusal([&] { group(); }),
              "NCCL: [world] ncclCommInitRank must succeed but rank 0 of 2 got: invalid usage (the fake was told to "
              "fail)");
  }
  const auto nccl = group();
  const Environment failing("FAKE_NCCL_FAILS", "ncclAllReduce");
  at::Tensor values = at::ones({2});
  EXPECT_TRUE(contains(refusal([&] { nccl->sum(values); }), "NCCL: [world] ncclAllReduce must succeed"));
}

TEST_F(NcclCalls, LostRankAbortsTheCommunicator) {
  const auto nccl = group(/*rounds=*/1 << 30);
  at::Tensor values = at::ones({2});
  lose_(true);
  EXPECT_EQ(refusal([&] { nccl->sum(values); }),
            "PEER: [sum over ranks] all processes must live to the end but NCCL says: remote process exited");
  EXPECT_TRUE(contains(calls(), "ncclCommAbort\n"));
  EXPECT_TRUE(contains(refusal([&] { nccl->sum(values); }), "PEER: [sum over ranks] the group has ended"));
}

TEST_F(NcclCalls, InterruptAbortsTheCommunicator) {
  const auto nccl = group(/*rounds=*/1 << 30);
  at::Tensor values = at::ones({2});
  const auto sum = nccl->begin_sum(values);
  twins_.lost = true;
  EXPECT_EQ(refusal([&] { sum->wait(); }), "PEER: [twins] two are needed but one is lost");
  EXPECT_TRUE(contains(calls(), "ncclCommAbort\n"));
}

TEST_F(NcclCalls, WithoutTheLibraryAreRefusedWithASentence) {
  const std::string sentence =
      refusal([&] { parallel::nccl_group(twins_, at::kCPU, std::make_unique<FakeStream>(), "/nowhere/libnccl.so.2"); });
  EXPECT_TRUE(contains(sentence, "NCCL: [world] several processes with CUDA tensors need NCCL"));
  EXPECT_TRUE(contains(sentence, "/nowhere/libnccl.so.2"));
  EXPECT_TRUE(
      contains(refusal([&] { parallel::nccl_group(twins_, at::kCPU, std::make_unique<FakeStream>(), "libc.so.6"); }),
               "libc.so.6 has no ncclGetUniqueId"));
  EXPECT_TRUE(contains(refusal([] { parallel::side_stream(at::kCUDA); }), "NCCL: [world] tensors on cuda need"));
}

}  // namespace
