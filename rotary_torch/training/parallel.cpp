#include "rotary_torch/training/parallel.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#ifdef USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#else
#include <torch/csrc/distributed/c10d/Backend.hpp>
#endif

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "rotary_torch/op/refusal.h"

namespace rotary_torch {

using rotary::Code;
using Work = c10::intrusive_ptr<c10d::Work>;

// ---- the device ----------------------------------------------------------------------------------

namespace {

namespace fs = std::filesystem;

// The folder of the loaded libtorch_cpu.
fs::path torch_folder() {
  fs::path folder;
  dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void* found) {
        const fs::path path = library->dlpi_name;
        if (path.filename().string().rfind("libtorch_cpu.so", 0) != 0) return 0;
        *static_cast<fs::path*>(found) = path.parent_path();
        return 1;
      },
      &folder);
  return folder;
}

}  // namespace

c10::Device open_device(const std::string& operation, const std::string& word, int index) {
  const Refusal refuse{operation.c_str()};
  if (word == "cpu") return c10::kCPU;
  refuse.unless(word == "cuda", Code::DEVICE, "a device must be cpu or cuda but got '", word, "'");
  const auto refuse_gpu = [&refuse](const auto&... reason) {
    refuse(Code::DEVICE, "cuda must be usable but ", reason...);
  };
  const fs::path library = torch_folder() / "libtorch_cuda.so";
  std::error_code error;
  if (!fs::exists(library, error)) refuse_gpu("this torch is made for the CPU alone: there is no ", library.string());
  // Loading the library registers CUDA with torch; it stays loaded. This must happen before torch is asked for a GPU.
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* reason = dlerror();
    refuse_gpu("its library cannot be loaded: ", reason == nullptr ? "no reason given" : reason);
  }
  if (!at::globalContext().hasCUDA()) refuse_gpu("no GPU is visible to torch (see nvidia-smi)");
  const int devices = at::detail::getCUDAHooks().deviceCount();
  if (index >= devices) refuse_gpu("GPU number ", index, " is asked for and there are ", devices);
  at::globalContext().lazyInitDevice(c10::kCUDA);
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

// ---- the world -----------------------------------------------------------------------------------

struct ProcessGroup::Backends {
  c10::intrusive_ptr<c10d::Backend> gloo;
};

namespace {

constexpr Refusal refuse_world{"world"}, refuse_sum{"sum over ranks"}, refuse_average{"average gradients"};

// The call's result. torch's errors are PEER, with their first sentence.
template <class Call>
auto with_peers(int size, const Call& call) {
  std::string reason;
  try {
    return call();
  } catch (const rotary::Error&) {
    throw;
  } catch (const c10::Error& error) {
    reason = error.what_without_backtrace();
  } catch (const std::runtime_error& error) {
    reason = error.what();
  }
  reason = reason.substr(0, reason.find('\n'));
  if (const std::size_t source = reason.find("] "); reason.starts_with('[') && source != std::string::npos)
    reason.erase(0, source + 2);
  refuse_sum(Code::PEER, "all ", size,
             " processes must live to the end and answer but torch says: ", reason.substr(0, reason.find(". ")));
}

Work begun_sum(c10d::Backend& backend, std::vector<at::Tensor> tensors) {
  return with_peers(backend.getSize(), [&] { return backend.allreduce(tensors); });
}

// collective(tensors) on one dense tensor on the CPU, to its end.
template <class Collective>
void run_on_cpu(at::Tensor& values, int size, const Collective& collective) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> dense{values.detach().to(at::kCPU).contiguous()};
  with_peers(size, [&] { return collective(dense)->wait(); });
  if (!dense.front().is_alias_of(values)) values.copy_(dense.front());
}

// The number in an environment variable; without `otherwise` it must be set.
int number(const char* variable, int least, int most, std::optional<int> otherwise = {}) {
  const char* text = std::getenv(variable);
  if (text == nullptr && otherwise) return *otherwise;
  const std::string_view word = text == nullptr ? "" : text;
  int value = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (status != std::errc() || end != word.data() + word.size() || value < least || value > most) {
    refuse_world(Code::VALUE, variable, " must be a whole number from ", least, " to ", most, " but ",
                 text == nullptr ? "is not set" : "is '" + std::string(word) + "'");
  }
  return value;
}

#ifdef USE_C10D_GLOO

