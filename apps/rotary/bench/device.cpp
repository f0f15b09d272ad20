#include "device.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "device_verify.h"

namespace rotary::cli::bench {

namespace {

// make(set) for every set of memory.
template <class Make>
gpu::Work each(const std::vector<std::unique_ptr<DeviceSet>>& sets, const Make& make) {
  gpu::Work work;
  for (const std::unique_ptr<DeviceSet>& set : sets) work.push_back(make(*set));
  return work;
}

Call copy_of(const DeviceSet& at) {
  return [in = at.in, out = at.out, bytes = at.moved](gpu::Stream stream) { gpu::copy(in, out, bytes, stream); };
}

// The same bytes moved by a kernel: an update in place, otherwise a copy.
Call moving(const Cell& cell, const DeviceSet& at) {
  std::byte* const to = cell.in_place && !appends(cell.op) ? at.in : at.out;
  return [in = at.in, to, bytes = at.moved](gpu::Stream stream) { gpu::move_bytes(in, to, bytes, stream); };
}

}  // namespace

void require_cuda() {
  if (!gpu::built()) {
    throw Error(Code::CUDA,
                "[bench] --device cuda must have a rotary that is built with CUDA (scripts/build.sh --with cuda)");
  }
  if (gpu::devices() > 0) return;
  std::string reason = "there is none";
  try {
    gpu::device_name();
  } catch (const Error& error) {  // from the CUDA runtime: no device, no driver, or a driver that is too old
    reason = error.what();
  }
  throw Error(Code::CUDA, "[bench] --device cuda must find a CUDA device but " + reason);
}

CudaBench::CudaBench(double seconds) : seconds_(seconds) {}

Result CudaBench::measure(const Cell& cell) { return cell.op == Op::table ? measure_table(cell) : measure_heads(cell); }

// 1 if the working set fits in the last cache, as a previous layer's output would; otherwise enough copies that each is
// evicted before it is used again.
int CudaBench::sets_of(const Cell& cell) const {
  const double cache = static_cast<double>(gpu::cache_bytes());
  const double bytes_of_set = static_cast<double>(DeviceSet::bytes_of(cell));
  const double touched = static_cast<double>(line_bytes(cell)) * (cell.in_place && !appends(cell.op) ? 1 : 2);
  if (touched < cache / 2) return 1;
  const double that_fit = std::floor(0.9 * static_cast<double>(gpu::free_memory()) / bytes_of_set);
  return static_cast<int>(std::max(1.0, std::min(std::ceil(4 * cache / touched), that_fit)));
}

Result CudaBench::measure_heads(const Cell& cell) {
  const gpu::Stream stream = stream_.get();
  const DeviceInputs inputs(cell, stream);
  std::vector<std::unique_ptr<DeviceSet>> sets;
  for (int left = sets_of(cell); left > 0; --left) sets.push_back(std::make_unique<DeviceSet>(cell));
  Result result;
  result.cell = cell;
  result.verified = verify_on_device(cell, *sets.front(), inputs, stream, call_of(cell, *sets.front(), inputs));
  for (const std::unique_ptr<DeviceSet>& set : sets) set->fill(cell, stream);

  const auto call = [&](const DeviceSet& at) { return call_of(cell, at, inputs); };
  const auto parts = [&](const DeviceSet& at) { return parts_of(cell, at, inputs); };
  std::vector<gpu::Work> works = {each(sets, call), each(sets, copy_of),
                                  each(sets, [&](const DeviceSet& at) { return moving(cell, at); })};
  std::vector<gpu::Work> replayed = {works[0]};
  if (appends(cell.op)) {
    works.push_back(each(sets, parts));
    replayed.push_back(works.back());
  }
  const gpu::Times times = gpu::event_times(works, seconds_, stream);
  const gpu::Times graphs = gpu::graph_times(replayed, seconds_ / 2, stream);
  const bool update = cell.in_place && !appends(cell.op);
  const bool by_copy = !update && times.seconds[1] < times.seconds[2];
  result.samples = times.samples;
  result.seconds = times.seconds[0];
  result.ceiling_seconds = by_copy ? times.seconds[1] : times.seconds[2];
  OnDevice device;
  device.ceiling = update ? "update" : by_copy ? "copy" : "kernel";
  device.graph_seconds = graphs.seconds[0];
  device.copy_seconds = times.seconds[1];
  device.sets = static_cast<int>(sets.size());
  device.launches = launches_of(cell);
  if (appends(cell.op)) {
    device.unfused_seconds = times.seconds[3];
    device.unfused_graph_seconds = graphs.seconds[1];
  }
  result.device = device;
  return result;
}

Result CudaBench::measure_table(const Cell& cell) {
  const gpu::Stream stream = stream_.get();
  DeviceInputs inputs(cell, stream);
  Result result;
  result.cell = cell;
  result.verified = verify_device_table(cell, inputs, stream);
  const gpu::Positions positions(reinterpret_cast<const std::int64_t*>(inputs.positions64.data()), cell.tokens);
  const gpu::TableOptions options(Angles::exact, rounding_of(cell));
  const gpu::Memory spare(static_cast<std::size_t>(line_bytes(cell)));
  const gpu::Work assign = {[&](gpu::Stream on) { inputs.table->assign(inputs.frequencies, positions, options, on); }};
  const gpu::Work fill = {[&](gpu::Stream on) { gpu::fill(spare.data(), 1, spare.size(), on); }};
  const gpu::Times times = gpu::event_times({assign, fill}, seconds_, stream);
  const gpu::Times graphs = gpu::graph_times({assign}, seconds_ / 2, stream);
  result.samples = times.samples;
  result.seconds = times.seconds[0];
  result.ceiling_seconds = times.seconds[1];
  result.device = OnDevice{.graph_seconds = graphs.seconds[0], .ceiling = "fill"};
  return result;
}

}  // namespace rotary::cli::bench
