// rotary models: the model types that are known, with the pairing and the axes of each.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "commands.h"
#include "models/families.h"
#include "shared/columns.h"
#include "shared/command.h"
#include "shared/text.h"
#include "source.h"
#include "text/nearest.h"
#include "values/names.h"

namespace rotary::cli {

namespace {

// "half", "half, clockwise"; all ropes of a part have the same. For people with the familiar words beside it.
std::string pairing_of(const KnownModel& model, bool for_people = false) {
  const Rope& rope = model.model.ropes.front().rope;
  return (for_people ? detail::familiar(rope.pairing) : name(rope.pairing)) + (rope.clockwise ? ", clockwise" : "");
}

// The number of coordinates of a position.
std::string axes_of(const KnownModel& model) { return std::to_string(model.model.ropes.front().rope.axes()); }

bool is_named(const KnownModel& model, const std::string& name) { return lower(model.model_type) == name; }

// The models that match the filter, first those of that name.
std::vector<KnownModel> chosen_models(const std::string& filter) {
  const std::vector<KnownModel> known = known_models();
  const std::string wanted = lower(filter);
  std::vector<KnownModel> models;
  std::ranges::copy_if(known, std::back_inserter(models), [&](const KnownModel& model) {
    const std::string text =
        model.model_type + "\n" + model.part + "\n" + (model.model.ropes.empty() ? "" : pairing_of(model));
    return lower(text).find(wanted) != std::string::npos;
  });
  std::stable_partition(models.begin(), models.end(), [&](const KnownModel& model) { return is_named(model, wanted); });
  if (!models.empty()) return models;
  std::vector<std::string_view> names;
  for (const KnownModel& model : known) names.push_back(model.model_type);
  const std::string_view meant = files::nearest(filter, names);
  fail(Code::MODEL_TYPE, "models", "FILTER must match a known model_type, part or pairing but got ",
       files::in_quotes(filter), meant.empty() ? "" : ": did you mean " + std::string(meant) + "?");
}

void print_list(const std::vector<KnownModel>& models) {
  auto list = nlohmann::ordered_json::array();
  for (const KnownModel& model : models) {
    const bool turns = !model.model.ropes.empty();
    list.push_back({{"model_type", model.model_type}, {"part", model.part}, {"rope", turns}});
    list.back()[turns ? "pairing" : "why"] = turns ? pairing_of(model) : model.why;
  }
  print_json(json_text({{"data", model_data().version}, {"models", std::move(list)}}));
}

// Models without rotary positions are listed only where the filter is their name or matches nothing else.
void print_lines(const std::vector<KnownModel>& models, const std::string& filter) {
  std::vector<Cells> rows = {{"model_type", "part", "pairing", "axes"}};
  std::string without;
  for (const KnownModel& model : models) {
    if (!model.model.ropes.empty())
      rows.push_back(
          {model.model_type, model.part.empty() ? "-" : model.part, pairing_of(model, true), axes_of(model)});
  }
  for (const KnownModel& model : models) {
    if (!model.model.ropes.empty() || !(model.rotary || rows.size() == 1 || is_named(model, lower(filter)))) continue;
    without += model.model_type + (model.part.empty() ? "" : ", " + model.part) + ": no rope: " + model.why + "\n";
  }
  Columns columns({{}, {}, {}, {}});
  if (rows.size() > 1) std::cout << columns.fit(rows).text(rows) << (without.empty() ? "" : "\n");
  std::cout << without;
}

// A line for each pairing and number of axes: the number of model types with such a rope, and the names that fit.
void print_overview(const std::vector<KnownModel>& models) {
  const auto by_length = [](const std::string& a, const std::string& b) {  // the founders of families come first
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  };
  std::map<std::pair<std::string, std::string>, std::set<std::string, decltype(by_length)>> groups;
  for (const KnownModel& model : models)
    if (!model.model.ropes.empty()) groups[{pairing_of(model, true), axes_of(model)}].insert(model.model_type);
  std::vector<Cells> rows = {{"pairing", "axes", "count", "model types"}};
  constexpr std::size_t room = 48;
  for (const auto& [kind, types] : groups) {
    std::string names;
    for (const std::string& type : types) {
      const bool fits = names.size() + type.size() + 5 <= room;
      names += (names.empty() ? "" : ", ") + (fits ? type : "...");
      if (!fits) break;
    }
    rows.push_back({kind.first, kind.second, std::to_string(types.size()), names});
  }
  std::cout << Columns({{}, {}, {.right = true}, {}}).fit(rows).text(rows)
            << "\n'rotary models NAME' lists the models with NAME in their type, part or pairing, --all every one.\n";
}

}  // namespace

void add_models(Command& command) {
  auto filter = std::make_shared<std::string>();
  auto all = std::make_shared<bool>(false);
  command.option("FILTER", *filter);
  command.option("--all", *all);
  command.runs([filter, all] {
    const std::vector<KnownModel> models = chosen_models(*filter);
    if (asks_json()) return print_list(models);
    filter->empty() && !*all ? print_overview(models) : print_lines(models, *filter);
  });
}

}  // namespace rotary::cli
