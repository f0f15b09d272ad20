#include "runtime/arithmetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <set>

#include "rotary/accuracy.h"
#include "table/narrow.h"
#include "table/round_once.h"
#include "text/json.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::accuracy {
namespace {

using detail::CosSin;
using Json = files::OrderedJson;

constexpr std::array<WayInfo, 5> ways = {{
    {Way::exact, "exact", "the real cos and sin, rounded once to float32: this library's tables"},
    {Way::float32_product, "float32 product", "inv_freq in float32 times the position in float32"},
    {Way::bf16_positions, "bf16 positions", "the position rounded to bf16, then float32 product"},
    {Way::running_rotation, "running rotation", "(cos, sin) turned once more from position to position, in float32"},
    {Way::fast_sine, "fast sine", "float32 product, then a model of a GPU's quick sine (CUDA's __sinf, __cosf)"},
}};

// ---- positions ----

constexpr std::int64_t all_below = 10000, spread = 2048, largest_position = INT64_MAX;

template <class Number>
Number value_of(const Position& position) {
  return std::visit([](auto p) { return static_cast<Number>(p); }, position);
}

// The magnitude without the fraction.
std::uint64_t magnitude(const Position& position) {
  if (const auto* real = std::get_if<double>(&position)) {
    if (std::fabs(*real) < 0x1p63) return static_cast<std::uint64_t>(std::fabs(*real));
    fail(Code::POSITION, "accuracy", "a position must be finite and below 2^63 but got ", detail::shortest(*real));
  }
  const std::int64_t whole = std::get<std::int64_t>(position);
  return whole < 0 ? 0 - static_cast<std::uint64_t>(whole) : static_cast<std::uint64_t>(whole);
}

// All positions below all_below; in each further decade, to the one after the context's, `spread` positions that divide
// it evenly and its last `spread`; and the powers of two and their neighbours.
std::vector<Position> default_positions(std::int64_t context) {
  std::set<std::int64_t> chosen;
  for (std::int64_t first = 0, last = all_below - 1, count = all_below;; count = spread) {
    for (std::int64_t k = 0; k < count; ++k) chosen.insert({first + (last - first + 1) / count * k, last - k});
    for (std::int64_t power = 1; power <= last; power *= 2) {
      for (const std::int64_t p : {power - 1, power, power + 1}) {
        if (p <= last) chosen.insert(p);
      }
    }
    if (last >= 9999999 && (last / 10 >= context || last >= 1000000000000000)) return {chosen.begin(), chosen.end()};
    first = last + 1;
    last = 10 * last + 9;
  }
}

// The decades that contain positions, with these positions.
std::vector<Decade> decades_of(std::vector<Position> positions) {
  std::ranges::stable_sort(positions, {}, magnitude);
  std::vector<Decade> decades;
  Decade decade;
  for (const Position& position : positions) {
    // -2^63 is one beyond the end of the last decade, and belongs to it.
    while (decade.last != largest_position && magnitude(position) > static_cast<std::uint64_t>(decade.last)) {
      decade.first = decade.last + 1;
      decade.last = decade.first <= largest_position / 10 ? decade.first * 10 - 1 : largest_position;
    }
    if (decades.empty() || decades.back().first != decade.first) decades.push_back(decade);
    decades.back().positions.push_back(position);
  }
  return decades;
}

// ---- the real numbers ----

struct ExactCosSin {
  double cos = 1, sin = 0;
};

// factor cos(position inv_freq) and factor sin(position inv_freq) of the real numbers, within 2^-52 of the factor.
ExactCosSin exact_cos_sin(const Position& position, double inv_freq, double factor) {
  const detail::Dyadic p = std::visit([](auto value) { return detail::dyadic(value); }, position),
                       w = detail::dyadic(inv_freq);
  const detail::Wide m = static_cast<detail::Wide>(p.mantissa) * w.mantissa;
  const int bits = detail::high(m) != 0 ? 64 + width_of(detail::high(m)) : width_of(detail::low(m));
  if (m == 0 || bits + p.exponent + w.exponent <= -100) return {factor, factor * value_of<double>(position) * inv_freq};
  const auto found = detail::wide::cos_sin(detail::turns<2>(m, p.exponent + w.exponent));
  const auto signed_value = [factor](const detail::Fraction<2>& value, bool is_negative) {
    return (is_negative ? -factor : factor) * (static_cast<double>(value.limb[1]) * 0x1p-64);
  };
  return {signed_value(found.cos, found.cos_negative),
          signed_value(found.sin, found.sin_negative != (p.negative != w.negative))};
}

Largest error_of(const CosSin& value, const ExactCosSin& exact, const Position& position, int pair) {
  const double of_cos = std::fabs(double{value.cos} - exact.cos), of_sin = std::fabs(double{value.sin} - exact.sin);
  return {std::max(of_cos, of_sin), position, pair, of_sin > of_cos};
}

// ---- the ways that are no table of this library ----

// A GPU's sin.approx and cos.approx, in its machine code FMUL.RZ by 0.15915494 and MUFU.SIN: the angle times
// fl(1/(2 pi)), rounded towards zero to float32, is taken as the number of turns, and the unit returns the sine of
// its fraction. The unit's own error, some 2^-21, is not modelled.
CosSin quick_cos_sin(float angle, float factor) noexcept {
  constexpr float inverse_two_pi = 0.15915494309189535F;
  const double product = static_cast<double>(angle) * static_cast<double>(inverse_two_pi);  // exact: 48 bits
  auto turns = static_cast<float>(product);
  if (std::fabs(static_cast<double>(turns)) > std::fabs(product)) turns = std::nextafter(turns, 0.0F);
  const double fraction = static_cast<double>(turns) - std::nearbyint(static_cast<double>(turns));
  const double radians = 2 * std::numbers::pi * fraction;
  return {static_cast<float>(std::cos(radians)) * factor, static_cast<float>(std::sin(radians)) * factor};
}

// The row of running_rotation, at positions of increasing magnitude: it continues the last row, a step per position.
class RunningRotation {
 public:
  explicit RunningRotation(const Frequencies& f) : row_(f.inv_freq.size(), CosSin{1, 0}) {
    for (const double w : f.inv_freq) step_.push_back(detail::round_once({false, 1, 0}, w, 1, Rounding::f32));
  }
  static bool has_row(const Position& p) { return p.index() == 0 && magnitude(p) <= std::uint64_t{1} << 20; }
  void turn_to(const Position& position) {
    for (; at_ < magnitude(position); ++at_) {
      for (std::size_t i = 0; i < row_.size(); ++i) {
        const CosSin now = row_[i], step = step_[i];
        row_[i] = {now.cos * step.cos - now.sin * step.sin, now.sin * step.cos + now.cos * step.sin};
      }
    }
    is_negative_ = std::get<std::int64_t>(position) < 0;
  }
  CosSin entry(std::size_t i, float factor) const {
    return {row_[i].cos * factor, (is_negative_ ? -row_[i].sin : row_[i].sin) * factor};
  }

