// Published configs with one thing changed for the worse: the answer is the same ropes, other ropes with a note that
// says why, or an error with a code. A rope key that was renamed or moved is never silently ignored, and no frequency
// is ever NaN.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "files/tests/config_helpers.h"

namespace rotary {
namespace {

using Json = nlohmann::ordered_json;
using Path = Json::json_pointer;

// The outcome of a reading: one line for each rope, the notes, where each value came from, or the code of the error.
struct Outcome {
  std::string code;
  std::vector<std::string> ropes;
  std::set<std::string> notes;
  std::set<std::string> origins;
};

std::string line_of(const ModelRope& model) {
  std::string line = model.part + " " + std::to_string(model.heads) + "/" + std::to_string(model.kv_heads) + " " +
                     std::to_string(model.rope.head_dim) + "+" + std::to_string(model.first) + " " +
                     name(model.rope.pairing);
  for (const int layer : model.layers) line += " " + std::to_string(layer);
  const auto add = [&line](double value) {
    if (!std::isfinite(value)) ADD_FAILURE() << line << ": " << value;
    line.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::vector<std::int64_t> lengths = {0};
  if (depends_on_length(model.rope.scaling)) lengths.push_back(1 << 24);
  for (const std::int64_t length : lengths) {
    const Frequencies f = frequencies(model.rope, length);
    for (const double inv_freq : f.inv_freq) add(inv_freq);
    for (const std::uint8_t axis : f.axis) line += static_cast<char>('0' + axis);
    add(f.attention_factor);
  }
  return line;
}

Outcome outcome_of(const Json& config) {
  Outcome outcome;
  try {
    const Model model = parse_config(config.dump());
    for (const ModelRope& rope : model.ropes) {
      outcome.ropes.push_back(line_of(rope));
      for (const ValueOrigin& value : rope.origins) {
        outcome.origins.insert(std::to_string(outcome.ropes.size()) + value.value + " " + value.origin.key);
      }
    }
    for (const Note& note : model.notes) outcome.notes.insert(sentence_of(note));
  } catch (const Error& e) {
    outcome.code = std::string(rotary::name(e.code()));
    EXPECT_FALSE(outcome.code.empty());
  }
  return outcome;
}

bool is_rope_name(const std::string& key) {
  if (key.find("hidden") != std::string::npos) return false;
  for (const char* word : {"rope", "rotary", "theta", "original_max_position"}) {
    if (key.find(word) != std::string::npos) return true;
  }
  return false;
}

// Whether the path is a rope key, or lies inside an object with such a name.
bool is_rope_key(const Path& path) {
  for (Path at = path; !at.empty(); at = at.parent_pointer()) {
    if (is_rope_name(at.back())) return true;
  }
  return false;
}

bool is_shape_key(const Path& path) {
  const std::string& key = path.back();
  for (const char* word : {"head", "hidden_size", "layer", "max_position", "model_type", "n_embd"}) {
    if (key.find(word) != std::string::npos) return true;
  }
  return false;
}

void erase(Json& config, const Path& path) { config.at(path.parent_pointer()).erase(path.back()); }

struct Published {
  std::string name;
  Json config;
  Outcome outcome;
};

const std::vector<Published>& published() {
  static const std::vector<Published> all = [] {
    std::vector<Published> configs;
    for (const auto& entry : std::filesystem::directory_iterator(test::golden("configs"))) {
      Json config = config_test::json_in<Json>(entry.path());
      if (config.dump().size() > 20000) continue;  // time
      Outcome outcome = outcome_of(config);
      configs.push_back({entry.path().filename(), std::move(config), std::move(outcome)});
    }
    std::sort(configs.begin(), configs.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return configs;
  }();
  return all;
}

// Calls visit(path) for the members of every object.
void walk(const Json& json, const Path& at, const std::function<void(const Path&)>& visit) {
  if (!json.is_object()) return;
  for (const auto& item : json.items()) {
    visit(at / item.key());
    walk(item.value(), at / item.key(), visit);
  }
}

// Calls change(a published config, the path of a member, a copy of its JSON) for every wanted member of every config.
void on_members(const std::function<bool(const Path&)>& wanted,
                const std::function<void(const Published&, const Path&, Json&)>& change) {
  for (const Published& was : published()) {
    walk(was.config, Path(), [&](const Path& path) {
      if (!wanted(path)) return;
      Json mutated = was.config;
      change(was, path, mutated);
    });
  }
}

bool says_more(const std::set<std::string>& now, const std::set<std::string>& before) {
  return !std::includes(before.begin(), before.end(), now.begin(), now.end());
}

// Whether the change had an error or a note as its answer, or changed no rope.
bool is_told(const Outcome& now, const Outcome& before) {
  return !now.code.empty() || now.ropes == before.ropes || says_more(now.notes, before.notes);
}

void expect_told(const Published& was, const Json& mutated, const std::string& what) {
  EXPECT_TRUE(is_told(outcome_of(mutated), was.outcome)) << was.name << ": " << what;
}

bool holds_models(const Path& path) { return path.back().ends_with("_config"); }

TEST(Mutations, a_published_config_is_read_without_an_error) {
  ASSERT_GT(published().size(), 80u);
  for (const Published& was : published()) EXPECT_EQ(was.outcome.code, "") << was.name;
}

bool is_rope_or_shape_key(const Path& path) { return is_rope_key(path) || is_shape_key(path); }

TEST(Mutations, a_key_that_is_left_out_is_told) {
  std::size_t nth = 0;
  on_members(is_rope_or_shape_key, [&](const Published& was, const Path& path, Json& mutated) {
    if (nth++ % 2 == 0) return;                                       // every second one: all would take too long
    if (path.back() == "rope_scaling" || holds_models(path)) return;  // nothing is scaled, or another model
    erase(mutated, path);
    const Outcome now = outcome_of(mutated);
    EXPECT_TRUE(is_told(now, was.outcome) || says_more(now.origins, was.outcome.origins))
        << was.name << ": without " << path.to_string();
  });
}

// The key with one letter changed, missing or doubled, or with two letters swapped.
std::string misspelt(const std::string& key, std::size_t nth) {
  std::string wrong = key;
  const std::size_t at = (nth * 7 + key.size()) % (key.size() - 1);
  switch (nth % 4) {
    case 0:
      wrong[at] = wrong[at] == 'x' ? 'y' : 'x';
      break;
    case 1:
      wrong.erase(at, 1);
      break;
    case 2:
      wrong.insert(at, 1, wrong[at]);
      break;
    default:
      std::swap(wrong[at], wrong[at + 1]);
  }
  return wrong;
}

TEST(Mutations, a_rope_key_that_is_misspelt_is_refused_or_said_nothing) {
  std::size_t nth = 0;
  on_members(is_rope_key, [&](const Published& was, const Path& path, Json& mutated) {
    if (path.back().size() == 1) return;
    const std::string wrong = misspelt(path.back(), nth++);
    if (wrong == path.back()) return;
    mutated.at(path.parent_pointer())[wrong] = was.config.at(path);
    erase(mutated, path);
    const Outcome now = outcome_of(mutated);
    EXPECT_TRUE(!now.code.empty() || now.ropes == was.outcome.ropes)
        << was.name << ": " << path.to_string() << " as " << wrong;
  });
}

Json of_another_type(const Json& value, std::size_t nth) {
  const Json others[] = {Json("text"), Json(true), Json::array({1, 2}), Json{{"key", 1}}, Json(-3), Json(1e300)};
  for (std::size_t i = nth;; ++i) {
    const Json& other = others[i % std::size(others)];
    if (other.type() != value.type()) return other;
  }
}

TEST(Mutations, a_value_of_another_type_is_refused_or_told) {
  std::size_t nth = 0;
  on_members(is_rope_or_shape_key, [&](const Published& was, const Path& path, Json& mutated) {
    if (holds_models(path) || nth++ % 2 == 0) return;  // time
    mutated.at(path) = of_another_type(was.config.at(path), nth++);
    EXPECT_TRUE(is_told(outcome_of(mutated), was.outcome) || mutated.at(path).is_number())  // it may be a good one
        << was.name << ": " << path.to_string() << " = " << mutated.at(path);
  });
}

TEST(Mutations, a_rope_key_one_level_too_high_is_refused_or_told) {
  on_members(is_rope_key, [](const Published& was, const Path& path, Json& mutated) {
    const Path holder = path.parent_pointer();
    if (holder.empty() || was.config.at(holder.parent_pointer()).contains(path.back())) return;
    mutated.at(holder.parent_pointer())[path.back()] = was.config.at(path);
    erase(mutated, path);
    expect_told(was, mutated, path.to_string() + " one level up");
  });
}

TEST(Mutations, a_rope_key_one_level_too_low_is_refused_or_told) {
  on_members(is_rope_key, [](const Published& was, const Path& path, Json& mutated) {
    mutated.at(path.parent_pointer())["more"] = Json{{path.back(), was.config.at(path)}};
    erase(mutated, path);
    expect_told(was, mutated, path.to_string() + " one level down");
  });
}

TEST(Mutations, a_sub_config_that_stands_twice_does_no_harm) {
  on_members(
      [](const Path&) { return true; },
      [](const Published& was, const Path& path, Json& mutated) {
        if (!was.config.at(path).is_object()) return;
        mutated.at(path.parent_pointer())["second_" + path.back()] = was.config.at(path);
        const Outcome now = outcome_of(mutated);
        for (const std::string& rope : was.outcome.ropes) {
          EXPECT_TRUE(!now.code.empty() || std::find(now.ropes.begin(), now.ropes.end(), rope) != now.ropes.end())
              << was.name << ": " << path.to_string() << " twice";
        }
      });
}

}  // namespace
}  // namespace rotary
