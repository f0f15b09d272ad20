// rotary demo: the chain step by step on bundled data, each step checked by an independent computation.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/system.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "demo_places.h"
#include "files/text/paths.h"
#include "measure/medians.h"
#include "rotary/config.h"
#include "rotary/reference.h"
#include "rotary/targets.h"
#include "rotary/tensors.h"

namespace rotary::cli {

namespace {

struct Options {
  std::string data;
};

// ---- the data, made by tools/golden/make_demo_data.py ----

struct ExactAngles {
  std::int64_t position = 0;
  std::vector<std::string> cos;  // decimals, 25 digits
  std::vector<std::string> sin;
};

struct DemoData {
  Tensor q, k;      // bf16 [batch, tokens, heads, head_dim]
  Tensor q32, k32;  // the same values in f32
  std::vector<double> inv_freq;
  std::vector<ExactAngles> angles;
};

Tensor widen(const Tensor& narrow) {
  Tensor wide;
  wide.name = narrow.name;
  wide.type = ElementType::f32;
  wide.shape = narrow.shape;
  wide.bytes = 2 * narrow.bytes;
  wide.data.resize(2 * narrow.data.size());
  const std::span<const bf16> values = narrow.as<bf16>();
  std::transform(values.begin(), values.end(), wide.as<float>().begin(), [](bf16 value) { return to_float(value); });
  return wide;
}

Tensor read_bf16(const SafetensorsFile& file, const char* name) {
  Tensor tensor = file.read(name);
  if (tensor.type != ElementType::bf16 || tensor.shape.size() != 4 || tensor.shape[1] < 16 || tensor.shape[3] != 128) {
    throw Error(Code::FORMAT, std::string("[demo] ") + name + " must be bf16 [batch, 16 or more, heads, 128]");
  }
  return tensor;
}

// `wanted` if it is not empty, otherwise the first that exists: ../share/rotary/demo next to the program, the source
// tree, the installation. Throws FILE.
std::filesystem::path find_demo_data(const std::string& wanted) {
  if (!wanted.empty()) return files::path_of(wanted);
  std::error_code ignored;
  const std::filesystem::path program = program_path();
  for (const std::filesystem::path& folder : {program.parent_path() / "../share/rotary/demo",
                                              files::path_of(demo_in_source), files::path_of(demo_installed)}) {
    if (std::filesystem::exists(folder / "config.json", ignored)) return folder.lexically_normal();
  }
  throw Error(Code::FILE, "[demo] the bundled data lies neither beside the program nor in " +
                              std::string(demo_in_source) + ": say where with --data");
}

// Throws FILE, FORMAT, TENSOR, JSON.
DemoData load_demo_data(const std::filesystem::path& folder) {
  DemoData data;
  const SafetensorsFile file(folder / "qk.safetensors");
  data.q = read_bf16(file, "q");
  data.k = read_bf16(file, "k");
  data.q32 = widen(data.q);
  data.k32 = widen(data.k);
  std::ifstream stream(folder / "high_precision.json");
  if (!stream) throw Error(Code::FILE, "[demo] cannot read " + files::path_text(folder / "high_precision.json"));
  try {
    const nlohmann::json json = nlohmann::json::parse(stream);
    for (const nlohmann::json& text : json.at("inv_freq")) {
      data.inv_freq.push_back(std::strtod(text.get<std::string>().c_str(), nullptr));
    }
    for (const nlohmann::json& row : json.at("angles")) {
      data.angles.push_back({row.at("position").get<std::int64_t>(), row.at("cos").get<std::vector<std::string>>(),
                             row.at("sin").get<std::vector<std::string>>()});
      const ExactAngles& added = data.angles.back();
      if (added.cos.size() != data.inv_freq.size() || added.sin.size() != data.inv_freq.size()) {
        throw Error(Code::JSON, "[demo] high_precision.json must have one cos and sin per inv_freq");
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(Code::JSON, std::string("[demo] high_precision.json: ") + error.what());
  }
  if (data.inv_freq.size() != 64) throw Error(Code::JSON, "[demo] high_precision.json must have 64 values of inv_freq");
  return data;
}

Layout layout_of(const Tensor& tensor) {
  return bthd(tensor.shape[0], tensor.shape[1], tensor.shape[2], static_cast<int>(tensor.shape[3]));
}

std::vector<float> floats_of(const Tensor& tensor) {
  const std::span<const float> values = tensor.as<float>();
  return {values.begin(), values.end()};
}

// ---- what is shown ----

void require(bool holds, const std::string& sentence) {
  if (!holds) throw Error(Code::CHECK, "[demo] " + sentence);
}

void step(const char* number, const std::string& title) { std::cout << '\n' << number << "  " << title << '\n'; }

// ---- 2: frequencies ----

void show_frequencies(const Rope& rope, const Frequencies& turns, const std::vector<double>& expected) {
  step("2", "Frequencies: one angular speed per pair, after the scaling");
  Rope plain = rope;
  plain.scaling = Unscaled{};
  const std::vector<double> unscaled = frequencies(plain).inv_freq;
  for (const std::size_t pair : {std::size_t{0}, std::size_t{28}, std::size_t{32}, std::size_t{63}}) {
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

// ---- 3: the table ----

struct AngleErrors {
  std::size_t values = 0;
  std::size_t misrounded = 0;
  double largest = 0;
};

AngleErrors compare_angles(const DemoData& data, std::span<const ExactAngles> wanted, Angles method) {
  AngleErrors errors;
  Frequencies turns;
  turns.inv_freq = data.inv_freq;
  turns.pairing = Pairing::half;
  for (const ExactAngles& exact : wanted) {
    const Table table(turns, exact.position, method);
    for (std::size_t i = 0; i < exact.cos.size(); ++i) {
      for (const auto& [got, text] :
           {std::pair(table.cos()[i], &exact.cos[i]), std::pair(table.sin()[i], &exact.sin[i])}) {
        ++errors.values;
        errors.misrounded += got == std::strtof(text->c_str(), nullptr) ? 0 : 1;
        errors.largest =
            std::max(errors.largest, std::abs(static_cast<double>(got) - std::strtod(text->c_str(), nullptr)));
      }
    }
  }
  return errors;
}

void show_table(const DemoData& data, const Table& table) {
  step("3", "Table: one row of cos and sin per token, f32");
  std::cout << "   positions 0:" << table.tokens() << " -> cos, sin [" << table.tokens() << ", " << table.pairs()
            << "]\n";
  const std::size_t row = 5 * static_cast<std::size_t>(table.pairs());
  std::cout << "   token 5, pair 0: cos " << significant(table.cos()[row], 9) << "  sin "
            << significant(table.sin()[row], 9) << '\n';
  const AngleErrors exact = compare_angles(data, data.angles, Angles::exact);
  std::cout << "   check: " << exact.misrounded << " of " << exact.values << " values misrounded at positions";
  for (const ExactAngles& angles : data.angles) std::cout << ' ' << angles.position;
  std::cout << "\n          largest error " << significant(exact.largest, 2) << '\n';
  for (const ExactAngles& angles : data.angles) {
    if (angles.position != 131071) continue;
    const AngleErrors single = compare_angles(data, std::span(&angles, 1), Angles::float32);
    std::cout << "          at 131071 the usual float32 formula (--angles float32) is off by up to "
              << significant(single.largest, 2) << '\n';
  }
  require(exact.misrounded == 0, "every cos and sin must be correctly rounded");
}

// ---- 4: rotate ----

std::size_t count_different(const Tensor& before, const Layout& layout, DType dtype, const Table& table,
                            Direction direction) {
  std::vector<std::byte> got(before.data.size());
  std::vector<std::byte> expected(before.data.size());
  const ConstHeads x(before.data.data(), dtype, layout);
  const Heads out{got.data(), dtype, layout};
  const Heads oracle{expected.data(), dtype, layout};
  rotate(x, out, table, direction);
  reference::rotate(x, oracle, table, direction);
  std::size_t different = 0;
  for (std::size_t i = 0; i < got.size(); ++i) different += got[i] == expected[i] ? 0 : 1;
  return different;
}

void check_targets(const DemoData& data, const Table& table) {
  const std::string in_use(chosen_target());
  std::cout << "   check: q and k in bf16 and f32, forward and backward, against the scalar reference, bit for bit:\n  "
               "       ";
  for (const Target& target : targets()) {
    if (!target.runs) continue;
    use_target(target.name);
    std::size_t different = 0;
    for (const Tensor* tensor : {&data.q, &data.k, &data.q32, &data.k32}) {
      for (const Direction direction : {Direction::forward, Direction::backward}) {
        different += count_different(*tensor, layout_of(*tensor), *dtype_of(tensor->type), table, direction);
      }
    }
    require(different == 0, "target " + std::string(target.name) + " differs from the reference in " +
                                std::to_string(different) + " bytes");
    std::cout << ' ' << target.name << " equal" << (target.name == in_use ? " (in use)" : "") << ',';
  }
  use_target(in_use);
  std::cout << " nothing differs\n";
}

void show_rotation(const DemoData& data, const Table& table) {
  step("4", "rotate: (a, b) -> (a cos - b sin, b cos + a sin), q of 32 heads and k of 8 by one table");
  std::vector<float> q = floats_of(data.q32);
  const Layout layout = layout_of(data.q32);
  const auto at = static_cast<std::size_t>(5 * layout.token_stride);
  const auto pairs = static_cast<std::size_t>(table.pairs());
  const double a = q[at];
  const double b = q[at + pairs];
  const double angle = 5 * data.inv_freq[0];
  rotate(heads(q, layout), table);
  std::cout << "   q, token 5, head 0, pair 0:  (" << significant(a, 9) << ", " << significant(b, 9) << ") -> ("
            << significant(q[at], 9) << ", " << significant(q[at + pairs], 9) << ")\n   the same by libm in double:"
            << "                            (" << significant(a * std::cos(angle) - b * std::sin(angle), 9) << ", "
            << significant(b * std::cos(angle) + a * std::sin(angle), 9) << ")\n";
  check_targets(data, table);
}

// ---- 5: the law ----

double score(const std::vector<float>& q, const Layout& q_layout, std::int64_t m, const std::vector<float>& k,
             const Layout& k_layout, std::int64_t n) {
  const auto q_at = static_cast<std::size_t>(m * q_layout.token_stride);
  const auto k_at = static_cast<std::size_t>(n * k_layout.token_stride);
  double sum = 0;
  for (std::size_t d = 0; d < static_cast<std::size_t>(q_layout.head_dim); ++d) {
    sum += static_cast<double>(q[q_at + d]) * static_cast<double>(k[k_at + d]);
  }
  return sum;
}

void show_law(const DemoData& data, const Frequencies& turns) {
  step("5", "The law: a score depends on the distance only (head 0, in f32, summed in double)");
  const Layout q_layout = layout_of(data.q32);
  const Layout k_layout = layout_of(data.k32);
  double first[2] = {0, 0};
  double largest = 0;
  for (const std::int64_t shift : {0, 1000, 100000}) {
    const Table table(turns, positions(shift, q_layout.tokens));
    std::vector<float> q = floats_of(data.q32);
    std::vector<float> k = floats_of(data.k32);
    rotate(heads(q, q_layout), table);
    rotate(heads(k, k_layout), table);
    const double scores[2] = {score(q, q_layout, 12, k, k_layout, 3), score(q, q_layout, 15, k, k_layout, 15)};
    for (int i = 0; i < 2; ++i) {
      if (shift == 0) first[i] = scores[i];
      largest = std::max(largest, std::abs(scores[i] - first[i]));
    }
    std::cout << "   shifted by " << lead(std::to_string(shift), 6) << ":  q(" << 12 + shift << ") . k(" << 3 + shift
              << ") = " << significant(scores[0], 10) << "   q(" << 15 + shift << ") . k(" << 15 + shift
              << ") = " << significant(scores[1], 10) << '\n';
  }
  std::cout << "   check: largest change " << significant(largest, 2) << " (f32 arithmetic, not the angles)\n";
  require(largest < 1e-3, "scores must not depend on where the tokens stand but changed by " + significant(largest, 3));
}

// ---- 6: time ----

// memcpy that the compiler cannot leave out.
void copy_bytes(std::vector<std::byte>& to, const std::vector<std::byte>& from) {
  void* (*volatile copy)(void*, const void*, std::size_t) = std::memcpy;
  copy(to.data(), from.data(), from.size());
}

void show_time(const DemoData& data, const Frequencies& turns) {
  step("6", "Time, one thread, target " + std::string(chosen_target()) + ": medians on this machine as it is now");
  for (const std::int64_t tokens : {std::int64_t{64}, std::int64_t{4096}}) {
    const Layout layout = bthd(1, tokens, 32, 128);
    const std::size_t bytes = static_cast<std::size_t>(tokens) * 32 * 128 * 2;
    std::vector<std::byte> in(bytes);
    for (std::size_t i = 0; i < bytes; ++i) in[i] = data.q.data[i % data.q.data.size()];
    std::vector<std::byte> out(bytes);
    std::optional<Table> table;
    const auto make = [&] { table.emplace(turns, positions(0, tokens)); };
    const auto turn = [&] {
      rotate(ConstHeads(in.data(), DType::bf16, layout), {out.data(), DType::bf16, layout}, *table);
    };
    const auto copy = [&] { copy_bytes(out, in); };
    const int runs = tokens > 1000 ? 31 : 301;
    const std::function<void()> works[] = {make, turn, copy};
    for (const auto& work : works) work();
    std::vector<double> micros = detail::medians_in_turn(3, 0, {runs, runs, runs}, [&](std::size_t i) {
                                   return 1e6 * detail::seconds_of(works[i]);
                                 }).seconds;
    std::cout << "   " << lead(std::to_string(tokens), 4) << " tokens x 32 heads x 128, bf16:  rotate "
              << significant(micros[1], 4) << " us   memcpy of the same bytes " << significant(micros[2], 4)
              << " us   ratio " << significant(micros[1] / micros[2], 3)
              << "   (table, once for all layers: " << significant(micros[0], 4) << " us)\n";
  }
}

void run(const Options& options) {
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
  const Table table(turns, positions(0, data.q.shape[1]));
  show_table(data, table);
  show_rotation(data, table);
  show_law(data, turns);
  show_time(data, turns);
  std::cout << "\nAll checks passed. The same on your files:\n"
               "   rotary inspect config.json\n"
               "   rotary apply config.json --input qk.safetensors --output rotated.safetensors\n";
}

}  // namespace

void add_demo(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Command command(app, "demo", "The whole chain on bundled data: shown, checked, timed");
  command.option("--data", options->data, "the folder of config.json, qk.safetensors and high_precision.json")
      .type_name("FOLDER");
  command.footer("Reads only; writes no file. tools/golden/make_demo_data.py made the data.");
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
