// rotary: rotary position embeddings for every published model, exact and tested.
//
//   Rope --frequencies()--> Frequencies --Table(positions)--> Table --rotate(Heads)--> your memory
//
// Every arrow is a pure function of values. Bad input throws rotary::Error; nothing prints, exits or starts a thread.
// Only views keep a pointer to the caller's memory: Positions of a range, Heads, and a Table made by Table::borrow.
// Several threads may use one const Table at the same time; assign() needs it alone.
#pragma once

#include <cstdint>

#include "rotary/error.h"
#include "rotary/export.h"
#include "rotary/heads.h"
#include "rotary/rope.h"
#include "rotary/table.h"
#include "rotary/threads.h"
#include "rotary/version.h"

namespace rotary {

// ---- rotate: (a, b) -> (a cos - b sin, b cos + a sin) --------------------------------------------

enum class Direction : std::uint8_t {
  forward,
  backward,  // the gradient: the transposed map. It is the inverse only if the attention factor is 1.
};

// How an out-of-place call writes: a matter of speed only. Calls in place ignore it.
enum class Stores : std::uint8_t {
  automatic,  // whichever copies that much data faster on this machine
  cached,     // into the caches: the result is read at once
  streaming,  // past the caches: the result is not read soon
};

// rotate(x, table, {.direction = Direction::backward}), rotate(x, table, {.first = 64, .executor = &pool}).
struct RotateOptions {
  Direction direction = Direction::forward;
  Stores stores = Stores::automatic;
  int first = 0;  // element of the head where the rotated block begins
  // For engines whose threads all make the same call (ggml's ith of nth): the call does part `part` of `parts` of the
  // work on its own thread. Call each part once, from any threads, at the same time or one after the other: together
  // they do what one call does. VALUE unless 0 <= part < parts, and with an executor.
  int part = 0;
  int parts = 1;
  const Executor* executor = nullptr;  // null: serial()
};

// The input and output of an out-of-place operation.
struct InOut {
  ConstHeads in;
  Heads out;
};

// Chooses the instruction set (targets.h) and reads the sizes of the machine's caches. Without this call the first
// table or rotation of a process does it: it reads /sys/devices/system/cpu and allocates. Throws TARGET, as they would.
ROTARY_API void prepare();

// Elements [first, first + table.rotary_dim()) of each head rotate; the others keep their bits (out of place, they are
// copied). In f32: product, product, sum, no fused multiply-add; f16 and bf16 convert at the edges, to nearest even.
// Subnormals are kept. The result does not depend on target, threads or split.
// Throws SHAPE (tokens or batch differ from the table's, the block reaches beyond head_dim, written elements overlap),
// DTYPE (in and out differ, misaligned data), ALIAS (x and out overlap without being the same), PAIRING, VALUE (an
// unknown direction or an unknown value of stores).
ROTARY_API void rotate(const Heads& x, const Table&, const RotateOptions& = {});
ROTARY_API void rotate(const ConstHeads& x, const Heads& out, const Table&, const RotateOptions& = {});

// q and k in one call. They may differ in heads, head_dim, strides and dtype. They may be parts of one packed tensor,
// its heads of q, of k and of v, as views of its memory with its strides: one pass rotates both and leaves v alone.
// Out of place: rotate_qk({q, q_out}, {k, k_out}, table).
// Throws what rotate throws, ALIAS if written elements of q and k overlap, and SCALING for a table with xPos: keys need
// its inverse amplitude, so rotate q and k by one table each.
ROTARY_API void rotate_qk(const Heads& q, const Heads& k, const Table&, const RotateOptions& = {});
ROTARY_API void rotate_qk(const InOut& q, const InOut& k, const Table&, const RotateOptions& = {});
// The common case in one call, in place: q and k of tokens at first_position, first_position + 1, ..., by
// frequencies(rope, first_position + tokens) with exact angles, and with xPos k by the inverse amplitude. Callers with
// several layers make one Table for all of them instead. config.h has the same for a model's rope, whose rotated block
// need not begin at element 0. Throws what frequencies, Table and rotate_qk throw, and SHAPE if head_dim is not the
// rope's.
ROTARY_API void rotate_qk(const Heads& q, const Heads& k, const Rope&, std::int64_t first_position,
                          const RotateOptions& = {});

// By rows of the caller's or of a table, found by number. f32 rows are read where they lie; f16 and bf16 rows, and
// those with rows for each head, are first copied into memory that the call allocates. Table(Rows) does that once for
// all layers, and every other function takes it. Also throws the errors of Table(Rows).
ROTARY_API void rotate(const Heads& x, const Rows&, const RotateOptions& = {});
ROTARY_API void rotate(const ConstHeads& x, const Heads& out, const Rows&, const RotateOptions& = {});
ROTARY_API void rotate_qk(const Heads& q, const Heads& k, const Rows&, const RotateOptions& = {});
ROTARY_API void rotate_qk(const InOut& q, const InOut& k, const Rows&, const RotateOptions& = {});

}  // namespace rotary
