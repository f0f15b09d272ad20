// rotary golden: what the tests of another implementation compare with, as a C header or JSON.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "files/text/io.h"
#include "files/text/paths.h"
#include "rotary/config.h"
#include "rotary/positions.h"
#include "source.h"
#include "stamp.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;
using Sizes = std::vector<std::int64_t>;

struct GoldenOptions {
  Source source;
  std::optional<std::int64_t> heads;  // none: 2, or as many as the rope has rows for
  bool backward = false;
  std::filesystem::path output;
  bool json = false;
};

// Near 0, one in each decade, and the last of the context, where errors of the angles are largest. Each axis has them
// in another order, so that no axis can be taken for another.
PositionSet usual_positions(const Model& model, const ModelRope& used) {
  std::int64_t context = part_of(model, used.part).context;
  if (context == 0) context = used.coordinates ? 64 : 4096;
  Sizes places = {0, 1, 2, 3};
  for (std::int64_t place = 10; place < context - 1; place *= 10) places.push_back(place);
  if (context > 5) places.push_back(context - 1);
  PositionSet set;
  set.axes = tools::axes_of(used.rope);
  set.tokens = std::ssize(places);
  for (int axis = 0; axis < set.axes; ++axis) {
    set.integers.insert(set.integers.end(), places.begin(), places.end());
    std::rotate(places.begin(), places.begin() + 1, places.end());
  }
  return set;
}

// ---- the numbers ---------------------------------------------------------------------------------

// Nested lists, as the shape says; a number where it is empty.
template <class Values>
Json nested(const Sizes& shape, const Values& values) {
  std::vector<Json> items(values.begin(), values.end());
  for (std::size_t d = shape.size(); d-- > 0;) {
    std::vector<Json> lists;
    for (auto at = items.begin(); at != items.end(); at += shape[d]) lists.emplace_back(std::vector(at, at + shape[d]));
    items = std::move(lists);
  }
  return items.front();
}

Sizes shape_of(const Json& array) {
  Sizes shape;
  for (const Json* at = &array; at->is_array(); at = &at->front()) shape.push_back(std::ssize(*at));
  return shape;
}

// Multiples of 1/64 in [-1, 1], the same in f32, f16 and bf16.
std::vector<float> some_values(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint64_t state = 1;
  for (float& value : values) {
    state = state * 48271 % 2147483647;
    value = static_cast<float>(static_cast<int>(state % 129) - 64) / 64;
  }
  return values;
}

// The largest angle of a token; each term of a sum counts without its sign.
double largest_angle(const Frequencies& turns, const PositionSet& positions, std::size_t token) {
  const auto pairs = static_cast<std::size_t>(turns.pairs());
  const std::size_t axes = turns.summed_axes > 1 ? static_cast<std::size_t>(turns.summed_axes) : 1;
  std::vector<double> angles(static_cast<std::size_t>(turns.heads) * pairs);
  for (std::size_t i = 0; i < turns.inv_freq.size(); ++i) {  // [heads, axes, pairs]
    const std::size_t pair = i % pairs, own = turns.axis.empty() ? 0 : static_cast<std::size_t>(turns.axis[pair]);
    const double position = positions.value(axes > 1 ? i / pairs % axes : own, 0, token);
    angles[i / pairs / axes * pairs + pair] += std::abs(position * turns.inv_freq[i]);
  }
  return std::ranges::max(angles);
}

// The largest |got - rotated| of an implementation that is right; u is the unit roundoff of a type.
void add_tolerances(Json& arrays, const Frequencies& turns, const PositionSet& positions) {
  constexpr double u32 = 0x1p-24, u16 = 0x1p-11, ubf16 = 0x1p-8;
  const double amplitude = std::sqrt(2.0) * std::abs(turns.attention_factor);  // of a rotated element
  // cos and sin (2 ulps of a libm), two products and a sum, there; half of it here; fused or not.
  const double f32 = 8 * u32 * amplitude;
  arrays["tolerance_f32"] = f32;
  // Every one of four steps rounded to the type: cos or sin, its attention factor, the product, the sum.
  arrays["tolerance_f16"] = 4 * u16 * amplitude + f32;
  arrays["tolerance_bf16"] = 4 * ubf16 * amplitude + f32;
  // An angle of float32 steps: two for the frequency, one for the position, one for their product; one for each sum.
  const int steps = 4 + std::max(0, turns.summed_axes - 1);
  Json& float32_angles = arrays["tolerance_float32_angles"] = Json::array();
  for (std::size_t token = 0; token < static_cast<std::size_t>(positions.tokens); ++token)
    float32_angles.push_back(std::min(steps * u32 * largest_angle(turns, positions, token), 2.0) * amplitude + f32);
}

