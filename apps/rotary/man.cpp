// rotary man: the manual page, the text of --help of each command.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include "apps/shared/command.h"
#include "apps/shared/sheet.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "rotary/version.h"
#include "torch_program.h"

namespace rotary::cli {

namespace {

// Lines as roff prints them letter by letter, unfilled.
std::string roff(std::string_view text) {
  std::string escaped = ".nf\n";
  bool begins = true;
  for (const char letter : text) {
    if (begins && (letter == '.' || letter == '\'')) escaped += "\\&";
    if (letter == '\\') {
      escaped += "\\e";
    } else if (letter == '-') {
      escaped += "\\-";
    } else if (letter == '\'') {
      escaped += "\\(aq";
    } else if (letter == '`') {
      escaped += "\\(ga";
    } else {
      escaped += letter;
    }
    begins = letter == '\n';
  }
  return escaped + ".fi\n";
}

std::string page_of(const CommandSheet& program) {
  constexpr std::size_t width = 76;
  std::string text = ".TH ROTARY 1 \"\" \"rotary " ROTARY_VERSION
                     "\" \"User Commands\"\n"
                     ".SH NAME\nrotary \\- rotary position embeddings of language models\n"
                     ".SH SYNOPSIS\n\\fBrotary\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH DESCRIPTION\n" +
                     roff(help_text(program, "rotary", width)) + ".SH COMMANDS\n";
  for (const CommandSheet& command : program.commands)
    text += ".SS rotary " + command.name + "\n" + roff(help_text(command, "rotary " + command.name, width));
  return text +
         ".SH EXIT STATUS\n"
         ".TP\n0\nDone.\n"
         ".TP\n1\nSomething in a file, a position or a shape is wrong. Standard error has one line, error: CODE: "
         "sentence; with \\-\\-json a JSON object {\"error\": {\"code\", \"message\"}}.\n"
         ".TP\n2\nThe command line is wrong.\n"
         ".SH ENVIRONMENT\n"
         ".TP\nROTARY_TARGET\nThe instruction set to use, one of those that rotary \\-\\-version lists.\n";
}

}  // namespace

void add_man(CLI::App& app) {
  Command command(app, "man");
  auto json = std::make_shared<bool>(false);
  command.option("--json", *json);
  command.runs([&app, json] {
    const CommandSheet program = whole_sheet(app);
    std::cout << (*json ? versioned(nlohmann::ordered_json(nlohmann::json(program))) + "\n" : page_of(program));
  });
}

}  // namespace rotary::cli
