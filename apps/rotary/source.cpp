#include "source.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "files/config/caller_words.h"
#include "files/text/paths.h"
#include "reach.h"
#include "scaling_options.h"
#include "tools/config_place.h"
#include "tools/subject.h"

namespace rotary::cli {

namespace {

const std::vector<std::string> pairing_words = {"half", "interleaved", "interleaved_to_half"};
const std::vector<std::string> angles_words = {"exact", "float32"};
const std::vector<std::string> rounding_words = {"f32", "f16", "bf16"};

std::vector<ValueOrigin> origins_of(const Source& source) {
  ValueOrigin width{"rotary_dim", Origin::derived, source.first ? "head_dim - first" : "head_dim"};
  if (!source.inv_freq.empty()) width.from = "2 * pairs";
  if (source.rotary_dim) width = {"rotary_dim", Origin::given, "--rotary-dim"};
  std::vector<ValueOrigin> origins = {{"head_dim", Origin::given, "--head-dim"}, width};
  if (source.first.value_or(0) != 0) origins.push_back({"first", Origin::given, "--first"});
  origins.push_back({"pairing", Origin::given, "--pairing"});
  if (source.base) origins.push_back({"base", Origin::given, "--base"});
  if (!source.inv_freq.empty()) origins.push_back({"inv_freq", Origin::given, "--inv-freq"});
  origins.push_back({"scaling", Origin::derived, "none without CONFIG"});
  origins.push_back({"attention_factor", Origin::derived, "1 for default"});
  return origins;
}

Model model_without_config(const Source& source, int head_dim) {
  ModelRope described;
  described.first = source.first.value_or(0);
  described.rope.head_dim = head_dim;
  const int room = described.first < 0 ? 0 : head_dim - described.first;
  described.rope.rotary_dim = source.rotary_dim.value_or(room);
  if (source.base) described.rope.base = *source.base;
  if (!source.inv_freq.empty()) {
    described.rope.inv_freq = read_inv_freq(files::path_of(source.inv_freq));
    const std::size_t pairs = std::min<std::size_t>(described.rope.inv_freq.size(), 65536);
    described.rope.rotary_dim = source.rotary_dim.value_or(static_cast<int>(2 * pairs));
  }
  described.rope.pairing = *pairing_of(source);
  if (described.first < 0 || described.rope.rotary_dim < 1 || described.rope.rotary_dim > room) {
    throw Error(Code::SHAPE, "[rope] the elements that turn must fit head_dim " + std::to_string(head_dim) +
                                 " but got " + std::to_string(described.rope.rotary_dim) + " from element " +
                                 std::to_string(described.first));
  }
  described.origins = origins_of(source);
  Model model;
  model.ropes.push_back(described);
  return model;
}

// The sentences of the library name its functions, those of the program its options.
void name_options(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {files::caller_words::pairing, "--pairing"},
      {files::caller_words::weights, "--weights FILE gives the checkpoint"},
      {files::caller_words::inv_freq, "--inv-freq FILE uses such values"}};
  for (const auto& [function, option] : words) {
    if (const auto at = text.find(function); at != std::string::npos) text.replace(at, function.size(), option);
  }
}

void name_options(Model& model) {
  for (std::string& note : model.notes) name_options(note);
  for (ModelRope& used : model.ropes) {
    for (ValueOrigin& known : used.origins) name_options(known.from);
  }
}

// The option that replaces CONFIG.
std::string described_by(const Source& source) { return source.base ? "--base" : "--inv-freq"; }

std::size_t rope_of_inv_freq(const Model& model, const Source& source) {
  if (model.ropes.size() > 1 && !source.rope) {
    throw Error(Code::ROPE, "[rope] --inv-freq must come with --rope N, which of the model's " +
                                std::to_string(model.ropes.size()) + " ropes it is for, but got none");
  }
  return static_cast<std::size_t>(&chosen_rope(model, source) - model.ropes.data());
}

bool reads_with_pairing(const std::string& config) {
  ConfigOptions options;
  options.pairing = Pairing::half;
  try {
    tools::read_config_at(config, options);
  } catch (const Error& error) {
    return error.code() != Code::MODEL_TYPE;
  }
  return true;
}

// Adds a hint to the error if only the pairing is missing.
Model read_config_file(const Source& source) {
  if (source.model) return *source.model;
  ConfigOptions options;
  options.pairing = pairing_of(source);
  try {
    return tools::read_config_at(source.config, options);
  } catch (const Error& error) {
    if (error.code() != Code::MODEL_TYPE || options.pairing || !reads_with_pairing(source.config)) throw;
    const std::string sentence = error.what();
    throw Error(error.code(), sentence + (sentence.ends_with('?') ? " Or pass" : ": pass") +
                                  " --pairing half, interleaved or interleaved_to_half");
  }
}

}  // namespace