// Each array of the file by its name.
Json arrays_of(const GoldenOptions& options, const ModelRope& used, const Frequencies& turns,
               const PositionSet& positions) {
  const Table table(turns, positions.view());
  const std::int64_t tokens = table.tokens(), pairs = table.pairs(), rows = table.heads(),
                     heads = options.heads.value_or(rows > 1 ? rows : 2), axes = std::max(1, turns.summed_axes);
  const Sizes placed = {positions.axes, tokens}, vectors = {tokens, heads, used.rope.head_dim};
  const Sizes row = rows > 1 ? Sizes{tokens, rows, pairs} : Sizes{tokens, pairs};
  const std::vector<float> x = some_values(tokens * heads * used.rope.head_dim);
  std::vector<float> rotated = x;
  RotateOptions how;
  how.first = used.first;
  how.direction = options.backward ? Direction::backward : Direction::forward;
  rotate({rotated.data(), DType::f32, thd(tokens, heads, used.rope.head_dim)}, table, how);

  Json arrays;
  arrays["inv_freq"] = nested(rows > 1   ? Sizes{rows, axes, pairs}
                              : axes > 1 ? Sizes{axes, pairs}
                                         : Sizes{pairs},
                              turns.inv_freq);
  std::vector<std::int32_t> axis(turns.axis.begin(), turns.axis.end());
  axis.resize(static_cast<std::size_t>(pairs));
  if (turns.summed_axes == 0) arrays["axis"] = axis;
  arrays["attention_factor"] = turns.attention_factor;
  arrays["positions"] = positions.reals.empty() ? nested(placed, positions.integers) : nested(placed, positions.reals);
  arrays["cos"] = nested(row, table.cos());
  arrays["sin"] = nested(row, table.sin());
  arrays["x"] = nested(vectors, x);
  arrays["rotated"] = nested(vectors, rotated);
  add_tolerances(arrays, turns, positions);
  return arrays;
}

// ---- the C header --------------------------------------------------------------------------------

// The stem of the file's name as an identifier: what all names of the header begin with.
std::string identifier(const std::filesystem::path& path) {
  std::string word = files::path_text(path.stem());
  for (char& c : word) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 || static_cast<unsigned char>(c) > 127) c = '_';
  }
  return word.empty() || std::isdigit(static_cast<unsigned char>(word.front())) != 0 ? "golden_" + word : word;
}

// The elements, with commas between them: C and C++ read one pair of braces in order.
std::string c_elements(const Json& array, bool is_float) {
  if (!array.is_array() && !is_float) return array.dump();
  if (!array.is_array()) {
    const std::string number = shortest(array.get<float>());
    return number + (number.find_first_of(".e") == std::string::npos ? ".0f" : "f");
  }
  std::string text;
  for (const Json& item : array) text += (text.empty() ? "" : ", ") + c_elements(item, is_float);
  return text;
}

std::string c_array(const std::string& prefix, const std::string& name, const Json& array) {
  const bool is_float = name == "cos" || name == "sin" || name == "x" || name == "rotated";
  const std::string elements = c_elements(array, is_float);
  const bool integers = elements.find_first_of(".e") == std::string::npos;
  const std::string type = is_float ? "float" : name == "axis" ? "int32_t" : integers ? "int64_t" : "double";
  const std::string named = "static const " + type + " " + prefix + "_" + name;
  if (!array.is_array()) return named + " = " + elements + ";\n";
  std::int64_t count = 1;
  for (const std::int64_t size : shape_of(array)) count *= size;
  return "/* " + shape_text(shape_of(array)) + " */\n" + named + "[" + std::to_string(count) + "] = {\n    " +
         wrapped(elements, 4, 120) + "};\n";
}