// Gloo writes to connections that may have closed without MSG_NOSIGNAL, and SIGPIPE would end the process without a
// word. The threads that are made while this lives inherit the blocked signal, so their writes return EPIPE.
class BrokenPipesBlocked {
 public:
  BrokenPipesBlocked() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~BrokenPipesBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BrokenPipesBlocked(const BrokenPipesBlocked&) = delete;
  BrokenPipesBlocked& operator=(const BrokenPipesBlocked&) = delete;

 private:
  sigset_t before_;
};

// Under torchrun the agent serves the store, once for all restarts of its processes; else rank 0 does.
c10::intrusive_ptr<c10d::Backend> gloo_of(int rank, int size, std::chrono::milliseconds timeout) {
  const char* address = std::getenv("MASTER_ADDR");
  refuse_world.unless(address != nullptr && *address != '\0', Code::VALUE,
                      "MASTER_ADDR must name the machine of rank 0 but is not set");
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const char* restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(number("MASTER_PORT", 1, 65535));
  options.isServer = rank == 0 && std::string_view(agent == nullptr ? "" : agent) != "True";
  options.timeout = timeout;
  const BrokenPipesBlocked blocked;
  const auto store =
      c10::make_intrusive<c10d::PrefixStore>(std::string("rotary/") + (restarts == nullptr ? "0" : restarts),
                                             c10::make_intrusive<c10d::TCPStore>(address, options));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size,
                                                     c10d::ProcessGroupGloo::Options::create_default(timeout));
}

#else

c10::intrusive_ptr<c10d::Backend> gloo_of(int, int, std::chrono::milliseconds) {
  refuse_world(Code::TORCH, "several processes need a build with Gloo's headers (libgloo-dev) but this one has none");
}

#endif

}  // namespace

const ProcessGroup& ProcessGroup::alone() noexcept {
  static const ProcessGroup group;
  return group;
}

const ProcessGroup& ProcessGroup::world() {
  constexpr int most = 1 << 20, torch_seconds = 30 * 60;
  const int size = number("WORLD_SIZE", 1, most, 1);
  if (size == 1) return alone();
  static ProcessGroup* group = nullptr;  // never destroyed: at exit torch may have ended what it needs
  if (group != nullptr) return *group;
  const int rank = number("RANK", 0, size - 1);
  const std::chrono::milliseconds timeout = std::chrono::seconds(number("ROTARY_PEER_TIMEOUT", 1, most, torch_seconds));
  auto made = std::make_unique<ProcessGroup>(ProcessGroup());
  made->rank_ = rank, made->size_ = size;
  made->local_size_ = number("LOCAL_WORLD_SIZE", 1, size, size);
  made->local_rank_ = number("LOCAL_RANK", 0, made->local_size_ - 1, rank % made->local_size_);
  made->backends_ = std::make_shared<Backends>();
  made->backends_->gloo = with_peers(size, [&] { return gloo_of(rank, size, timeout); });
  group = made.release();
  return *group;
}

void ProcessGroup::sum(at::Tensor& values) const {
  if (size_ == 1) return;
  const at::ScalarType type = values.scalar_type();
  refuse_sum.unless(type == at::kFloat || type == at::kDouble || type == at::kLong, Code::DTYPE,
                    "takes f32, f64 and int64 but got ", at::toString(type));
  run_on_cpu(values, size_, [this](auto& tensors) { return backends_->gloo->allreduce(tensors); });
}

void ProcessGroup::broadcast(at::Tensor& values, int from) const {
  if (size_ == 1) return;
  Refusal{"broadcast"}.unless(from >= 0 && from < size_, Code::SHAPE, "from is a rank below ", size_, " but got ",
                              from);
  c10d::BroadcastOptions options;
  options.rootRank = from;
  run_on_cpu(values, size_, [&](auto& tensors) { return backends_->gloo->broadcast(tensors, options); });
}

void ProcessGroup::barrier() const {
  at::Tensor nothing = at::zeros({1}, at::kLong);
  sum(nothing);
}

// ---- gradients -----------------------------------------------------------------------------------

namespace {

// Gradients of one element type, of parameters [first, end), one after the other from the last, on the CPU.
struct Bucket {
  at::Tensor flat;
  std::size_t first, end;
  Work sum = {};
};

// The place of a parameter's gradient.
struct Slot {
  at::Tensor part = {};  // of a bucket's flat, in the parameter's shape
  bool added = false;    // in this step
};

void check_same_shapes(const std::vector<at::Tensor>& parameters, const ProcessGroup& group) {
  std::ostringstream shapes;
  for (const at::Tensor& parameter : parameters) shapes << parameter.sizes() << parameter.scalar_type();
  const auto hash = static_cast<std::int64_t>(std::hash<std::string>()(shapes.str()) >> 1);
  at::Tensor first = at::full({1}, hash, at::kLong);
  group.broadcast(first, 0);
  at::Tensor differ = first.ne(hash).to(at::kLong);
  group.sum(differ);
  if (const auto ranks = differ.item<std::int64_t>(); ranks != 0) {
    refuse_average(Code::SHAPE, "every rank needs parameters of the same shapes but ", ranks, " of ", group.size(),
                   " ranks differ from rank 0");
  }
}

}  // namespace

