#include "json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>

#include "paths.h"
#include "rotary/error.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

constexpr std::size_t max_levels = 64;
constexpr std::size_t max_values = 500000;
constexpr std::size_t max_elements = 16384;  // in a list that a getter copies

// Python's json writes three words that JSON does not have ("time_step_limit": [0.0, Infinity]). Outside strings they
// are replaced by strings that begin with U+0000, which Builder converts to the numbers. The getters refuse them.
struct PythonNumber {
  std::string_view word;
  double value;
};
constexpr std::array<PythonNumber, 3> python_numbers = {{{"NaN", std::numeric_limits<double>::quiet_NaN()},
                                                         {"-Infinity", -std::numeric_limits<double>::infinity()},
                                                         {"Infinity", std::numeric_limits<double>::infinity()}}};
constexpr std::string_view marker("\0", 1);

const PythonNumber* python_number(std::string_view text) {
  for (const PythonNumber& known : python_numbers) {
    if (text.starts_with(known.word)) return &known;
  }
  return nullptr;
}

std::string with_marked_numbers(std::string_view text) {
  std::string result;
  result.reserve(text.size() + 64);
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const PythonNumber* number = in_string ? nullptr : python_number(text.substr(i));
    if (number != nullptr) {
      result.append("\"\\u0000").append(number->word).append("\"");
      i += number->word.size() - 1;
      continue;
    }
    if (in_string && text[i] == '\\') {
      result.append(text.substr(i, 2));
      ++i;
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    result += text[i];
  }
  return result;
}

// Builds a value from the parser's events, and checks levels, the number of values and duplicate keys meanwhile. A key
// may stand twice with one value. The library's own builders take quadratic time: the one that has a callback for the
// checks looks through an array at the end of each object in it, the one that keeps order through the keys of an object
// at each key.
template <class J>
class Builder {
 public:
  explicit Builder(bool keeps_marked) : keeps_marked_(keeps_marked) {}
  J take() { return std::move(root_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& text) {
    const bool marked = !keeps_marked_ && text.starts_with(marker);
    const PythonNumber* number = marked ? python_number(std::string_view(text).substr(1)) : nullptr;
    return number != nullptr ? add(number->value) : add(std::move(text));
  }
  bool binary(typename J::binary_t&) { return false; }  // JSON has none
  bool start_object(std::size_t) { return open(true); }
  bool start_array(std::size_t) { return open(false); }
  bool key(std::string& text) {
    if (text.starts_with(marker)) fail(Code::JSON, "parse", "a key must be a string that does not begin with U+0000");
    open_.back().key = std::move(text);
    return count();
  }
  bool end_object() {
    Members members = std::move(open_.back().members);
    open_.pop_back();
    return add(typename J::object_t(std::make_move_iterator(members.begin()), std::make_move_iterator(members.end())));
  }
  bool end_array() {
    J elements = std::move(open_.back().elements);
    open_.pop_back();
    return add(std::move(elements));
  }
  template <class Exception>
  bool parse_error(std::size_t, const std::string&, const Exception& error) {
    throw error;
  }

 private:
  using Members = std::vector<std::pair<std::string, J>>;
  struct Open {
    bool is_object;
    std::string key = {};
    Members members = {};
    std::map<std::string, std::size_t> places = {};  // the member of each key
    J elements = J::array();
  };

  bool count() {
    if (++values_ > max_values) fail(Code::JSON, "parse", "a file must hold at most ", max_values, " values");
    return true;
  }

  bool open(bool is_object) {
    open_.push_back({.is_object = is_object});
    if (open_.size() > max_levels)
      fail(Code::JSON, "parse", "arrays and objects must not nest deeper than ", max_levels);
    return count();
  }

  bool add(J value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Open& in = open_.back(); !in.is_object) {
      in.elements.push_back(std::move(value));
    } else if (const auto [known, is_new] = in.places.try_emplace(in.key, in.members.size()); is_new) {
      in.members.emplace_back(in.key, std::move(value));
    } else if (const J& first = in.members[known->second].second;
               first.type() != value.type() || first.dump() != value.dump()) {
      fail(Code::JSON, "parse", "a key must appear once in an object but ", in_quotes(in.key),
           " appears twice, with two values");
    }
    return count();
  }

  bool keeps_marked_;
  J root_;
  std::vector<Open> open_;
  std::size_t values_ = 0;
};

