#include "memory.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "apps/shared/system.h"
#include "rotary/error.h"
#include "values/storage.h"

namespace rotary::cli::bench {

using namespace rotary::detail;

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::int64_t page = 4096, line = 64;

std::size_t rounded_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

// The number behind the key, as in "MemAvailable: 24117248 kB", or without a key the first word; -1 if there is no
// number ("max", no such file).
double number_in(const char* path, const std::string& key) {
  std::ifstream stream(path);
  std::string word;
  while (!key.empty() && stream >> word && word != key) continue;
  double value = -1;
  return stream >> value ? value : -1;
}

}  // namespace

Arena::~Arena() { release(); }

void Arena::release() noexcept {
  if (mapping_ != nullptr) unmap_pages(mapping_, mapped_);
  mapping_ = nullptr;
  size_ = 0;
}

std::byte* Arena::reserve(std::size_t bytes) {
  if (bytes <= size_) return begin_;
  release();
  size_ = rounded_up(bytes, huge_page);
  mapped_ = size_ + huge_page;
  mapping_ = map_pages(mapped_);
  if (mapping_ == nullptr) {
    size_ = 0;
    throw Error(Code::MEMORY, "[bench] buffers must fit in memory but got " + std::to_string(bytes) + " bytes");
  }
  begin_ = reinterpret_cast<std::byte*>(rounded_up(reinterpret_cast<std::uintptr_t>(mapping_), huge_page));
  if (huge_pages_) advise_huge_pages(begin_, size_);
  std::memset(begin_, 1, size_);
  return begin_;
}

double free_memory() {
  double free = number_in("/proc/meminfo", "MemAvailable:") * 1024;
  if (free < 0) free = memory_at_most();
  const double allowed = number_in("/sys/fs/cgroup/memory.max", "");
  const double used = number_in("/sys/fs/cgroup/memory.current", "");
  if (allowed >= 0 && used >= 0) free = std::min(free, std::max(0.0, allowed - used));
  return 0.95 * free;
}

std::int64_t pages_of(const Cell& cell) { return (cell.batch * cell.tokens + page_size - 1) / page_size; }

namespace {

// Bytes from the begin of a block of tensors.
struct Offsets {
  explicit Offsets(const Cell& cell) {
    const std::int64_t kv_heads = appends(cell.op) ? 0 : cell.kv_heads;
    const std::int64_t q_heads = cell.heads + (appends(cell.op) ? 2 * cell.kv_heads : 0);
    k = round_up(heads_bytes(cell, q_heads), line);
    in_bytes = out_bytes = round_up(k + heads_bytes(cell, kv_heads), line);
    moved = std::min(line_bytes(cell), in_bytes);
    if (appends(cell.op)) {
      const std::int64_t values = pages_of(cell) * page_size * cell.kv_heads * cell.head_dim;
      cache_bytes = round_up(values * (cell.f8 ? 1 : static_cast<std::int64_t>(size_of(cell.dtype))), 256);
      cache = round_up(heads_bytes(cell, cell.heads), 256);
      out_bytes = std::max(cache + 2 * cache_bytes, moved);
    }
    // Half a page apart, so that no store waits for a load with the same low address bits.
    out = cell.in_place && !cell.cuda ? 0 : round_up(in_bytes, page) + page / 2;
  }
  std::int64_t k = 0, in_bytes = 0, out = 0, out_bytes = 0, moved = 0;
  std::int64_t cache = 0, cache_bytes = 0;  // from out; of k, and as many of v
};

// Some heads of a tensor.
Heads part_of(const Heads& all, std::int64_t first, std::int64_t count) {
  Heads part = all;
  part.layout.heads = count;
  part.data = static_cast<std::byte*>(all.data) +
              first * all.layout.head_stride * static_cast<std::int64_t>(size_of(all.dtype));
  return part;
}

}  // namespace

std::size_t Tensors::bytes_of(const Cell& cell) {
  const Offsets at(cell);
  return static_cast<std::size_t>(at.out + at.out_bytes);
}

Tensors::Tensors(const Cell& cell, std::byte* begin) {
  const Offsets at(cell);
  in = begin;
  in_bytes = static_cast<std::size_t>(at.in_bytes);
  out = in + at.out;
  out_bytes = static_cast<std::size_t>(at.out_bytes);
  moved = static_cast<std::size_t>(at.moved);
  if (!appends(cell.op)) {
    std::byte* const results = cell.in_place ? in : out;
    q = {in, cell.dtype, layout_of(cell, cell.heads)};
    k = {in + at.k, cell.dtype, layout_of(cell, cell.kv_heads)};
    q_out = {results, cell.dtype, q.layout};
    k_out = {results + at.k, cell.dtype, k.layout};
    return;
  }
  qkv = {in, cell.dtype, layout_of(cell, cell.heads + 2 * cell.kv_heads)};
  q = part_of(qkv, 0, cell.heads);
  k = part_of(qkv, cell.heads, cell.kv_heads);
  v = part_of(qkv, cell.heads + cell.kv_heads, cell.kv_heads);
  q_out = cell.in_place ? q : Heads{out, cell.dtype, layout_of(cell, cell.heads)};
  k_cache = out + at.cache;
  v_cache = k_cache + at.cache_bytes;
}

std::vector<std::byte> fill_pattern(DType dtype) {
  constexpr std::size_t period = 65521;  // a prime, so that no two rows are equal
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> values(period * size);
  std::uint32_t state = 1;
  for (std::size_t at = 0; at < values.size(); at += size) {
    state = state * 1664525U + 1013904223U;
    const float magnitude = 0.25F + 1.75F * 0x1p-22F * static_cast<float>(state >> 8 & 0x3fffff);
    const float value = state >> 31 == 0 ? magnitude : -magnitude;
    const std::uint16_t half = dtype == DType::f16 ? encode_f16(value).bits : encode_bf16(value).bits;
    std::memcpy(values.data() + at, dtype == DType::f32 ? static_cast<const void*>(&value) : &half, size);
  }
  return values;
}

}  // namespace rotary::cli::bench
