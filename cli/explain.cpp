// rotary explain: prints the Markdown of docs/explain, which is built into the program.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "commands.h"
#include "explain_files.h"  // made by CMake: explain_files, the name and text of each page of docs/explain
#include "shared/command.h"
#include "shared/text.h"

namespace rotary::cli {

namespace {

using Page = std::pair<std::string_view, std::string_view>;  // "02-distance" and its text; "README" lists the chapters

bool is_chapter(const Page& page) { return page.first != "README"; }
int number_of(const Page& page) { return std::stoi(std::string(page.first)); }
std::string name_of(const Page& page) { return std::string(page.first.substr(3)); }

// The chapter of that number or name; the list of chapters for an empty word.
const Page& find_page(const std::string& word) {
  std::string names;
  for (const Page& page : explain_files) {
    if (!is_chapter(page) && word.empty()) return page;
    if (!is_chapter(page)) continue;
    const std::string number = std::to_string(number_of(page));
    if (word == number || word == name_of(page) || word == page.first) return page;
    names += (names.empty() ? "" : ", ") + number + " " + name_of(page);
  }
  throw UsageError("CHAPTER must be a number or a name of " + names + " but got '" + word + "'");
}

// The chapter with its Markdown, or the list of all of them.
std::string as_json(const std::string& word) {
  nlohmann::ordered_json chapters = nlohmann::ordered_json::array();
  for (const Page& page : explain_files) {
    if (!is_chapter(page) || (!word.empty() && &page != &find_page(word))) continue;
    const std::string_view title = page.second.substr(0, page.second.find('\n'));  // "# 2. Distance"
    chapters.push_back(
        {{"number", number_of(page)}, {"id", name_of(page)}, {"title", title.substr(title.find(". ") + 2)}});
    if (!word.empty()) chapters.back()["markdown"] = page.second;
  }
  return json_text({{"chapters", chapters}});
}

}  // namespace

void add_explain(Command& command) {
  auto chapter = std::make_shared<std::string>();
  command.option("CHAPTER", *chapter);
  command.runs([chapter] {
    if (asks_json()) return print_json(as_json(*chapter));
    std::cout << find_page(*chapter).second;
  });
}

}  // namespace rotary::cli