std::string c_header(const std::filesystem::path& path, const Metadata& facts, const Json& arrays, int first) {
  const std::string prefix = identifier(path);
  std::string text = "/* By `rotary golden`. Arrays are row-major; docs/embedding.md.\n";
  for (const auto& [key, value] : facts) {
    if (value.empty()) continue;
    std::string shown = printable(value);  // in a comment
    for (std::size_t at = 0; (at = shown.find("*/", at)) != std::string::npos;) shown.replace(at, 2, "* /");
    text += " * " + key + ": " + shown + "\n";
  }
  text += " */\n#ifndef " + prefix + "_H\n#define " + prefix + "_H\n\n#include <stdint.h>\n\nenum {\n";
  const Sizes x = shape_of(arrays["x"]);
  const std::vector<std::pair<const char*, std::int64_t>> counts = {{"tokens", x[0]},
                                                                    {"heads", x[1]},
                                                                    {"head_dim", x[2]},
                                                                    {"first", first},
                                                                    {"pairs", shape_of(arrays["cos"]).back()},
                                                                    {"axes", shape_of(arrays["positions"])[0]}};
  for (const auto& [name, count] : counts) text += "  " + prefix + "_" + name + " = " + std::to_string(count) + ",\n";
  text += "};\n";
  for (const auto& [name, array] : arrays.items()) text += "\n" + c_array(prefix, name, array);
  return text + "\n#endif\n";
}

void run(const GoldenOptions& options) {
  const std::string output = files::path_text(options.output);
  const bool header = options.output.extension() == ".h";
  if (!header && options.output.extension() != ".json")
    fail(Code::FORMAT, "golden", "the output must end in .h or .json but got '", output, "'");
  check_output(options.output);
  const Model model = read_model(options.source, options.source.head_dim.value_or(0));
  const ModelRope& used = chosen_rope(model, options.source);
  Choice choice = options.source;
  if (!choice.positions) choice.positions = usual_positions(model, used);
  tools::Subject subject = tools::subject_of(model, choice);
  const PositionSet& positions = subject.positions.emplace(positions_of("golden", choice, model, used));
  if (positions.open_from || positions.batch != 1 || positions.tokens == 0) {
    fail(Code::POSITION, "golden", "--positions must list positions, in one batch row and with an end, but got '",
         positions.spec.value_or(""), "'");
  }
  const std::int64_t length = subject.length_for(0);
  const Frequencies turns = frequencies_of(options.source, model, used, length);
  const Json arrays = arrays_of(options, used, turns, positions);

  Metadata facts = metadata_of(options.source, {}, model, subject, turns, length);
  facts["rotated"] = options.backward ? "backward" : "forward";
  Json object = {{"golden", facts}};
  object.update(arrays);
  files::write_whole("golden", options.output,
                     header ? c_header(options.output, facts, arrays, used.first) : versioned(object) + "\n");
  std::vector<std::string> notes = notes_of_use(model, subject);
  notes.insert(notes.begin(), describe(model, used, turns));
  if (used.coordinates && !options.source.positions)
    notes.push_back("note: these positions are made up: 'rotary positions' makes the coordinates that the model has");
  if (options.json) {
    std::cout << versioned({{"output", output}, {"golden", facts}, {"notes", notes}}) << '\n';
    return;
  }
  for (const std::string& note : notes) std::cout << printable(note) << '\n';
  std::cout << "wrote " << printable(output) << ": rotated " << shape_text(shape_of(arrays["rotated"]))
            << ", positions " << shape_text(shape_of(arrays["positions"])) << '\n';
}

}  // namespace

void add_golden(Command& command) {
  auto options = std::make_shared<GoldenOptions>();
  add_source_options(command, options->source);
  command.option("--head-dim", options->source.head_dim);
  add_positions_options(command, options->source);
  command.option("--output", options->output);
  command.option("--heads", options->heads);
  command.option("--backward", options->backward);
  command.option("--json", options->json);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
