// The emulated device, as the emulated runtime uses it.
#pragma once

#include <functional>

#include "cuda_runtime.h"

namespace gpu_emulator {

// Runs the body once for each thread. The grid must be within the device's limits.
void run_grid(dim3 grid, dim3 block, const std::function<void()>& body);

}  // namespace gpu_emulator
