// One rank of a real world, driven by test_world.py: world_check alone|sums|gradients|overlap|losses FILE|die FOLDER
// HOW. Exits 0 where all is right, 1 with a sentence where not, 3 where a rank was lost and was noticed as it should
// be.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/variable.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rotary/error.h"
#include "rotary_torch/training/trainer.h"

namespace {

using rotary_torch::GradientAverager;
using rotary_torch::ProcessGroup;

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

void require(bool holds, const std::string& what) {
  if (!holds) throw rotary::Error(rotary::Code::CHECK, what);
}

template <class Call>
void require_refusal(rotary::Code code, const Call& call) {
  try {
    call();
  } catch (const rotary::Error& error) {
    return require(error.code() == code, std::string("refused, but with: ") + error.what());
  }
  require(false, std::string("must be refused as ") + rotary::name(code));
}

// Every rank sees rank 0's bits.
void require_same_bits(const ProcessGroup& world, const at::Tensor& values, const std::string& what) {
  at::Tensor first = values.clone();
  world.broadcast(first, 0);
  require(first.equal(values), what + ": ranks differ in bits");
}

// A write to a lost rank must fail, not end the process: SIGPIPE (bit 12 of the mask) is blocked in torch's threads and
// left to the caller in its own.
void require_broken_pipes_blocked() {
  int blocked = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    std::string word;
    while (status >> word && word != "SigBlk:") continue;
    status >> word;
    const bool is_blocked = (std::stoull(word, nullptr, 16) >> (SIGPIPE - 1) & 1) != 0;
    require(is_blocked == (task.path().filename() != std::to_string(getpid())), "SIGPIPE in " + task.path().string());
    blocked += is_blocked;
  }
  require(blocked > 0, "Gloo has threads");
}

void sums(const ProcessGroup& world) {
  require_broken_pipes_blocked();
  const int rank = world.rank(), size = world.size();
  require(world.local_size() == size && world.local_rank() == rank, "world");
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
  require_refusal(rotary::Code::DTYPE, [&] { world.sum(half); });
  require_refusal(rotary::Code::SHAPE, [&] { world.broadcast(half, size); });
  world.barrier();
}

struct Net {
  std::vector<at::Tensor> parameters;  // weight, bias, weight, ...
  at::Tensor loss(const at::Tensor& input, std::size_t unused = 0) const {
    at::Tensor x = input;
    for (std::size_t i = 0; i < parameters.size() - unused; i += 2)
      x = at::addmm(parameters[i + 1], x, parameters[i]).tanh();
    return x.square().mean();
  }
};

Net net(int layers, std::int64_t width) {
  Net made;
  for (int i = 0; i < layers; ++i) {
    const at::Tensor weight = at::arange(width * width, at::kFloat).mul(0.71 + i).sin().div(std::sqrt(width));
    made.parameters.push_back(weight.view({width, width}).set_requires_grad(true));
    made.parameters.push_back(at::arange(width, at::kFloat).mul(0.3 + i).cos().set_requires_grad(true));
  }
  return made;
}

void require_near(const at::Tensor& a, const at::Tensor& b, const std::string& what) {
  const double off = a.sub(b).abs().max().item<double>() / std::max(1e-6, b.abs().max().item<double>());
  require(off < 2e-6, what + " is off by " + std::to_string(off));
}

// The mean of the ranks' gradients is the gradient of the joint batch.
void gradients(const ProcessGroup& world) {
  const int rank = world.rank(), size = world.size();
  const std::int64_t rows = 8;
  const at::Tensor joint = at::arange(rows * size * 32, at::kFloat).mul(0.13).sin().view({rows * size, 32});
  const at::Tensor mine = joint.narrow(0, rank * rows, rows);
  const Net reference = net(5, 32);
  reference.loss(joint).backward();
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{5000}, std::int64_t{1} << 20}) {
    const Net model = net(5, 32);
    model.parameters[2].detach().add_(rank);  // rank 0's count
    GradientAverager averager(model.parameters, world, bytes);
    for (int step = 0; step < 3; ++step) {
      for (const at::Tensor& p : model.parameters) p.mutable_grad() = at::Tensor();
      averager.begin();
      model.loss(mine).backward();
      averager.finish();
      for (std::size_t p = 0; p < model.parameters.size(); ++p) {
        require_near(model.parameters[p].grad(), reference.parameters[p].grad(), "gradient " + std::to_string(p));
        require_same_bits(world, model.parameters[p].grad(), "gradient");
      }
    }
    averager.begin();
    model.loss(mine).backward();  // on top of the last step's mean
    averager.finish();
    require_near(model.parameters[0].grad(), reference.parameters[0].grad().mul(2), "an accumulated gradient");
    averager.begin();
    model.loss(mine).backward();
    require_refusal(rotary::Code::INTERNAL, [&] { model.loss(mine).backward(); });
    averager.finish();
  }
  // The last layer is used on the last rank only: elsewhere its gradient counts as zero.
  const Net model = net(5, 32);
  {
    GradientAverager averager(model.parameters, world, 3000);
    averager.begin();
    model.loss(mine, 2).backward();
    averager.finish();
    require(model.parameters[8].grad().equal(at::zeros({32, 32})), "a layer used on no rank has a gradient of zero");
  }
  for (const at::Tensor& p : model.parameters) {
    require(torch::autograd::impl::post_acc_grad_hooks(p) == nullptr, "no hook is left behind");
    p.mutable_grad() = at::Tensor();
  }
  GradientAverager averager(model.parameters, world, 3000);
  averager.begin();
  model.loss(mine, rank == size - 1 ? 0 : 2).backward();
  const at::Tensor own = model.parameters[8].grad();
  at::Tensor expected = own.defined() ? own.clone() : at::zeros({32, 32});
  averager.finish();
  world.sum(expected);
  require_near(model.parameters[8].grad(), expected.div(size), "a layer used on one rank");
  require_refusal(rotary::Code::SHAPE, [&] { GradientAverager other(net(rank == 1 ? 4 : 5, 32).parameters, world); });
  world.barrier();
}

