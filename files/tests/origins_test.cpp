// The origin of every value of a rope: a law that holds for all golden configs, those of the sweep, and a GGUF file.
// (The origins in single configs are in files/tests/golden/readings.txt.)
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "files/tests/config_helpers.h"
#include "rotary/config.h"
#include "values/scaling_fields.h"

namespace rotary::origin_tests {
namespace {

using Json = nlohmann::json;

std::map<std::string, Json> all_configs() {
  std::map<std::string, Json> configs;
  for (const char* folder : {"configs", "sweep"}) {
    for (const auto& entry : std::filesystem::directory_iterator(test::golden(folder))) {
      if (entry.path().extension() != ".json") continue;
      Json json = config_test::json_in(entry.path());
      configs[entry.path().string()] = json.contains("config") ? json["config"] : json;
    }
  }
  return configs;
}

// Returns nothing if the reader refuses the config.
std::optional<Model> model_of(const Json& config) {
  try {
    return parse_config(config.dump());
  } catch (const Error&) {
    return std::nullopt;
  }
}

// "text_config.rope_scaling.factor" as /text_config/rope_scaling/factor.
Json::json_pointer pointer_to(std::string path) {
  std::replace(path.begin(), path.end(), '.', '/');
  return Json::json_pointer("/" + path);
}

template <typename T>
std::optional<double> as_number(const T& value) {
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::int64_t>) {
    return static_cast<double>(value);
  } else {
    return std::nullopt;
  }
}

// Adds the values of a scaling by the names that origins have. A value that is not given, or is the default where
// transformers has no key for it, need not have an origin.
template <typename S>
void add_scaling(std::map<std::string, std::optional<double>>& values, const S& scaling) {
  const S default_value;
  scalings::for_each_field(scaling, [&](const auto& field, const auto& value) {
    using Value = std::decay_t<decltype(value)>;
    const bool may_lack_one =
        std::is_same_v<Value, std::optional<double>> ||
        (field.reads.key_of != scalings::KeyOf::transformers && value == default_value.*field.member);
    if (!may_lack_one) values[std::string("scaling.") + field.name] = as_number(value);
  });
}

std::map<std::string, std::optional<double>> values_of(const Model& model, const ModelRope& used) {
  std::map<std::string, std::optional<double>> values = {
      {"layers", std::nullopt},         {"heads", used.heads},     {"kv_heads", used.kv_heads},
      {"head_dim", used.rope.head_dim}, {"pairing", std::nullopt}, {"rotary_dim", used.rope.rotary_dim},
      {"base", used.rope.base},         {"scaling", std::nullopt}, {"attention_factor", std::nullopt}};
  if (used.first != 0) values["first"] = used.first;
  const std::int64_t context = part_of(model, used.part).context;
  if (context != 0) values["context"] = static_cast<double>(context);
  if (!used.rope.axis.empty()) values["axis"] = std::nullopt;
  std::visit([&](const auto& method) { add_scaling(values, method); }, used.rope.scaling);
  return values;
}

void expect_every_value_once(const Model& model, const ModelRope& used) {
  std::set<std::string> names;
  for (const ValueOrigin& known : used.origins) {
    EXPECT_TRUE(names.insert(known.value).second) << known.value << " has two origins";
    EXPECT_FALSE(known.origin.key.empty()) << known.value;
  }
  for (const auto& [value, number] : values_of(model, used))
    EXPECT_TRUE(names.count(value) != 0) << value << " has no origin";
}

void expect_given_keys_hold(const Model& model, const ModelRope& used, const Json& config) {
  const auto values = values_of(model, used);
  for (const ValueOrigin& known : used.origins) {
    if (known.origin.kind != OriginKind::given) continue;
    const std::string& key = known.origin.key;
    ASSERT_TRUE(config.contains(pointer_to(key))) << known.value << ": " << key;
    const Json& there = config.at(pointer_to(key));
    EXPECT_FALSE(there.is_null()) << known.value << ": " << key;
    const auto number = values.find(known.value);
    if (!there.is_number() || number == values.end() || !number->second) continue;
    EXPECT_EQ(there.get<double>(), *number->second) << known.value << ": " << key;
  }
}

TEST(OriginLaws, every_value_has_one_origin_and_given_keys_hold_it) {
  int ropes = 0;
  for (const auto& [file, config] : all_configs()) {
    SCOPED_TRACE(file);
    const auto model = model_of(config);
    for (const ModelRope& used : model ? model->ropes : std::vector<ModelRope>{}) {
      SCOPED_TRACE("part \"" + used.part + "\"");
      expect_every_value_once(*model, used);
      expect_given_keys_hold(*model, used, config);
      ++ropes;
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(test::golden("gguf"))) {
    if (entry.path().extension() != ".gguf") continue;
    SCOPED_TRACE(entry.path());
    const Model model = read_config(entry.path());
    for (const ModelRope& used : model.ropes) expect_every_value_once(model, used);
  }
  EXPECT_GT(ropes, 100);
}

// ---- names, and a GGUF file ----

TEST(Origins, of_a_gguf_name_its_keys) {
  using namespace test;
  const auto f32 = [](const char* key, float value) { return gguf_key(key, 6, gguf_value(value)); };
  const std::string more = f32("qwen3.rope.freq_base", 1e6F) + gguf_number("qwen3.attention.key_length", 16) +
                           gguf_key("qwen3.rope.scaling.type", 8, gguf_text("yarn")) +
                           f32("qwen3.rope.scaling.factor", 4) + gguf_number("qwen3.context_length", 1024);
  const ScratchFolder folder;
  write_text(folder / "model.gguf", gguf_file("qwen3", 5, more));
  const Model model = read_config(folder / "model.gguf");
  std::string listed = "\n";
  for (const ValueOrigin& known : config_test::only(model).origins)
    listed += known.value + " | " + name(known.origin.kind) + " | " + known.origin.key + "\n";
  EXPECT_EQ(listed, R"(
layers | given | qwen3.block_count
heads | given | qwen3.attention.head_count
kv_heads | given | qwen3.attention.head_count_kv
head_dim | given | qwen3.attention.key_length
rotary_dim | derived | head_dim
pairing | default | qwen3
base | given | qwen3.rope.freq_base
scaling | given | qwen3.rope.scaling.type
scaling.factor | given | qwen3.rope.scaling.factor
scaling.trained_length | given | qwen3.context_length
scaling.beta_fast | default | qwen3
scaling.beta_slow | default | qwen3
scaling.truncate | default | qwen3
attention_factor | derived | 0.1 * ln(factor) + 1
context | given | qwen3.context_length
)");
}

TEST(Origins, have_the_words_of_the_contract) {
  const auto words = [](OriginKind kind) { return std::string(name(kind)) + " " + origin_word(kind); };
  EXPECT_EQ(words(OriginKind::given), "given given");
  EXPECT_EQ(words(OriginKind::chosen), "chosen given");
  EXPECT_EQ(words(OriginKind::weights), "weights given");
  EXPECT_EQ(words(OriginKind::model_default), "default default");
  EXPECT_EQ(words(OriginKind::method_default), "method_default default");
  EXPECT_EQ(words(OriginKind::published), "published derived");
  EXPECT_EQ(words(OriginKind::derived), "derived derived");
}

TEST(Notes, are_about_the_ropes_of_their_layers) {
  const std::vector<std::string> types = {"sliding", "full"}, other = {"chunked"}, none;
  const Note note{"", NoteKind::model, "x", "full"}, whole{"", NoteKind::model, "x", ""};
  EXPECT_TRUE(is_about(note, types) && is_about(note, none) && is_about(whole, other));
  EXPECT_FALSE(is_about(note, other));
}

}  // namespace
}  // namespace rotary::origin_tests
