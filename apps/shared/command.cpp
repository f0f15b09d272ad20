#include "command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <streambuf>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "files/text/nearest.h"
#include "sheet.h"
#include "text.h"

namespace rotary::cli {

namespace {

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

}  // namespace

Option& Option::type_name(const std::string& word) {
  option_->type_name(word);
  return *this;
}

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::usual() {
  option_->group(std::string(usual_group));
  return *this;
}

Option& Option::shows_default() {
  option_->capture_default_str();
  return *this;
}

Option& Option::one_of(const std::vector<std::string>& words, const Aliases& aliases) {
  const auto refusal = [words](const std::string& word) -> std::string {
    if (std::find(words.begin(), words.end(), word) != words.end()) return "";
    const std::vector<std::string_view> views(words.begin(), words.end());
    const std::string_view meant = files::nearest(word, views);
    const std::string rule = but_got("must be " + one_of_words(words), word);
    return meant.empty() ? rule : rule + ": did you mean " + std::string(meant) + "?";
  };
  option_->check(CLI::Validator(refusal, description_of_words(words)));
  Aliases known = aliases;
  std::erase_if(known, [&](const auto& alias) { return std::ranges::find(words, alias.second) == words.end(); });
  if (known.empty()) return *this;
  const auto ours = [known](std::string& word) -> std::string {
    for (const auto& [theirs, meant] : known)
      if (word == theirs) word = std::string(meant);
    return "";
  };
  option_->transform(CLI::Validator(ours, description_of_aliases(known)));
  return *this;
}

Option& Option::suggests(const std::vector<std::string>& words) {
  option_->check(CLI::Validator([](const std::string&) { return std::string(); }, description_of_suggestions(words)));
  return *this;
}

template <class T>
Option& Option::range(T least, T most) {
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
  option_->check(CLI::Validator(refusal, ""));
  return *this;
}
template Option& Option::range(int, int);
template Option& Option::range(unsigned, unsigned);
template Option& Option::range(std::int64_t, std::int64_t);
template Option& Option::range(double, double);

Option& Option::above_zero() {
  const auto refusal = [](const std::string& word) {
    return number_of<double>(word) > 0 ? std::string() : "must be a number above 0 but got " + word;
  };
  option_->check(CLI::Validator(refusal, ""));
  return *this;
}

Option& Option::comma_list() {
  option_->delimiter(',');
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::help(const std::string& text) {
  option_->description(text);
  return *this;
}

Command::Command(CLI::App& app, const std::string& name, const std::string& help)
    : app_(app.add_subcommand(name, help)) {}

Option Command::flag(const std::string& name, bool& value, const std::string& help) {
  return Option(app_->add_flag(name, value, help));
}

template <class T>
Option Command::option(const std::string& name, T& value, const std::string& help) {
  CLI::Option* option = app_->add_option(name, value, help);
  using Value = typename Held<T>::type;
  if constexpr (std::is_arithmetic_v<Value>) option->transform(CLI::Validator(read_number<Value>, ""));
  return Option(option);
}
template Option Command::option(const std::string&, std::string&, const std::string&);
template Option Command::option(const std::string&, double&, const std::string&);
template Option Command::option(const std::string&, int&, const std::string&);
template Option Command::option(const std::string&, std::int64_t&, const std::string&);
template Option Command::option(const std::string&, std::uint64_t&, const std::string&);
template Option Command::option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Command::option(const std::string&, std::vector<std::int64_t>&, const std::string&);
template Option Command::option(const std::string&, std::optional<std::string>&, const std::string&);
template Option Command::option(const std::string&, std::optional<double>&, const std::string&);
template Option Command::option(const std::string&, std::optional<int>&, const std::string&);
template Option Command::option(const std::string&, std::optional<unsigned>&, const std::string&);
template Option Command::option(const std::string&, std::optional<std::int64_t>&, const std::string&);
template Option Command::option(const std::string&, std::optional<std::uint64_t>&, const std::string&);

Option Command::added(const std::string& name) { return Option(app_->get_option(name)); }

Command& Command::section(const std::string& title) {
  app_->option_defaults()->group(title.empty() ? std::string(own_group) : title);
  return *this;
}

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
  section("");
  app_->add_flag_callback("-q,--quiet", be_quiet, "print nothing but warnings and errors");
  app_->callback(std::move(run));
  return *this;
}

bool is_quiet() { return quiet; }

}  // namespace rotary::cli
