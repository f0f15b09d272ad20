#include "command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <system_error>

#include "text.h"
#include "text/nearest.h"

namespace rotary::cli {

namespace {

// CLI11 reads [a,b] as a list. A word that ends in a bracket goes through it with this behind, and is itself again.
constexpr char whole = '\x01';

bool quiet_asked = false, json_asked = false;

void unmark(std::string& word) {
  if (word.ends_with(whole)) word.pop_back();
}

[[noreturn]] void refuse(const OptionDescription& option, const std::string& rule, const std::string& word) {
  throw UsageError(option.name() + " " + rule + " but got '" + word + "'");
}

[[noreturn]] void refuse_without_value(const OptionDescription& option, const std::string& got) {
  throw UsageError(option.name() + " needs a value, " + option.name() + " " + option.value + ", but " + got);
}

// A bound above 1e9 exists for the arithmetic only, and is not named: "from 1 to 65536", "at least 1".
[[noreturn]] void refuse_range(const OptionDescription& option, const std::string& word, bool below, bool bounded,
                               const std::string& least, const std::string& most) {
  const std::string one_side = below ? "must be at least " + least : "must be at most " + most;
  refuse(option, bounded ? "must be from " + least + " to " + most : one_side, word);
}

// Returns the word of the option for an alias or another case. Throws UsageError for any other word.
std::string known_word(const OptionDescription& option, std::string word) {
  const std::string given = word;
  std::vector<std::string_view> known(option.words.begin(), option.words.end());
  if (option.has_fixed_words()) word = lower(word);
  for (const auto& [meant, aliases] : option.aliases) {
    known.insert(known.end(), aliases.begin(), aliases.end());
    if (std::ranges::find(aliases, word) != aliases.end()) word = meant;
  }
  if (const auto why = option.refused.find(word); why != option.refused.end())
    throw UsageError(option.name() + " " + word + " " + why->second);
  if (!option.has_fixed_words() || std::ranges::find(option.words, word) != option.words.end()) return word;
  const std::string near(files::nearest(word, known));
  throw UsageError(option.name() + " must be " + files::listed(option.words, " or ") + " but got '" + given + "'" +
                   (near.empty() ? "" : ": did you mean " + near + "?"));
}

}  // namespace

std::uint64_t read_integer(const OptionDescription& option, const std::string& word, std::int64_t least,
                           std::uint64_t most) {
  const bool negative = word.starts_with('-');
  const std::string digits = word.substr(negative || word.starts_with('+') ? 1 : 0);
  if (const std::size_t end = digits.find_first_not_of("0123456789"); digits.empty() || end != std::string::npos) {
    const bool kilo = lower(digits.substr(std::min(end, digits.size()))) == "k" && end > 0 && end < 10;
    const std::string meant = kilo ? " (" + word + " is " + std::to_string(1024 * std::stoll(digits)) + ")" : "";
    refuse(option, "must be a whole number, in digits alone" + meant + ",", word);
  }
  if (!option.whole_range.empty()) least = std::max(least, option.whole_range.front());
  if (option.whole_range.size() > 1) most = std::min(most, static_cast<std::uint64_t>(option.whole_range.back()));
  std::uint64_t size = 0;
  const bool fits = std::from_chars(digits.data(), digits.data() + digits.size(), size).ec == std::errc();
  const std::uint64_t lowest = least < 0 ? 0 - static_cast<std::uint64_t>(least) : 0;  // without its sign
  const bool below =
      negative && size > 0 ? !fits || size > lowest : least > 0 && size < static_cast<std::uint64_t>(least);
  if (below || (!negative && (!fits || size > most)))
    refuse_range(option, word, below, most < 1'000'000'000, std::to_string(least), std::to_string(most));
  return negative ? 0 - size : size;
}

double read_number(const OptionDescription& option, const std::string& word) {
  char* end = nullptr;
  const double number = std::strtod(word.c_str(), &end);
  if (word.empty() || end != word.c_str() + word.size() || word.front() == ' ')
    refuse(option, "must be a number", word);
  if (option.range.empty()) return number;
  if (std::isnan(number)) refuse(option, "must be a number", word);
  const double least = option.range.front(), most = option.range.size() > 1 ? option.range.back() : HUGE_VAL;
  if (!(number >= least && number <= most))
    refuse_range(option, word, number < least, most < 1e9, shortest(least), shortest(most));
  return number;
}

Command::Command(const CommandDescription& description) : description_(description) {
  for (const char* key : {"-q,--quiet", "--json", "-h", "--help"}) stores_[key] = nullptr;
}

void Command::parse(Words words) {
  CLI::App app;
  app.set_help_flag();  // -h and --help are options like the others
  const auto add = [&](const OptionDescription& option, const std::string& names) {
    CLI::Option* added = app.add_option(names, [this, &option, names](const Words& values) {
      if (names != option.key) former_.push_back(names);
      take(option, values);
      return true;
    });
    added->expected(option.is_flag() ? 0 : option.list ? CLI::detail::expected_max_vector_size : 1);
    added->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    if (option.comma_list) added->delimiter(',');
  };
  for (const OptionDescription& option : description_.options) {
    add(option, option.key);
    for (const std::string& name : option.former) add(option, name);
  }
  const std::string last = words.empty() ? "" : words.back().substr(0, words.back().find('='));
  for (std::string& word : words)
    if (word.ends_with(']')) word += whole;
  try {
    std::ranges::reverse(words);  // CLI11's order
    app.parse(std::move(words));
  } catch (const CLI::ArgumentMismatch&) {  // the last word is an option, and its value is missing
    const OptionDescription* option = description_.find(last);
    if (option == nullptr) throw;
    refuse_without_value(*option, "is the last word");
  } catch (const CLI::ExtrasError&) {
    extras_ = app.remaining();
    std::erase(extras_, "--");
    std::ranges::for_each(extras_, unmark);
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
}

void Command::take(const OptionDescription& option, Words words) {
  std::ranges::for_each(words, unmark);
  if (option.is_flag() && words.back() != "true") refuse(option, "takes no value", words.back());
  if (!option.list && !option.is_flag() && (words.size() > 1 || has(option.key)))
    throw UsageError(option.name() + " is given twice");
  for (std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with('-') && description_.find(name) != nullptr)
      refuse_without_value(option, "got the option " + name);
    word = known_word(option, word);
  }
  if (const Store& store = stores_[option.key]) store(option, words);
  given_[option.key] = std::move(words);
}

void Command::store(const std::string& key, Store store) {
  const auto option = std::ranges::find(description_.options, key, &OptionDescription::key);
  if (option == description_.options.end())
    fail(Code::INTERNAL, "commands", "cli/data/commands.json lacks ", description_.name, " ", key);
  if (!option->standard.empty()) store(*option, {option->standard});
  stores_[key] = std::move(store);
}

void Command::runs(std::function<void()> run) {
  for (const OptionDescription& option : description_.options)
    if (!stores_.contains(option.key))
      fail(Code::INTERNAL, "commands", "the program lacks ", description_.name, " ", option.key);
  run_ = std::move(run);
}

// CONFIG ends a list of names where it is the last word: a folder, or an existing .json or .gguf file.
void Command::end_lists_at_place() {
  const OptionDescription& place = description_.options.front();
  for (const OptionDescription& option : description_.options) {
    if (place.place.empty() || has(place.key) || !option.list || !has(option.key) || given_[option.key].size() < 2)
      continue;
    const std::string word = given_[option.key].back();
    std::error_code ignored;
    const bool is_file = word.ends_with(".json") || word.ends_with(".gguf");
    const std::filesystem::path path = files::path_of(word);
    if (!std::filesystem::is_directory(path, ignored) && !(is_file && std::filesystem::exists(path, ignored))) continue;
    given_[option.key].pop_back();
    stores_[option.key](option, given_[option.key]);
    take(place, {word});
  }
}

void Command::run() {
  if (!extras_.empty()) throw UsageError(no_place(description_, extras_));
  end_lists_at_place();
  quiet_asked = has("-q,--quiet");
  if (quiet_asked) std::cout.setstate(std::ios::failbit);  // nothing is written, and bad() still says what went wrong
  json_asked = has("--json");
  if (!json_asked) {
    for (const std::string& name : former_)
      std::cerr << "note: " << name << " is called " << description_.find(name)->name() << " now\n";
  }
  check_rules(description_, given_);
  run_();
}

bool is_quiet() { return quiet_asked; }
bool asks_json() { return json_asked; }
void print_json(const std::string& object) { std::cout << with_version(object) << '\n'; }

}  // namespace rotary::cli
