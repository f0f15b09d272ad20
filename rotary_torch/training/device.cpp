#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <system_error>

#include "rotary_torch/op/refusal.h"
#include "rotary_torch/training/parallel.h"

namespace rotary_torch {

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

[[noreturn]] void refuse(const std::string& operation, const std::string& reason) {
  throw rotary::Error(rotary::Code::DEVICE, "[" + operation + "] cuda must be usable but " + reason);
}

}  // namespace

c10::Device open_device(const std::string& operation, const std::string& word, int index) {
  if (word == "cpu") return c10::kCPU;
  if (word != "cuda")
    Refusal{operation.c_str()}(rotary::Code::DEVICE, "a device must be cpu or cuda but got '", word, "'");
  const fs::path library = torch_folder() / "libtorch_cuda.so";
  std::error_code error;
  if (!fs::exists(library, error)) {
    refuse(operation, "this torch is made for the CPU alone: there is no " + library.string());
  }
  // Loading the library registers CUDA with torch; it stays loaded. This must happen before torch is asked for a GPU.
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* reason = dlerror();
    refuse(operation, std::string("its library cannot be loaded: ") + (reason == nullptr ? "no reason given" : reason));
  }
  if (!at::globalContext().hasCUDA()) refuse(operation, "no GPU is visible to torch (see nvidia-smi)");
  const int devices = at::detail::getCUDAHooks().deviceCount();
  if (index >= devices) {
    refuse(operation, "GPU number " + std::to_string(index) + " is asked for and there are " + std::to_string(devices));
  }
  at::globalContext().lazyInitDevice(c10::kCUDA);
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

}  // namespace rotary_torch
