// Cells on a CUDA device.
#include <algorithm>
#include <cmath>

#include "bench.h"
#include "measure/gpu_measure.h"
#include "values/fail.h"

namespace rotary::cli::bench {

namespace {

template <class Value>
gpu::Memory on_device(const std::vector<Value>& values, gpu::Stream stream) {
  gpu::Memory memory(values.size() * sizeof(Value));
  gpu::upload(memory.data(), values.data(), memory.size(), stream);
  return memory;
}

template <class Value>
const Value* as(const gpu::Memory& memory) {
  return reinterpret_cast<const Value*>(memory.data());
}

// Slots of pages in an order that a prefetcher cannot predict.
std::vector<std::int64_t> scattered_slots(const Cell& cell) {
  const std::int64_t pages = pages_of(cell), step = pages % 7919 == 0 ? 7907 : 7919;
  std::vector<std::int64_t> slots;
  for (std::int64_t i = 0; i < cell.batch * cell.tokens; ++i)
    slots.push_back((i / page_size * step + 1) % pages * page_size + i % page_size);
  return slots;
}

// 1 if the tensors fit in the last cache, as a previous layer's output would; otherwise so many that each set is
// evicted before it is used again.
int sets_of(const Cell& cell) {
  const double cache = static_cast<double>(gpu::cache_bytes());
  const double touched = static_cast<double>(line_bytes(cell)) * (cell.in_place && !appends(cell.op) ? 1 : 2);
  if (touched < cache / 2) return 1;
  const double bytes_of_set = static_cast<double>(Tensors(cell).all_bytes);
  const double that_fit = std::floor(0.9 * static_cast<double>(gpu::free_memory()) / bytes_of_set);
  return static_cast<int>(std::max(1.0, std::min(std::ceil(4 * cache / touched), that_fit)));
}

int launches_of(const Cell& cell) {
  if (cell.op == Op::append) return cell.in_place && cell.pairing == Pairing::interleaved_to_half ? 2 : 1;
  const bool two_calls = cell.op == Op::rotate || cell.op == Op::backward;
  return two_calls && cell.kv_heads > 0 ? 2 : 1;
}

class CudaCell : public ReadyCell {
 public:
  CudaCell(const Cell& c, gpu::Stream stream) : ReadyCell(c), stream_(stream), frequencies_(turns, stream) {
    const std::vector<std::int64_t> positions = first_positions(cell);
    positions64_ = on_device(positions, stream);
    positions32_ = on_device(std::vector<std::int32_t>(positions.begin(), positions.end()), stream);
    if (cell.with_table) {
      table_ = gpu::Table(frequencies_, wide(), options(), stream);
      rotation_ = std::make_unique<gpu::Rotation>(table_);
    } else {
      rotation_ =
          std::make_unique<gpu::Rotation>(frequencies_, gpu::Positions(as<std::int32_t>(positions32_), cell.tokens));
    }
    if (cell.op == Op::table) {
      calls.push_back([this] { table_.assign(frequencies_, wide(), options(), stream_); });
      return;
    }
    if (appends(cell.op)) prepare_cache();
    for (int left = sets_of(cell); left > 0; --left) {
      memory_.emplace_back(Tensors(cell).all_bytes);
      sets.emplace_back(cell, memory_.back().data());
      calls.push_back(appends(cell.op) ? appending(sets.back()) : rotating(sets.back()));
      if (appends(cell.op)) parts.push_back(separate(sets.back()));
    }
  }

  Table table() const override { return table_.host(stream_); }
  void write(void* to, const void* from, std::size_t bytes) const override { gpu::upload(to, from, bytes, stream_); }
  void read(void* to, const void* from, std::size_t bytes) const override { gpu::download(to, from, bytes, stream_); }

  // The calls beside the ways to move their bytes: the runtime's copy and our kernel, or filling what a table fills.
  void time(const Pace& pace, Result& result) const override {
    const bool table = sets.empty(), update = cell.in_place && !appends(cell.op);
    const gpu::Memory spare(table ? static_cast<std::size_t>(line_bytes(cell)) : 0);
    gpu::CallSets copies, moves;
    if (table) moves.push_back([&] { gpu::fill(spare.data(), 1, spare.size(), stream_); });
    for (const Tensors& at : sets) {
      moves.push_back([&at, update, this] { gpu::move_bytes(at.in, update ? at.in : at.out, at.moved, stream_); });
      copies.push_back([&at, this] { gpu::copy(at.in, at.out, at.moved, stream_); });
    }
    std::vector<gpu::CallSets> works = {calls, moves}, replayed = {calls};
    if (!table) works.push_back(copies);
    if (!parts.empty()) works.push_back(parts), replayed.push_back(parts);
    const detail::Medians times = gpu::times(works, pace.seconds, stream_);
    const detail::Medians graphs = gpu::times(replayed, pace.seconds / 2, stream_, true);
    const bool by_copy = !table && !update && times.seconds[2] < times.seconds[1];
    result.samples = times.samples;
    result.seconds = times.seconds[0];
    result.ceiling_seconds = times.seconds[by_copy ? 2 : 1];
    result.ceiling = table ? "fill" : update ? "update" : by_copy ? "copy" : "kernel";
    result.device = OnDevice{.graph_seconds = graphs.seconds[0]};
    if (table) return;
    result.device->copy_seconds = times.seconds[2];
    result.device->launches = launches_of(cell);
    result.device->sets = static_cast<int>(sets.size());
    if (parts.empty()) return;
    result.device->unfused_seconds = times.seconds[3];
    result.device->unfused_graph_seconds = graphs.seconds[1];
  }

