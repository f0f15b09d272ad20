// shift on the device: the same checks as on the CPU, then a launch for k and one for v.
#include <algorithm>

#include "jobs.h"
#include "rotate/shift_checks.h"

namespace rotary::gpu {
namespace {

void move(const Heads& x, const Table* table, ShiftJob job, Stream stream) {
  const Layout& l = x.layout;
  if (!has_elements(l)) return;
  job.data = static_cast<std::byte*>(x.data);
  job.dtype = x.dtype;
  job.pages = l.batch;
  job.page_size = l.tokens;
  job.heads = l.heads;
  set_strides(job.stride, l);
  job.head_dim = l.head_dim;
  if (table != nullptr) {
    job.pairs = table->pairs();
    job.by.cos = table->cos();
    job.by.sin = table->sin();
    job.by.heads = table->head_rows();
    job.interleaved = table->pairing() == Pairing::interleaved;
  }
  launch_shift(job, stream);
}

}  // namespace

void shift(const Heads& k, const Heads& v, const Table& table, std::int64_t keep, std::int64_t drop,
           const Sequences& sequences, Stream stream) {
  const TableShape rows{table.pairing(), table.pairs(), table.batch(), table.tokens(), table.head_rows()};
  ShiftJob job;
  job.count = rotary::detail::check_shift(k, v, rows, table.cos(), table.sin(), keep, drop, sequences);
  Heads token = k;
  token.layout.tokens = token.layout.batch = 1;
  check_heads({"shift", "k", "k", ""}, token, token, rows);
  if (rows.pairing == Pairing::interleaved_to_half)
    fail(Code::PAIRING, "shift", "the table must be half or interleaved but is interleaved_to_half");
  const std::int64_t tokens = k.layout.tokens;
  job.most = sequences.indptr == nullptr ? tokens : rotary::detail::product(k.layout.batch, tokens);
  if (drop == 0 || keep >= job.most || drop >= job.most - keep) return;
  job.keep = keep;
  job.drop = drop;
  job.sequences = sequences;
  move(k, &table, job, stream);
  move(v, nullptr, job, stream);
}

}  // namespace rotary::gpu
