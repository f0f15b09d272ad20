// A judge of SVG files: a parser of the XML that a plot may hold (elements, attributes, text, the five entities).
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rotary::plot_tests {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;        // its own, not its children's
  std::size_t parent = 0;  // index into the document; the root is its own
};

inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

inline std::string unescaped(std::string_view text) {
  static const std::map<std::string, char> entities = {
      {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
  std::string value;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '&') {
      value += text[at];
      continue;
    }
    const std::string entity(text.substr(at, text.find(';', at) + 1 - at));
    require(entities.count(entity) != 0, "an unknown entity: " + entity);
    value += entities.at(entity);
    at += entity.size() - 1;
  }
  return value;
}

// `name key="value" key="value"`
inline Element read_tag(std::string_view tag) {
  const auto is_name = [](std::string_view name) {
    constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-";
    return !name.empty() && name.find_first_not_of(letters) == std::string_view::npos;
  };
  require(tag.find('<') == tag.npos, "a bare <");
  Element element;
  element.name = tag.substr(0, tag.find(' '));
  require(is_name(element.name), "a name is missing");
  tag.remove_prefix(element.name.size());
  while (!tag.empty()) {
    const std::size_t begin = tag.find("=\""), end = begin == tag.npos ? tag.npos : tag.find('"', begin + 2);
    require(tag.front() == ' ' && end != tag.npos, "an attribute must be key=\"value\"");
    const std::string key(tag.substr(1, begin - 1));
    require(is_name(key), "the name of an attribute is missing");
    const std::string value = unescaped(tag.substr(begin + 2, end - begin - 2));
    require(element.attributes.emplace(key, value).second, "the attribute " + key + " twice");
    tag.remove_prefix(end + 1);
  }
  return element;
}

// The elements in the order in which they begin. Throws std::runtime_error where text is not well-formed.
inline std::vector<Element> parse_xml(std::string_view text) {
  (void)nlohmann::json(std::string(text)).dump();  // throws where it is not UTF-8
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t'; };
  require(std::none_of(text.begin(), text.end(), is_control), "a control character");
  for (const char* forbidden : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"})
    require(text.find(forbidden) == text.npos, "U+FFFE or U+FFFF");
  std::vector<Element> document;
  std::vector<std::size_t> open;
  while (!text.empty()) {
    const std::size_t begin = std::min(text.find('<'), text.size()), end = text.find('>', begin);
    const std::string value = unescaped(text.substr(0, begin));
    require(!open.empty() || value.find_first_not_of('\n') == value.npos, "text outside the root");
    if (!open.empty()) document[open.back()].text += value;
    if (begin == text.size()) break;
    require(end != text.npos, "a tag is not closed");
    std::string_view tag = text.substr(begin + 1, end - begin - 1);
    text.remove_prefix(end + 1);
    if (tag.starts_with("/")) {
      require(!open.empty() && document[open.back()].name == tag.substr(1), "closes another element");
      open.pop_back();
      continue;
    }
    require(!open.empty() || document.empty(), "a second root");
    const bool closed = tag.ends_with("/");
    if (closed) tag.remove_suffix(1);
    document.push_back(read_tag(tag));
    document.back().parent = open.empty() ? 0 : open.back();
    if (!closed) open.push_back(document.size() - 1);
  }
  require(open.empty() && !document.empty(), "an element is not closed");
  return document;
}

}  // namespace rotary::plot_tests
