// rotary golden: what the tests of another implementation compare with, as a C header, JSON or npz.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "files/tensors/formats.h"
#include "files/text/io.h"
#include "files/text/paths.h"
#include "rotary/config.h"
#include "rotary/positions.h"
#include "rotary/tensors.h"
#include "source.h"
#include "stamp.h"

namespace rotary::cli {

namespace {

struct Options {
  Source source;
  PositionRequest positions;
  std::int64_t heads = 2;
  bool backward = false;
  std::string output;
  bool json = false;
};

const std::vector<std::string> endings = {".h", ".json", ".npz"};

// Near 0, one in each decade, and the last of the context, where errors of the angles are largest. Each axis has them
// in another order, so that no axis can be taken for another.
PositionSet usual_positions(const ModelRope& used) {
  const std::int64_t context = used.context > 0 ? used.context : used.coordinates ? 64 : 4096;
  std::vector<std::int64_t> places = {0, 1, 2, 3};
  for (std::int64_t place = 10; place < context - 1; place *= 10) places.push_back(place);
  if (context > 5) places.push_back(context - 1);
  PositionSet set;
  set.axes = Frequencies{.axis = used.rope.axis}.axes();
  set.tokens = static_cast<std::int64_t>(places.size());
  for (int axis = 0; axis < set.axes; ++axis) {
    set.integers.insert(set.integers.end(), places.begin(), places.end());
    std::rotate(places.begin(), places.begin() + 1, places.end());
  }
  return set;
}

PositionSet positions_for(const Options& options, const Model& model, const ModelRope& used) {
  PositionRequest request = options.positions;
  if (!request.given()) request.set = usual_positions(used);
  PositionSet positions = positions_of("golden", request, model, used);
  if (positions.open_from || positions.batch != 1 || positions.tokens == 0) {
    throw Error(Code::POSITION,
                "[golden] --positions must list positions, in one batch row and with an end, but got '" +
                    request.spec.value_or("") + "'");
  }
  return positions;
}

// Multiples of 1/64 in [-1, 1], the same in f32, f16 and bf16.
std::vector<float> some_values(std::size_t count) {
  std::vector<float> values(count);
  std::uint64_t state = 1;
  for (float& value : values) {
    state = state * 48271 % 2147483647;
    value = static_cast<float>(static_cast<int>(state % 129) - 64) / 64;
  }
  return values;
}

// The largest |got - rotated| of an implementation that is right. A rotated element is at most `amplitude`; u is the
// unit roundoff of a type.
struct Tolerances {
  double f32 = 0, f16 = 0, bf16 = 0;
  std::vector<double> float32_angles;  // for each token
};

Tolerances tolerances_of(const Table& table, const Frequencies& turns, const PositionSet& positions) {
  constexpr double u32 = 0x1p-24, u16 = 0x1p-11, ubf16 = 0x1p-8;
  const double amplitude = std::sqrt(2.0) * std::abs(turns.attention_factor);
  Tolerances allowed;
  // cos and sin (2 ulps of a libm), two products and a sum, there; half of it here; fused or not.
  allowed.f32 = 8 * u32 * amplitude;
  // Every one of four steps rounded to the type: cos or sin, its attention factor, the product, the sum.
  allowed.f16 = 4 * u16 * amplitude + allowed.f32;
  allowed.bf16 = 4 * ubf16 * amplitude + allowed.f32;
  // An angle of float32 steps: two for the frequency, one for the position, one for their product.
  for (std::int64_t token = 0; token < table.tokens(); ++token) {
    double angle = 0;
    for (std::size_t i = 0; i < turns.inv_freq.size(); ++i) {
      const std::size_t axis = turns.axis.empty() ? 0 : turns.axis[i];
      const double position = positions.value(axis, 0, static_cast<std::size_t>(token));
      angle = std::max(angle, std::abs(position * turns.inv_freq[i]));
    }
    allowed.float32_angles.push_back(std::min(4 * u32 * angle, 2.0) * amplitude + allowed.f32);
  }
  return allowed;
}

std::vector<Tensor> golden_of(const Options& options, const ModelRope& used, const Frequencies& turns,
                              const PositionSet& positions) {
  const Table table(turns, positions.view());
  const std::int64_t tokens = table.tokens(), pairs = table.pairs(), heads = options.heads;
  const int head_dim = used.rope.head_dim;
  const std::vector<float> x = some_values(static_cast<std::size_t>(tokens * heads * head_dim));
  std::vector<float> rotated = x;
  RotateOptions how;
  how.first = used.first;
  how.direction = options.backward ? Direction::backward : Direction::forward;
  rotate({rotated.data(), DType::f32, thd(tokens, heads, head_dim)}, table, how);
  std::vector<std::int32_t> axis(turns.axis.begin(), turns.axis.end());
  axis.resize(turns.inv_freq.size());
  const Tolerances allowed = tolerances_of(table, turns, positions);
  const auto one = [](const char* name, const double& value) {
    return tensor_of<double>(name, {}, std::span(&value, 1));
  };
  const std::vector<std::int64_t> placed = {positions.axes, tokens}, vectors = {tokens, heads, head_dim};
  return {tensor_of<double>("inv_freq", {pairs}, turns.inv_freq),
          tensor_of<std::int32_t>("axis", {pairs}, axis),
          one("attention_factor", turns.attention_factor),
          positions.reals.empty() ? tensor_of<std::int64_t>("positions", placed, positions.integers)
                                  : tensor_of<double>("positions", placed, positions.reals),
          tensor_of<float>("cos", {tokens, pairs}, table.cos()),
          tensor_of<float>("sin", {tokens, pairs}, table.sin()),
          tensor_of<float>("x", vectors, x),
          tensor_of<float>("rotated", vectors, rotated),
          one("tolerance_f32", allowed.f32),
          one("tolerance_f16", allowed.f16),
          one("tolerance_bf16", allowed.bf16),
          tensor_of<double>("tolerance_float32_angles", {tokens}, allowed.float32_angles)};
}

const std::vector<std::int64_t>& shape_of(const std::vector<Tensor>& tensors, const char* name) {
  return std::ranges::find(tensors, name, &Tensor::name)->shape;
}

// ---- the three formats ---------------------------------------------------------------------------

// Calls use with a view of the elements, of one of the four types that golden_of makes.
template <class Use>
auto with_elements(const Tensor& tensor, Use use) {
  if (tensor.type == ElementType::f32) return use(tensor.as<float>());
  if (tensor.type == ElementType::i32) return use(tensor.as<std::int32_t>());
  if (tensor.type == ElementType::i64) return use(tensor.as<std::int64_t>());
  return use(tensor.as<double>());
}

// Nested lists, as the shape says.
nlohmann::ordered_json json_of(const Tensor& tensor) {
  return with_elements(tensor, [&tensor](const auto& values) {
    std::vector<nlohmann::ordered_json> items(values.begin(), values.end());
    for (std::size_t d = tensor.shape.size(); d-- > 0;) {
      const auto size = static_cast<std::size_t>(tensor.shape[d]);
      std::vector<nlohmann::ordered_json> lists;
      for (std::size_t i = 0; i < items.size(); i += size)
        lists.emplace_back(std::vector(items.begin() + static_cast<std::ptrdiff_t>(i),
                                       items.begin() + static_cast<std::ptrdiff_t>(i + size)));
      items = std::move(lists);
    }
    return items.front();
  });
}

std::string golden_json(const Metadata& facts, const std::vector<Tensor>& tensors) {
  nlohmann::ordered_json object = {{"golden", facts}};
  for (const Tensor& tensor : tensors) object[tensor.name] = json_of(tensor);
  return versioned(object) + "\n";
}

std::string c_number(float value) {
  const std::string text = shortest(value);
  return text + (text.find_first_of(".e") == std::string::npos ? ".0f" : "f");
}
std::string c_number(double value) { return shortest(value); }
std::string c_number(std::integral auto value) { return std::to_string(value); }

// static const TYPE PREFIX_NAME[sizes] = {...}; with one pair of braces, which C and C++ read in order.
std::string c_array(const std::string& prefix, const Tensor& tensor) {
  const char* type = tensor.type == ElementType::f32   ? "float "
                     : tensor.type == ElementType::i32 ? "int32_t "
                     : tensor.type == ElementType::i64 ? "int64_t "
                                                       : "double ";
  std::string text = std::string("static const ") + type + prefix + "_" + tensor.name;
  std::string values = with_elements(tensor, [](const auto& elements) {
    std::string list;
    for (const auto element : elements) list += (list.empty() ? "" : ", ") + c_number(element);
    return list;
  });
  if (tensor.shape.empty()) return text + " = " + values + ";\n";
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor.shape) elements *= size;
  return text + "[" + std::to_string(elements) + "] = {\n    " + wrapped(values, 4, 120) + "};\n";
}

// The stem of the file's name as an identifier: what all names of the header begin with.
std::string identifier(const std::filesystem::path& path) {
  std::string word = files::path_text(path.stem());
  for (char& c : word) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 || static_cast<unsigned char>(c) > 127) c = '_';
  }
  return word.empty() || std::isdigit(static_cast<unsigned char>(word.front())) != 0 ? "golden_" + word : word;
}