template <class J>
J built(std::string_view text, bool keeps_marked) {
  Builder<J> builder(keeps_marked);
  J::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

// Refuses common other files that are given by mistake.
void refuse_other_text(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) fail(Code::JSON, "parse", "the text must be JSON but is empty");
  const std::string start = lower(text.substr(begin, 64));
  if (start.starts_with("<!doctype") || start.starts_with("<html")) {
    fail(
        Code::JSON, "parse",
        "the text must be JSON but is an HTML page: of a file on a website, take the link that downloads it (/resolve/ "
        "or /raw/, not /blob/)");
  }
  if (start.starts_with("version https://git-lfs")) {
    fail(Code::JSON, "parse", "the text must be JSON but is a git-lfs pointer: 'git lfs pull' fetches the file");
  }
  if (start.starts_with("{'")) {
    fail(Code::JSON, "parse",
         "the text must be JSON but is a dict as Python prints it, with single quotes: write it with json.dump");
  }
  const std::size_t word = start.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-.");
  const std::string after = word == 0 || word == start.npos ? "" : start.substr(word, 2);
  if (after == " {") {
    fail(Code::JSON, "parse", "the text must be JSON but is a config as Python prints it: remove ",
         in_quotes(text.substr(begin, word)), " before the brace");
  }
  if (start.starts_with("---") || start.starts_with("# ") || after == ": " || after == ":\n") {
    fail(Code::JSON, "parse", "the text must be JSON but is YAML: give the model's config.json");
  }
}

// "{\"a\": 1,}": the parser stops at the bracket, and its message does not name the comma.
void refuse_trailing_comma(std::string_view text, const Json::exception& error) {
  const auto* wrong = dynamic_cast<const Json::parse_error*>(&error);
  if (wrong == nullptr || wrong->byte == 0 || wrong->byte > text.size()) return;
  const char bracket = text[wrong->byte - 1];
  if (bracket != '}' && bracket != ']') return;
  const auto before = text.substr(0, wrong->byte - 1).find_last_not_of(" \t\r\n");
  if (before == std::string_view::npos || text[before] != ',') return;
  const auto lines = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(before), '\n');
  fail(Code::JSON, "parse", "the text must be JSON but line ", lines + 1,
       " has a comma with nothing behind it before '", bracket, "'");
}

template <typename T>
std::optional<std::vector<T>> list(const Object& object, std::string_view key, const char* what,
                                   bool (*fits)(const Json&)) {
  const Json* v = object.value(key);
  if (v == nullptr) return std::nullopt;
  const std::string rule = std::string("must be a list of ") + what;
  if (!v->is_array()) object.refuse(key, rule);
  if (v->size() > max_elements) object.refuse(key, rule, " of at most ", max_elements, " elements");
  std::vector<T> elements;
  for (const Json& element : *v) {
    if (!fits(element)) object.refuse(key, rule);
    elements.push_back(element.get<T>());
  }
  return elements;
}

// ---- JSON as the program and the tools print it ----

std::string json_number(double value) {
  if (!std::isfinite(value))
    fail(Code::NUMBER, "json", "a number must be finite but got ", detail::significant(value, 3));
  std::string text = detail::significant(value, 17);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";  // so that typed readers read it as a double
  return text;
}

void append_json(std::string& out, const OrderedJson& value, std::size_t depth);

// Whether it is a number, a flag, or a short string.
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
    if (value.is_object()) {
      append_json(out, key, depth);
      out += ": ";
    }
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

std::string reason_of(const Json::exception& error) {
  const bool parsing = dynamic_cast<const Json::parse_error*>(&error) != nullptr;
  const std::string name = std::string("[json.exception.") + (parsing ? "parse_error." : "out_of_range.");
  const std::string_view text = error.what();
  const std::size_t begin = std::min(name.size() + std::to_string(error.id).size() + 2, text.size());
  return legible(cut(text.substr(begin), 300));  // the parser quotes the last token, which may be the whole text
}

std::string shown(const Json& value) {
  if (is_not_finite(value)) {
    const double number = value.get<double>();
    return std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  }
  const std::string text = legible(value.dump(-1, ' ', false, Json::error_handler_t::replace));
  return text.size() > 60 ? cut(text, 57) : text;
}

std::string string_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool is_not_finite(const Json& value) { return value.is_number_float() && !std::isfinite(value.get<double>()); }

Json parse_json(std::string_view text) {
  if (text.size() > max_json_bytes) {
    fail(Code::JSON, "parse", "a config must be at most 16 MB but this one has ", text.size(), " bytes");
  }
  if (text.find('\0') != std::string_view::npos) {
    fail(Code::JSON, "parse", "the text must be JSON but holds a byte 0");
  }
  if (text.starts_with("\xEF\xBB\xBF")) {
    fail(Code::JSON, "parse", "the text must be JSON but begins with a byte order mark");
  }
  std::string marked;
  if (text.find("NaN") != std::string_view::npos || text.find("Infinity") != std::string_view::npos) {
    marked = with_marked_numbers(text);
    text = marked;
  }
  refuse_other_text(text);
  try {
    return built<Json>(text, false);
  } catch (const Json::exception& e) {
    refuse_trailing_comma(text, e);
    fail(Code::JSON, "parse", "the text must be JSON in UTF-8 but has a ", reason_of(e));
  }
}

