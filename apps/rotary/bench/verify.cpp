// Compares the result of a cell with the reference, before it is timed.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

#include "measure.h"
#include "rotary/cache.h"
#include "rotary/reference.h"
#include "values/dtypes.h"
#include "values/pairings.h"
#include "values/storage.h"

namespace rotary::cli::bench {

using namespace rotary::detail;

namespace {

using Bytes = std::vector<std::byte>;

constexpr std::int64_t max_elements = std::int64_t{1} << 17;  // the reference is slow
constexpr std::int64_t max_pairs = std::int64_t{1} << 14;

double value_at(DType dtype, const Bytes& data, std::int64_t index) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, data.data() + index * static_cast<std::int64_t>(size_of(dtype)), size_of(dtype));
  const auto half = static_cast<std::uint16_t>(bits);
  if (dtype == DType::f32) return static_cast<double>(float_of(bits));
  return static_cast<double>(dtype == DType::f16 ? to_float(f16{half}) : to_float(bf16{half}));
}

// Half the distance between adjacent numbers of dtype near the value.
double half_step(DType dtype, double value) {
  const StorageType& type = storage_type(dtype);
  return std::ldexp(std::abs(value), -type.digits) + std::ldexp(0.5, type.lowest);
}

void fail_if(std::int64_t different, const Cell& cell, const char* rule, std::int64_t compared) {
  if (different == 0) return;
  throw Error(Code::CHECK, "[bench] " + std::string(name(cell.op)) + " must " + rule + " but " +
                               std::to_string(different) + " of " + std::to_string(compared) + " differ in " +
                               kind_words(cell) + " " + shape_words(cell) + " by target " + cell.target);
}

std::int64_t count_different(const Bytes& one, const Bytes& other, std::size_t each) {
  std::int64_t count = 0;
  for (std::size_t at = 0; at < one.size(); at += each)
    count += std::memcmp(one.data() + at, other.data() + at, each) == 0 ? 0 : 1;
  return count;
}

// What a cell reads or writes for some tokens, each tensor contiguous.
struct Gathered {
  Bytes q, k, v;
  std::int64_t different_from(const Gathered& other, std::size_t q_size, std::size_t kv_size) const {
    return count_different(q, other.q, q_size) + count_different(k, other.k, kv_size) +
           count_different(v, other.v, kv_size);
  }
};

class Verification {
 public:
  explicit Verification(const ReadyCell& ready)
      : ready_(ready),
        cell_(ready.cell),
        at_(ready.sets.front()),
        tokens_(chosen_tokens(cell_)),
        table_(rows_of(ready.table())) {}

  std::int64_t run() const {
    fill(ready_, at_);
    const Gathered before = {heads(at_.q), heads(at_.k), appends(cell_.op) ? heads(at_.v) : Bytes{}};
    const Gathered after = results_of(ready_.calls.front());
    if (appends(cell_.op)) {
      fill(ready_, at_);
      require(results_of(ready_.parts.front()).different_from(after, size_of(cell_.dtype), cached_size()),
              "equal its separate operations bit for bit");
    }
    if (cell_.op == Op::norm_append) {
      require(count_far_from_normed(before.q, after.q), "be the norm rotated, within roundings");
    } else if (!cell_.with_table) {
      const bool k_too = !cell_.f8;  // the tolerance cannot tell adjacent f8 values apart
      require(count_far_by_angle(cell_.heads, before.q, after.q) +
                  (k_too ? count_far_by_angle(cell_.kv_heads, before.k, after.k) : 0),
              "turn by angles within 1.1e-7");
    } else {
      Gathered expected = {rotated(before.q, cell_.heads), rotated(before.k, cell_.kv_heads), before.v};
      if (appends(cell_.op)) append_to_cache(expected);
      require(expected.different_from(after, size_of(cell_.dtype), cached_size()), "equal the reference bit for bit");
    }
    return compared();
  }

