#include "table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>

#include "files/text/json_edit.h"
#include "quirks/quirk.h"
#include "values/fail.h"

namespace rotary::embedded {
std::string_view models() noexcept;  // data/models.json
}

namespace rotary::files {
namespace {

// The words of an enum, in the order of its values.
template <class E>
constexpr std::string_view words_of = "";
template <>
constexpr std::string_view words_of<Pairing> = "unset half interleaved interleaved_to_half";
template <>
constexpr std::string_view words_of<Axes> = "one sectioned interleaved ernie xdrope alternating";
template <>
constexpr std::string_view words_of<Rule> =
    "all sliding sliding_or_dense sliding_or_all no_rope_layers layer_rope_theta layer_rope_flags unless_null "
    "if_rotary unless_not_rotary unless_alibi_size if_attn_config_rope use_rope_layers not_cross";
template <>
constexpr std::string_view words_of<Old> = "one_for_all all_to_all scaling_to_full scaling_to_both scaling_to_compress";
template <>
constexpr std::string_view words_of<Fused> = "none joined gate_first by_head by_group four_parts";
template <>
constexpr std::string_view words_of<FusedKeys> = "none joined by_head";
template <>
constexpr std::string_view words_of<Windows> = "none all_layers by_layer";
template <>
constexpr std::string_view words_of<Biases> = "never as_configured always_but_output";

template <>
constexpr std::string_view words_of<GgufRopeType> = "none norm neox mrope imrope norm_mrope neox_mrope";
template <>
constexpr std::string_view words_of<GgufQuirk> =
    "plain permuted permuted_switch permuted_gaps gaps gaps_first mla window_only window_plain window_after hybrid";

// ---- the text of data/models.json: JSON (a test sees to it) without escapes in its strings ----

struct Member {
  std::string_view key, value;  // the value as it is spelled
};

// Throws INTERNAL. So do the others where a value is not what they read.
[[noreturn]] void refuse_table(const std::string& sentence) {
  fail(Code::INTERNAL, "models", "data/models.json: " + sentence);
}

// Of a string, without its quotes.
std::string_view characters(std::string_view text, const std::string& where) {
  if (text.size() < 2 || text.front() != '"' || text.find('\\') != std::string_view::npos) {
    refuse_table(where + " must be a string but is " + std::string(text));
  }
  return text.substr(1, text.size() - 2);
}

std::vector<std::string_view> elements(std::string_view list, const std::string& where) {
  if (list.empty() || list.front() != '[') refuse_table(where + " must be a list");
  std::vector<std::string_view> found;
  for (const JsonChild& element : json_children(list, 0)) found.push_back(element.value.of(list));
  return found;
}

std::vector<Member> members(std::string_view object, const std::string& where) {
  if (object.empty() || object.front() != '{') refuse_table(where + " must be an object");
  std::vector<Member> found;
  for (const JsonChild& member : json_children(object, 0)) {
    found.push_back({characters(member.key.of(object), where), member.value.of(object)});
  }
  return found;
}

// ---- rows ----

// A field of a row: its name, and the member of S that it fills.
template <class S, class Value>
struct Column {
  std::string_view name;
  Value S::*member;
  constexpr Column(const char* n, Value S::*m) : name(n), member(m) {}
};

template <class S>
constexpr auto columns_of = std::tuple();
template <>
constexpr auto columns_of<Shape> = std::tuple(Column("layers", &Shape::layers), Column("heads", &Shape::heads),
                                              Column("kv_heads", &Shape::kv_heads), Column("hidden", &Shape::hidden),
                                              Column("head_dim", &Shape::head_dim));
template <>
constexpr auto columns_of<Mla> = std::tuple(Column("nope", &Mla::nope), Column("rope", &Mla::rope));
template <>
constexpr auto columns_of<Pattern> = std::tuple(Column("types", &Pattern::types),
                                                Column("period_key", &Pattern::period_key),
                                                Column("first", &Pattern::first),
                                                Column("ends_full", &Pattern::ends_full),
                                                Column("last_full", &Pattern::last_full));
template <>
constexpr auto columns_of<Flag> = std::tuple(Column("key", &Flag::key), Column("on", &Flag::on),
                                             Column("default_value", &Flag::default_value));
template <>
constexpr auto columns_of<Remark> = std::tuple(Column("text", &Remark::text), Column("keys", &Remark::keys));
template <>
constexpr auto columns_of<FusedWhere> = std::tuple(Column("key", &FusedWhere::key),
                                                   Column("default_value", &FusedWhere::default_value),
                                                   Column("fused", &FusedWhere::fused));
template <>
constexpr auto columns_of<Indexer> = std::tuple(Column("heads", &Indexer::heads),
                                                Column("head_dim", &Indexer::head_dim),
                                                Column("pairing", &Indexer::pairing));
template <>
constexpr auto columns_of<AttentionFacts> = std::tuple(
    Column("why_not", &AttentionFacts::why_not), Column("fused", &AttentionFacts::fused),
    Column("fused_where", &AttentionFacts::fused_where), Column("fused_keys", &AttentionFacts::fused_keys),
    Column("gated_q", &AttentionFacts::gated_q), Column("gated_by_value", &AttentionFacts::gated_by_value),
    Column("query_experts", &AttentionFacts::query_experts),
    Column("keys_may_be_values", &AttentionFacts::keys_may_be_values),
    Column("pairing_key", &AttentionFacts::pairing_key), Column("first_layer", &AttentionFacts::first_layer),
    Column("layers_in_stack", &AttentionFacts::layers_in_stack), Column("indexer", &AttentionFacts::indexer));
template <>
constexpr auto columns_of<DecoderFacts> =
    std::tuple(Column("names", &DecoderFacts::names), Column("vocabulary", &DecoderFacts::vocabulary),
               Column("feed_forward", &DecoderFacts::feed_forward), Column("activation", &DecoderFacts::activation),
               Column("norm_eps", &DecoderFacts::norm_eps), Column("windows", &DecoderFacts::windows),
               Column("biases", &DecoderFacts::biases), Column("attention_bias", &DecoderFacts::attention_bias),
               Column("mlp_bias", &DecoderFacts::mlp_bias), Column("qk_norm", &DecoderFacts::qk_norm));
template <>
constexpr auto columns_of<Unusable> = std::tuple(Column("methods", &Unusable::methods), Column("why", &Unusable::why));
template <>
constexpr auto columns_of<Family> = std::tuple(
    Column("pairing", &Family::pairing), Column("shape", &Family::shape), Column("context", &Family::context),
    Column("prefix", &Family::prefix), Column("base", &Family::base), Column("partial", &Family::partial),
    Column("reads_partial", &Family::reads_partial), Column("reads_scaling", &Family::reads_scaling),
    Column("axes", &Family::axes), Column("sections", &Family::sections), Column("tower", &Family::tower),
    Column("mla", &Family::mla), Column("rope_parameters", &Family::rope_parameters),
    Column("pattern", &Family::pattern), Column("rule", &Family::rule), Column("turns_where", &Family::turns_where),
    Column("old", &Family::old), Column("sliding_base", &Family::sliding_base), Column("base_key", &Family::base_key),
    Column("sliding_base_key", &Family::sliding_base_key), Column("partial_key", &Family::partial_key),
    Column("dim_key", &Family::dim_key), Column("dim", &Family::dim), Column("pairing_key", &Family::pairing_key),
    Column("harmless", &Family::harmless), Column("remark", &Family::remark), Column("quirk", &Family::quirk),
    Column("attention", &Family::attention), Column("decoder", &Family::decoder), Column("unusable", &Family::unusable),
    Column("null_head_dim", &Family::null_head_dim));
template <>
constexpr auto columns_of<Child> = std::tuple(Column("type", &Child::type), Column("shape", &Child::shape),
                                              Column("base", &Child::base), Column("merged", &Child::merged));
template <>
constexpr auto columns_of<Misnamed> = std::tuple(Column("type", &Misnamed::type),
                                                 Column("architecture", &Misnamed::architecture),
                                                 Column("family", &Misnamed::family));
template <>
constexpr auto columns_of<GgufArchitecture> = std::tuple(Column("rope_type", &GgufArchitecture::rope_type),
                                                         Column("quirk", &GgufArchitecture::quirk),
                                                         Column("period", &GgufArchitecture::period),
                                                         Column("window_10000", &GgufArchitecture::window_10000));

// A value with its place in the file, for error sentences. Views of strings come from text, which outlives the rows.
struct Field {
  std::string_view text;
  const Field* outer;
  std::string_view name;

