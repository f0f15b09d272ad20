// One rank of a real world of MPI, driven by test_mpi.py: mpi_check sums|gradients|overlap|die FOLDER HOW|bench|nccl
// LIBRARY. Exits 0 where all is right, 1 with a sentence where not, 3 where a rank was lost and was noticed as it
// should be.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rotary/error.h"
#include "rotary_torch/transport/parallel.h"
#include "rotary_torch/transport/parts.h"

namespace {

using rotary_torch::GradientAverager;
using rotary_torch::ProcessGroup;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void require(bool holds, const std::string& what) {
  if (!holds) throw rotary::Error(rotary::Code::CHECK, what);
}

// Every rank sees rank 0's bits.
void require_same_bits(const ProcessGroup& world, const at::Tensor& values, const std::string& what) {
  at::Tensor first = values.clone();
  world.broadcast(first, 0);
  require(first.equal(values), what + ": ranks differ in bits");
}

void sums(const ProcessGroup& world) {
  const int rank = world.rank(), size = world.size();
  require(std::string(world.transport()) == "mpi" && world.local_size() == size && world.local_rank() == rank, "world");
  at::Tensor whole = at::arange(1000, at::kLong).mul(rank + 1);
  world.sum(whole);
  require(whole.equal(at::arange(1000, at::kLong).mul(size * (size + 1) / 2)), "int64 sum");
  for (const std::int64_t length : {1, 3, 1000, 100003, 3000001}) {
    at::Tensor values = at::arange(length, at::kFloat).mul(0.37 * (rank + 1)).sin();
    const at::Tensor mine = values.clone();
    at::Tensor expected = at::zeros({length}, at::kDouble);
    for (int r = 0; r < size; ++r)
      expected.add_(at::arange(length, at::kFloat).mul(0.37 * (r + 1)).sin().to(at::kDouble));
    world.sum(values);
    require(values.to(at::kDouble).sub(expected).abs().max().item<double>() < 1e-6, "f32 sum");
    require_same_bits(world, values, "f32 sum");
    for (int again = 0; again < 3; ++again) {  // whatever the timing
      std::this_thread::sleep_for(std::chrono::microseconds(((rank + again) % size) * 300));
      at::Tensor repeated = mine.clone();
      world.sum(repeated);
      require(repeated.equal(values), "f32 sum: repeated with other bits");
    }
  }
  at::Tensor strided = at::full({5, 7}, rank + 1, at::kDouble).t();
  world.sum(strided);
  require(strided.equal(at::full({7, 5}, size * (size + 1) / 2, at::kDouble)), "strided f64 sum");
  at::Tensor half = at::full({9}, rank, at::kBFloat16);
  world.broadcast(half, size - 1);
  require(half.equal(at::full({9}, size - 1, at::kBFloat16)), "broadcast");
  try {
    world.sum(half);
    require(false, "a bf16 sum must be refused");
  } catch (const rotary::Error& error) {
    require(error.code() == rotary::Code::DTYPE, "a bf16 sum must be refused as DTYPE");
  }
  world.barrier();
}

struct Net {
  std::vector<at::Tensor> parameters;  // weight, bias, weight, ...
  at::Tensor loss(const at::Tensor& input, bool skip_last) const {
    at::Tensor x = input;
    const std::size_t used = parameters.size() - (skip_last ? 2 : 0);
    for (std::size_t i = 0; i < used; i += 2) x = at::addmm(parameters[i + 1], x, parameters[i]).tanh();
    return x.square().mean();
  }
};

Net net(int layers, std::int64_t width) {
  Net made;
  for (int i = 0; i < layers; ++i) {
    made.parameters.push_back(at::arange(width * width, at::kFloat)
                                  .mul(0.71 + i)
                                  .sin()
                                  .div(std::sqrt(width))
                                  .view({width, width})
                                  .set_requires_grad(true));
    made.parameters.push_back(at::arange(width, at::kFloat).mul(0.3 + i).cos().set_requires_grad(true));
  }
  return made;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>() / std::max(1e-6, b.abs().max().item<double>());
}

// The mean of the ranks' gradients is the gradient of the joint batch.
void gradients(const ProcessGroup& world) {
  const int rank = world.rank(), size = world.size();
  const std::int64_t rows = 8;
  const at::Tensor joint = at::arange(rows * size * 32, at::kFloat).mul(0.13).sin().view({rows * size, 32});
  const at::Tensor mine = joint.narrow(0, rank * rows, rows);
  const Net reference = net(5, 32);
  reference.loss(joint, false).backward();
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{5000}, std::int64_t{1} << 20}) {
    const Net model = net(5, 32);
    GradientAverager averager(model.parameters, world, bytes);
    require(averager.bytes_per_step() == 4 * (5 * (32 * 32 + 32) + 10), "bytes_per_step");
    for (int step = 0; step < 3; ++step) {
      for (const at::Tensor& p : model.parameters) p.mutable_grad() = at::Tensor();
      averager.begin();
      model.loss(mine, false).backward();
      averager.finish();
      for (std::size_t p = 0; p < model.parameters.size(); ++p) {
        const double off = difference(model.parameters[p].grad(), reference.parameters[p].grad());
        require(off < 2e-6, "gradient " + std::to_string(p) + " is off by " + std::to_string(off));
        require_same_bits(world, model.parameters[p].grad(), "gradient");
      }
    }
  }
  // The last layer is used on the last rank only: elsewhere its gradient counts as zero. No one uses the extra one.
  Net model = net(5, 32);
  model.parameters.push_back(at::ones({3}).set_requires_grad(true));
  Net used = model;
  used.parameters.pop_back();
  GradientAverager averager(model.parameters, world, 3000);
  const at::Tensor all = mine;
  averager.begin();
  used.loss(all, rank != size - 1).backward();
  at::Tensor expected = used.parameters[8].grad().defined() ? used.parameters[8].grad().clone() : at::zeros({32, 32});
  require(used.parameters[8].grad().defined() == (rank == size - 1), "the test's own unused layer");
  averager.finish();
  world.sum(expected);
  require(difference(used.parameters[8].grad(), expected.div(size)) < 2e-6, "a layer used on one rank");
  require(!model.parameters.back().grad().defined(), "a parameter that no one uses has a gradient");
  try {
    GradientAverager other(net(rank == 1 ? 4 : 5, 32).parameters, world);
    require(false, "other shapes must be refused");
  } catch (const rotary::Error& error) {
    require(error.code() == rotary::Code::SHAPE, std::string("other shapes must be refused as SHAPE: ") + error.what());
  }
  world.barrier();
}

