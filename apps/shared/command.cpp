#include "command.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <streambuf>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "files/text/nearest.h"
#include "rotary/error.h"
#include "sheet.h"
#include "text.h"

namespace rotary::embedded {
std::string_view commands_json() noexcept;
}

namespace rotary::cli {

namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

bool quiet = false;

std::string but_got(const std::string& rule, const std::string& word) { return rule + " but got '" + word + "'"; }

// "" or what is wrong with a word.
template <class T>
std::string read_number(const std::string& word, T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    char* end = nullptr;
    value = std::strtod(word.c_str(), &end);
    const bool whole = !word.empty() && end == word.c_str() + word.size() && word.front() != ' ';
    return whole ? "" : but_got("must be a number", word);
  } else {
    const bool negative = word.starts_with('-');
    const std::string digits = word.substr(negative || word.starts_with('+') ? 1 : 0);
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos)
      return but_got("must be a whole number, in digits alone,", word);
    const bool zero = digits.find_first_not_of('0') == std::string::npos;
    if (negative && !zero && std::is_unsigned_v<T>) return but_got("must be at least 0", word);
    const std::string number = (negative && !zero ? "-" : "") + digits;
    if (std::from_chars(number.data(), number.data() + number.size(), value).ec == std::errc()) return "";
    using Limits = std::numeric_limits<T>;
    return but_got(negative ? "must be at least " + std::to_string(Limits::min())
                            : "must be at most " + std::to_string(Limits::max()),
                   word);
  }
}

template <class T>
std::string value_words(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_floating_point_v<T>) {
    return shortest(value);
  } else {
    return std::to_string(value);
  }
}

template <class T>
struct Held {
  using type = T;
};
template <class T>
struct Held<std::optional<T>> {
  using type = T;
};
template <class T>
struct Held<std::vector<T>> {
  using type = T;
};

// ---- data/commands.json ----

const Json& described(const char* kind, const std::string& name) {
  static const Json data = Json::parse(embedded::commands_json());
  return data.at(kind).at(name);
}

// Lines; "" where there are none.
std::string text_of(const Json& entry, const char* key) {
  return joined(entry.value(key, std::vector<std::string>()), "\n");
}

Json option_entry(const std::string& command, const std::string& name) {
  const Json& options = described("commands", command).at("options");
  const auto own = options.find(name);
  if (own == options.end()) return described("shared", name);
  if (own->is_string()) return described("shared", own->get<std::string>());
  if (!own->contains("shared")) return *own;
  Json changed = described("shared", name);
  changed.update(*own);
  return changed;
}

// Of a number that was read from word.
template <class T>
std::string out_of_range(T value, T least, T most, const std::string& word) {
  if (std::is_floating_point_v<T> && std::isnan(static_cast<double>(value))) return "must be a number but got " + word;
  if (value >= least && value <= most) return "";
  const bool bounded = static_cast<double>(most) < 1e9;  // a larger bound only keeps the arithmetic whole
  if (value < least && !bounded) return but_got("must be at least " + value_words(least), word);
  if (value > most && !bounded) return but_got("must be at most " + value_words(most), word);
  return but_got("must be from " + value_words(least) + " to " + value_words(most), word);
}

std::string no_word_of(const Words& words, const std::string& word) {
  if (std::ranges::find(words, word) != words.end()) return "";
  const std::vector<std::string_view> views(words.begin(), words.end());
  const std::string_view meant = files::nearest(word, views);
  const std::string rule = but_got("must be " + one_of_words(words), word);
  return meant.empty() ? rule : rule + ": did you mean " + std::string(meant) + "?";
}

// Other words for ours, and ours: {"neox", "half"}.
using Aliases = std::vector<std::pair<std::string, std::string>>;

// Those of one word together: "neox", "rotate_half for half".
Words told(const Aliases& aliases) {
  Words lines;
  for (std::size_t i = 0; i < aliases.size(); ++i) {
    const bool ends = i + 1 == aliases.size() || aliases[i + 1].second != aliases[i].second;
    lines.push_back(aliases[i].first + (ends ? " for " + aliases[i].second : ""));
  }
  return lines;
}

// What the data say of an option that takes one of words; theirs go before.
Option described_option(const std::string& name, const Json& entry, Words words) {
  const auto is = [&](const char* fact) { return entry.value(fact, false); };
  Option option;
  for (std::string& part : split(name, ',')) {
    if (part.starts_with('-')) {
      option.names.push_back(std::move(part));
    } else {
      option.place = std::move(part);
    }
  }
  option.value = entry.value("value", "TEXT");
  option.words = entry.value("words", std::move(words));
  option.fixed = !option.words.empty() && !is("suggests");
  option.help = text_of(entry, "help");
  option.required = is("required");
  option.usual = is("usual");
  option.group = option.usual ? "" : entry.value("section", "");
  option.comma_list = is("comma_list");
  option.excludes = entry.value("excludes", "");
  return option;
}

