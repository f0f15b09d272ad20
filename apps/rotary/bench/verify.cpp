// Compares the result of a cell with the reference, before it is timed.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "bench.h"
#include "rotary/cache.h"
#include "rotary/reference.h"
#include "values/dtypes.h"
#include "values/fail.h"
#include "values/storage.h"

namespace rotary::cli::bench {

using namespace rotary::detail;

namespace {

using Bytes = std::vector<std::byte>;
using Gathered = std::array<Bytes, 3>;  // q, k and v of some tokens, each contiguous: [tokens, heads, head_dim]

constexpr std::int64_t max_elements = std::int64_t{1} << 17;  // the reference is slow
constexpr std::int64_t max_pairs = std::int64_t{1} << 14;

void fail_if(std::int64_t different, const Cell& cell, const char* rule, std::int64_t compared) {
  if (different == 0) return;
  fail(Code::CHECK, "bench", std::string(name(cell.op)), " must ", rule, " but ", different, " of ", compared,
       " differ in ", kind_words(cell), " ", shape_words(cell), " by target ", cell.target);
}

std::vector<double> doubles(const Bytes& data, DType dtype) {
  std::vector<double> values(data.size() / size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, data.data() + i * size_of(dtype), size_of(dtype));
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = dtype == DType::f32   ? float_of(bits)
                        : dtype == DType::f16 ? decode(f16{half})
                                              : decode(bf16{half});
    values[i] = static_cast<double>(value);
  }
  return values;
}

// Half the distance between adjacent numbers of dtype near the value.
double half_step(DType dtype, double value) {
  const StorageType& type = storage_type(dtype);
  return std::ldexp(std::abs(value), -type.digits) + std::ldexp(0.5, type.lowest);
}

class Verification {
 public:
  explicit Verification(const ReadyCell& ready)
      : ready_(ready), cell_(ready.cell), at_(ready.sets.front()), appends_(appends(cell_.op)) {
    choose_tokens();
  }

  std::int64_t run() const {
    fill(ready_, at_);
    const Gathered before = {heads(at_.q), heads(at_.k), appends_ ? heads(at_.v) : Bytes{}};
    const Gathered after = results_of(ready_.calls.front());
    if (appends_) {
      fill(ready_, at_);
      require(different(results_of(ready_.parts.front()), after), "equal its separate operations bit for bit");
    }
    if (cell_.op == Op::norm_append) {
      require(far(before[0], after[0], cell_.heads), "be the norm rotated, within roundings");
    } else if (!cell_.with_table) {
      const bool k_too = !cell_.f8;  // the tolerance cannot tell adjacent f8 values apart
      require(far(before[0], after[0], cell_.heads) + (k_too ? far(before[1], after[1], cell_.kv_heads) : 0),
              "turn by angles within 1.1e-7");
    } else {
      require(different(expected(before), after), "equal the reference bit for bit");
    }
    return compared();
  }

 private:
  // All, or some from the beginning, the middle and the end.
  void choose_tokens() {
    const std::int64_t all = cell_.batch * cell_.tokens, row = (cell_.heads + cell_.kv_heads) * cell_.head_dim;
    const std::int64_t each = std::max<std::int64_t>(1, max_elements / 3 / row), length = all <= 3 * each ? all : each;
    for (const std::int64_t begin : {std::int64_t{0}, all / 2, all - each}) {
      for (std::int64_t i = begin; i < begin + length; ++i) {
        tokens_.push_back(i);
        positions_.push_back(i % cell_.tokens + 1);
      }
      if (length == all) return;
    }
  }

  std::int64_t count() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t compared() const {
    return count() * (cell_.heads + (appends_ ? 2 : 1) * cell_.kv_heads) * cell_.head_dim;
  }
  std::size_t cached_size() const { return cell_.f8 ? 1 : size_of(cell_.dtype); }
  void require(std::int64_t wrong, const char* rule) const { fail_if(wrong, cell_, rule, compared()); }

  // ---- what the cell reads and writes ----