struct GradientAverager::State {
  class Hook;

  State(std::vector<at::Tensor> given, const ProcessGroup& group, std::int64_t bucket_bytes);
  void ready(std::size_t parameter);
  void add(std::size_t parameter);
  void begin_full();

  std::vector<at::Tensor> parameters;
  c10d::Backend& backend;
  std::vector<Slot> slots;  // one per parameter
  std::vector<Bucket> buckets;
  std::mutex mutex;       // hooks run on one thread per device
  std::size_t begun = 0;  // the first buckets of this step, whose sums have begun
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

GradientAverager::State::State(std::vector<at::Tensor> given, const ProcessGroup& group, std::int64_t bucket_bytes)
    : parameters(std::move(given)), backend(*group.backends_->gloo), slots(parameters.size()) {
  check_same_shapes(parameters, group);
  for (at::Tensor& parameter : parameters) group.broadcast(parameter, 0);
  for (std::size_t end = parameters.size(); end > 0;) {
    const at::Tensor& last = parameters[end - 1];
    std::size_t first = end - 1;
    std::int64_t elements = last.numel();
    const auto fits = [&](const at::Tensor& next) {
      return next.scalar_type() == last.scalar_type() &&
             (elements + next.numel()) * static_cast<std::int64_t>(last.element_size()) <= bucket_bytes;
    };
    while (first > 0 && fits(parameters[first - 1])) elements += parameters[--first].numel();
    const at::Tensor flat = at::zeros({elements}, last.scalar_type());
    buckets.push_back({flat, first, end});
    for (std::int64_t offset = 0; end > first; offset += parameters[end].numel()) {
      --end;
      slots[end].part = flat.narrow(0, offset, parameters[end].numel()).view(parameters[end].sizes());
    }
  }
}

void GradientAverager::State::ready(std::size_t parameter) {
  const std::lock_guard lock(mutex);
  if (!armed) return;
  refuse_average.unless(!slots[parameter].added, Code::INTERNAL,
                        "one backward pass belongs between begin and finish but a second ran");
  add(parameter);
  begin_full();
}

void GradientAverager::State::add(std::size_t parameter) {
  const at::NoGradGuard no_grad;
  Slot& slot = slots[parameter];
  const at::Tensor& gradient = parameters[parameter].grad();
  gradient.defined() ? slot.part.copy_(gradient) : slot.part.zero_();
  slot.added = true;
}

void GradientAverager::State::begin_full() {
  for (; begun < buckets.size(); ++begun) {
    Bucket& next = buckets[begun];
    for (std::size_t p = next.first; p < next.end; ++p) {
      if (!slots[p].added) return;
    }
    next.sum = begun_sum(backend, {next.flat});
  }
}

GradientAverager::GradientAverager(std::vector<at::Tensor> parameters, const ProcessGroup& group,
                                   std::int64_t bucket_bytes) {
  std::erase_if(parameters, [](const at::Tensor& parameter) { return !parameter.requires_grad(); });
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
  const std::lock_guard lock(state_->mutex);
  for (Slot& slot : state_->slots) slot.added = false;
  state_->begun = 0;
  state_->armed = true;
}

void GradientAverager::finish() {
  if (!state_) return;
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.armed = false;
  for (std::size_t p = 0; p < state.parameters.size(); ++p) {
    if (!state.slots[p].added) state.add(p);
  }
  state.begin_full();
  const at::NoGradGuard no_grad;
  for (Bucket& bucket : state.buckets) {
    with_peers(state.backend.getSize(), [&] { return bucket.sum->wait(); });
    bucket.flat.div_(state.backend.getSize());
  }
  for (std::size_t p = 0; p < state.parameters.size(); ++p) {
    at::Tensor& gradient = state.parameters[p].mutable_grad();
    gradient.defined() ? void(gradient.copy_(state.slots[p].part))
                       : void(gradient = state.slots[p].part.to(state.parameters[p].device(), false, true));
  }
}

std::int64_t GradientAverager::begun() const noexcept { return state_ ? static_cast<std::int64_t>(state_->begun) : 0; }

}  // namespace rotary_torch