// Keeps hold of the buckets, so that the test sees when their values change: when the sum has been done.
class Watched final : public ProcessGroup {
 public:
  explicit Watched(const ProcessGroup& group) : group_(group) {}
  int rank() const noexcept override { return group_.rank(); }
  int size() const noexcept override { return group_.size(); }
  const char* transport() const noexcept override { return group_.transport(); }
  void sum(at::Tensor& values) const override { group_.sum(values); }
  void broadcast(at::Tensor& values, int from) const override { group_.broadcast(values, from); }
  void barrier() const override { group_.barrier(); }
  void check() const override { group_.check(); }
  std::unique_ptr<Pending> begin_sum(at::Tensor& values) const override {
    buckets.emplace_back(values, values.clone());
    return group_.begin_sum(values);
  }
  mutable std::vector<std::pair<at::Tensor, at::Tensor>> buckets;  // live, as it was given

 private:
  const ProcessGroup& group_;
};

void overlap(const ProcessGroup& real) {
  const Watched world(real);
  const Net model = net(6, 64);
  GradientAverager averager(model.parameters, world, 64 * 65 * 4);
  int done_in_backward = 0;
  model.parameters[0].register_hook(
      [&](const at::Tensor& gradient) {  // the pass is not over: its last layer takes long
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        for (const auto& [live, given] : world.buckets) done_in_backward += live.equal(given) ? 0 : 1;
        return gradient;
      });
  averager.begin();
  model.loss(at::ones({4, 64}), false).backward();
  averager.finish();
  require(world.buckets.size() == 6, "six buckets but got " + std::to_string(world.buckets.size()));
  require(done_in_backward == 5,
          "five sums of six end while the backward pass runs but " + std::to_string(done_in_backward) + " did");
  real.barrier();
}

void save(const std::string& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder + "/" + name) << text << "\n";
}

