// Where values lie in the text of data/models.json, without reading them. The text is JSON (a test sees to it) without
// escapes in its strings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rotary::files {

struct Member {
  std::string_view key, value;  // the value as it is spelled
};

// Throws INTERNAL, "[models] data/models.json: SENTENCE". So do the others where a value is not what they read.
[[noreturn]] void refuse_table(const std::string& sentence);

std::vector<Member> members(std::string_view object, const std::string& where);
std::vector<std::string_view> elements(std::string_view list, const std::string& where);
// Of a string, without its quotes.
std::string_view characters(std::string_view text, const std::string& where);

}  // namespace rotary::files
