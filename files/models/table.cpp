#include "table.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <type_traits>
#include <utility>

#include "config/stages.h"
#include "diffusers.h"
#include "quirks/quirk.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

// ---- the fields of the rows: their names, and the words of those that are one of a few ----

// The words of an enum, in the order of its values.
constexpr std::string_view words_of(Pairing) { return "unset half interleaved interleaved_to_half"; }
constexpr std::string_view words_of(Axes) {
  return "one sectioned interleaved ernie xdrope alternating bailing openpangu glm";
}
constexpr std::string_view words_of(Rule) {
  return "all sliding sliding_or_dense sliding_or_all no_rope_layers layer_rope_theta layer_rope_flags unless_null "
         "if_rotary unless_not_rotary unless_alibi_size if_attn_config_rope use_rope_layers not_cross";
}
constexpr std::string_view words_of(Old) {
  return "one_for_all all_to_all scaling_to_full scaling_to_both scaling_to_compress";
}
constexpr std::string_view words_of(Fused) { return "none joined gate_first by_head by_group four_parts"; }
constexpr std::string_view words_of(FusedKeys) { return "none joined by_head"; }
constexpr std::string_view words_of(LayerKind) { return "none sliding full linear hybrid indexed mlp"; }
constexpr std::string_view words_of(PatchOrder) { return "none rows blocks film_blocks centres windows"; }
constexpr std::string_view words_of(PositionVariant) {
  return "none whole_film film_in_seconds film_merged_in_time film_by_frame frame_after_frame between_marks "
         "words_keep_counting page canvas omni_by_pieces omni_by_time";
}
constexpr std::string_view words_of(ClassToken) { return "none before after"; }
constexpr std::string_view words_of(GgufRopeType) { return "none norm neox mrope imrope norm_mrope neox_mrope"; }
constexpr std::string_view words_of(GgufQuirk) {
  return "plain permuted permuted_switch permuted_gaps gaps gaps_first mla compressed window_only window_or_dense "
         "window_plain window_after hybrid";
}
constexpr std::string_view words_of(Fraction) { return "rope_block head nothing"; }
constexpr std::string_view words_of(Learns) { return "nothing multiplier directions last_directions"; }
constexpr std::string_view words_of(QueryForm) { return "none steps log power ratio learned"; }
constexpr std::string_view words_of(Split) { return "none equal sixths thirds eighths half"; }
constexpr std::string_view words_of(Laid) { return "in_turn by_turns interleaved blocks across_heads learned joined"; }
constexpr std::string_view words_of(Fill) { return "whole whole_or_half any"; }

// for_each_column(row, visit): visit(name, member) of each field of a row.
#define ROTARY_COLUMN(member) visit(#member, row.member);
#define ROTARY_COLUMNS(Type, ...)                                         \
  template <class Visit>                                                  \
  void for_each_column(Type& row, const Visit& visit) {                   \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(ROTARY_COLUMN, __VA_ARGS__)) \
  }

ROTARY_COLUMNS(Shape, layers, heads, kv_heads, hidden, head_dim)
ROTARY_COLUMNS(Mla, nope, rope)
ROTARY_COLUMNS(Pattern, types, period_key, first, ends_full, last_full)
ROTARY_COLUMNS(Flag, key, on, default_value)
ROTARY_COLUMNS(Remark, text, keys)
ROTARY_COLUMNS(FusedWhere, key, default_value, fused)
ROTARY_COLUMNS(Indexer, heads, head_dim, pairing)
ROTARY_COLUMNS(AttentionFacts, why_not, fused, fused_where, fused_keys, gated_q, gated_by_value, query_experts,
               keys_may_be_values, pairing_key, first_layer, layers_in_stack, indexer)
ROTARY_COLUMNS(Unusable, methods, why)
ROTARY_COLUMNS(Learned, what, tensor, also)
ROTARY_COLUMNS(Tower, words, axes, width)
ROTARY_COLUMNS(Family, pairing, shape, context, prefix, base, partial, reads_partial, reads_scaling, axes, sections,
               tower, mla, rope_parameters, pattern, rule, turns_where, old, sliding_base, base_key, sliding_base_key,
               partial_key, dim_key, dim, pairing_key, harmless, remark, quirk, attention, unusable, null_head_dim,
               width_key, scaling_key, divisor_key, lists_bases, yarn_is_longrope, alpha_is_ntk, sections_are_weights,
               fraction, learned, norm_behind, turns_back)
