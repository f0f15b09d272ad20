// ProcessGroup for CUDA tensors by NCCL, which is loaded when first needed and uses its own stream.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "rotary/error.h"
#include "rotary_torch/transport/parts.h"

namespace rotary_torch::parallel {
namespace {

using rotary::Code;
using rotary::Error;

// ---- the library's C interface, from nccl.h of version 2 ----

struct UniqueId {
  char bytes[128];
};
struct CommOpaque;
using Comm = CommOpaque*;
using Stream = void*;  // cudaStream_t
enum Result : int { success = 0, in_progress = 7 };
enum Type : int { int8 = 0, uint8 = 1, int64 = 4, float16 = 6, float32 = 7, float64 = 8, bfloat16 = 9 };
enum Operation : int { add = 0 };

struct Nccl {
  Result (*get_unique_id)(UniqueId*);
  Result (*comm_init_rank)(Comm*, int ranks, UniqueId, int rank);
  Result (*comm_abort)(Comm);
  Result (*comm_get_async_error)(Comm, Result*);
  Result (*all_reduce)(const void*, void*, std::size_t, Type, Operation, Comm, Stream);
  Result (*broadcast)(const void*, void*, std::size_t, Type, int root, Comm, Stream);
  const char* (*get_error_string)(Result);
  const char* (*get_last_error)(Comm);
};

template <class Function>
void find(void* library, const std::string& file, const char* name, Function& function) {
  void* address = dlsym(library, name);
  if (address == nullptr) {
    throw Error(Code::NCCL, "[world] NCCL 2.13 or newer is needed but " + file + " has no " + name);
  }
  static_assert(sizeof(function) == sizeof(address));
  std::memcpy(&function, &address, sizeof(address));
}

Nccl load(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays loaded
  if (library == nullptr) {
    throw Error(
        Code::NCCL,
        std::string("[world] several processes with CUDA tensors need NCCL but it cannot be loaded: ") + dlerror());
  }
  Nccl nccl{};
  find(library, file, "ncclGetUniqueId", nccl.get_unique_id);
  find(library, file, "ncclCommInitRank", nccl.comm_init_rank);
  find(library, file, "ncclCommAbort", nccl.comm_abort);
  find(library, file, "ncclCommGetAsyncError", nccl.comm_get_async_error);
  find(library, file, "ncclAllReduce", nccl.all_reduce);
  find(library, file, "ncclBroadcast", nccl.broadcast);
  find(library, file, "ncclGetErrorString", nccl.get_error_string);
  find(library, file, "ncclGetLastError", nccl.get_last_error);
  return nccl;
}

Type nccl_type(const at::Tensor& values) {
  switch (values.scalar_type()) {
    case at::kFloat:
      return float32;
    case at::kDouble:
      return float64;
    case at::kLong:
      return int64;
    default:
      throw Error(Code::DTYPE, std::string("[sum over ranks] takes f32, f64 and int64 but got ") +
                                   at::toString(values.scalar_type()));
  }
}

class NcclGroup final : public ProcessGroup {
 public:
  NcclGroup(const ProcessGroup& host, at::Device device, std::unique_ptr<SideStream> stream, const std::string& library)
      : host_(host), device_(device), stream_(std::move(stream)), nccl_(load(library)) {
    join();
  }
  // The communicator is never destroyed: ncclCommDestroy waits for the other ranks.

  int rank() const noexcept override { return host_.rank(); }
  int size() const noexcept override { return host_.size(); }
  const char* transport() const noexcept override { return "nccl"; }
  int local_rank() const noexcept override { return host_.local_rank(); }
  int local_size() const noexcept override { return host_.local_size(); }
  void check() const override { host_.check(); }
  int writer() const noexcept override { return host_.writer(); }
  void barrier() const override { host_.barrier(); }

  void sum(at::Tensor& values) const override { begin_sum(values)->wait(); }
  std::unique_ptr<Pending> begin_sum(at::Tensor& values) const override {
    if (values.is_cpu() && !device_.is_cpu()) return host_.begin_sum(values);
    const Type type = nccl_type(values);
    return enqueue("ncclAllReduce", values, [&](const at::Tensor& block, Stream stream) {
      return nccl_.all_reduce(block.data_ptr(), block.data_ptr(), static_cast<std::size_t>(block.numel()), type, add,
                              comm_, stream);
    });
  }
  void broadcast(at::Tensor& values, int from) const override {
    if (values.is_cpu() && !device_.is_cpu()) return host_.broadcast(values, from);
    enqueue("ncclBroadcast", values, [&](const at::Tensor& block, Stream stream) {
      return nccl_.broadcast(block.data_ptr(), block.data_ptr(), block.nbytes(), uint8, from, comm_, stream);
    })->wait();
  }

 private:
  class Begun final : public Pending {
   public:
    Begun(const NcclGroup& group, std::unique_ptr<SideStream::Mark> mark, at::Tensor block, at::Tensor values)
        : group_(group), mark_(std::move(mark)), block_(std::move(block)), values_(std::move(values)) {}
    void wait() override {
      group_.wait(*mark_);
      if (!block_.is_same(values_)) values_.copy_(block_);
    }

   private:
    const NcclGroup& group_;
    std::unique_ptr<SideStream::Mark> mark_;
    at::Tensor block_, values_;
  };

