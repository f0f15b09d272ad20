// Random calls of rotate and rotate_qk, valid and invalid, for tests of refused calls. Calls that pass the checks
// stay inside the memory that they were given.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/tests/support/elements.h"
#include "core/tests/support/outcome.h"
#include "rotary/rotary.h"
#include "rotate/checks.h"

namespace rotary::tests {

using namespace detail;

struct RandomCall {
  enum Operation { one, qk };
  enum Side { q, k, q_out, k_out };
  Operation operation = one;
  bool in_place = true;
  Direction direction = Direction::forward;
  std::array<Heads, 4> sides;  // by Side; rotate uses those of q
  TableShape table;

  InOut q_in_out() const { return {sides[q], sides[q_out]}; }
  InOut k_in_out() const { return {sides[k], sides[k_out]}; }
  std::string name() const { return operation == one ? "rotate" : "rotate_qk"; }
};

// Source: has int below(int bound), which returns 0 when the source is used up.
template <class Source>
class RandomCalls {
 public:
  static constexpr std::size_t memory_bytes = 1 << 19;

  RandomCalls(Source& source, std::byte* memory) : source_(source), middle_(memory + memory_bytes / 2) {}

  RandomCall next() {
    RandomCall call = sound();
    for (int n = source_.below(4); n > 0; --n) break_one(call);
    return call;
  }

 private:
  static constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  // The checks refuse these counts and strides if there are elements: 2^62 elements of 2 bytes are too many.
  static constexpr std::int64_t extremes[] = {-1, -7, largest, std::int64_t{1} << 62, -largest - 1};

  bool coin() { return source_.below(2) == 1; }
  std::int64_t extreme() { return extremes[source_.below(5)]; }

  Layout nested(const Layout& sizes) {
    Random random(static_cast<std::uint64_t>(source_.below(256)));
    return nested_layout(random, sizes, false);
  }

  RandomCall sound() {
    RandomCall call;
    const int kind = source_.below(3);  // 2: the parts of one tensor
    call.operation = kind == 0 ? RandomCall::one : RandomCall::qk;
    call.in_place = coin();
    call.direction = static_cast<Direction>(source_.below(2));
    call.table = {static_cast<Pairing>(1 + source_.below(3)), 1 + source_.below(6), 1, 1 + source_.below(3)};
    Layout sizes{1 + source_.below(3), call.table.tokens, 1 + source_.below(4), 2 * call.table.pairs, 0, 0, 0};
    if (coin()) call.table.batch = static_cast<int>(sizes.batch);
    sizes.head_dim += source_.below(4);
    const auto dtype = static_cast<DType>(source_.below(3));
    for (std::size_t s = 0; s < 4; ++s) {
      Layout other = sizes;
      if (s % 2 == 1) other.heads = 1 + source_.below(4);
      if (s >= 2) other.heads = call.sides[s - 2].layout.heads;
      call.sides[s] = {middle_ + 8192 * s + 4 * static_cast<std::size_t>(source_.below(8)), dtype, nested(other)};
    }
    if (kind == 1 && source_.below(3) == 0) pack(call, 0);
    if (kind == 2) pack(call, call.sides[RandomCall::k].layout.heads);
    return call;
  }

  // Puts k's heads after q's in one tensor, as a projection writes them, in front of this many of v.
  void pack(RandomCall& call, std::int64_t v_heads) {
    for (const std::size_t side : {std::size_t{0}, std::size_t{2}}) {
      Heads &a = call.sides[side], &b = call.sides[side + 1];
      const std::int64_t heads = a.layout.heads, k_heads = b.layout.heads;
      Layout all = a.layout;
      all.heads += k_heads + v_heads;
      all = nested(all);
      a.layout = b.layout = all;
      a.layout.heads = heads;
      b.layout.heads = k_heads;
      b.data = at(a.data, heads * all.head_stride * static_cast<std::int64_t>(size_of(a.dtype)));
    }
  }

  // data + bytes; an invalid pointer is returned unchanged.
  void* at(void* data, std::int64_t bytes) const {
    const auto address = reinterpret_cast<std::uintptr_t>(data), middle = reinterpret_cast<std::uintptr_t>(middle_);
    if (address < middle - memory_bytes / 2 || address >= middle + memory_bytes / 2) return data;
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(bytes));
  }

