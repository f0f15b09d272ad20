// rotary demo: the chain step by step on bundled data, each step checked by an independent computation.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "apps/rotary/bench/cell.h"
#include "apps/shared/command.h"
#include "apps/shared/system.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "demo_places.h"
#include "files/tensors/element_types.h"
#include "files/text/paths.h"
#include "rotary/config.h"
#include "rotary/reference.h"
#include "rotary/self_test.h"
#include "rotary/targets.h"
#include "rotary/tensors.h"

namespace rotary::cli {

namespace {

struct DemoOptions {
  std::string data;
  bool json = false;
};

// ---- the data, made by tools/golden/make_demo_data.py ----

struct ExactAngles {
  std::int64_t position = 0;
  std::vector<std::string> values;  // cos of every pair, then sin: decimals, 25 digits
};

struct DemoData {
  std::vector<Tensor> tensors;  // q and k, bf16 [batch, tokens, heads, 128]; then the same values in f32
  std::vector<double> inv_freq;
  std::vector<ExactAngles> angles;
};

Layout layout_of(const Tensor& tensor) {
  return bthd(tensor.shape[0], tensor.shape[1], tensor.shape[2], static_cast<int>(tensor.shape[3]));
}

std::vector<float> floats_of(const Tensor& tensor) {
  const std::vector<double> numbers = files::numbers_of(tensor);
  return {numbers.begin(), numbers.end()};
}

Tensor read_bf16(const SafetensorsFile& file, const char* name) {
  Tensor tensor = file.read(name);
  if (tensor.type != ElementType::bf16 || tensor.shape.size() != 4 || tensor.shape[1] < 16 || tensor.shape[3] != 128)
    fail(Code::FORMAT, "demo", name, " must be bf16 [batch, 16 or more, heads, 128]");
  return tensor;
}

Tensor widened(Tensor tensor) {
  const std::vector<float> values = floats_of(tensor);
  tensor.type = ElementType::f32;
  tensor.bytes *= 2;
  tensor.data.resize(tensor.bytes);
  std::ranges::copy(values, tensor.as<float>().begin());
  return tensor;
}

// `wanted` if it is not empty, otherwise the first that exists: ../share/rotary/demo next to the program, the source
// tree, the installation. Throws FILE.
std::filesystem::path find_demo_data(const std::string& wanted) {
  if (!wanted.empty()) return files::path_of(wanted);
  std::error_code ignored;
  for (const std::filesystem::path& folder : {program_path().parent_path() / "../share/rotary/demo",
                                              files::path_of(demo_in_source), files::path_of(demo_installed)}) {
    if (std::filesystem::exists(folder / "config.json", ignored)) return folder.lexically_normal();
  }
  fail(Code::FILE, "demo", "the bundled data lies neither beside the program nor in ", demo_in_source,
       ": say where with --data");
}

// Throws FILE, FORMAT, TENSOR, JSON.
DemoData load_demo_data(const std::filesystem::path& folder) {
  DemoData data;
  const SafetensorsFile file(folder / "qk.safetensors");
  data.tensors = {read_bf16(file, "q"), read_bf16(file, "k")};
  for (int i = 0; i < 2; ++i) data.tensors.push_back(widened(data.tensors[static_cast<std::size_t>(i)]));
  std::ifstream stream(folder / "high_precision.json");
  if (!stream) fail(Code::FILE, "demo", "cannot read ", files::path_text(folder / "high_precision.json"));
  try {
    const nlohmann::json json = nlohmann::json::parse(stream);
    for (const std::string text : json.at("inv_freq")) data.inv_freq.push_back(std::strtod(text.c_str(), nullptr));
    for (const nlohmann::json& row : json.at("angles")) {
      ExactAngles& angles = data.angles.emplace_back();
      row.at("position").get_to(angles.position);
      for (const char* key : {"cos", "sin"}) {
        if (row.at(key).size() != data.inv_freq.size())
          fail(Code::JSON, "demo", "high_precision.json must have one cos and sin per inv_freq");
        for (const std::string text : row.at(key)) angles.values.push_back(text);
      }
    }
  } catch (const nlohmann::json::exception& error) {
    fail(Code::JSON, "demo", "high_precision.json: ", error.what());
  }
  if (data.inv_freq.size() != 64) fail(Code::JSON, "demo", "high_precision.json must have 64 values of inv_freq");
  return data;
}

// ---- the steps: what each one shows, and its check ----

void require(bool holds, const std::string& sentence) {
  if (!holds) fail(Code::CHECK, "demo", sentence);
}

void show_frequencies(const Rope& rope, const Frequencies& turns, const std::vector<double>& expected) {
  std::cout << "\n2  Frequencies: one angular speed per pair, after the scaling\n";
  Rope plain = rope;
  plain.scaling = Unscaled{};
  const std::vector<double> unscaled = frequencies(plain).inv_freq;
  for (const std::size_t pair : {0U, 28U, 32U, 63U}) {
    const double w = turns.inv_freq.at(pair);
    std::cout << "   pair " << lead(std::to_string(pair), 2) << "  inv_freq " << pad(significant(w, 17), 24)
              << "wavelength " << lead(significant(6.283185307179586 / w, 7), 9) << " tokens, x "
              << significant(unscaled.at(pair) / w, 4) << '\n';
  }
  std::size_t nearest = 0;
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double ulp = std::nextafter(expected[i], 2 * expected[i]) - expected[i];
    worst = std::max(worst, std::abs(turns.inv_freq[i] - expected[i]) / ulp);
    nearest += turns.inv_freq[i] == expected[i] ? 1 : 0;
  }
  require(worst <= 1, "inv_freq must be within 1 ulp of the formula but is off by " + significant(worst, 3));
  std::cout << "   check: " << nearest << " of " << expected.size()
            << " are the double nearest to the formula's value (mpmath, 60 digits)\n";
}

struct AngleErrors {
  std::size_t misrounded = 0;
  double largest = 0;