  void join();
  void require(Result result, const char* call) const;
  void wait(SideStream::Mark& mark) const;
  template <class Call>
  std::unique_ptr<Pending> enqueue(const char* name, const at::Tensor& given, const Call& call) const;

  const ProcessGroup& host_;
  at::Device device_;
  std::unique_ptr<SideStream> stream_;
  Nccl nccl_;
  mutable Comm comm_ = nullptr;  // null again after an abort
};

// Rank 0 makes the id, the host group broadcasts it.
void NcclGroup::join() {
  const c10::OptionalDeviceGuard on_device(device_.is_cpu() ? std::nullopt : std::optional<at::Device>(device_));
  UniqueId id{};
  at::Tensor status = at::zeros({1}, at::kLong);  // whether rank 0 has an id, so that the others do not wait in vain
  Result made = success;
  if (rank() == 0) {
    made = nccl_.get_unique_id(&id);
    status.fill_(static_cast<int>(made));
  }
  host_.broadcast(status, 0);
  require(static_cast<Result>(status.item<std::int64_t>()), "ncclGetUniqueId");
  at::Tensor bytes = at::zeros({static_cast<std::int64_t>(sizeof id)}, at::kByte);
  std::memcpy(bytes.data_ptr(), &id, sizeof id);
  host_.broadcast(bytes, 0);
  std::memcpy(&id, bytes.data_ptr(), sizeof id);
  require(nccl_.comm_init_rank(&comm_, size(), id, rank()), "ncclCommInitRank");
}

void NcclGroup::require(Result result, const char* call) const {
  if (result == success || result == in_progress) return;
  const char* detail = nccl_.get_last_error(comm_);
  throw Error(Code::NCCL,
              std::string("[world] ") + call + " must succeed but rank " + std::to_string(rank()) + " of " +
                  std::to_string(size()) + " got: " + nccl_.get_error_string(result) +
                  (detail != nullptr && *detail != '\0' ? std::string(" (") + detail + ")" : std::string()));
}

template <class Call>
std::unique_ptr<ProcessGroup::Pending> NcclGroup::enqueue(const char* name, const at::Tensor& given,
                                                          const Call& call) const {
  host_.check();
  if (comm_ == nullptr) throw Error(Code::PEER, "[sum over ranks] the group has ended but another sum was begun");
  if (given.device() != device_) {
    throw Error(Code::DEVICE,
                "[sum over ranks] tensors of this group are on " + device_.str() + " but got " + given.device().str());
  }
  const at::NoGradGuard no_grad;
  const c10::OptionalDeviceGuard on_device(device_.is_cpu() ? std::nullopt : std::optional<at::Device>(device_));
  const at::Tensor values = given.detach();
  const at::Tensor block = values.is_contiguous() ? values : values.contiguous();
  require(call(block, stream_->after_current()), name);
  return std::make_unique<Begun>(*this, stream_->mark(), block, values);
}

// The caller's thread waits instead of the stream: a kernel of NCCL whose peer is lost never ends, and only a thread
// that is not blocked can notice that and abort it.
void NcclGroup::wait(SideStream::Mark& mark) const {
  try {
    while (!mark.done()) {
      host_.check();
      Result failed = success;
      nccl_.comm_get_async_error(comm_, &failed);
      if (failed != success && failed != in_progress) {
        throw Error(Code::PEER, std::string("[sum over ranks] all processes must live to the end but NCCL says: ") +
                                    nccl_.get_error_string(failed));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  } catch (const Error&) {
    if (comm_ != nullptr) nccl_.comm_abort(std::exchange(comm_, nullptr));
    throw;
  }
}

// ---- torch's streams, for any device ----

class TorchSideStream final : public SideStream {
 public:
  explicit TorchSideStream(at::Device device)
      : device_(device),
        guard_(device.type()),
        side_(guard_.getStreamFromGlobalPool(device, /*isHighPriority=*/true)) {}

  void* after_current() override {
    c10::Event reached(device_.type());
    reached.record(guard_.getStream(device_));
    reached.block(side_);
    return native(side_);
  }
  std::unique_ptr<Mark> mark() override {
    auto mark = std::make_unique<TorchMark>(device_.type());
    mark->event.record(side_);
    return mark;
  }

 private:
  struct TorchMark final : Mark {
    explicit TorchMark(at::DeviceType type) : event(type) {}
    bool done() override { return event.query(); }
    c10::Event event;
  };

  template <class AnyStream>
  static void* native(const AnyStream& stream) {
    if constexpr (requires { stream.native_handle(); }) {
      return stream.native_handle();
    } else {
      throw Error(Code::NCCL, "[world] NCCL needs a torch whose c10::Stream has native_handle but this one is older");
    }
  }

  at::Device device_;
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream side_;
};

}  // namespace

std::unique_ptr<SideStream> side_stream(at::Device device) {
  if (!c10::impl::hasDeviceGuardImpl(device.type())) {
    throw Error(Code::NCCL,
                "[world] tensors on " + device.str() + " need a torch built for that device but this one is not");
  }
  return std::make_unique<TorchSideStream>(device);
}

std::unique_ptr<ProcessGroup> nccl_group(const ProcessGroup& host, at::Device device,
                                         std::unique_ptr<SideStream> stream, const std::string& library) {
  return std::make_unique<NcclGroup>(host, device, std::move(stream), library);
}

}  // namespace rotary_torch::parallel
