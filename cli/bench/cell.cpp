#include "cell.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "cpu/tuning.h"
#include "plain_loop.h"
#include "rotary/reference.h"
#include "rotary/targets.h"
#include "values/fail.h"

namespace rotary::cli::bench {

namespace {

Frequencies frequencies_of(const Cell& cell) { return frequencies({.head_dim = head_dim, .pairing = cell.pairing}); }

// The heads of these tokens, contiguous: [tokens, heads, head_dim].
std::vector<std::byte> gathered(const Heads& x, const std::vector<std::int64_t>& tokens) {
  const std::size_t row = static_cast<std::size_t>(x.layout.heads * head_dim) * size_of(x.dtype);
  std::vector<std::byte> rows(tokens.size() * row);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    std::memcpy(rows.data() + i * row, static_cast<std::byte*>(x.data) + static_cast<std::size_t>(tokens[i]) * row,
                row);
  return rows;
}

std::string words_of(const Cell& cell) {
  return std::string(name(cell.dtype)) + " " + name(cell.pairing) + ", " + std::to_string(cell.tokens) +
         (cell.tokens == 1 ? " token, " : " tokens, ") + place(cell);
}

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work, int runs) {
  const Clock::time_point begin = Clock::now();
  for (int run = 0; run < runs; ++run) work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

std::vector<Cell> grid() {
  std::vector<Cell> cells;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t tokens : {1, 64, 2048, 8192}) {
      for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
        for (const bool in_place : {true, false}) cells.push_back({dtype, pairing, tokens, in_place});
      }
    }
  }
  const std::int64_t token_bytes = bytes({.dtype = DType::f32}) / 2;
  for (const std::int64_t halves : {1, 2, 3}) {
    const std::int64_t tokens = halves * (detail::tuning().last_cache / 2 / token_bytes);
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      cells.push_back({DType::f32, pairing, tokens, true});
      if (halves == 2) cells.push_back({DType::f32, pairing, tokens, true, true});
    }
  }
  return cells;
}

const char* place(const Cell& cell) {
  return cell.after_write ? "after write" : cell.in_place ? "in place" : "out of place";
}

std::int64_t elements(const Cell& cell) { return cell.tokens * (q_heads + kv_heads) * head_dim; }

std::int64_t bytes(const Cell& cell) { return 2 * elements(cell) * static_cast<std::int64_t>(size_of(cell.dtype)); }

// ---- a cell in memory ------------------------------------------------------------------------------

ReadyCell::ReadyCell(const Cell& cell, Memory& memory)
    : cell_(cell),
      target_(chosen_target()),
      table_(frequencies_of(cell), positions(1, cell.tokens)),
      size_(static_cast<std::size_t>(bytes(cell)) / 2) {
  const std::size_t pages = size_ / sizeof(Page) + 1;
  if (memory.size() < 2 * pages + 1) memory.resize(2 * pages + 1);
  in_ = memory[0].bytes;
  other_ = memory[pages].bytes + sizeof(Page) / 2;  // so that no store waits for a load with the same low address bits
  std::byte* const out = cell.in_place ? in_ : other_;
  const auto heads = [&](std::byte* at, std::int64_t before, std::int64_t count) {
    const auto skipped = static_cast<std::size_t>(cell.tokens * before * head_dim) * size_of(cell.dtype);
    return Heads{at + skipped, cell.dtype, bthd(1, cell.tokens, count, head_dim)};
  };
  q = heads(in_, 0, q_heads);
  k = heads(in_, q_heads, kv_heads);
  q_out = heads(out, 0, q_heads);
  k_out = heads(out, q_heads, kv_heads);
}

// Numbers between -2 and 2, the same each time, repeated in a period that no row divides.
void ReadyCell::write_inputs() const {
  constexpr std::size_t period = 65521;
  std::vector<std::byte> values(period * size_of(cell_.dtype));
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < period; ++i) {
    state = state * 1664525U + 1013904223U;
    const float value = 0x1p-30F * static_cast<float>(static_cast<std::int32_t>(state));
    const bf16 half = to_bf16(value);
    const void* const stored = cell_.dtype == DType::f32 ? static_cast<const void*>(&value) : &half;
    std::memcpy(values.data() + i * size_of(cell_.dtype), stored, size_of(cell_.dtype));
  }
  for (std::size_t done = 0; done < size_; done += values.size())
    std::memcpy(in_ + done, values.data(), std::min(values.size(), size_ - done));
}

