#include "rotary_torch/models/meta_device.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <optional>

namespace rotary_torch {
namespace {

// empty.memory_format, which every factory function without a device calls, is overridden under this key. torch
// reserves the key for interposers and has no kernels for it; the dispatcher considers it only on threads that include
// it.
constexpr c10::DispatchKey interposer = c10::DispatchKey::TESTING_ONLY_GenericMode;

at::Tensor empty_on_meta(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device>, std::optional<bool>,
                         std::optional<at::MemoryFormat> format) {
  const c10::impl::ExcludeDispatchKeyGuard below(interposer);
  return at::empty_symint(size, dtype, layout, at::Device(at::kMeta), std::nullopt, format);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) { library.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, TESTING_ONLY_GenericMode, library) { library.impl("empty.memory_format", empty_on_meta); }

}  // namespace

MetaDevice::MetaDevice() : guard_(interposer) {}

}  // namespace rotary_torch