std::string golden_header(const std::filesystem::path& path, const Metadata& facts, const std::vector<Tensor>& tensors,
                          const ModelRope& used) {
  const std::string prefix = identifier(path);
  std::string guard = prefix + "_H", text = "/* By `rotary golden`. Arrays are row-major; docs/embedding.md.\n";
  for (char& c : guard) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const auto& [key, value] : facts) {
    if (value.empty()) continue;
    std::string shown = printable(value);  // in a comment
    for (std::size_t at = 0; (at = shown.find("*/", at)) != std::string::npos;) shown.replace(at, 2, "* /");
    text += " * " + key + ": " + shown + "\n";
  }
  text += " */\n#ifndef " + guard + "\n#define " + guard + "\n\n#include <stdint.h>\n\nenum {\n";
  const std::vector<std::int64_t>& x = shape_of(tensors, "x");
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, std::int64_t>>{{"tokens", x[0]},
                                                         {"heads", x[1]},
                                                         {"head_dim", x[2]},
                                                         {"first", used.first},
                                                         {"pairs", shape_of(tensors, "inv_freq")[0]},
                                                         {"axes", shape_of(tensors, "positions")[0]}})
    text += "  " + prefix + "_" + name + " = " + std::to_string(value) + ",\n";
  text += "};\n";
  for (const Tensor& tensor : tensors) {
    std::string shape = tensor.shape.empty() ? "" : "/* " + shape_text(tensor.shape) + " */\n";
    text += "\n" + shape + c_array(prefix, tensor);
  }
  return text + "\n#endif\n";
}