 private:
  std::vector<CosSin> row_, step_;
  std::uint64_t at_ = 0;
  bool is_negative_ = false;
};

// ---- errors: of frequencies [entries], one for each pair of each head and each axis of a sum ----

Frequencies flat(const Frequencies& given) {
  if (!given.phase.empty() || given.xpos.scale != 0)
    fail(Code::ROPE, "accuracy", "angles must be inv_freq times a position but the rope has phases or xpos");
  Frequencies f{.inv_freq = given.inv_freq,
                .pairing = Pairing::half,
                .attention_factor = given.attention_factor,
                .inv_freq_float32 = given.inv_freq_float32};
  if (f.inv_freq_float32.empty()) f.inv_freq_float32.assign(f.inv_freq.begin(), f.inv_freq.end());
  return f;
}

Table table_of(const Frequencies& f, const Position& position, Angles angles) {
  return std::visit([&](auto p) { return Table(f, p, angles); }, position);
}

void measure(Study& study, const Frequencies& f, int pairs, const std::function<void()>& done) {
  RunningRotation running(f);
  const auto factor = static_cast<float>(f.attention_factor);
  for (const WayInfo& way : ways) study.ways.push_back({way});
  for (const Decade& decade : study.decades) {
    const bool runs = std::ranges::all_of(decade.positions, RunningRotation::has_row);
    for (WayErrors& way : study.ways)
      way.decades.push_back(runs || way.info.way != Way::running_rotation ? std::optional(Largest()) : std::nullopt);
    for (const Position& position : decade.positions) {
      const auto p = value_of<float>(position);
      const Table table = table_of(f, position, Angles::exact), product = table_of(f, position, Angles::float32),
                  bf16 = table_of(f, double{detail::narrowed<Rounding::bf16>(p)}, Angles::float32);
      if (runs) running.turn_to(position);
      for (std::size_t i = 0; i < f.inv_freq.size(); ++i) {
        const ExactCosSin exact = exact_cos_sin(position, f.inv_freq[i], f.attention_factor);
        const std::array<CosSin, ways.size()> values = {{{table.cos()[i], table.sin()[i]},
                                                         {product.cos()[i], product.sin()[i]},
                                                         {bf16.cos()[i], bf16.sin()[i]},
                                                         running.entry(i, factor),
                                                         quick_cos_sin(p * f.inv_freq_float32[i], factor)}};
        for (std::size_t way = 0; way < ways.size(); ++way) {
          std::optional<Largest>& largest = study.ways[way].decades.back();
          const Largest error = error_of(values[way], exact, position, static_cast<int>(i) % pairs);
          if (largest && error.error > largest->error) largest = error;
        }
      }
      done();
    }
  }
}

// Examines positions up to `most`, at most 2^24 entries, for the pairs whose error can reach the tolerance.
// The angle is off by the error of inv_freq times the position, and by two roundings, of the position and of the
// product; cos and sin by two more and the factor's. Up to 2^24 the product with a power of two is exact.
void find_reach(Study& study, const Frequencies& f, double tolerance) {
  constexpr std::int64_t most = std::int64_t{1} << 24;  // above it float32 has no odd positions
  const double allowed = tolerance / std::fabs(f.attention_factor) - 0x1p-21;
  std::vector<std::pair<double, std::size_t>> slopes;  // the largest error of a pair's angle per position
  for (std::size_t i = 0; i < f.inv_freq.size(); ++i) {
    int exponent = 0;
    const bool is_power = std::frexp(std::fabs(f.inv_freq_float32[i]), &exponent) == 0.5F;
    const double off = std::fabs(double{f.inv_freq_float32[i]} - f.inv_freq[i]);
    slopes.emplace_back(off + (is_power ? 0 : std::fabs(f.inv_freq[i]) * 0x1p-22), i);
  }
  std::ranges::sort(slopes, std::greater());
  std::int64_t entries = 0, &last = study.last_within;
  for (last = -1; last < most; ++last) {
    const std::int64_t position = last + 1;
    if (static_cast<double>(position) * slopes.front().first < allowed) continue;
    const Table product(f, position, Angles::float32);
    for (const auto& [slope, i] : slopes) {
      if (static_cast<double>(position) * slope < allowed) break;
      study.to_the_end = ++entries > most;
      const ExactCosSin exact = exact_cos_sin(position, f.inv_freq[i], f.attention_factor);
      const Largest error = error_of({product.cos()[i], product.sin()[i]}, exact, position, 0);
      if (study.to_the_end || error.error > tolerance) return;
    }
  }
  study.to_the_end = true;
}

// ---- words ----

std::string sampling_of(const Request& request, std::int64_t count) {
  const bool named = !request.positions.empty();
  const std::string every = std::to_string(spread);
  std::string text = "every position to " + std::to_string(all_below - 1) + "; of each decade beyond, " + every +
                     " that divide it evenly, its last " + every + ", and the powers of two and their neighbours";
  const std::string several = detail::with_separators(count) + " positions";
  if (named) text = "the " + (count == 1 ? "one position" : several) + " of --positions";
  if (request.frequencies.summed_axes > 0) text += "; of each axis alone, the other coordinates at 0";
  const bool coordinates = request.model.ropes[request.rope].coordinates && !named;
  return text + (coordinates ? "; the model's own coordinates: rotary positions" : "");
}

// "1e-3", "0.02", "1".
std::string tolerance_text(double value) {
  if (value >= 0.01) return detail::shortest(value);
  std::string text = detail::number_text(value, std::chars_format::scientific);
  if (text.at(text.find('e') + 2) == '0') text.erase(text.find('e') + 2, 1);
  return text;
}

std::string advice_of(const Request& request, const Study& study) {
  const std::int64_t context = part_of(request.model, request.model.ropes[request.rope].part).context;
  const std::string within = "float32 is within " + tolerance_text(request.tolerance),
                    last = " up to " + std::to_string(study.last_within), of_context = std::to_string(context);
  if (study.last_within < 0) return within + " nowhere; use exact";
  if (study.to_the_end) return within + last + " (the last position measured); exact is correct at every position";
  if (context > 0 && study.last_within >= context - 1)
    return within + last + ", which covers the context of " + of_context + "; beyond, use exact";
  return within + last + "; beyond" + (context > 0 ? " (the context is " + of_context + ")" : "") + ", use exact";
}

Json object_of(const Largest& at) {
  const Json position = std::visit([](auto p) { return Json(p); }, at.position);
  return {{"position", position}, {"pair", at.pair}, {"of", at.of_sine ? "sin" : "cos"}};
}

}  // namespace

