// The options of a command: description.h says what they are, the code which variable each sets. CLI11's own header
// takes a compiler two seconds: only command.cpp and program.cpp include it.
#pragma once

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
#include "files/text/paths.h"

namespace CLI {
class App;
}

namespace rotary::cli {

// A whole number from least to most, and within the option's range, in two's complement. Both throw UsageError.
std::uint64_t read_integer(const OptionDescription&, const std::string& word, std::int64_t least, std::uint64_t most);
double read_number(const OptionDescription&, const std::string& word);

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

template <class T>
T read_value(const OptionDescription& option, const std::string& word) {
  if constexpr (std::is_same_v<T, bool>) {
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    return static_cast<T>(read_integer(option, word, Limits::min(), Limits::max()));
  } else if constexpr (std::is_floating_point_v<T>) {
    return read_number(option, word);
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    return files::path_of(word);
  } else {
    return word;
  }
}

class Command {
 public:
  using Words = std::vector<std::string>;

  // The command that app is, with every option of its description. Nothing sets a variable yet.
  Command(CLI::App& app, const CommandDescription&);
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // The variable of an option, by its key ("CONFIG,--config"): a bool, text, a path, a number, an optional of these, or
  // a vector. It is set to the default of the description, where there is one, and stays as it is otherwise.
  template <class T>
  void option(const std::string& key, T& value) {
    using Value = typename Held<T>::type;
    store(key, [&value](const OptionDescription& option, const Words& words) {
      if constexpr (std::is_same_v<T, std::vector<Value>>) {
        value.clear();
        for (const std::string& word : words) value.push_back(read_value<Value>(option, word));
      } else {
        value = read_value<Value>(option, words.front());
      }
    });
  }
  // read makes the value from the word: option("--pairing", pairing, parse_pairing).
  template <class T, std::invocable<const std::string&> Read>
  void option(const std::string& key, T& value, Read read) {
    store(key, [&value, read](const OptionDescription&, const Words& words) { value = read(words.front()); });
  }

  // Runs after the words were read and the rules hold. Throws INTERNAL where an option sets no variable.
  void runs(std::function<void()> run);

 private:
  using Store = std::function<void(const OptionDescription&, const Words&)>;
  void store(const std::string& key, Store);
  void add(const OptionDescription&);
  void take(const OptionDescription&, Words);
  void note_former_names() const;

  CLI::App* app_;
  const CommandDescription& description_;
  std::map<std::string, Store> stores_;  // by key, as given_
  std::map<std::string, Words> given_;
  Words former_;  // names of before that were given
};

bool is_quiet();  // whether -q was given: what is written to std::cout is thrown away then

}  // namespace rotary::cli