void add_source_options(Command& command, Source& source, const char* config) {
  command
      .option(config, source.config,
              "a model's config.json or params.json, its folder, or a .gguf file;\n"
              "or a repository in the Hugging Face cache (Qwen/Qwen3-8B);\n"
              "or - for standard input")
      .type_name(config[0] == '-' ? "CONFIG" : "");
  add_source_options_but_config(command, source);
}

void add_source_options_but_config(Command& command, Source& source) {
  constexpr std::int64_t most =
      std::numeric_limits<std::int64_t>::max() - 1;  // CLI11 clamps larger numbers to the maximum
  command
      .option("--pairing", source.pairing,
              "which two elements turn together: half (i, i + n), interleaved (2i, 2i + 1),\n"
              "or interleaved_to_half (reads the second, writes the first). Needed without CONFIG\n"
              "and for an unknown model_type; overrides a known one")
      .one_of(pairing_words)
      .type_name("WORD");
  command
      .option("--base", source.base,
              "rope_theta, above 1; the usual one is 10000. Instead of the\n"
              "config's, or without CONFIG")
      .type_name("B");
  add_scaling_options(command, source);
  command
      .option("--rotary-dim", source.rotary_dim,
              "without CONFIG: elements of a head that turn, even (default: head_dim - first)")
      .type_name("R");
  command.option("--first", source.first, "without CONFIG: the element of the head where they begin (default 0)")
      .type_name("F");
  command
      .option("--inv-freq", source.inv_freq,
              "radians per position of each pair, instead of what base and scaling give: [pairs] f64,\n"
              "f32, f16 or bf16, an .npy, or a safetensors file with one tensor or one named inv_freq.\n"
              "A CONFIG of several ropes needs --rope")
      .type_name("FILE");
  command
      .option("--weights", source.weights,
              "the model's checkpoint, for frequencies that it learned: model.safetensors, its\n"
              "index.json, or their folder")
      .type_name("FILE");
  command
      .option("--length", source.length,
              "tokens in play; only the scalings dynamic and longrope depend on it.\n"
              "Default: the largest position + 1 (inspect: the trained length)")
      .range(std::int64_t{0}, most)
      .type_name("N");
}

void add_head_dim_option(Command& command, Source& source) {
  command.option("--head-dim", source.head_dim, "without CONFIG: elements of one head, for example 128")
      .range(1, 65536)
      .type_name("D");
}

void add_rope_option(Command& command, Source& source) {
  command.option("--rope", source.rope, "which rope of the model, from 0 as 'rotary inspect' counts (default 0)")
      .type_name("N");
}

std::optional<Pairing> pairing_of(const Source& source) {
  if (source.pairing.empty()) return std::nullopt;
  return parse_pairing(source.pairing);
}

void check_source(const Source& source) {
  if (!source.inv_freq.empty() && !source.weights.empty()) {
    throw UsageError("--inv-freq and --weights both give the frequencies: give one of them");
  }
  check_scaling_options(source);
  if (source.base && !source.inv_freq.empty()) {
    throw UsageError("--base and --inv-freq both give the frequencies: give one of them");
  }
  if (!source.config.empty()) {
    if (source.rotary_dim || source.first || source.head_dim) {
      throw UsageError("--rotary-dim, --first and --head-dim describe a rope without CONFIG");
    }
    return;
  }
  const std::string given = described_by(source);
  if (!source.weights.empty()) throw UsageError("--weights needs CONFIG: it says which tensors count");
  if (!source.base && source.inv_freq.empty()) {
    throw UsageError("say which rope: CONFIG, or --base and --pairing, or --inv-freq and --pairing");
  }
  if (source.pairing.empty()) throw UsageError(given + " needs --pairing: half, interleaved or interleaved_to_half");
  if (source.rope.value_or(0) != 0) throw UsageError(given + " describes one rope: --rope can only be 0");
}