ROTARY_COLUMNS(Child, type, shape, base, merged, always)
ROTARY_COLUMNS(PositionFacts, variant, image, video, audio, start, end, order, first, class_token, frame_axis,
               grid_of_blocks, fixed_grid, width_first, clip, inside, merge_key, side_key, patch_key, merge, side,
               patch, frames, window)
ROTARY_COLUMNS(QueryScale, form, amount, length, first)
ROTARY_COLUMNS(QueryRow, type, scale, object, amount_key, length_key, turns_on, chosen, layers)
ROTARY_COLUMNS(Misnamed, type, architecture, key, text, family)
ROTARY_COLUMNS(GgufArchitecture, rope_type, quirk, period, window_10000)
ROTARY_COLUMNS(DiffusersRope, defaults, pairing, pairing_key, axes, layers, heads, kv_heads, head_dim, hidden, widths,
               width_unit, split, laid, fill, base, base_key, stretch, pace, ntk, longrope, turns_where, harmless,
               remark)

#undef ROTARY_COLUMNS
#undef ROTARY_COLUMN

template <class S>
concept HasColumns = requires(S& row) {
  for_each_column(row, [](const char*, auto&) {});
};

// ---- the text and its values ----

// Throws FORMAT, like the functions below for a wrong value.
[[noreturn]] void refuse_table(const std::string& sentence) { fail(Code::FORMAT, "models", sentence); }

struct Member {
  std::string_view name, text;
};

// The members of an object whose lines begin with `begin`, which ends in a quote.
std::vector<Member> members_of(std::string_view object, std::string_view begin) {
  std::vector<Member> members;
  object = object.substr(0, object.rfind('}'));
  for (std::size_t at = object.find(begin); at != std::string_view::npos;) {
    const std::size_t name = at + begin.size(), colon = object.find("\": ", name);
    at = object.find(begin, name);
    if (colon >= at) refuse_table("a line must begin a member but has no name");
    const std::string_view text = object.substr(colon + 3, at - colon - 3);
    members.push_back({object.substr(name, colon - name), text.substr(0, text.find_last_not_of(", \r\n") + 1)});
  }
  return members;
}

// JSON on one line, as spelled in the file.
std::string spelled_json(const OrderedJson& json) {
  std::string line;
  for (const char c : json.dump(0)) {  // a line for each member
    if (c != '\n') {
      line += c;
    } else if (line.back() == ',') {
      line += ' ';
    }
  }
  return line;
}

// A value with its place in the file, for error sentences.
struct Field {
  const OrderedJson& json;
  const Field* outer;
  std::string name;

  std::string path() const { return (outer == nullptr || outer->name.empty() ? "" : outer->path() + ".") + name; }
  [[noreturn]] void refuse(const std::string& rule) const { refuse_table(path() + " " + rule); }
  void require(bool good, const std::string& rule) const {
    if (!good) refuse("must be " + rule + " but got " + shown(json));
  }
};

// The string of a field; "" if it is no string.
std::string_view word_of(const Field& field) {
  return field.json.is_string() ? field.json.get_ref<const std::string&>() : std::string_view();
}

void set_value(const Field& field, std::string_view& value) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  value = word_of(field);
  field.require(field.json.is_string() && value.size() <= 1000 && std::ranges::all_of(value, is_plain),
                "a string of at most 1000 characters of ASCII on one line");
}

// Sets an object of a config, as JSON text.
void set_value(const Field& field, std::string& value) {
  field.require(field.json.is_object(), "an object");
  value = spelled_json(field.json);
}

constexpr std::int64_t max_count = 1 << 20;

