// Configs are read as files/tests/golden/readings.txt says, which has cases of a name, a config and its whole reading.
// The numbers there were compared with transformers' own modules (float32), vLLM's and published ones when they were
// written. ROTARY_WRITE_READINGS=1 writes the file anew, for a change that is meant: git diff shows what it changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "files/tests/file_helpers.h"
#include "rotary/config.h"
#include "text/io.h"
#include "values/number_text.h"
#include "values/scaling_fields.h"

namespace rotary {
namespace {

std::string to_text(double value) { return detail::significant(value, 15); }
std::string to_text(std::int64_t value) { return std::to_string(value); }
std::string to_text(bool value) { return value ? "true" : "false"; }
std::string to_text(const std::vector<double>& list) {
  return std::to_string(list.size()) + " values from " + to_text(list.front()) + " to " + to_text(list.back());
}

std::string without_commas(std::string text) {
  std::erase(text, ',');
  return text;
}
std::string to_text(const std::vector<int>& layers) { return without_commas(files::ranges(layers)); }  // "0-4 6"
std::string to_text(const std::vector<std::string>& words) { return without_commas(files::listed(words)); }

void add_frequencies(std::string& text, const Rope& rope, std::int64_t length) {
  const Frequencies f = frequencies(rope, length);
  text += length == 0 ? "  inv_freq" : "  at " + std::to_string(length);
  const std::size_t last = f.inv_freq.size() - 1;
  for (const std::size_t pair :
       std::set<std::size_t>{0, std::min<std::size_t>(1, last), last / 4, last / 2, 3 * last / 4, last}) {
    text += " " + std::to_string(pair) + ":" + to_text(f.inv_freq[pair]);
  }
  text += ", attention factor " + to_text(f.attention_factor) + "\n";
}

std::string to_text(const Model& model, const ModelRope& used) {
  const ModelPart& part = part_of(model, used.part);
  const std::vector<int> without = layers_without_rope(model, used.part);
  const std::vector<std::string> types = layer_types_of(model, used);
  const Rope& rope = used.rope;
  std::string text = "  rope \"" + used.part + "\" layers " + to_text(used.layers);
  if (!without.empty()) text += ", none " + to_text(without);
  if (!types.empty()) text += ", types " + to_text(types);
  text += ", model_type " + part.model_type + (used.coordinates ? ", coordinates\n" : "\n");
  text += "  heads " + std::to_string(used.heads) + "/" + std::to_string(used.kv_heads) + " of " +
          std::to_string(rope.head_dim) + ", " + std::to_string(rope.rotary_dim) + " from " +
          std::to_string(used.first) + ", " + name(rope.pairing) + (rope.clockwise ? " clockwise" : "") + ", base " +
          to_text(rope.base) + ", context " + std::to_string(part.context);
  if (rope.exponent_dim != 0) text += ", exponent_dim " + std::to_string(rope.exponent_dim);
  text += "\n  " + std::string(name(rope.scaling));
  scalings::for_each_stated(
      rope.scaling, [](const auto& field) { return scalings::is_always_stated(field); },
      [&](const auto& field, const auto& value) { text += std::string(" ") + field.name + " " + to_text(value); });
  text += "\n";
  if (!rope.axis.empty()) {
    text += "  axes (" + to_text(used.axis_names) + ") ";
    for (const std::uint8_t axis : rope.axis) text += static_cast<char>('0' + axis);
    text += "\n";
  }
  add_frequencies(text, rope, 0);
  if (depends_on_length(rope.scaling)) add_frequencies(text, rope, 300000);
  text += "  from";
  for (const ValueOrigin& known : used.origins) {
    text += std::string(" [") + known.value + " " + name(known.origin.kind) + ": " + known.origin.key + "]";
  }
  return text + "\n";
}

struct Case {
  std::string config;  // JSON, or "file NAME" below files/tests/golden
  ConfigOptions options;
};

std::string reading_of(const Case& asked) {
  try {
    const bool file = asked.config.starts_with("file ");
    const Model model = file ? read_config(test::golden(asked.config.substr(5)), asked.options)
                             : parse_config(asked.config, asked.options);
    std::string text = "  model_type " + model.model_type + "\n";
    for (const ModelRope& rope : model.ropes) text += to_text(model, rope);
    for (const Note& note : model.notes)
      text += "  note " + std::string(name(note.kind)) + " " + sentence_of(note) + "\n";
    return text;
  } catch (const Error& error) {
    return std::string("  ") + name(error.code()) + " " + error.what() + "\n";
  }
}

// Lines of a case: "= " a name, "pairing ...", "class_defaults" options, then the config; its reading is indented.
TEST(Readings, are_those_of_the_file) {
  std::ifstream file(test::golden("readings.txt"));
  ASSERT_TRUE(file.is_open());
  std::string again, name, expected;
  Case asked;
  int cases = 0;
  const auto settle = [&] {
    if (asked.config.empty()) return;
    const std::string read = reading_of(asked);
    EXPECT_EQ(read, expected) << name << ": " << asked.config;
    again += read;
    ++cases;
    asked = {};
    expected.clear();
  };
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("  ")) {
      expected += line + "\n";
      continue;
    }
    settle();
    again += line + "\n";
    if (line.starts_with("= ")) {
      name = line.substr(2);
    } else if (line.starts_with("pairing ")) {
      asked.options.pairing = parse_pairing(std::string_view(line).substr(8));
    } else if (line.starts_with("model_type ")) {
      asked.options.model_type = line.substr(11);
    } else if (line == "class_defaults") {
      asked.options.class_defaults = true;
    } else if (line == "sets_base") {
      asked.options.sets_base = true;
    } else if (!line.empty() && !line.starts_with("#")) {
      asked.config = line;
    }
  }
  settle();
  EXPECT_GT(cases, 300);
  if (std::getenv("ROTARY_WRITE_READINGS") != nullptr) std::ofstream(test::golden("readings.txt")) << again;
}

}  // namespace
}  // namespace rotary
