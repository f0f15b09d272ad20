// What a cell of rotary bench does on a CUDA device, in memory of its own there.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cell.h"
#include "measure/gpu_measure.h"

namespace rotary::cli::bench {

// One set of what a cell reads and writes, in the device's memory. Appending ops have q, k and v in one tensor, k_out
// and the values in the cache.
struct DeviceSet {
  explicit DeviceSet(const Cell&);
  static std::size_t bytes_of(const Cell&);
  // The same values each time; where results go, and in the spare memory, what cannot be right.
  void fill(const Cell&, gpu::Stream) const;

  gpu::Memory memory;
  Heads q, k, v, q_out, k_out, qkv;
  gpu::Cache cache;
  std::byte* in = nullptr;   // the inputs, in one piece
  std::size_t in_bytes = 0;  // theirs
  std::byte* out = nullptr;  // behind them: the results, or as much spare memory as a copy of the inputs needs
  std::size_t out_bytes = 0;
  std::size_t moved = 0;  // bytes that a copy of the cell's traffic moves, a multiple of 64
};

// What all sets of a cell share: angles, slots, norms.
struct DeviceInputs {
  DeviceInputs(const Cell&, gpu::Stream);

  rotary::Frequencies turns;
  gpu::Frequencies frequencies;
  gpu::Memory positions64, positions32;
  std::optional<gpu::Table> table;
  std::unique_ptr<gpu::Rotation> rotation;
  std::vector<std::int64_t> slots;  // of token i; as on the device
  gpu::Memory device_slots;
  gpu::Memory weights;  // of q's norm, then of k's
  gpu::Norm q_norm, k_norm;
};

constexpr int page_size = 16;  // tokens of a page of the cache
constexpr float k_scale = 0.5F, v_scale = 0.25F;

using Call = std::function<void(gpu::Stream)>;
Call call_of(const Cell&, const DeviceSet&, const DeviceInputs&);
// The same by one operation after the other, where the cell has several in one.
Call parts_of(const Cell&, const DeviceSet&, const DeviceInputs&);
int launches_of(const Cell&);

}  // namespace rotary::cli::bench
