// The pages of docs show what the program prints. ROTARY_UPDATE_DOCS=1 in the environment renews the blocks of
// ```console, except those that leave lines out ("   ...").
#include <algorithm>
#include <cstdlib>

#include "shell.h"

namespace rotary::cli_tests {
namespace {

const std::string left_out = "   ...";

// A command and what it prints.
struct Example {
  std::string command;
  Strings printed;
};

// Compares line for line. The line after left_out may come any number of lines later.
std::string difference(const Strings& shown, const Strings& printed) {
  auto next = printed.begin();
  bool skipping = false;
  for (const std::string& line : shown) {
    if (line == left_out) {
      skipping = true;
      continue;
    }
    if (skipping) next = std::find(next, printed.end(), line);
    skipping = false;
    if (next == printed.end()) return "not printed: " + line;
    if (*next != line) return "shown:   " + line + "\nprinted: " + *next;
    ++next;
  }
  return skipping || next == printed.end() ? "" : "not shown: " + *next;
}

// stdout and stderr together, and the exit status where it is not 0.
Strings printed_by(const Shell& shell, const std::string& command) {
  const Result result = shell.run("exec 2>&1; " + command);
  std::string text = result.out;
  for (const std::string folder : {ROTARY_BINARY_DIR "/", ROTARY_SOURCE_DIR "/"}) {
    for (std::size_t at = 0; (at = text.find(folder)) != std::string::npos;) text.erase(at, folder.size());
  }
  Strings lines = lines_of(text);
  if (result.exit != 0) lines.push_back("(exit " + std::to_string(result.exit) + ")");
  return lines;
}

class Page : public ::testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(Page, shows_what_the_program_prints) {
  const std::string document = std::string(ROTARY_SOURCE_DIR "/") + GetParam().first;
  const bool update = std::getenv("ROTARY_UPDATE_DOCS") != nullptr;
  const Shell shell;  // cli/tests/golden/docs.txt: the files that the pages name
  for (const std::string& line : lines_of(read_text(ROTARY_SOURCE_DIR "/cli/tests/golden/docs.txt"))) {
    if (line.starts_with("$ ")) {
      EXPECT_EQ(shell.run(line.substr(2)).exit, 0) << line;
    } else {
      shell.make(line);
    }
  }
  Strings page;
  std::vector<Example> block;
  bool inside = false;
  int compared = 0;
  for (const std::string& line : lines_of(read_text(document))) {
    if (line == "```console") {
      inside = true;
    } else if (inside && line == "```") {
      for (const Example& example : block) {
        page.push_back("$ " + example.command);
        const Strings printed = printed_by(shell, example.command);
        const bool whole = std::find(example.printed.begin(), example.printed.end(), left_out) == example.printed.end();
        const Strings& wanted = update && whole ? printed : example.printed;
        page.insert(page.end(), wanted.begin(), wanted.end());
        EXPECT_EQ(difference(wanted, printed), "") << "$ " << example.command;
        ++compared;
      }
      inside = false;
      block.clear();
    } else if (inside) {
      if (line.starts_with("$ ")) {
        block.push_back({line.substr(2), {}});
      } else {
        ASSERT_FALSE(block.empty()) << line;
        block.back().printed.push_back(line);
      }
      continue;
    }
    page.push_back(line);
  }
  EXPECT_GE(compared, GetParam().second);
  if (update) {
    std::string text;
    for (const std::string& line : page) text += line + '\n';
    write_text(document, text);
  }
}

// A page, and the commands it shows at least.
INSTANTIATE_TEST_SUITE_P(Docs, Page,
                         ::testing::Values(std::pair("docs/accuracy.md", 3), std::pair("docs/cli.md", 15),
                                           std::pair("docs/convert.md", 3), std::pair("docs/porting.md", 6),
                                           std::pair("docs/long-context.md", 3), std::pair("docs/models.md", 2),
                                           std::pair("README.md", 1)),
                         [](const auto& tested) {
                           std::string name = std::filesystem::path(tested.param.first).stem().string();
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace rotary::cli_tests
