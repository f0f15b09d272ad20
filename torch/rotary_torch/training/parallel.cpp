#include "rotary_torch/training/parallel.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#ifdef USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif

#include <dlfcn.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "rotary_torch/op/refusal.h"

namespace rotary_torch {

using rotary::Code;

namespace {

constexpr Refusal refuse{"train"}, refuse_world{"world"};

std::string variable(const char* name, const char* otherwise = "") {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : text;
}

// The number in an environment variable; without `otherwise` it must be set.
int number(const char* name, int least, int most, std::optional<int> otherwise = {}) {
  const std::string word = variable(name, otherwise ? std::to_string(*otherwise).c_str() : "");
  int value = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  refuse_world.unless(status == std::errc() && end == word.data() + word.size() && value >= least && value <= most,
                      Code::VALUE, name, " must be a whole number from ", least, " to ", most, " but is '", word, "'");
  return value;
}

// Calls what waits for the other ranks. Errors of torch become PEER, with their first line.
template <class Function>
auto with_peers(int size, const Function& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    const std::string reason = error.what();
    refuse(Code::PEER, "all ", size,
           " processes must live to the end and answer but torch says: ", reason.substr(0, reason.find('\n')));
  }
}

#ifdef USE_C10D_GLOO
// Under torchrun the agent serves the store, once for all restarts of its processes; else rank 0 does.
std::function<void(at::Tensor&)> all_reduce_of(int rank, int size, std::chrono::milliseconds timeout) {
  const std::string address = variable("MASTER_ADDR");
  refuse_world.unless(!address.empty(), Code::VALUE, "MASTER_ADDR must name the machine of rank 0 but is not set");
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(number("MASTER_PORT", 1, 65535));
  options.isServer = rank == 0 && variable("TORCHELASTIC_USE_AGENT_STORE") != "True";
  options.timeout = timeout;
  std::signal(SIGPIPE, SIG_IGN);  // Gloo writes to connections that a lost rank has closed
  return with_peers(size, [&]() -> std::function<void(at::Tensor&)> {
    const auto store = c10::make_intrusive<c10d::PrefixStore>("rotary/" + variable("TORCHELASTIC_RESTART_COUNT", "0"),
                                                              c10::make_intrusive<c10d::TCPStore>(address, options));
    const auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(
        store, rank, size, c10d::ProcessGroupGloo::Options::create_default(timeout));
    return [gloo, size](at::Tensor& values) {
      std::vector<at::Tensor> tensors{values};
      with_peers(size, [&] { return gloo->allreduce(tensors)->wait(); });
    };
  });
}
#else
std::function<void(at::Tensor&)> all_reduce_of(int, int, std::chrono::milliseconds) {
  refuse_world(Code::TORCH, "several processes need a build with Gloo's headers (libgloo-dev) but this one has none");
}
#endif

}  // namespace

c10::Device open_device(const std::string& word, int index) {
  if (word == "cpu") return c10::kCPU;
  refuse.unless(word == "cuda", Code::DEVICE, "a device must be cpu or cuda but got '", word, "'");
  // Loading the library registers CUDA with torch; it stays loaded. This must happen before torch is asked for a GPU.
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr)
    refuse(Code::DEVICE, "cuda must be usable but torch's library for it cannot be loaded: ", dlerror());
  const int devices = at::globalContext().hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
  refuse.unless(index < devices, Code::DEVICE, "cuda must be usable but torch sees ", devices,
                " GPUs (see nvidia-smi) and needs number ", index);
  at::globalContext().lazyInitDevice(c10::kCUDA);
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

const ProcessGroup& ProcessGroup::alone() noexcept {
  static const ProcessGroup group;
  return group;
}

const ProcessGroup& ProcessGroup::world() {
  constexpr int most = 1 << 20;
  if (number("WORLD_SIZE", 1, most, 1) == 1) return alone();
  // Never destroyed: at exit torch may have ended what it needs.
  static const ProcessGroup& group = *[] {
    auto* const created = new ProcessGroup;
    created->size_ = number("WORLD_SIZE", 1, most);
    created->rank_ = number("RANK", 0, created->size_ - 1);
    created->local_size_ = number("LOCAL_WORLD_SIZE", 1, created->size_, created->size_);
    created->local_rank_ = number("LOCAL_RANK", 0, created->local_size_ - 1, created->rank_ % created->local_size_);
    const int seconds = number("ROTARY_PEER_TIMEOUT", 1, most, 30 * 60);  // torch's own
    created->all_reduce_ = all_reduce_of(created->rank_, created->size_, std::chrono::seconds(seconds));
    return created;
  }();
  return group;
}

void ProcessGroup::sum(const std::vector<at::Tensor>& tensors, int divisor) const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(tensor.detach().to(at::kCPU).flatten());
  at::Tensor all = at::cat(parts);
  all_reduce_(all);
  all.div_(divisor);
  std::int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.detach().copy_(all.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
}

void ProcessGroup::average(const std::vector<at::Tensor>& tensors) const {
  if (size_ > 1) sum(tensors, size_);
}

void ProcessGroup::copy_first(const std::vector<at::Tensor>& tensors) const {
  for (const at::Tensor& tensor : tensors) {
    if (rank_ > 0) tensor.detach().zero_();
  }
  if (size_ > 1) sum(tensors, 1);
}

void ProcessGroup::wait_for_all() const { average({at::zeros({1})}); }

}  // namespace rotary_torch
