#include "command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <streambuf>
#include <system_error>

#include "text.h"

namespace rotary::cli {

namespace {

bool quiet = false;

void be_quiet() {
  struct Nothing : std::streambuf {
    int overflow(int character) override { return traits_type::not_eof(character); }
    std::streamsize xsputn(const char*, std::streamsize count) override { return count; }
  };
  static Nothing nothing;
  quiet = true;
  std::cout.rdbuf(&nothing);
}

[[noreturn]] void refuse(const OptionDescription& option, const std::string& rule, const std::string& word) {
  throw UsageError(option.name() + " " + rule + " but got '" + word + "'");
}

// A bound above 1e9 only keeps the arithmetic whole: "from 1 to 65536", "at least 1".
[[noreturn]] void refuse_range(const OptionDescription& option, const std::string& word, bool below, bool bounded,
                               const std::string& least, const std::string& most) {
  if (bounded) refuse(option, "must be from " + least + " to " + most, word);
  refuse(option, below ? "must be at least " + least : "must be at most " + most, word);
}

// The word of the option's words that is meant.
std::string known_word(const OptionDescription& option, std::string word) {
  for (const auto& [meant, aliases] : option.aliases)
    if (std::ranges::find(aliases, word) != aliases.end()) word = meant;
  if (const auto why = option.refused.find(word); why != option.refused.end())
    throw UsageError(option.name() + " " + word + " " + why->second);
  const bool fixed = !option.words.empty() && !option.suggests;
  if (fixed && std::ranges::find(option.words, word) == option.words.end())
    refuse(option, "must be " + one_of_words(option.words), word);
  return word;
}

}  // namespace

std::uint64_t read_integer(const OptionDescription& option, const std::string& word, std::int64_t least,
                           std::uint64_t most) {
  const bool negative = word.starts_with('-');
  const std::string digits = word.substr(negative || word.starts_with('+') ? 1 : 0);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos)
    refuse(option, "must be a whole number, in digits alone,", word);
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

Command::Command(CLI::App& app, const CommandDescription& description) : app_(&app), description_(description) {
  for (const OptionDescription& option : description.options)
    if (app_->get_option_no_throw(option.key) == nullptr) add(option);  // CLI11 has -h and --help already
  stores_["-q,--quiet"] = [](const OptionDescription&, const Words&) { be_quiet(); };
}

void Command::add(const OptionDescription& option) {
  const auto add_names = [&](const std::string& names, const CLI::callback_t& take) {
    CLI::Option* added = app_->add_option(names, take);
    added->expected(option.type == ValueType::flag ? 0 : option.list ? CLI::detail::expected_max_vector_size : 1);
    added->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    if (option.comma_list) added->delimiter(',');
  };
  stores_[option.key] = nullptr;
  add_names(option.key, [this, &option](const Words& words) {
    take(option, words);
    return true;
  });
  for (const std::string& name : option.former) {
    add_names(name, [this, &option, name](const Words& words) {
      former_.push_back(name);
      take(option, words);
      return true;
    });
  }
}

void Command::take(const OptionDescription& option, Words words) {
  const std::string& called = option.name();
  if (option.type == ValueType::flag && words.back() != "true")
    throw UsageError(called + " takes no value but got '" + words.back() + "'");
  if (!option.list && option.type != ValueType::flag && (words.size() > 1 || given_.contains(option.key)))
    throw UsageError(called + " is given twice");
  for (std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with('-') && description_.find(name) != nullptr)
      throw UsageError(called + " needs a value, " + called + " " + option.value + ", but got the option " + name);
    word = known_word(option, word);
  }
  stores_.at(option.key)(option, words);
  given_[option.key] = std::move(words);
}

void Command::store(const std::string& key, Store store) {
  const auto option = std::ranges::find(description_.options, key, &OptionDescription::key);
  if (option == description_.options.end())
    fail(Code::INTERNAL, "commands", "data/commands.json lacks ", description_.name, " ", key);
  if (!option->standard.empty()) store(*option, {option->standard});
  stores_[key] = std::move(store);
}

void Command::note_former_names() const {
  if (given_.contains("--json")) return;
  for (const std::string& name : former_)
    std::cerr << "note: " << name << " is called " << description_.find(name)->name() << " now\n";
}

void Command::runs(std::function<void()> run) {
  for (const auto& [key, store] : stores_)
    if (store == nullptr) fail(Code::INTERNAL, "commands", "the program lacks ", description_.name, " ", key);
  app_->callback([this, run = std::move(run)] {
    note_former_names();
    check_rules(description_, given_);
    run();
  });
}

bool is_quiet() { return quiet; }

}  // namespace rotary::cli