void overlap(const ProcessGroup& world) {
  const Net model = net(6, 64);
  GradientAverager averager(model.parameters, world, 64 * 65 * 4);
  std::int64_t begun = 0;
  model.parameters[0].register_hook([&](const at::Tensor& gradient) {  // the last of the pass
    begun = averager.begun();
    return gradient;
  });
  averager.begin();
  model.loss(at::ones({4, 64})).backward();
  averager.finish();
  require(begun == 5, "five sums of six begin while the backward pass runs but " + std::to_string(begun) + " did");
  world.barrier();
}

// The losses of an f64 model, for the law that they do not depend on the number of processes.
void losses(const ProcessGroup& world, const std::string& file) {
  at::manual_seed(3);
  rotary_torch::Preset preset = rotary_torch::preset("smoke");
  preset.training.evaluate_batches = 3;
  rotary_torch::Corpus corpus = rotary_torch::corpus(rotary_torch::smoke_text(), preset.training.block);
  preset.model.vocabulary = corpus.vocabulary.size();
  rotary_torch::Decoder model(preset.model);
  model->initialise();
  model->to(at::kDouble);
  rotary_torch::Trainer trainer(model, corpus, preset.training, at::kCPU, world);
  std::string text;
  const auto add = [&text](double value) {
    char word[32];
    std::snprintf(word, sizeof word, "%.17g\n", value);
    text += word;
  };
  for (int step = 0; step < 30; ++step) add(trainer.step().train_loss);
  add(*trainer.evaluate());
  if (world.rank() == 0) std::ofstream(file) << text;
  world.barrier();
}

void save(const std::string& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder + "/" + name) << text << "\n";
}

// The last rank (or rank 0) ends in the middle of the training; the others must notice and say so.
void die(const ProcessGroup& world, const std::string& folder, const std::string& how) {
  const std::string own = std::to_string(world.rank());
  save(folder, "pid" + own, std::to_string(getpid()));
  const Net model = net(4, 64);
  GradientAverager averager(model.parameters, world);
  const int victim = how == "kill0" ? 0 : world.size() - 1;
  try {
    for (int step = 0; step < 200; ++step) {
      for (const at::Tensor& p : model.parameters) p.mutable_grad() = at::Tensor();
      averager.begin();
      const at::Tensor loss = model.loss(at::ones({4, 64}));
      if (step == 20 && world.rank() == victim) {
        save(folder, "died", std::to_string(now()));
        if (how == "kill" || how == "kill0") kill(getpid(), SIGKILL);
        if (how == "throw") throw rotary::Error(rotary::Code::FILE, "[check] the disk is full");
        if (how == "stop") kill(getpid(), SIGSTOP);
      }
      loss.backward();
      averager.finish();
    }
  } catch (const rotary::Error& error) {
    if (error.code() == rotary::Code::PEER) {
      save(folder, "noticed" + own, std::to_string(now()));
      // The next step ends with the same error, in the hook of the backward pass or behind it.
      require_refusal(rotary::Code::PEER, [&] {
        averager.begin();
        model.loss(at::ones({4, 64})).backward();
        averager.finish();
      });
    }
    throw;
  }
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
    if (words.at(0) == "losses") losses(world, words.at(1));
    if (words.at(0) == "die") die(world, words.at(1), words.at(2));
    return 0;
  } catch (const rotary::Error& error) {
    std::fprintf(stderr, "error: %s: %s\n", rotary::name(error.code()), error.what());
    return error.code() == rotary::Code::PEER ? 3 : 1;
  }
}
