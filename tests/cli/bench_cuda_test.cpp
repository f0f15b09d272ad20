// rotary bench --device cuda: every kind of cell is verified and measured, and a wrong result is noticed; measuring
// itself. Built with the emulated library, and with the real one for a machine that has a device. Nothing here is about
// speed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "apps/rotary/bench/device.h"
#include "apps/rotary/bench/device_verify.h"
#include "apps/rotary/bench/report.h"
#ifdef ROTARY_GPU_EMULATED
#include "tests/gpu/shim/emulator.h"
#endif

namespace rotary::cli::bench {
namespace {

class BenchCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::devices() == 0) GTEST_SKIP() << "no CUDA device";
  }
};
using GpuMeasure = BenchCuda;

Cell small_cell(Op op) {
  Cell cell;
  cell.op = op;
  cell.tokens = 5;
  cell.heads = 3;
  cell.kv_heads = 2;
  cell.head_dim = cell.rotary_dim = 16;
  cell.cuda = true;
  cell.target = "a device";
  if (op == Op::table) cell.dtype = DType::f32;
  return cell;
}

// ---- measuring ----

TEST_F(GpuMeasure, memory_is_filled_copied_and_read) {
  const gpu::OwnStream stream;
  gpu::Memory one(4096), other;
  other = gpu::Memory(4096);
  EXPECT_EQ(other.size(), 4096U);
  EXPECT_GT(gpu::free_memory(), 0U);
  gpu::fill(one.data(), 0x5a, 4096, stream.get());
  gpu::copy(one.data(), other.data(), 2048, stream.get());
  gpu::fill(other.data() + 2048, 1, 2048, stream.get());
  std::vector<unsigned char> found(4096);
  gpu::download(found.data(), other.data(), 4096, stream.get());
  EXPECT_EQ(std::count(found.begin(), found.end(), 0x5a), 2048);
  EXPECT_EQ(found[2048], 1);
}

TEST_F(GpuMeasure, moving_bytes_copies_them_all_and_no_more) {
  const gpu::OwnStream stream;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{16}, std::size_t{16384}, std::size_t{50000}}) {
    std::vector<unsigned char> values(50016);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<unsigned char>(i * 7 + i / 256);
    const gpu::Memory in(values.size()), out(values.size());
    gpu::upload(in.data(), values.data(), values.size(), stream.get());
    gpu::fill(out.data(), 0xee, out.size(), stream.get());
    gpu::move_bytes(in.data(), out.data(), bytes, stream.get());
    gpu::move_bytes(in.data(), in.data(), bytes, stream.get());
    std::vector<unsigned char> copied(values.size()), updated(values.size());
    gpu::download(copied.data(), out.data(), copied.size(), stream.get());
    gpu::download(updated.data(), in.data(), updated.size(), stream.get());
    EXPECT_EQ(updated, values);
    EXPECT_TRUE(std::equal(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(bytes), copied.begin()));
    EXPECT_EQ(std::count(copied.begin() + static_cast<std::ptrdiff_t>(bytes), copied.end(), 0xee),
              static_cast<std::ptrdiff_t>(values.size() - bytes));
  }
}

TEST_F(GpuMeasure, works_run_in_turn_and_their_sets_too) {
  const gpu::OwnStream stream;
  const gpu::Memory memory(1 << 16);
  std::vector<int> calls(3);
  const auto work = [&](std::size_t i) {
    return [&, i](gpu::Stream on) {
      ++calls[i];
      gpu::move_bytes(memory.data(), memory.data(), memory.size(), on);
    };
  };
  const gpu::Times times = gpu::event_times({{work(0), work(1)}, {work(2)}}, 0.001, stream.get());
  ASSERT_EQ(times.seconds.size(), 2U);
  EXPECT_GE(times.samples, 7);
  EXPECT_GT(std::min(times.seconds[0], times.seconds[1]), 0);
  EXPECT_EQ(calls[0], calls[1]);
  EXPECT_GT(calls[2], 0);
  const gpu::Times graphs = gpu::graph_times({{work(0), work(1)}}, 0.001, stream.get());
  ASSERT_EQ(graphs.seconds.size(), 1U);
  EXPECT_GT(graphs.seconds[0], 0);
}

// ---- cells ----

