#include "command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <streambuf>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "files/text/paths.h"
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

// "" or what is wrong with word, which becomes what CLI11 reads as the same number: it would take 010 for octal.
template <class T>
std::string read_number(std::string& word) {
  if constexpr (std::is_floating_point_v<T>) {
    char* end = nullptr;
    std::strtod(word.c_str(), &end);
    const bool whole = !word.empty() && end == word.c_str() + word.size() && word.front() != ' ';
    return whole ? "" : but_got("must be a number", word);
  } else {
    std::string digits = word.substr(word.starts_with('+') || word.starts_with('-') ? 1 : 0);
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos)
      return but_got("must be a whole number, in digits alone,", word);
    digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
    const std::string number = (word.front() == '-' && digits != "0" ? "-" : "") + digits;
    T value{};
    const auto [end, status] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (status != std::errc() || end != number.data() + number.size()) {
      if (number.front() == '-' && std::is_unsigned_v<T>) return but_got("must be at least 0", word);
      using Limits = std::numeric_limits<T>;
      return but_got(number.front() == '-' ? "must be at least " + std::to_string(Limits::min())
                                           : "must be at most " + std::to_string(Limits::max()),
                     word);
    }
    word = number;
    return "";
  }
}

template <class T>
T number_of(const std::string& word) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::strtod(word.c_str(), nullptr);
  } else {
    T value{};
    std::from_chars(word.data(), word.data() + word.size(), value);
    return value;
  }
}

