// rotary demo: the chain step by step on bundled data, each step checked by an independent computation.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "commands.h"
#include "rotary/config.h"
#include "rotary/reference.h"
#include "rotary/self_test.h"
#include "rotary/targets.h"
#include "rotary/tensors.h"
#include "shared/command.h"
#include "shared/system.h"
#include "shared/text.h"
#include "source.h"
#include "tensors/formats.h"
#include "text/paths.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

// Made by files/golden/make_demo_data.py.
struct DemoData {
  Tensor q, k;  // bf16 [batch, tokens, heads, 128]
  // {"inv_freq": {PAIR: VALUE}, "angles": [{"position", "pair", "cos", "sin"}]}; values are strings of 25 digits
  Json exact;
};

Layout layout_of(const Tensor& tensor) {
  return bthd(tensor.shape[0], tensor.shape[1], tensor.shape[2], static_cast<int>(tensor.shape[3]));
}

std::vector<float> floats_of(const Tensor& tensor) {
  const std::vector<double> numbers = files::numbers_of(tensor);
  return {numbers.begin(), numbers.end()};
}

DemoData load_demo_data(const std::filesystem::path& folder) {
  const SafetensorsFile file(folder / "qk.safetensors");
  std::ifstream stream(folder / "high_precision.json");
  DemoData data{file.read("q"), file.read("k"), Json::parse(stream)};
  const auto fits = [](const Tensor& x) {
    return x.type == ElementType::bf16 && x.shape.size() == 4 && x.shape[1] == 16 && x.elements() > 0;
  };
  if (!fits(data.q) || !fits(data.k)) fail(Code::FORMAT, "demo", "q and k must be bf16 [batch, 16, heads, head_dim]");
  return data;
}

struct Step {
  std::string title;
  std::vector<std::string> lines;
};

void require(bool holds, const std::string& sentence) {
  if (!holds) fail(Code::CHECK, "demo", sentence);
}

double number_of(const Json& text) { return std::strtod(text.get_ref<const std::string&>().c_str(), nullptr); }

Step show_frequencies(const DemoData& data, Rope rope, const Frequencies& turns) {
  Step step{"Frequencies: one angular speed per pair, after the scaling", {}};
  rope.scaling = Unscaled{};
  const std::vector<double> unscaled = frequencies(rope).inv_freq;
  for (const auto& [name, value] : data.exact.at("inv_freq").items()) {
    const double w = turns.inv_freq.at(std::stoul(name)), exact = number_of(value);
    require(std::abs(w - exact) <= std::nextafter(exact, 2) - exact, "inv_freq must be within 1 ulp of the formula's");
    step.lines.push_back("pair " + lead(name, 2) + "  inv_freq " + pad(significant(w, 17), 24) + "wavelength " +
                         lead(significant(6.283185307179586 / w, 7), 9) + " tokens, x " +
                         significant(unscaled.at(std::stoul(name)) / w, 4));
  }
  step.lines.emplace_back("check: each is within 1 ulp of the formula's value (mpmath, 60 digits)");
  return step;
}

Step show_table(const DemoData& data, const Frequencies& turns, const Table& table) {
  const std::size_t row = 5 * static_cast<std::size_t>(table.pairs());
  const std::string tokens = std::to_string(table.tokens());
  std::set<std::int64_t> places;
  for (const Json& angle : data.exact.at("angles")) {
    const Table exact(turns, *places.insert(angle.at("position").get<std::int64_t>()).first);
    const auto pair = angle.at("pair").get<std::size_t>();
    require(std::cmp_less(pair, exact.pairs()), "a pair must be one of the rope's");
    const auto is_nearest = [&](float got, const char* key) {
      return got == std::strtof(angle.at(key).get_ref<const std::string&>().c_str(), nullptr);
    };
    require(is_nearest(exact.cos()[pair], "cos") && is_nearest(exact.sin()[pair], "sin"),
            "every cos and sin must be correctly rounded");
  }
  std::string text;
  for (const std::int64_t place : places) text += " " + std::to_string(place);
  const Table exact(turns, 131071), usual(turns, 131071, Angles::float32);
  const double error = std::transform_reduce(
      exact.cos().begin(), exact.cos().end(), usual.cos().begin(), 0.0,
      [](double a, double b) { return std::max(a, b); }, [](double a, double b) { return std::abs(a - b); });
  return {"Table: one row of cos and sin per token, f32",
          {"positions 0:" + tokens + " -> cos, sin [" + tokens + ", " + std::to_string(table.pairs()) + "]",
           "token 5, pair 0: cos " + significant(table.cos()[row], 9) + "  sin " + significant(table.sin()[row], 9),
           "check: these pairs' cos and sin are correctly rounded at positions" + text,
           "       at 131071 the usual float32 formula (--angles float32) is off by up to " + significant(error, 2)}};
}

