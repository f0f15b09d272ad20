#include "sheet.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "text.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;
using Strings = std::vector<std::string>;

constexpr std::string_view words_mark = ":one of ";

Strings split(std::string_view text, char separator) {
  Strings parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

OptionSheet sheet_of(const CLI::Option& option) {
  OptionSheet sheet;
  sheet.positional = option.get_positional();
  if (sheet.positional) {
    sheet.names = {option.get_name(true, false)};
  } else {
    for (const std::string& name : option.get_snames()) sheet.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) sheet.names.push_back("--" + name);
  }
  const std::string type = option.get_type_name();  // of the value, then ":" and the description of each check
  if (option.get_items_expected_max() > 0 && !sheet.positional) sheet.value = type.substr(0, type.find(':'));
  if (const std::size_t mark = type.find(words_mark); mark != std::string::npos)
    sheet.words = split(std::string_view(type).substr(mark + words_mark.size()), '|');
  sheet.standard = option.get_default_str();
  sheet.help = option.get_description();
  sheet.required = option.get_required();
  sheet.list = option.get_items_expected_max() > 1;
  return sheet;
}

Json json_of(const OptionSheet& option) {
  return {{"names", option.names},       {"value", option.value}, {"words", option.words},
          {"standard", option.standard}, {"help", option.help},   {"positional", option.positional},
          {"required", option.required}, {"list", option.list}};
}

}  // namespace

std::string OptionSheet::all_names() const {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string OptionSheet::whole_help() const {
  Strings facts;
  if (required) facts.emplace_back("required");
  const auto is_told = [this](const std::string& word) { return help.find(word) != std::string::npos; };
  if (!std::all_of(words.begin(), words.end(), is_told)) facts.push_back(one_of_words(words));
  if (!standard.empty()) facts.push_back("default " + standard);
  std::string text;
  for (const std::string& fact : facts) text += (text.empty() ? " [" : "; ") + fact;
  return text.empty() ? help : help + text + "]";
}

CommandSheet sheet_of(const CLI::App& app) {
  CommandSheet sheet;
  sheet.name = app.get_name();
  sheet.summary = app.get_description();
  sheet.group = app.get_group() == "Subcommands" ? "Commands" : app.get_group();
  sheet.footer = app.get_footer();
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_positional() == positional) sheet.options.push_back(sheet_of(*option));
    }
  }
  for (const CLI::App* command : app.get_subcommands({})) sheet.commands.push_back(sheet_of(*command));
  return sheet;
}

Json json_of(const CommandSheet& sheet) {
  Json json = {{"name", sheet.name}, {"summary", sheet.summary}, {"group", sheet.group}, {"footer", sheet.footer}};
  json["options"] = Json::array();
  for (const OptionSheet& option : sheet.options) json["options"].push_back(json_of(option));
  json["commands"] = Json::array();
  for (const CommandSheet& command : sheet.commands) json["commands"].push_back(json_of(command));
  return json;
}

CommandSheet sheet_from(const Json& json) {
  CommandSheet sheet;
  sheet.name = json.at("name").get<std::string>();
  sheet.summary = json.at("summary").get<std::string>();
  sheet.group = json.at("group").get<std::string>();
  sheet.footer = json.at("footer").get<std::string>();
  for (const Json& option : json.at("options")) {
    sheet.options.push_back({option.at("names").get<Strings>(), option.at("value").get<std::string>(),
                             option.at("words").get<Strings>(), option.at("standard").get<std::string>(),
                             option.at("help").get<std::string>(), option.at("positional").get<bool>(),
                             option.at("required").get<bool>(), option.at("list").get<bool>()});
  }
  for (const Json& command : json.at("commands")) sheet.commands.push_back(sheet_from(command));
  return sheet;
}

std::string description_of_words(const Strings& words) {
  std::string text(words_mark.substr(1));
  for (std::size_t i = 0; i < words.size(); ++i) text += (i > 0 ? "|" : "") + words[i];
  return text;
}

std::string one_of_words(const Strings& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace rotary::cli
