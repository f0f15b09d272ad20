#include "json.h"

#include <charconv>
#include <cmath>
#include <cstddef>

#include "rotary/error.h"

namespace rotary::files {
namespace {

constexpr std::size_t most_bytes = 16u << 20;
constexpr int most_levels = 64;
constexpr std::size_t most_values = 500000;
constexpr std::size_t most_elements = 16384;  // of a list that a getter copies

// Watches the parser: levels, values, duplicate keys.
class Guard {
 public:
  bool operator()(int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
      keys_.emplace_back();
      if (keys_.size() > most_levels) {
        throw Error("JSON", "[parse] arrays and objects must not nest deeper than " + std::to_string(most_levels));
      }
    } else if (event == Json::parse_event_t::object_end || event == Json::parse_event_t::array_end) {
      keys_.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) {
        throw Error("JSON", "[parse] a key must not stand twice in one object but \"" + key + "\" does");
      }
    }
    if (++values_ > most_values) {
      throw Error("JSON", "[parse] a file must hold at most " + std::to_string(most_values) + " values");
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;
  std::size_t values_ = 0;
};

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) {
    text.resize(57);
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
    text += "...";
  }
  return text;
}

}  // namespace

Json parse_json(std::string_view text) {
  if (text.size() > most_bytes) {
    throw Error("JSON",
                "[parse] a config must be at most 16 MB but this one has " + std::to_string(text.size()) + " bytes");
  }
  Guard guard;
  try {
    return Json::parse(text.begin(), text.end(), [&guard](int depth, Json::parse_event_t event, Json& parsed) {
      return guard(depth, event, parsed);
    });
  } catch (const Json::exception& e) {
    std::string why = e.what();
    if (const auto end = why.find("] "); end != std::string::npos) why.erase(0, end + 2);
    throw Error("JSON", "[parse] the text must be JSON (no NaN, no Infinity, UTF-8) but has a " + why);
  }
}

std::string spelled(double value) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (std::fabs(value) < 1e15 && value == std::floor(value)) {
    text = std::to_string(static_cast<std::int64_t>(value));
  }
  return text;
}

std::string Object::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

void Object::refuse(std::string_view key, const std::string& rule) const {
  const auto found = json_->find(std::string(key));
  throw Error("CONFIG_VALUE", "[read_config] " + path_of(key) + " " + rule + " but got " +
                                  (found == json_->end() ? "nothing" : shown(*found)));
}

bool Object::has(std::string_view key) const {
  const auto found = json_->find(std::string(key));
  return found != json_->end() && !found->is_null();
}

bool Object::is_null(std::string_view key) const {
  const auto found = json_->find(std::string(key));
  return found != json_->end() && found->is_null();
}

const Json* Object::value(std::string_view key) const {
  const auto found = json_->find(std::string(key));
  if (found == json_->end()) return nullptr;
  mark(key);
  return found->is_null() ? nullptr : &*found;
}

std::optional<std::int64_t> Object::integer(std::string_view key, std::int64_t least, std::int64_t most) const {
  const Json* v = value(key);
  if (v == nullptr) return std::nullopt;
  const std::string rule = "must be an integer from " + std::to_string(least) + " to " + std::to_string(most);
  if (!v->is_number_integer()) refuse(key, rule);
  if (v->is_number_unsigned() && v->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) refuse(key, rule);
  const auto i = v->get<std::int64_t>();
  if (i < least || i > most) refuse(key, rule);
  return i;
}

std::optional<double> Object::number(std::string_view key) const {
  const Json* v = value(key);
  if (v == nullptr) return std::nullopt;
  if (!v->is_number()) refuse(key, "must be a number");
  return v->get<double>();
}

std::optional<bool> Object::boolean(std::string_view key) const {
  const Json* v = value(key);
  if (v == nullptr) return std::nullopt;
  if (!v->is_boolean()) refuse(key, "must be true or false");
  return v->get<bool>();
}

std::optional<std::string> Object::text(std::string_view key) const {
  const Json* v = value(key);
  if (v == nullptr) return std::nullopt;
  if (!v->is_string()) refuse(key, "must be a string");
  return v->get<std::string>();
}

namespace {

template <typename T>
std::optional<std::vector<T>> list(const Object& object, std::string_view key, const char* what,
                                   bool (*fits)(const Json&)) {
  const Json* v = object.value(key);
  if (v == nullptr) return std::nullopt;
  const std::string rule = std::string("must be a list of ") + what;
  if (!v->is_array()) object.refuse(key, rule);
  if (v->size() > most_elements)
    object.refuse(key, rule + " of at most " + std::to_string(most_elements) + " elements");
  std::vector<T> elements;
  for (const Json& element : *v) {
    if (!fits(element)) object.refuse(key, rule);
    elements.push_back(element.get<T>());
  }
  return elements;
}

bool fits_int(const Json& v) {
  return v.is_number_integer() &&
         (v.is_number_unsigned() ? v.get<std::uint64_t>() <= INT32_MAX : v.get<std::int64_t>() >= INT32_MIN);
}

}  // namespace

std::optional<std::vector<double>> Object::numbers(std::string_view key) const {
  return list<double>(*this, key, "numbers", [](const Json& v) { return v.is_number(); });
}

std::optional<std::vector<int>> Object::integers(std::string_view key) const {
  return list<int>(*this, key, "32-bit integers", fits_int);
}

std::optional<std::vector<std::string>> Object::texts(std::string_view key) const {
  return list<std::string>(*this, key, "strings", [](const Json& v) { return v.is_string(); });
}

std::optional<Object> Object::object(std::string_view key) const {
  const Json* v = value(key);
  if (v == nullptr) return std::nullopt;
  if (!v->is_object()) refuse(key, "must be an object");
  return Object(*v, path_of(key), *ledger_);
}

}  // namespace rotary::files