  std::string path() const { return (outer == nullptr ? "" : outer->path() + ".") + std::string(name); }
  [[noreturn]] void refuse(const std::string& rule) const { refuse_table(path() + " " + rule); }
  [[noreturn]] void refuse_value(const std::string& rule) const {
    refuse("must be " + rule + " but is " + std::string(text));
  }
};

// ---- values ----

// A string, or an object as the file spells it.
void set_value(const Field& field, std::string_view& value) {
  value = field.text.starts_with('{') ? field.text : characters(field.text, field.path());
}

void set_value(const Field& field, bool& value) {
  if (field.text != "true" && field.text != "false") field.refuse_value("a boolean");
  value = field.text == "true";
}

template <class T>
requires std::is_arithmetic_v<T>
void set_value(const Field& field, T& value) {
  const char* end = field.text.data() + field.text.size();
  const auto [stop, error] = std::from_chars(field.text.data(), end, value);
  if (error != std::errc() || stop != end) field.refuse_value(std::is_integral_v<T> ? "a count" : "a number");
}

void set_value(const Field& field, char& value) {
  const std::string_view text = characters(field.text, field.path());
  if (text.size() != 1) field.refuse_value("one letter");
  value = text.front();
}

void set_value(const Field& field, std::array<int, 4>& values) {
  const std::vector<std::string_view> given = elements(field.text, field.path());
  if (given.size() > values.size()) field.refuse_value("a list of up to four counts");
  for (std::size_t i = 0; i < given.size(); ++i) set_value({given[i], field.outer, field.name}, values[i]);
}

template <class E>
requires std::is_enum_v<E>
void set_value(const Field& field, E& value) {
  const std::vector<std::string_view> known = words(words_of<E>);
  const auto found = std::find(known.begin(), known.end(), characters(field.text, field.path()));
  if (found == known.end()) field.refuse_value("one of \"" + std::string(words_of<E>) + "\"");
  value = static_cast<E>(found - known.begin());
}

void set_value(const Field& field, const Quirk*& value) {
  value = find_quirk(characters(field.text, field.path()));
  if (value == nullptr) field.refuse_value("the name of a quirk");
}

void set_value(const Field& field, const Tower*& value) {
  value = find_tower(characters(field.text, field.path()));
  if (value == nullptr) field.refuse_value("the name of a tower");
}

template <class S>
requires(std::tuple_size_v<decltype(columns_of<S>)> > 0) void set_value(const Field& field, S& value);

template <class T>
void set_value(const Field& field, std::vector<T>& values) {
  for (const std::string_view text : elements(field.text, field.path())) {
    set_value({text, field.outer, field.name}, values.emplace_back());
  }
}

template <class S>
requires(std::tuple_size_v<decltype(columns_of<S>)> > 0) void set_value(const Field& field, S& value) {
  for (const auto& [name, text] : members(field.text, field.path())) {
    const auto fills = [&, name = name, text = text](const auto& column) {
      if (column.name != name) return false;
      set_value({text, &field, name}, value.*column.member);
      return true;
    };
    const bool known = std::apply([&](const auto&... column) { return (fills(column) || ...); }, columns_of<S>);
    if (!known && name != "comment" && name != "by_hand") {  // these two are for readers
      field.refuse("has no field " + std::string(name));
    }
  }
}

// A child is its type, or an object with the parent's own defaults.
void add_child(const Field& field, std::string_view parent, std::vector<Child>& children) {
  Child& child = children.emplace_back();
  if (field.text.front() == '{') {
    set_value(field, child);
  } else {
    set_value(field, child.type);
  }
  if (child.type.empty()) field.refuse("must have a type");
  child.parent = parent;
  child.part = field.name;
}

}  // namespace

ModelTable::ModelTable(std::string_view text) {
  for (const Member& section : members(text.substr(std::min(text.find('{'), text.size())), "the file")) {
    add_section(section.key, section.value);
  }
}

void ModelTable::add_section(std::string_view name, std::string_view section) {
  const Field whole{section, nullptr, name};
  if (name == "about") return;
  if (name == "misnamed") return set_value(whole, misnamed);
  if (name == "our_names" || name == "without_rope") {
    for (const std::string_view word : elements(section, whole.path())) {
      (name == "our_names" ? our_names : without_rope).push_back(characters(word, whole.path()));
    }
    return;
  }
  for (const auto& [key, value] : members(section, whole.path())) {
    const Field field{value, &whole, key};
    if (name == "models" || name == "remote_models") {
      if (!rows_.try_emplace(key, name, value).second) field.refuse("must stand in the file once");
      types.push_back(key);
    } else if (name == "children") {
      for (const auto& [part, type] : members(value, field.path())) add_child({type, &field, part}, key, children);
    } else if (name == "architectures") {
      set_value(field, architectures.emplace_back());
      architectures.back().name = key;
    } else if (name == "refused") {
      refused.push_back({key, characters(value, field.path())});
    } else {
      whole.refuse("is no section");
    }
  }
}

const Family* ModelTable::find(std::string_view model_type) const {
  const auto row = rows_.find(model_type);
  if (row == rows_.end()) return nullptr;
  std::atomic<const Family*>& known = row->second.family;
  if (const Family* family = known.load(std::memory_order_acquire)) return family;
  auto read = std::make_unique<Family>();
  read->type = row->first;
  const Field section{{}, nullptr, row->second.section};
  set_value({row->second.text, &section, row->first}, *read);
  const Family* other = nullptr;  // of another thread that was faster
  if (!known.compare_exchange_strong(other, read.get(), std::memory_order_acq_rel)) return other;
  return read.release();
}

// ---- the facts that families.h declares ----

namespace {

const ModelTable& table() {
  static const ModelTable all(embedded::models());
  return all;
}

bool holds(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::span<const std::string_view> model_types() { return table().types; }
std::span<const Child> children() { return table().children; }
std::span<const Refusal> refused_types() { return table().refused; }
std::span<const std::string_view> types_without_rope() { return table().without_rope; }

const Family* find_family(std::string_view model_type) { return table().find(model_type); }

const GgufArchitecture* find_architecture(std::string_view name) {
  for (const GgufArchitecture& known : table().architectures) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

bool known_without_rope(std::string_view model_type) { return holds(table().without_rope, model_type); }

std::string_view refusal(std::string_view model_type) {
  for (const Refusal& known : refused_types()) {
    if (known.type == model_type) return known.why;
  }
  return {};
}

bool is_listed(std::string_view word, std::string_view list) {
  for (std::size_t at = list.find(word); at != std::string_view::npos; at = list.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if (!word.empty() && word.find(' ') == std::string_view::npos && (at == 0 || list[at - 1] == ' ') &&
        (end == list.size() || list[end] == ' '))
      return true;
  }
  return false;
}

std::vector<std::string_view> words(std::string_view list) {
  std::vector<std::string_view> found;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    found.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return found;
}

bool is_our_name(std::string_view model_type) { return holds(table().our_names, model_type); }

const Child* find_child(std::string_view parent, std::string_view part) {
  const std::span<const Child> all = children();
  const auto found = std::find_if(all.begin(), all.end(), [parent, part](const Child& child) {
    return child.parent == parent && child.part == part;
  });
  return found == all.end() ? nullptr : &*found;
}

std::string_view meant_type(std::string_view model_type, std::string_view architecture) {
  for (const Misnamed& known : table().misnamed) {
    if (known.type == model_type && known.architecture == architecture) return known.family;
  }
  return {};
}

std::string_view child_type(std::string_view parent, std::string_view part) {
  const Child* child = find_child(parent, part);
  return child == nullptr ? std::string_view() : child->type;
}

}  // namespace rotary::files
