// rotary models: the model types that are known, and the pairing of each.
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.h"
#include "models/families.h"
#include "shared/columns.h"
#include "shared/command.h"
#include "shared/text.h"
#include "source.h"
#include "text/nearest.h"

namespace rotary::cli {

namespace {

// "half", "half, clockwise"; all ropes of a part have one. For people the field's words stand beside it.
std::string pairing_of(const KnownModel& model, bool for_people = false) {
  const Rope& rope = model.model.ropes.front().rope;
  return (for_people ? pairing_text(rope.pairing) : name(rope.pairing)) + (rope.clockwise ? ", clockwise" : "");
}

bool is_named(const KnownModel& model, const std::string& name) { return lower(model.model_type) == name; }

// The models that match the filter, the one of that name first.
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
  print_json(json_text({{"models", std::move(list)}}));
}

// Models without rotary positions are listed only where the filter is their name or matches nothing else.
void print_lines(const std::vector<KnownModel>& models, const std::string& filter) {
  std::vector<Cells> rows = {{"model_type", "part", "pairing"}};
  std::string without;
  for (const KnownModel& model : models) {
    if (!model.model.ropes.empty())
      rows.push_back({model.model_type, model.part.empty() ? "-" : model.part, pairing_of(model, true)});
  }
  for (const KnownModel& model : models) {
    if (!model.model.ropes.empty() || !(model.rotary || rows.size() == 1 || is_named(model, lower(filter)))) continue;
    without += model.model_type + (model.part.empty() ? "" : ", " + model.part) + ": no rope: " + model.why + "\n";
  }
  Columns columns({Column{}, Column{}, Column{}});
  if (rows.size() > 1) std::cout << columns.fit(rows).text(rows) << (without.empty() ? "" : "\n");
  std::cout << without;
}

}  // namespace

void add_models(Command& command) {
  auto filter = std::make_shared<std::string>();
  command.option("FILTER", *filter);
  command.runs([filter] {
    const std::vector<KnownModel> models = chosen_models(*filter);
    asks_json() ? print_list(models) : print_lines(models, *filter);
  });
}

}  // namespace rotary::cli
