#include "table_text.h"

#include "values/fail.h"

namespace rotary::files {
namespace {

std::size_t end_of_value(std::string_view text, std::size_t begin) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (--depth < 0) return i;
    } else if (depth == 0 && (c == ',' || c == '\n')) {
      return i;
    }
    const bool closes = c == '}' || c == ']' || c == '"';
    if (depth == 0 && !in_string && closes) return i + 1;
  }
  refuse_table("a value must have an end");
}

std::string_view value_at(std::string_view text, std::size_t begin) {
  return text.substr(begin, end_of_value(text, begin) - begin);
}

}  // namespace

void refuse_table(const std::string& sentence) { fail(Code::INTERNAL, "models", "data/models.json: " + sentence); }

std::string_view characters(std::string_view text, const std::string& where) {
  if (text.size() < 2 || text.front() != '"' || text.find('\\') != std::string_view::npos) {
    refuse_table(where + " must be a string but is " + std::string(text));
  }
  return text.substr(1, text.size() - 2);
}

std::vector<std::string_view> elements(std::string_view list, const std::string& where) {
  if (list.empty() || list.front() != '[') refuse_table(where + " must be a list");
  std::vector<std::string_view> found;
  for (std::size_t at = list.find_first_not_of(" \n", 1); at != std::string_view::npos && list[at] != ']';) {
    found.push_back(value_at(list, at));
    at = list.find_first_not_of(" ,\n", at + found.back().size());
  }
  return found;
}

std::vector<Member> members(std::string_view object, const std::string& where) {
  if (object.empty() || object.front() != '{') refuse_table(where + " must be an object");
  std::vector<Member> found;
  for (std::size_t at = object.find_first_of("\"}", 1); at != std::string_view::npos && object[at] == '"';) {
    const std::string_view key = value_at(object, at);
    const std::size_t value = object.find_first_not_of(" :\n", at + key.size());
    if (value == std::string_view::npos) refuse_table(where + " must be JSON");
    found.push_back({characters(key, where), value_at(object, value)});
    at = object.find_first_of("\"}", value + found.back().value.size());
  }
  return found;
}

}  // namespace rotary::files