void write(const Options& options, const Metadata& facts, const std::vector<Tensor>& tensors, const ModelRope& used) {
  const std::filesystem::path path = files::path_of(options.output);
  if (path.extension() == ".npz") return files::write_npz(path, tensors);
  files::write_whole(
      "golden", path,
      path.extension() == ".h" ? golden_header(path, facts, tensors, used) : golden_json(facts, tensors));
}

void run(const Options& options) {
  check_source_without_tensor(options.source);
  const std::filesystem::path output = files::path_of(options.output);
  if (std::ranges::find(endings, output.extension().string()) == endings.end()) {
    throw Error(Code::FORMAT,
                "[golden] the output must end in " + one_of_words(endings) + " but got '" + options.output + "'");
  }
  check_output(output);
  const Model model = read_model(options.source, options.source.head_dim.value_or(0));
  const ModelRope& used = chosen_rope(model, options.source);
  const PositionSet positions = positions_for(options, model, used);
  const std::int64_t length = options.source.length.value_or(positions.length());
  const Frequencies turns = frequencies_of(options.source, used.rope, length);
  const std::vector<Tensor> tensors = golden_of(options, used, turns, positions);

  Metadata facts = metadata_of(options.source, {}, model, used, turns, length);
  facts["rotated"] = options.backward ? "backward" : "forward";
  write(options, facts, tensors, used);
  std::vector<std::string> notes = notes_of_use(model, used, options.source.names_rope());
  notes.insert(notes.begin(), describe(model, used, turns));
  if (options.json) {
    std::cout << versioned({{"output", options.output}, {"golden", facts}, {"notes", notes}}) << '\n';
    return;
  }
  for (const std::string& note : notes) std::cout << printable(note) << '\n';
  std::cout << "wrote " << printable(options.output) << ": rotated " << shape_text(shape_of(tensors, "rotated"))
            << ", positions " << shape_text(shape_of(tensors, "positions")) << '\n';
}

}  // namespace

void add_golden(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Command command(app, "golden", "Write what the tests of another implementation compare with");
  add_source_options(command, options->source);
  command.added("CONFIG").usual();
  add_head_dim_option(command, options->source);
  add_rope_option(command, options->source);
  add_positions_options(command, options->positions);
  command.added("--positions")
      .help(
          "positions, ends not included: 7, 0:4096, -5:5; or a .npy of int32, int64 or float64,\n"
          "[tokens] or [axes, tokens]; by default some near 0, one in each decade and the context's last");
  command.option("--output", options->output, "the file to write: .h for C and C++, .json or .npz")
      .type_name("FILE")
      .required();
  command.option("--heads", options->heads, "of the vectors that are rotated")
      .range<std::int64_t>(1, 1024)
      .type_name("N")
      .shows_default();
  command.flag("--backward", options->backward, "rotated as gradients are");
  command.flag("--json", options->json, "what was written, as JSON");
  command.footer(
      "The file holds inv_freq, positions, cos, sin, x and rotated, and how far the results of a right\n"
      "implementation may be from rotated: in f32, f16 and bf16, and with angles of float32.\n"
      "  rotary golden config.json --output llama.h\n"
      "  rotary golden config.json --positions 0,1,131071 --output llama.json");
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