template <class T>
requires std::is_arithmetic_v<T>
void set_value(const Field& field, T& value) {
  const OrderedJson& json = field.json;
  const bool above_0 = value > T(0);  // a default above 0 means that 0 has no meaning
  if constexpr (std::is_same_v<T, bool>) {
    field.require(json.is_boolean(), "a boolean");
  } else if constexpr (std::is_integral_v<T>) {
    const std::int64_t least = above_0 ? 1 : 0, count = json.is_number_integer() ? json.get<std::int64_t>() : -1;
    field.require(count >= least && count <= max_count,
                  above_0 ? "a count from 1 to 1048576" : "a count up to 1048576");
  } else {
    const double number = json.is_number() ? json.get<double>() : -1;
    field.require(number <= max_factor && (above_0 ? number > 0 : number >= 0),
                  above_0 ? "a number above 0, up to 1e15" : "a number from 0 to 1e15");
  }
  value = json.get<T>();
}

void set_value(const Field& field, std::array<int, 4>& values) {
  field.require(field.json.is_array() && field.json.size() <= values.size(), "a list of up to four counts");
  for (std::size_t i = 0; i < field.json.size(); ++i) set_value({field.json[i], field.outer, field.name}, values[i]);
}

template <class E>
requires std::is_enum_v<E>
void set_value(const Field& field, E& value) {
  const std::vector<std::string_view> known = words(words_of(E()));
  const auto found = std::find(known.begin(), known.end(), word_of(field));
  field.require(found != known.end(), "one of \"" + std::string(words_of(E())) + "\"");
  value = static_cast<E>(found - known.begin());
}

void set_value(const Field& field, const Quirk*& value) {
  value = find_quirk(word_of(field));
  field.require(value != nullptr, "the name of a quirk");
}

void set_value(const Field& field, const Tower*& value) {
  value = find_tower(word_of(field));
  field.require(value != nullptr, "the name of a tower");
}

template <class S>
requires HasColumns<S>
void set_value(const Field& field, S& value);

// Sets a list from a list or its only value.
template <class T>
void set_value(const Field& field, std::vector<T>& values) {
  values.clear();
  if (!field.json.is_array()) return set_value(field, values.emplace_back());
  for (const OrderedJson& one : field.json) {
    const std::string place = HasColumns<T> ? "[" + std::to_string(values.size()) + "]" : "";
    set_value({one, field.outer, field.name + place}, values.emplace_back());
  }
}