 private:
  struct Token {
    std::int64_t batch, index;
  };

  // All, or some from the beginning, the middle and the end.
  static std::vector<Token> chosen_tokens(const Cell& cell) {
    const std::int64_t count = cell.batch * cell.tokens;
    const std::int64_t row = (cell.heads + cell.kv_heads) * cell.head_dim;
    const std::int64_t each = std::max<std::int64_t>(1, max_elements / 3 / row);
    std::vector<Token> tokens;
    const auto add = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) tokens.push_back({i / cell.tokens, i % cell.tokens});
    };
    if (count <= 3 * each) {
      add(0, count);
    } else {
      for (const std::int64_t begin : {std::int64_t{0}, count / 2, count - each}) add(begin, begin + each);
    }
    return tokens;
  }

  Table rows_of(const Table& all) const {
    const auto pairs = static_cast<std::size_t>(all.pairs());
    std::vector<float> cos, sin;
    for (const Token& token : tokens_) {
      const std::size_t at = static_cast<std::size_t>(token.index) * pairs;
      const std::span<const float> c = all.cos().subspan(at, pairs), s = all.sin().subspan(at, pairs);
      cos.insert(cos.end(), c.begin(), c.end());
      sin.insert(sin.end(), s.begin(), s.end());
    }
    return {cos, sin, all.pairs(), all.pairing()};
  }

  std::int64_t count() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t compared() const {
    return count() * (cell_.heads + (appends(cell_.op) ? 2 : 1) * cell_.kv_heads) * cell_.head_dim;
  }
  std::size_t cached_size() const { return cell_.f8 ? 1 : size_of(cell_.dtype); }

  void require(std::int64_t different, const char* rule) const { fail_if(different, cell_, rule, compared()); }

  Bytes heads(const Heads& x) const {
    const Layout& layout = x.layout;
    const auto size = static_cast<std::int64_t>(size_of(x.dtype));
    const bool touching = layout.head_stride == layout.head_dim;
    const std::int64_t pieces = touching ? 1 : layout.heads;
    const std::int64_t piece = (touching ? layout.heads : 1) * layout.head_dim * size;
    Bytes packed(static_cast<std::size_t>(count() * pieces * piece));
    std::byte* to = packed.data();
    for (const Token& token : tokens_) {
      for (std::int64_t i = 0; i < pieces; ++i, to += piece) {
        const std::int64_t at =
            token.batch * layout.batch_stride + token.index * layout.token_stride + i * layout.head_stride;
        if (piece > 0)
          ready_.read(to, static_cast<const std::byte*>(x.data) + at * size, static_cast<std::size_t>(piece));
      }
    }
    return packed;
  }

  Bytes cached(const std::byte* cache) const {
    const std::size_t row = static_cast<std::size_t>(cell_.kv_heads * cell_.head_dim) * cached_size();
    Bytes packed(tokens_.size() * row);
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const auto token = static_cast<std::size_t>(tokens_[i].batch * cell_.tokens + tokens_[i].index);
      ready_.read(packed.data() + i * row, cache + static_cast<std::size_t>(ready_.slots[token]) * row, row);
    }
    return packed;
  }

  Gathered results_of(const Call& call) const {
    call();
    if (!appends(cell_.op)) return {heads(at_.q_out), heads(at_.k_out), {}};
    return {heads(at_.q_out), cached(at_.k_cache), cached(at_.v_cache)};
  }

  Bytes rotated(const Bytes& values, std::int64_t heads) const {
    Bytes out(values.size());
    const Layout layout = thd(count(), heads, cell_.head_dim);
    reference::rotate(ConstHeads(values.data(), cell_.dtype, layout), Heads{out.data(), cell_.dtype, layout}, table_,
                      cell_.op == Op::backward ? Direction::backward : Direction::forward);
    return out;
  }

  // k and v as the cache holds them, by the CPU's append.
  void append_to_cache(Gathered& values) const {
    const Layout layout = thd(count(), cell_.kv_heads, cell_.head_dim);
    const ConstHeads k(values.k.data(), cell_.dtype, layout), v(values.v.data(), cell_.dtype, layout);
    const std::size_t bytes = static_cast<std::size_t>(count() * cell_.kv_heads * cell_.head_dim) * cached_size();
    Bytes keys(bytes), entries(bytes);
    Cache cache = nhd(keys.data(), entries.data(), 1, static_cast<int>(count()), cell_.kv_heads, cell_.head_dim,
                      cell_.f8 ? CacheType::f8_e4m3 : CacheType::same);
    cache.k_scale = k_scale;
    cache.v_scale = v_scale;
    append(k, v, cache, Slots::rows(0));
    values.k = std::move(keys);
    values.v = std::move(entries);
  }

  // Counts elements of `after` whose distance from the rotated element r in double arithmetic exceeds
  // allowed(|a| + |b|, r), where (a, b) is the pair before the rotation and before(i) element i. NaN counts; elements
  // behind the rotated block are not examined.
  template <class Before, class Allowed>
  std::int64_t count_far(std::int64_t heads, const Before& before, const Bytes& after, const Allowed& allowed) const {
    const bool back = cell_.op == Op::backward;
    const std::int64_t pairs = table_.pairs();
    const Order order = order_of(cell_.pairing, back ? Direction::backward : Direction::forward);
    const auto index = [pairs](bool interleaved, std::int64_t pair, std::int64_t member) {
      return interleaved ? 2 * pair + member : pair + member * pairs;
    };
    std::int64_t far = 0;
    for (std::int64_t i = 0; i < count() * heads * pairs; ++i) {
      const std::int64_t row = i / pairs, pair = i % pairs, head = row * cell_.head_dim;
      const auto at = static_cast<std::size_t>(row / heads * pairs + pair);
      const double cos = static_cast<double>(table_.cos()[at]);
      const double sin = (back ? -1 : 1) * static_cast<double>(table_.sin()[at]);
      const double a = before(head + index(order.read_interleaved, pair, 0));
      const double b = before(head + index(order.read_interleaved, pair, 1));
      const double rotated[2] = {a * cos - b * sin, b * cos + a * sin};
      for (const std::int64_t member : {0, 1}) {
        const double found = value_at(cell_.dtype, after, head + index(order.write_interleaved, pair, member));
        far += std::abs(found - rotated[member]) <= allowed(std::abs(a) + std::abs(b), rotated[member]) ? 0 : 1;
      }
    }
    return far;
  }

  // Counts elements that a rotation in f32, rounded once, cannot give if cos and sin are within 1.1e-7 of the true
  // ones; the table's own values are within 2^-25. Elements that do not rotate must be the same.
  std::int64_t count_far_by_angle(std::int64_t heads, const Bytes& before, const Bytes& after) const {
    constexpr double of_angle = 1.1e-7 + 0x1p-25, of_arithmetic = 0x1p-23;
    const auto value = [&](std::int64_t at) { return value_at(cell_.dtype, before, at); };
    std::int64_t far = count_far(heads, value, after, [this](double magnitude, double rotated) {
      const double allowed = (of_angle + of_arithmetic) * magnitude;
      return allowed + half_step(cell_.dtype, std::abs(rotated) + allowed);
    });
    for (std::int64_t at = 0; at < count() * heads * cell_.head_dim; ++at) {
      const bool rest = at % cell_.head_dim >= cell_.rotary_dim;
      far += rest && value(at) != value_at(cell_.dtype, after, at) ? 1 : 0;
    }
    return far;
  }

  // Counts elements of q that differ from the rotation of x / sqrt(mean(x^2) + eps) * weight by more than rounding
  // errors.
  std::int64_t count_far_from_normed(const Bytes& before, const Bytes& after) const {
    const std::int64_t width = cell_.head_dim;
    Bytes weight(static_cast<std::size_t>(width) * size_of(cell_.dtype));
    ready_.read(weight.data(), ready_.q_weight, weight.size());
    const double step = cell_.dtype == DType::f32 ? 0x1p-21 : std::ldexp(1.0, -storage_type(cell_.dtype).digits);
    constexpr double eps = 1e-6;  // of gpu::Norm
    std::vector<double> normed;
    for (std::int64_t row = 0; row < count() * cell_.heads; ++row) {
      const auto value = [&](std::int64_t i) { return value_at(cell_.dtype, before, row * width + i); };
      double squares = 0;
      for (std::int64_t i = 0; i < width; ++i) squares += value(i) * value(i);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + eps);
      for (std::int64_t i = 0; i < width; ++i) normed.push_back(scale * (value(i) * value_at(cell_.dtype, weight, i)));
    }
    return count_far(
        cell_.heads, [&](std::int64_t at) { return normed[static_cast<std::size_t>(at)]; }, after,
        [step](double magnitude, double) { return 4 * step * magnitude + 1e-6; });
  }

  const ReadyCell& ready_;
  const Cell& cell_;
  const Tensors& at_;
  const std::vector<Token> tokens_;
  const Table table_;  // of these tokens
};

