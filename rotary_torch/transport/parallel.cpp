// The group of one process, the choice of a world, and the averaging of gradients for every transport.
#include "rotary_torch/transport/parallel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "rotary/error.h"
#include "rotary_torch/transport/parts.h"

namespace rotary_torch {

using rotary::Code;
using rotary::Error;

namespace parallel {

std::atomic<bool> interrupted{false};

namespace {

int number(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

class Alone final : public ProcessGroup {
  class Done final : public Pending {
    void wait() override {}
  };

 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  const char* transport() const noexcept override { return "none"; }
  void sum(at::Tensor& /*values*/) const override {}
  void broadcast(at::Tensor& /*values*/, int /*from*/) const override {}
  void barrier() const override {}
  std::unique_ptr<Pending> begin_sum(at::Tensor& /*values*/) const override { return std::make_unique<Done>(); }
};

}  // namespace

int launched_processes() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const int processes = number(variable); processes > 0) return processes;
  }
  const int tasks = std::getenv("SLURM_PROCID") != nullptr ? number("SLURM_STEP_NUM_TASKS") : 0;
  if (tasks > 1 && std::getenv("PMIX_RANK") == nullptr) {
    throw Error(Code::MPI,
                "[world] the tasks of srun find each other by PMIx (srun --mpi=pmix) but PMIX_RANK is not set in " +
                    std::to_string(tasks) + " tasks");
  }
  return tasks > 1 ? tasks : 1;
}

}  // namespace parallel

void ProcessGroup::interrupt() noexcept { parallel::interrupted = true; }

const ProcessGroup& ProcessGroup::alone() noexcept {
  static const parallel::Alone group;
  return group;
}

const ProcessGroup& ProcessGroup::world(at::Device device) {
  const int processes = parallel::launched_processes();
  if (processes == 1) return alone();
  const ProcessGroup& host = parallel::mpi_world(processes);
  if (device.is_cpu()) return host;
  if (!device.has_index()) device.set_index(static_cast<at::DeviceIndex>(host.local_rank()));
  // Never destroyed: at exit torch may have destroyed what their streams need.
  static std::map<at::DeviceIndex, ProcessGroup*> groups;
  ProcessGroup*& group = groups[device.index()];
  if (group == nullptr) group = parallel::nccl_group(host, device, parallel::side_stream(device)).release();
  return *group;
}

// ---- gradients ----

namespace {

struct Member {
  std::size_t parameter = 0;
  std::int64_t offset = 0;
  bool added = false;  // in this step
};

// Gradients of one element type on one device, one after the other; then, for each member, the number of ranks that
// have a gradient.
struct Bucket {
  at::Tensor flat;
  std::vector<Member> members;
  std::int64_t elements = 0;
  std::size_t missing = 0;
  std::unique_ptr<ProcessGroup::Pending> sum;

