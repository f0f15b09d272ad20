// Changes in the text of a JSON object leave every other byte.
#include <gtest/gtest.h>

#include "files/text/json_edit.h"

namespace rotary::files {
namespace {

const std::string lines = R"({
  "model_type": "llama",
  "eps": 1e-05,
  "big": 12345678901234567890123,
  "text \"quoted\" {": "a } , \" ] b",
  "rope_scaling": null,
  "inner": {
    "list": [1, [2, "]"], {"a": 1}],
    "last": true
  }
})";

TEST(JsonText, reads_values_as_they_are_spelled) {
  const JsonText text(lines);
  EXPECT_EQ(text.raw({"eps"}), "1e-05");
  EXPECT_EQ(text.raw({"big"}), "12345678901234567890123");
  EXPECT_EQ(text.raw({"text \"quoted\" {"}), R"("a } , \" ] b")");
  EXPECT_EQ(text.raw({"inner", "list"}), R"([1, [2, "]"], {"a": 1}])");
  EXPECT_EQ(text.raw({"inner", "none"}), std::nullopt);
  EXPECT_EQ(text.raw({"eps", "none"}), std::nullopt);
}

TEST(JsonText, replaces_a_value_and_nothing_else) {
  JsonText text(lines);
  text.set_object({"rope_scaling"}, {{"rope_type", "\"yarn\""}, {"factor", "4.0"}});
  std::string wanted = lines;
  wanted.replace(wanted.find("null"), 4, "{\n    \"rope_type\": \"yarn\",\n    \"factor\": 4.0\n  }");
  EXPECT_EQ(text.text(), wanted);
}

TEST(JsonText, adds_a_member_behind_the_last_with_its_margin) {
  JsonText text(lines);
  text.set({"inner", "new"}, "7");
  std::string wanted = lines;
  wanted.insert(wanted.find("true") + 4, ",\n    \"new\": 7");
  EXPECT_EQ(text.text(), wanted);
  text.remove({"inner", "new"});
  EXPECT_EQ(text.text(), lines);
}

TEST(JsonText, removes_members_at_every_place) {
  JsonText first(R"({"a": 1, "b": 2, "c": 3})"), middle = first, last = first, all = first;
  first.remove({"a"});
  EXPECT_EQ(first.text(), R"({"b": 2, "c": 3})");
  middle.remove({"b"});
  EXPECT_EQ(middle.text(), R"({"a": 1, "c": 3})");
  last.remove({"c"});
  EXPECT_EQ(last.text(), R"({"a": 1, "b": 2})");
  for (const char* key : {"a", "b", "c", "d"}) all.remove({key});
  EXPECT_EQ(all.text(), "{}");
}

TEST(JsonText, keeps_a_file_of_one_line_on_one_line) {
  JsonText text(R"({"a": {}, "b": 2})");
  text.set_object({"c"}, {{"d", "1"}, {"e", "{}"}});
  text.set({"a", "x"}, "9");
  EXPECT_EQ(text.text(), R"({"a": {"x": 9}, "b": 2, "c": {"d": 1, "e": {}}})");
}

TEST(JsonText, keeps_the_line_ends_of_the_file) {
  JsonText text("{\r\n  \"a\": {}\r\n}\r\n");
  text.set_object({"b"}, {{"c", "1"}});
  text.set({"a", "d"}, "2");
  EXPECT_EQ(text.text(), "{\r\n  \"a\": {\r\n    \"d\": 2\r\n  },\r\n  \"b\": {\r\n    \"c\": 1\r\n  }\r\n}\r\n");
}

TEST(JsonText, writes_into_an_empty_object) {
  JsonText text("{\n  \"a\": {}\n}\n");
  text.set({"a", "b"}, "1");
  EXPECT_EQ(text.text(), "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n");
}

TEST(JsonText, knows_a_key_by_its_name_not_by_its_spelling) {
  JsonText text(R"({"r\u006fpe": 1})");
  EXPECT_EQ(text.raw({"rope"}), "1");
  text.set({"rope"}, "2");
  EXPECT_EQ(text.text(), R"({"r\u006fpe": 2})");
}

}  // namespace
}  // namespace rotary::files
