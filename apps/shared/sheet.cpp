#include "sheet.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "system.h"
#include "text.h"

namespace rotary::cli {

namespace {

using Strings = std::vector<std::string>;

OptionSheet sheet_of(const CLI::Option& option) {
  if (const OptionSheet* described = described_option(option)) return *described;
  OptionSheet sheet;  // a flag of the program, as --help
  for (const std::string& name : option.get_snames()) sheet.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) sheet.names.push_back("--" + name);
  sheet.help = option.get_description();
  return sheet;
}

// Where an option stands in the help.
int rank_of(const OptionSheet& option) {
  const auto is_named = [&](const char* name) { return std::ranges::find(option.names, name) != option.names.end(); };
  if (!option.place.empty() || option.required) return option.place.empty() ? 1 : 0;
  if (!option.group.empty()) return 5;
  if (is_named("-h") || is_named("--help")) return 4;
  return is_named("--json") || is_named("--quiet") ? 3 : 2;
}

// ---- --help ----

using Terms = std::vector<std::pair<std::string, std::string>>;  // with their explanations

constexpr std::size_t help_column = 24;  // where the explanations begin

std::string block(const std::string& title, const Terms& terms, std::size_t width, std::size_t column = help_column) {
  std::string text = terms.empty() ? "" : "\n" + title;
  for (const auto& [term, help] : terms) {
    const bool fits = term.size() + 4 <= column;
    text += "  " + (fits ? pad(term, column - 2) : term + "\n" + std::string(column, ' ')) +
            wrapped(help, column, width) + "\n";
  }
  return text;
}

std::string term_of(const OptionSheet& option, bool whole = true) {
  Strings names = option.names;
  if (!option.place.empty()) names.insert(names.begin(), option.place);
  if (!whole && names.front() != "-q") names.resize(1);
  std::string text = joined(names);
  if (option.place.empty() && !option.value.empty()) text += " " + option.value;
  return text + (option.list && !option.value.ends_with("...") ? " ..." : "");
}

// help, then what else is known: "... [required; half or interleaved; default half; also neox: half]"
std::string whole_help(const OptionSheet& option) {
  Strings facts;
  if (option.required) facts.emplace_back("required");
  const auto is_told = [&](const std::string& word) { return option.help.find(word) != std::string::npos; };
  if (option.fixed && !std::all_of(option.words.begin(), option.words.end(), is_told))
    facts.push_back(one_of_words(option.words));
  if (!option.standard.empty()) facts.push_back("default " + option.standard);
  if (!option.aliases.empty()) facts.push_back("also " + joined(option.aliases));
  return facts.empty() ? option.help : option.help + " [" + joined(facts, "; ") + "]";
}

// The beginning of the help that fits: its first clause, or as many words.
std::string one_line_help(const OptionSheet& option, std::size_t room) {
  std::string text = joined(split(option.help, '\n'), " ");
  for (const char* end : {". ", "; ", " ("}) text.erase(std::min(text.find(end), text.size()));
  if (option.fixed && text.find(option.words.front()) == std::string::npos) text += ": " + one_of_words(option.words);
  if (text.size() <= room) return text;
  text.erase(std::min(text.rfind(' ', room - 4), room - 4));
  text.erase(text.find_last_not_of(",:") + 1);
  return text + " ...";
}

std::string usage_line(const CommandSheet& sheet, const std::string& full_name) {
  if (!sheet.commands.empty()) return "Usage: " + full_name + " COMMAND [OPTIONS]\n";
  std::string text = "Usage: " + full_name;
  for (const OptionSheet& option : sheet.options) {
    const std::string word = option.place + (option.list ? "..." : "");
    if (!option.place.empty()) text += option.required || option.usual ? " " + word : " [" + word + "]";
    if (option.place.empty() && option.required) text += " " + long_name(option) + " " + option.value;
  }
  return text + " [OPTIONS]\n";
}

// The commands under their headings.
std::vector<std::pair<std::string, Terms>> grouped(const std::vector<CommandSheet>& commands) {
  std::vector<std::pair<std::string, Terms>> groups;
  for (const CommandSheet& command : commands) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](auto& known) { return known.first == command.group; });
    if (group == groups.end()) group = groups.insert(group, {command.group, {}});
    group->second.emplace_back(command.name, command.summary);
  }
  return groups;
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

}  // namespace