// Of option's words, those of entry's list.
Aliases aliases_of(const Option& option, const Json& entry) {
  if (!entry.contains("aliases") || !option.fixed) return {};
  Aliases aliases = described("aliases", entry["aliases"]).get<Aliases>();
  std::erase_if(aliases, [&](const auto& alias) { return !no_word_of(option.words, alias.second).empty(); });
  return aliases;
}

// What reads a value of the type: "" or what is wrong with the word.
template <class Value>
std::function<std::string(const std::string&, Value&)> reader_of(const Option& option, const Json& entry,
                                                                 const Aliases& aliases) {
  if constexpr (std::is_arithmetic_v<Value>) {
    const bool above_zero = entry.value("above_zero", false);
    std::optional<std::pair<Value, Value>> range;
    if (entry.contains("range")) range.emplace(entry["range"][0], entry["range"][1]);
    return [above_zero, range](const std::string& word, Value& value) {
      std::string wrong = read_number(word, value);
      if (wrong.empty() && range) wrong = out_of_range(value, range->first, range->second, word);
      if (wrong.empty() && above_zero && !(value > 0)) wrong = "must be a number above 0 but got " + word;
      return wrong;
    };
  } else {
    return [aliases, words = option.fixed ? option.words : Words()](const std::string& word, std::string& value) {
      const auto alias = std::ranges::find(aliases, word, &Aliases::value_type::first);
      value = alias == aliases.end() ? word : alias->second;
      return words.empty() ? std::string() : no_word_of(words, value);
    };
  }
}

}  // namespace

Command::Command(Program& program, const std::string& name)
    : entry_(program.commands.emplace_back(
          new_entry(name, text_of(described("commands", name), "summary"), program.own.footer))) {}

template <class T>
void Command::option(const std::string& name, T& value, Words words) {
  added_.insert(name);
  const Json entry = option_entry(entry_.name, name);
  Option option = described_option(name, entry, std::move(words));
  if constexpr (std::is_same_v<T, bool>) {
    option.value = "";
    option.read = [&value](const Words&) {
      value = true;
      return std::string();
    };
  } else {
    using Value = typename Held<T>::type;
    constexpr bool list = std::is_same_v<T, std::vector<Value>>;
    option.list = list;
    const Aliases aliases = aliases_of(option, entry);
    option.aliases = told(aliases);
    if constexpr (std::is_same_v<T, Value>) {
      if (entry.value("shows_default", false)) option.standard = value_words(value);
    }
    option.read = [&value, read = reader_of<Value>(option, entry, aliases)](const Words& given) {
      std::vector<Value> values;
      for (const std::string& word : given) {
        std::string wrong = read(word, values.emplace_back());
        if (!wrong.empty()) return wrong;
      }
      if constexpr (list) {
        value = std::move(values);
      } else {
        value = std::move(values.front());
      }
      return std::string();
    };
  }
  entry_.options.push_back(std::move(option));
}
template void Command::option(const std::string&, bool&, Words);
template void Command::option(const std::string&, std::string&, Words);
template void Command::option(const std::string&, double&, Words);
template void Command::option(const std::string&, int&, Words);
template void Command::option(const std::string&, std::int64_t&, Words);
template void Command::option(const std::string&, std::uint64_t&, Words);
template void Command::option(const std::string&, std::vector<std::string>&, Words);
template void Command::option(const std::string&, std::vector<std::int64_t>&, Words);
template void Command::option(const std::string&, std::optional<std::string>&, Words);
template void Command::option(const std::string&, std::optional<double>&, Words);
template void Command::option(const std::string&, std::optional<int>&, Words);
template void Command::option(const std::string&, std::optional<unsigned>&, Words);
template void Command::option(const std::string&, std::optional<std::int64_t>&, Words);
template void Command::option(const std::string&, std::optional<std::uint64_t>&, Words);

void Command::footer(const std::string& text) { entry_.footer = text; }

void Command::group(const std::string& title) { entry_.group = title; }

void Command::runs(std::function<void()> run) {
  struct Nothing : std::streambuf {
    int overflow(int character) override { return traits_type::not_eof(character); }
    std::streamsize xsputn(const char*, std::streamsize count) override { return count; }
  };
  static Nothing nothing;
  const auto be_quiet = [] {
    quiet = true;
    std::cout.rdbuf(&nothing);
  };
  const Json& data = described("commands", entry_.name);
  for (const auto& [name, facts] : data.at("options").items())
    if (!added_.contains(name)) throw Error(Code::INTERNAL, "[commands] nothing reads " + entry_.name + " " + name);
  if (data.contains("footer")) entry_.footer = text_of(data, "footer");
  add_flag(entry_, {"-q", "--quiet"}, "print nothing but warnings and errors", be_quiet);
  entry_.run = std::move(run);
}

bool is_quiet() { return quiet; }

}  // namespace rotary::cli
