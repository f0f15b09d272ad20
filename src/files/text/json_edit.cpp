#include "json_edit.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "rotary/error.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

struct Span {
  std::size_t begin = 0, end = 0;
};
struct Member {
  std::string key;
  Span name;  // with its quotes
  Span value;
};
struct ObjectText {
  std::size_t open = 0;  // of its {
  std::size_t close = 0;
  std::vector<Member> members;
};

// Walks over valid JSON.
class Scanner {
 public:
  Scanner(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  ObjectText object() {
    skip_space();
    ObjectText found{.open = at_, .close = at_, .members = {}};
    if (text_.at(at_) != '{') fail(Code::INTERNAL, "json_edit", "the value must be an object but is not");
    ++at_;
    for (skip_space(); text_.at(at_) != '}'; skip_space()) {
      if (text_[at_] == ',') {
        ++at_;
        continue;
      }
      Member member;
      member.name = string();
      member.key = nlohmann::json::parse(text_.substr(member.name.begin, member.name.end - member.name.begin))
                       .get<std::string>();
      skip_space();
      ++at_;  // the colon
      member.value = value();
      found.members.push_back(std::move(member));
    }
    found.close = at_;
    return found;
  }

 private:
  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  Span string() {
    const std::size_t begin = at_++;
    while (text_.at(at_) != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    return {begin, ++at_};
  }

  Span value() {
    skip_space();
    const std::size_t begin = at_;
    if (text_.at(at_) == '"') return string();
    for (int depth = 0; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        string();
        --at_;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (depth == 0 && (c == ',' || c == '}' || c == ']')) {
        break;
      } else if (c == '}' || c == ']') {
        --depth;
      }
    }
    std::size_t end = at_;
    while (end > begin && std::string_view(" \t\r\n").find(text_[end - 1]) != std::string_view::npos) --end;
    return {begin, end};
  }

  std::string_view text_;
  std::size_t at_;
};

const Member* find(const ObjectText& object, std::string_view key) {
  for (const Member& member : object.members) {
    if (member.key == key) return &member;
  }
  return nullptr;
}

ObjectText object_at(std::string_view text, KeyPath path) {
  ObjectText object = Scanner(text, 0).object();
  for (const std::string& key : path) {
    const Member* member = find(object, key);
    if (member == nullptr) fail(Code::INTERNAL, "json_edit", "there must be an object " + key + " but there is none");
    object = Scanner(text, member->value.begin).object();
  }
  return object;
}

std::string replaced(std::string_view text, Span span, std::string_view with) {
  return std::string(text.substr(0, span.begin)) + std::string(with) + std::string(text.substr(span.end));
}

}  // namespace

std::string json_string(std::string_view text) { return nlohmann::json(std::string(text)).dump(); }

std::string with_member(std::string_view text, KeyPath path, std::string_view key, std::string_view value) {
  const ObjectText object = object_at(text, path);
  if (const Member* member = find(object, key)) return replaced(text, member->value, value);
  if (object.members.empty()) {
    return replaced(text, {object.open + 1, object.open + 1}, json_string(key) + ": " + std::string(value));
  }
  const Member& last = object.members.back();
  const std::size_t before =
      object.members.size() > 1 ? object.members[object.members.size() - 2].value.end : object.open + 1;
  std::string_view space = text.substr(before, last.name.begin - before);
  space.remove_prefix(std::min(space.find(',') + 1, space.size()));  // npos + 1 is 0
  const std::string colon(text.substr(last.name.end, last.value.begin - last.name.end));
  return replaced(text, {last.value.end, last.value.end},
                  "," + std::string(space) + json_string(key) + colon + std::string(value));
}

std::string without_member(std::string_view text, KeyPath path, std::string_view key) {
  const ObjectText object = object_at(text, path);
  const Member* member = find(object, key);
  if (member == nullptr) return std::string(text);
  const auto index = static_cast<std::size_t>(member - object.members.data());
  if (index + 1 < object.members.size())
    return replaced(text, {member->name.begin, object.members[index + 1].name.begin}, "");
  if (index > 0) return replaced(text, {object.members[index - 1].value.end, member->value.end}, "");
  return replaced(text, {member->name.begin, member->value.end}, "");
}

std::string_view member_text(std::string_view text, KeyPath path, std::string_view key) {
  const ObjectText object = object_at(text, path);
  const Member* member = find(object, key);
  return member == nullptr ? std::string_view{}
                           : text.substr(member->value.begin, member->value.end - member->value.begin);
}

}  // namespace rotary::files