// "scalar equal, avx2 equal (in use)": each target's bits of the rotated q are those of the scalar reference.
std::string check_targets(const Tensor& q, const Table& table) {
  self_test();
  const ConstHeads x(q.data.data(), DType::bf16, layout_of(q));
  std::vector<std::byte> expected(q.data.size()), got(q.data.size());
  reference::rotate(x, {expected.data(), DType::bf16, layout_of(q)}, table);
  const std::string in_use(chosen_target());
  std::vector<std::string> equal;
  for (const Target& target : targets()) {
    if (!target.runs) continue;
    use_target(target.name);
    rotate(x, {got.data(), DType::bf16, layout_of(q)}, table);
    require(got == expected, "target " + std::string(target.name) + " must give the bits of the reference");
    equal.push_back(std::string(target.name) + " equal" + (target.name == in_use ? " (in use)" : ""));
  }
  use_target(in_use);
  return joined(equal);
}

std::string point(double a, double b) { return "(" + significant(a, 9) + ", " + significant(b, 9) + ")"; }

Step show_rotation(const DemoData& data, const Frequencies& turns, const Table& table) {
  std::vector<float> q = floats_of(data.q);
  const Layout layout = layout_of(data.q);
  const auto at = static_cast<std::size_t>(5 * layout.token_stride), pairs = static_cast<std::size_t>(table.pairs());
  const double a = q[at], b = q[at + pairs], angle = 5 * turns.inv_freq[0];
  rotate(heads(q, layout), table);
  return {"rotate: (a, b) -> (a cos - b sin, b cos + a sin), q of 32 heads and k of 8 by one table",
          {"q, token 5, head 0, pair 0:  " + point(a, b) + " -> " + point(q[at], q[at + pairs]),
           "the same by libm in double:                            " +
               point(a * std::cos(angle) - b * std::sin(angle), b * std::cos(angle) + a * std::sin(angle)),
           "check: q in bf16, against the scalar reference, bit for bit: " + check_targets(data.q, table)}};
}

Step show_law(const DemoData& data, const Frequencies& turns) {
  Step step{"The law: a score depends on the distance only (head 0, in f32, summed in double)", {}};
  std::vector<double> scores;
  for (const std::int64_t start : {0, 1000, 100000}) {
    const Table table(turns, positions(start, 16));
    std::vector<float> q = floats_of(data.q), k = floats_of(data.k);
    rotate(heads(q, layout_of(data.q)), table);
    rotate(heads(k, layout_of(data.k)), table);
    const auto q_head = q.begin() + 12 * layout_of(data.q).token_stride;
    scores.push_back(std::transform_reduce(q_head, q_head + table.rotary_dim(),
                                           k.begin() + 3 * layout_of(data.k).token_stride, 0.0, std::plus<>(),
                                           std::multiplies<double>()));
    step.lines.push_back("shifted by " + lead(std::to_string(start), 6) + ":  q(" + std::to_string(12 + start) +
                         ") . k(" + std::to_string(3 + start) + ") = " + significant(scores.back(), 10));
    require(std::abs(scores.back() - scores.front()) < 1e-3, "scores must not depend on where the tokens stand");
  }
  return step;
}

void run(const std::filesystem::path& folder) {
  const DemoData data = load_demo_data(folder);
  const Model model = read_config(folder / "config.json");
  const ModelRope& used = model.ropes.at(0);
  const Frequencies turns = frequencies(used.rope, 0);
  const Table table(turns, positions(0, data.q.shape[1]));
  Json steps = Json::array();
  const auto show = [&](const Step& step) {
    steps.push_back({{"step", step.title}, {"lines", step.lines}});
    if (asks_json()) return;
    std::cout << '\n' << steps.size() << "  " << step.title << '\n';
    for (const std::string& line : step.lines) std::cout << "   " << line << '\n';
  };
  if (!asks_json()) std::cout << "The chain on bundled data in " << files::path_text(folder) << '\n';
  show({"Rope: what config.json says", {describe(model, used, turns, 0)}});
  show(show_frequencies(data, used.rope, turns));
  show(show_table(data, turns, table));
  show(show_rotation(data, turns, table));
  show(show_law(data, turns));
  if (asks_json()) return print_json(json_text({{"passed", true}, {"steps", std::move(steps)}}));
  std::cout << "\nAll checks passed. The same on your files:\n   rotary inspect config.json\n"
               "   rotary apply config.json --input qk.safetensors --output rotated.safetensors\n";
}

}  // namespace

void add_demo(Command& command) {
  auto data = std::make_shared<std::filesystem::path>();
  command.option("--data", *data);
  command.runs([data] {
    const std::filesystem::path installed = data_beside("demo"), folder = find_data(*data, installed);
    if (folder.empty())
      fail(Code::FILE, "demo", "the bundled data must lie in ", files::path_text(installed),
           " but is not there: --data names its folder");
    try {
      run(folder);
    } catch (const nlohmann::json::exception& error) {
      fail(Code::JSON, "demo", "high_precision.json: ", error.what());
    }
  });
}

}  // namespace rotary::cli
