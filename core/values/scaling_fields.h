// One row for each scaling: its names, facts about its kind, and its values. The range checks, the names, inspect, the
// origins, and reading and writing the keys of config.json follow from these rows. A scaling without a row, a row
// without one of the facts, and a member that its row omits do not compile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::scalings {

// The range of a value that is given. All values are finite.
enum class Need : std::uint8_t {
  flag,               // a boolean
  factor,             // at least 1
  length,             // tokens: above 0
  positive,           // above 0
  turns,              // from 1e-100 to 1e100
  not_negative,       // at least 0
  finite,             // any number
  share,              // from 0 to 1
  share_above_zero,   // above 0, up to 1
  positive_per_pair,  // a list: one for each pair, each above 0
};

// The program that defines a key of rope_parameters. Keys unknown to transformers, which warns of them, are written
// only if the value is not the default.
enum class KeyOf : std::uint8_t { transformers, vllm, rotary };

// The range of a number in a file, if it is narrower than its Need or has its own error sentence.
enum class Bounds : std::uint8_t {
  by_need,
  turns,       // not negative; 0 stands for the default
  magnitude,   // either sign, not too large
  exponent,    // from 0 to 16
  above_zero,  // however large
  at_most,     // not too large
};

// The value if a file does not have the key, and the origin that is recorded.
enum class Otherwise : std::uint8_t {
  missing,         // an error: the file must have it
  method_default,  // the member's default; recorded as the method's own
  unsaid,          // the member's default; recorded only where the file has the key
  unrecorded,      // the member's default; the origin depends on other values
  lengths,         // the quotient of the context length and the trained length
  trained_length,  // the original_max_position_embeddings beside the object, else the context length
  context,         // the context length
  layer_types,     // the value beside the layer types, else the member's default
  fraction,        // the fraction of the head that turns
};

// How a field is read from a file: fields with a lower turn first, then in the order of the row. alias: another name of
// the key, which is looked up first.
struct Reads {
  Otherwise otherwise = Otherwise::missing;
  Bounds bounds = Bounds::by_need;
  int turn = 1;
  KeyOf key_of = KeyOf::transformers;
  const char* alias = nullptr;
};
inline constexpr int last_turn = 3;
inline constexpr Reads of_beta{.otherwise = Otherwise::method_default, .bounds = Bounds::turns};

// The stretch of the wavelengths that counts as whole.
enum class Stretch : std::uint8_t {
  none,       // nothing is stretched
  by_factor,  // the factor; only pairs that theta_scale turns less than once are stretched by more
  by_length,  // the stretch of the most stretched pair at the current length
  per_pair,   // each pair has its own
};

// The attention factor: 1, or attention_factor(scaling, length) of scalings.h.
enum class AttentionFactor : std::uint8_t { one, own };

// Whether the scaling depends on the length.
enum class Length : std::uint8_t { any, counts };

// Whether the base grows by a factor to the power r / (r - 2), which needs an r above 2.
enum class Base : std::uint8_t { stays, grows };

// Facts about a kind of scaling. name: unique, as rotary::name gives it. rope_type: unique, the word of
// config.json.
struct Facts {
  constexpr Facts(const char* n, const char* type, Stretch s, AttentionFactor a, Length l, Base b)
      : name(n), rope_type(type), stretch(s), attention_factor(a), length(l), base(b) {}
  const char* name;
  const char* rope_type;
  Stretch stretch;
  AttentionFactor attention_factor;
  Length length;
  Base base;
};

template <class S, class Value>
struct Field {
  constexpr Field(const char* n, const char* k, Value S::*m, Need required, const Reads& how = {})
      : name(n), key(k), member(m), need(required), reads(how) {}
  const char* name;  // the member's name in inspect, origins and error sentences
  const char* key;   // in rope_parameters of config.json
  Value S::*member;
  Need need;
  Reads reads;
};

template <class S>
struct Row;

template <>
struct Row<Unscaled> {
  static constexpr Facts facts{"default", "default", Stretch::none, AttentionFactor::one, Length::any, Base::stays};
  static constexpr std::tuple<> fields{};
};

template <>
struct Row<Linear> {
  static constexpr Facts facts{"linear", "linear", Stretch::by_factor, AttentionFactor::one, Length::any, Base::stays};
  static constexpr std::tuple fields{Field{"factor", "factor", &Linear::factor, Need::factor}};
};