template <class T>
std::string number_words(T value) {
  if constexpr (std::is_floating_point_v<T>) {
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

const Json& commands_data() {
  static const Json data = Json::parse(embedded::commands_json());
  return data;
}

const Json& described(const char* kind, const std::string& name) { return commands_data().at(kind).at(name); }

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

// The names of the options that a command has by the data.
std::set<std::string> described_options(const Json& command) {
  std::set<std::string> names;
  for (const auto& [name, facts] : command.at("options").items()) names.insert(name);
  if (command.value("rope_options", false))
    for (const Json& name : commands_data().at("rope_options")) names.insert(name);
  return names;
}

std::set<std::string> unmatched(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::set<std::string> names;
  std::ranges::set_symmetric_difference(a, b, std::inserter(names, names.end()));
  return names;
}

template <class T>
CLI::Validator range_check(T least, T most) {
  const auto refusal = [least, most](const std::string& word) -> std::string {
    const T value = number_of<T>(word);
    if (std::is_floating_point_v<T> && std::isnan(static_cast<double>(value)))
      return "must be a number but got " + word;
    if (value >= least && value <= most) return "";
    const bool bounded = static_cast<double>(most) < 1e9;  // a larger bound only keeps the arithmetic whole
    if (value < least && !bounded) return but_got("must be at least " + number_words(least), word);
    if (value > most && !bounded) return but_got("must be at most " + number_words(most), word);
    return but_got("must be from " + number_words(least) + " to " + number_words(most), word);
  };
  return {refusal, ""};
}

std::string above_zero(const std::string& word) {
  return number_of<double>(word) > 0 ? std::string() : "must be a number above 0 but got " + word;
}

// Words that the field has for ours, and ours: {"neox", "half"}.
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

void take_words(CLI::Option& option, const Words& words, const Aliases& aliases) {
  const auto refusal = [words](const std::string& word) -> std::string {
    if (std::ranges::find(words, word) != words.end()) return "";
    return but_got("must be " + one_of_words(words), word);
  };
  const auto ours = [aliases](std::string& word) -> std::string {
    for (const auto& [theirs, meant] : aliases)
      if (word == theirs) word = std::string(meant);
    return "";
  };
  option.check(CLI::Validator(refusal, ""));
  option.transform(CLI::Validator(ours, ""));
}

// What the help says of each option, from the data; CLI11 keeps the options where they are.
std::map<const CLI::Option*, OptionSheet>& sheets() {
  static std::map<const CLI::Option*, OptionSheet> all;
  return all;
}

void take_facts(CLI::Option& option, const Json& entry, const Words& words, CLI::App& app) {
  const auto is = [&](const char* fact) { return entry.value(fact, false); };
  const bool flag = option.get_items_expected_max() == 0;
  OptionSheet& sheet = sheets()[&option] = {};
  if (option.get_positional()) sheet.place = option.get_name(true, false);
  for (const std::string& name : option.get_lnames()) sheet.names.push_back("--" + name);
  sheet.value = flag ? "" : entry.value("value", option.get_type_name());
  sheet.words = entry.value("words", words);
  if (!words.empty() && words != sheet.words)
    fail(Code::INTERNAL, "commands", "the words of ", option.get_name(), " must be those of data/commands.json");
  sheet.fixed = !sheet.words.empty() && !is("suggests");
  sheet.help = text_of(entry, "help");
  sheet.required = is("required");
  sheet.usual = is("usual");
  if (!sheet.usual) sheet.group = entry.value("section", "");
  sheet.list = option.get_items_expected_max() > 1;
  if (is("shows_default") && option.get_default_str().empty()) option.capture_default_str();
  sheet.standard = option.get_default_str();
  option.required(sheet.required);
  if (is("comma_list")) option.delimiter(',');
  if (is("above_zero")) option.check(CLI::Validator(above_zero, ""));
  if (entry.contains("excludes")) option.excludes(app.get_option(entry["excludes"].get<std::string>()));
  if (!sheet.fixed) return;
  Aliases aliases;
  if (entry.contains("aliases")) described("aliases", entry["aliases"]).get_to(aliases);
  std::erase_if(aliases, [&](const auto& alias) { return std::ranges::count(sheet.words, alias.second) == 0; });
  sheet.aliases = told(aliases);
  take_words(option, sheet.words, aliases);
}

}  // namespace

std::string instead_of(const std::string& command) { return commands_data().at("gone").value(command, ""); }

const OptionSheet* described_option(const CLI::Option& option) {
  const auto found = sheets().find(&option);
  return found == sheets().end() ? nullptr : &found->second;
}

Command::Command(CLI::App& app, const std::string& name)
    : app_(app.add_subcommand(name, text_of(described("commands", name), "summary"))) {}

template <class T>
void Command::option(const std::string& name, T& value, const Words& words) {
  added_.insert(name);
  const Json entry = option_entry(app_->get_name(), name);
  CLI::Option* option = nullptr;
  if constexpr (std::is_same_v<T, bool>) {
    option = app_->add_flag(name, value);
  } else {
    option = app_->add_option(name, value);
    using Value = typename Held<T>::type;
    if constexpr (std::is_arithmetic_v<Value>) {
      option->transform(CLI::Validator(read_number<Value>, ""));
      if (entry.contains("range")) option->check(range_check<Value>(entry["range"][0], entry["range"][1]));
    }
  }
  take_facts(*option, entry, words, *app_);
}

void Command::option_read(const std::string& name, std::function<void(const std::string&)> read) {
  added_.insert(name);
  const Json entry = option_entry(app_->get_name(), name);
  CLI::Option* option = app_->add_option_function(name, std::move(read));
  if (entry.value("shows_default", false)) option->default_str(entry.at("words").front().get<std::string>());
  take_facts(*option, entry, {}, *app_);
}

template <>
void Command::option(const std::string& name, std::filesystem::path& value, const Words&) {
  option_read(name, [&value](const std::string& word) { value = files::path_of(word); });
}

template void Command::option(const std::string&, bool&, const Words&);
template void Command::option(const std::string&, std::string&, const Words&);
template void Command::option(const std::string&, double&, const Words&);
template void Command::option(const std::string&, int&, const Words&);
template void Command::option(const std::string&, std::int64_t&, const Words&);
template void Command::option(const std::string&, std::uint64_t&, const Words&);
template void Command::option(const std::string&, std::vector<std::string>&, const Words&);
template void Command::option(const std::string&, std::vector<std::int64_t>&, const Words&);
template void Command::option(const std::string&, std::optional<std::string>&, const Words&);
template void Command::option(const std::string&, std::optional<double>&, const Words&);
template void Command::option(const std::string&, std::optional<int>&, const Words&);
template void Command::option(const std::string&, std::optional<unsigned>&, const Words&);
template void Command::option(const std::string&, std::optional<std::int64_t>&, const Words&);
template void Command::option(const std::string&, std::optional<std::uint64_t>&, const Words&);

Command& Command::footer(const std::string& text) {
  app_->footer(text);
  return *this;
}

Command& Command::group(const std::string& title) {
  app_->group(title);
  return *this;
}

Command& Command::runs(std::function<void()> run) {
  struct Nothing : std::streambuf {
    int overflow(int character) override { return traits_type::not_eof(character); }
    std::streamsize xsputn(const char*, std::streamsize count) override { return count; }
  };
  static Nothing nothing;
  const auto be_quiet = [] {
    quiet = true;
    std::cout.rdbuf(&nothing);
  };
  const Json& entry = described("commands", app_->get_name());
  for (const std::string& name : unmatched(added_, described_options(entry)))
    fail(Code::INTERNAL, "commands", "the program or data/commands.json lacks ", app_->get_name(), " ", name);
  if (entry.contains("footer")) app_->footer(text_of(entry, "footer"));
  app_->add_flag_callback("-q,--quiet", be_quiet, "print nothing but warnings and errors");
  app_->callback(std::move(run));
  return *this;
}

bool is_quiet() { return quiet; }

}  // namespace rotary::cli
