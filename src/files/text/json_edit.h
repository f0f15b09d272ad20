// Small changes of JSON text that leave every other byte as it is. The text must be valid JSON (parse_json), without
// duplicate keys.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rotary::files {

// The objects on the way to a member, from the outermost: {"text_config", "rope_parameters"}.
using KeyPath = std::span<const std::string>;

// The text with the member `key` of the object at path set to value, which is JSON: in its place, or behind the last
// member, with the white space that stands in front of that one. The object must be there.
std::string with_member(std::string_view text, KeyPath path, std::string_view key, std::string_view value);
// The text without that member. Of a member that with_member added it leaves no trace.
std::string without_member(std::string_view text, KeyPath path, std::string_view key);
// The value of a member as it is written; empty: there is none.
std::string_view member_text(std::string_view text, KeyPath path, std::string_view key);

std::string json_string(std::string_view text);  // in quotes, as JSON writes it

}  // namespace rotary::files
