// rotary inspect: the ropes of a model pair by pair, or the tensors of a file.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "commands.h"
#include "rotary/files.h"
#include "source.h"
#include "text.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

struct Options {
  Source source;
  bool json = false;
};

// ---- one rope, as numbers ----

struct PairView {
  int axis = 0;
  double inv_freq = 0;
  double stretch = 1;  // how many times longer scaling made the wavelength; 0: the pair stands still
  const char* effect = "kept";
};

struct RopeView {
  const ModelRope* used = nullptr;
  std::int64_t context = 0;  // tokens; 0: unknown
  int axes = 1;
  double attention_factor = 1;
  std::vector<PairView> pairs;
};

std::int64_t trained_length(const Scaling& scaling) {
  return std::visit(
      [](const auto& method) -> std::int64_t {
        if constexpr (requires { method.trained_length; }) {
          return method.trained_length;
        } else {
          return 0;
        }
      },
      scaling);
}

// The stretch that counts as whole: the method's factor, or what the most stretched pair got.
double whole_stretch(const Scaling& scaling, double most) {
  if (std::holds_alternative<Dynamic>(scaling)) return most;
  if (std::holds_alternative<LongRope>(scaling)) return 0;  // every pair has its own factor
  return std::visit(
      [most](const auto& method) {
        if constexpr (requires { method.factor; }) {
          return std::min<double>(method.factor, most);
        } else {
          return most;
        }
      },
      scaling);
}

const char* effect_of(double stretch, double whole) {
  constexpr double slack = 1e-9;  // of rounding, far below any published factor
  if (stretch == 0) return "still";
  if (std::abs(stretch - 1) <= slack) return "kept";
  if (stretch < 1) return "shortened";
  return stretch >= whole * (1 - slack) ? "stretched" : "blended";
}

RopeView view_rope(const ModelRope& used, const Source& source) {
  Rope plain = used.rope;
  plain.scaling = Unscaled{};
  const std::vector<double> unscaled = frequencies(plain).inv_freq;
  const Frequencies scaled = frequencies(used.rope, source.length.value_or(0));
  RopeView view;
  view.used = &used;
  view.axes = scaled.axes();
  view.attention_factor = scaled.attention_factor;
  view.context = source.length.value_or(used.context > 0 ? used.context : trained_length(used.rope.scaling));
  double most = 1;
  for (std::size_t i = 0; i < scaled.inv_freq.size(); ++i) {
    PairView pair;
    pair.axis = scaled.axis.empty() ? 0 : scaled.axis[i];
    pair.inv_freq = scaled.inv_freq[i];
    pair.stretch = pair.inv_freq == 0 ? 0 : unscaled[i] / pair.inv_freq;
    most = std::max(most, pair.stretch);
    view.pairs.push_back(pair);
  }
  for (PairView& pair : view.pairs) pair.effect = effect_of(pair.stretch, whole_stretch(used.rope.scaling, most));
  return view;
}

// ---- JSON: the keys are a contract ----

Json json_of(const RopeView& view) {
  const ModelRope& used = *view.used;
  Json inv_freq = Json::array();
  Json axis = Json::array();
  Json effect = Json::array();
  for (const PairView& pair : view.pairs) {
    inv_freq.push_back(pair.inv_freq);
    axis.push_back(pair.axis);
    effect.push_back(pair.effect);
  }
  return {{"part", used.part},
          {"layers", used.layers},
          {"layers_without_rope", used.layers_without_rope},
          {"heads", used.heads},
          {"kv_heads", used.kv_heads},
          {"head_dim", used.rope.head_dim},
          {"rotary_dim", used.rope.rotary_dim},
          {"first", used.first},
          {"pairing", name(used.rope.pairing)},
          {"base", used.rope.base},
          {"scaling", name(used.rope.scaling)},
          {"attention_factor", view.attention_factor},
          {"inv_freq", std::move(inv_freq)},
          {"axis", std::move(axis)},
          {"context", view.context},
          {"trained_length", trained_length(used.rope.scaling)},
          {"effect", std::move(effect)}};
}

// ---- for people ----

std::string scaling_text(const Scaling& scaling) {
  std::string text = name(scaling);
  std::visit(
      [&text](const auto& method) {
        if constexpr (requires { method.factor; }) text += ", factor " + digits(method.factor, 10);
        if constexpr (requires { method.low; }) {
          text += ", low " + digits(method.low, 10) + ", high " + digits(method.high, 10);
        }
        if constexpr (requires { method.beta_fast; }) {
          text += ", beta_fast " + digits(method.beta_fast, 10) + ", beta_slow " + digits(method.beta_slow, 10);
        }
        if constexpr (requires { method.fraction; }) text += ", fraction " + digits(method.fraction, 10);
        if constexpr (requires { method.trained_length; }) {
          text += ", trained length " + std::to_string(method.trained_length);
        }
      },
      scaling);
  return text;
}

void print_row(const std::string& key, const std::string& value) { std::cout << "  " << pad(key, 18) << value << '\n'; }