  at::Tensor part(const Member& member, const at::Tensor& parameter) const {
    return flat.narrow(0, member.offset, parameter.numel()).view(parameter.sizes());
  }
  at::Tensor givers(std::size_t member) const {
    return flat.narrow(0, elements + static_cast<std::int64_t>(member), 1);
  }
};

// 16-bit gradients are summed in f32.
at::ScalarType summed_type(const at::Tensor& parameter) {
  return parameter.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace

struct GradientAverager::State {
  class Hook;

  State(std::vector<at::Tensor> given, const ProcessGroup& processes, std::int64_t bucket_bytes)
      : parameters(std::move(given)), group(processes), places(parameters.size()) {
    check_same_shapes();
    for (std::size_t left = parameters.size(); left > 0; --left) place(left - 1, bucket_bytes);
    for (Bucket& bucket : buckets) {
      const at::Tensor& first = parameters[bucket.members.front().parameter];
      const std::int64_t length = bucket.elements + static_cast<std::int64_t>(bucket.members.size());
      bucket.flat = at::zeros({length}, first.options().dtype(summed_type(first)).requires_grad(false));
    }
  }

  void check_same_shapes() const;
  void place(std::size_t parameter, std::int64_t bucket_bytes);
  void ready(std::size_t parameter);
  void add(Bucket& bucket, std::size_t member);
  void launch_ready();
  void finish(Bucket& bucket);

  std::vector<at::Tensor> parameters;
  const ProcessGroup& group;
  std::vector<Bucket> buckets;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // of each parameter: bucket, member
  std::mutex mutex;                                         // hooks run on one thread per device
  std::size_t launched = 0;                                 // the first `launched` buckets of this step have begun
  bool armed = false;
};

class GradientAverager::State::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(State& state, std::size_t parameter) : state_(state), parameter_(parameter) {}
  void operator()(const at::Tensor& /*parameter*/) override { state_.ready(parameter_); }

 private:
  State& state_;
  std::size_t parameter_;
};

// Compares a hash of the lists of sizes (FNV-1a) with that of rank 0.
void GradientAverager::State::check_same_shapes() const {
  std::uint64_t hash = 14695981039346656037u;
  for (const at::Tensor& parameter : parameters) {
    for (const std::int64_t size : parameter.sizes()) hash = (hash ^ static_cast<std::uint64_t>(size)) * 1099511628211u;
    hash = (hash ^ static_cast<std::uint64_t>(parameter.scalar_type()) ^ 0xffu) * 1099511628211u;
  }
  at::Tensor seen = at::zeros({1}, at::TensorOptions(at::kLong).device(parameters.front().device()));
  seen.fill_(static_cast<std::int64_t>(hash >> 1));
  at::Tensor others = seen.clone();
  group.broadcast(others, 0);
  at::Tensor differ = others.ne(seen).to(at::kLong);
  group.sum(differ);
  if (const auto ranks = differ.item<std::int64_t>(); ranks != 0) {
    throw Error(Code::SHAPE, "[average gradients] every rank needs parameters of the same shapes but " +
                                 std::to_string(ranks) + " of " + std::to_string(group.size()) +
                                 " ranks differ from rank 0");
  }
}

void GradientAverager::State::place(std::size_t index, std::int64_t bucket_bytes) {
  const at::Tensor& parameter = parameters[index];
  const auto element_bytes = static_cast<std::int64_t>(at::elementSize(summed_type(parameter)));
  const auto fits = [&](const Bucket& bucket) {
    const at::Tensor& other = parameters[bucket.members.front().parameter];
    return other.device() == parameter.device() && summed_type(other) == summed_type(parameter) &&
           (bucket.elements + parameter.numel()) * element_bytes <= bucket_bytes;
  };
  if (buckets.empty() || !fits(buckets.back())) buckets.emplace_back();
  Bucket& bucket = buckets.back();
  places[index] = {buckets.size() - 1, bucket.members.size()};
  bucket.members.push_back({index, bucket.elements});
  bucket.elements += parameter.numel();
}

void GradientAverager::State::ready(std::size_t parameter) {
  const std::lock_guard lock(mutex);
  if (!armed) return;
  group.check();
  const auto [bucket, member] = places[parameter];
  if (buckets[bucket].members[member].added) {
    throw Error(Code::INTERNAL,
                "[average gradients] one backward pass belongs between begin and finish but a second ran");
  }
  add(buckets[bucket], member);
  --buckets[bucket].missing;
  launch_ready();
}

void GradientAverager::State::add(Bucket& bucket, std::size_t member) {
  const at::NoGradGuard no_grad;
  const at::Tensor& parameter = parameters[bucket.members[member].parameter];
  const bool has = parameter.grad().defined();
  at::Tensor part = bucket.part(bucket.members[member], parameter);
  if (has) {
    part.copy_(parameter.grad());
  } else {
    part.zero_();
  }
  bucket.givers(member).fill_(has ? 1 : 0);
  bucket.members[member].added = true;
}

void GradientAverager::State::launch_ready() {
  for (; launched < buckets.size() && buckets[launched].missing == 0; ++launched) {
    buckets[launched].sum = group.begin_sum(buckets[launched].flat);
  }
}

void GradientAverager::State::finish(Bucket& bucket) {
  const at::NoGradGuard no_grad;
  bucket.sum->wait();
  bucket.sum.reset();
  bucket.flat.narrow(0, 0, bucket.elements).div_(group.size());
  for (std::size_t m = 0; m < bucket.members.size(); ++m) {
    at::Tensor& parameter = parameters[bucket.members[m].parameter];
    const at::Tensor mean = bucket.part(bucket.members[m], parameter);
    if (parameter.grad().defined()) {
      parameter.mutable_grad().copy_(mean);
    } else if (bucket.givers(m).item<double>() > 0) {
      parameter.mutable_grad() = mean.to(parameter.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    }
  }
}

GradientAverager::GradientAverager(std::vector<at::Tensor> parameters, const ProcessGroup& group,
                                   std::int64_t bucket_bytes) {
  std::set<const void*> seen;  // a shared parameter counts once
  std::erase_if(parameters, [&](const at::Tensor& parameter) {
    return !parameter.requires_grad() || !seen.insert(parameter.unsafeGetTensorImpl()).second;
  });
  if (group.size() == 1 || parameters.empty()) return;
  state_ = std::make_unique<State>(std::move(parameters), group, bucket_bytes);
  for (std::size_t p = 0; p < state_->parameters.size(); ++p) {
    torch::autograd::impl::set_post_acc_grad_hooks(state_->parameters[p], std::make_unique<State::Hook>(*state_, p));
  }
}

GradientAverager::~GradientAverager() {
  if (!state_) return;
  for (const at::Tensor& parameter : state_->parameters) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }
}

void GradientAverager::begin() {
  if (!state_) return;
  state_->group.check();
  const std::lock_guard lock(state_->mutex);
  if (state_->launched != 0) {
    throw Error(Code::INTERNAL,
                "[average gradients] finish must end every step that began its sums but a step was given up");
  }
  for (Bucket& bucket : state_->buckets) {
    bucket.missing = bucket.members.size();
    for (Member& member : bucket.members) member.added = false;
  }
  state_->armed = true;
}

void GradientAverager::finish() {
  if (!state_) return;
  const std::lock_guard lock(state_->mutex);
  for (Bucket& bucket : state_->buckets) {
    for (std::size_t m = 0; m < bucket.members.size(); ++m) {
      if (!bucket.members[m].added) state_->add(bucket, m);
    }
    bucket.missing = 0;
  }
  state_->launch_ready();
  for (Bucket& bucket : state_->buckets) state_->finish(bucket);
  state_->launched = 0;
  state_->armed = false;
}

std::int64_t GradientAverager::bytes_per_step() const noexcept {
  std::int64_t bytes = 0;
  if (state_) {
    for (const Bucket& bucket : state_->buckets) bytes += static_cast<std::int64_t>(bucket.flat.nbytes());
  }
  return bytes;
}

}  // namespace rotary_torch
