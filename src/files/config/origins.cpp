#include "origins.h"

#include <algorithm>
#include <utility>

#include "values/names.h"

namespace rotary::files {
namespace {

// The values of a ModelRope and of its scaling.
constexpr std::string_view values_of_rope[] = {"layers",
                                               "heads",
                                               "kv_heads",
                                               "head_dim",
                                               "rotary_dim",
                                               "first",
                                               "pairing",
                                               "base",
                                               "inv_freq",
                                               "multiplier",
                                               "scaling",
                                               "scaling.factor",
                                               "scaling.trained_length",
                                               "scaling.mixed_b",
                                               "scaling.beta_fast",
                                               "scaling.beta_slow",
                                               "scaling.truncate",
                                               "scaling.mscale",
                                               "scaling.mscale_all_dim",
                                               "scaling.magnitude",
                                               "scaling.extrapolation_factor",
                                               "scaling.attn_factor",
                                               "scaling.short_factor",
                                               "scaling.long_factor",
                                               "scaling.short_mscale",
                                               "scaling.long_mscale",
                                               "scaling.low",
                                               "scaling.high",
                                               "scaling.fraction",
                                               "attention_factor",
                                               "axis",
                                               "context"};

}  // namespace

void Origins::read(std::string_view value, const Object& keys, std::string_view key) {
  if (keys.owner().empty()) {
    given(value, keys.path_of(key));
  } else {
    usual(value, keys.owner());
  }
}

void Origins::read_or_usual(std::string_view value, const Object& keys, std::string_view key, std::string_view whose) {
  if (keys.has(key)) {
    read(value, keys, key);
  } else {
    usual(value, whose);
  }
}

void Origins::given(std::string_view value, std::string path) {
  set({std::string(value), Origin::given, std::move(path)});
}

void Origins::usual(std::string_view value, std::string_view whose) {
  set({std::string(value), Origin::model_default, std::string(whose)});
}

void Origins::derived(std::string_view value, std::string formula) {
  set({std::string(value), Origin::derived, std::move(formula)});
}

void Origins::same(std::string_view value, std::string_view other) {
  const ValueOrigin* known = find(other);
  if (known != nullptr) set({std::string(value), known->origin, known->from});
}

void Origins::add(const std::vector<ValueOrigin>& others) {
  for (const ValueOrigin& other : others) set(other);
}

const ValueOrigin* Origins::find(std::string_view value) const noexcept {
  const auto found =
      std::find_if(values_.begin(), values_.end(), [&](const ValueOrigin& known) { return known.value == value; });
  return found == values_.end() ? nullptr : &*found;
}

std::vector<ValueOrigin> Origins::of_rope() const {
  std::vector<ValueOrigin> all;
  for (const std::string_view value : values_of_rope) {
    if (const ValueOrigin* found = find(value)) all.push_back(*found);
  }
  return all;
}

void Origins::set(ValueOrigin origin) {
  const auto known =
      std::find_if(values_.begin(), values_.end(), [&](const ValueOrigin& old) { return old.value == origin.value; });
  if (known == values_.end()) {
    values_.push_back(std::move(origin));
  } else {
    *known = std::move(origin);
  }
}

std::string last_word(const std::string& path) { return path.substr(path.rfind('.') + 1); }

}  // namespace rotary::files

namespace rotary {

namespace {

constexpr detail::Named<Origin> origin_names[] = {
    {Origin::given, "given"}, {Origin::model_default, "default"}, {Origin::derived, "derived"}};

}  // namespace

const char* name(Origin origin) noexcept { return detail::name_in(origin_names, origin); }
Origin parse_origin(std::string_view text) {
  return detail::parse_in(origin_names, text, "parse_origin", Code::VALUE);
}

}  // namespace rotary
