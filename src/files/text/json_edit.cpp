#include "json_edit.h"

#include <algorithm>
#include <utility>

#include "json.h"

namespace rotary::files {
namespace {

constexpr std::string_view blanks = " \t\r\n";

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  at = text.find_first_not_of(blanks, at);
  return at == std::string_view::npos ? text.size() : at;
}

// The place behind the string that begins at `at`.
std::size_t string_end(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

// The place behind the value that begins at `at`.
std::size_t value_end(std::string_view text, std::size_t at) {
  if (text[at] == '"') return string_end(text, at);
  if (text[at] != '{' && text[at] != '[') {
    const std::size_t end = text.find_first_of(",}] \t\r\n", at);
    return end == std::string_view::npos ? text.size() : end;
  }
  int open = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = string_end(text, at);
      continue;
    }
    if (c == '{' || c == '[') ++open;
    ++at;
    if ((c == '}' || c == ']') && --open == 0) break;
  }
  return at;
}

std::string quoted(const std::string& key) { return Json(key).dump(); }

}  // namespace

JsonPath json_path(std::string_view dotted) {
  JsonPath path;
  for (std::size_t begin = 0; begin < dotted.size();) {
    const std::size_t end = std::min(dotted.find('.', begin), dotted.size());
    path.emplace_back(dotted.substr(begin, end - begin));
    begin = end + 1;
  }
  return path;
}

std::string json_line(const JsonMembers& members) {
  std::string text = "{";
  for (const JsonMember& member : members) {
    if (text.size() > 1) text += ", ";
    text += quoted(member.key) + ": " + member.raw;
  }
  return text + "}";
}

std::vector<JsonChild> json_children(std::string_view text, std::size_t open) {
  std::vector<JsonChild> children;
  const bool named = text[open] == '{';
  std::size_t at = skip_blanks(text, open + 1);
  while (at < text.size() && text[at] != '}' && text[at] != ']') {
    JsonChild child;
    if (named) {
      child.key = {at, string_end(text, at)};
      const std::size_t colon = skip_blanks(text, child.key.end);
      at = skip_blanks(text, colon + 1);
    }
    child.value = {at, value_end(text, at)};
    children.push_back(child);
    at = skip_blanks(text, child.value.end);
    if (at < text.size() && text[at] == ',') at = skip_blanks(text, at + 1);
  }
  return children;
}

JsonText::JsonText(std::string text) : text_(std::move(text)) {
  const std::size_t open = skip_blanks(text_, 0);
  const std::size_t first = skip_blanks(text_, open + 1);
  const std::size_t line = text_.rfind('\n', first);
  if (line != std::string::npos && line > 0 && text_[line - 1] == '\r') newline_ = "\r\n";
  if (line != std::string::npos && line > open) indent_ = text_.substr(line + 1, first - line - 1);
}

std::string JsonText::name_of(const JsonChild& member) const {
  return parse_json(member.key.of(text_)).get<std::string>();
}

// Where the object begins in which the key path[depth] stands.
std::optional<std::size_t> JsonText::object_at(const JsonPath& path, std::size_t depth) const {
  std::size_t at = skip_blanks(text_, 0);
  for (std::size_t level = 0; level < depth; ++level) {
    std::optional<std::size_t> inner;
    for (const JsonChild& member : json_children(text_, at)) {
      if (name_of(member) == path[level] && text_[member.value.begin] == '{') inner = member.value.begin;
    }
    if (!inner) return std::nullopt;
    at = *inner;
  }
  return at;
}

std::optional<JsonChild> JsonText::find(const JsonPath& path) const {
  const auto object = object_at(path, path.size() - 1);
  if (!object) return std::nullopt;
  for (const JsonChild& member : json_children(text_, *object)) {
    if (name_of(member) == path.back()) return member;
  }
  return std::nullopt;
}

std::optional<std::string> JsonText::raw(const JsonPath& path) const {
  if (path.empty()) return text_;
  const auto member = find(path);
  if (!member) return std::nullopt;
  return std::string(member->value.of(text_));
}

// The blanks in front of the line of that place.
std::string JsonText::margin_of(std::size_t at) const {
  const std::size_t line = text_.rfind('\n', at);
  const std::size_t begin = line == std::string::npos ? 0 : line + 1;
  return text_.substr(begin, text_.find_first_not_of(" \t", begin) - begin);
}

void JsonText::set(const JsonPath& path, const std::string& raw) {
  if (const auto member = find(path)) {
    text_.replace(member->value.begin, member->value.end - member->value.begin, raw);
    return;
  }
  const auto object = object_at(path, path.size() - 1);
  if (!object) return;
  const std::vector<JsonChild> members = json_children(text_, *object);
  const bool one_line = indent_.empty();
  const std::string now = quoted(path.back()) + ": " + raw;
  if (members.empty()) {
    const std::string margin = margin_of(*object);
    const std::size_t close = skip_blanks(text_, *object + 1);
    text_.replace(*object + 1, close - *object - 1,
                  one_line ? now : newline_ + margin + indent_ + now + newline_ + margin);
    return;
  }
  const JsonChild& last = members.back();
  text_.insert(last.value.end, (one_line ? ", " : "," + newline_ + margin_of(last.key.begin)) + now);
}

void JsonText::set_object(const JsonPath& path, const JsonMembers& members) {
  set(path, json_line(members));
  const auto member = find(path);
  if (!member || indent_.empty() || members.empty()) return;
  const std::string line = newline_ + margin_of(member->key.begin);
  std::string text = "{";
  for (const JsonMember& inner : members) {
    text += (text.size() > 1 ? "," : "") + line + indent_ + quoted(inner.key) + ": " + inner.raw;
  }
  text_.replace(member->value.begin, member->value.end - member->value.begin, text + line + "}");
}

void JsonText::remove(const JsonPath& path) {
  const auto object = object_at(path, path.size() - 1);
  if (!object) return;
  const std::vector<JsonChild> members = json_children(text_, *object);
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (name_of(members[i]) != path.back()) continue;
    const bool last = i + 1 == members.size();
    const std::size_t begin = !last ? members[i].key.begin : i == 0 ? *object + 1 : members[i - 1].value.end;
    const std::size_t end = last ? members[i].value.end : members[i + 1].key.begin;
    text_.erase(begin, end - begin);
    return;
  }
}

}  // namespace rotary::files
