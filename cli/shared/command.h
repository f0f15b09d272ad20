// The options of a command: description.h describes them, and the command's code binds each to a variable. Only
// command.cpp includes CLI11's header, which takes a compiler two seconds.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "description.h"
#include "text/paths.h"

namespace rotary::cli {

// A whole number from least to most and within the option's range, in two's complement. Both throw UsageError.
std::uint64_t read_integer(const OptionDescription&, const std::string& word, std::int64_t least, std::uint64_t most);
double read_number(const OptionDescription&, const std::string& word);

// Sets a variable from the words of an option: a bool, text, a path, a number, an optional or a vector of these.
template <class T>
void read_words(const OptionDescription& option, const std::vector<std::string>& words, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    value = true;
  } else if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    value = static_cast<T>(read_integer(option, words.front(), Limits::min(), Limits::max()));
  } else if constexpr (std::is_floating_point_v<T>) {
    value = read_number(option, words.front());
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    value = files::path_of(words.front());
  } else {
    value = words.front();
  }
}
template <class T>
void read_words(const OptionDescription& option, const std::vector<std::string>& words, std::optional<T>& value) {
  read_words(option, words, value.emplace());
}
template <class T>
void read_words(const OptionDescription& option, const std::vector<std::string>& words, std::vector<T>& values) {
  values.clear();
  for (const std::string& word : words) read_words(option, {word}, values.emplace_back());
}

class Command {
 public:
  using Words = std::vector<std::string>;

  // The command has every option of its description, none bound to a variable yet.
  explicit Command(const CommandDescription&);

  // Binds an option, by its key ("CONFIG,--config"), to a variable. It is set to the default of the description if
  // there is one.
  template <class T>
  void option(const std::string& key, T& value) {
    store(key, [&value](const OptionDescription& option, const Words& words) { read_words(option, words, value); });
  }
  // read converts the word to the value: option("--pairing", pairing, parse_pairing).
  template <class T, std::invocable<const std::string&> Read>
  void option(const std::string& key, T& value, Read read) {
    store(key, [&value, read](const OptionDescription&, const Words& words) { value = read(words.front()); });
  }
  // Sets the function that the command runs. Throws INTERNAL if an option is bound to no variable.
  void runs(std::function<void()> run);

  // Sets the variables. Throws UsageError.
  void parse(Words words);
  bool has(const std::string& key) const { return given_.contains(key); }  // whether the option was given
  // Whether any option but these was given.
  bool has_beside(const Words& keys) const {
    return std::ranges::any_of(given_, [&](const auto& one) { return std::ranges::count(keys, one.first) == 0; });
  }
  // Runs that function. Throws UsageError if a word is left over or a rule is broken.
  void run();

 private:
  using Store = std::function<void(const OptionDescription&, const Words&)>;
  void store(const std::string& key, Store);
  void take(const OptionDescription&, Words);
  void end_lists_at_place();

  const CommandDescription& description_;
  std::map<std::string, Store> stores_;  // by key, as given_
  std::map<std::string, Words> given_;
  Words former_, extras_;  // old names that were given; words that have no place
  std::function<void()> run_ = [] {};
};

// Whether -q was given, with which std::cout discards everything; and --json, with which every command prints an
// object.
bool is_quiet();
bool asks_json();
void print_json(const std::string& object);  // with its version

}  // namespace rotary::cli
