// Sentences for command lines that cannot be understood.
#include <algorithm>
#include <cctype>
#include <string_view>

#include "description.h"
#include "files/text/nearest.h"
#include "text.h"

namespace rotary::cli {

namespace {

using Words = std::vector<std::string>;
using Given = std::map<std::string, Words>;

std::string bare(std::string_view word) {  // "--rotary_dim" -> "rotary-dim"
  std::string name = lower(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// The options that were probably meant: the nearest name, or those that begin like it, required ones before others.
Words meant_options(const CommandDescription& command, const std::string& wanted) {
  Words bare_names, required, others;
  for (const OptionDescription& option : command.options) bare_names.push_back(bare(option.long_name()));
  const std::vector<std::string_view> views(bare_names.begin(), bare_names.end());
  const std::string_view near = files::nearest(wanted, views);
  for (const OptionDescription& option : command.options) {
    const std::string& name = option.long_name();
    const bool is_meant = near.empty() ? !wanted.empty() && bare(name).starts_with(wanted) : bare(name) == near;
    if (is_meant && name.starts_with("--")) (option.required ? required : others).push_back(name);
  }
  return required.empty() ? others : required;
}

// The terms of a rule that hold, as sentences have them: "--factor", "--scaling yarn".
Words given_terms(const CommandDescription& command, const Given& given, const Words& terms) {
  Words found;
  for (const std::string& term : terms) {
    const std::size_t end = term.find_first_of("=!");
    const std::string name = term.substr(0, end);
    for (const OptionDescription& option : command.options) {
      const auto words = given.find(option.key);
      if (option.name() != name || words == given.end() || words->second == Words{option.standard}) continue;
      if (end == std::string::npos) {
        found.push_back(name);
      } else if ((words->second.front() == term.substr(end + 1)) == (term[end] == '=')) {
        found.push_back(name + " " + words->second.front());
      }
    }
  }
  return found;
}

}  // namespace

void check_rules(const CommandDescription& command, const Given& given) {
  for (const OptionDescription& option : command.options)
    if (option.required && !given.contains(option.key)) throw UsageError(option.name() + " is required");
  for (const Rule& rule : command.rules) {
    const Words subjects = given_terms(command, given, rule.options);
    if (subjects.empty() && !rule.options.empty()) continue;
    const std::string why = rule.why.empty() ? "" : ": " + rule.why;
    const Words excluded = given_terms(command, given, rule.excludes);
    if (!excluded.empty())
      throw UsageError(subjects.front() + " and " + excluded.front() + " do not go together" + why);
    if (rule.needs.empty() || !given_terms(command, given, rule.needs).empty()) continue;
    const std::string needed = one_of_words(rule.needs);
    throw UsageError((subjects.empty() ? needed + " is required" : subjects.front() + " needs " + needed) + why);
  }
}

std::string no_option(const CommandDescription& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('=')), sentence = "there is no option '" + name + "'";
  const std::string wanted = bare(name);
  for (const OptionDescription& option : command.options) {
    if (!option.place.empty() && bare(option.place) == wanted)
      return sentence + ": " + option.place + " is given without a name";
  }
  const Words meant = meant_options(command, wanted);
  if (meant.empty() || meant.size() > 3) return sentence;
  return sentence + ": did you mean " + one_of_words(meant) + "?";
}

std::string no_command(const CommandDescription& program, const std::string& word) {
  const std::string sentence = "there is no command '" + word + "'";
  if (const std::string instead = instead_of(word); !instead.empty()) return sentence + " any more: " + instead;
  std::vector<std::string_view> names = {"help", "version"};
  for (const auto& [title, commands] : program.groups)
    for (const auto& [name, summary] : commands) names.push_back(name);
  const std::string_view meant = files::nearest(word, names);
  return meant.empty() ? sentence : sentence + ": did you mean " + std::string(meant) + "?";
}

}  // namespace rotary::cli
