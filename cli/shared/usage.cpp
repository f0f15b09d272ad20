// Sentences for command lines that cannot be understood.
#include <algorithm>
#include <string_view>

#include "description.h"
#include "text.h"
#include "text/nearest.h"

namespace rotary::cli {

namespace {

using Words = std::vector<std::string>;
using Given = std::map<std::string, Words>;

std::string bare(std::string_view word) {  // "--rotary_dim" -> "rotary-dim"
  std::string name = lower(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string nearest(const std::string& word, const Words& words) {
  return std::string(files::nearest(word, std::vector<std::string_view>(words.begin(), words.end())));
}

// The long names that were probably meant: the nearest, or those that begin alike; if any are required, only these.
Words meant_options(const CommandDescription& command, const std::string& wanted) {
  Words names, required, others;
  for (const OptionDescription& option : command.options) names.push_back(bare(option.long_name()));
  const std::string near = nearest(wanted, names);
  for (const OptionDescription& option : command.options) {
    const std::string name = bare(option.long_name());
    const bool is_meant = near.empty() ? !wanted.empty() && name.starts_with(wanted) : name == near;
    if (is_meant && option.long_name().starts_with("--"))
      (option.required ? required : others).push_back(option.long_name());
  }
  return required.empty() ? others : required;
}

// The terms of a rule that hold, as sentences have them: "--factor", "--scaling yarn".
Words given_terms(const CommandDescription& command, const Given& given, const Words& terms) {
  Words found;
  for (const std::string& term : terms) {
    const std::size_t end = term.find_first_of("=!");
    const std::string name = term.substr(0, end);
    const auto option = std::ranges::find(command.options, name, &OptionDescription::name);
    const auto words = option == command.options.end() ? given.end() : given.find(option->key);
    if (words == given.end() || words->second == Words{option->standard}) continue;
    const std::string& word = words->second.front();
    if (end == std::string::npos) found.push_back(name);
    if (end != std::string::npos && (word == term.substr(end + 1)) == (term[end] == '='))
      found.push_back(name + " " + word);
  }
  return found;
}

// "there is no option '--lenght': did you mean --length?"
std::string no_option(const CommandDescription& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('=')), sentence = "there is no option '" + name + "'";
  if (!command.place().empty() && bare(command.place()) == bare(name))
    return sentence + ": " + command.place() + " is given without a name";
  const Words meant = meant_options(command, bare(name));
  return meant.empty() || meant.size() > 3 ? sentence
                                           : sentence + ": did you mean " + files::listed(meant, " or ") + "?";
}

}  // namespace

void check_rules(const CommandDescription& command, const Given& given) {
  for (const OptionDescription& option : command.options)
    if (option.required &&
        (!given.contains(option.key) || (!option.place.empty() && given.at(option.key) == Words{""})))
      throw UsageError(option.name() + " is required");
  for (const Rule& rule : command.rules) {
    const Words subjects = given_terms(command, given, rule.options);
    if (subjects.empty() && !rule.options.empty()) continue;
    const std::string why = rule.why.empty() ? "" : ": " + rule.why;
    const Words excluded = given_terms(command, given, rule.excludes);
    if (!excluded.empty())
      throw UsageError(subjects.front() + " and " + excluded.front() + " do not go together" + why);
    if (rule.needs.empty() || !given_terms(command, given, rule.needs).empty()) continue;
    const std::string needed = files::listed(rule.needs, " or ");
    throw UsageError((subjects.empty() ? needed + " is required" : subjects.front() + " needs " + needed) + why);
  }
}

std::string no_place(const CommandDescription& command, const Words& words) {
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  if (const auto option = std::ranges::find_if(words, is_option); option != words.end())
    return no_option(command, *option);
  const std::string got = " but got '" + words.front() + "'";
  if (command.place().empty()) return command.name + " takes options only" + got;
  return command.name + " takes one " + command.place() + got + " too";
}

std::string no_command(const CommandDescription& program, const std::string& word) {
  const std::string sentence = "there is no command '" + word + "'";
  if (const std::string instead = instead_of(word); !instead.empty()) return sentence + " any more: " + instead;
  Words names = {"help", "version"};
  for (const auto& [title, commands] : program.groups)
    for (const auto& [name, summary] : commands) names.push_back(name);
  if (std::ranges::count(names, word) > 0)  // the explorer leaves some out
    return "the command '" + word + "' is not in this build: the installed program has it";
  const std::string meant = nearest(word, names);
  return meant.empty() ? sentence : sentence + ": did you mean " + meant + "?";
}

}  // namespace rotary::cli
