// Changes in the text of a JSON object: every byte that is not changed stays, and with it the order of the keys and the
// spelling of the numbers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rotary::files {

// A member to be written: its key, and its value as JSON text.
struct JsonMember {
  std::string key, raw;
};
using JsonMembers = std::vector<JsonMember>;
// The object on one line: {"a": 1, "b": [2, 3]}.
std::string json_line(const JsonMembers&);

// Keys from the outermost object down.
using JsonPath = std::vector<std::string>;
// Of keys with dots between them; "" is the empty path.
JsonPath json_path(std::string_view dotted);

// ---- where values lie in the text, without reading them ----

struct JsonSpan {
  std::size_t begin = 0, end = 0;
  std::string_view of(std::string_view text) const { return text.substr(begin, end - begin); }
};
struct JsonChild {
  JsonSpan key, value;  // the key with its quotes; of a list's element empty
};
// The members of the object, or the elements of the list, that begins at `open` in a text that parse_json reads.
std::vector<JsonChild> json_children(std::string_view text, std::size_t open);

class JsonText {
 public:
  // text must be an object that parse_json reads.
  explicit JsonText(std::string text);

  const std::string& text() const noexcept { return text_; }
  std::optional<std::string> raw(const JsonPath& path) const;  // the value as it is spelled
  // Replaces the value, or adds the member at the end of its object, indented as its neighbours; a file on one line
  // stays on one line. Every object above it must be there.
  void set(const JsonPath& path, const std::string& raw);
  // The same with an object, a member on each line where the file has lines.
  void set_object(const JsonPath& path, const JsonMembers& members);
  void remove(const JsonPath& path);  // the member, if it is there

 private:
  std::optional<std::size_t> object_at(const JsonPath& path, std::size_t depth) const;
  std::optional<JsonChild> find(const JsonPath& path) const;
  std::string name_of(const JsonChild& member) const;
  std::string margin_of(std::size_t at) const;

  std::string text_;
  std::string newline_ = "\n";
  std::string indent_;  // of one level; empty: the text is one line
};

}  // namespace rotary::files
