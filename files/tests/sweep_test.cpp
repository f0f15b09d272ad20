// Every model_type of transformers and class of diffusers (golden/sweep, made by files/models/sweep) against the
// reader: the ropes, the rotation, the class defaults, and no key unread.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/stages.h"
#include "files/tests/config_helpers.h"
#include "models/families.h"

namespace rotary::sweep {
namespace {

using Json = nlohmann::json;
using Problems = std::vector<std::string>;

// A default config, and the measured ropes that its class makes of it. A rope has the facts of config_helpers.h and:
// axis (a digit for each pair), inv_freq, position (one per axis), vector (input() rotated there), length (for which
// inv_freq was made; 0 or null: the default), and rows (heads with an axis, inv_freq and vector of their own).
struct Record {
  std::string name;  // the file's
  Json config, ropes, none;
  bool flagged() const { return name.find('+') != std::string::npos; }  // a switch was changed from its default
};

// Sorted by name, read once.
const std::vector<Record>& records() {
  static const std::vector<Record> all = [] {
    std::vector<Record> list;
    for (const auto& entry : std::filesystem::directory_iterator(test::golden("sweep"))) {
      if (entry.path().extension() != ".json") continue;
      const Json json = config_test::json_in(entry.path());
      list.push_back({entry.path().stem().string(), json.at("config"), json.at("ropes"), json.at("none")});
    }
    std::sort(list.begin(), list.end(), [](const Record& a, const Record& b) { return a.name < b.name; });
    return list;
  }();
  return all;
}

// A part where this library follows the published file or the engines, and deliberately not transformers.
struct Exception {
  std::string record, part, reason;
};
const std::vector<Exception> exceptions = {
    {"hunyuan_vl+xdrope", "text_config",
     "as vLLM, and as text tokens in transformers, where the two members of an image token's pair have other axes"},
};
const Exception* exception_of(const Record& record, const std::string& part) {
  for (const Exception& exception : exceptions) {
    if (exception.record == record.name && exception.part == part) return &exception;
  }
  return nullptr;
}

// ---- one rope of ours beside the swept one -------------------------------------------------------

// Compares one rope of ours with its swept counterpart.
class Pair {
 public:
  Pair(const Model& model, const ModelRope& ours, const Json& theirs) : model_(model), ours_(ours), theirs_(theirs) {}

  void compare() {
    const Json facts = config_test::facts_of(model_, ours_);
    for (const char* key : {"layers", "layers_without_rope", "heads", "kv_heads", "head_dim", "first", "rotary_dim",
                            "pairing", "clockwise"})
      same(key, facts.at(key), theirs_.at(key));
    if (ours_.rope.rotary_dim != theirs_.at("rotary_dim")) return;
    const bool default_length = !theirs_.contains("length") || theirs_.at("length").is_null();
    const Frequencies ours = frequencies(ours_.rope, default_length ? 0 : theirs_.at("length").get<std::int64_t>());
    const double factor = theirs_.at("attention_factor");
    if (std::fabs(ours.attention_factor - factor) > 1e-6 * factor) {
      same("attention_factor", ours.attention_factor, factor);
    }
    const int rows = theirs_.value("rows", 1);
    same("rows", ours.head_rows, rows);
    if (ours.head_rows != rows) return;
    compare_pairs(ours);
    compare_vector(ours);
  }

  Problems problems;

 private:
  template <typename T>
  void same(const std::string& what, const T& ours, const T& theirs) {
    if (ours == theirs) return;
    problems.push_back("'" + ours_.part + "' " + what + ": " + Json(ours).dump() + " for " + Json(theirs).dump());
  }

  void compare_pairs(const Frequencies& ours) {
    const std::vector<double> inv_freq = theirs_.at("inv_freq");
    const std::string axes = theirs_.at("axis");
    for (std::size_t i = 0; i < inv_freq.size(); ++i) {
      const double wanted = inv_freq[i];
      const auto [speed, axis] = speed_of(ours, i);
      const double difference = std::fabs(speed - wanted);
      const double relative = difference == 0 ? 0 : difference / std::fabs(wanted);
      worst_ = std::max(worst_, relative);
      if (wanted != 0 && axis != axes[i] - '0') return same("axis of pair " + std::to_string(i), axis, axes[i] - '0');
      if (relative > 4e-6) return same("inv_freq of pair " + std::to_string(i), speed, wanted);
    }
  }