  void add(const std::vector<double>& inv_freq, const ExactAngles& exact, Angles method) {
    Frequencies turns;
    turns.inv_freq = inv_freq;
    turns.pairing = Pairing::half;
    const Table table(turns, exact.position, method);
    for (std::size_t i = 0; i < exact.values.size(); ++i) {
      const float got = i < inv_freq.size() ? table.cos()[i] : table.sin()[i - inv_freq.size()];
      const char* text = exact.values[i].c_str();
      misrounded += got == std::strtof(text, nullptr) ? 0 : 1;
      largest = std::max(largest, std::abs(static_cast<double>(got) - std::strtod(text, nullptr)));
    }
  }
};

void show_table(const DemoData& data, const Table& table) {
  const std::size_t row = 5 * static_cast<std::size_t>(table.pairs());
  std::cout << "\n3  Table: one row of cos and sin per token, f32\n   positions 0:" << table.tokens()
            << " -> cos, sin [" << table.tokens() << ", " << table.pairs() << "]\n   token 5, pair 0: cos "
            << significant(table.cos()[row], 9) << "  sin " << significant(table.sin()[row], 9) << '\n';
  AngleErrors exact, single;
  std::string places;
  for (const ExactAngles& angles : data.angles) {
    exact.add(data.inv_freq, angles, Angles::exact);
    if (angles.position == 131071) single.add(data.inv_freq, angles, Angles::float32);
    places += " " + std::to_string(angles.position);
  }
  std::cout << "   check: " << exact.misrounded << " of " << 2 * data.inv_freq.size() * data.angles.size()
            << " values misrounded at positions" << places << "\n          largest error "
            << significant(exact.largest, 2) << "\n          at 131071 the usual float32 formula (--angles float32) is "
            << "off by up to " << significant(single.largest, 2) << '\n';
  require(exact.misrounded == 0, "every cos and sin must be correctly rounded");
}

// Bytes in which rotate and the reference differ.
std::size_t count_different(const Tensor& before, const Table& table, Direction direction) {
  const Layout layout = layout_of(before);
  const DType dtype = *dtype_of(before.type);
  std::vector<std::byte> got(before.data.size()), expected(before.data.size());
  const ConstHeads x(before.data.data(), dtype, layout);
  rotate(x, {got.data(), dtype, layout}, table, direction);
  reference::rotate(x, {expected.data(), dtype, layout}, table, direction);
  std::size_t different = 0;
  for (std::size_t i = 0; i < got.size(); ++i) different += got[i] == expected[i] ? 0 : 1;
  return different;
}

void check_targets(const DemoData& data, const Table& table) {
  self_test();
  const std::string in_use(chosen_target());
  std::cout << "   check: q and k in bf16 and f32, forward and backward, against the scalar reference, bit for bit:\n  "
               "       ";
  for (const Target& target : targets()) {
    if (!target.runs) continue;
    use_target(target.name);
    std::size_t different = 0;
    for (const Tensor& tensor : data.tensors)
      for (const Direction direction : {Direction::forward, Direction::backward})
        different += count_different(tensor, table, direction);
    require(different == 0, "target " + std::string(target.name) + " differs from the reference in " +
                                std::to_string(different) + " bytes");
    std::cout << ' ' << target.name << " equal" << (target.name == in_use ? " (in use)" : "") << ',';
  }
  use_target(in_use);
  std::cout << " nothing differs\n";
}

void show_rotation(const DemoData& data, const Table& table) {
  std::vector<float> q = floats_of(data.tensors[0]);
  const Layout layout = layout_of(data.tensors[0]);
  const auto at = static_cast<std::size_t>(5 * layout.token_stride), pairs = static_cast<std::size_t>(table.pairs());
  const double a = q[at], b = q[at + pairs], cos = std::cos(5 * data.inv_freq[0]), sin = std::sin(5 * data.inv_freq[0]);
  rotate(heads(q, layout), table);
  std::cout << "\n4  rotate: (a, b) -> (a cos - b sin, b cos + a sin), q of 32 heads and k of 8 by one table\n"
            << "   q, token 5, head 0, pair 0:  (" << significant(a, 9) << ", " << significant(b, 9) << ") -> ("
            << significant(q[at], 9) << ", " << significant(q[at + pairs], 9) << ")\n   the same by libm in double:"
            << "                            (" << significant(a * cos - b * sin, 9) << ", "
            << significant(b * cos + a * sin, 9) << ")\n";
  check_targets(data, table);
}

void show_law(const DemoData& data, const Frequencies& turns) {
  std::cout << "\n5  The law: a score depends on the distance only (head 0, in f32, summed in double)\n";
  const Layout q_layout = layout_of(data.tensors[0]), k_layout = layout_of(data.tensors[1]);
  std::vector<double> first;
  double largest = 0;
  for (const std::int64_t shift : {0, 1000, 100000}) {
    const Table table(turns, positions(shift, q_layout.tokens));
    std::vector<float> q = floats_of(data.tensors[0]), k = floats_of(data.tensors[1]);
    rotate(heads(q, q_layout), table);
    rotate(heads(k, k_layout), table);
    std::cout << "   shifted by " << lead(std::to_string(shift), 6) << ":";
    std::vector<double> scores;
    for (const auto& [m, n] : {std::pair(12, 3), std::pair(15, 15)}) {
      const auto q_head = q.begin() + m * q_layout.token_stride, k_head = k.begin() + n * k_layout.token_stride;
      scores.push_back(std::inner_product(q_head, q_head + q_layout.head_dim, k_head, 0.0, std::plus<>(),
                                          std::multiplies<double>()));
      std::cout << (m == 12 ? "  q(" : "   q(") << m + shift << ") . k(" << n + shift
                << ") = " << significant(scores.back(), 10);
    }
    std::cout << '\n';
    if (first.empty()) first = scores;
    for (std::size_t i = 0; i < scores.size(); ++i) largest = std::max(largest, std::abs(scores[i] - first[i]));
  }
  std::cout << "   check: largest change " << significant(largest, 2) << " (f32 arithmetic, not the angles)\n";
  require(largest < 1e-3, "scores must not depend on where the tokens stand but changed by " + significant(largest, 3));
}

void show_time(const DemoData& data, const Frequencies& turns) {
  std::cout << "\n6  Time, one thread, target " << chosen_target() << ": medians on this machine as it is now\n";
  for (const std::int64_t tokens : {std::int64_t{64}, std::int64_t{4096}}) {
    const Layout layout = bthd(1, tokens, 32, 128);
    const std::vector<std::byte>& values = data.tensors[0].data;
    std::vector<std::byte> in(static_cast<std::size_t>(tokens) * 32 * 128 * 2), out(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = values[i % values.size()];
    std::optional<Table> table;
    void* (*volatile copy)(void*, const void*, std::size_t) = std::memcpy;  // that the compiler cannot leave out
    const std::array<std::function<void()>, 3> works = {
        [&] { table.emplace(turns, positions(0, tokens)); },
        [&] {
          rotate(ConstHeads(in.data(), DType::bf16, layout), {out.data(), DType::bf16, layout}, *table);
        },
        [&] { copy(out.data(), in.data(), in.size()); }};
    std::array<double, 3> micros = bench::medians_in_turn(works, 0.1).seconds;
    for (double& each : micros) each *= 1e6;
    std::cout << "   " << lead(std::to_string(tokens), 4) << " tokens x 32 heads x 128, bf16:  rotate "
              << significant(micros[1], 4) << " us   memcpy of the same bytes " << significant(micros[2], 4)
              << " us   ratio " << significant(micros[1] / micros[2], 3)
              << "   (table, once for all layers: " << significant(micros[0], 4) << " us)\n";
  }
}

void run(const DemoOptions& options) {
  const std::filesystem::path folder = find_demo_data(options.data);
  const DemoData data = load_demo_data(folder);
  const Model model = read_config(folder / "config.json");
  const ModelRope& used = model.ropes.at(0);
  std::cout << "The chain on bundled data in " << files::path_text(folder)
            << "\n\n1  Rope: what config.json says\n   model_type " << model.model_type << ": "
            << name(used.rope.pairing) << " pairing, head_dim " << used.rope.head_dim << ", base "
            << significant(used.rope.base, 10) << ", scaling " << name(used.rope.scaling) << ", layers "
            << ranges(used.layers) << ", heads " << used.heads << " of q and " << used.kv_heads << " of k\n";
  const Frequencies turns = frequencies(used.rope, 0);
  show_frequencies(used.rope, turns, data.inv_freq);
  const Table table(turns, positions(0, data.tensors[0].shape[1]));
  show_table(data, table);
  show_rotation(data, table);
  show_law(data, turns);
  show_time(data, turns);
  std::cout << "\nAll checks passed. The same on your files:\n"
               "   rotary inspect config.json\n"
               "   rotary apply config.json --input qk.safetensors --output rotated.safetensors\n";
}

// What run() prints, line by line under the title of each step; it throws where a check fails.
void run_as_json(const DemoOptions& options) {
  std::ostringstream printed;
  std::streambuf* const out = std::cout.rdbuf(printed.rdbuf());
  try {
    run(options);
  } catch (...) {
    std::cout.rdbuf(out);
    throw;
  }
  std::cout.rdbuf(out);
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const std::string& line : split(printed.str(), '\n')) {
    if (!line.empty() && std::isdigit(static_cast<unsigned char>(line[0])) != 0)
      steps.push_back({{"step", line.substr(3)}, {"lines", nlohmann::ordered_json::array()}});
    if (line.starts_with("   ") && !steps.empty()) steps.back()["lines"].push_back(line.substr(3));
  }
  std::cout << versioned({{"passed", true}, {"steps", std::move(steps)}}) << '\n';
}

}  // namespace

void add_demo(CLI::App& app) {
  auto options = std::make_shared<DemoOptions>();
  Command command(app, "demo");
  command.option("--data", options->data);
  command.option("--json", options->json);
  command.runs([options] { options->json ? run_as_json(*options) : run(*options); });
}

}  // namespace rotary::cli
