#include "json.h"

#include <cmath>

#include "rotary/error.h"
#include "values/number_text.h"

namespace rotary::files {

namespace {

using OrderedJson = nlohmann::ordered_json;

std::string json_number(double value) {
  if (!std::isfinite(value))
    throw Error(Code::NUMBER, "[json] a number must be finite but got " + detail::significant(value, 3));
  std::string text = detail::significant(value, 17);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";  // so that typed readers read it as a double
  return text;
}

void append_json(std::string& out, const OrderedJson& value, std::size_t depth);

void append_key(std::string& out, const std::string& key) {
  out += OrderedJson(key).dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + ": ";
}

// A number, a flag, or a short string.
bool is_word(const OrderedJson& item) {
  constexpr std::size_t longest = 16;
  return item.is_string() ? item.get_ref<const std::string&>().size() <= longest : item.is_primitive();
}

void append_list(std::string& out, const OrderedJson& value, std::size_t depth) {
  const bool small = value.is_object() && value.size() <= 2;
  bool plain = true;
  for (const OrderedJson& item : value) plain = plain && (small ? item.is_primitive() : is_word(item));
  const std::string line = std::string("\n").append(2 * depth, ' ');
  const char* separator = plain ? ", " : ",";
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    if (!first) out += separator;
    if (!plain) out += line + "  ";
    if (value.is_object()) append_key(out, key);
    append_json(out, item, depth + 1);
    first = false;
  }
  if (!plain) out += line;
}

void append_json(std::string& out, const OrderedJson& value, std::size_t depth) {
  if (value.is_number_float()) {
    out += json_number(value.get<double>());
  } else if (value.is_primitive()) {
    out += value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  } else {
    out += value.is_object() ? '{' : '[';
    append_list(out, value, depth);
    out += value.is_object() ? '}' : ']';
  }
}

}  // namespace

std::string json_text(const nlohmann::ordered_json& value) {
  std::string out;
  append_json(out, value, 0);
  return out;
}

nlohmann::ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

}  // namespace rotary::files