  void break_one(RandomCall& call) {
    Heads& side = call.sides[static_cast<std::size_t>(source_.below(4))];
    const Heads& other = call.sides[static_cast<std::size_t>(source_.below(4))];
    Layout& l = side.layout;
    std::int64_t* const sizes[] = {&l.batch, &l.tokens, &l.heads};
    std::int64_t* const strides[] = {&l.batch_stride, &l.token_stride, &l.head_stride};
    const int kind = source_.below(12);
    if (kind <= 1) *strides[source_.below(3)] = source_.below(40);
    if (kind == 2) *strides[source_.below(3)] = extreme();
    if (kind == 3) *sizes[source_.below(3)] = source_.below(5);
    if (kind == 4) *sizes[source_.below(3)] = extreme();
    if (kind == 5) l.head_dim = coin() ? source_.below(20) : -source_.below(3);
    if (kind == 6) break_pointer(side);
    if (kind == 7) side.data = at(other.data, 2 * (source_.below(120) - 60));
    if (kind == 8) side.dtype = static_cast<DType>(coin() ? source_.below(5) : 255);
    if (kind == 9) l = other.layout;
    if (kind == 10) call.direction = static_cast<Direction>(source_.below(2) == 0 ? source_.below(4) : 255);
    if (kind == 11) break_table(call.table);
  }

  void break_pointer(Heads& side) {
    const int kind = source_.below(4);
    if (kind == 0) side.data = nullptr;
    // Two elements of 2 bytes reach the end of the address space.
    if (kind == 1) side.data = reinterpret_cast<void*>(std::numeric_limits<std::uintptr_t>::max() - 3);
    if (kind > 1) side.data = at(side.data, 1 + source_.below(3));
  }

  void break_table(TableShape& table) {
    const int kind = source_.below(4);
    if (kind == 0) table.tokens = source_.below(5);
    if (kind == 1) table.batch = source_.below(5);
    if (kind == 2) table.pairs = source_.below(12);
    if (kind == 3) table.pairing = static_cast<Pairing>(coin() ? source_.below(6) : 255);
  }

  Source& source_;
  std::byte* middle_;
};

// A table of that shape; for a shape that no table has, a moved-from one of no tokens and no pairs.
inline Table table_of(const TableShape& shape) {
  static const std::vector<float> ones(4096, 1.0f);
  const bool possible = shape.pairs > 0 && shape.batch > 0 && shape.pairing > Pairing::unset &&
                        shape.pairing <= Pairing::interleaved_to_half;
  if (!possible) {
    Table empty = Table::borrow(ones, ones, 1, Pairing::half);
    const Table target = std::move(empty);
    return empty;  // NOLINT: the moved-from table is wanted
  }
  const auto rows = std::span(ones).first(static_cast<std::size_t>(shape.tokens * shape.batch * shape.pairs));
  return Table::borrow(rows, rows, shape.pairs, shape.pairing, shape.batch);
}

// Makes the call with the public functions.
inline Outcome make_call(const RandomCall& call) {
  const Table table = table_of(call.table);
  return outcome_of([&] {
    const Heads &q = call.sides[RandomCall::q], &k = call.sides[RandomCall::k], &out = call.sides[RandomCall::q_out];
    const RotateOptions options{.direction = call.direction};
    if (call.operation == RandomCall::one)
      return call.in_place ? rotate(q, table, options) : rotate(q, out, table, options);
    call.in_place ? rotate_qk(q, k, table, options) : rotate_qk(call.q_in_out(), call.k_in_out(), table, options);
  });
}

// Runs only the checks, as for a table on a device: its shape and pairing may be anything.
inline Outcome checked(const RandomCall& call) {
  return outcome_of([&] {
    const Heads &q = call.sides[RandomCall::q], &k = call.sides[RandomCall::k], &out = call.sides[RandomCall::q_out];
    const std::string operation = call.name();
    if (call.operation == RandomCall::one) {
      const Names names{operation.c_str(), "x", call.in_place ? "x" : "out", ""};
      check_heads(names, q, call.in_place ? q : out, call.table, call.direction);
    } else {
      check_heads(operation.c_str(), call.in_place ? InOut{q, q} : call.q_in_out(),
                  call.in_place ? InOut{k, k} : call.k_in_out(), call.table, call.direction);
    }
  });
}

}  // namespace rotary::tests
