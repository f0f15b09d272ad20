// files/models/models.json: every row can be read, and every name refers to a row.
#include "models/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "files/tests/file_helpers.h"
#include "models/diffusers.h"
#include "models/families.h"
#include "text/json.h"

namespace rotary::files {
namespace {

std::string file_text() { return test::read_text(ROTARY_SOURCE_DIR "/files/models/models.json"); }

using Names = std::vector<std::string_view>;

Names names_of(const Json& object) {
  Names names;
  for (const auto& item : object.items()) names.push_back(item.key());
  return names;
}

TEST(ModelTable, every_row_of_the_file_reads) {
  const std::string text = file_text();
  const Json json = parse_json(text);  // no key twice
  const ModelTable table(text);
  EXPECT_EQ(names_of(json), (Names{"about", "architectures", "children", "counted", "data", "diffusers", "harmless",
                                   "harmless_if_false", "misnamed", "models", "our_names", "positions", "query_scales",
                                   "refused", "remote_models", "schema", "towers", "without_rope"}));
  for (const auto& [section, rows] : json.items()) {
    if (!rows.is_object()) continue;
    EXPECT_EQ(table.names(section), names_of(rows)) << section << " is not laid out in lines";
  }
  for (const std::string_view type : model_types()) {
    const Family* family = find_family(type);
    ASSERT_NE(family, nullptr) << type;
    EXPECT_EQ(family->type, type);
  }
  for (const std::string_view type : types_with_children()) {
    EXPECT_EQ(children_of(type).size(), json.at("children").at(std::string(type)).size()) << type;
  }
  for (const std::string_view type : table.names("architectures")) EXPECT_NE(find_architecture(type), nullptr) << type;
  for (const std::string_view type : table.names("positions")) EXPECT_TRUE(find_positions(type)) << type;
  for (const std::string_view type : diffusers_types()) EXPECT_EQ(find_diffusers(type)->type, type);
  for (const std::string_view type : refused_types()) EXPECT_NE(refusal(type), "");
  EXPECT_EQ(types_without_rope().size(), json.at("without_rope").size());
  for (const auto& [list, types] : json.at("counted").items()) {
    for (const auto& type : types) EXPECT_TRUE(find_positions(type.get<std::string>())) << list << " " << type;
  }
}

TEST(ModelTable, every_row_passes_the_checks_of_a_file_in_its_place) {
  EXPECT_EQ(read_sheet(file_text())->names("models"), ModelTable(file_text()).names("models"));
}

TEST(ModelTable, rows_are_sorted_and_say_only_what_differs) {
  const OrderedJson json = OrderedJson::parse(file_text());
  for (const char* section : {"models", "remote_models"}) {
    std::string before;
    for (const auto& [type, row] : json.at(section).items()) {
      EXPECT_LT(std::exchange(before, type), type);
      for (const auto& [name, value] : row.items()) {
        const bool empty = value == 0 || value == OrderedJson::object() || (value == "" && !name.ends_with("_key"));
        EXPECT_FALSE(empty) << type << "." << name;
      }
    }
  }
}

TEST(ModelTable, a_value_is_what_its_row_says) {
  const std::string text = R"({
"models": {
  "a": {"pairing": "interleaved", "shape": {"layers": 2, "heads": 3},
    "base": 5e5, "sections": [1, 2, 3], "rope_parameters": {"w": {"rope_type": "default"}, "x": {"y": [1, "}"]}},
    "pattern": {"types": ["sliding","full"],"first":"full"}, "quirk":"falcon", "tower":"pixtral", "comment": "no field",
    "attention": {"fused_where": [{"key": "k", "fused": "joined"}]}}
},
"children": {
  "p": {"text_config": "a", "vision_config": {"type": "a", "base": 2, "merged": true}}
}})";
  const ModelTable table(text);
  const Family& family = *table.find<Family>("models", "a");
  EXPECT_EQ(family.pairing, Pairing::interleaved);
  EXPECT_EQ(family.shape.layers, 2);
  EXPECT_EQ(family.shape.head_dim, 0);
  EXPECT_EQ(family.base, 5e5);
  EXPECT_EQ(family.sections, (std::array<int, 4>{1, 2, 3}));
  EXPECT_EQ(family.rope_parameters, R"({"w": {"rope_type": "default"}, "x": {"y": [1, "}"]}})");
  EXPECT_EQ(family.pattern.first, LayerKind::full);
  EXPECT_EQ(family.base_key, std::vector<std::string_view>{"rope_theta"});
  EXPECT_EQ(family.attention.fused_where.at(0).fused, Fused::joined);
  EXPECT_EQ(table.find<Family>("models", "a"), &family);
  EXPECT_EQ(table.find<Family>("models", "b"), nullptr);
  const auto& children = *table.find<std::vector<Child>>("children", "p");
  ASSERT_EQ(children.size(), 2u);
  EXPECT_EQ(children[0].type, "a");
  EXPECT_EQ(children[1].base, 2);
}

}  // namespace
}  // namespace rotary::files
