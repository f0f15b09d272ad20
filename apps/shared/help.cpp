// The text of --help.
#include <algorithm>

#include "sheet.h"
#include "system.h"

namespace rotary::cli {

namespace {

constexpr std::size_t widest = 100;
constexpr std::size_t help_column = 24;  // where the explanation of an option begins

std::string spaced(std::size_t count) { return std::string(count, ' '); }

std::string term_of(const OptionSheet& option) {
  std::string text = option.all_names();
  if (!option.value.empty()) text += " " + option.value;
  if (option.list && !option.value.ends_with("...")) text += " ...";
  return text;
}

std::string rows(const std::vector<std::pair<std::string, std::string>>& terms, std::size_t width) {
  std::string text;
  for (const auto& [term, help] : terms) {
    text += "  " + term;
    const bool fits = term.size() + 4 <= help_column;
    text += fits ? spaced(help_column - 2 - term.size()) : "\n" + spaced(help_column);
    text += wrapped(help, help_column, width) + "\n";
  }
  return text;
}

std::string usage_line(const CommandSheet& sheet, const std::string& full_name) {
  std::string text = "Usage: " + full_name;
  if (!sheet.commands.empty()) return text + " COMMAND [OPTIONS]";
  text += " [OPTIONS]";
  for (const OptionSheet& option : sheet.options) {
    if (!option.positional) continue;
    const std::string word = option.names.front() + (option.list ? "..." : "");
    text += option.required ? " " + word : " [" + word + "]";
  }
  return text;
}

std::string options_block(const CommandSheet& sheet, bool positional, std::size_t width) {
  std::vector<std::pair<std::string, std::string>> terms;
  for (const OptionSheet& option : sheet.options) {
    if (option.positional == positional) terms.emplace_back(term_of(option), option.whole_help());
  }
  return terms.empty() ? "" : (positional ? "\n" : "\nOptions:\n") + rows(terms, width);
}

std::string commands_block(const CommandSheet& sheet, std::size_t width) {
  std::vector<std::string> groups;
  for (const CommandSheet& command : sheet.commands) {
    if (std::find(groups.begin(), groups.end(), command.group) == groups.end()) groups.push_back(command.group);
  }
  std::string text;
  for (const std::string& group : groups) {
    std::vector<std::pair<std::string, std::string>> terms;
    for (const CommandSheet& command : sheet.commands) {
      if (command.group == group) terms.emplace_back(command.name, command.summary);
    }
    text += "\n" + group + ":\n" + rows(terms, width);
  }
  return text;
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string lines;
  std::size_t column = indent;
  for (std::size_t at = 0; at < text.size();) {
    at = std::min(text.find_first_not_of(" \n", at), text.size());
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (word.empty()) break;
    const bool first = column == indent;
    if (!first && column + 1 + word.size() > width) {
      lines += "\n" + spaced(indent);
      column = indent;
    } else if (!first) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
    at = end;
  }
  return lines;
}

std::string wrapped_footer(std::string_view text, std::size_t width) {
  std::string lines, paragraph;
  const auto finish = [&] {
    if (!paragraph.empty()) lines += wrapped(paragraph, 0, width) + "\n";
    paragraph.clear();
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool as_it_is = line.empty() || line.front() == ' ' || line.find("  ") != std::string_view::npos;
    if (as_it_is) {
      finish();
      lines.append(line).append("\n");
    } else {
      paragraph.append(paragraph.empty() ? "" : " ").append(line);
    }
  }
  finish();
  return lines;
}

std::string help_text(const CommandSheet& sheet, const std::string& full_name, std::size_t width) {
  std::string text = wrapped_footer(sheet.summary, width) + "\n" + usage_line(sheet, full_name) + "\n";
  text += options_block(sheet, true, width) + options_block(sheet, false, width) + commands_block(sheet, width);
  return sheet.footer.empty() ? text : text + "\n" + wrapped_footer(sheet.footer, width);
}

std::size_t help_width() { return std::clamp<std::size_t>(terminal_columns().value_or(widest), 60, widest); }

}  // namespace rotary::cli