Study study(const Request& request, const std::function<void(std::int64_t, std::int64_t)>& progress) {
  if (!(request.tolerance >= 1e-6 && request.tolerance <= 1))
    fail(Code::VALUE, "accuracy", "tolerance must be from 1e-6 to 1 but got ", request.tolerance);
  request.frequencies.check();
  const Frequencies f = flat(request.frequencies);
  const std::size_t ropes = request.model.ropes.size();
  if (request.rope >= ropes)
    fail(Code::ROPE, "accuracy", "the rope must be one of the model's ", ropes, " but got ", request.rope);
  const std::int64_t context = part_of(request.model, request.model.ropes[request.rope].part).context;
  const std::vector<Position> positions = request.positions.empty() ? default_positions(context) : request.positions;
  Study study;
  study.decades = decades_of(positions);
  std::int64_t measured = 0, count = std::ssize(positions);
  measure(study, f, request.frequencies.pairs(), [&] {
    if (progress) progress(++measured, count);
  });
  find_reach(study, f, request.tolerance);
  study.sampling = sampling_of(request, count);
  study.advice = advice_of(request, study);
  return study;
}

std::string to_json(const Request& request, const Study& study) {
  const ModelRope& used = request.model.ropes[request.rope];
  const std::int64_t context = part_of(request.model, used.part).context;
  Json decades = Json::array(), all = Json::array();
  for (const Decade& decade : study.decades)
    decades.push_back({{"first", decade.first}, {"last", decade.last}, {"positions", decade.positions.size()}});
  for (const auto& [way, of_decades] : study.ways) {
    Json errors = Json::array(), at = Json::array();
    for (const std::optional<Largest>& largest : of_decades) {
      errors.push_back(largest ? Json(largest->error) : Json(nullptr));
      at.push_back(largest ? object_of(*largest) : Json(nullptr));
    }
    all.push_back({{"way", way.name}, {"meaning", way.meaning}, {"cos_sin", errors}, {"cos_sin_at", at}});
  }
  return files::json_text(
      {{"rope",
        {{"index", request.rope},
         {"part", used.part},
         {"head_dim", used.rope.head_dim},
         {"rotary_dim", used.rope.rotary_dim},
         {"base", used.rope.inv_freq.empty() ? Json(used.rope.base) : Json(nullptr)},
         {"scaling", name(used.rope.scaling)},
         {"attention_factor", request.frequencies.attention_factor},
         {"context", context > 0 ? Json(context) : Json(nullptr)},
         {"length", request.length},
         {"inv_freq", request.frequencies.inv_freq}}},
       {"decades", decades},
       {"ways", all},
       {"float32_within",
        {{"tolerance", request.tolerance}, {"last", study.last_within}, {"to_the_end", study.to_the_end}}},
       {"advice", study.advice},
       {"sampling", study.sampling}});
}

}  // namespace rotary::accuracy