void print_header(const RopeView& view, std::size_t index) {
  const ModelRope& used = *view.used;
  const Rope& rope = used.rope;
  std::cout << "\nrope " << index << (used.part.empty() ? "" : " of " + printable(used.part)) << '\n';
  print_row("layers", ranges(used.layers));
  if (!used.layers_without_rope.empty()) print_row("layers without", ranges(used.layers_without_rope));
  if (used.heads > 0)
    print_row("heads", std::to_string(used.heads) + " of q, " + std::to_string(used.kv_heads) + " of k");
  print_row("head_dim", std::to_string(rope.head_dim));
  const int last = used.first + rope.rotary_dim - 1;
  print_row("turning", std::to_string(rope.rotary_dim) + " elements, " + std::to_string(used.first) + " to " +
                           std::to_string(last) + " (" + std::to_string(rope.rotary_dim / 2) + " pairs)");
  print_row("pairing", name(rope.pairing));
  print_row("base", digits(rope.base, 17));
  print_row("scaling", scaling_text(rope.scaling));
  print_row("attention factor", digits(view.attention_factor, 17));
  print_row("context",
            view.context > 0 ? std::to_string(view.context) + " tokens" : "not stated (--length N gives turns)");
}

void print_pairs(const RopeView& view) {
  constexpr double circle = 6.283185307179586;
  std::cout << "\n  pair" << (view.axes > 1 ? "  axis" : "") << lead("inv_freq", 24) << lead("wavelength", 14)
            << (view.context > 0 ? lead("turns", 12) : "") << "  scaling\n";
  for (std::size_t i = 0; i < view.pairs.size(); ++i) {
    const PairView& pair = view.pairs[i];
    const bool turns = pair.inv_freq != 0;
    std::cout << lead(std::to_string(i), 6);
    if (view.axes > 1) std::cout << lead(std::to_string(pair.axis), 6);
    std::cout << lead(digits(pair.inv_freq, 17), 24) << lead(turns ? digits(circle / pair.inv_freq, 7) : "-", 14);
    if (view.context > 0) {
      std::cout << lead(digits(static_cast<double>(view.context) * pair.inv_freq / circle, 5), 12);
    }
    std::cout << "  " << pair.effect;
    if (turns && std::string_view(pair.effect) != "kept") std::cout << " x " << digits(pair.stretch, 6);
    std::cout << '\n';
  }
}

void inspect_model(const Options& options) {
  check_source(options.source);
  if (options.source.config.empty() && !options.source.head_dim) throw UsageError("--base needs --head-dim");
  const Model model = read_model(options.source, options.source.head_dim.value_or(0));
  std::vector<RopeView> views;
  for (const ModelRope& used : model.ropes) views.push_back(view_rope(used, options.source));
  if (options.json) {
    Json ropes = Json::array();
    for (const RopeView& view : views) ropes.push_back(json_of(view));
    std::cout << json_text({{"model_type", model.model_type}, {"ropes", std::move(ropes)}, {"notes", model.notes}})
              << '\n';
    return;
  }
  std::cout << (model.model_type.empty() ? "model_type not stated" : "model_type " + printable(model.model_type))
            << ", " << views.size() << (views.size() == 1 ? " rope\n" : " ropes\n");
  for (std::size_t i = 0; i < views.size(); ++i) {
    print_header(views[i], i);
    print_pairs(views[i]);
  }
  if (!model.notes.empty()) std::cout << "\nnotes\n";
  for (const std::string& note : model.notes) std::cout << "  " << printable(note) << '\n';
}

// ---- tensors in a file ----

void inspect_tensors(const Options& options, bool npy) {
  const Source& source = options.source;
  if (source.base || source.head_dim || source.rotary_dim || source.first || source.length || !source.pairing.empty()) {
    throw UsageError("a file of tensors has no rope: only --json goes with it");
  }
  std::vector<TensorInfo> tensors;
  if (npy) {
    tensors.push_back(read_npy(source.config));
  } else {
    tensors = SafetensorsFile(source.config).tensors();
  }
  if (options.json) {
    Json list = Json::array();
    for (const TensorInfo& tensor : tensors) {
      list.push_back({{"name", tensor.name}, {"dtype", name(tensor.type)}, {"shape", tensor.shape}});
    }
    Json all;
    all["tensors"] = std::move(list);
    std::cout << json_text(all) << '\n';
    return;
  }
  std::size_t width = 4;
  for (const TensorInfo& tensor : tensors) width = std::max(width, printable(tensor.name).size());
  std::cout << pad("name", width) << "  dtype    shape\n";
  for (const TensorInfo& tensor : tensors) {
    std::cout << pad(tensor.name.empty() ? "-" : printable(tensor.name), width) << "  " << pad(name(tensor.type), 7)
              << "  " << shape_text(tensor.shape) << '\n';
  }
}

void run(const Options& options) {
  const std::string extension = std::filesystem::path(options.source.config).extension().string();
  if (extension == ".npy" || extension == ".safetensors") {
    inspect_tensors(options, extension == ".npy");
  } else {
    inspect_model(options);
  }
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect", "Show the ropes of a model pair by pair, or the tensors in a file");
  add_source_options(*command, options->source);
  add_head_dim_option(*command, options->source);
  command->get_option("CONFIG")->description(
      "a model's config.json or params.json, or its folder, or a .gguf file; or a .safetensors or .npy file");
  command->add_flag("--json", options->json, "as JSON, every double with 17 digits");
  command->footer(
      "Per pair: inv_freq in radians per position, the wavelength in tokens, the turns over the context, and\n"
      "what scaling did: kept, blended (partly), stretched (by the whole factor), still (does not turn).\n"
      "  rotary inspect Llama-3.1-8B/\n"
      "  rotary inspect config.json --length 65536 --json\n"
      "  rotary inspect --base 10000 --pairing half --head-dim 128\n"
      "  rotary inspect qk.safetensors");
  command->callback([options] { run(*options); });
}

}  // namespace rotary::cli
