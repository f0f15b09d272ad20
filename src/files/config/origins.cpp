#include "origins.h"

#include <algorithm>
#include <utility>

#include "values/names.h"
#include "values/scaling_fields.h"

namespace rotary::files {
namespace {

// The values of a ModelRope and of its scaling, whichever it is.
const std::vector<std::string>& values_of_rope() {
  static const std::vector<std::string> values = [] {
    std::vector<std::string> all = {"layers",  "heads", "kv_heads", "head_dim",   "rotary_dim", "first",
                                    "pairing", "base",  "inv_freq", "multiplier", "scaling"};
    scalings::for_each_scaling([&](const auto& scaling) {
      scalings::for_each_field(scaling, [&](const auto& field, const auto&) {
        const std::string value = std::string("scaling.") + field.name;
        if (std::find(all.begin(), all.end(), value) == all.end()) all.push_back(value);
      });
    });
    all.insert(all.end(), {"attention_factor", "axis", "context"});
    return all;
  }();
  return values;
}

}  // namespace

From from_key(const Object& keys, std::string_view key) {
  if (keys.owner().empty()) return {Origin::given, keys.path_of(key)};
  return {Origin::model_default, keys.owner()};
}

void Origins::read(std::string_view value, const Object& keys, std::string_view key) {
  set(value, from_key(keys, key));
}

void Origins::read_or_by_default(std::string_view value, const Object& keys, std::string_view key,
                                 std::string_view whose) {
  if (keys.has(key)) {
    read(value, keys, key);
  } else {
    by_default(value, whose);
  }
}

void Origins::given(std::string_view value, std::string path) { set(value, {Origin::given, std::move(path)}); }

void Origins::by_default(std::string_view value, std::string_view whose) {
  set(value, {Origin::model_default, std::string(whose)});
}

void Origins::derived(std::string_view value, std::string formula) {
  set(value, {Origin::derived, std::move(formula)});
}

void Origins::multiplied(std::string_view value, std::string_view by) {
  const auto found = values_.find(value);
  if (found != values_.end()) derived(value, std::string(by) + " * (" + found->second.from + ")");
}

void Origins::same(std::string_view value, std::string_view other) {
  const auto found = values_.find(other);
  if (found != values_.end()) set(value, found->second);
}

void Origins::add(const std::vector<ValueOrigin>& others) {
  for (const ValueOrigin& other : others) set(other.value, {other.origin, other.from});
}

std::vector<ValueOrigin> Origins::of_rope() const {
  std::vector<ValueOrigin> all;
  for (const std::string& value : values_of_rope()) {
    const auto found = values_.find(value);
    if (found != values_.end()) all.push_back({value, found->second.origin, found->second.from});
  }
  return all;
}

void Origins::set(std::string_view value, From from) { values_.insert_or_assign(std::string(value), std::move(from)); }

std::string last_word(const std::string& path) { return path.substr(path.rfind('.') + 1); }

}  // namespace rotary::files

namespace rotary {

namespace {

constexpr detail::Named<Origin> origin_names[] = {
    {Origin::given, "given"}, {Origin::model_default, "default"}, {Origin::derived, "derived"}};

}  // namespace

const char* name(Origin origin) noexcept { return detail::name_in(origin_names, origin); }
Origin parse_origin(std::string_view text) { return detail::parse_in(origin_names, text, "parse_origin", Code::VALUE); }

}  // namespace rotary