void ReadyCell::fill() const {
  std::memset(other_, 0xee, size_);
  write_inputs();
}

void ReadyCell::rotate() const { rotate_qk({q, q_out}, {k, k_out}, table_); }

void ReadyCell::rotate_by_loop() const {
  for (const auto& [in, out] : {std::pair(q, q_out), std::pair(k, k_out)}) {
    const bool interleaved = cell_.pairing == Pairing::interleaved;
    const PlainJob job{in.data,         out.data, table_.cos().data(), table_.sin().data(),
                       in.layout.heads, head_dim, interleaved};
    rotate_plainly(target_, cell_.dtype, job, 0, cell_.tokens);
  }
}

void ReadyCell::copy() const { std::memcpy(other_, in_, size_); }

std::int64_t ReadyCell::verify(const char* name, const std::function<void()>& work) const {
  fill();
  std::vector<std::int64_t> tokens, their_positions;
  const std::int64_t count = std::min<std::int64_t>(cell_.tokens, 64);
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(i * (cell_.tokens - 1) / std::max<std::int64_t>(1, count - 1));
    their_positions.push_back(tokens.back() + 1);
  }
  const std::array before = {gathered(q, tokens), gathered(k, tokens)};
  work();
  const std::array after = {gathered(q_out, tokens), gathered(k_out, tokens)};
  const Table rows(frequencies_of(cell_), their_positions);
  std::int64_t compared = 0, different = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Layout layout = thd(count, i == 0 ? q_heads : kv_heads, head_dim);
    std::vector<std::byte> right(before[i].size());
    reference::rotate({before[i].data(), cell_.dtype, layout}, {right.data(), cell_.dtype, layout}, rows);
    for (std::size_t at = 0; at < right.size(); at += size_of(cell_.dtype), ++compared)
      different += std::memcmp(right.data() + at, after[i].data() + at, size_of(cell_.dtype)) == 0 ? 0 : 1;
  }
  if (different > 0)
    detail::fail(Code::CHECK, "bench", name, " must equal the reference bit for bit but ", different, " of ", compared,
                 " elements differ in ", words_of(cell_), " by target ", target_);
  return compared;
}

// ---- measuring -------------------------------------------------------------------------------------

Result measure(const ReadyCell& cell, double seconds) {
  constexpr double sample = 200e-6;  // seconds at least
  constexpr int least = 3, most = 1001;
  const std::array<std::function<void()>, 3> works = {[&] { cell.rotate(); }, [&] { cell.rotate_by_loop(); },
                                                      [&] { cell.copy(); }};
  cell.verify("the plain loop", works[1]);
  const std::int64_t verified = cell.verify("rotate_qk", works[0]);
  std::array<int, 3> runs = {1, 1, 1};
  for (std::size_t i = 0; i < works.size(); ++i) {
    while (seconds_of(works[i], runs[i]) < sample && runs[i] < 1 << 20) runs[i] *= 2;
  }
  std::array<std::vector<double>, 3> samples;
  int count = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (; count < least || (count < most && Clock::now() < end); ++count) {
    for (std::size_t turn = 0; turn < works.size(); ++turn) {
      const std::size_t i = count % 2 == 0 ? turn : works.size() - 1 - turn;  // out of step with the scheduler
      if (cell.after_write()) cell.write_inputs();
      if (runs[i] > 1) works[i]();  // the caches are as this work leaves them
      samples[i].push_back(seconds_of(works[i], runs[i]) / runs[i]);
    }
  }
  const auto median = [&](std::size_t i) {
    std::ranges::sort(samples[i]);
    return samples[i][samples[i].size() / 2];
  };
  return {median(0), median(1), median(2), count, verified};
}

}  // namespace rotary::cli::bench
