// Calls that must not compile: they would mean something else than they look like, or keep a pointer to what is gone.
// With -DSOUND each of them is written as it should be, and all compiles. check.sh runs the compiler over both.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rotary/cache.h"
#include "rotary/gpu.h"
#include "rotary/reference.h"
#include "rotary/rotary.h"

namespace {

using namespace rotary;

struct Given {
  Heads q, q_out, k, k_out;
  Table table;
  Frequencies frequencies;
  std::vector<std::int64_t> positions;
  std::vector<float> cos, sin;
  Rope rope;
  Layout layout;
};

[[maybe_unused]] void five_arguments(const Given& g) {
#ifdef SOUND
  rotate_qk({g.q, g.q_out}, {g.k, g.k_out}, g.table);
#else
  rotate_qk(g.q, g.q_out, g.k, g.k_out, g.table);  // must not compile
  rotate_qk(g.q, g.k, g.q_out, g.k_out, g.table);  // must not compile
#endif
}

[[maybe_unused]] void a_direction_is_no_flag(const Given& g) {
#ifdef SOUND
  rotate(g.q, g.table, {.direction = Direction::backward});
#else
  rotate(g.q, g.table, true);                           // must not compile
#endif
}

[[maybe_unused]] void rows_that_are_borrowed_outlive_the_table(const Given& g) {
#ifdef SOUND
  const Table made = Table::borrow(g.cos, g.sin, 1, Pairing::half);
#else
  const Table a = Table::borrow(std::vector<float>(4), g.sin, 1, Pairing::half);  // must not compile
  const Table b = Table::borrow(g.cos, std::vector<float>(4), 1, Pairing::half);  // must not compile
  const Table c = Table::borrow(g.cos, g.sin, 1);                                 // must not compile
#endif
}

[[maybe_unused]] void memory_outlives_its_heads(const Given& g) {
#ifdef SOUND
  std::vector<float> x(4);
  rotate(heads(x, g.layout), g.table);
#else
  const auto a = heads(std::vector<float>(4), g.layout);          // must not compile
  const auto b = heads(std::vector<double>(4), g.layout);         // must not compile
  std::vector<double> doubles(4);
  const auto c = heads(doubles, g.layout);                        // must not compile
  std::vector<std::uint16_t> words(4);
  const auto d = heads(words, g.layout);                          // must not compile
  const std::vector<float> readable(4);
  const Heads e = heads(readable, g.layout);                      // must not compile
  rotate(heads(readable, g.layout), g.table);                     // must not compile
#endif
}

[[maybe_unused]] void executors_outlive_their_options() {
#ifdef SOUND
  const ThreadPool pool(1);
  const TableOptions a(pool), b(Angles::exact, Rounding::f32, pool);
  [[maybe_unused]] const RotateOptions c{.executor = &pool}, d{.direction = Direction::backward, .part = 1, .parts = 2};
#else
  const TableOptions a(ThreadPool(1));                                   // must not compile
  const TableOptions b(Angles::exact, Rounding::f32, ThreadPool(1));     // must not compile
  [[maybe_unused]] const RotateOptions c{.executor = &ThreadPool(1)};    // must not compile
#endif
}

// A cache on a device is not one of the host, though append takes nothing else that could tell.
[[maybe_unused]] void caches_know_where_they_lie(const Given& g, const Cache& here, const gpu::Cache& there) {
  const Slots slots = Slots::rows(0);
  const gpu::Slots on_device = gpu::Slots::flat(nullptr);
#ifdef SOUND
  append(g.k, g.q, here, slots);
  append(g.k, g.q, there, on_device);
  append(g.k, g.q, here, slots, {.executor = &serial()});
#else
  rotary::append(g.k, g.q, there, on_device);              // must not compile
  gpu::append(g.k, g.q, here, slots);                      // must not compile
  append(g.k, g.q, here, on_device);                       // must not compile
  gpu::Slots::rows(0);                                     // must not compile
  append(g.k, g.q, here, slots, {.executor = &ThreadPool(1)});           // must not compile
#endif
}

[[maybe_unused]] void the_executor_of_a_table_is_never_null() {
#ifdef SOUND
  const TableOptions options(Angles::exact, Rounding::f32, serial());
#else
  const TableOptions options(Angles::exact, Rounding::f32, nullptr);     // must not compile
#endif
}

[[maybe_unused]] void positions_are_as_they_were_made(const Given& g) {
#ifdef SOUND
  const Positions p(g.positions, 1, 1);
  const std::int64_t tokens = p.tokens() + p.axes() + p.batch();
  (void)tokens;
#else
  Positions p(g.positions, 1, 1);
  p.tokens = 7;                                   // must not compile
  p.axes = 2;                                     // must not compile
  p.axes_ = 2;                                    // must not compile
  p.data_ = nullptr;                              // must not compile
  const Positions none;                           // must not compile
  const Positions yes(true);                      // must not compile
#endif
}

[[maybe_unused]] void roundings_are_no_dtypes(const Given& g) {
#ifdef SOUND
  const Table made(g.frequencies, g.positions, {Angles::exact, Rounding::bf16});
  reference::rotate(g.q, g.q_out, g.table, Direction::forward, reference::Arithmetic::each_step);
#else
  const Table made(g.frequencies, g.positions, {Angles::exact, DType::bf16});      // must not compile
  reference::rotate(g.q, g.q_out, g.table, Rounding::each_step);                   // must not compile
  reference::rotate(g.q, g.q_out, g.table, Rounding::once);                        // must not compile
  reference::rotate(g.q, g.q_out, g.table, reference::Arithmetic::each_step);      // must not compile
#endif
}

[[maybe_unused]] void codes_are_no_strings(const Error& error) {
#ifdef SOUND
  throw Error(Code::SHAPE, "rotate", error.code() == Code::SHAPE ? "a rule" : name(error.code()));
#else
  const std::string code = error.code();          // must not compile
  if (error.code() == "SHAPE") return;            // must not compile
  throw Error("SHAPE", "a rule");                 // must not compile
#endif
}

[[maybe_unused]] void by_a_rope_or_by_a_table(const Given& g) {
#ifdef SOUND
  rotate_qk(g.q, g.k, g.rope, 7);
#else
  rotate_qk(g.q, g.k, g.rope);                    // must not compile
  rotate_qk(g.q, g.k, g.table, 7);                // must not compile
#endif
}

struct OnDevice {
  gpu::Table table;
  gpu::Frequencies frequencies;
  gpu::Positions positions;
};

[[maybe_unused]] void what_a_rotation_points_to_outlives_it(const Given& g, OnDevice& d) {
#ifdef SOUND
  const gpu::Rotation by_table(d.table), by_positions(d.frequencies, {g.positions.data(), 1});
  gpu::rotate(g.q, by_table);
#else
  const gpu::Rotation a(gpu::Table(d.frequencies, d.positions));                    // must not compile
  const gpu::Rotation b(gpu::Frequencies(g.frequencies), d.positions);              // must not compile
#endif
}

[[maybe_unused]] void on_a_device_as_on_the_cpu(const Given& g, OnDevice& d) {
#ifdef SOUND
  gpu::rotate_qk({g.q, g.q_out}, {g.k, g.k_out}, d.table);
  const gpu::Table table(d.frequencies, d.positions, {Angles::exact, Rounding::bf16});
#else
  gpu::rotate_qk(g.q, g.q_out, g.k, g.k_out, d.table);                              // must not compile
  const gpu::Table table(d.frequencies, d.positions, {Angles::exact, DType::bf16}); // must not compile
  d.positions.tokens = 7;                                                           // must not compile
  d.frequencies.arrays();                                                           // must not compile
#endif
}

}  // namespace