CommandSheet sheet_of(const CLI::App& app) {
  CommandSheet sheet{app.get_name(), app.get_description(), app.get_group(), app.get_footer(), {}, {}};
  if (sheet.group == "Subcommands") sheet.group = "Commands";
  for (const CLI::Option* option : app.get_options()) sheet.options.push_back(sheet_of(*option));
  std::ranges::stable_sort(sheet.options, {}, rank_of);
  for (const CLI::App* command : app.get_subcommands({})) sheet.commands.push_back(sheet_of(*command));
  return sheet;
}

std::string long_name(const OptionSheet& option) {
  const auto name =
      std::ranges::find_if(option.names, [](const std::string& known) { return known.starts_with("--"); });
  return name == option.names.end() ? "" : *name;
}

std::string help_text(const CommandSheet& sheet, const std::string& full_name, std::size_t width) {
  Terms places, options;
  std::vector<std::pair<std::string, Terms>> groups;
  for (const OptionSheet& option : sheet.options) {
    Terms* terms = option.place.empty() ? &options : &places;
    if (!option.group.empty()) {
      auto group = std::ranges::find(groups, option.group, &std::pair<std::string, Terms>::first);
      if (group == groups.end()) group = groups.insert(group, {option.group, {}});
      terms = &group->second;
    }
    terms->emplace_back(term_of(option), whole_help(option));
  }
  std::string text = paragraphs(sheet.summary, width) + "\n" + usage_line(sheet, full_name) + block("", places, width);
  for (const auto& [title, terms] : grouped(sheet.commands)) text += block(title + ":\n", terms, width);
  text += block("Options:\n", options, width);
  for (const auto& [title, terms] : groups) text += block(title + ":\n", terms, width);
  return sheet.footer.empty() ? text : text + "\n" + paragraphs(sheet.footer, width);
}

std::string short_help_text(const CommandSheet& sheet, const std::string& full_name, std::size_t width) {
  constexpr std::size_t whole_groups = 3;  // of the commands; of the further ones the names
  std::string text =
      paragraphs(sheet.summary.substr(0, sheet.summary.find('\n')), width) + "\n" + usage_line(sheet, full_name);
  const auto is_listed = [&](const OptionSheet& option) {
    return option.group.empty() && rank_of(option) != 4 && sheet.commands.empty();
  };
  std::size_t column = 0;
  Strings others;
  for (const OptionSheet& option : sheet.options) {
    if (is_listed(option)) column = std::clamp(term_of(option, false).size() + 4, column, help_column + 4);
    if (!option.group.empty() && std::ranges::find(others, option.group) == others.end())
      others.push_back(option.group);
  }
  if (column > 0) text += "\n";
  for (const OptionSheet& option : sheet.options) {
    if (!is_listed(option)) continue;
    const std::string term = pad("  " + term_of(option, false) + "  ", column);
    text += term + one_line_help(option, width - term.size()) + "\n";
  }
  std::size_t index = 0;
  for (const auto& [title, terms] : grouped(sheet.commands)) {
    Strings names;
    for (const auto& term : terms) names.push_back(term.first);
    text += index++ < whole_groups ? (index > 1 ? "" : "\n") + block(title + ":\n", terms, width, 14).substr(1)
                                   : wrapped(title + ": " + joined(names), 2, width) + "\n";
  }
  const std::string examples = sheet.commands.empty() ? examples_of(sheet.footer) : "";
  if (!examples.empty()) text += "\n" + examples;
  const std::string more = others.empty() ? "" : ", with " + joined(others, " and ");
  return text + "\n" +
         wrapped(full_name + " --help says all" + more +
                     (sheet.commands.empty() ? "." : "; rotary COMMAND -h what a command takes."),
                 0, width) +
         "\n";
}

std::size_t help_width() {
  constexpr std::size_t widest = 100;
  return std::clamp<std::size_t>(terminal_columns().value_or(widest), 60, widest);
}

}  // namespace rotary::cli
