// rotary golden: test vectors for another implementation, as a C header or JSON.
#include <algorithm>
#include <cctype>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "shared/command.h"
#include "shared/tensors.h"
#include "shared/text.h"
#include "source.h"
#include "stamp.h"
#include "subject/rotation.h"
#include "text/paths.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;
using Sizes = std::vector<std::int64_t>;

struct GoldenOptions : RopeFileOptions {
  std::optional<std::int64_t> heads;  // default: 2, or the rows of a rope with rows per head
  bool backward = false;
};

// Positions near 0, one in each decade, and the last of the context, where errors of angles are largest. Each axis has
// them in another order, so that exchanged axes are found.
PositionSet usual_positions(const Model& model, const ModelRope& used) {
  std::int64_t context = part_of(model, used.part).context;
  if (context == 0) context = used.coordinates ? 64 : 4096;
  Sizes places = {0, 1, 2, 3};
  for (std::int64_t place = 10; place < context - 1; place *= 10) places.push_back(place);
  if (context > 5) places.push_back(context - 1);
  PositionSet set;
  set.axes = used.rope.axes();
  set.tokens = std::ssize(places);
  for (int axis = 0; axis < set.axes; ++axis) {
    set.integers.insert(set.integers.end(), places.begin(), places.end());
    std::rotate(places.begin(), places.begin() + 1, places.end());
  }
  return set;
}

// An array in row-major order, or a number, which has no dimensions.
struct Array {
  std::string c_type;
  Sizes shape;
  std::vector<Json> elements;
};
using Arrays = nlohmann::ordered_map<std::string, Array>;

