// rotary bench --device cuda: every kind of cell is verified and measured, and a wrong result is noticed; measuring
// itself. Built with the emulated library, and with the real one for a machine that has a device. Nothing here is about
// speed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "apps/rotary/bench/bench.h"
#include "measure/gpu_measure.h"
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
  const auto call = [&](std::size_t i) {
    return [&, i] {
      ++calls[i];
      gpu::move_bytes(memory.data(), memory.data(), memory.size(), stream.get());
    };
  };
  const detail::Medians times = gpu::times({{call(0), call(1)}, {call(2)}}, 0.001, stream.get());
  ASSERT_EQ(times.seconds.size(), 2U);
  EXPECT_GE(times.samples, 7);
  EXPECT_GT(std::min(times.seconds[0], times.seconds[1]), 0);
  EXPECT_EQ(calls[0], calls[1]);
  EXPECT_GT(calls[2], 0);
  const detail::Medians graphs = gpu::times({{call(0), call(1)}}, 0.001, stream.get(), true);
  ASSERT_EQ(graphs.seconds.size(), 1U);
  EXPECT_GT(graphs.seconds[0], 0);
}

// ---- cells ----

std::vector<Cell> cells_of_every_kind() {
  const std::string ops = "op=rotate,backward,fused,append,norm_append pairing=half,interleaved,interleaved_to_half ";
  return combined(
      {ops + "dtype=f32 batch=2 in_place=true,false rotary_dim=12", ops + "dtype=bf16 cache=f8 in_place=true,false",
       ops + "dtype=f16 table=false layout=bhtd in_place=true,false rotary_dim=12", "op=table"},
      {{"tokens", "5"},
       {"heads", "3"},
       {"kv_heads", "2"},
       {"head_dim", "16"},
       {"device", "cuda"},
       {"target", "a device"}});
}

TEST_F(BenchCuda, every_kind_of_cell_is_right_and_measured) {
  const std::unique_ptr<Machine> machine = cuda();
  for (const Cell& cell : cells_of_every_kind()) {
    SCOPED_TRACE(describe(cell).dump());
    const std::unique_ptr<ReadyCell> ready = machine->prepare(cell);
    const Result result = measure(*ready, {.seconds = 0.0005});
#ifdef ROTARY_GPU_EMULATED
    gpu_emulator::reset_counts();
    ready->calls[0]();
    EXPECT_EQ(gpu_emulator::counts().launches, result.device->launches);
#endif
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
    EXPECT_GE(row(result).size(), header(true).size());          // wider where this machine is slow
  }
}

// verify refuses the cell with `instead` as its call, which is given the right one.
void expect_noticed(ReadyCell& ready, const std::function<void(const Call&)>& instead) {
  const Call right = ready.calls[0];
  ready.calls[0] = [&] { instead(right); };
  EXPECT_THROW(verify(ready), Error) << describe(ready.cell).dump();
  ready.calls[0] = right;
}

TEST_F(BenchCuda, one_wrong_bit_and_work_that_does_nothing_are_noticed) {
  const std::unique_ptr<Machine> machine = cuda();
  for (const Op op : {Op::rotate, Op::backward, Op::fused, Op::append, Op::norm_append}) {
    for (const bool f8 : {false, true}) {
      Cell cell = small_cell(op);
      if (f8 && !appends(op)) continue;
      cell.f8 = f8;
      const std::unique_ptr<ReadyCell> ready = machine->prepare(cell);
      EXPECT_GT(verify(*ready), 0);
      const Tensors& at = ready->sets[0];
      // The first tokens go to the first and only page.
      const std::vector<std::byte*> written =
          appends(op) ? std::vector{static_cast<std::byte*>(at.q_out.data), at.k_cache, at.v_cache}
                      : std::vector{static_cast<std::byte*>(at.q_out.data), static_cast<std::byte*>(at.k_out.data)};
      for (std::byte* const memory : written) {
        expect_noticed(*ready, [&](const Call& call) {
          call();
          std::byte value{};
          ready->read(&value, memory + 7, 1);
          value ^= std::byte{1};
          ready->write(memory + 7, &value, 1);
        });
      }
      expect_noticed(*ready, [](const Call&) {});
      cell.with_table = false;
      expect_noticed(*machine->prepare(cell), [](const Call&) {});
    }
  }
}

}  // namespace
}  // namespace rotary::cli::bench
