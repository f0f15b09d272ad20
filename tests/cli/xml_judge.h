// A judge of SVG files: a parser of the XML that a plot may hold (elements, attributes, text, the five entities).
#pragma once

#include <cctype>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
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

class XmlParser {
 public:
  explicit XmlParser(std::string_view text) : text_(text) {}

  // The elements in the order in which they begin. Throws std::runtime_error where text is not well-formed.
  std::vector<Element> parse() {
    check_characters();
    std::vector<std::size_t> open;
    while (at_ < text_.size()) {
      if (text_[at_] != '<') {
        read_text(open);
      } else if (text_.substr(at_).starts_with("</")) {
        if (open.empty()) fail("nothing to close");
        at_ += 2;
        if (read_name() != document_[open.back()].name) fail("closes another element");
        open.pop_back();
        expect(">");
      } else {
        if (open.empty() && !document_.empty()) fail("a second root");
        read_element(open);
      }
    }
    if (!open.empty() || document_.empty()) fail("an element is not closed");
    return document_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(what + " at byte " + std::to_string(at_));
  }
  void expect(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) fail("expected " + std::string(word));
    at_ += word.size();
  }

  // UTF-8, as nlohmann judges it, without the characters that XML 1.0 forbids.
  void check_characters() const {
    (void)nlohmann::json(std::string(text_)).dump();
    for (const char character : text_) {
      if (static_cast<unsigned char>(character) < 0x20 && character != '\n' && character != '\t') {
        fail("a control character");
      }
    }
    for (const std::string_view forbidden : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
      if (text_.find(forbidden) != std::string_view::npos) fail("U+FFFE or U+FFFF");
    }
  }

  std::string read_name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-')) ++at_;
    if (at_ == begin) fail("a name is missing");
    return std::string(text_.substr(begin, at_ - begin));
  }

  char read_entity() {
    static const std::map<std::string, char> entities = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (const auto& [entity, character] : entities) {
      if (text_.substr(at_).starts_with(entity)) {
        at_ += entity.size();
        return character;
      }
    }
    fail("an unknown entity");
  }

  // Up to one of the ends.
  std::string read_until(std::string_view ends) {
    std::string value;
    while (at_ < text_.size() && ends.find(text_[at_]) == std::string_view::npos) {
      if (text_[at_] == '<') fail("a bare <");
      value += text_[at_] == '&' ? read_entity() : text_[at_++];
    }
    return value;
  }

  void read_text(const std::vector<std::size_t>& open) {
    const std::string value = read_until("<");
    if (!open.empty()) {
      document_[open.back()].text += value;
    } else if (value.find_first_not_of("\n") != std::string::npos) {
      fail("text outside the root");
    }
  }

  void read_element(std::vector<std::size_t>& open) {
    ++at_;
    Element element;
    element.name = read_name();
    element.parent = open.empty() ? 0 : open.back();
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
      const std::string key = read_name();
      expect("=\"");
      const std::string value = read_until("\"");
      expect("\"");
      if (!element.attributes.emplace(key, value).second) fail("the attribute " + key + " twice");
    }
    const bool closed = text_.substr(at_).starts_with("/>");
    expect(closed ? "/>" : ">");
    document_.push_back(element);
    if (!closed) open.push_back(document_.size() - 1);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<Element> document_;
};

inline std::vector<Element> parse_xml(std::string_view text) { return XmlParser(text).parse(); }

}  // namespace rotary::plot_tests
