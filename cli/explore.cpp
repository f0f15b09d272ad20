// rotary explore: writes the explorer, a page for a browser (web/), with models in it.
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "commands.h"
#include "rotary/choice.h"
#include "shared/command.h"
#include "shared/system.h"
#include "shared/terminal.h"
#include "shared/text.h"
#include "source.h"
#include "text/io.h"
#include "text/json.h"
#include "text/paths.h"
#include "values/fail.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

struct ExploreOptions {
  std::vector<std::string> configs;
  std::filesystem::path page, output;
};

// The page's name of a model: without .json, as the page adds it.
std::string name_of(const std::string& config) {
  std::string name = short_name(config);
  if (name.ends_with(".json")) name.resize(name.size() - 5);
  return name.empty() || name == "." ? "config" : name;
}

// The models in the form of the page's own, a list of name, source and text, without its brackets. A "<" is escaped, as
// it could end the script.
std::string models_text(const std::vector<std::string>& configs) {
  std::string all;
  std::set<std::string> names;
  for (const std::string& config : configs) {
    const std::string text = config_text_at(config);
    if (text.empty())
      fail(Code::FORMAT, "explore", "CONFIG must be JSON but ", config,
           " is empty or GGUF: open a GGUF in the page itself");
    try {
      files::parse_json(text);
    } catch (const Error& error) {
      throw error.about(printable(config));
    }
    std::string name = name_of(config);
    while (!names.insert(name).second) name += "-";
    all += Json({{"name", files::legible(name)}, {"source", files::legible(config)}, {"text", text}}).dump() + ", ";
  }
  for (std::size_t at = 0; (at = all.find('<', at)) != std::string::npos;) all.replace(at, 1, "\\u003c");
  return all;
}

void run(const ExploreOptions& options) {
  const std::filesystem::path installed = data_beside("rotary.html"), page = find_data(options.page, installed);
  if (page.empty())
    fail(Code::FILE, "explore", "the page must be installed as ", files::path_text(installed),
         " but is not there: scripts/web.sh DIR of a checkout builds it, and --page names it");
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
