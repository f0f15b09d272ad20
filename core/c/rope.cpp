// A rope and positions as C writes them, and frequencies.
#include "runtime/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "c/guarded.h"
#include "c/structs.h"
#include "values/names.h"
#include "values/scaling_fields.h"

namespace rotary::c {

template <>
rotary_positions defaults<rotary_positions>() {
  rotary_positions p{};
  p.type = ROTARY_RUN;
  p.batch = p.axes = 1;
  return p;
}
template <>
rotary_rope defaults<rotary_rope>() {
  rotary_rope r{};
  constexpr double absent = std::numeric_limits<double>::quiet_NaN();
  r.scaling = ROTARY_UNSCALED;
  r.base = 10000, r.truncate = r.head_rows = 1, r.attention_factor = r.mixed_b = r.mscale = r.mscale_all_dim = absent;
  r.short_mscale = r.long_mscale = absent;
  const Yarn yarn;
  r.factor = yarn.factor, r.beta_fast = yarn.beta_fast, r.beta_slow = yarn.beta_slow, r.magnitude = yarn.magnitude;
  r.extrapolation_factor = yarn.extrapolation_factor, r.attn_factor = yarn.attn_factor;
  r.low = Llama3().low, r.high = Llama3().high, r.fraction = Proportional().fraction;
  return r;
}

namespace {

static_assert(ROTARY_THETA_SCALE - ROTARY_UNSCALED + 1 == std::variant_size_v<Scaling>);
static_assert(static_cast<int>(Pairing::interleaved_to_half) == ROTARY_INTERLEAVED_TO_HALF - pairing_constants.zero);

// The fields of a rotary_rope that a scaling reads, by the names of scaling_fields.h.
#define ROTARY_FIELD(member) \
  { &rotary_rope::member, #member }
constexpr detail::Named<double rotary_rope::*> number_fields[] = {
    ROTARY_FIELD(factor),       ROTARY_FIELD(beta_fast),   ROTARY_FIELD(beta_slow),
    ROTARY_FIELD(low),          ROTARY_FIELD(high),        ROTARY_FIELD(fraction),
    ROTARY_FIELD(mixed_b),      ROTARY_FIELD(mscale),      ROTARY_FIELD(mscale_all_dim),
    ROTARY_FIELD(magnitude),    ROTARY_FIELD(attn_factor), ROTARY_FIELD(extrapolation_factor),
    ROTARY_FIELD(short_mscale), ROTARY_FIELD(long_mscale)};
constexpr detail::Named<std::int64_t rotary_rope::*> lengths[] = {ROTARY_FIELD(trained_length)};
constexpr detail::Named<std::int32_t rotary_rope::*> flags[] = {ROTARY_FIELD(truncate), ROTARY_FIELD(mscale_ratio)};
constexpr detail::Named<const double * rotary_rope::*> lists[] = {ROTARY_FIELD(short_factor),
                                                                  ROTARY_FIELD(long_factor)};
#undef ROTARY_FIELD

// Null for attention_factor, which is the rope's own.
template <class Member, std::size_t N>
const Member* find(const detail::Named<Member> (&rows)[N], const char* name) {
  for (const auto& row : rows) {
    if (std::strcmp(row.name, name) == 0) return &row.value;
  }
  return nullptr;
}

template <class Value>
std::vector<Value> list_of(const Value* values, std::size_t count) {
  return values == nullptr ? std::vector<Value>() : std::vector<Value>(values, values + count);
}
std::optional<double> given_of(double value) { return std::isnan(value) ? std::nullopt : std::optional(value); }

// Throws VALUE for a field that the scaling does not read and that has been set. `read`: the names that it reads.
template <class Member, std::size_t N>
void check_unread(const rotary_rope& rope, const detail::Named<Member> (&rows)[N],
                  const std::vector<std::string>& read) {
  static const auto usual = defaults<rotary_rope>();
  for (const auto& [member, name] : rows) {
    const auto given = rope.*member, kept = usual.*member;
    if (given == kept || (!(given < kept) && !(kept < given)) || std::ranges::find(read, name) != read.end()) continue;
    fail(Code::VALUE, "frequencies", name, " is set but the scaling does not read it");
  }
}

struct Fill {
  const rotary_rope& rope;
  std::size_t pairs;
  void operator()(const char* name, double& value) const { value = rope.**find(number_fields, name); }
  void operator()(const char* name, std::optional<double>& value) const {
    if (const auto* member = find(number_fields, name)) value = given_of(rope.**member);
  }
  void operator()(const char* name, std::int64_t& value) const { value = rope.**find(lengths, name); }
  void operator()(const char* name, bool& value) const { value = rope.**find(flags, name) != 0; }
  void operator()(const char* name, std::vector<double>& value) const {
    value = list_of(rope.**find(lists, name), pairs);
  }
};

}  // namespace

Rope rope_of(const rotary_rope& r) {
  check_reserved("frequencies", "rope", r.reserved | r.reserved_too);
  Rope rope{.head_dim = r.head_dim, .rotary_dim = r.rotary_dim, .base = r.base, .exponent_dim = r.exponent_dim};
  // Lists are not read for sizes that frequencies() refuses.
  const int block = r.rotary_dim == 0 ? r.head_dim : r.rotary_dim;
  const bool is_sound = block >= 0 && block <= r.head_dim && r.head_dim <= 1 << 20 && r.summed_axes <= 256;
  const auto pairs = static_cast<std::size_t>(is_sound ? block / 2 : 0);
  rope.pairing = pairing_of("frequencies", r.pairing);
  rope.clockwise = r.clockwise != 0;
  rope.axis = list_of(r.axis, pairs);
  rope.index = list_of<int>(r.index, pairs);
  const auto axes = static_cast<std::size_t>(std::max(r.summed_axes, 1));
  const auto head_rows = static_cast<std::size_t>(std::max(r.head_rows, 1));
  rope.head_rows = r.head_rows, rope.summed_axes = r.summed_axes;
  rope.inv_freq = list_of(r.inv_freq, head_rows * axes * pairs);
  rope.phase = list_of(r.phase, head_rows * pairs);
  rope.xpos = {r.xpos_scale, r.xpos_center, r.xpos_reciprocal != 0};
  rope.multiplier = list_of(r.multiplier, pairs);
  rope.attention_factor = given_of(r.attention_factor);
  int left = scaling_constants.index("frequencies", r.scaling, "scaling");
  scalings::for_each_scaling([&](const auto& scaling) {
    if (left-- == 0) rope.scaling = scaling;
  });
  std::vector<std::string> read;
  std::visit(
      [&](auto& held) {
        scalings::for_each_field(held, [&](const auto& field, auto& value) {
          Fill{r, pairs}(field.name, value);
          read.emplace_back(field.name);
        });
      },
      rope.scaling);
  check_unread(r, number_fields, read);
  check_unread(r, flags, read);
  check_unread(r, lists, read);
  return rope;
}

Positions positions_of(const char* operation, const rotary_positions& p) {
  position_constants.index(operation, p.type, "the type of positions");
  if (p.type == ROTARY_RUN) {
    if (p.values != nullptr)
      fail(Code::VALUE, operation,
           "values of the positions must be null where their type is ROTARY_RUN, but are given");
    if (p.batch == 1 && p.axes == 1) return positions(p.first, p.tokens);
    fail(Code::SHAPE, operation, "a run of positions must have one batch row and one axis");
  }
  if (p.axes < 1 || p.batch < 1 || p.tokens < 0 || p.tokens > (std::int64_t{1} << 60) / p.axes / p.batch)
    fail(Code::SHAPE, operation, "positions must have from 0 to 2^60 values, and at least one batch row and one axis");
  if (p.first != 0) fail(Code::VALUE, operation, "first must be 0 where positions have values but got ", p.first);
  const auto count = static_cast<std::size_t>(p.tokens * p.axes * p.batch);
  if (count > 0) check_given(operation, "values of the positions", p.values);
  const auto view = [&]<class T>(const T* values) { return Positions(std::span(values, count), p.axes, p.batch); };
  if (p.type == ROTARY_INT32) return view(static_cast<const std::int32_t*>(p.values));
  if (p.type == ROTARY_INT64) return view(static_cast<const std::int64_t*>(p.values));
  return view(static_cast<const double*>(p.values));
}

}  // namespace rotary::c

using namespace rotary::c;  // NOLINT

extern "C" {

void rotary_rope_init(rotary_rope* rope, size_t size) { init(rope, size); }
void rotary_positions_init(rotary_positions* positions, size_t size) { init(positions, size); }
rotary_status rotary_frequencies_make(const rotary_rope* rope, int64_t length, rotary_frequencies** frequencies) {
  return guarded([&] {
    check_given("frequencies", "frequencies", frequencies);
    const rotary::Rope read_rope = rope_of(read("frequencies", "rope", rope));
    *frequencies = new rotary_frequencies{frequencies_of(read_rope, length)};
  });
}
void rotary_frequencies_free(rotary_frequencies* frequencies) { delete frequencies; }
int32_t rotary_frequencies_pairs(const rotary_frequencies* f) { return f == nullptr ? 0 : f->values.pairs(); }
int32_t rotary_frequencies_axes(const rotary_frequencies* f) { return f == nullptr ? 0 : f->values.axes(); }
double rotary_frequencies_attention_factor(const rotary_frequencies* f) {
  return f == nullptr ? 0 : f->values.attention_factor;
}
const double* rotary_frequencies_inv_freq(const rotary_frequencies* f) {
  return f == nullptr ? nullptr : f->values.inv_freq.data();
}

}  // extern "C"