std::unordered_map<std::string_view, const OrderedJson*> members_of(const OrderedJson& object) {
  std::unordered_map<std::string_view, const OrderedJson*> members;
  for (const auto& [key, value] : object.get_ref<const OrderedJson::object_t&>()) members.emplace(key, &value);
  return members;
}

OrderedJson parse_in_order(std::string_view text) { return built<OrderedJson>(text, true); }

OrderedJson parse_to_edit(std::string_view text) { return parse_in_order(with_marked_numbers(text)); }

std::string config_text(const OrderedJson& config) {
  std::string text = config.dump(2, ' ', true) + "\n";
  for (const PythonNumber& known : python_numbers) {
    const std::string marked = "\"\\u0000" + std::string(known.word) + "\"";
    for (std::size_t at = 0; (at = text.find(marked, at)) != std::string::npos;)
      text.replace(at, marked.size(), known.word);
  }
  return text;
}

std::string json_file_text(const char* operation, const InputFile& file) {
  if (file.size() > max_json_bytes) {
    fail(Code::JSON, operation, "a JSON file must be at most 16 MB but ", in_quotes(path_text(file.path())), " has ",
         file.size(), " bytes");
  }
  return file.text();
}

std::string json_file_text(const char* operation, const std::filesystem::path& path) {
  return json_file_text(operation, InputFile(operation, path));
}

std::string Object::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

void Object::refuse_sentence(std::string_view key, const std::string& rule) const {
  const Json* found = peek(key);
  fail(Code::CONFIG_VALUE, "read_config", path_of(key), " ", rule, " but got ",
       found == nullptr ? "nothing" : shown(*found));
}

const Json* Object::peek(std::string_view key) const {
  const auto found = json_->find(std::string(key));
  return found == json_->end() ? nullptr : &*found;
}

const Json* Object::value(std::string_view key) const {
  const Json* found = peek(key);
  if (found != nullptr) mark(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::optional<std::int64_t> Object::integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  const Json* v = value(key);
  if (v == nullptr) return std::nullopt;
  const std::string rule = "must be an integer from " + std::to_string(min) + " to " + std::to_string(max);
  if (!v->is_number_integer()) refuse(key, rule);
  if (v->is_number_unsigned() && v->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) refuse(key, rule);
  const auto i = v->get<std::int64_t>();
  if (i < min || i > max) refuse(key, rule);
  return i;
}

std::optional<std::int64_t> Object::length(std::string_view key, std::int64_t max) const {
  const Json* v = value(key);
  if (v == nullptr || !v->is_number_float()) return integer(key, 1, max);
  const auto real = v->get<double>();
  if (!(real >= 1 && real <= static_cast<double>(max)) || std::trunc(real) != real) {
    refuse(key, "must be an integer from 1 to " + std::to_string(max));
  }
  return static_cast<std::int64_t>(real);
}

std::optional<double> Object::number(std::string_view key) const {
  const Json* v = value(key);
  if (v == nullptr) return std::nullopt;
  if (!v->is_number()) refuse(key, "must be a number");
  if (is_not_finite(*v)) refuse(key, "must be a finite number");
  return v->get<double>();
}

std::optional<bool> Object::boolean(std::string_view key) const {
  const Json* v = value(key);
  if (v == nullptr) return std::nullopt;
  if (!v->is_boolean()) refuse(key, "must be true or false");
  return v->get<bool>();
}

bool Object::boolean(std::string_view key, bool default_value) const {
  return value(key) == nullptr ? default_value : boolean(key).value();
}

std::optional<std::string> Object::text(std::string_view key) const {
  const Json* v = value(key);
  if (v == nullptr) return std::nullopt;
  if (!v->is_string()) refuse(key, "must be a string");
  return v->get<std::string>();
}

std::optional<std::vector<double>> Object::numbers(std::string_view key) const {
  return list<double>(*this, key, "finite numbers", [](const Json& v) { return v.is_number() && !is_not_finite(v); });
}

std::optional<std::vector<int>> Object::integers(std::string_view key) const {
  return list<int>(*this, key, "32-bit integers", [](const Json& v) {
    return v.is_number_integer() &&
           (v.is_number_unsigned() ? v.get<std::uint64_t>() <= INT32_MAX : v.get<std::int64_t>() >= INT32_MIN);
  });
}

std::optional<std::vector<std::string>> Object::texts(std::string_view key) const {
  return list<std::string>(*this, key, "strings", [](const Json& v) { return v.is_string(); });
}

std::optional<Object> Object::object(std::string_view key) const {
  const Json* v = value(key);
  if (v == nullptr) return std::nullopt;
  if (!v->is_object()) refuse(key, "must be an object");
  return Object(*v, path_of(key), *ledger_, owner_);
}

std::string json_text(const OrderedJson& value) {
  std::string out;
  append_json(out, value, 0);
  return out;
}

OrderedJson finite_or_null(double value) { return std::isfinite(value) ? OrderedJson(value) : OrderedJson(); }

}  // namespace rotary::files
