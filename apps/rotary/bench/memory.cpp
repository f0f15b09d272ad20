// The memory of cells: blocks of the host's, and where the tensors lie in a block.
#include "bench.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "apps/shared/system.h"
#include "values/fail.h"
#include "values/storage.h"

namespace rotary::cli::bench {

using namespace rotary::detail;

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::int64_t small_page = 4096;

constexpr std::size_t whole_huge_pages(std::size_t bytes) { return (bytes + huge_page - 1) / huge_page * huge_page; }

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

std::byte* Arena::reserve(std::size_t bytes) {
  if (bytes <= size_) return begin_;
  mapping_.reset();
  size_ = 0;
  const std::size_t size = whole_huge_pages(bytes), mapped = size + huge_page;
  void* const mapping = map_pages(mapped);
  if (mapping == nullptr) fail(Code::MEMORY, "bench", "buffers must fit in memory but got ", bytes, " bytes");
  mapping_ = {mapping, [mapped](void* pages) { unmap_pages(pages, mapped); }};
  begin_ = reinterpret_cast<std::byte*>(whole_huge_pages(reinterpret_cast<std::uintptr_t>(mapping)));
  size_ = size;
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

Tensors::Tensors(const Cell& cell, std::byte* begin) {
  const auto sized = [](std::int64_t size) { return static_cast<std::size_t>(size); };
  const bool cached = appends(cell.op);
  const std::int64_t q_heads = cell.heads + (cached ? 2 * cell.kv_heads : 0);
  const std::int64_t k_at = round_up(heads_bytes(cell, q_heads), cache_line);
  const std::int64_t read = round_up(k_at + (cached ? 0 : heads_bytes(cell, cell.kv_heads)), cache_line);
  const std::int64_t cache_at = round_up(heads_bytes(cell, cell.heads), 256);
  const std::int64_t values = pages_of(cell) * page_size * cell.kv_heads * cell.head_dim;
  const std::int64_t cache = round_up(values * (cell.f8 ? 1 : static_cast<std::int64_t>(size_of(cell.dtype))), 256);
  // Half a page apart, so that no store waits for a load with the same low address bits.
  const std::int64_t out_at = cell.in_place && !cell.cuda ? 0 : round_up(read, small_page) + small_page / 2;
  in_bytes = sized(read);
  moved = std::min(sized(line_bytes(cell)), in_bytes);
  out_bytes = cached ? std::max(sized(cache_at + 2 * cache), moved) : in_bytes;
  all_bytes = sized(out_at) + out_bytes;
  if (begin == nullptr) return;
  in = begin;
  out = in + out_at;
  std::byte* const results = cell.in_place ? in : out;
  const auto heads = [&](std::byte* at, std::int64_t count) { return Heads{at, cell.dtype, layout_of(cell, count)}; };
  if (!cached) {
    q = heads(in, cell.heads);
    k = heads(in + k_at, cell.kv_heads);
    q_out = heads(results, cell.heads);
    k_out = heads(results + k_at, cell.kv_heads);
    return;
  }
  qkv = heads(in, q_heads);
  const auto part = [&](std::int64_t first, std::int64_t count) {
    const std::int64_t before = first * qkv.layout.head_stride * static_cast<std::int64_t>(size_of(cell.dtype));
    Heads some{in + before, cell.dtype, qkv.layout};
    some.layout.heads = count;
    return some;
  };
  q = part(0, cell.heads);
  k = part(cell.heads, cell.kv_heads);
  v = part(cell.heads + cell.kv_heads, cell.kv_heads);
  q_out = cell.in_place ? q : heads(out, cell.heads);
  k_cache = out + cache_at;
  v_cache = k_cache + cache;
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