// Refuses fields that do not go together: an overload for each type that has such rules.
void check_row(const Field& field, const Shape& shape) {
  field.require(shape.layers <= max_layers && shape.heads <= max_heads && shape.kv_heads <= max_heads &&
                    shape.head_dim <= max_head_dim && shape.head_dim % 2 == 0,
                "at most 10000 layers and 65536 heads with an even head_dim up to 16384");
}
void check_row(const Field& field, const Mla& mla) {
  field.require(mla.rope % 2 == 0, "of an even number of elements");
}
void check_row(const Field& field, const Pattern& pattern) {
  field.require(pattern.period_key.empty() || !pattern.types.empty(), "of types where it has a period_key");
}
void check_row(const Field& field, const Flag& flag) { field.require(!flag.key.empty(), "of a key"); }
void check_row(const Field& field, const FusedWhere& where) { field.require(!where.key.empty(), "of a key"); }
void check_row(const Field& field, const Learned& learned) { field.require(!learned.tensor.empty(), "of a tensor"); }
void check_row(const Field& field, const Tower& tower) {
  field.require(!tower.words.empty(), "of words that say how its pairs turn");
}
void check_row(const Field& field, const Unusable& unusable) {
  for (const std::string_view method : unusable.methods)
    field.require(published_type(method) == method, "about methods of scaling by their names");
}
void check_row(const Field& field, const Misnamed& row) {
  field.require(!row.family.empty() && !(row.architecture.empty() && row.key.empty()),
                "a family with the architecture or the key that tells it");
}
void check_row(const Field& field, const QueryRow& row) {
  field.require(row.scale.form != QueryForm::none && row.scale.first <= 1 && row.layers <= max_layers,
                "a scale with a form, a first of 0 or 1, and at most 10000 layers");
}
// The values of rope_parameters, of which the layers that a model has by default may read a part only.
void check_rope(const Field& field) {
  const auto is_object = [](const OrderedJson& value) { return value.is_object(); };
  const bool by_type = std::ranges::any_of(field.json, is_object);
  for (const auto& [key, value] : field.json.items()) {
    const Field one{value, &field, key};
    if (value.is_object()) check_rope(one);
    if (value.is_null() || value.is_object()) continue;
    const double number = value.is_number() ? value.get<double>() : 0;
    one.require(!by_type, "an object, as that of another type of layers,");
    if (key == "rope_theta") one.require(number > 1 && number <= max_factor, "a base above 1");
    if (key == "partial_rotary_factor") one.require(number > 0 && number <= 1, "above 0 and at most 1");
    if (key == "rope_type") one.require(!published_type(word_of(one)).empty(), "the name of a scaling");
  }
}
void check_row(const Field& field, const Family& family) {
  field.require(family.pairing != Pairing::unset, "of a pairing");
  const int sum = std::accumulate(family.sections.begin(), family.sections.end(), 0);
  field.require(!family.sections_are_weights || (sum > 0 && sum <= max_head_dim),
                "of sections that sum to 1 to 16384 where they are weights");
  if (const auto found = field.json.find("rope_parameters"); found != field.json.end())
    check_rope({*found, &field, "rope_parameters"});
}
void check_row(const Field& field, const DiffusersRope& row) {
  const bool named = row.laid == Laid::learned || row.laid == Laid::interleaved;
  field.require(!named || !row.widths.empty(), "of a key of widths where it is laid learned or interleaved");
  field.require(row.stretch.size() < 2 || (row.stretch.size() == row.axes.size() && row.widths.empty()),
                "of one key of stretch, or without widths of one for each axis");
}
void check_row(const Field& field, const PositionFacts& row) {
  field.require(row.side > 0 || !(row.fixed_grid || row.clip), "of a side where it has a fixed_grid or a clip");
}
void check_row(const Field&, const auto&) {}

template <class S>
requires HasColumns<S>
void set_value(const Field& field, S& value) {
  field.require(field.json.is_object(), "an object");
  for (const auto& [name, json] : field.json.items()) {
    bool known = name == "comment" || name == "by_hand";  // these two are for readers
    if (std::vector<std::string_view> texts; known) set_value({json, &field, name}, texts);
    for_each_column(value, [&, name = std::string_view(name), &json = json](std::string_view column, auto& member) {
      if (column != name) return;
      set_value({json, &field, std::string(name)}, member);
      known = true;
    });
    if (!known) field.refuse("must have known fields only but got " + in_quotes(name));
  }
  check_row(field, value);
}

// A child is a type, or an object with the parent's defaults.
void set_value(const Field& field, std::vector<Child>& children) {
  field.require(field.json.is_object(), "an object");
  for (const auto& [part, json] : field.json.items()) {
    const Field one{json, &field, part};
    Child& child = children.emplace_back();
    if (json.is_object()) {
      set_value(one, child);
    } else {
      set_value(one, child.type);
    }
    one.require(!child.type.empty(), "of a type");
    child.part = part;
  }
}

// ---- the table ----

// A section of the file: what its text begins with, and the type of its rows, or of its one value.
struct Section {
  std::string_view name;
  char first;
  const void* (*read)(const ModelTable&, std::string_view section, std::string_view row);
};

template <class T>
constexpr Section section_of(std::string_view name, char first = '{') {
  return {name, first, [](const ModelTable& table, std::string_view section, std::string_view row) -> const void* {
            return table.find<T>(section, row);
          }};
}

using WordList = std::vector<std::string_view>;

const char* kind_of(char first) {
  return first == '{' ? "an object" : first == '[' ? "a list" : first == '"' ? "a text" : "another value";
}