// The largest error of a correctly rounded f32 value, or of that value rounded once more to dtype, plus a margin for
// the error of this check.
long double tolerance(float value, DType dtype) {
  const float magnitude = std::abs(value);
  const auto spacing = static_cast<long double>(std::nextafter(magnitude, 2.0F)) - static_cast<long double>(magnitude);
  const long double once = (0.5L + 0x1p-16L) * spacing;
  if (dtype == DType::f32) return once;
  const StorageType& type = storage_type(dtype);
  const int dropped = storage_type(DType::f32).digits - type.digits;
  return once + 0.5L * std::max(std::ldexp(spacing, dropped), std::ldexp(1.0L, type.lowest));
}

// position * inv_freq is exact as the sum angle + rest of two long doubles; rest is so small that cos and sin are
// linear in it.
bool is_rounded(std::int64_t position, double inv_freq, float cos, float sin, DType dtype) {
  const long double p = static_cast<long double>(position);
  const long double w = inv_freq;
  const long double angle = p * w;
  const long double rest = std::fma(p, w, -angle);
  const long double c = std::cos(angle) - rest * std::sin(angle);
  const long double s = std::sin(angle) + rest * std::cos(angle);
  return std::abs(c - static_cast<long double>(cos)) <= tolerance(cos, dtype) &&
         std::abs(s - static_cast<long double>(sin)) <= tolerance(sin, dtype);
}

}  // namespace

std::int64_t verify(const ReadyCell& ready) {
  if (ready.cell.op == Op::table) return verify_rows(ready.cell, ready.turns, ready.table());
  return Verification(ready).run();
}

std::int64_t verify_rows(const Cell& cell, const Frequencies& turns, const Table& table) {
  const std::int64_t pairs = table.pairs();
  const std::int64_t max_rows = std::max<std::int64_t>(1, max_pairs / pairs);
  const std::int64_t step = std::max<std::int64_t>(1, table.tokens() / max_rows);
  std::int64_t different = 0;
  std::int64_t compared = 0;
  for (std::int64_t token = table.tokens() - 1; token >= 0; token -= step) {
    for (std::int64_t pair = 0; pair < pairs; ++pair, ++compared) {
      const auto at = static_cast<std::size_t>(token * pairs + pair);
      const double inv_freq = turns.inv_freq[static_cast<std::size_t>(pair)];
      different += is_rounded(token + 1, inv_freq, table.cos()[at], table.sin()[at], cell.dtype) ? 0 : 1;
    }
  }
  fail_if(different, cell, "give correctly rounded angles", compared);
  return compared;
}

}  // namespace rotary::cli::bench
