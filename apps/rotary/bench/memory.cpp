#include "memory.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "apps/shared/system.h"
#include "rotary/error.h"
#include "runtime/last_cache.h"
#include "values/dtypes.h"

namespace rotary::cli::bench {

using namespace rotary::detail;

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t page = 4096;
constexpr std::size_t line = 64;

// A floating-point number of magnitude 0.25 to 2 from 32 random bits: sign, one of three exponents, fraction.
template <typename Bits>
Bits number(std::uint32_t random, int fraction_bits, unsigned lowest_exponent) {
  const auto sign = static_cast<std::uint32_t>(random >> 31) << (8 * sizeof(Bits) - 1);
  const std::uint32_t exponent = lowest_exponent + (random >> 24 & 127) % 3;
  const std::uint32_t fraction = (random & 0xffffff) & ((1U << fraction_bits) - 1);
  return static_cast<Bits>(sign | exponent << fraction_bits | fraction);
}

template <typename Bits>
std::vector<std::byte> pattern(int fraction_bits, unsigned lowest_exponent) {
  constexpr std::size_t period = 65521;  // a prime, so that no two rows are equal
  std::vector<Bits> values(period);
  std::uint32_t state = 1;
  for (Bits& value : values) {
    state = state * 1664525U + 1013904223U;
    value = number<Bits>(state ^ state >> 15, fraction_bits, lowest_exponent);
  }
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

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
  size_ = round_up(bytes, huge_page);
  mapped_ = size_ + huge_page;
  mapping_ = map_pages(mapped_);
  if (mapping_ == nullptr) {
    size_ = 0;
    throw Error(Code::MEMORY, "[bench] buffers must fit in memory but got " + std::to_string(bytes) + " bytes");
  }
  begin_ = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::uintptr_t>(mapping_), huge_page));
  advise_huge_pages(begin_, size_);
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

std::vector<Cache> caches() {
  std::vector<Cache> found;
  for (std::size_t i = 0; i < data_caches().size(); ++i) {
    if (data_caches()[i] > 0) found.push_back({"L" + std::to_string(i + 1), data_caches()[i]});
  }
  if (found.empty()) found.push_back({"the cache", last_cache_bytes()});
  return found;
}

namespace {

// The offsets of the parts of a cell in a block of memory.
struct Map {
  explicit Map(const Cell& cell) {
    const auto offset = static_cast<std::size_t>(cell.placement.offset);
    k = round_up(offset + static_cast<std::size_t>(q_extent(cell)), line) + offset % line;
    end = round_up(k + static_cast<std::size_t>(k_extent(cell)), line);
    // Half a page apart, so that no store waits for a load with the same low address bits.
    out = cell.in_place ? 0 : round_up(end, page) + (cell.placement.aliased ? 0 : page / 2);
  }
  std::size_t k = 0;
  std::size_t end = 0;
  std::size_t out = 0;
};

}  // namespace

std::size_t Places::bytes_of(const Cell& cell) { return Map(cell).out + Map(cell).end; }

Places::Places(const Cell& cell, Arena& arena) : Places(cell, arena.reserve(bytes_of(cell))) {}

Places::Places(const Cell& cell, std::byte* begin) {
  const Map map(cell);
  const auto offset = static_cast<std::size_t>(cell.placement.offset);
  in = begin + offset / line * line;
  out = in + map.out;
  moved = std::min(static_cast<std::size_t>(line_bytes(cell)), map.end - offset / line * line);
  const Layout q_layout = layout_of(cell, cell.heads);
  const Layout k_layout = layout_of(cell, cell.kv_heads);
  q = {begin + offset, cell.dtype, q_layout};
  k = {begin + map.k, cell.dtype, k_layout};
  q_out = {begin + map.out + offset, cell.dtype, q_layout};
  k_out = {begin + map.out + map.k, cell.dtype, k_layout};
}

std::vector<std::byte> fill_pattern(DType dtype) {
  const StorageType& type = storage_type(dtype);
  const int fraction_bits = type.digits - 1;
  const auto quarter = static_cast<unsigned>(-type.lowest - type.digits);  // the exponent field of 0.25
  return type.bytes == 4 ? pattern<std::uint32_t>(fraction_bits, quarter)
                         : pattern<std::uint16_t>(fraction_bits, quarter);
}

void fill(const Cell& cell, const Places& places) {
  const auto* const behind = static_cast<std::byte*>(places.k.data) + k_extent(cell);
  auto* const first = static_cast<std::byte*>(places.q.data);
  const std::span<std::byte> memory(first, static_cast<std::size_t>(behind - first));
  const std::vector<std::byte> values = fill_pattern(cell.dtype);
  for (std::size_t at = 0; at < memory.size(); at += values.size()) {
    std::memcpy(memory.data() + at, values.data(), std::min(values.size(), memory.size() - at));
  }
}

}  // namespace rotary::cli::bench
