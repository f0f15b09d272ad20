// rotary explain prints docs/explain as it is. (Wrong chapters: tests/golden/commands/explain.txt)
#include <algorithm>
#include <sstream>

#include "run.h"

namespace rotary::cli_tests {
namespace {

const std::filesystem::path pages = ROTARY_SOURCE_DIR "/docs/explain";

class Explain : public Cli {
 protected:
  std::string print(const std::string& chapter) const { return expect_success({"explain", chapter}).out; }

  static Strings chapter_files() {
    Strings files;
    for (const auto& entry : std::filesystem::directory_iterator(pages)) {
      const std::string name = entry.path().stem().string();
      if (entry.path().extension() == ".md" && name != "README") files.push_back(name);
    }
    std::sort(files.begin(), files.end());
    return files;
  }
};

TEST_F(Explain, a_chapter_by_its_number_name_or_file_is_the_page_of_docs) {
  EXPECT_EQ(expect_success({"explain"}).out, read_text(pages / "README.md"));
  const Strings files = chapter_files();
  ASSERT_EQ(files.size(), 15U);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string page = read_text(pages / (files[i] + ".md"));
    EXPECT_TRUE(page.starts_with("# " + std::to_string(i + 1) + ". ")) << files[i];
    EXPECT_EQ(print(std::to_string(i + 1)), page);
    EXPECT_EQ(print(files[i].substr(3)), page);
    EXPECT_EQ(print(files[i]), page);
  }
}

TEST_F(Explain, the_commands_that_the_chapters_name_run) {
  int commands = 0;
  for (const std::string& file : chapter_files()) {
    const Strings lines = lines_of(print(file));
    for (auto line = lines.begin(); line != lines.end(); ++line) {
      if (!line->starts_with("$ rotary ")) continue;
      std::string command = line->substr(9);
      while (command.ends_with('\\')) command.replace(command.size() - 1, 1, *++line);
      std::istringstream stream(command);
      Strings words;
      for (std::string word; stream >> word;) words.push_back(word);
      expect_success(words);
      ++commands;
    }
  }
  EXPECT_GE(commands, 2);
}

}  // namespace
}  // namespace rotary::cli_tests
