#include "table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string>
#include <type_traits>

#include "quirks/quirk.h"
#include "quirks/towers.h"
#include "table_text.h"

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

// ---- rows ----

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

// The fields of one object. A field that nothing has read is an error at the end.
class Fields {
 public:
  explicit Fields(const Field& field) : field_(field), members_(members(field.text, field.path())) {}

  template <class T>
  void read(std::string_view name, T& value) {
    for (Member& member : members_) {
      if (member.key != name) continue;
      set({member.value, &field_, name}, value);
      member.key = {};
    }
  }

  // An object as the file spells it.
  void read_object(std::string_view name, std::string_view& value) {
    for (Member& member : members_) {
      if (member.key != name) continue;
      value = member.value;
      member.key = {};
    }
  }

  void end() const {
    for (const Member& member : members_) {
      const bool fits = member.key.empty() || member.key == "comment" || member.key == "by_hand";  // for readers
      if (!fits) field_.refuse("has no field " + std::string(member.key));
    }
  }

 private:
  template <class T>
  void set(const Field& field, T& value);

  const Field& field_;
  std::vector<Member> members_;
};

void read_fields(Fields& fields, Shape& shape) {
  fields.read("layers", shape.layers);
  fields.read("heads", shape.heads);
  fields.read("kv_heads", shape.kv_heads);
  fields.read("hidden", shape.hidden);
  fields.read("head_dim", shape.head_dim);
}

void read_fields(Fields& fields, Mla& mla) {
  fields.read("nope", mla.nope);
  fields.read("rope", mla.rope);
}

void read_fields(Fields& fields, Pattern& pattern) {
  fields.read("types", pattern.types);
  fields.read("period_key", pattern.period_key);
  fields.read("first", pattern.first);
  fields.read("ends_full", pattern.ends_full);
  fields.read("last_full", pattern.last_full);
}

void read_fields(Fields& fields, Flag& flag) {
  fields.read("key", flag.key);
  fields.read("on", flag.on);
  fields.read("default_value", flag.default_value);
}

void read_fields(Fields& fields, Remark& remark) {
  fields.read("text", remark.text);
  fields.read("keys", remark.keys);
}

void read_fields(Fields& fields, FusedWhere& where) {
  fields.read("key", where.key);
  fields.read("default_value", where.default_value);
  fields.read("fused", where.fused);
}

void read_fields(Fields& fields, Indexer& indexer) {
  fields.read("heads", indexer.heads);
  fields.read("head_dim", indexer.head_dim);
}

void read_fields(Fields& fields, AttentionFacts& facts) {
  fields.read("why_not", facts.why_not);
  fields.read("fused", facts.fused);
  fields.read("fused_where", facts.fused_where);
  fields.read("fused_keys", facts.fused_keys);
  fields.read("gated_q", facts.gated_q);
  fields.read("gated_by_value", facts.gated_by_value);
  fields.read("query_experts", facts.query_experts);
  fields.read("keys_may_be_values", facts.keys_may_be_values);
  fields.read("pairing_key", facts.pairing_key);
  fields.read("first_layer", facts.first_layer);
  fields.read("layers_in_stack", facts.layers_in_stack);
  fields.read("indexer", facts.indexer);
}

void read_fields(Fields& fields, DecoderFacts& facts) {
  fields.read("names", facts.names);
  fields.read("vocabulary", facts.vocabulary);
  fields.read("feed_forward", facts.feed_forward);
  fields.read("activation", facts.activation);
  fields.read("norm_eps", facts.norm_eps);
  fields.read("windows", facts.windows);
  fields.read("biases", facts.biases);
  fields.read("attention_bias", facts.attention_bias);
  fields.read("mlp_bias", facts.mlp_bias);
  fields.read("qk_norm", facts.qk_norm);
}

void read_fields(Fields& fields, Unusable& unusable) {
  fields.read("methods", unusable.methods);
  fields.read("why", unusable.why);
}

void read_fields(Fields& fields, Family& family) {
  fields.read("pairing", family.pairing);
  fields.read("shape", family.shape);
  fields.read("context", family.context);
  fields.read("prefix", family.prefix);
  fields.read("base", family.base);
  fields.read("partial", family.partial);
  fields.read("reads_partial", family.reads_partial);
  fields.read("reads_scaling", family.reads_scaling);
  fields.read("axes", family.axes);
  fields.read("sections", family.sections);
  fields.read("tower", family.tower);
  fields.read("mla", family.mla);
  fields.read_object("rope_parameters", family.rope_parameters);
  fields.read("pattern", family.pattern);
  fields.read("rule", family.rule);
  fields.read("turns_where", family.turns_where);
  fields.read("old", family.old);
  fields.read("sliding_base", family.sliding_base);
  fields.read("base_key", family.base_key);
  fields.read("sliding_base_key", family.sliding_base_key);
  fields.read("partial_key", family.partial_key);
  fields.read("dim_key", family.dim_key);
  fields.read("dim", family.dim);
  fields.read("pairing_key", family.pairing_key);
  fields.read("harmless", family.harmless);
  fields.read("remark", family.remark);
  fields.read("quirk", family.quirk);
  fields.read("attention", family.attention);
  fields.read("decoder", family.decoder);
  fields.read("unusable", family.unusable);
}

void read_fields(Fields& fields, Child& child) {
  fields.read("type", child.type);
  fields.read("shape", child.shape);
  fields.read("base", child.base);
  fields.read("merged", child.merged);
}

void read_fields(Fields& fields, Misnamed& misnamed) {
  fields.read("type", misnamed.type);
  fields.read("architecture", misnamed.architecture);
  fields.read("family", misnamed.family);
}

void read_fields(Fields& fields, GgufArchitecture& architecture) {
  fields.read("rope_type", architecture.rope_type);
  fields.read("quirk", architecture.quirk);
  fields.read("period", architecture.period);
  fields.read("window_10000", architecture.window_10000);
}

// ---- values ----

void set_value(const Field& field, std::string_view& value) { value = characters(field.text, field.path()); }

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

template <class T>
void read_row(const Field& field, T& value) {
  Fields fields(field);
  read_fields(fields, value);
  fields.end();
}

template <class T>
void read_row(const Field& field, std::vector<T>& values) {
  for (const std::string_view text : elements(field.text, field.path())) {
    read_row({text, field.outer, field.name}, values.emplace_back());
  }
}

template <class T>
void Fields::set(const Field& field, T& value) {
  if constexpr (requires { set_value(field, value); }) {
    set_value(field, value);
  } else {
    read_row(field, value);
  }
}

// A child is its type, or an object with the parent's own defaults.
void add_child(const Field& field, std::string_view parent, std::vector<Child>& children) {
  Child& child = children.emplace_back();
  if (field.text.front() == '{') {
    read_row(field, child);
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
  if (name == "misnamed") return read_row(whole, misnamed);
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
      read_row(field, architectures.emplace_back());
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
  read_row({row->second.text, &section, row->first}, *read);
  const Family* other = nullptr;  // of another thread that was faster
  if (!known.compare_exchange_strong(other, read.get(), std::memory_order_acq_rel)) return other;
  return read.release();
}

}  // namespace rotary::files