// No framework has a name for it: rope_type ntk_aware is rotary's own.
template <>
struct Row<Ntk> {
  static constexpr Facts facts{"ntk", "ntk_aware", Stretch::by_factor, AttentionFactor::one, Length::any, Base::grows};
  static constexpr std::tuple fields{Field{"factor", "factor", &Ntk::factor, Need::factor}};
};

template <>
struct Row<NtkFixed> {
  static constexpr Facts facts{"ntk_fixed",          "ntk",       Stretch::by_factor,
                               AttentionFactor::one, Length::any, Base::stays};  // vLLM's word
  static constexpr std::tuple fields{Field{"factor", "factor", &NtkFixed::factor, Need::factor},
                                     Field{"mixed_b", "mixed_b", &NtkFixed::mixed_b, Need::finite,
                                           Reads{.otherwise = Otherwise::unsaid,
                                                 .bounds = Bounds::exponent,
                                                 .turn = 0,
                                                 .key_of = KeyOf::vllm,
                                                 .alias = "power"}}};  // BlueLM's word
};

// The key trained_length is rotary's own: transformers uses max_position_embeddings, whatever the original value is.
template <>
struct Row<Dynamic> {
  static constexpr Facts facts{"dynamic",      "dynamic",  Stretch::by_length, AttentionFactor::one,
                               Length::counts, Base::grows};
  static constexpr std::tuple fields{Field{"factor", "factor", &Dynamic::factor, Need::factor},
                                     Field{"trained_length", "trained_length", &Dynamic::trained_length, Need::length,
                                           Reads{.otherwise = Otherwise::context, .key_of = KeyOf::rotary}}};
};

template <>
struct Row<Yarn> {
  static constexpr Facts facts{"yarn", "yarn", Stretch::by_factor, AttentionFactor::own, Length::any, Base::stays};
  static constexpr std::tuple fields{
      Field{"factor", "factor", &Yarn::factor, Need::factor, Reads{.otherwise = Otherwise::lengths}},
      Field{"trained_length", "original_max_position_embeddings", &Yarn::trained_length, Need::length,
            Reads{.otherwise = Otherwise::trained_length, .turn = 0}},
      Field{"beta_fast", "beta_fast", &Yarn::beta_fast, Need::turns, of_beta},
      Field{"beta_slow", "beta_slow", &Yarn::beta_slow, Need::turns, of_beta},
      Field{"truncate", "truncate", &Yarn::truncate, Need::flag, Reads{.otherwise = Otherwise::layer_types}},
      Field{"attention_factor", "attention_factor", &Yarn::attention_factor, Need::not_negative,
            Reads{.otherwise = Otherwise::unrecorded, .turn = 2}},
      Field{"mscale", "mscale", &Yarn::mscale, Need::finite, Reads{.otherwise = Otherwise::unrecorded}},
      Field{"mscale_all_dim", "mscale_all_dim", &Yarn::mscale_all_dim, Need::finite,
            Reads{.otherwise = Otherwise::unrecorded}},
      Field{"magnitude", "magnitude", &Yarn::magnitude, Need::finite,
            Reads{.otherwise = Otherwise::unsaid, .key_of = KeyOf::rotary}},
      Field{"mscale_ratio", "mscale_ratio", &Yarn::mscale_ratio, Need::flag,
            Reads{.otherwise = Otherwise::unsaid, .key_of = KeyOf::rotary}},
      Field{"extrapolation_factor", "extrapolation_factor", &Yarn::extrapolation_factor, Need::share,
            Reads{.otherwise = Otherwise::unsaid, .turn = 3, .key_of = KeyOf::vllm}},
      Field{"attn_factor", "attn_factor", &Yarn::attn_factor, Need::not_negative,
            Reads{.otherwise = Otherwise::unsaid, .bounds = Bounds::magnitude, .turn = 3, .key_of = KeyOf::vllm}}};
};

