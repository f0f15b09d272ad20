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

// Lines; empty where there are none.
std::string text_of(const Json& entry, const char* key) { return joined(entry.value(key, Words()), "\n"); }

Json option_entry(const std::string& key, const Json& entry) {
  if (entry.is_string()) return described("shared", entry.get<std::string>());
  if (!entry.contains("shared")) return entry;
  Json changed = described("shared", key);
  changed.update(entry);
  return changed;
}

// The types by their words, and what the help calls a value of each.
const std::map<std::string, std::pair<ValueType, const char*>>& value_types() {
  static const std::map<std::string, std::pair<ValueType, const char*>> types = {
      {"", {ValueType::flag, ""}},         {"integer", {ValueType::integer, "N"}}, {"number", {ValueType::number, "X"}},
      {"word", {ValueType::word, "WORD"}}, {"path", {ValueType::path, "FILE"}},    {"text", {ValueType::text, "TEXT"}}};
  return types;
}

OptionDescription describe_option(const std::string& key, const Json& entry) {
  OptionDescription option;
  option.key = key;
  for (const std::string& name : split(key, ',')) {
    if (name.starts_with('-')) option.names.push_back(name);
    if (!name.starts_with('-')) option.place = name;
  }
  const auto& [type, value] = value_types().at(entry.value("type", ""));
  option.type = type;
  option.value = entry.value("value", option.place.empty() ? value : option.place);
  option.help = text_of(entry, "help");
  option.section = entry.value("section", "");
  option.former = entry.value("former", Words());
  option.words = entry.value("words", Words());
  if (entry.contains("aliases")) option.aliases = described("aliases", entry["aliases"]);
  option.refused = entry.value("refused", option.refused);
  if (entry.contains("range") && type == ValueType::number) entry["range"].get_to(option.range);
  if (entry.contains("range") && type == ValueType::integer) entry["range"].get_to(option.whole_range);
  const Json standard = entry.value("default", Json());
  if (!standard.is_null()) option.standard = standard.is_string() ? standard.get<std::string>() : standard.dump();
  option.suggests = entry.value("suggests", false);
  option.comma_list = entry.value("comma_list", false);
  option.list = option.comma_list || entry.value("list", false);
  option.required = entry.value("required", false);
  option.usual = entry.value("usual", false);
  return option;
}

// The options of own that the command does not have yet; where rope is set, the rope options first.
void add_options(CommandDescription& command, const Json& own, bool rope = false) {
  const Json& shared = commands_data().at("shared");
  for (const Json& entry : rope ? commands_data().at("rope_options") : Json::array()) {
    const auto key = entry.get<std::string>();
    command.options.push_back(
        describe_option(key, option_entry(key, own.contains(key) ? own.at(key) : shared.at(key))));
  }
  for (const auto& [key, entry] : own.items()) {
    if (std::ranges::find(command.options, key, &OptionDescription::key) == command.options.end())
      command.options.push_back(describe_option(key, option_entry(key, entry)));
  }
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

CommandDescription describe(const std::string& name, const Json& entry, const char* further_options) {
  CommandDescription command{name, text_of(entry, "summary"), text_of(entry, "footer"), {}, {}, {}};
  add_options(command, entry.value("options", Json::object()), entry.value("rope_options", false));
  add_options(command, commands_data().at(further_options));
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

bool OptionDescription::has_name(const std::string& word) const {
  return std::ranges::find(names, word) != names.end() || std::ranges::find(former, word) != former.end();
}

const OptionDescription* CommandDescription::find(const std::string& word) const {
  const auto option = std::ranges::find_if(options, [&](const auto& known) { return known.has_name(word); });
  return option == options.end() ? nullptr : &*option;
}

CommandDescription describe_command(const std::string& name) {
  return describe(name, described("commands", name), "command_options");
}

CommandDescription describe_program(const std::string& name) {
  const Json& entry = described("programs", name);
  CommandDescription program = describe(name, entry, "program_options");
  for (const auto& [title, commands] : entry.at("groups").items()) {
    auto& group = program.groups.emplace_back(title, std::vector<std::pair<std::string, std::string>>());
    for (const Json& command : commands)
      group.second.emplace_back(command, text_of(described("commands", command), "summary"));
  }
  return program;
}

std::string instead_of(const std::string& command) { return commands_data().at("gone").value(command, ""); }

}  // namespace rotary::cli