  Bytes heads(const Heads& x) const {
    const Layout& layout = x.layout;
    const auto size = static_cast<std::int64_t>(size_of(x.dtype)), width = layout.head_dim * size;
    Bytes packed(static_cast<std::size_t>(count() * layout.heads * width));
    std::byte* to = packed.data();
    const bool touching = layout.head_stride == layout.head_dim;
    const std::int64_t together = touching ? layout.heads : 1;
    for (const std::int64_t token : tokens_) {
      for (std::int64_t head = 0; head < layout.heads; head += together, to += together * width) {
        const std::int64_t at = token / cell_.tokens * layout.batch_stride +
                                token % cell_.tokens * layout.token_stride + head * layout.head_stride;
        ready_.read(to, static_cast<const std::byte*>(x.data) + at * size, static_cast<std::size_t>(together * width));
      }
    }
    return packed;
  }

  Bytes cached(const std::byte* cache) const {
    const std::size_t row = static_cast<std::size_t>(cell_.kv_heads * cell_.head_dim) * cached_size();
    Bytes packed(tokens_.size() * row);
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const std::int64_t slot = ready_.slots[static_cast<std::size_t>(tokens_[i])];
      ready_.read(packed.data() + i * row, cache + static_cast<std::size_t>(slot) * row, row);
    }
    return packed;
  }

  Gathered results_of(const Call& call) const {
    call();
    if (!appends_) return {heads(at_.q_out), heads(at_.k_out), Bytes{}};
    return {heads(at_.q_out), cached(at_.k_cache), cached(at_.v_cache)};
  }

  // ---- bit for bit ----

  // Counts elements: of q, and of k and v as they are stored.
  std::int64_t different(const Gathered& one, const Gathered& other) const {
    std::int64_t found = 0;
    for (std::size_t x = 0; x < one.size(); ++x) {
      const std::size_t size = x == 0 ? size_of(cell_.dtype) : cached_size();
      for (std::size_t at = 0; at < one[x].size(); at += size)
        found += std::memcmp(one[x].data() + at, other[x].data() + at, size) == 0 ? 0 : 1;
    }
    return found;
  }

  // The results, by the reference and the CPU's append.
  Gathered expected(const Gathered& before) const {
    const Layout q = thd(count(), cell_.heads, cell_.head_dim), k = thd(count(), cell_.kv_heads, cell_.head_dim);
    Gathered made = {Bytes(before[0].size()), Bytes(before[1].size()), Bytes{}};
    const Table table(ready_.turns, positions_);
    reference::rotate(ConstHeads(before[0].data(), cell_.dtype, q), Heads{made[0].data(), cell_.dtype, q}, table,
                      direction());
    reference::rotate(ConstHeads(before[1].data(), cell_.dtype, k), Heads{made[1].data(), cell_.dtype, k}, table,
                      direction());
    if (!appends_) return made;
    const std::size_t size = static_cast<std::size_t>(count() * cell_.kv_heads * cell_.head_dim) * cached_size();
    Gathered stored = {made[0], Bytes(size), Bytes(size)};
    Cache cache = nhd(stored[1].data(), stored[2].data(), 1, static_cast<int>(count()), cell_.kv_heads, cell_.head_dim,
                      cell_.f8 ? CacheType::f8_e4m3 : CacheType::same);
    cache.k_scale = k_scale;
    cache.v_scale = v_scale;
    append({made[1].data(), cell_.dtype, k}, {before[2].data(), cell_.dtype, k}, cache, Slots::rows(0));
    return stored;
  }

  Direction direction() const { return cell_.op == Op::backward ? Direction::backward : Direction::forward; }

  // ---- within rounding errors ----

