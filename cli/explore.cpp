// rotary explore: writes the explorer, a page for a browser (web/), with models in it.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.h"
#include "install_places.h"  // made by CMake: page_installed
#include "rotary/choice.h"
#include "shared/command.h"
#include "shared/system.h"
#include "shared/terminal.h"
#include "shared/text.h"
#include "text/io.h"
#include "text/paths.h"
#include "values/fail.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

struct ExploreOptions {
  std::vector<std::string> configs;
  std::filesystem::path page, output;
};

// The page given, else the one beside the program, else the installed one. Throws FILE.
std::filesystem::path find_page(const std::filesystem::path& given) {
  if (!given.empty()) return given;
  std::error_code ignored;
  for (const std::filesystem::path& page : {data_beside("rotary.html"), files::path_of(page_installed)}) {
    if (std::filesystem::exists(page, ignored)) return page;
  }
  fail(Code::FILE, "explore", "the page must be installed as ", page_installed,
       " but is not there: scripts/web.sh DIR of a checkout builds it, and --page names it");
}

// The page's name of a model: the folder of a config.json, else the file without .json.
std::string name_of(const std::string& config) {
  std::filesystem::path named = files::path_of(config);
  if (named.filename() == "config.json" || named.filename() == "params.json") named = named.parent_path();
  named = (named / "").lexically_normal().parent_path();  // without a slash at its end
  if (named.extension() == ".json") named.replace_extension();
  const std::string name = files::path_text(named.filename());
  return name.empty() || name == "." ? "config" : name;
}

// The models in the form of the page's own, a list of name, source and text, without its brackets. A "<" is escaped, as
// it could end the script.
std::string models_text(const std::vector<std::string>& configs) {
  std::string all;
  std::vector<std::string> names;
  for (const std::string& config : configs) {
    const std::string text = config_text_at(config);
    if (text.empty())
      fail(Code::FORMAT, "explore", "CONFIG must be JSON but ", config, " is GGUF: open it in the page itself");
    std::string name = name_of(config);
    while (std::ranges::count(names, name) > 0) name += "-";
    names.push_back(name);
    all += Json({{"name", name}, {"source", config}, {"text", text}}).dump() + ", ";
  }
  for (std::size_t at = 0; (at = all.find('<', at)) != std::string::npos;) all.replace(at, 1, "\\u003c");
  return all;
}

void run(const ExploreOptions& options) {
  const std::filesystem::path page = find_page(options.page);
  std::string text = files::InputFile("explore", page).text();
  constexpr std::string_view place = "<script type=\"application/json\" id=\"models\">[";
  const std::size_t at = text.find(place);
  if (at == std::string::npos)
    fail(Code::FORMAT, "explore", files::path_text(page), " must be the page that scripts/web.sh makes but is another");
  text.insert(at + place.size(), models_text(options.configs));
  files::write_whole("explore", options.output, text);
  const std::string output = files::path_text(options.output);
  if (asks_json()) return print_json(json_text({{"output", output}, {"models", options.configs}}));
  std::cout << "wrote " << in_locale(output) << ": open it in a browser\n";
}

}  // namespace

void add_explore(Command& command) {
  auto options = std::make_shared<ExploreOptions>();
  command.option("CONFIG,--config", options->configs);
  command.option("--output", options->output);
  command.option("--page", options->page);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
