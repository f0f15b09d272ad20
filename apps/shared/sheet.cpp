#include "sheet.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "system.h"
#include "text.h"

namespace rotary::cli {

namespace {

using Strings = std::vector<std::string>;

// ---- from CLI11's options ----

constexpr std::string_view words_mark = "one of ";

OptionSheet sheet_of(const CLI::Option& option) {
  OptionSheet sheet;
  sheet.positional = option.get_positional();
  if (sheet.positional) sheet.names = {option.get_name(true, false)};
  for (const std::string& name : option.get_snames()) sheet.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) sheet.names.push_back("--" + name);
  const std::string type = option.get_type_name();  // of the value, then ":" and the description of each check
  if (option.get_items_expected_max() > 0 && !sheet.positional) sheet.value = type.substr(0, type.find(':'));
  if (const std::size_t mark = type.find(words_mark); mark != std::string::npos)
    sheet.words = split(std::string_view(type).substr(mark + words_mark.size()), '|');
  sheet.standard = option.get_default_str();
  sheet.help = option.get_description();
  sheet.required = option.get_required();
  sheet.list = option.get_items_expected_max() > 1;
  return sheet;
}

// ---- --help ----

using Terms = std::vector<std::pair<std::string, std::string>>;  // with their explanations

std::string block(const std::string& title, const Terms& terms, std::size_t width) {
  constexpr std::size_t help_column = 24;  // where the explanations begin
  std::string text = terms.empty() ? "" : "\n" + title;
  for (const auto& [term, help] : terms) {
    const bool fits = term.size() + 4 <= help_column;
    text += "  " + (fits ? pad(term, help_column - 2) : term + "\n" + std::string(help_column, ' ')) +
            wrapped(help, help_column, width) + "\n";
  }
  return text;
}

std::string term_of(const OptionSheet& option) {
  std::string text = joined(option.names);
  if (!option.value.empty()) text += " " + option.value;
  return text + (option.list && !option.value.ends_with("...") ? " ..." : "");
}

// help, then what else is known: "... [required; half or interleaved; default half]"
std::string whole_help(const OptionSheet& option) {
  Strings facts;
  if (option.required) facts.emplace_back("required");
  const auto is_told = [&](const std::string& word) { return option.help.find(word) != std::string::npos; };
  if (!std::all_of(option.words.begin(), option.words.end(), is_told)) facts.push_back(one_of_words(option.words));
  if (!option.standard.empty()) facts.push_back("default " + option.standard);
  return facts.empty() ? option.help : option.help + " [" + joined(facts, "; ") + "]";
}

std::string usage_line(const CommandSheet& sheet, const std::string& full_name) {
  if (!sheet.commands.empty()) return "Usage: " + full_name + " COMMAND [OPTIONS]\n";
  std::string text = "Usage: " + full_name + " [OPTIONS]";
  for (const OptionSheet& option : sheet.options) {
    if (!option.positional) continue;
    const std::string word = option.names.front() + (option.list ? "..." : "");
    text += option.required ? " " + word : " [" + word + "]";
  }
  return text + "\n";
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
  std::stable_partition(sheet.options.begin(), sheet.options.end(),
                        [](const OptionSheet& option) { return option.positional; });
  for (const CLI::App* command : app.get_subcommands({})) sheet.commands.push_back(sheet_of(*command));
  return sheet;
}

std::string description_of_words(const Strings& words) { return std::string(words_mark) + joined(words, "|"); }

std::string help_text(const CommandSheet& sheet, const std::string& full_name, std::size_t width) {
  Terms places, options;
  for (const OptionSheet& option : sheet.options)
    (option.positional ? places : options).emplace_back(term_of(option), whole_help(option));
  std::string text = paragraphs(sheet.summary, width) + "\n" + usage_line(sheet, full_name) + block("", places, width) +
                     block("Options:\n", options, width);
  std::vector<std::pair<std::string, Terms>> groups;
  for (const CommandSheet& command : sheet.commands) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](auto& known) { return known.first == command.group; });
    if (group == groups.end()) group = groups.insert(group, {command.group, {}});
    group->second.emplace_back(command.name, command.summary);
  }
  for (const auto& [title, terms] : groups) text += block(title + ":\n", terms, width);
  return sheet.footer.empty() ? text : text + "\n" + paragraphs(sheet.footer, width);
}

std::size_t help_width() {
  constexpr std::size_t widest = 100;
  return std::clamp<std::size_t>(terminal_columns().value_or(widest), 60, widest);
}

}  // namespace rotary::cli
