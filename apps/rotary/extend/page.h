// What `rotary extend` prints and writes.
#pragma once

#include <nlohmann/json.hpp>
#include <numbers>
#include <string>

#include "extend/extend.h"

namespace rotary::cli {

inline constexpr double circle = 2 * std::numbers::pi;  // radians of a turn

// What the command was given, for the answer.
struct ExtendAsked {
  std::string config;
  std::string command;  // the whole line, for the note
  std::string written;  // the new config.json or params.json; "": none
};

void print_plan(const ExtendAsked&, const Model&, const extend::Plan&, bool in_depth);
nlohmann::ordered_json json_of(const ExtendAsked&, const Model&, const extend::Plan&);  // the keys are a contract
// The note beside a written config, Markdown.
std::string note_text(const ExtendAsked&, const Model&, const extend::Plan&, const extend::MethodPlan&);

// "Qwen: yarn, factor 4 over 32768 tokens, for 131072 (the model card of ...)".
std::string text_of(const extend::Publication&);
// A value of the config on one line.
std::string one_line(const std::string& raw);
// The same; a list of more than 8 numbers by its ends.
std::string short_value(const std::string& raw);

}  // namespace rotary::cli