constexpr Section known_sections[] = {section_of<int>("schema", '1'),
                                      section_of<std::string_view>("data", '"'),
                                      section_of<std::string_view>("about", '"'),
                                      section_of<Family>("models"),
                                      section_of<Family>("remote_models"),
                                      section_of<WordList>("counted"),
                                      section_of<PositionFacts>("positions"),
                                      section_of<std::vector<Child>>("children"),
                                      section_of<std::vector<Misnamed>>("misnamed", '['),
                                      section_of<std::string_view>("refused"),
                                      section_of<WordList>("our_names", '['),
                                      section_of<GgufArchitecture>("architectures"),
                                      section_of<WordList>("without_rope", '['),
                                      section_of<DiffusersRope>("diffusers"),
                                      section_of<std::string_view>("harmless"),
                                      section_of<std::string_view>("harmless_if_false"),
                                      section_of<Tower>("towers"),
                                      section_of<std::vector<QueryRow>>("query_scales", '[')};

bool holds(std::string_view section, std::string_view row, std::string_view name) {
  const WordList* names = table().find<WordList>(section, row);
  return names != nullptr && std::find(names->begin(), names->end(), name) != names->end();
}

// Letters and digits in lower case: "gpt_neox", "GPTNeoX".
std::string plain(std::string_view name) {
  std::string letters = lower(name);
  std::erase_if(letters, [](char c) { return c == '_' || c == '-'; });
  return letters;
}

}  // namespace

ModelTable::ModelTable(std::string text) : text_(std::move(text)) {
  const std::vector<Member> sections = members_of(text_, "\n\"");
  if (sections.empty()) refuse_table("the file must be an object");
  for (const auto& [name, section] : sections) {
    std::map<std::string_view, Row>& rows = sections_[name];
    const bool is_object = section.starts_with('{');
    for (const Member& row : is_object ? members_of(section, "\n  \"") : std::vector{Member{"", section}})
      rows.try_emplace(row.name, Row{row.text});
  }
}

void ModelTable::read_all() const {
  for (const auto& [name, rows] : sections_) {
    if (std::ranges::find(known_sections, name, &Section::name) == std::end(known_sections))
      refuse_table("the file must have known sections only but got " + in_quotes(name));
  }
  for (const auto& [name, first, read] : known_sections) {
    const auto found = sections_.find(name);
    if (found == sections_.end()) refuse_table("the file must have the section " + std::string(name) + " but has not");
    const auto whole = found->second.find("");  // not there if the rows have names
    const char begins = whole == found->second.end() ? '{' : whole->second.text.front();
    if (begins != first) refuse_table(std::string(name) + " must be " + kind_of(first) + " but got " + kind_of(begins));
  }
  for (const auto& section : known_sections) {
    for (const auto& row : sections_.at(section.name)) section.read(*this, section.name, row.first);
  }
}

std::vector<std::string_view> ModelTable::names(std::string_view section) const {
  std::vector<std::string_view> names;
  for (const auto& [name, row] : sections_.at(section)) names.push_back(name);
  return names;
}

template <class T>
const T* ModelTable::find(std::string_view section, std::string_view name) const {
  const auto& rows = sections_.at(section);
  const auto found = rows.find(name);
  if (found == rows.end()) return nullptr;
  const Row& row = found->second;
  const std::lock_guard lock(mutex_);  // reading one row may read another
  if (!row.value.has_value()) {
    const Field outer{row.json, nullptr, std::string(section)};
    const Field field = name.empty() ? outer : Field{row.json, &outer, std::string(name)};
    row.json = OrderedJson::parse(row.text, nullptr, false);
    if (row.json.is_discarded()) field.refuse("must be JSON");
    T value{};
    set_value(field, value);
    if constexpr (requires { value.type; }) value.type = found->first;
    if constexpr (requires { value.layout; }) {
      value.layout = find_layout(found->first);
      field.require(value.layout != nullptr, "the facts of a layout that is known by this name");
    }
    row.value = std::move(value);
  }
  return std::any_cast<T>(&row.value);
}

// For the test.
template const Family* ModelTable::find(std::string_view, std::string_view) const;
template const std::vector<Child>* ModelTable::find(std::string_view, std::string_view) const;

// ---- the facts that families.h declares ----

std::vector<std::string_view> model_types() {
  WordList types = table().names("models");
  for (const std::string_view remote : table().names("remote_models")) types.push_back(remote);
  return types;
}

