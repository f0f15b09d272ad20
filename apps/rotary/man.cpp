// rotary man: the manual page, written from the same tables as --help.
#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <string_view>

#include "apps/shared/command.h"
#include "apps/shared/sheet.h"
#include "commands.h"
#include "rotary/version.h"
#include "torch_program.h"

namespace rotary::cli {

namespace {

// text as roff prints it letter by letter, without its line breaks.
std::string roff(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\\') {
      escaped += "\\e";
    } else if (letter == '-') {
      escaped += "\\-";
    } else if (letter == '\'') {
      escaped += "\\(aq";
    } else if (letter == '`') {
      escaped += "\\(ga";
    } else {
      escaped += letter == '\n' ? ' ' : letter;
    }
  }
  return escaped.starts_with('.') ? "\\&" + escaped : escaped;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

std::string option_text(const OptionSheet& option) {
  std::string text = ".TP\n";
  if (option.positional) {
    text += italic(option.names.front());
  } else {
    for (std::size_t i = 0; i < option.names.size(); ++i) text += (i > 0 ? ", " : "") + bold(option.names[i]);
    if (!option.value.empty()) text += " " + italic(option.value);
  }
  if (option.list && !option.value.ends_with("...")) text += " ...";
  text += "\n" + roff(option.whole_help());
  return text + "\n";
}

// A footer: paragraphs are filled, examples and tables keep their lines.
std::string footer_text(const std::string& footer) {
  std::string text = footer.empty() ? "" : ".PP\n";
  bool as_it_is = false;
  for (std::size_t begin = 0; begin < footer.size();) {
    const std::size_t end = std::min(footer.find('\n', begin), footer.size());
    const std::string line = footer.substr(begin, end - begin);
    const bool example = line.starts_with(' ') || line.find("  ") != std::string::npos;
    if (line.empty()) {
      text += as_it_is ? ".fi\n.PP\n" : ".PP\n";
      as_it_is = false;
    } else {
      if (example != as_it_is) text += example ? ".PP\n.nf\n" : ".fi\n.PP\n";
      as_it_is = example;
      text += roff(line) + "\n";
    }
    begin = end + 1;
  }
  return as_it_is ? text + ".fi\n" : text;
}

std::string command_text(const CommandSheet& command) {
  std::string text = ".SS rotary " + roff(command.name) + "\n" + roff(command.summary) + ".\n";
  for (const OptionSheet& option : command.options) {
    if (option.names.back() != "--help") text += option_text(option);
  }
  return text + footer_text(command.footer);
}

std::string page_of(const CommandSheet& program) {
  std::string text = ".TH ROTARY 1 \"\" \"rotary " ROTARY_VERSION
                     "\" \"User Commands\"\n"
                     ".SH NAME\nrotary \\- rotary position embeddings of language models\n"
                     ".SH SYNOPSIS\n" +
                     bold("rotary") + " " + italic("COMMAND") + " [" + italic("OPTIONS") + "]\n.SH DESCRIPTION\n" +
                     roff(program.summary) + "\n.SH OPTIONS\n";
  for (const OptionSheet& option : program.options) text += option_text(option);
  text += ".SH COMMANDS\n";
  for (const CommandSheet& command : program.commands) text += command_text(command);
  return text +
         ".SH EXIT STATUS\n"
         ".TP\n0\nDone.\n"
         ".TP\n1\nSomething in a file, a position or a shape is wrong. Standard error has one line, error: CODE: "
         "sentence; with \\-\\-json a JSON object {\"error\": {\"code\", \"message\"}}.\n"
         ".TP\n2\nThe command line is wrong.\n"
         ".SH ENVIRONMENT\n"
         ".TP\nROTARY_TARGET\nThe instruction set to use, one of those that rotary targets lists.\n";
}

}  // namespace

void add_man(CLI::App& app) {
  Command command(app, "man", "Print the manual page, as roff");
  command.group("For the shell");
  command.footer("  rotary man | man -l -");
  command.runs([&app] { std::cout << page_of(whole_sheet(app)); });
}

}  // namespace rotary::cli