template <>
struct Row<LongRope> {
  static constexpr Facts facts{"longrope",           "longrope",     Stretch::per_pair,
                               AttentionFactor::own, Length::counts, Base::stays};
  static constexpr std::tuple fields{
      Field{"factor", "factor", &LongRope::factor, Need::positive, Reads{.otherwise = Otherwise::lengths, .turn = 3}},
      Field{"trained_length", "original_max_position_embeddings", &LongRope::trained_length, Need::length,
            Reads{.otherwise = Otherwise::trained_length}},
      Field{"short_factor", "short_factor", &LongRope::short_factor, Need::positive_per_pair, Reads{.turn = 0}},
      Field{"long_factor", "long_factor", &LongRope::long_factor, Need::positive_per_pair, Reads{.turn = 0}},
      Field{"attention_factor", "attention_factor", &LongRope::attention_factor, Need::not_negative,
            Reads{.otherwise = Otherwise::unrecorded, .turn = 2}},
      Field{"short_mscale", "short_mscale", &LongRope::short_mscale, Need::not_negative,
            Reads{.otherwise = Otherwise::unsaid, .bounds = Bounds::magnitude, .turn = 2}},
      Field{"long_mscale", "long_mscale", &LongRope::long_mscale, Need::not_negative,
            Reads{.otherwise = Otherwise::unsaid, .bounds = Bounds::magnitude, .turn = 2}}};
};

template <>
struct Row<Llama3> {
  static constexpr Facts facts{"llama3", "llama3", Stretch::by_factor, AttentionFactor::one, Length::any, Base::stays};
  static constexpr std::tuple fields{
      Field{"factor", "factor", &Llama3::factor, Need::factor},
      Field{"trained_length", "original_max_position_embeddings", &Llama3::trained_length, Need::length,
            Reads{.otherwise = Otherwise::trained_length, .turn = 2}},
      Field{"low", "low_freq_factor", &Llama3::low, Need::positive, Reads{.bounds = Bounds::above_zero}},
      Field{"high", "high_freq_factor", &Llama3::high, Need::positive, Reads{.bounds = Bounds::at_most}}};
};

template <>
struct Row<Proportional> {
  static constexpr Facts facts{"proportional",       "proportional", Stretch::by_factor,
                               AttentionFactor::one, Length::any,    Base::stays};
  static constexpr std::tuple fields{
      Field{"factor", "factor", &Proportional::factor, Need::factor, Reads{.otherwise = Otherwise::method_default}},
      Field{"fraction", "partial_rotary_factor", &Proportional::fraction, Need::share_above_zero,
            Reads{.otherwise = Otherwise::fraction}}};
};

template <>
struct Row<YarnLog> {
  static constexpr Facts facts{"yarn_log",           "yarn_log",  Stretch::by_factor,
                               AttentionFactor::one, Length::any, Base::stays};
  static constexpr std::tuple fields{
      Field{"factor", "factor", &YarnLog::factor, Need::factor},
      Field{"trained_length", "original_max_position_embeddings", &YarnLog::trained_length, Need::length,
            Reads{.otherwise = Otherwise::trained_length}},
      Field{"beta_fast", "beta_fast", &YarnLog::beta_fast, Need::turns, of_beta},
      Field{"beta_slow", "beta_slow", &YarnLog::beta_slow, Need::turns, of_beta},
      Field{"extrapolation_factor", "extrapolation_factor", &YarnLog::extrapolation_factor, Need::share,
            Reads{.otherwise = Otherwise::unsaid, .key_of = KeyOf::vllm}}};
};

template <>
struct Row<ThetaScale> {
  static constexpr Facts facts{"theta_scale",        "theta_scale", Stretch::by_factor,
                               AttentionFactor::one, Length::any,   Base::stays};
  static constexpr std::tuple fields{
      Field{"factor", "factor", &ThetaScale::factor, Need::factor},
      Field{"trained_length", "original_max_position_embeddings", &ThetaScale::trained_length, Need::length,
            Reads{.otherwise = Otherwise::trained_length}}};
};

// ---- visitors ------------------------------------------------------------------------------------

// visit(field, value) for each value of one scaling, in the order of its row.
template <class S, class Visit>
constexpr void for_each_field(S& scaling, Visit visit) {
  std::apply([&](const auto&... field) { (visit(field, scaling.*field.member), ...); },
             Row<std::remove_const_t<S>>::fields);
}

// for_each_field() of the scaling in the variant.
template <class Visit>
void for_each_field(const Scaling& scaling, Visit visit) {
  std::visit([&](const auto& held) { for_each_field(held, visit); }, scaling);
}

