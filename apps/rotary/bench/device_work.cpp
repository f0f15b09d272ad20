#include "device_work.h"

#include <algorithm>

#include "memory.h"

namespace rotary::cli::bench {

namespace {

std::int64_t rows_of(const Cell& cell) { return cell.batch * cell.tokens; }

std::int64_t pages_of(const Cell& cell) { return (rows_of(cell) + page_size - 1) / page_size; }

// Bytes of the cache of k, and likewise of v.
std::size_t cache_bytes_of(const Cell& cell) {
  const std::size_t each = cell.f8 ? 1 : size_of(cell.dtype);
  return round_up(static_cast<std::size_t>(pages_of(cell) * page_size * cell.kv_heads * cell.head_dim) * each, 256);
}

std::size_t heads_bytes(const Cell& cell, std::int64_t heads) {
  return static_cast<std::size_t>(rows_of(cell) * heads * cell.head_dim) * size_of(cell.dtype);
}

Heads part_of(const Heads& all, std::int64_t first, std::int64_t count) {
  Heads part = all;
  part.layout.heads = count;
  part.data = static_cast<std::byte*>(all.data) +
              first * all.layout.head_stride * static_cast<std::int64_t>(size_of(all.dtype));
  return part;
}

// Bytes of a cell's inputs, and of the results or spare memory that follow them.
struct Sizes {
  explicit Sizes(const Cell& cell) {
    moved = static_cast<std::size_t>(line_bytes(cell));
    if (!appends(cell.op)) {
      in = round_up(static_cast<std::size_t>(q_extent(cell)), 64) + static_cast<std::size_t>(k_extent(cell));
      in = round_up(in, 4096);
      out = in;
    } else {
      in = round_up(heads_bytes(cell, cell.heads + 2 * cell.kv_heads), 4096);
      out = round_up(heads_bytes(cell, cell.heads), 256) + 2 * cache_bytes_of(cell);
    }
    moved = std::min(moved, in);
    out = std::max(out, moved);
  }
  std::size_t in = 0, out = 0, moved = 0;
};

// Slots of pages in an order that a prefetcher cannot predict.
std::vector<std::int64_t> slots_of(const Cell& cell) {
  const std::int64_t pages = pages_of(cell);
  const std::int64_t step = pages % 7919 == 0 ? 7907 : 7919;
  std::vector<std::int64_t> slots(static_cast<std::size_t>(rows_of(cell)));
  for (std::int64_t i = 0; i < rows_of(cell); ++i) {
    slots[static_cast<std::size_t>(i)] = (i / page_size * step + 1) % pages * page_size + i % page_size;
  }
  return slots;
}

template <class Value>
gpu::Memory on_device(const std::vector<Value>& values, gpu::Stream stream) {
  gpu::Memory memory(values.size() * sizeof(Value));
  gpu::upload(memory.data(), values.data(), memory.size(), stream);
  return memory;
}

Call two_calls(const Cell& cell, const DeviceSet& at, const gpu::Rotation& by) {
  const Heads q = at.q, k = at.k, q_out = at.q_out, k_out = at.k_out;
  const Direction direction = cell.op == Op::backward ? Direction::backward : Direction::forward;
  const bool two = cell.kv_heads > 0;
  if (cell.in_place) {
    return [=, &by](gpu::Stream stream) {
      gpu::rotate(q, by, {direction, stream});
      if (two) gpu::rotate(k, by, {direction, stream});
    };
  }
  return [=, &by](gpu::Stream stream) {
    gpu::rotate(q, q_out, by, {direction, stream});
    if (two) gpu::rotate(k, k_out, by, {direction, stream});
  };
}

}  // namespace

std::size_t DeviceSet::bytes_of(const Cell& cell) { return Sizes(cell).in + Sizes(cell).out; }

DeviceSet::DeviceSet(const Cell& cell) : memory(bytes_of(cell)) {
  const Sizes sizes(cell);
  in = memory.data();
  in_bytes = sizes.in;
  out = in + sizes.in;
  out_bytes = sizes.out;
  moved = sizes.moved;
  if (!appends(cell.op)) {
    std::byte* const results = cell.in_place ? in : out;
    const std::size_t k_at = round_up(static_cast<std::size_t>(q_extent(cell)), 64);
    q = {in, cell.dtype, layout_of(cell, cell.heads)};
    k = {in + k_at, cell.dtype, layout_of(cell, cell.kv_heads)};
    q_out = {results, cell.dtype, q.layout};
    k_out = {results + k_at, cell.dtype, k.layout};
    return;
  }
  qkv = {in, cell.dtype, layout_of(cell, cell.heads + 2 * cell.kv_heads)};
  q = part_of(qkv, 0, cell.heads);
  k = part_of(qkv, cell.heads, cell.kv_heads);
  v = part_of(qkv, cell.heads + cell.kv_heads, cell.kv_heads);
  q_out = cell.in_place ? q : Heads{out, cell.dtype, layout_of(cell, cell.heads)};
  std::byte* const caches = out + round_up(heads_bytes(cell, cell.heads), 256);
  cache = gpu::nhd(caches, caches + cache_bytes_of(cell), pages_of(cell), page_size, cell.kv_heads, cell.head_dim);
  if (cell.f8) {
    cache.type = gpu::CacheType::f8_e4m3;
    cache.k_scale = k_scale;
    cache.v_scale = v_scale;
  }
}

void DeviceSet::fill(const Cell& cell, gpu::Stream stream) const {
  const std::vector<std::byte> pattern = fill_pattern(cell.dtype);
  std::size_t done = std::min(pattern.size(), in_bytes);
  gpu::upload(in, pattern.data(), done, stream);
  for (; done < in_bytes; done = std::min(2 * done, in_bytes)) {
    gpu::copy(in, in + done, std::min(done, in_bytes - done), stream);
  }
  gpu::fill(out, 0xee, out_bytes, stream);
}

DeviceInputs::DeviceInputs(const Cell& cell, gpu::Stream stream)
    : turns(rotary::frequencies(rope_of(cell))), frequencies(turns, stream) {
  const std::vector<std::int64_t> positions = first_positions(cell);
  positions64 = on_device(positions, stream);
  positions32 = on_device(std::vector<std::int32_t>(positions.begin(), positions.end()), stream);
  const gpu::Positions wide(reinterpret_cast<const std::int64_t*>(positions64.data()), cell.tokens);
  const gpu::Positions narrow(reinterpret_cast<const std::int32_t*>(positions32.data()), cell.tokens);
  if (cell.with_table) {
    const Rounding rounding = cell.op == Op::table ? rounding_of(cell) : Rounding::f32;
    table.emplace(frequencies, wide, gpu::TableOptions(Angles::exact, rounding), stream);
    rotation = std::make_unique<gpu::Rotation>(*table);
  } else {
    rotation = std::make_unique<gpu::Rotation>(frequencies, narrow);
  }
  if (!appends(cell.op)) return;
  slots = slots_of(cell);
  device_slots = on_device(slots, stream);
  const std::size_t width = static_cast<std::size_t>(cell.head_dim) * size_of(cell.dtype);
  std::vector<std::byte> values = fill_pattern(cell.dtype);
  values.resize(2 * width);
  weights = on_device(values, stream);
  q_norm.dtype = k_norm.dtype = cell.dtype;
  q_norm.weight = weights.data();
  k_norm.weight = weights.data() + width;
}

Call call_of(const Cell& cell, const DeviceSet& at, const DeviceInputs& inputs) {
  const gpu::Rotation& by = *inputs.rotation;
  const Heads q = at.q, k = at.k, v = at.v, q_out = at.q_out, k_out = at.k_out, qkv = at.qkv;
  const gpu::Cache cache = at.cache;
  const auto slots = gpu::Slots::flat(reinterpret_cast<const std::int64_t*>(inputs.device_slots.data()));
  const std::int64_t kv_heads = cell.kv_heads;
  switch (cell.op) {
    case Op::fused:
      if (cell.in_place) return [=, &by](gpu::Stream stream) { gpu::rotate_qk(q, k, by, stream); };
      return [=, &by](gpu::Stream stream) { gpu::rotate_qk({q, q_out}, {k, k_out}, by, stream); };
    case Op::append:
      return [=, &by](gpu::Stream stream) { gpu::rotate_append(q, q_out, k, v, by, cache, slots, stream); };
    case Op::norm_append:
      return [=, &by, &inputs](gpu::Stream stream) {
        gpu::norm_rotate_append(qkv, kv_heads, q_out, inputs.q_norm, inputs.k_norm, by, cache, slots, stream);
      };
    default:
      return two_calls(cell, at, by);
  }
}

Call parts_of(const Cell& cell, const DeviceSet& at, const DeviceInputs& inputs) {
  const gpu::Rotation& by = *inputs.rotation;
  const Heads q = at.q, k = at.k, v = at.v, q_out = at.q_out;
  const gpu::Cache cache = at.cache;
  const auto slots = gpu::Slots::flat(reinterpret_cast<const std::int64_t*>(inputs.device_slots.data()));
  const bool norm = cell.op == Op::norm_append, in_place = cell.in_place;
  return [=, &by, &inputs](gpu::Stream stream) {
    if (norm) {
      gpu::rms_norm(q, q_out, inputs.q_norm, stream);
      gpu::rms_norm(k, k, inputs.k_norm, stream);
    }
    if (norm || in_place) {
      gpu::rotate_qk(q_out, k, by, stream);
    } else {
      gpu::rotate_qk({q, q_out}, {k, k}, by, stream);
    }
    gpu::append(k, v, cache, slots, stream);
  };
}

int launches_of(const Cell& cell) {
  if (cell.op == Op::append) return cell.in_place && cell.pairing == Pairing::interleaved_to_half ? 2 : 1;
  const bool two_calls = cell.op == Op::rotate || cell.op == Op::backward;
  return two_calls && cell.kv_heads > 0 ? 2 : 1;
}

}  // namespace rotary::cli::bench