  // The frequency of pair i, counted over all heads, and the coordinate that it follows.
  static std::pair<double, int> speed_of(const Frequencies& f, std::size_t i) {
    const auto pairs = static_cast<std::size_t>(f.pairs());
    if (f.summed_axes == 0) return {f.inv_freq[i], f.axis.empty() ? 0 : f.axis[i % pairs]};
    std::pair<double, int> found = {0, 0};
    for (int axis = 0; axis < f.summed_axes; ++axis) {
      const std::size_t row = i / pairs * static_cast<std::size_t>(f.summed_axes) + static_cast<std::size_t>(axis);
      if (const double speed = f.inv_freq[row * pairs + i % pairs]; speed != 0) found = {speed, axis};
    }
    return found;
  }

  // The model's angle is the float32 product of the position and its own float32 inv_freq, so it is off by at most
  // p w (r + 2^-24), where r is the relative difference of the two inv_freq. cos and sin of it are rounded (2^-24, and
  // 2^-23 more where the library's float32 cos is 1 ulp off), so are both products and the sum, of two elements of at
  // most 2: in all |x| (angle + 6 * 2^-24), |x| <= sqrt(8), times the attention factor.
  void compare_vector(const Frequencies& ours) {
    const int n = 2 * ours.pairs();
    const std::vector<float> vector = theirs_.at("vector");
    std::vector<float> x(static_cast<std::size_t>(ours.head_rows * n));
    for (std::size_t d = 0; d < x.size(); ++d) x[d] = input(static_cast<int>(d) % n);
    const auto axes = std::max(ours.axes(), 1);
    std::vector<double> position = theirs_.at("position");
    position.resize(static_cast<std::size_t>(axes), position.back());
    const Table table(ours, Positions(position, axes));
    rotate(heads(x, thd(1, ours.head_rows, n)), table);
    double angle = 0;
    for (std::size_t i = 0; i < x.size() / 2; ++i) {
      const auto [speed, axis] = speed_of(ours, i);
      angle = std::max(angle, std::fabs(position[static_cast<std::size_t>(axis)] * speed));
    }
    const double bound = std::sqrt(8.0) * ours.attention_factor * (angle * (worst_ + 0x1p-24) + 6 * 0x1p-24);
    double off = 0;
    for (std::size_t d = 0; d < x.size(); ++d) off = std::max(off, std::fabs(double{x[d]} - double{vector[d]}));
    if (off > bound) {
      problems.push_back("'" + ours_.part + "' vector: off by " + Json(off).dump() + ", more than " +
                         Json(bound).dump());
    }
  }

  // Element d of what was rotated.
  static float input(int d) { return static_cast<float>((d * 37) % 64 - 32) / 16; }

  const Model& model_;
  const ModelRope& ours_;
  const Json& theirs_;
  double worst_ = 0;  // the worst relative difference of inv_freq
};

// Our ropes of one part against the swept ones, both by their first element and layers; problems are sentences that
// begin with the part.
Problems compare(const Model& model, const std::string& part, const Record& record) {
  using FirstAndLayers = std::pair<int, std::vector<int>>;
  std::vector<std::pair<FirstAndLayers, const ModelRope*>> ours;
  std::vector<std::pair<FirstAndLayers, const Json*>> theirs;
  for (const ModelRope& rope : model.ropes) {
    if (rope.part == part) ours.push_back({{rope.first, rope.layers}, &rope});
  }
  for (const Json& rope : record.ropes) {
    if (rope.at("part") == part) theirs.push_back({{rope.at("first"), rope.at("layers")}, &rope});
  }
  if (ours.size() != theirs.size()) {
    return {"'" + part + "' has " + std::to_string(ours.size()) + " ropes, not " + std::to_string(theirs.size())};
  }
  const auto in_order = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::stable_sort(ours.begin(), ours.end(), in_order);
  std::stable_sort(theirs.begin(), theirs.end(), in_order);
  Problems problems;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    Pair pair(model, *ours[i].second, *theirs[i].second);
    pair.compare();
    problems.insert(problems.end(), pair.problems.begin(), pair.problems.end());
  }
  return problems;
}

// ---- every record --------------------------------------------------------------------------------

// Returns "" if the config can be read, else the code and the sentence of the error.
std::string read(const Json& config, Model& model) {
  const tests::Outcome got = tests::outcome_of([&] { model = parse_config(config.dump()); });
  return got.refused ? got.text() : "";
}

std::set<std::string> parts_of(const Json& swept) {
  std::set<std::string> parts;
  for (const Json& each : swept) parts.insert(each.at("part"));
  return parts;
}
std::set<std::string> parts_of(const Record& record, const Model& model) {
  std::set<std::string> parts = parts_of(record.ropes);
  for (const ModelRope& rope : model.ropes) parts.insert(rope.part);
  return parts;
}

// Whether the sweep could run the part: nothing was measured of the others.
bool judged(const Record& record, const std::string& part) {
  return std::none_of(record.none.begin(), record.none.end(), [&part](const Json& none) {
    const std::string why = none.at("why");
    return none.at("part") == part && (why.starts_with("not answered") || why.starts_with("transformers does not run"));
  });
}

// The differences between a model and the record, without the exceptions.
Problems differences(const Record& record, const Model& model) {
  Problems problems;
  for (const std::string& part : parts_of(record, model)) {
    if (!judged(record, part) || exception_of(record, part) != nullptr) continue;
    const Problems more = compare(model, part, record);
    problems.insert(problems.end(), more.begin(), more.end());
  }
  return problems;
}

// Expects that problems(record) is empty for every record.
void expect_of_every_record(const std::function<Problems(const Record&)>& problems) {
  std::string text;
  std::size_t failing = 0;
  for (const Record& record : records()) {
    const Problems found = problems(record);
    if (found.empty()) continue;
    ++failing;
    text += record.name + ":\n";
    for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 4); ++i) text += "    " + found[i] + "\n";
  }
  EXPECT_GT(records().size(), 250u);
  EXPECT_EQ(failing, 0u) << text;
}