void check_source_without_tensor(const Source& source) {
  check_source(source);
  if (source.config.empty() && !source.head_dim) throw UsageError(described_by(source) + " needs --head-dim");
}

bool has_rope_options(const Source& source) {
  const bool words =
      !source.pairing.empty() || !source.inv_freq.empty() || !source.weights.empty() || !source.scaling.empty();
  return words || source.base || source.head_dim || source.rotary_dim || source.first || source.rope || source.length ||
         source.factor || source.trained_length;
}

Model read_model(const Source& source, int head_dim) {
  Model model = source.config.empty() ? model_without_config(source, head_dim) : read_config_file(source);
  apply_scaling_options(model, source);
  if (source.config.empty()) return model;
  if (!source.inv_freq.empty()) {
    set_inv_freq(model, rope_of_inv_freq(model, source), read_inv_freq(files::path_of(source.inv_freq)),
                 source.inv_freq);
  }
  if (!source.weights.empty()) apply_weights(model, files::path_of(source.weights));
  name_options(model);
  return model;
}

Frequencies frequencies_of(const Source& source, const Rope& rope, std::int64_t length) {
  try {
    return frequencies(rope, length);
  } catch (const Error& error) {
    std::string sentence = error.what();
    const auto operation = sentence.find("] ");
    if (source.config.empty() || operation == std::string::npos) throw;
    throw Error(error.code(), sentence.insert(operation + 2, printable(source.config) + ": "));
  }
}

const ModelRope& chosen_rope(const Model& model, const Source& source) {
  return tools::chosen_rope(model, source.rope, source.config);
}

std::string describe(const Model& model, const ModelRope& used, const Frequencies& frequencies) {
  const auto index = static_cast<std::size_t>(&used - model.ropes.data());
  std::string text = "rope " + std::to_string(index) + " of " + std::to_string(model.ropes.size());
  if (!used.part.empty()) text += " (" + used.part + ")";
  text += ": " + std::string(name(used.rope.pairing)) + ", head_dim " + std::to_string(used.rope.head_dim);
  text += ", turning " + std::to_string(used.rope.rotary_dim) + " from element " + std::to_string(used.first);
  if (used.rope.clockwise) text += ", clockwise";
  text += used.rope.inv_freq.empty() ? ", base " + significant(used.rope.base, 10) : ", inv_freq given";
  text += std::string(", ") + name(used.rope.scaling);
  if (const std::string which = which_lengths(used.rope, frequencies); !which.empty()) text += " (" + which + ")";
  return text + ", attention factor " + significant(frequencies.attention_factor, 10);
}

void add_table_options(Command& command, TableSettings& settings) {
  command
      .option("--angles", settings.angles,
              "exact: correctly rounded at any position; float32: the float32 steps that\n"
              "frameworks take, for models that must match them")
      .one_of(angles_words)
      .type_name("WORD")
      .shows_default();
  command
      .option("--rounding", settings.rounding,
              "f16 or bf16: round cos and sin once more, for models trained with such a cache")
      .one_of(rounding_words)
      .type_name("WORD")
      .shows_default();
}

TableOptions table_options(const TableSettings& settings, const Executor& executor) {
  return {parse_angles(settings.angles), parse_rounding(settings.rounding), executor};
}

void add_machine_options(Command& command, Machine& machine) {
  command
      .option("--target", machine.target,
              "instruction set, one of 'rotary targets' (default: the best; all give the same bits)")
      .type_name("NAME");
  command.option("--threads", machine.threads, "threads to use; 0: all cores (default 1)")
      .range(0U, 1024U)
      .type_name("N");
}

}  // namespace rotary::cli
