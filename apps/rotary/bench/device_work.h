// The work of a cell of rotary bench on a CUDA device, and the device memory it needs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cell.h"
#include "measure/gpu_measure.h"

namespace rotary::cli::bench {

// The device memory that one run of a cell reads and writes. For appending operations q, k and v are one tensor, and
// the rotated k and v go to the cache.
struct DeviceSet {
  explicit DeviceSet(const Cell&);
  static std::size_t bytes_of(const Cell&);
  // Writes the same inputs each time, and a pattern that cannot be a result to the rest.
  void fill(const Cell&, gpu::Stream) const;

  gpu::Memory memory;
  Heads q, k, v, q_out, k_out, qkv;
  gpu::Cache cache;
  std::byte* in = nullptr;   // the inputs, contiguous
  std::size_t in_bytes = 0;  // of the inputs
  std::byte* out = nullptr;  // follows the inputs: the results, or spare memory for a copy of the inputs
  std::size_t out_bytes = 0;
  std::size_t moved = 0;  // bytes that the ceiling's copy moves, a multiple of 64
};

// The inputs that all sets of a cell share: angles, slots, norms.
struct DeviceInputs {
  DeviceInputs(const Cell&, gpu::Stream);

  rotary::Frequencies turns;
  gpu::Frequencies frequencies;
  gpu::Memory positions64, positions32;
  std::optional<gpu::Table> table;
  std::unique_ptr<gpu::Rotation> rotation;
  std::vector<std::int64_t> slots;  // slots[i] is the slot of token i; device_slots holds the same
  gpu::Memory device_slots;
  gpu::Memory weights;  // of the norm of q, then of k
  gpu::Norm q_norm, k_norm;
};

constexpr int page_size = 16;  // tokens per cache page
constexpr float k_scale = 0.5F, v_scale = 0.25F;

using Call = std::function<void(gpu::Stream)>;
Call call_of(const Cell&, const DeviceSet&, const DeviceInputs&);
// The separate operations that an appending cell fuses into one.
Call parts_of(const Cell&, const DeviceSet&, const DeviceInputs&);
int launches_of(const Cell&);

}  // namespace rotary::cli::bench
