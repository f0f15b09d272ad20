// rotary explain: prints docs/explain, for people and as Markdown.
#include <algorithm>
#include <sstream>

#include "run.h"

namespace rotary::cli_tests {
namespace {

const std::filesystem::path chapters_folder = ROTARY_SOURCE_DIR "/docs/explain";
struct Chapter {
  std::string number, id, title;
};

class Explain : public Cli {
 protected:
  std::string print(Strings words) const {
    words.insert(words.begin(), "explain");
    return expect_success(words).out;
  }

  std::vector<Chapter> listed() const {
    std::vector<Chapter> chapters;
    for (const std::string& line : lines_of(print({"--list"}))) {
      static const std::regex form(" *([0-9]+)  ([a-z]+) +(.+)");
      std::smatch parts;
      EXPECT_TRUE(std::regex_match(line, parts, form)) << line;
      chapters.push_back({parts[1], parts[2], parts[3]});
    }
    return chapters;
  }
};

TEST_F(Explain, markdown_and_pictures_are_the_files_of_docs_explain) {
  std::map<std::string, std::string> printed{{"README.md", print({"--list", "--markdown"})}};
  const std::vector<Chapter> chapters = listed();
  ASSERT_EQ(chapters.size(), 15U);
  for (const Chapter& chapter : chapters)
    printed[(chapter.number.size() < 2 ? "0" : "") + chapter.number + "-" + chapter.id + ".md"] =
        print({chapter.id, "--markdown"});
  std::filesystem::create_directory(path("pictures"));
  print({"--pictures", path("pictures")});
  for (const auto& entry : std::filesystem::directory_iterator(path("pictures"))) {
    const std::string file = entry.path().filename().string();
    printed[file] = read_text(entry.path());
    const auto shows_it = [&](const auto& page) { return page.second.find("](" + file + ")") != std::string::npos; };
    EXPECT_EQ(std::count_if(printed.begin(), printed.end(), shows_it), 1) << file;
  }
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(chapters_folder)) {
    EXPECT_EQ(printed[entry.path().filename().string()], read_text(entry.path())) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, printed.size());
}

TEST_F(Explain, a_terminal_gets_paragraphs_lists_tables_and_code_in_80_columns) {
  for (const std::string& line : lines_of(print({"all"}))) {
    EXPECT_LE(line.size(), 80U) << line;
    EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; })) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
  const std::string pairing = print({"pairing"}), turn = print({"turn"});
  for (const char* part :
       {"7. Half or interleaved\n======================\n\n", "\nEqual, other, and wrong\n-----------------------\n\n",
        "\n    element        0   1   2   3   4   5   6   7\n\n    interleaved",
        "\n  * The fourth is no RoPE at all: its score changes with the place.\n\n",
        "\n    pairing                    at 7 and 4   at 107 and 104\n    ------------------------   ----------   "
        "--------------\n    both interleaved               9.8846 "}) {
    EXPECT_NE(pairing.find(part), std::string::npos) << part;
  }
  EXPECT_NE(turn.find("`q`"), 0U);
  EXPECT_EQ(turn.find_first_of("`|!"), std::string::npos) << "signs of Markdown";
  EXPECT_TRUE(turn.ends_with("\n\nNext: rotary explain distance  (Only the distance counts)\n"));
}

TEST_F(Explain, a_topic_is_an_id_a_number_or_a_title) {
  const std::string all = print({"all"});
  std::size_t at = 0;
  for (const Chapter& chapter : listed()) {
    const std::string text = print({chapter.id});
    EXPECT_EQ(print({chapter.number}), text);
    if (chapter.title.find('\'') == std::string::npos) {  // the shell's sign
      EXPECT_EQ(print({chapter.title}), text);
    }
    EXPECT_TRUE(text.starts_with(chapter.number + ". " + chapter.title + "\n"));
    at = all.find(chapter.number + ". " + chapter.title + "\n", at);
    EXPECT_NE(at, std::string::npos) << chapter.id;
  }
  EXPECT_TRUE(print({}).starts_with(print({"1"})));
  EXPECT_TRUE(print({}).ends_with(print({"--list"})));
  EXPECT_EQ(print({"ALL"}), all);
}

// Llama 2 has the rope of chapters 8 and 11, so that their numbers judge these.
TEST_F(Explain, chapters_8_and_11_are_told_of_ones_own_model) {
  const std::string llama = configs + "llama-2-7b.json";
  const std::string fast = print({"frequencies", "--config", llama}), far = print({"scaling", "--config", llama});
  EXPECT_EQ(print({"--config", llama}), fast + "\n\n" + far);
  EXPECT_EQ(print({"8", "--config", llama}), fast);
  EXPECT_EQ(print({"yarn", "--config", llama}), far);
  EXPECT_TRUE(fast.starts_with("8. Why many frequencies: " + llama + "\n")) << fast;
  EXPECT_TRUE(far.starts_with("11. Past the trained length: " + llama + "\n")) << far;
  for (const char* number : {"1.000000000", "0.000115478", "54410.14", "0.075"}) {
    EXPECT_NE(fast.find(number), std::string::npos) << number;
    EXPECT_NE(print({"8"}).find(number), std::string::npos) << number;
  }
  for (const char* number : {"0.472883", "1.891879", "0.472970", "0.2500", "1.138629"}) {
    EXPECT_NE(far.find(number), std::string::npos) << number << far;
    EXPECT_NE(print({"11"}).find(number), std::string::npos) << number;
  }
}

TEST_F(Explain, every_config_has_its_chapters) {
  int told = 0;
  for (const auto& entry : std::filesystem::directory_iterator(configs)) {
    const Result result = run({"explain", "--config", entry.path().string()});
    if (result.exit != 0) {
      EXPECT_NE(result.err.find("must have a rope"), std::string::npos) << result.err;
      continue;
    }
    EXPECT_EQ(result.out.find(" nan"), std::string::npos) << entry.path();
    ++told;
  }
  EXPECT_GT(told, 50);
}

TEST_F(Explain, the_commands_that_the_chapters_name_run) {
  int commands = 0;
  const Strings lines = lines_of(print({"all"}));
  for (auto line = lines.begin(); line != lines.end(); ++line) {
    const std::size_t at = line->find("$ rotary ");
    if (at == std::string::npos) continue;
    std::string command = line->substr(at + 9);
    while (command.ends_with('\\')) command.replace(command.size() - 1, 1, *++line);
    std::istringstream stream(command);
    Strings words;
    for (std::string word; stream >> word;) words.push_back(word);
    expect_success(words);
    ++commands;
  }
  EXPECT_GE(commands, 2);
}

}  // namespace
}  // namespace rotary::cli_tests
