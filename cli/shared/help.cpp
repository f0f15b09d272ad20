// The help of a program and of its commands.
#include <algorithm>

#include "description.h"
#include "system.h"
#include "text.h"

namespace rotary::cli {

namespace {

using Words = std::vector<std::string>;

constexpr std::size_t help_column = 24;  // where the explanations begin

// The width of standard output where it is a terminal, up to the widest.
std::size_t width_up_to(std::size_t widest) {
  return std::clamp<std::size_t>(terminal_columns().value_or(widest), 60, widest);
}

std::string block(const Terms& terms, std::size_t width, std::size_t column = help_column) {
  std::string text;
  for (const auto& [term, help] : terms) {
    const bool fits = term.size() + 4 <= column;
    text += "  " + (fits ? pad(term, column - 2) : term + "\n" + std::string(column, ' ')) +
            wrapped(help, column, width) + "\n";
  }
  return text;
}

std::string block(const Words& paragraphs, std::size_t width) {
  std::string text;
  for (const std::string& line : paragraphs) text += (line.starts_with(' ') ? line : wrapped(line, 0, width)) + "\n";
  return text;
}

// "--base, --rope-theta B"; short: the first name.
std::string term_of(const OptionDescription& option, bool is_short = false) {
  Words names = option.names;
  if (!option.place.empty()) names.insert(names.begin(), option.place);
  if (is_short && names.front() != "-q") names.resize(1);
  std::string text = joined(names);
  if (option.place.empty() && !option.value.empty()) text += " " + option.value;
  return text + (option.list && !option.value.ends_with("...") ? " ..." : "");
}

// The help with further facts: "... [required; half or interleaved; default half; also neox for half]".
std::string whole_help(const OptionDescription& option) {
  Words facts, aliases;
  const auto says = [&](const std::string& word) { return option.help.find(word) != std::string::npos; };
  if (option.required) facts.emplace_back("required");
  if (option.has_fixed_words() && !std::ranges::all_of(option.words, says))
    facts.push_back(files::listed(option.words, " or "));
  if (!option.standard.empty() && !says("default")) facts.push_back("default " + option.standard);
  for (const std::string& word : option.words)
    if (option.aliases.contains(word)) aliases.push_back(joined(option.aliases.at(word)) + " for " + word);
  if (!aliases.empty()) facts.push_back("also " + joined(aliases));
  return facts.empty() ? option.help : option.help + " [" + joined(facts, "; ") + "]";
}

std::string usage_line(const CommandDescription& command) {
  std::string text = "Usage: " + command.full_name + (command.groups.empty() ? "" : " COMMAND");
  for (const OptionDescription& option : command.options) {
    const std::string word = option.place + (option.list ? "..." : "");
    if (!option.place.empty()) text += option.required || option.usual ? " " + word : " [" + word + "]";
    if (option.place.empty() && option.required) text += " " + option.long_name() + " " + option.value;
  }
  return text + " [OPTIONS]\n";
}

// The options by their headings. Options given by their place have no heading and come first.
std::vector<std::pair<std::string, Terms>> sections_of(const CommandDescription& command) {
  std::vector<std::pair<std::string, Terms>> sections = {{"", {}}, {"Options", {}}};
  for (const OptionDescription& option : command.options) {
    const std::string title = !option.place.empty() ? "" : option.section.empty() ? "Options" : option.section;
    auto section = std::ranges::find(sections, title, &std::pair<std::string, Terms>::first);
    if (section == sections.end()) section = sections.insert(section, {title, {}});
    section->second.emplace_back(term_of(option), whole_help(option));
  }
  return sections;
}

// The command's own options, and those of its examples.
std::string listed(const CommandDescription& command, std::size_t width) {
  std::vector<OptionDescription> shown;
  const std::string examples = joined(command.examples, " ") + " ";
  for (const OptionDescription& option : command.options) {
    const bool common = files::is_listed(option.key, "-h --help -q,--quiet --models");
    const bool in_example = examples.find(" " + option.long_name() + " ") != std::string::npos;
    if (!common && (option.section.empty() || in_example)) shown.push_back(option);
  }
  std::size_t column = 0;
  Terms terms;
  for (const OptionDescription& option : shown) {
    const std::string& term =
        terms.emplace_back(term_of(option, true), option.brief.empty() ? option.help : option.brief).first;
    column = std::clamp(term.size() + 4, column, help_column + 4);
  }
  return block(terms, width, column);
}

}  // namespace

std::string help_text(const CommandDescription& command) {
  const std::size_t width = width_up_to(100);
  std::string text = block(command.summary, width) + "\n" + usage_line(command);
  for (const auto& parts : {command.groups, sections_of(command)}) {
    for (const auto& [title, terms] : parts)
      if (!terms.empty()) text += (title.empty() ? "\n" : "\n" + title + ":\n") + block(terms, width);
  }
  return command.footer.empty() ? text : text + "\n" + block(command.footer, width) + block(command.examples, width);
}

std::string short_help_text(const CommandDescription& command) {
  constexpr std::size_t whole_groups = 3;  // groups of commands with a line each; further ones show the names
  const std::size_t width = width_up_to(80);
  std::string text = wrapped(command.summary.front(), 0, width) + "\n\n" + usage_line(command) + "\n";
  std::string more = " shows everything; " + command.full_name + " COMMAND -h shows its usual options.";
  for (std::size_t i = 0; i < command.groups.size(); ++i) {
    const auto& [title, commands] = command.groups[i];
    Words names;
    for (const auto& [name, summary] : commands) names.push_back(name);
    text += i < whole_groups ? title + ":\n" + block(commands, width, 14)
                             : wrapped(title + ": " + joined(names), 2, width) + "\n";
  }
  if (command.groups.empty()) {
    text += listed(command, width) + (command.examples.empty() ? "" : "\n" + block(command.examples, width));
    Words titles = {"-q"};
    for (const auto& [title, terms] : sections_of(command))
      if (!title.empty() && title != "Options") titles.push_back(title);
    more = " has all options: " + joined(titles, ", ") + ".";
  }
  if (!command.brief.empty()) text += "\n" + block(command.brief, width);
  return text + "\n" + wrapped(command.full_name + " --help" + more, 0, width) + "\n";
}

}  // namespace rotary::cli
