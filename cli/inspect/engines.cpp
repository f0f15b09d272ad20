#include "engines.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "shared/columns.h"
#include "shared/terminal.h"

namespace rotary::embedded {
std::string_view engines_json() noexcept;
}

namespace rotary::cli {

namespace {

using nlohmann::json;

// Adds the path of each value that is not null, with the value of a word: page.py's keys_of() says the same.
void add_keys(std::vector<std::string>& keys, const std::string& path, const json& value) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) add_keys(keys, path + "." + key, inner);
  } else if (value.is_string()) {
    keys.push_back(path + "=" + value.get<std::string>());
  } else if (!value.is_null()) {
    keys.push_back(path);
  }
}

// The part that says how text is turned: a sub-config, or the whole.
const json& text_part(const json& config, const json& parts) {
  for (const json& part : parts) {
    const auto found = config.find(part.get<std::string>());
    if (found != config.end() && found->is_object()) return *found;
  }
  return config;
}

std::string model_type_of(const json& part, const json& config) {
  const std::string own = files::string_of(part, "model_type");
  return own.empty() ? files::string_of(config, "model_type") : own;
}

// Findings of several cases that say the same are one.
void add_finding(std::vector<EngineFinding>& found, EngineFinding finding) {
  const auto same = std::ranges::find_if(found, [&](const EngineFinding& known) {
    return known.engine == finding.engine && known.versions == finding.versions && known.result == finding.result &&
           known.cause == finding.cause;
  });
  if (same == found.end()) return found.push_back(std::move(finding));
  same->cases.push_back(finding.cases.front());
}

std::string answer(const EngineFinding& finding) {
  if (finding.result == "equal" || finding.result == "float32") return "right";
  if (finding.result == "order") return "right, elements in another order";
  return finding.result == "differs" ? "wrong: " + finding.cause : finding.result;
}

}  // namespace

EngineFindings findings_of(const nlohmann::json& config) {
  static const json data = json::parse(embedded::engines_json());
  const json& part = text_part(config, data.at("parts"));
  EngineFindings findings{data.at("date").get<std::string>(), {}, {}};
  for (const json& key : data.at("keys")) {
    const auto value = part.find(key.get<std::string>());
    if (value != part.end()) add_keys(findings.keys, key.get<std::string>(), *value);
  }
  std::ranges::sort(findings.keys);
  const std::string model_type = model_type_of(part, config);
  for (const json& row : data.at("cases")) {
    if (row.at("model_type").get<std::string>() != model_type || row.at("keys") != json(findings.keys)) continue;
    for (const json& said : row.at("engines")) {
      const auto word = [&](std::size_t i) { return said.at(i).get<std::string>(); };
      add_finding(findings.found, {word(0), word(1), word(2), word(3), {row.at("case").get<std::string>()}});
    }
  }
  std::ranges::stable_sort(findings.found, {}, &EngineFinding::engine);
  return findings;
}

nlohmann::ordered_json engines_json(const EngineFindings& findings) {
  nlohmann::ordered_json found = nlohmann::ordered_json::array();
  for (const EngineFinding& one : findings.found) {
    found.push_back({{"engine", one.engine},
                     {"versions", one.versions},
                     {"result", one.result},
                     {"cause", one.cause.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(one.cause)},
                     {"cases", one.cases}});
  }
  return {{"measured", findings.date}, {"keys", findings.keys}, {"found", std::move(found)}};
}

void print_engines(const EngineFindings& findings) {
  std::cout << "\nengines, measured " << findings.date << " on configs with this model_type and these rope keys\n";
  if (findings.found.empty()) {
    const std::string keys = findings.keys.empty() ? "none" : printable(joined(findings.keys));
    std::cout << "  " << in_locale(wrapped("no measured case has " + keys, 2, 78)) << '\n';
    return;
  }
  std::vector<Cells> rows;
  for (const EngineFinding& one : findings.found)
    rows.push_back({one.engine, one.versions, answer(one), joined(one.cases)});
  std::cout << Columns({{}, {}, {}, {}}, 2, "  ").fit(rows).text(rows);
}

}  // namespace rotary::cli