 private:
  gpu::Positions wide() const { return {as<std::int64_t>(positions64_), cell.tokens}; }
  gpu::TableOptions options() const { return {Angles::exact, rounding_of(cell)}; }
  gpu::Slots device_slots() const { return gpu::Slots::flat(as<std::int64_t>(slots_)); }

  void prepare_cache() {
    slots = scattered_slots(cell);
    slots_ = on_device(slots, stream_);
    const std::size_t width = static_cast<std::size_t>(cell.head_dim) * size_of(cell.dtype);
    std::vector<std::byte> values = fill_pattern(cell.dtype);
    values.resize(2 * width);
    weights_ = on_device(values, stream_);
    q_norm_.dtype = k_norm_.dtype = cell.dtype;
    q_weight = q_norm_.weight = weights_.data();
    k_norm_.weight = weights_.data() + width;
  }

  gpu::Cache cache_of(const Tensors& at) const {
    gpu::Cache cache = gpu::nhd(at.k_cache, at.v_cache, pages_of(cell), page_size, cell.kv_heads, cell.head_dim);
    if (!cell.f8) return cache;
    cache.type = gpu::CacheType::f8_e4m3;
    cache.k_scale = k_scale;
    cache.v_scale = v_scale;
    return cache;
  }

  Call rotating(const Tensors& at) const {
    const gpu::RotateOptions how(cell.op == Op::backward ? Direction::backward : Direction::forward, stream_);
    if (cell.op == Op::fused) {
      return [=, this] { gpu::rotate_qk({at.q, at.q_out}, {at.k, at.k_out}, *rotation_, how); };
    }
    return [=, this] {
      gpu::rotate(at.q, at.q_out, *rotation_, how);
      if (cell.kv_heads > 0) gpu::rotate(at.k, at.k_out, *rotation_, how);
    };
  }

  Call appending(const Tensors& at) const {
    return [=, cache = cache_of(at), this] {
      if (cell.op == Op::append)
        return gpu::rotate_append(at.q, at.q_out, at.k, at.v, *rotation_, cache, device_slots(), stream_);
      gpu::norm_rotate_append(at.qkv, cell.kv_heads, at.q_out, q_norm_, k_norm_, *rotation_, cache, device_slots(),
                              stream_);
    };
  }

  Call separate(const Tensors& at) const {
    return [=, cache = cache_of(at), norm = cell.op == Op::norm_append, this] {
      if (norm) {
        gpu::rms_norm(at.q, at.q_out, q_norm_, stream_);
        gpu::rms_norm(at.k, at.k, k_norm_, stream_);
      }
      gpu::rotate_qk({norm ? at.q_out : at.q, at.q_out}, {at.k, at.k}, *rotation_, stream_);
      gpu::append(at.k, at.v, cache, device_slots(), stream_);
    };
  }

  const gpu::Stream stream_;
  gpu::Frequencies frequencies_;
  gpu::Memory positions64_, positions32_, slots_, weights_;
  gpu::Table table_;
  std::unique_ptr<gpu::Rotation> rotation_;
  gpu::Norm q_norm_, k_norm_;
  std::vector<gpu::Memory> memory_;  // of each set
};

class Cuda : public Machine {
 public:
  double free_bytes() const override { return static_cast<double>(gpu::free_memory()); }
  std::unique_ptr<ReadyCell> prepare(const Cell& cell) override {
    return std::make_unique<CudaCell>(cell, stream_.get());
  }

 private:
  gpu::OwnStream stream_;
};

}  // namespace

std::unique_ptr<Machine> cuda() {
  if (!gpu::built()) {
    fail(Code::CUDA, "bench",
         "--device cuda must have a rotary that is built with CUDA (scripts/build.sh --with cuda)");
  }
  if (gpu::devices() > 0) return std::make_unique<Cuda>();
  std::string reason = "there is none";
  try {
    gpu::device_name();
  } catch (const Error& error) {  // from the CUDA runtime: no device, no driver, or a driver that is too old
    reason = error.what();
  }
  fail(Code::CUDA, "bench", "--device cuda must find a CUDA device but ", reason);
}

}  // namespace rotary::cli::bench
