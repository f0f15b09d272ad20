// rotary models: prints the sheet of known models from the program's own table.
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "files/models/known.h"
#include "files/text/nearest.h"
#include "model_sheet.h"
#include "rotary/config.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

struct ModelsOptions {
  std::string filter;
  bool json = false;
};

// Whether the filter is a substring of model_type, part, or the pairing or scaling of one of the ropes.
bool matches(const KnownModel& model, const std::string& filter) {
  const auto holds = [&filter](const std::string& text) { return lower(text).find(filter) != std::string::npos; };
  return holds(model.model_type) || holds(model.part) ||
         std::any_of(model.ropes.begin(), model.ropes.end(), [&holds](const ModelRope& used) {
           return holds(name(used.rope.pairing)) || holds(name(used.rope.scaling));
         });
}

// ": did you mean llama?", where the name of a known model is near.
std::string suggestion_for(const std::string& filter) {
  const std::vector<KnownModel> models = known_models();
  std::vector<std::string_view> names;
  for (const KnownModel& model : models) names.push_back(model.model_type);
  const std::string_view meant = files::nearest(filter, names);
  return meant.empty() ? "" : ": did you mean " + std::string(meant) + "?";
}

// Those that match; first the model of that name.
std::vector<KnownModel> chosen_models(const std::string& filter) {
  std::vector<KnownModel> models = known_models();
  std::erase_if(models, [wanted = lower(filter)](const KnownModel& model) { return !matches(model, wanted); });
  const auto is_named = [&filter](const KnownModel& model) { return lower(model.model_type) == lower(filter); };
  std::stable_partition(models.begin(), models.end(), is_named);
  if (models.empty()) {
    fail(Code::MODEL_TYPE, "models", "FILTER must match a known model_type, part, pairing or scaling but got ",
         files::in_quotes(filter), suggestion_for(filter));
  }
  return models;
}

// ---- JSON: the keys are a contract ----

Json known(int size) { return size > 0 ? Json(size) : Json(nullptr); }

Json json_of(const KnownModel& model, const ModelRope& used) {
  const Rope& rope = used.rope;
  const bool sized = rope.head_dim > 0;
  Json list = {{"model_type", model.model_type},
               {"part", model.part},
               {"heads", known(used.heads)},
               {"kv_heads", known(used.kv_heads)},
               {"head_dim", known(rope.head_dim)},
               {"rotary_dim", known(rope.rotary_dim)},
               {"first", used.first},
               {"pairing", name(rope.pairing)},
               {"direction", direction(rope)},
               {"base", rope.inv_freq.empty() ? Json(rope.base) : Json(nullptr)},
               {"scaling", name(rope.scaling)},
               {"attention_factor", sized ? Json(frequencies(rope, 0).attention_factor) : Json(nullptr)},
               {"axes", axes_of(rope)},
               {"axis", rope.axis},
               {"layers", used.layers},
               {"layers_without_rope", used.layers_without_rope},
               {"fact", model.fact},
               {"rope", true},
               {"why", ""}};
  if (rope.axis.empty()) list["axis"] = std::vector<int>(static_cast<std::size_t>(rope.rotary_dim / 2), 0);
  if (!sized && rope.rotary_dim == 0) list["partial"] = model.partial;
  return list;
}

void print_json(const std::vector<KnownModel>& models) {
  Json list = Json::array();
  for (const KnownModel& model : models) {
    for (const ModelRope& used : model.ropes) list.push_back(json_of(model, used));
    if (model.ropes.empty()) {
      list.push_back({{"model_type", model.model_type}, {"part", model.part}, {"rope", false}, {"why", model.why}});
    }
  }
  Json all;
  all["models"] = std::move(list);
  std::cout << versioned(all) << '\n';
}

// ---- for people ----

// One row, and the fact that is printed below it, if any.
struct Line {
  Cells cells;
  std::string fact;
};

std::vector<Line> lines_of(const std::vector<KnownModel>& models) {
  std::vector<Line> lines = {
      {{"model_type", "part", "heads", "head_dim", "rotary_dim", "pairing", "base", "scaling", "axes", "layers"}, ""}};
  for (const KnownModel& model : models) {
    for (SheetRow& row : sheet_rows(model.ropes, model.partial)) {
      lines.push_back({{model.model_type, model.part.empty() ? "-" : model.part, row.heads, row.head_dim,
                        row.rotary_dim, row.pairing, row.base, row.scaling, row.axes, row.layers},
                       ""});
    }
    if (!model.ropes.empty()) lines.back().fact = model.fact;
  }
  return lines;
}

void print_lines(const std::vector<Line>& lines) {
  constexpr Column left, right{.right = true};
  Columns columns({left, left, right, right, right, left, right, left, right, right});
  for (const Line& line : lines) columns.fit(std::span(&line.cells, 1));
  for (const Line& line : lines) {
    std::cout << columns.line(line.cells) << '\n';
    if (!line.fact.empty()) std::cout << "    " << line.fact << '\n';
  }
}

// Models without rotary positions are listed only if the filter is their name or matches nothing else.
void print_table(const std::vector<KnownModel>& models, const std::string& filter) {
  const std::vector<Line> lines = lines_of(models);
  const bool table = lines.size() > 1;
  if (table) print_lines(lines);
  bool blank = table;
  for (const KnownModel& model : models) {
    const bool wanted = model.rotary || !table || lower(model.model_type) == lower(filter);
    if (!model.ropes.empty() || !wanted) continue;
    if (blank) std::cout << '\n';
    blank = false;
    std::cout << model.model_type << (model.part.empty() ? "" : ", " + model.part) << ": no rope: " << model.why
              << '\n';
  }
}

void run(const ModelsOptions& options) {
  const std::vector<KnownModel> models = chosen_models(options.filter);
  if (options.json) {
    print_json(models);
  } else {
    print_table(models, options.filter);
  }
}

}  // namespace

void add_models(CLI::App& app) {
  auto options = std::make_shared<ModelsOptions>();
  Command command(app, "models");
  command.option("FILTER", options->filter);
  command.option("--json", options->json);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
