#include "table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>

#include "columns.h"
#include "quirks/quirk.h"
#include "values/fail.h"

namespace rotary::embedded {
std::string_view models() noexcept;  // data/models.json
}

namespace rotary::files {
namespace {

// ---- the text of data/models.json: JSON (a test sees to it) without escapes in its strings ----

// A JSON library takes two milliseconds for the file, a third of `rotary inspect`; finding the rows takes a tenth of
// one.

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}

// The place behind the value that begins at `at`.
std::size_t value_end(std::string_view text, std::size_t at) {
  if (text[at] == '"') return std::min(text.find('"', at + 1), text.size() - 1) + 1;
  if (text[at] != '{' && text[at] != '[') return std::min(text.find_first_of(",}] \t\r\n", at), text.size());
  for (int open = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      at = value_end(text, at);
      continue;
    }
    ++at;
    if (c == '{' || c == '[') ++open;
    if ((c == '}' || c == ']') && --open == 0) break;
  }
  return at;
}

struct Member {
  std::string_view key, value;  // the value as it is spelled; the key of a list's element is empty
};

// The members of an object with the quotes of their keys, or the elements of a list.
std::vector<Member> children_of(std::string_view text) {
  std::vector<Member> children;
  const bool named = text.front() == '{';
  std::size_t at = skip_blanks(text, 1);
  while (at < text.size() && text[at] != '}' && text[at] != ']') {
    Member child;
    if (named) {
      const std::size_t end = value_end(text, at);
      child.key = text.substr(at, end - at);
      at = skip_blanks(text, skip_blanks(text, end) + 1);
      if (at == text.size()) break;
    }
    const std::size_t end = value_end(text, at);
    child.value = text.substr(at, end - at);
    children.push_back(child);
    at = skip_blanks(text, end);
    if (at < text.size() && text[at] == ',') at = skip_blanks(text, at + 1);
  }
  return children;
}

// Throws INTERNAL. So do the others where a value is not what they read.
[[noreturn]] void refuse_table(const std::string& sentence) {
  fail(Code::INTERNAL, "models", "data/models.json: ", sentence);
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
  for (const Member& element : children_of(list)) found.push_back(element.value);
  return found;
}

std::vector<Member> members(std::string_view object, const std::string& where) {
  if (object.empty() || object.front() != '{') refuse_table(where + " must be an object");
  std::vector<Member> found;
  for (const Member& member : children_of(object)) found.push_back({characters(member.key, where), member.value});
  return found;
}

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

// A list, or its only value.
template <class T>
void set_value(const Field& field, std::vector<T>& values) {
  values.clear();
  if (!field.text.starts_with('[')) return set_value(field, values.emplace_back());
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
  if (name == "counted" || name == "positions") {
    (name == "counted" ? counted_ : positions_) = section;
    return;
  }
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
    } else if (name == "diffusers") {
      set_value(field, diffusers.emplace_back());
      diffusers.back().type = key;
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

Counted ModelTable::counted() const {
  Counted lists;
  set_value({counted_, nullptr, "counted"}, lists);
  return lists;
}

std::optional<PositionFacts> ModelTable::find_positions(std::string_view model_type) const {
  std::optional<PositionFacts> found;
  const Counted lists = counted();
  const auto take = [&](const std::vector<std::string_view>& list, Counts counts) {
    if (std::ranges::find(list, model_type) != list.end()) found.emplace().counts = counts;
  };
  take(lists.seen, Counts::seen);
  take(lists.from_one, Counts::from_one);
  take(lists.every, Counts::every);
  const Field section{{}, nullptr, "positions"};
  for (const auto& [type, row] : members(positions_, "positions")) {
    if (type != model_type) continue;
    if (!found) found.emplace();
    set_value({row, &section, type}, *found);
  }
  return found;
}

std::vector<std::string_view> ModelTable::types_with_positions() const {
  Counted lists = counted();
  std::vector<std::string_view> found = std::move(lists.seen);
  for (const auto* more : {&lists.from_one, &lists.every}) found.insert(found.end(), more->begin(), more->end());
  for (const Member& row : members(positions_, "positions")) found.push_back(row.key);
  return found;
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
std::span<const DiffusersRope> diffusers_ropes() { return table().diffusers; }
std::pair<std::string_view, std::string_view> class_and_part(const DiffusersRope& row) {
  const std::size_t slash = std::min(row.type.find('/'), row.type.size());
  return {row.type.substr(0, slash), row.type.substr(std::min(slash + 1, row.type.size()))};
}

std::span<const Refusal> refused_types() { return table().refused; }
std::span<const std::string_view> types_without_rope() { return table().without_rope; }

const Family* find_family(std::string_view model_type) { return table().find(model_type); }

std::optional<PositionFacts> find_positions(std::string_view type) { return table().find_positions(type); }
std::vector<std::string_view> types_with_positions() { return table().types_with_positions(); }

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
