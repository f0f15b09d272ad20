// Changes of a text that leave it JSON where it is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rotary::fuzz {

struct JsonValue {
  std::size_t begin = 0, end = 0;
  std::size_t key = std::string_view::npos;  // where its member begins, if it is one
  bool is_member() const { return key != std::string_view::npos; }
};

constexpr std::string_view blanks = " \t\r\n";

// The values of a text, by brackets and quotes alone.
inline std::vector<JsonValue> values_of(std::string_view text) {
  constexpr std::string_view ends = " \t\r\n,:{}[]\"";
  std::vector<JsonValue> values;
  std::vector<std::size_t> open;
  std::size_t key = std::string_view::npos;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '{' || c == '[') {
      open.push_back(values.size());
      values.push_back({i, 0, std::exchange(key, std::string_view::npos)});
    } else if ((c == '}' || c == ']') && !open.empty()) {
      values[open.back()].end = i + 1;
      open.pop_back();
    }
    if (c != '"' && ends.find(c) != std::string_view::npos) {
      ++i;
      continue;
    }
    std::size_t end = c == '"' ? i + 1 : text.find_first_of(ends, i);
    while (c == '"' && end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2U : 1U;
    end = std::min(c == '"' ? end + 1 : end, text.size());
    const std::size_t next = text.find_first_not_of(blanks, end);
    if (next != std::string_view::npos && text[next] == ':') {
      key = i;
    } else {
      values.push_back({i, end, std::exchange(key, std::string_view::npos)});
    }
    i = end;
  }
  std::erase_if(values, [](const JsonValue& one) { return one.end == 0; });
  return values;
}

// A value in place of another, one of a list or of the donor; a member of the donor more; or a member less. A text
// without an object stays.
inline std::string changed(std::string text, const std::string& donor, std::uint64_t seed) {
  constexpr std::string_view usual[] = {"0",    "-1",   "1",  "0.5", "1e308", "2147483648", "9007199254740993",
                                        "null", "true", "{}", "[]",  "\"\"",  "[1,2,3]"};
  std::mt19937_64 random(seed);
  const auto pick = [&](const auto& list) { return list[random() % std::size(list)]; };
  const auto text_of = [](const std::string& from, std::size_t begin, std::size_t end) {
    return from.substr(begin, end - begin);
  };
  const std::vector<JsonValue> values = values_of(text), others = values_of(donor);
  if (text.find('{') == std::string::npos || values.empty() || others.empty()) return text;
  const JsonValue at = pick(values), other = pick(others);
  switch (random() % 4) {
    case 0:
      return text.replace(at.begin, at.end - at.begin, pick(usual));
    case 1:
      return text.replace(at.begin, at.end - at.begin, text_of(donor, other.begin, other.end));
    case 2:
      if (!other.is_member() || text[at.begin] != '{') return text;
      return text.insert(at.begin + 1, text_of(donor, other.key, other.end) + (text[at.begin + 1] == '}' ? "" : ","));
    default:
      const std::size_t before = at.is_member() ? text.substr(0, at.key).find_last_not_of(blanks) : std::string::npos;
      if (before == std::string::npos) return text;
      const std::size_t after = text.find_first_not_of(blanks, at.end);
      if (text[before] == ',') return text.erase(before, at.end - before);
      return text.erase(at.key, (after < text.size() && text[after] == ',' ? after + 1 : at.end) - at.key);
  }
}

}  // namespace rotary::fuzz