// visit(scaling) for each scaling with its default values, in the order of the variant.
template <class Visit>
constexpr void for_each_scaling(Visit visit) {
  [&]<std::size_t... i>(std::index_sequence<i...>) { (visit(std::variant_alternative_t<i, Scaling>{}), ...); }
  (std::make_index_sequence<std::variant_size_v<Scaling>>{});
}

template <class S>
constexpr const char* name_of(const S&) noexcept {
  return Row<S>::facts.name;
}

inline const Facts& facts_of(const Scaling& scaling) noexcept {
  return std::visit([]<class S>(const S&) -> const Facts& { return Row<S>::facts; }, scaling);
}

// Kinds of yarn with a rope_type in vLLM. That word is written too, so that a reader without rotary's own keys refuses
// the file and does not read it as plain yarn.
struct YarnKind {
  const char* rope_type;
  Yarn yarn;
};
inline constexpr YarnKind yarn_kinds[] = {{"deepseek_yarn", {.mscale_ratio = true}},
                                          {"telechat3-yarn", {.magnitude = 0.07}}};

inline const char* rope_type_of(const Scaling& scaling) noexcept {
  if (const Yarn* yarn = std::get_if<Yarn>(&scaling)) {
    for (const YarnKind& kind : yarn_kinds) {
      if (kind.yarn.mscale_ratio ? yarn->mscale_ratio : yarn->magnitude == kind.yarn.magnitude) return kind.rope_type;
    }
  }
  return facts_of(scaling).rope_type;
}

// Whether the value is written even if it is the default, because the scaling has no meaning without it.
template <class S, class Value>
constexpr bool is_always_stated(const Field<S, Value>& field) {
  const Otherwise otherwise = field.reads.otherwise;
  return field.need == Need::factor || field.need == Need::length || otherwise == Otherwise::missing ||
         otherwise == Otherwise::lengths;
}

// visit(field, value) for each value that differs from the default, and for others if is_kept(field). Optional values
// that are not set are left out.
template <class IsKept, class Visit>
void for_each_stated(const Scaling& scaling, IsKept is_kept, Visit visit) {
  std::visit(
      [&]<class S>(const S& held) {
        const S otherwise{};
        for_each_field(held, [&](const auto& field, const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::optional<double>>) {
            if (value) visit(field, *value);
          } else if (is_kept(field) || value != otherwise.*field.member) {
            visit(field, value);
          }
        });
      },
      scaling);
}

// The value of that name and type; null if the scaling has none.
template <class Value>
const Value* value_of(const Scaling& scaling, std::string_view name) {
  const Value* found = nullptr;
  for_each_field(scaling, [&](const auto& field, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Value>) {
      if (name == field.name) found = &value;
    }
  });
  return found;
}

inline bool has_key(const Scaling& scaling, std::string_view key) {
  bool found = false;
  for_each_field(scaling, [&](const auto& field, const auto&) { found = found || key == field.key; });
  return found;
}

// ---- rules for the rows --------------------------------------------------------------------------

struct AnyMember {
  operator double();
  operator std::int64_t();
  operator bool();
  operator std::optional<double>();
  operator std::vector<double>();
};

template <class S, class... Members>
constexpr std::size_t count_members() {
  if constexpr (requires { S{Members{}..., AnyMember{}}; }) {
    return count_members<S, Members..., AnyMember>();
  } else {
    return sizeof...(Members);
  }
}

template <std::size_t count>
constexpr bool all_different(const std::array<std::string_view, count>& words) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (words[i] == words[j]) return false;
    }
  }
  return true;
}

// Every member has a field of its own.
template <class S>
constexpr bool row_is_complete() {
  return std::apply(
      [](const auto&... field) {
        return sizeof...(field) == count_members<S>() &&
               all_different(std::array<std::string_view, sizeof...(field)>{field.name...});
      },
      Row<S>::fields);
}

template <class>
struct AllRows;
template <class... S>
struct AllRows<std::variant<S...>> {
  static constexpr bool are_complete = (row_is_complete<S>() && ...);
  using Words = std::array<std::string_view, sizeof...(S)>;
  static constexpr bool have_own_names =
      all_different(Words{Row<S>::facts.name...}) && all_different(Words{Row<S>::facts.rope_type...});
};

static_assert(AllRows<Scaling>::are_complete, "every member of a scaling has one field in its row");
static_assert(AllRows<Scaling>::have_own_names, "every scaling has a name and a rope_type of its own");

}  // namespace rotary::scalings