// A config may be refused if none of its parts has a rope: no Rope describes what it does.
bool may_be_refused(const Record& record) { return record.ropes.empty(); }

// The error of this config of the record, unless it may be refused, else its model's differences.
Problems problems_of(const Record& record, const Json& config) {
  Model model;
  const std::string error = read(config, model);
  if (error.empty()) return differences(record, model);
  return may_be_refused(record) ? Problems{} : Problems{error};
}

TEST(Sweep, every_config_has_the_ropes_and_the_rotation_of_its_model) {
  expect_of_every_record([](const Record& record) { return problems_of(record, record.config); });
}

// Files that lose more than class defaults with their rope keys, and what they lose.
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
    const Problems problems = problems_of(record, stripped(record.config));
    if (not_by_default.count(record.name) == 0) return problems;
    return problems.empty() ? Problems{"is said to differ and agrees"} : Problems{};
  });
}

// The config without the model_types of its sub-configs.
Json without_inner_types(Json json) {
  for (auto& [key, value] : json.items()) {
    if (!value.is_object()) continue;
    value.erase("model_type");
    value = without_inner_types(value);
  }
  return json;
}

TEST(Sweep, a_sub_config_without_a_model_type_is_what_its_parent_makes_of_it) {
  expect_of_every_record([](const Record& record) { return problems_of(record, without_inner_types(record.config)); });
}

// Calls visit(object, path) for every object of a config.
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

// Models whose class defaults transformers does not run: their swept configs have more keys, which are named here
// (files/models/sweep/cases.json).
const std::map<std::string, std::string> says_more = {
    {"dbrx", "attn_config, with key heads of its own"},
    {"lfm2_moe", "layer_types"},
};

TEST(Sweep, what_the_program_knows_without_a_file_is_what_the_class_makes_of_nothing) {
  const std::vector<KnownModel> known = known_models();
  expect_of_every_record([&known](const Record& record) -> Problems {
    if (record.flagged() || says_more.count(record.name) != 0) return {};
    Problems problems;
    const std::string model_type = record.config.value("model_type", record.config.value("_class_name", ""));
    const std::set<std::string> parts = parts_of(record.ropes), without = parts_of(record.none);
    for (const KnownModel& model : known) {
      const bool here = model.model_type == record.name && holds(record.config, model.part);
      if (here && !model.model.ropes.empty() && parts.count(model.part) + without.count(model.part) == 0) {
        problems.push_back("'" + model.part + "' is known and not swept");
      }
    }
    for (const std::string& part : parts) {
      const auto found = std::find_if(known.begin(), known.end(), [&](const KnownModel& model) {
        return model.model_type == model_type && model.part == part;
      });
      if (found == known.end()) {
        problems.push_back("'" + part + "' is not known");
        continue;
      }
      const Problems more = compare(found->model, part, record);
      problems.insert(problems.end(), more.begin(), more.end());
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
      EXPECT_FALSE(compare(model, part, record).empty())
          << record.name << " '" << part << "' is an exception (" << exception->reason << ") and agrees";
    }
  }
  EXPECT_GE(used, exceptions.size());
}

}  // namespace
}  // namespace rotary::sweep
