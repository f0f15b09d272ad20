// rotary explain: prints the Markdown of docs/explain, which is built into the program.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "explain_files.h"  // made by CMake: explain_files, the name and text of each page of docs/explain
#include "shared/command.h"
#include "shared/text.h"

namespace rotary::cli {

namespace {

// A page NN-NAME.md; the list of chapters is README.md.
struct Page {
  std::string number, name, file;  // "2", "distance", "02-distance"
  std::string_view text;
};

std::vector<Page> read_chapters() {
  std::vector<Page> chapters;
  for (const auto& [file, text] : explain_files) {
    if (!file.starts_with("README"))
      chapters.push_back({std::to_string(chapters.size() + 1), std::string(file.substr(3)), std::string(file), text});
  }
  return chapters;
}

Page find_chapter(const std::string& word) {
  const std::vector<Page> chapters = read_chapters();
  std::string names;
  for (const Page& chapter : chapters) {
    if (word == chapter.number || word == chapter.name || word == chapter.file) return chapter;
    names += (names.empty() ? "" : ", ") + chapter.number + " " + chapter.name;
  }
  throw UsageError("CHAPTER must be a number or a name of " + names + " but got '" + word + "'");
}

// The chapter with its Markdown, or the list of all of them.
std::string as_json(const std::string& word) {
  nlohmann::ordered_json chapters = nlohmann::ordered_json::array();
  for (const Page& page : word.empty() ? read_chapters() : std::vector{find_chapter(word)}) {
    const std::string_view title = page.text.substr(0, page.text.find('\n'));  // "# 2. Distance"
    chapters.push_back(
        {{"number", std::stoi(page.number)}, {"id", page.name}, {"title", title.substr(title.find(". ") + 2)}});
    if (!word.empty()) chapters.back()["markdown"] = page.text;
  }
  return json_text({{"chapters", chapters}});
}

}  // namespace

void add_explain(Command& command) {
  auto chapter = std::make_shared<std::string>();
  command.option("CHAPTER", *chapter);
  command.runs([chapter] {
    if (asks_json()) return print_json(as_json(*chapter));
    if (!chapter->empty()) std::cout << find_chapter(*chapter).text;
    for (const auto& [file, text] : explain_files)
      if (chapter->empty() && file == "README") std::cout << text;
  });
}

}  // namespace rotary::cli