std::vector<std::string_view> types_with_children() { return table().names("children"); }
std::vector<std::string_view> refused_types() { return table().names("refused"); }
std::vector<std::string_view> types_without_rope() { return *table().find<WordList>("without_rope"); }
std::vector<std::string_view> diffusers_types() { return table().names("diffusers"); }

const Family* find_family(std::string_view model_type) {
  const Family* family = table().find<Family>("models", model_type);
  return family != nullptr ? family : table().find<Family>("remote_models", model_type);
}

std::span<const QueryRow> query_rows() { return *table().find<std::vector<QueryRow>>("query_scales"); }
const Tower* find_tower(std::string_view name) { return table().find<Tower>("towers", name); }

const GgufArchitecture* find_architecture(std::string_view name) {
  return table().find<GgufArchitecture>("architectures", name);
}

const DiffusersRope* find_diffusers(std::string_view type) { return table().find<DiffusersRope>("diffusers", type); }

std::string part_of_class(const DiffusersRope& row) {
  return std::string(row.type.substr(std::min(row.type.find('/'), row.type.size() - 1) + 1));
}

std::vector<const DiffusersRope*> ropes_of_class(std::string_view type) {
  std::vector<const DiffusersRope*> ropes;
  for (const std::string_view known : diffusers_types()) {
    if (known.substr(0, known.find('/')) == type) ropes.push_back(find_diffusers(known));
  }
  return ropes;
}

std::optional<PositionFacts> find_positions(std::string_view model_type) {
  std::optional<PositionFacts> found;
  if (const auto* row = table().find<PositionFacts>("positions", model_type)) found = *row;
  constexpr std::pair<const char*, Counts> lists[] = {
      {"seen", Counts::seen}, {"from_one", Counts::from_one}, {"every", Counts::every}};
  for (const auto& [name, counts] : lists) {
    if (!holds("counted", name, model_type)) continue;
    if (!found) found.emplace();
    found->counts = counts;
  }
  return found;
}

bool known_without_rope(std::string_view model_type) { return holds("without_rope", "", model_type); }
bool is_our_name(std::string_view model_type) { return holds("our_names", "", model_type); }

bool is_harmless_key(std::string_view key, bool is_false) {
  return table().find<std::string_view>("harmless", key) != nullptr ||
         (is_false && table().find<std::string_view>("harmless_if_false", key) != nullptr);
}

std::string_view refusal(std::string_view model_type) {
  const auto* why = table().find<std::string_view>("refused", model_type);
  return why == nullptr ? std::string_view() : *why;
}

std::span<const Child> children_of(std::string_view parent) {
  const auto* children = table().find<std::vector<Child>>("children", parent);
  return children == nullptr ? std::span<const Child>() : *children;
}

const Child* find_child(std::string_view parent, std::string_view part) {
  for (const Child& child : children_of(parent)) {
    if (child.part == part) return &child;
  }
  return nullptr;
}

std::string_view child_type(std::string_view parent, std::string_view part) {
  const Child* child = find_child(parent, part);
  return child == nullptr ? std::string_view() : child->type;
}

std::span<const Misnamed> misnamed() { return *table().find<std::vector<Misnamed>>("misnamed"); }

bool is_known_type(std::string_view type) {
  return find_family(type) != nullptr || known_without_rope(type) || !children_of(type).empty() ||
         !refusal(type).empty() || find_diffusers(type) != nullptr;
}

std::string_view type_of_class(std::string_view name) {
  for (const char* ending : {"Config", "Model", "LMHead", "For"}) {
    const std::size_t end = name.rfind(ending);
    if (end == 0 || end == name.npos) continue;
    const std::string stem = plain(name.substr(0, end));
    for (const WordList& types : {model_types(), types_with_children(), types_without_rope()}) {
      const auto found = std::find_if(types.begin(), types.end(),
                                      [&](std::string_view type) { return !is_our_name(type) && plain(type) == stem; });
      if (found != types.end()) return *found;
    }
  }
  return {};
}

}  // namespace rotary::files
