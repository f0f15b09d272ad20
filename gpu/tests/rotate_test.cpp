// The rotation on the device against the reference, bit for bit, over shapes, layouts and alignments.
#include "core/tests/support/qk_memory.h"
#include "device_heads.h"
#include "rotary/reference.h"

namespace rotary::tests {
namespace {

void check_out_of_place(Random& random, DType dtype, const Layout& from, const Layout& to, const Table& table,
                        Direction direction) {
  const int in_at = misalignment(random), out_at = misalignment(random);
  SCOPED_TRACE("out of place, " + words(from, dtype) + " to " + words(to, dtype) + ", rotary_dim " +
               std::to_string(table.rotary_dim()) + ", beginning at " + std::to_string(in_at) + " and " +
               std::to_string(out_at));
  const Bytes x = hard_values(random, dtype, extent(from));
  Bytes wanted = patterned(bytes_of(to, dtype));
  const Device in = device_for(from, dtype, x, in_at), out = device_for(to, dtype, wanted, out_at);
  const Borrowed borrowed(random, table);
  const gpu::Table uploaded = upload(table), &rows = random() % 2 == 0 ? uploaded : borrowed.table;
  order_threads(random);
  reference::rotate({x.data(), dtype, from}, {wanted.data(), dtype, to}, table, direction);
  gpu::rotate({in.data(), dtype, from}, {out.data(), dtype, to}, rows, direction);
  ASSERT_TRUE(same(out.get().data(), wanted.data(), dtype, extent(to), rotated_elements(to, table.rotary_dim())));
  ASSERT_TRUE(in.get() == x) << "the input has changed";
}

void check_in_place(Random& random, DType dtype, const Layout& layout, const Table& table, Direction direction) {
  const int at = misalignment(random);
  SCOPED_TRACE("in place, " + words(layout, dtype) + ", rotary_dim " + std::to_string(table.rotary_dim()) +
               ", beginning at " + std::to_string(at));
  Bytes x = hard_values(random, dtype, extent(layout));
  const Device in = device_for(layout, dtype, x, at);
  const Borrowed borrowed(random, table);
  const gpu::Table uploaded = upload(table), &rows = random() % 2 == 0 ? uploaded : borrowed.table;
  order_threads(random);
  reference::rotate({x.data(), dtype, layout}, {x.data(), dtype, layout}, table, direction);
  gpu::rotate({in.data(), dtype, layout}, rows, direction);
  ASSERT_TRUE(same(in.get().data(), x.data(), dtype, extent(layout), rotated_elements(layout, table.rotary_dim())));
}

// ---- one tensor ----

class GpuRotate : public GpuWith<GridPoint> {
 protected:
  // Sizes as drawn, but not more elements than the emulator turns in a moment.
  static std::array<std::int64_t, 3> sizes(Random& random, int head_dim) {
    constexpr std::array<std::int64_t, 9> tokens{0, 1, 1, 2, 3, 5, 5, 17, 64};
    constexpr std::array<std::int64_t, 7> heads{1, 2, 3, 5, 8, 8, 40};
    for (;;) {
      const std::array<std::int64_t, 3> s{1 + below(random, 3), tokens[random() % 9], heads[random() % 7]};
      if (s[0] * s[1] * s[2] * head_dim <= 16000) return s;
    }
  }
  void check_one(Random& random, int head_dim, int rotary_dim) {
    const auto [dtype, pairing, direction] = GetParam();
    const auto [batch, tokens, heads] = sizes(random, head_dim);
    const int rows = random() % 2 == 0 ? 1 : static_cast<int>(batch);
    const Table table = random_table_of_heads(random, tokens, rotary_dim / 2, pairing, rows, heads);
    const Layout to = random_layout(random, batch, tokens, heads, head_dim);
    if (random() % 2 == 0) return check_in_place(random, dtype, to, table, direction);
    check_out_of_place(random, dtype, random_layout(random, batch, tokens, heads, head_dim, true), to, table,
                       direction);
  }
};

TEST_P(GpuRotate, EqualsTheReferenceAtEveryRotaryDimAndTail) {
  const auto [dtype, pairing, direction] = GetParam();
  Random random(2);
  for (int rotary_dim = 2; rotary_dim <= 136; rotary_dim += 2) {
    check_one(random, rotary_dim + std::array{0, 1, 6, 8, 17, 64}[random() % 6], rotary_dim);
    if (HasFailure()) return;
  }
  for (const int head_dim : {192, 256, 512}) {
    for (const int rotary_dim : {head_dim, head_dim / 8 * 4, 2 + below(random, head_dim - 1) / 2 * 2}) {
      check_one(random, head_dim, rotary_dim);
      if (HasFailure()) return;
    }
  }
  for (const int rotary_dim : {514, 1022, 1024, 1026, 2048, 2050, 4096, 10006}) {
    const Table table = random_table(random, 2, rotary_dim / 2, pairing);
    const Layout layout = thd(2, 2, rotary_dim + below(random, 4));
    check_out_of_place(random, dtype, layout, layout, table, direction);
    if (pairing != Pairing::interleaved_to_half || rotary_dim <= 2048) {
      check_in_place(random, dtype, layout, table, direction);
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Grid, GpuRotate, grid, grid_name);

// ---- q and k ----

QkMemory random_places(Random& random, DType dtype, std::int64_t batch, std::int64_t tokens, int least_dim) {
  constexpr std::array<std::int64_t, 6> q_heads{1, 2, 5, 8, 32, 0}, k_heads{0, 1, 2, 1, 8, 3};
  const std::int64_t q = q_heads[random() % 6], k = k_heads[random() % 6];
  const int q_dim = least_dim + tail(random), k_dim = random() % 2 == 0 ? q_dim : least_dim + tail(random);
  const int kind = below(random, 4);
  if (kind < 2) return packed_memory(kind, batch, tokens, q, k, q_dim, dtype);
  const DType k_dtype = kind == 2 ? dtypes[random() % 3] : dtype;
  QkMemory places{"apart",
                  {0, dtype, random_layout(random, batch, tokens, q, q_dim)},
                  {0, k_dtype, random_layout(random, batch, tokens, k, k_dim)}};
  places.k.at = (places.q.end() + 15) / 16 * 16 + misalignment(random) * static_cast<std::int64_t>(size_of(k_dtype));
  return places;
}

// The memory on the host and on the device.
struct Arena {
  Arena(Random& random, const QkMemory& p)
      : places(p),
        host(filled(random, p)),
        device(host,
               static_cast<std::size_t>(misalignment(random)) * std::max(size_of(p.q.dtype), size_of(p.k.dtype))) {}
  Heads q_host() { return places.q.in(host.data()); }
  Heads k_host() { return places.k.in(host.data()); }
  Heads q_device() const { return places.q.in(device.data()); }
  Heads k_device() const { return places.k.in(device.data()); }

  void expect_same(int rotary_dim, const char* what) const {
    Bytes got = device.get(), wanted = host;
    for (Bytes* memory : {&got, &wanted}) {
      level_nans(memory->data(), places.q, rotary_dim);
      level_nans(memory->data(), places.k, rotary_dim);
    }
    ASSERT_TRUE(got == wanted) << what;
  }

  QkMemory places;
  Bytes host;
  Device device;
};

class GpuRotateQk : public GpuWith<GridPoint> {};

TEST_P(GpuRotateQk, EqualsTheReferenceForEachOfBoth) {
  const auto [dtype, pairing, direction] = GetParam();
  Random random(4);
  for (int round = 0; round < 60; ++round) {
    const int pairs = std::array{1, 2, 3, 4, 8, 16, 20, 32, 36, 64, 128}[random() % 11];
    const std::int64_t batch = 1 + below(random, 3), tokens = pairs > 32 ? below(random, 4) : below(random, 9);
    const Table table = random_table(random, tokens, pairs, pairing, round % 2 == 0 ? 1 : static_cast<int>(batch));
    const gpu::Table rows = upload(table);
    order_threads(random);
    const QkMemory both = random_places(random, dtype, batch, tokens, 2 * pairs);
    SCOPED_TRACE("round " + std::to_string(round) + ", q " + words(both.q.layout, both.q.dtype) + ", k " +
                 words(both.k.layout, both.k.dtype) + ", rotary_dim " + std::to_string(2 * pairs));
    Arena in(random, both), out(random, both);
    reference::rotate(in.q_host(), out.q_host(), table, direction);
    reference::rotate(in.k_host(), out.k_host(), table, direction);
    gpu::rotate_qk({in.q_device(), out.q_device()}, {in.k_device(), out.k_device()}, rows, direction);
    out.expect_same(2 * pairs, "out of place");
    reference::rotate(in.q_host(), in.q_host(), table, direction);
    reference::rotate(in.k_host(), in.k_host(), table, direction);
    gpu::rotate_qk(in.q_device(), in.k_device(), rows, direction);
    in.expect_same(2 * pairs, "in place");
    reference::rotate(in.q_host(), in.q_host(), table, direction);
    reference::rotate(in.k_host(), out.k_host(), table, direction);
    gpu::rotate_qk({in.q_device(), in.q_device()}, {in.k_device(), out.k_device()}, rows, direction);
    in.expect_same(2 * pairs, "q in place");
    out.expect_same(2 * pairs, "k out of place");
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Grid, GpuRotateQk, grid, grid_name);

// ---- far, many, none ----

class GpuRotation : public Gpu {};

TEST_F(GpuRotation, ReachesMoreThan65535OfEachSize) {
  Random random(5);
  constexpr std::int64_t many = 70001;
  for (const auto& [batch, tokens, heads] :
       std::vector<std::array<std::int64_t, 3>>{{many, 1, 1}, {1, many, 1}, {1, 1, many}, {many, 1, 2}, {2, many, 1}}) {
    const Table table = random_table(random, tokens, 2, Pairing::half);
    check_in_place(random, DType::bf16, bthd(batch, tokens, heads, 4), table, Direction::forward);
    check_out_of_place(random, DType::f32, bthd(batch, tokens, heads, 5), bhtd(batch, heads, tokens, 5), table,
                       Direction::backward);
  }
}

TEST_F(GpuRotation, ReachesOffsetsBeyondTwoToTheThirtyOneElements) {
  Random random(6);
  const std::int64_t far = (std::int64_t{1} << 31) + 8;
  const Layout near = bthd(2, 2, 2, 66);
  const Sparse sparse(static_cast<std::size_t>(far + 1000) * 2);
  if (sparse.data() == nullptr) GTEST_SKIP() << "no memory of four gigabytes";
  for (int which = 0; which < 3; ++which) {
    Layout layout = near;
    (which == 0 ? layout.batch_stride : which == 1 ? layout.token_stride : layout.head_stride) = far;
    if (which == 2) layout.batch_stride = 2 * 66, layout.token_stride = 66;  // [heads, batch, tokens, head_dim]
    const Table table = random_table(random, 2, 32, pairings[random() % 3]);
    const Bytes x = hard_values(random, DType::bf16, extent(near));
    Bytes wanted(x.size());
    reference::rotate({x.data(), DType::bf16, near}, {wanted.data(), DType::bf16, near}, table);
    const Device in = device_for(near, DType::bf16, x), back = device_for(near, DType::bf16);
    const gpu::Table rows = upload(table);
    const Heads there{sparse.data(), DType::bf16, layout};
    gpu::rotate({in.data(), DType::bf16, near}, there, rows);
    gpu::rotate(there, {back.data(), DType::bf16, near}, rows, Direction::backward);
    Bytes got(x.size());
    const Bytes undone = back.get();
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t t = 0; t < 2; ++t) {
        for (std::int64_t h = 0; h < 2; ++h) {
          const std::int64_t at = b * layout.batch_stride + t * layout.token_stride + h * layout.head_stride;
          sparse.read(got.data() + 2 * (b * near.batch_stride + t * near.token_stride + h * near.head_stride), 2 * at,
                      132);
        }
      }
    }
    EXPECT_TRUE(same(got.data(), wanted.data(), DType::bf16, extent(near), rotated_elements(near, 64))) << which;
    reference::rotate({wanted.data(), DType::bf16, near}, {got.data(), DType::bf16, near}, table, Direction::backward);
    EXPECT_TRUE(same(undone.data(), got.data(), DType::bf16, extent(near), rotated_elements(near, 64))) << which;
  }
}

}  // namespace
}  // namespace rotary::tests
