// Every model_type of transformers (golden/sweep, made by tools/sweep/sweep.py) against the reader: the ropes, the
// rotation, the class defaults, and no key unread.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "files/config/stages.h"
#include "files/models/families.h"
#include "rotary/config.h"
#include "sweep.h"

namespace rotary::sweep {
namespace {

using Problems = std::vector<std::string>;

// "" where it reads; else the code of the error.
std::string read(const Json& config, Model& model) {
  try {
    model = parse_config(config.dump());
    return "";
  } catch (const Error& error) {
    return std::string(rotary::name(error.code())) + ": " + error.what();
  }
}

std::set<std::string> parts_of(const Record& record, const Model& model) {
  std::set<std::string> parts;
  for (const SweptRope& rope : record.ropes) parts.insert(rope.part);
  for (const ModelRope& rope : model.ropes) parts.insert(rope.part);
  return parts;
}

// Parts that the sweep could not run have no truth to be judged by.
bool judged(const Record& record, const std::string& part) {
  return std::none_of(record.none.begin(), record.none.end(), [&part](const NoRope& none) {
    return none.part == part &&
           (none.why.starts_with("not answered") || none.why.starts_with("transformers does not run"));
  });
}

// What differs between a model and the record, without the exceptions.
Problems differences(const Record& record, const Model& model) {
  Problems problems;
  for (const std::string& part : parts_of(record, model)) {
    if (!judged(record, part) || exception_of(record, part) != nullptr) continue;
    const Comparison compared = compare(model, part, ropes_of(record.ropes, part));
    problems.insert(problems.end(), compared.problems.begin(), compared.problems.end());
  }
  return problems;
}

void expect_none(const std::vector<std::pair<std::string, Problems>>& found) {
  std::string text;
  std::size_t failing = 0;
  for (const auto& [name, problems] : found) {
    if (problems.empty()) continue;
    ++failing;
    text += name + ":\n";
    for (std::size_t i = 0; i < std::min<std::size_t>(problems.size(), 4); ++i) text += "    " + problems[i] + "\n";
  }
  EXPECT_EQ(failing, 0u) << text;
}

// problems(record) for every record, those without differences left out of the message.
void expect_of_every_record(const std::function<Problems(const Record&)>& problems) {
  std::vector<std::pair<std::string, Problems>> found;
  for (const Record& record : records()) found.emplace_back(record.name, problems(record));
  EXPECT_GT(found.size(), 250u);
  expect_none(found);
}

// A config none of whose parts has a rope may be refused: nothing in it turns as a Rope says.
bool may_be_refused(const Record& record) { return record.ropes.empty(); }

TEST(Sweep, every_config_has_the_ropes_and_the_rotation_of_its_model) {
  expect_of_every_record([](const Record& record) -> Problems {
    Model model;
    const std::string error = read(record.config, model);
    if (!error.empty()) return may_be_refused(record) ? Problems{} : Problems{error};
    return differences(record, model);
  });
}

// Files that lose more than class defaults with their rope keys, and what.
const std::map<std::string, std::string> not_by_default = {
    {"got_ocr2", "a text_config made by the parent has base 1000000, one that is given without a base has 10000"},
    {"lighton_ocr", "a text_config made by the parent has base 1000000, one that is given without a base has 10000"},
    {"mistral3", "a text_config made by the parent has base 1e9, one that is given without a base has 10000"},
    {"moss_transcribe_diarize", "a text_config made by the parent has base 1000000, one that is given has 10000"},
    {"pp_chart2table", "a text_config made by the parent has base 1000000, one that is given has 10000"},
};

Json stripped(const Json& json) {
  if (!json.is_object()) return json;
  Json kept = Json::object();
  for (const auto& [key, value] : json.items()) {
    if (!files::names_rope(key)) kept[key] = key == "per_layer_config" ? value : stripped(value);  // sizes of heads
  }
  return kept;
}

TEST(Sweep, a_config_without_its_rope_keys_has_the_class_defaults) {
  expect_of_every_record([](const Record& record) -> Problems {
    if (record.flagged()) return {};
    Model model;
    const std::string error = read(stripped(record.config), model);
    if (!error.empty()) return may_be_refused(record) ? Problems{} : Problems{error};
    const Problems problems = differences(record, model);
    if (not_by_default.count(record.name) == 0) return problems;
    return problems.empty() ? Problems{"is said to differ and agrees"} : Problems{};
  });
}

// Only the top names its model_type.
Json without_inner_types(Json json) {
  for (auto& [key, value] : json.items()) {
    if (!value.is_object()) continue;
    value.erase("model_type");
    value = without_inner_types(value);
  }
  return json;
}

TEST(Sweep, a_sub_config_without_a_model_type_is_what_its_parent_makes_of_it) {
  expect_of_every_record([](const Record& record) -> Problems {
    Model model;
    const std::string error = read(without_inner_types(record.config), model);
    if (!error.empty()) return may_be_refused(record) ? Problems{} : Problems{error};
    return differences(record, model);
  });
}

// Every object of a config, with the path that leads to it.
void visit_objects(Json& json, const std::string& path, const std::function<void(Json&, const std::string&)>& visit) {
  if (json.is_object()) visit(json, path);
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) visit_objects(value, path + "/" + key, visit);
}

TEST(Sweep, a_made_up_rope_key_is_refused_by_name_wherever_it_stands) {
  expect_of_every_record([](const Record& record) -> Problems {
    Problems problems;
    Model model;
    const std::string default_value = read(record.config, model);
    if (!default_value.empty() && may_be_refused(record)) return {};
    Json config = record.config;
    visit_objects(config, "", [&](Json& object, const std::string& path) {
      object["rope_foo"] = 1;
      const std::string error = read(config, model);
      if (!error.starts_with("CONFIG_KEY: ") || error.find("rope_foo") == std::string::npos) {
        problems.push_back("at '" + path + "': " + (error.empty() ? "it is not refused" : error));
      }
      object.erase("rope_foo");
    });
    return problems;
  });
}

// Whether the config has that part: some are absent by default (Gemma 4's vision_config).
bool holds(const Json& config, const std::string& part) {
  std::string path = part.empty() ? "" : "/" + part;
  std::replace(path.begin(), path.end(), '.', '/');
  const Json::json_pointer pointer(path);
  return config.contains(pointer) && !config.at(pointer).is_null();
}

// Class defaults that transformers does not run: the swept config says more than nothing (tools/sweep/cases.json).
const std::map<std::string, std::string> says_more = {
    {"dbrx", "attn_config, with key heads of its own"},
    {"lfm2_moe", "layer_types"},
};

TEST(Sweep, what_the_program_knows_without_a_file_is_what_the_class_makes_of_nothing) {
  const std::vector<KnownModel> known = known_models();
  expect_of_every_record([&known](const Record& record) -> Problems {
    if (record.flagged() || says_more.count(record.name) != 0) return {};
    Problems problems;
    std::set<std::string> parts, swept;
    for (const SweptRope& rope : record.ropes) parts.insert(rope.part);
    swept = parts;
    for (const NoRope& none : record.none) swept.insert(none.part);
    for (const KnownModel& model : known) {
      const bool here = model.model_type == record.name && holds(record.config, model.part);
      if (here && !model.model.ropes.empty() && swept.count(model.part) == 0) {
        problems.push_back("'" + model.part + "' is known and not swept");
      }
    }
    for (const std::string& part : parts) {
      const auto found = std::find_if(known.begin(), known.end(), [&](const KnownModel& model) {
        return model.model_type == record.model_type && model.part == part;
      });
      if (found == known.end()) {
        problems.push_back("'" + part + "' is not known");
        continue;
      }
      const Comparison compared = compare(found->model, part, ropes_of(record.ropes, part));
      problems.insert(problems.end(), compared.problems.begin(), compared.problems.end());
    }
    return problems;
  });
}

TEST(Sweep, every_exception_still_differs) {
  std::size_t used = 0;
  for (const Record& record : records()) {
    Model model;
    if (!read(record.config, model).empty()) continue;
    for (const std::string& part : parts_of(record, model)) {
      const Exception* exception = exception_of(record, part);
      if (exception == nullptr) continue;
      ++used;
      EXPECT_FALSE(compare(model, part, ropes_of(record.ropes, part)).problems.empty())
          << record.name << " '" << part << "' is an exception (" << exception->reason << ") and agrees";
    }
  }
  EXPECT_GE(used, exceptions().size());
}

}  // namespace
}  // namespace rotary::sweep
