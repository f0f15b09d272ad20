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
#include "table/amplitude.h"
#include "table/table_checks.h"
#include "table/turns.h"

namespace rotary::cli {

namespace {

struct GoldenOptions {
  Source source;
  PositionRequest positions;
  std::optional<std::int64_t> heads;  // none: 2, or as many as the rope has rows for
  bool backward = false;
  std::string output;
  bool json = false;
};

const std::vector<std::string> endings = {".h", ".json", ".npz"};

// Near 0, one in each decade, and the last of the context, where errors of the angles are largest. Each axis has them
// in another order, so that no axis can be taken for another. With xPos those where f32 holds the amplitude of queries
// and of keys.
PositionSet usual_positions(const ModelRope& used) {
  const std::int64_t context = used.context > 0 ? used.context : used.coordinates ? 64 : 4096;
  std::vector<std::int64_t> places = {0, 1, 2, 3};
  for (std::int64_t place = 10; place < context - 1; place *= 10) places.push_back(place);
  if (context > 5) places.push_back(context - 1);
  if (const XPos& xpos = used.rope.xpos; xpos.scale > 0) {
    const XPos of_keys{xpos.scale, xpos.center, !xpos.reciprocal};
    std::erase_if(places, [&](std::int64_t place) {
      const auto p = static_cast<double>(place);
      return !detail::has_amplitude(xpos, p) || !detail::has_amplitude(of_keys, p);
    });
    if (places.empty())
      fail(Code::POSITION, "golden", "--positions must be given where xPos's center is far from the text's start");
  }
  PositionSet set;
  set.axes = Frequencies{.axis = used.rope.axis, .summed_axes = used.rope.summed_axes}.axes();
  set.tokens = static_cast<std::int64_t>(places.size());
  for (int axis = 0; axis < set.axes; ++axis) {
    set.integers.insert(set.integers.end(), places.begin(), places.end());
    std::rotate(places.begin(), places.begin() + 1, places.end());
  }
  return set;
}

PositionSet positions_for(const GoldenOptions& options, const Model& model, const ModelRope& used) {
  PositionRequest request = options.positions;
  if (!request.given()) request.set = usual_positions(used);
  PositionSet positions = positions_of("golden", request, model, used);
  if (positions.open_from || positions.batch != 1 || positions.tokens == 0) {
    fail(Code::POSITION, "golden", "--positions must list positions, in one batch row and with an end, but got '",
         request.spec.value_or(""), "'");
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

// The largest |got - rotated| of an implementation that is right. A rotated element is at most `amplitude`, which
// tables have with xpos; u is the unit roundoff of a type.
struct Tolerances {
  double f32 = 0, f16 = 0, bf16 = 0;
  std::vector<double> float32_angles;  // for each token
};

Tolerances tolerances_of(const std::vector<Table>& tables, const Frequencies& turns, const PositionSet& positions) {
  constexpr double u32 = 0x1p-24, u16 = 0x1p-11, ubf16 = 0x1p-8;
  double amplitude = std::sqrt(2.0) * std::abs(turns.attention_factor);
  for (const Table& table : tables) {
    for (std::size_t i = 0; i < table.cos().size() && turns.xpos.scale > 0; ++i)
      amplitude = std::max(amplitude, std::sqrt(2.0) * std::hypot(table.cos()[i], table.sin()[i]));
  }
  std::vector<double> terms;  // [axes, heads * pairs], and the phases
  const std::int64_t pairs = std::int64_t{turns.heads} * turns.pairs();
  detail::fill_terms(turns, turns.axes(), pairs, terms);
  const auto count = static_cast<int>(std::ssize(terms) / pairs);
  Tolerances allowed;
  // cos and sin (2 ulps of a libm), two products and a sum, there; half of it here; fused or not.
  allowed.f32 = 8 * u32 * amplitude;
  // Every one of four steps rounded to the type: cos or sin, its attention factor, the product, the sum.
  allowed.f16 = 4 * u16 * amplitude + allowed.f32;
  allowed.bf16 = 4 * ubf16 * amplitude + allowed.f32;
  // An angle of float32 steps: two for the frequency, one for the position, one for their product; one for each sum.
  for (std::int64_t token = 0; token < tables[0].tokens(); ++token) {
    double angle = 0;
    for (std::int64_t i = 0; i < pairs; ++i) {
      double sum = 0;
      for (int a = 0; a < count; ++a) {
        const double position =
            a == turns.axes() ? 1 : positions.value(static_cast<std::size_t>(a), 0, static_cast<std::size_t>(token));
        sum += std::abs(position * terms[static_cast<std::size_t>(a * pairs + i)]);
      }
      angle = std::max(angle, sum);
    }
    const int sums = detail::is_sum(turns) ? count - 1 : 0;
    allowed.float32_angles.push_back(std::min((4 + sums) * u32 * angle, 2.0) * amplitude + allowed.f32);
  }
  return allowed;
}

std::vector<Tensor> golden_of(const GoldenOptions& options, const ModelRope& used, Frequencies turns,
                              const PositionSet& positions) {
  std::vector<Table> tables = {Table(turns, positions.view())};  // with xpos that of keys too
  turns.xpos.reciprocal = true;
  if (turns.xpos.scale > 0) tables.emplace_back(turns, positions.view());
  const Table& table = tables[0];
  const std::int64_t tokens = table.tokens(), pairs = table.pairs(), rows = table.heads(),
                     heads = options.heads.value_or(rows > 1 ? rows : 2), axes = std::max(1, turns.summed_axes);
  const int head_dim = used.rope.head_dim;
  const std::vector<float> x = some_values(static_cast<std::size_t>(tokens * heads * head_dim));
  const auto one = [](const char* name, const double& value) {
    return tensor_of<double>(name, {}, std::span(&value, 1));
  };
  const std::vector<std::int64_t> placed = {positions.axes, tokens}, vectors = {tokens, heads, head_dim};
  const auto by_head = [&](std::vector<std::int64_t> shape, const std::vector<std::int64_t>& each) {
    if (rows > 1) shape.push_back(rows);
    shape.insert(shape.end(), each.begin(), each.end());
    return shape;
  };
  const std::vector<std::int64_t> row{pairs}, of_axes{axes, pairs}, row_of_cos = by_head({tokens}, row);
  std::vector<Tensor> all = {
      tensor_of<double>("inv_freq", by_head({}, rows > 1 || axes > 1 ? of_axes : row), turns.inv_freq)};
  std::vector<std::int32_t> axis(turns.axis.begin(), turns.axis.end());
  axis.resize(static_cast<std::size_t>(pairs));
  if (turns.summed_axes == 0) all.push_back(tensor_of<std::int32_t>("axis", row, axis));
  if (!turns.phase.empty())
    all.push_back(tensor_of<double>("phase", std::ssize(turns.phase) == pairs ? row : by_head({}, row), turns.phase));
  all.push_back(one("attention_factor", turns.attention_factor));
  all.push_back(positions.reals.empty() ? tensor_of<std::int64_t>("positions", placed, positions.integers)
                                        : tensor_of<double>("positions", placed, positions.reals));
  const auto add_rotated = [&](const Table& by, const std::string& of) {
    std::vector<float> rotated = x;
    RotateOptions how;
    how.first = used.first;
    how.direction = options.backward ? Direction::backward : Direction::forward;
    rotate({rotated.data(), DType::f32, thd(tokens, heads, head_dim)}, by, how);
    all.push_back(tensor_of<float>("cos" + of, row_of_cos, by.cos()));
    all.push_back(tensor_of<float>("sin" + of, row_of_cos, by.sin()));
    if (of.empty()) all.push_back(tensor_of<float>("x", vectors, x));
    all.push_back(tensor_of<float>("rotated" + of, vectors, rotated));
  };
  const Tolerances allowed = tolerances_of(tables, turns, positions);
  add_rotated(table, "");
  if (tables.size() > 1) add_rotated(tables[1], "_k");
  all.push_back(one("tolerance_f32", allowed.f32));
  all.push_back(one("tolerance_f16", allowed.f16));
  all.push_back(one("tolerance_bf16", allowed.bf16));
  all.push_back(tensor_of<double>("tolerance_float32_angles", {tokens}, allowed.float32_angles));
  return all;
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
                                                         {"pairs", shape_of(tensors, "cos").back()},
                                                         {"axes", shape_of(tensors, "positions")[0]}})
    text += "  " + prefix + "_" + name + " = " + std::to_string(value) + ",\n";
  text += "};\n";
  for (const Tensor& tensor : tensors) {
    std::string shape = tensor.shape.empty() ? "" : "/* " + shape_text(tensor.shape) + " */\n";
    text += "\n" + shape + c_array(prefix, tensor);
  }
  return text + "\n#endif\n";
}

void write(const GoldenOptions& options, const Metadata& facts, const std::vector<Tensor>& tensors,
           const ModelRope& used) {
  const std::filesystem::path path = files::path_of(options.output);
  if (path.extension() == ".npz") return files::write_npz(path, tensors);
  files::write_whole(
      "golden", path,
      path.extension() == ".h" ? golden_header(path, facts, tensors, used) : golden_json(facts, tensors));
}

void run(const GoldenOptions& options) {
  check_source_without_tensor(options.source);
  const std::filesystem::path output = files::path_of(options.output);
  if (std::ranges::find(endings, output.extension().string()) == endings.end()) {
    fail(Code::FORMAT, "golden", "the output must end in ", one_of_words(endings), " but got '", options.output, "'");
  }
  check_output(output);
  const Model model = read_model(options.source, options.source.head_dim.value_or(0));
  const ModelRope& used = chosen_rope(model, options.source);
  const PositionSet positions = positions_for(options, model, used);
  const std::int64_t length = options.source.length.value_or(positions.length());
  const Frequencies turns = frequencies_of(options.source, used, length);
  const std::vector<Tensor> tensors = golden_of(options, used, turns, positions);

  Metadata facts = metadata_of(options.source, {}, model, used, turns, length);
  facts["rotated"] = options.backward ? "backward" : "forward";
  write(options, facts, tensors, used);
  std::vector<std::string> notes = notes_of_use(model, used, options.source.names_rope());
  notes.insert(notes.begin(), describe(model, used, turns));
  if (used.coordinates && !options.positions.given())
    notes.push_back("note: these positions are made up: 'rotary positions' makes the coordinates that the model has");
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
  auto options = std::make_shared<GoldenOptions>();
  Command command(app, "golden");
  add_source_options(command, options->source);
  add_head_dim_option(command, options->source);
  add_rope_option(command, options->source);
  add_positions_options(command, options->positions);
  command.option("--output", options->output);
  command.option("--heads", options->heads);
  command.option("--backward", options->backward);
  command.option("--json", options->json);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
