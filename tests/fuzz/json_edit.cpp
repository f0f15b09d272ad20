// Any JSON object: a member that is set is read back and changes no other; one that was added and is removed leaves the
// text as it was.
#include "files/text/json_edit.h"

#include "files/text/json.h"
#include "fuzz.h"

namespace rotary::fuzz {
namespace {

using files::Json;

void edit(const std::string& input, const Json& json, const files::JsonPath& path) {
  const Json* object = &json;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    const auto inner = object->find(path[i]);
    if (inner == object->end() || !inner->is_object()) return;
    object = &*inner;
  }
  const bool there = object->contains(path.back());
  const bool empty = object->empty();
  files::JsonText text(input);
  require(text.raw(path).has_value() == there, "a member is found where it is");
  text.set(path, "[7]");
  require(text.raw(path) == "[7]", "a member that is set is read back");
  Json wanted = json;
  Json* inner = &wanted;
  for (const std::string& key : path) inner = &(*inner)[key];
  *inner = Json::array({7});
  require(files::parse_json(text.text()) == wanted, "nothing else changes");
  text.remove(path);
  require(there || empty || text.text() == input, "what was added and is removed leaves no trace");
  require(!text.raw(path).has_value(), "a member that was removed is gone");
}

}  // namespace

std::vector<std::string> seeds() {
  return {R"({"a": 1, "key": [1, {"key": 2}], "inner": {"key": "}\"", "b": null}})",
          "{\n  \"model_type\": \"llama\",\n  \"inner\": {\n    \"x\": 1e-05\n  }\n}\n",
          R"({"__metadata__":{"format":"pt"},"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "{}",
          "{\"inner\":{}}"};
}

std::vector<std::string> words() {
  return {"\"key\":", "\"inner\":", "{",  "}",     "[",    "]",    ",",    ":",    "\\\"", "\\u006b",
          " ",        "\n",         "\t", "1e308", "-0.0", "null", "true", "\"\"", "\\\\"};
}

void one(const std::string& input) {
  Json json;
  try {
    json = files::parse_json(input);
  } catch (const Error&) {
    return;
  }
  if (!json.is_object()) return;
  for (const files::JsonPath& path : {files::JsonPath{"key"}, files::JsonPath{"inner", "key"}, files::JsonPath{"a"}})
    edit(input, json, path);
}

}  // namespace rotary::fuzz