  // Counts elements that are farther from the norm and the rotation in double than roundings take them. NaN counts.
  std::int64_t far(const Bytes& before, const Bytes& after, std::int64_t heads) const {
    // A rotation in f32, rounded once, by cos and sin within 1.1e-7 of the true ones; of the norm, rounded twice more.
    constexpr double of_angle = 1.1e-7, of_arithmetic = 0x1p-23;
    const bool norm = cell_.op == Op::norm_append;
    const double of_norm = cell_.dtype == DType::f32 ? 0x1p-19 : std::ldexp(4.0, -storage_type(cell_.dtype).digits);
    std::vector<double> values = doubles(before, cell_.dtype);
    if (norm) normalize(values);
    const std::vector<double> given = values, found = doubles(after, cell_.dtype);
    reference::rotate(values, thd(count(), heads, cell_.head_dim), reference::double_table(ready_.turns, positions_),
                      direction());
    std::int64_t wrong = 0;
    const auto width = static_cast<std::size_t>(cell_.head_dim), turning = static_cast<std::size_t>(cell_.rotary_dim);
    for (std::size_t head = 0; head < values.size(); head += width) {
      double largest = 0;
      for (std::size_t i = head; i < head + width; ++i) largest = std::max(largest, std::abs(given[i]));
      for (std::size_t i = head; i < head + width; ++i) {
        const double turned = (of_angle + of_arithmetic) * 2 * largest;
        const double allowed = norm                  ? of_norm * 2 * largest + 1e-6
                               : i - head >= turning ? 0
                                                     : turned + half_step(cell_.dtype, std::abs(values[i]) + turned);
        wrong += std::abs(found[i] - values[i]) <= allowed ? 0 : 1;
      }
    }
    return wrong;
  }

  // x / sqrt(mean(x^2) + eps) * weight of every head of q.
  void normalize(std::vector<double>& values) const {
    constexpr double eps = 1e-6;  // of gpu::Norm
    const auto width = static_cast<std::size_t>(cell_.head_dim);
    Bytes stored(width * size_of(cell_.dtype));
    ready_.read(stored.data(), ready_.q_weight, stored.size());
    const std::vector<double> weight = doubles(stored, cell_.dtype);
    for (std::size_t head = 0; head < values.size(); head += width) {
      double squares = 0;
      for (std::size_t i = 0; i < width; ++i) squares += values[head + i] * values[head + i];
      const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + eps);
      for (std::size_t i = 0; i < width; ++i) values[head + i] *= scale * weight[i];
    }
  }

  const ReadyCell& ready_;
  const Cell& cell_;
  const Tensors& at_;
  const bool appends_;
  std::vector<std::int64_t> tokens_;  // batch row * tokens + token
  std::vector<std::int64_t> positions_;
};

// Whether found is the f32 nearest to value, or that rounded once more to dtype, with a margin for the error of this
// check.
bool is_rounded(float found, double value, DType dtype) {
  const float magnitude = std::abs(found);
  const double spacing = static_cast<double>(std::nextafter(magnitude, 2.0F)) - static_cast<double>(magnitude);
  double allowed = (0.5 + 0x1p-16) * spacing;
  if (dtype != DType::f32) {
    const StorageType& type = storage_type(dtype);
    allowed += 0.5 * std::max(std::ldexp(spacing, storage_type(DType::f32).digits - type.digits),
                              std::ldexp(1.0, type.lowest));
  }
  return std::abs(value - static_cast<double>(found)) <= allowed;
}

}  // namespace

std::int64_t verify(const ReadyCell& ready) {
  if (ready.cell.op == Op::table) return verify_rows(ready.cell, ready.turns, ready.table());
  return Verification(ready).run();
}

std::int64_t verify_rows(const Cell& cell, const Frequencies& turns, const Table& table) {
  const std::int64_t step =
      std::max<std::int64_t>(1, table.tokens() / std::max<std::int64_t>(1, max_pairs / table.pairs()));
  std::vector<std::int64_t> positions;
  for (std::int64_t token = table.tokens() - 1; token >= 0; token -= step) positions.push_back(token + 1);
  const reference::DoubleTable right = reference::double_table(turns, positions);
  const auto pairs = static_cast<std::size_t>(table.pairs());
  std::int64_t different = 0;
  for (std::size_t i = 0; i < right.cos.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(positions[i / pairs] - 1) * pairs + i % pairs;
    const bool rounded =
        is_rounded(table.cos()[at], right.cos[i], cell.dtype) && is_rounded(table.sin()[at], right.sin[i], cell.dtype);
    different += rounded ? 0 : 1;
  }
  const auto compared = static_cast<std::int64_t>(right.cos.size());
  fail_if(different, cell, "give correctly rounded angles", compared);
  return compared;
}

}  // namespace rotary::cli::bench
