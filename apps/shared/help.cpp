// The help of a program and of its commands.
#include <algorithm>

#include "description.h"
#include "system.h"
#include "text.h"

namespace rotary::cli {

namespace {

using Words = std::vector<std::string>;
using Terms = std::vector<std::pair<std::string, std::string>>;  // with their explanations

constexpr std::size_t help_column = 24;  // where the explanations begin

std::string block(const std::string& title, const Terms& terms, std::size_t width, std::size_t column = help_column) {
  std::string text = terms.empty() ? "" : title;
  for (const auto& [term, help] : terms) {
    const bool fits = term.size() + 4 <= column;
    text += "  " + (fits ? pad(term, column - 2) : term + "\n" + std::string(column, ' ')) +
            wrapped(help, column, width) + "\n";
  }
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

bool is_fixed(const OptionDescription& option) { return !option.words.empty() && !option.suggests; }

// The help, then what else is known: "... [required; half or interleaved; default half; also neox for half]".
std::string whole_help(const OptionDescription& option) {
  Words facts;
  const auto says = [&](const std::string& word) { return option.help.find(word) != std::string::npos; };
  if (option.required) facts.emplace_back("required");
  if (is_fixed(option) && !std::ranges::all_of(option.words, says)) facts.push_back(one_of_words(option.words));
  if (!option.standard.empty() && !says("default")) facts.push_back("default " + option.standard);
  Words aliases;
  for (const std::string& word : option.words)
    if (option.aliases.contains(word)) aliases.push_back(joined(option.aliases.at(word)) + " for " + word);
  if (!aliases.empty()) facts.push_back("also " + joined(aliases));
  return facts.empty() ? option.help : option.help + " [" + joined(facts, "; ") + "]";
}

// The beginning of the help that fits: its first clause, or as many words.
std::string one_line_help(const OptionDescription& option, std::size_t room) {
  std::string text = joined(split(option.help, '\n'), " ");
  for (const char* end : {". ", "; ", " ("}) text.erase(std::min(text.find(end), text.size()));
  if (is_fixed(option) && text.find(option.words.front()) == std::string::npos)
    text += ": " + one_of_words(option.words);
  if (text.size() <= room) return text;
  text.erase(std::min(text.rfind(' ', room - 4), room - 4));
  text.erase(text.find_last_not_of(",:") + 1);
  return text + " ...";
}

std::string usage_line(const CommandDescription& command, const std::string& full_name) {
  std::string text = "Usage: " + full_name + (command.groups.empty() ? "" : " COMMAND");
  for (const OptionDescription& option : command.options) {
    const std::string word = option.place + (option.list ? "..." : "");
    if (!option.place.empty()) text += option.required || option.usual ? " " + word : " [" + word + "]";
    if (option.place.empty() && option.required) text += " " + option.long_name() + " " + option.value;
  }
  return text + " [OPTIONS]\n";
}

// The lines of a footer that show a call.
std::string examples_of(const std::string& footer) {
  std::string text;
  bool goes_on = false;
  for (const std::string& line : split(footer, '\n')) {
    const bool begins = line.starts_with("  rotary") || line.starts_with("  ROTARY_");
    if (begins || goes_on) text += line + "\n";
    goes_on = (begins || goes_on) && line.ends_with('\\');
  }
  return text;
}

// Paragraphs. A line that begins with a space or has two in a row, as examples and tables do, stays.
std::string paragraphs(const std::string& text, std::size_t width) {
  std::string lines, paragraph;
  const auto finish = [&] {
    if (!paragraph.empty()) lines += wrapped(paragraph, 0, width) + "\n";
    paragraph.clear();
  };
  for (const std::string& line : split(text, '\n')) {
    if (line.empty() || line.front() == ' ' || line.find("  ") != std::string::npos) {
      finish();
      lines += line + "\n";
    } else {
      paragraph += " " + line;
    }
  }
  finish();
  return lines;
}

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

}  // namespace

std::string help_text(const CommandDescription& command, const std::string& full_name, std::size_t width) {
  std::string text = paragraphs(command.summary, width) + "\n" + usage_line(command, full_name);
  for (const auto& [title, terms] : command.groups) text += block("\n" + title + ":\n", terms, width);
  for (const auto& [title, terms] : sections_of(command))
    text += block(title.empty() ? "\n" : "\n" + title + ":\n", terms, width);
  return command.footer.empty() ? text : text + "\n" + paragraphs(command.footer, width);
}

std::string short_help_text(const CommandDescription& command, const std::string& full_name, std::size_t width) {
  constexpr std::size_t whole_groups = 3;  // of the commands; of the further ones the names
  std::string text = paragraphs(command.summary.substr(0, command.summary.find('\n')), width) + "\n" +
                     usage_line(command, full_name) + "\n";
  Words sections;
  std::vector<const OptionDescription*> listed;
  std::size_t column = 0;
  for (const OptionDescription& option : command.options) {
    if (!option.section.empty() && std::ranges::find(sections, option.section) == sections.end())
      sections.push_back(option.section);
    const bool is_help = option.has_name("-h") || option.has_name("--help");
    if (!option.section.empty() || is_help || !command.groups.empty()) continue;
    listed.push_back(&option);
    column = std::clamp(term_of(option, true).size() + 4, column, help_column + 4);
  }
  for (const OptionDescription* option : listed) {
    const std::string term = pad("  " + term_of(*option, true) + "  ", column);
    text += term + one_line_help(*option, width - term.size()) + "\n";
  }
  for (std::size_t i = 0; i < command.groups.size(); ++i) {
    const auto& [title, commands] = command.groups[i];
    Words names;
    for (const auto& [name, summary] : commands) names.push_back(name);
    text += i < whole_groups ? block(title + ":\n", commands, width, 14)
                             : wrapped(title + ": " + joined(names), 2, width) + "\n";
  }
  const std::string examples = command.groups.empty() ? examples_of(command.footer) : "";
  const std::string more = sections.empty() ? "" : ", with " + joined(sections, " and ");
  return text + (examples.empty() ? "" : "\n" + examples) + "\n" +
         wrapped(full_name + " --help says all" + more +
                     (command.groups.empty() ? "." : "; rotary COMMAND -h what a command takes."),
                 0, width) +
         "\n";
}

std::size_t help_width() {
  constexpr std::size_t widest = 100;
  return std::clamp<std::size_t>(terminal_columns().value_or(widest), 60, widest);
}

}  // namespace rotary::cli