std::vector<Cell> cells_of_every_kind() {
  std::vector<Cell> cells;
  for (const Op op : {Op::rotate, Op::backward, Op::fused, Op::append, Op::norm_append}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const Pairing pairing : {Pairing::half, Pairing::interleaved, Pairing::interleaved_to_half}) {
        for (const bool in_place : {true, false}) {
          if (in_place && only_out_of_place(op, pairing)) continue;  // ALIAS
          Cell cell = small_cell(op);
          cell.dtype = dtype;
          cell.pairing = pairing;
          cell.in_place = in_place;
          cell.with_table = dtype != DType::f16;
          cell.f8 = appends(op) && dtype == DType::bf16;
          cell.batch = dtype == DType::f32 ? 2 : 1;
          cell.rotary_dim = in_place ? 16 : 12;
          if (dtype == DType::f16) cell.layout = "bhtd";
          cells.push_back(cell);
        }
      }
    }
  }
  cells.push_back(small_cell(Op::table));
  return cells;
}

TEST_F(BenchCuda, every_kind_of_cell_is_right_and_measured) {
  CudaBench runner(0.0005);
  for (const Cell& cell : cells_of_every_kind()) {
    SCOPED_TRACE(describe(cell).dump());
    const Result result = runner.measure(cell);
    EXPECT_GT(result.verified, 0);
    EXPECT_GT(std::min(result.seconds, result.ceiling_seconds), 0);
    ASSERT_TRUE(result.device);
    EXPECT_GT(result.device->graph_seconds, 0);
    EXPECT_EQ(result.device->unfused_seconds > 0, appends(cell.op));
    const nlohmann::ordered_json json = json_of(result);
    EXPECT_TRUE(json["threads"].is_null());
    for (const char* key : {"microseconds", "graph_microseconds", "gb_per_s", "percent_of_ceiling"}) {
      EXPECT_TRUE(json[key].is_number_float()) << key;
    }
    EXPECT_EQ(json.contains("ratio_to_unfused"), appends(cell.op));
    EXPECT_EQ(json.contains("percent_of_copy"), cell.op != Op::table);
    if (cell.pairing == Pairing::interleaved_to_half) continue;  // wider than its column
    EXPECT_EQ(row(result).size(), header(true).size());
  }
}

#ifdef ROTARY_GPU_EMULATED
TEST_F(BenchCuda, launches_are_as_many_as_it_says) {
  const gpu::OwnStream stream;
  for (const Cell& cell : cells_of_every_kind()) {
    if (cell.op == Op::table) continue;
    const DeviceInputs inputs(cell, stream.get());
    const DeviceSet set(cell);
    gpu_emulator::reset_counts();
    call_of(cell, set, inputs)(stream.get());
    EXPECT_EQ(gpu_emulator::counts().launches, launches_of(cell)) << describe(cell).dump();
  }
}
#endif

// A call that leaves one bit wrong where `at` says.
void expect_noticed(const Cell& cell, std::byte* (*at)(const DeviceSet&)) {
  const gpu::OwnStream stream;
  const DeviceInputs inputs(cell, stream.get());
  const DeviceSet set(cell);
  EXPECT_GT(verify_on_device(cell, set, inputs, stream.get(), call_of(cell, set, inputs)), 0);
  const Call wrong = [&](gpu::Stream on) {
    call_of(cell, set, inputs)(on);
    std::byte value{};
    gpu::download(&value, at(set), 1, on);
    value ^= std::byte{1};
    gpu::upload(at(set), &value, 1, on);
  };
  EXPECT_THROW(verify_on_device(cell, set, inputs, stream.get(), wrong), Error) << describe(cell).dump();
}

TEST_F(BenchCuda, one_wrong_bit_is_noticed) {
  for (const Op op : {Op::rotate, Op::fused, Op::append, Op::norm_append}) {
    for (const bool f8 : {false, true}) {
      Cell cell = small_cell(op);
      if (f8 && !appends(op)) continue;
      cell.f8 = f8;
      expect_noticed(cell, [](const DeviceSet& set) { return static_cast<std::byte*>(set.q_out.data) + 7; });
      if (!appends(op)) {
        expect_noticed(cell, [](const DeviceSet& set) { return static_cast<std::byte*>(set.k_out.data) + 7; });
        continue;
      }
      // The first tokens go to the first and only page.
      expect_noticed(cell, [](const DeviceSet& set) { return static_cast<std::byte*>(set.cache.k) + 7; });
      expect_noticed(cell, [](const DeviceSet& set) { return static_cast<std::byte*>(set.cache.v) + 7; });
    }
  }
}

TEST_F(BenchCuda, work_that_does_nothing_is_noticed) {
  for (const Op op : {Op::rotate, Op::backward, Op::fused, Op::append, Op::norm_append}) {
    for (const bool with_table : {true, false}) {
      Cell cell = small_cell(op);
      cell.with_table = with_table;
      const gpu::OwnStream stream;
      const DeviceInputs inputs(cell, stream.get());
      const DeviceSet set(cell);
      EXPECT_THROW(verify_on_device(cell, set, inputs, stream.get(), [](gpu::Stream) {}), Error);
    }
  }
}

}  // namespace
}  // namespace rotary::cli::bench