template <class Values>
Array array_of(const char* c_type, const Sizes& shape, const Values& values) {
  return {c_type, shape, {values.begin(), values.end()}};
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

Arrays arrays_of(const GoldenOptions& options, const ModelRope& used, const Frequencies& turns,
                 const PositionSet& positions) {
  const Table table(turns, positions.view());
  const std::int64_t tokens = table.tokens(), pairs = table.pairs(), rows = table.head_rows(),
                     heads = options.heads.value_or(rows > 1 ? rows : 2), axes = std::max(1, turns.summed_axes);
  const Sizes placed = {positions.axes, tokens}, vectors = {tokens, heads, used.rope.head_dim};
  const Sizes row = rows > 1 ? Sizes{tokens, rows, pairs} : Sizes{tokens, pairs};
  const Sizes frequencies = rows > 1 ? Sizes{rows, axes, pairs} : axes > 1 ? Sizes{axes, pairs} : Sizes{pairs};
  const std::vector<float> x = some_values(tokens * heads * used.rope.head_dim);
  std::vector<float> rotated = x;
  rotate({rotated.data(), DType::f32, thd(tokens, heads, used.rope.head_dim)}, table,
         {.direction = options.backward ? Direction::backward : Direction::forward, .first = used.first});

  Arrays arrays;
  arrays["inv_freq"] = array_of("double", frequencies, turns.inv_freq);
  std::vector<std::int32_t> axis(turns.axis.begin(), turns.axis.end());
  axis.resize(static_cast<std::size_t>(pairs));
  if (turns.summed_axes == 0) arrays["axis"] = array_of("int32_t", {pairs}, axis);
  arrays["attention_factor"] = {"double", {}, {turns.attention_factor}};
  arrays["positions"] = positions.reals.empty() ? array_of("int64_t", placed, positions.integers)
                                                : array_of("double", placed, positions.reals);
  arrays["cos"] = array_of("float", row, table.cos());
  arrays["sin"] = array_of("float", row, table.sin());
  arrays["x"] = array_of("float", vectors, x);
  arrays["rotated"] = array_of("float", vectors, rotated);
  const tools::Tolerances tolerances = tools::tolerances(turns, positions);
  arrays["tolerance_f32"] = {"double", {}, {tolerances.f32}};
  arrays["tolerance_f16"] = {"double", {}, {tolerances.f16}};
  arrays["tolerance_bf16"] = {"double", {}, {tolerances.bf16}};
  arrays["tolerance_float32_angles"] = array_of("double", {tokens}, tolerances.float32_angles);
  return arrays;
}

// ---- the files -----------------------------------------------------------------------------------

// The stem of the file's name as an identifier, the prefix of all names of the header.
std::string identifier(const std::filesystem::path& path) {
  std::string word = files::path_text(path.stem());
  std::ranges::replace_if(
      word, [](unsigned char c) { return c > 127 || std::isalnum(c) == 0; }, '_');
  return word.empty() || (word.front() >= '0' && word.front() <= '9') ? "golden_" + word : word;
}

std::string c_array(const std::string& name, const Array& array) {
  std::vector<std::string> elements;
  for (const Json& element : array.elements) {
    std::string& number = elements.emplace_back(element.dump());
    if (array.c_type != "float") continue;
    number = shortest(element.get<float>());
    number += number.find_first_of(".e") == std::string::npos ? ".0f" : "f";
  }
  const std::string named = "static const " + array.c_type + " " + name;
  if (array.shape.empty()) return named + " = " + elements.front() + ";\n";
  return "/* " + shape_text(array.shape) + " */\n" + named + "[" + std::to_string(elements.size()) + "] = {\n    " +
         wrapped(joined(elements), 4, 120) + "};\n";
}

std::string c_header(const std::filesystem::path& path, const Metadata& facts, const Arrays& arrays, int first) {
  const std::string prefix = identifier(path);
  std::string text = "/* By `rotary golden`. Arrays are row-major; docs/embedding.md.\n";
  for (const auto& [key, value] : facts) {
    if (value.empty()) continue;
    std::string shown = printable(value);  // in a comment
    for (std::size_t at = 0; (at = shown.find("*/", at)) != std::string::npos;) shown.replace(at, 2, "* /");
    text += " * " + key + ": " + shown + "\n";
  }
  text += " */\n#ifndef " + prefix + "_H\n#define " + prefix + "_H\n\n#include <stdint.h>\n\nenum {\n";
  const Sizes& x = arrays.at("x").shape;
  const Sizes counts = {x[0], x[1], x[2], first, arrays.at("cos").shape.back(), arrays.at("positions").shape[0]};
  auto count = counts.begin();
  for (const char* name : {"tokens", "heads", "head_dim", "first", "pairs", "axes"})
    text += "  " + prefix + "_" + name + " = " + std::to_string(*count++) + ",\n";
  text += "};\n";
  for (const auto& [name, array] : arrays) text += "\n" + c_array(prefix + "_" + name, array);
  return text + "\n#endif\n";
}

void run(const GoldenOptions& options) {
  const bool header = options.output.extension() == ".h";
  if (!header && options.output.extension() != ".json")
    fail(Code::FORMAT, "golden", "the output must end in .h or .json but got '", files::path_text(options.output), "'");
  check_output(options.output);
  const Model model = read_model(options.source, options.source.head_dim.value_or(0));
  const ModelRope& used = chosen_rope(model, options.source);
  Choice choice = options.source;
  if (!choice.positions) choice.positions = usual_positions(model, used);
  tools::Subject subject = tools::subject_of(model, choice);
  const PositionSet& positions = subject.positions.emplace(positions_of("golden", choice, model, used));
  if (positions.open_from || positions.batch != 1 || positions.tokens == 0) {
    fail(Code::POSITION, "golden", "--positions must end, as 0:64 does, and have one batch row, but got '",
         positions.spec.value_or(""), "'");
  }
  RopeInUse use = use_rope(options.source, {}, model, subject);
  use.facts["rotated"] = options.backward ? "backward" : "forward";
  const Arrays arrays = arrays_of(options, used, use.frequencies, positions);
  Json object = {{"golden", use.facts}};
  for (const auto& [name, array] : arrays) object[name] = nested(array.elements, array.shape);
  files::write_whole("golden", options.output,
                     header ? c_header(options.output, use.facts, arrays, used.first) : versioned(object) + "\n");
  if (used.coordinates && !options.source.positions)
    use.notes.emplace_back(
        "note: these positions are made up: 'rotary positions' makes the coordinates that the model has");
  report_written(options.output, {{"golden", use.facts}}, use.notes,
                 ": rotated " + shape_text(arrays.at("rotated").shape) + ", positions " +
                     shape_text(arrays.at("positions").shape));
}

}  // namespace

void add_golden(Command& command) {
  auto options = std::make_shared<GoldenOptions>();
  add_rope_file_options(command, *options);
  command.option("--heads", options->heads);
  command.option("--backward", options->backward);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