// The last rank (or rank 0) ends in the middle of the training; the others must notice and say so.
void die(const ProcessGroup& world, const std::string& folder, const std::string& how) {
  std::signal(SIGTERM, [](int) { ProcessGroup::interrupt(); });
  save(folder, "pid" + std::to_string(world.rank()), std::to_string(getpid()));
  const Net model = net(4, 64);
  GradientAverager averager(model.parameters, world);
  const int victim = how == "kill0" ? 0 : world.size() - 1;
  int step = 0;
  try {
    for (; step < 200; ++step) {
      for (const at::Tensor& p : model.parameters) p.mutable_grad() = at::Tensor();
      averager.begin();
      const at::Tensor loss = model.loss(at::ones({4, 64}), false);
      if (step == 20 && world.rank() == victim) {
        save(folder, "died", std::to_string(now()));
        if (how == "kill" || how == "kill0") kill(getpid(), SIGKILL);
        if (how == "throw") throw rotary::Error(rotary::Code::FILE, "[check] the disk is full");
        if (how == "stop") kill(getpid(), SIGSTOP);
      }
      if (how == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(100));
      loss.backward();
      averager.finish();
    }
  } catch (const rotary::Error& error) {
    if (error.code() == rotary::Code::PEER && world.rank() == world.writer()) {
      save(folder, "saved", std::to_string(now()) + " " + std::to_string(world.rank()) + " " + std::to_string(step));
      save(folder, "said", error.what());
    }
    throw;
  }
}

// Seconds of sums of several sizes: "floats median seconds", and of begun sums while the caller computes.
void bench(const ProcessGroup& world) {
  const auto median = [&](int rounds, const std::function<void()>& work) {
    std::vector<double> seconds;
    for (int round = 0; round < rounds; ++round) {
      world.barrier();
      const double begun = now();
      work();
      seconds.push_back(now() - begun);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  };
  for (const std::int64_t floats : {1, 1000, 10000, 100000, 262144, 810049, 3000000}) {
    at::Tensor values = at::zeros({floats});
    const double seconds = median(floats > 200000 ? 21 : 101, [&] { world.sum(values); });
    if (world.rank() == 0) std::printf("sum of %8ld floats: %9.1f us\n", static_cast<long>(floats), 1e6 * seconds);
  }
  for (const std::int64_t bytes : {std::int64_t{1} << 17, std::int64_t{1} << 20, std::int64_t{1} << 30}) {
    const Net model = net(16, 256);
    const at::Tensor input = at::ones({256, 256});
    const auto pass = [&] { model.loss(input, false).backward(); };
    pass();
    const double alone = median(15, pass);
    GradientAverager averager(model.parameters, world, bytes);
    double backward = 0;
    const double whole = median(15, [&] {
      averager.begin();
      const double begun = now();
      pass();
      backward = now() - begun;
      averager.finish();
    });
    if (world.rank() == 0) {
      std::printf("16 layers of 256, buckets of %10ld bytes: pass alone %6.2f ms, averaged %6.2f ms (pass %6.2f)\n",
                  static_cast<long>(bytes), 1e3 * alone, 1e3 * whole, 1e3 * backward);
    }
  }
}

// The id that rank 0 made reaches every rank, over the real host group.
void nccl(const ProcessGroup& world, const std::string& library) {
  struct NoStream final : rotary_torch::parallel::SideStream {
    struct Done final : Mark {
      bool done() override { return true; }
    };
    void* after_current() override { return nullptr; }
    std::unique_ptr<Mark> mark() override { return std::make_unique<Done>(); }
  };
  const auto group = rotary_torch::parallel::nccl_group(world, at::kCPU, std::make_unique<NoStream>(), library);
  auto* const seen = reinterpret_cast<const char* (*)()>(dlsym(dlopen(library.c_str(), RTLD_NOW), "fake_nccl_id"));
  const std::string id = seen();
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(id.size())}, at::kByte);
  std::copy(id.begin(), id.end(), bytes.data_ptr<std::uint8_t>());
  require(id.size() == 128, "an id of 128 bytes");
  require_same_bits(world, bytes, "NCCL's id");
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  at::set_num_threads(1);
  try {
    const ProcessGroup& world = ProcessGroup::world();
    if (words.at(0) == "alone") require(&world == &ProcessGroup::alone(), "alone");
    if (words.at(0) == "sums") sums(world);
    if (words.at(0) == "gradients") gradients(world);
    if (words.at(0) == "overlap") overlap(world);
    if (words.at(0) == "die") die(world, words.at(1), words.at(2));
    if (words.at(0) == "bench") bench(world);
    if (words.at(0) == "nccl") nccl(world, words.at(1));
    return 0;
  } catch (const rotary::Error& error) {
    std::fprintf(stderr, "error: %s: %s\n", rotary::name(error.code()), error.what());
    return error.code() == rotary::Code::PEER ? 3 : 1;
  }
}
