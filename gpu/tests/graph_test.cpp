// A decode step captured in a CUDA graph and replayed with other positions, slots and values in the same memory; and
// what operations do not do on the way: allocate, wait, copy, launch twice.
#include <functional>
#include <numeric>

#include "core/tests/support/outcome.h"
#include "device_heads.h"
#include "rotary/reference.h"

namespace rotary::tests {
namespace {

// The calls that are enqueued on the stream, to be replayed. This mode of capture refuses every call of the runtime
// that waits or allocates.
class Graph {
 public:
  Graph(cudaStream_t stream, const std::function<void()>& enqueue) : stream_(stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    try {
      enqueue();
    } catch (...) {
      cudaStreamEndCapture(stream, &graph_);
      throw;
    }
    check(cudaStreamEndCapture(stream, &graph_));
    check(cudaGraphGetNodes(graph_, nullptr, &nodes));
    check(cudaGraphInstantiate(&ready_, graph_, 0));
  }
  ~Graph() {
    if (ready_ != nullptr) cudaGraphExecDestroy(ready_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void replay() const {
    check(cudaGraphLaunch(ready_, stream_));
    gpu::synchronize(stream_);
  }
  std::size_t nodes = 0;

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t ready_ = nullptr;
};

class Stream {
 public:
  Stream() { check(cudaStreamCreate(&stream_)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// ---- a layer's step: its memory, its calls -------------------------------------------------------

constexpr std::int64_t tokens = 6, q_heads = 8, kv_heads = 2;
constexpr int head_dim = 64, page_size = 4, pages = 5;
constexpr DType dtype = DType::bf16;
const Layout q_layout = thd(tokens, q_heads, head_dim), k_layout = thd(tokens, kv_heads, head_dim);
const Layout qkv_layout = thd(tokens, q_heads + 2 * kv_heads, head_dim);
const std::size_t cache_bytes = static_cast<std::size_t>(pages) * page_size * kv_heads * head_dim * 2;

Frequencies yarn() {
  Rope rope{.head_dim = head_dim, .pairing = Pairing::half};
  rope.scaling = Yarn{.factor = 4, .trained_length = 4096};
  return frequencies(rope);
}

// The inputs of a step, on the host.
struct Inputs {
  explicit Inputs(Random& random)
      : positions(tokens),
        slots(pages * page_size),
        q(hard_values(random, dtype, extent(q_layout))),
        k(hard_values(random, dtype, extent(k_layout))),
        qkv(hard_values(random, dtype, extent(qkv_layout))),
        weight(hard_values(random, DType::f32, head_dim)) {
    for (std::int64_t& p : positions) p = below(random, 1 << 20) - 1000;
    std::iota(slots.begin(), slots.end(), 0);
    std::shuffle(slots.begin(), slots.end(), random);
    slots.resize(tokens);
    slots[random() % tokens] = -1;
  }
  std::vector<std::int64_t> positions, slots;
  Bytes q, k, qkv, weight;
};

struct Step {
  explicit Step(const Inputs& in) {
    norm.weight = weight.data();
    norm.one_plus = true;
    put(in);
  }
  void put(const Inputs& in) {
    positions.put(in.positions.data());
    slots.put(in.slots.data());
    for (const auto& [to, from] : {std::pair(&q, &in.q), {&k, &in.k}, {&qkv, &in.qkv}, {&weight, &in.weight}})
      to->put(*from);
    q_out.put(patterned(bytes_of(q_layout, dtype)));
    for (const Device* cache : {&k_cache, &v_cache}) cache->put(patterned(cache_bytes));
  }
  gpu::Positions on_positions() const { return {positions.as<const std::int64_t>(), tokens}; }
  Heads q_heads_of() const { return {q.data(), dtype, q_layout}; }
  Heads k_heads_of() const { return {k.data(), dtype, k_layout}; }
  gpu::Cache cache() const { return gpu::nhd(k_cache.data(), v_cache.data(), pages, page_size, kv_heads, head_dim); }
  gpu::Slots to() const { return gpu::Slots::flat(slots.as<const std::int64_t>()); }

  void run(const gpu::Rotation& by, cudaStream_t stream) const {
    gpu::rotate_qk(q_heads_of(), k_heads_of(), by, stream);
    gpu::norm_rotate_append({qkv.data(), dtype, qkv_layout}, kv_heads, {q_out.data(), dtype, q_layout}, norm, norm, by,
                            cache(), to(), stream);
  }

  Device positions{tokens * 8}, slots{tokens * 8};
  Device q = device_for(q_layout, dtype), k = device_for(k_layout, dtype), qkv = device_for(qkv_layout, dtype);
  Device weight{head_dim * 4}, q_out = device_for(q_layout, dtype), k_cache{cache_bytes}, v_cache{cache_bytes};
  gpu::Norm norm;
};

// The same calls one by one, without a graph, in memory of their own.
void expect_step(const Step& got, const Inputs& in, const Frequencies& f, bool with_table) {
  const gpu::Frequencies on_device(with(f, Pairing::half));
  const Step wanted(in);
  const gpu::Table table(on_device, wanted.on_positions());
  wanted.run(with_table ? gpu::Rotation(table) : gpu::Rotation(on_device, wanted.on_positions()), nullptr);
  const std::vector<bool> q_turns = rotated_elements(q_layout, head_dim),
                          k_turns = rotated_elements(k_layout, head_dim);
  EXPECT_TRUE(same(got.q.get().data(), wanted.q.get().data(), dtype, extent(q_layout), q_turns));
  EXPECT_TRUE(same(got.k.get().data(), wanted.k.get().data(), dtype, extent(k_layout), k_turns));
  EXPECT_TRUE(same(got.q_out.get().data(), wanted.q_out.get().data(), dtype, extent(q_layout), q_turns));
  const std::vector<bool> every(cache_bytes / 2, true);
  EXPECT_TRUE(same(got.k_cache.get().data(), wanted.k_cache.get().data(), dtype, cache_bytes / 2, every));
  EXPECT_TRUE(got.v_cache.get() == wanted.v_cache.get());
  if (!with_table) return;
  Bytes q = in.q;
  const Table rows(with(f, Pairing::half), Positions(in.positions));
  reference::rotate({q.data(), dtype, q_layout}, {q.data(), dtype, q_layout}, rows);
  EXPECT_TRUE(same(got.q.get().data(), q.data(), dtype, extent(q_layout), q_turns)) << "the reference";
}

class GpuGraph : public Gpu {
 protected:
  ~GpuGraph() override { gpu::overlapped_launches() = overlapped; }
  // Replays the graph of step, by table where that is not null, each time with other inputs, and compares.
  void expect_replays(const Graph& graph, Step& step, const gpu::Table* table = nullptr) {
    for (int replay = 0; replay < 4; ++replay) {
      SCOPED_TRACE(replay);
      const Inputs in(random);
      step.put(in);
      order_threads(random);
      graph.replay();
      expect_step(step, in, f, table != nullptr);
      if (table == nullptr) continue;
      EXPECT_TRUE(same_rows(table->host(), Table(with(f, Pairing::half), Positions(in.positions))));
    }
  }
  // The rows of table, then the step by them.
  Graph captured(gpu::Table& table, const Step& step) const {
    return Graph(stream, [&] {
      table.assign(on_device, step.on_positions(), {}, stream);
      step.run(table, stream);
    });
  }

  const bool overlapped = gpu::overlapped_launches();
  Random random{1};
  const Frequencies f = yarn();
  const gpu::Frequencies on_device{with(f, Pairing::half)};
  const Stream stream;
};

TEST_F(GpuGraph, OfATableAndItsRotationsIsReplayedWithOtherPositions) {
  Step step{Inputs(random)};
  gpu::Table table;
  table.reserve(tokens, on_device.pairs());
  const Graph graph = captured(table, step);
  EXPECT_EQ(graph.nodes, 3u) << "the table, q and k, the fused step";
  EXPECT_EQ(table.tokens(), tokens);
  expect_replays(graph, step, &table);
}

TEST_F(GpuGraph, WithoutATableIsReplayedWithOtherPositions) {
  Step step{Inputs(random)};
  const Graph graph(stream, [&] { step.run(gpu::Rotation(on_device, step.on_positions()), stream); });
  EXPECT_EQ(graph.nodes, 2u);
  expect_replays(graph, step);
}

// Every operation, one launch each, in a graph of its own.
TEST_F(GpuGraph, TakesEveryOperationAsOneLaunch) {
  const Inputs in(random);
  const Step step(in);
  const Table rows(with(f, Pairing::half), Positions(in.positions));
  gpu::Table table(rows.cos(), rows.sin(), rows.pairs(), Pairing::half, 1, stream);
  EXPECT_TRUE(same_rows(table.host(stream), rows));
  const Heads q = step.q_heads_of(), k = step.k_heads_of(), q_out{step.q_out.data(), dtype, q_layout};
  const Device k_out = device_for(k_layout, dtype);
  const Heads k_to{k_out.data(), dtype, k_layout};
  const ConstHeads qkv(step.qkv.data(), dtype, qkv_layout), v(step.k.data(), dtype, k_layout);
  const gpu::Positions at = step.on_positions();
  const gpu::TableOptions bf16{Angles::float32, Rounding::bf16};
  const gpu::RotateOptions backward{Direction::backward, stream};
  const InOut both_q{q, q_out}, both_k{k, k_to};
  const gpu::Cache cache = step.cache();
  const gpu::Slots to = step.to();
  const gpu::Norm& norm = step.norm;
  const std::pair<const char*, std::function<void()>> operations[] = {
      {"assign", [&] { table.assign(on_device, at, {}, stream); }},
      {"assign float32", [&] { table.assign(on_device, at, bf16, stream); }},
      {"rotate", [&] { gpu::rotate(q, table, stream); }},
      {"rotate out of place", [&] { gpu::rotate(q, q_out, table, stream); }},
      {"rotate_qk", [&] { gpu::rotate_qk(q, k, table, stream); }},
      {"rotate_qk out of place", [&] { gpu::rotate_qk(both_q, both_k, table, stream); }},
      {"rotate backward", [&] { gpu::rotate(q, table, backward); }},
      {"rotate_qk backward", [&] { gpu::rotate_qk(q, k, table, backward); }},
      {"rms_norm", [&] { gpu::rms_norm(q, q_out, norm, stream); }},
      {"append", [&] { gpu::append(v, v, cache, to, stream); }},
      {"rotate_append", [&] { gpu::rotate_append(q, q_out, k, v, table, cache, to, stream); }},
      {"norm_rotate_append",
       [&] { gpu::norm_rotate_append(qkv, kv_heads, q_out, norm, norm, table, cache, to, stream); }},
  };
  for (const auto& [name, call] : operations) {
    const Graph graph(stream, call);
    EXPECT_EQ(graph.nodes, 1u) << name;
    graph.replay();
#ifdef ROTARY_GPU_EMULATED
    gpu_emulator::reset_counts();
    call();
    const gpu_emulator::Counts did = gpu_emulator::counts();
    EXPECT_EQ(did.launches, 1) << name;
    EXPECT_EQ(did.allocations, 0) << name;
    EXPECT_EQ(did.frees, 0) << name;
    EXPECT_EQ(did.copies, 0) << name;
    EXPECT_EQ(did.synchronisations, 0) << name;
#endif
  }
}

// A graph would read the host's positions at each replay, from memory that may be gone by then.
TEST_F(GpuGraph, TakesNoPositionsOfTheHosts) {
  const std::vector<std::int64_t> p(8, 7);
  gpu::Table table(on_device, Positions(p), {}, stream);  // now large enough
  std::string sentence;
  const Graph graph(
      stream, [&] { sentence = outcome_of([&] { table.assign(on_device, Positions(p), {}, stream); }).sentence; });
  EXPECT_NE(sentence.find("[table] a stream that a CUDA graph captures must read"), std::string::npos) << sentence;
  EXPECT_EQ(graph.nodes, 0u);
  table.assign(on_device, Positions(p), {}, stream);
  EXPECT_EQ(table.host(stream).tokens(), 8);
}

// As gpu.h advises, a graph writes and reads the rows at the address that it captured.
TEST_F(GpuGraph, StandsWhereItsTableIsUsedForMoreInBetweenIfThatWasReserved) {
  Step step{Inputs(random)};
  gpu::Table table;
  table.reserve(100, on_device.pairs());
  const float* const rows = table.cos();
  const Graph graph = captured(table, step);
  for (int replay = 0; replay < 2; ++replay) {
    table.assign(on_device, Positions(std::vector<std::int64_t>(100, replay)), {}, stream);
    EXPECT_EQ(table.cos(), rows);
    const Inputs in(random);
    step.put(in);
    graph.replay();
    expect_step(step, in, f, true);
  }
  table.reserve(101, on_device.pairs());
  EXPECT_NE(table.cos(), rows) << "now the graph's rows are gone";
}

TEST_F(GpuGraph, ATableAllocatesOnlyWhereItHasNeverBeenAsLarge) {
#ifndef ROTARY_GPU_EMULATED
  GTEST_SKIP() << "the emulator counts";
#else
  const std::vector<std::int64_t> p(100, 7);
  const Device d(p);
  const auto on = [&](std::int64_t n) { return gpu::Positions(d.as<const std::int64_t>(), n); };
  gpu::Table table;
  table.reserve(50, on_device.pairs());
  gpu_emulator::reset_counts();
  for (const std::int64_t n : {1, 50, 3, 0, 50}) table.assign(on_device, on(n));
  EXPECT_EQ(gpu_emulator::counts().allocations, 0);
  EXPECT_EQ(gpu_emulator::counts().synchronisations, 0);
  table.assign(on_device, on(51));
  EXPECT_GT(gpu_emulator::counts().allocations, 0);
  table.assign(on_device, Positions(std::span(p).first(51)));
  gpu_emulator::reset_counts();
  for (const std::size_t n : {1U, 51U, 3U}) table.assign(on_device, Positions(std::span(p).first(n)));
  EXPECT_EQ(gpu_emulator::counts().allocations, 0) << "positions on the host";
  gpu::Table other = std::move(table);
  table.assign(on_device, on(0));
  gpu_emulator::reset_counts();
  other.assign(on_device, on(51));
  EXPECT_EQ(gpu_emulator::counts().allocations, 0) << "what has moved";
#endif
}

// ---- launches that overlap -----------------------------------------------------------------------

// Operations each of which reads what the one before it wrote, in the same memory round after round: a kernel that does
// not wait for the one before it gives other bits. On the host by the reference.
struct Chain {
  static constexpr std::int64_t tokens = 200, slots = 256;
  static constexpr int rounds = 12, calls = 5, keep = 1, drop = 1;
  static Bytes values(Random& random, std::int64_t count) {  // finite ones of bf16
    Bytes data(static_cast<std::size_t>(count) * 2);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto bits = static_cast<std::uint32_t>(random());
      set_bits(data.data(), dtype, i, (bits & 0x807f) | (120 + bits / 65536 % 8) << 7);
    }
    return data;
  }
  Chain(Random& random, const Frequencies& frequencies)
      : f(frequencies), turn(f, Positions(std::vector<std::int64_t>{-drop})) {
    for (std::int64_t& p : positions) p = below(random, 1 << 20);
    std::iota(slot.begin(), slot.end(), 0);
    std::shuffle(slot.begin(), slot.end(), random);
    slot.resize(tokens);
    for (const auto& [there, here] :
         {std::pair(&q_there, &q), {&k_there, &k}, {&k_cache_there, &k_cache}, {&v_cache_there, &v_cache}})
      there->put(*here);
    positions_there.put(positions.data());
    slot_there.put(slot.data());
    table.reserve(tokens, f.pairs());
  }
  void enqueue(cudaStream_t stream) {
    const Heads q_of{q_there.data(), dtype, q_like}, k_of{k_there.data(), dtype, k_like};
    const gpu::Cache cache =
        gpu::nhd(k_cache_there.data(), v_cache_there.data(), slots / page_size, page_size, kv_heads, head_dim);
    for (int r = 0; r < rounds; ++r) {
      table.assign(on_device, gpu::Positions(positions_there.as<const std::int64_t>() + r * tokens, tokens), {},
                   stream);
      gpu::rotate_qk(q_of, k_of, table, stream);
      gpu::append(k_of, {q_there.data(), dtype, v_like}, cache, gpu::Slots::flat(slot_there.as<const std::int64_t>()),
                  stream);
      gpu::shift(cached(k_cache_there.data()), cached(v_cache_there.data()), turn_there, keep, drop, {}, stream);
      gpu::rotate({k_cache_there.data(), dtype, k_like}, k_of, table, stream);
    }
  }
  void compute() {
    const Heads q_of{q.data(), dtype, q_like}, k_of{k.data(), dtype, k_like};
    for (int r = 0; r < rounds; ++r) {
      const Table rows(f, Positions(std::span(positions).subspan(static_cast<std::size_t>(r) * tokens, tokens)));
      reference::rotate(q_of, q_of, rows);
      reference::rotate(k_of, k_of, rows);
      append(k_of, {q.data(), dtype, v_like},
             nhd(k_cache.data(), v_cache.data(), slots / page_size, page_size, kv_heads, head_dim),
             Slots::flat(slot.data()));
      shift(cached(k_cache.data()), cached(v_cache.data()), turn, keep, drop);
      reference::rotate({k_cache.data(), dtype, k_like}, k_of, rows);
    }
  }
  bool agrees() const {
    return q_there.get() == q && k_there.get() == k && k_cache_there.get() == k_cache && v_cache_there.get() == v_cache;
  }
  static Heads cached(std::byte* data) { return {data, dtype, bthd(slots / page_size, page_size, kv_heads, head_dim)}; }
  static Layout values_like() {  // the first heads of q
    Layout layout = thd(tokens, q_heads, head_dim);
    layout.heads = kv_heads;
    return layout;
  }

  const Layout q_like = thd(tokens, q_heads, head_dim), k_like = thd(tokens, kv_heads, head_dim),
               v_like = values_like();
  Random values_of{7};
  Bytes q = values(values_of, extent(q_like)), k = values(values_of, extent(k_like));
  Bytes k_cache = values(values_of, extent(k_like) / tokens * slots), v_cache = k_cache;
  std::vector<std::int64_t> positions = std::vector<std::int64_t>(rounds * tokens),
                            slot = std::vector<std::int64_t>(slots);
  const Frequencies f;
  const Table turn;
  const Device q_there{q.size()}, k_there{k.size()}, k_cache_there{k_cache.size()}, v_cache_there{v_cache.size()};
  const Device positions_there{rounds * tokens * 8}, slot_there{tokens * 8};
  const gpu::Frequencies on_device{f};
  const gpu::Table turn_there = upload(turn);
  gpu::Table table;
};

TEST_F(GpuGraph, OverlappedLaunchesHaveTheBitsOfTheReference) {
  Chain chain(random, with(f, Pairing::half));
  order_threads(random);
  gpu::overlapped_launches() = true;
  for (int round = 0; round < 3; ++round) {
    chain.enqueue(stream);
    chain.compute();
    gpu::synchronize(stream);
    ASSERT_TRUE(chain.agrees()) << round;
  }
  const Graph graph(stream, [&] { chain.enqueue(stream); });
  EXPECT_EQ(graph.nodes, std::size_t{Chain::calls * Chain::rounds + Chain::rounds}) << "shift: one for k, one for v";
  for (int replay = 0; replay < 3; ++replay) {
    graph.replay();
    chain.compute();
    ASSERT_TRUE(chain.agrees()) << "replay " << replay;
  }
}

#ifdef ROTARY_GPU_EMULATED
TEST_F(GpuGraph, LaunchesOverlapWhereThatIsOnAndTheCodeWaits) {
  Chain chain(random, with(f, Pairing::half));
  std::int64_t queries = 0;
  for (const int device : {0, 1, 0, 1}) {
    check(cudaSetDevice(device));
    for (const bool on : {true, false, true}) {
      gpu::overlapped_launches() = on;
      gpu_emulator::reset_counts();
      chain.enqueue(stream);
      const gpu_emulator::Counts did = gpu_emulator::counts();
      EXPECT_EQ(did.launches, (Chain::calls + 1) * Chain::rounds);
      EXPECT_EQ(did.overlapped, on && device == 0 ? did.launches : 0) << device << on;
      queries += did.queries;
    }
  }
  check(cudaSetDevice(0));
  EXPECT_LE(queries, 2) << "a device is asked once";
}
#endif

}  // namespace
}  // namespace rotary::tests
