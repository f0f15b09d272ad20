#include "description.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text.h"

namespace rotary::embedded {
std::string_view commands_json() noexcept;
}

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

const Json& commands_data() {
  static const Json data = Json::parse(embedded::commands_json());
  return data;
}

const Json& described(const char* kind, const std::string& name) { return commands_data().at(kind).at(name); }

Words paragraphs_of(const Json& entry, const char* key) {
  Words paragraphs;
  for (const Json& text : entry.value(key, Json::array()))
    paragraphs.push_back(text.is_string() ? text.get<std::string>() : joined(text, " "));
  return paragraphs;
}

OptionDescription describe_option(const std::string& key, const Json& given) {
  Json entry = given.is_string() ? described("shared", given) : Json::object();
  if (given.is_object() && given.contains("shared")) entry = described("shared", key);
  if (given.is_object()) entry.update(given);
  OptionDescription option;
  option.key = key;
  for (const std::string_view name : files::words(key, ',')) {
    if (name.starts_with('-')) option.names.emplace_back(name);
    if (!name.starts_with('-')) option.place = name;
  }
  option.former = entry.value("former", Words());
  option.type = entry.value("type", "");
  const std::string of_type = commands_data().at("values").value(option.type, "");
  option.value = entry.value("value", option.place.empty() ? of_type : option.place);
  option.help = joined(entry.at("help"), " ");
  option.brief = entry.value("brief", "");
  option.section = entry.value("section", "");
  const Json standard = entry.value("default", Json(""));
  option.standard = standard.is_string() ? standard.get<std::string>() : standard.dump();
  option.words = entry.value("words", Words());
  if (entry.contains("aliases")) option.aliases = described("aliases", entry["aliases"]);
  option.refused = entry.value("refused", option.refused);
  option.range = entry.value("range", option.range);
  if (option.type == "integer") option.whole_range = entry.value("range", option.whole_range);
  option.suggests = entry.value("suggests", false);
  option.comma_list = entry.value("comma_list", false);
  option.list = option.comma_list || entry.value("list", false);
  option.required = entry.value("required", false);
  option.usual = entry.value("usual", false);
  return option;
}

void add_rules(CommandDescription& command, const Json& rules) {
  for (const Json& entry : rules) {
    if (entry.is_string()) {
      add_rules(command, described("rules", entry));
    } else {
      command.rules.push_back({entry.value("options", Words()), entry.value("needs", Words()),
                               entry.value("excludes", Words()), entry.value("why", "")});
    }
  }
}

// program: for a command, the program's name and a space.
CommandDescription describe(const std::string& program, const std::string& name, const Json& entry,
                            const char* further_options) {
  CommandDescription command{name,
                             program + name,
                             paragraphs_of(entry, "summary"),
                             paragraphs_of(entry, "footer"),
                             entry.value("examples", Words()),
                             paragraphs_of(entry, "brief")};
  Json options = entry.value("rope_options", false) ? commands_data().at("rope_options") : Json::object();
  options.update(entry.value("options", Json::object()));
  options.update(commands_data().at(further_options));
  for (const auto& [key, option] : options.items()) command.options.push_back(describe_option(key, option));
  const auto rank = [](const OptionDescription& option) {
    return !option.place.empty() ? 0 : option.required ? 1 : option.section.empty() ? 2 : 3;
  };
  std::ranges::stable_sort(command.options, {}, rank);
  add_rules(command, entry.value("rules", Json::array()));
  return command;
}

}  // namespace

const std::string& OptionDescription::long_name() const {
  const auto found = std::ranges::find_if(names, [](const std::string& known) { return known.starts_with("--"); });
  return found == names.end() ? place : *found;
}

const OptionDescription* CommandDescription::find(const std::string& word) const {
  const auto has = [&](const Words& names) { return std::ranges::find(names, word) != names.end(); };
  const auto option = std::ranges::find_if(options, [&](const auto& o) { return has(o.names) || has(o.former); });
  return option == options.end() ? nullptr : &*option;
}

CommandDescription describe_command(const std::string& name, const std::string& program) {
  const Json& former = commands_data().at("former");
  const std::string known = former.contains(name) ? former.at(name).at(0).get<std::string>() : name;
  return describe(program + " ", name, described("commands", known), "command_options");
}

CommandDescription describe_program(const std::string& name) {
  const Json& entry = described("programs", name);
  CommandDescription program = describe("", name, entry, "program_options");
  for (const auto& [title, commands] : entry.at("groups").items()) {
    Terms& terms = program.groups.emplace_back(title, Terms()).second;
    for (const Json& command : commands)
      terms.emplace_back(command, paragraphs_of(described("commands", command), "summary").front());
  }
  return program;
}

std::string now_called(const std::string& command) {
  return joined(commands_data().at("former").value(command, Words()), " ");
}

std::string instead_of(const std::string& command) { return commands_data().at("gone").value(command, ""); }

}  // namespace rotary::cli
