// Sentences for command lines that cannot be understood.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <vector>

#include "files/text/nearest.h"
#include "sheet.h"
#include "text.h"
#include "usage_error.h"

namespace rotary::cli {

namespace {

std::string bare(std::string_view word) {  // "--rotary_dim" -> "rotary-dim"
  std::string name = lower(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool is_option_word(std::string_view word) { return word.size() > 1 && word[0] == '-' && word != "--"; }

const OptionSheet* find(const CommandSheet& command, std::string_view name) {
  for (const OptionSheet& option : command.options) {
    if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) return &option;
  }
  return nullptr;
}

std::vector<std::string> long_names(const CommandSheet& command, bool required_only) {
  std::vector<std::string> names;
  for (const OptionSheet& option : command.options) {
    const std::string name = long_name(option);
    if (!name.empty() && (option.required || !required_only)) names.push_back(name);
  }
  return names;
}

// The options that begin like name: required ones before others.
std::vector<std::string> beginning_with(const CommandSheet& command, const std::string& name) {
  for (const bool required : {true, false}) {
    std::vector<std::string> found;
    for (const std::string& known : long_names(command, required)) {
      if (!name.empty() && bare(known).starts_with(name)) found.push_back(known);
    }
    if (!found.empty()) return found;
  }
  return {};
}

std::string no_option(const CommandSheet& command, const std::string& name) {
  const std::string sentence = "there is no option '" + name + "'";
  const std::string wanted = bare(name);
  for (const OptionSheet& option : command.options) {
    if (!option.place.empty() && bare(option.place) == wanted)
      return sentence + ": " + option.place + " is given without a name";
  }
  std::vector<std::string> bare_names;
  const std::vector<std::string> names = long_names(command, false);
  for (const std::string& known : names) bare_names.push_back(bare(known));
  const std::vector<std::string_view> views(bare_names.begin(), bare_names.end());
  std::vector<std::string> meant;
  if (const std::string_view near = files::nearest(wanted, views); !near.empty()) {
    meant.push_back(names[static_cast<std::size_t>(std::find(views.begin(), views.end(), near) - views.begin())]);
  } else {
    meant = beginning_with(command, wanted);
  }
  if (meant.empty() || meant.size() > 3) return sentence;
  return sentence + ": did you mean " + one_of_words(meant) + "?";
}

// "-qh": short flags in one word.
bool are_short_flags(const CommandSheet& command, std::string_view word) {
  if (word.size() < 3 || word[1] == '-') return false;
  return std::all_of(word.begin() + 1, word.end(), [&](char letter) {
    const OptionSheet* option = find(command, std::string("-") + letter);
    return option != nullptr && option->value.empty();
  });
}

}  // namespace

void check_options(const CommandSheet& command, std::span<const std::string> words) {
  std::map<const OptionSheet*, int> given;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (!is_option_word(words[i]) || are_short_flags(command, words[i])) continue;
    const std::size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const OptionSheet* option = find(command, name);
    if (option == nullptr) throw UsageError(no_option(command, name));
    if (option->value.empty()) {
      if (equals != std::string::npos)
        throw UsageError(name + " takes no value but got '" + words[i].substr(equals + 1) + "'");
      continue;
    }
    if (++given[option] > 1 && !option->list) throw UsageError(name + " is given twice");
    if (equals != std::string::npos && equals + 1 < words[i].size()) continue;
    const std::string needs = name + " needs a value, " + name + " " + option->value;
    if (i + 1 == words.size()) throw UsageError(needs + ", but is the last word");
    const std::string& next = words[++i];
    if (is_option_word(next) && find(command, next.substr(0, next.find('='))) != nullptr)
      throw UsageError(needs + ", but got the option " + next);
  }
}

std::string no_command(const CommandSheet& program, const std::string& word) {
  if (const std::string instead = instead_of(word); !instead.empty())
    return "there is no command '" + word + "' any more: " + instead;
  std::vector<std::string_view> names = {"help", "version"};
  for (const CommandSheet& command : program.commands) names.push_back(command.name);
  const std::string_view meant = files::nearest(word, names);
  const std::string sentence = "there is no command '" + word + "'";
  return meant.empty() ? sentence : sentence + ": did you mean " + std::string(meant) + "?";
}

std::string sentence_of(const CLI::ParseError& error, const CLI::App& app) {
  std::string text = error.what();
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (!chosen.empty()) {
    for (const OptionSheet& option : sheet_of(*chosen.front()).options) {
      const std::string name = long_name(option);
      if (!option.place.empty() && !name.empty() && text.starts_with(name)) text.replace(0, name.size(), option.place);
    }
  }
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) {
    const std::size_t colon = text.find(": ");  // between the option's name and what its check says
    return colon == std::string::npos ? text : text.erase(colon, 1);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !chosen.empty()) {
    const std::vector<std::string> extras = app.remaining(true);
    if (extras.empty()) return text;
    std::vector<std::string> places;
    for (const OptionSheet& option : sheet_of(*chosen.front()).options) {
      if (!option.place.empty()) places.push_back(option.place);
    }
    const std::string got = " but got '" + extras.front() + "'";
    const std::string& name = chosen.front()->get_name();
    if (places.empty()) return name + " takes options only" + got;
    return name + " takes one " + one_of_words(places) + got + " too";
  }
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {
    const std::size_t between = text.find(" excludes ");
    if (between != std::string::npos)
      return text.substr(0, between) + " and " + text.substr(between + 10) + " do not go together";
  }
  return text;
}

}  // namespace rotary::cli
