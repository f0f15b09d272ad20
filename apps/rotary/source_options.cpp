// The options that say what rotates tensors, and which of them go together.
#include <cmath>
#include <limits>

#include "apps/shared/command.h"
#include "apps/shared/usage_error.h"
#include "source.h"

namespace rotary::cli {

const std::vector<std::string> pairing_words = {"half", "interleaved", "interleaved_to_half"};
// vLLM, GPT-J and transformers; norm is llama.cpp's LLAMA_ROPE_TYPE_NORM.
const Aliases pairing_aliases = {
    {"neox", "half"}, {"rotate_half", "half"}, {"gptj", "interleaved"}, {"norm", "interleaved"}};
const Aliases layout_aliases = {{"bshd", "bthd"}, {"bhsd", "bhtd"}, {"sbhd", "tbhd"}};
const Aliases scaling_aliases = {{"none", "default"}, {"ntk_aware", "ntk"}};

namespace {

const std::vector<std::string> angles_words = {"exact", "float32"};
const std::vector<std::string> rounding_words = {"f32", "f16", "bf16"};

// The option that replaces CONFIG.
std::string described_by(const Source& source) { return source.base ? "--base" : "--inv-freq"; }

}  // namespace

void add_source_options(Command& command, Source& source, const char* config) {
  command
      .option(config, source.config,
              "a model's config.json or params.json, its folder, or a .gguf file;\n"
              "or a repository in the Hugging Face cache (Qwen/Qwen3-8B);\n"
              "or - for standard input")
      .type_name("CONFIG");
  add_source_options_but_config(command, source);
}

void add_source_options_but_config(Command& command, Source& source) {
  constexpr std::int64_t most =
      std::numeric_limits<std::int64_t>::max() - 1;  // CLI11 clamps larger numbers to the maximum
  command.section(rope_section);
  command
      .option("--pairing", source.pairing,
              "which two elements turn together: half (i, i + n), interleaved (2i, 2i + 1),\n"
              "or interleaved_to_half (reads the second, writes the first). Needed without CONFIG\n"
              "and for an unknown model_type; overrides a known one")
      .one_of(pairing_words, pairing_aliases)
      .type_name("WORD");
  command
      .option("--base,--rope-theta", source.base,
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
              "f32, f16 or bf16, an .npy, or a safetensors file with one tensor or one named inv_freq;\n"
              "[axes, pairs]: a pair turns by the sum over all axes; [heads, axes, pairs]: each head, or\n"
              "each head of k with its queries, by a row of its own. A CONFIG of several ropes needs --rope")
      .type_name("FILE");
  command
      .option("--phase", source.phase,
              "radians added to each angle: [pairs] or [heads, pairs], a file as of --inv-freq")
      .type_name("FILE");
  command
      .option("--xpos-scale", source.xpos_scale,
              "above 0: xPos's amplitude of that scale, of k its inverse; a tensor is q unless its name\n"
              "says k")
      .type_name("S");
  command.option("--xpos-center", source.xpos_center, "the position where xPos's amplitude is 1 (default 0)")
      .type_name("C");
  command
      .option("--weights", source.weights,
              "the model's checkpoint, for what its rope learned (frequencies, directions, the rows of\n"
              "FoPE): model.safetensors, its index.json, or their folder")
      .type_name("FILE");
  command
      .option("--length", source.length,
              "tokens in play; only the scalings dynamic and longrope depend on it.\n"
              "Default: the largest position + 1 (inspect: the trained length)")
      .range(std::int64_t{0}, most)
      .type_name("N");
  command.section("");
}

void add_head_dim_option(Command& command, Source& source) {
  command.section(rope_section);
  command.option("--head-dim", source.head_dim, "without CONFIG: elements of one head, for example 128")
      .range(1, 65536)
      .type_name("D");
  command.section("");
}

void add_rope_option(Command& command, Source& source) {
  command.section(rope_section);
  command.option("--rope", source.rope, "which rope of the model, from 0 as 'rotary inspect' counts (default 0)")
      .type_name("N");
  command
      .option("--layer", source.layer,
              "instead of --rope, the layer whose rope it is; tensors are by default of the layer\n"
              "that is in their names, as in layers.3.q")
      .range(0, 1 << 20)
      .type_name("N");
  command.section("");
}

void add_request_options(Command& command, TableRequest& request) {
  add_source_options(command, request.source);
  command.added("CONFIG").usual();
  add_rope_option(command, request.source);
  add_positions_options(command, request.positions);
  command.section(rope_section);
  command
      .option("--cos", request.cos,
              "your own cos, f32 [rows, pairs] or [rows, heads, pairs]: .npy, or the tensor cos of a\n"
              "safetensors file")
      .type_name("FILE");
  command.option("--sin", request.sin, "your own sin, as --cos; row t serves token t, or --positions selects rows")
      .type_name("FILE");
  add_table_options(command, request.settings);
}

void add_positions_options(Command& command, PositionRequest& request) {
  command
      .option("--positions", request.spec,
              "positions of the tokens, ends not included: 7, 0:4096, -5:5, 0:8,100:104; 100:+16, 16 from\n"
              "100 on; 100: or +100, from there on for each token; or a .npy of int32, int64 or float64:\n"
              "[tokens] or [batch, tokens], with [axes, ...] in front for a rope of several axes; or\n"
              "packed:0,5,9, image:24x34, mask:FILE.npy, zigzag:RANK/RANKS:TOKENS, and so contiguous and\n"
              "striped. Default: 0:")
      .type_name("SPEC");
  add_same_position_option(command, request);
}

void add_same_position_option(Command& command, PositionRequest& request) {
  command.section(rope_section);
  command.flag("--same-position-on-every-axis", request.same_on_every_axis,
               "a rope of image axes takes one position for all axes, which is refused otherwise");
  command.section("");
}

void add_table_options(Command& command, TableSettings& settings) {
  command.section(computing_section);
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
  command.section("");
}

TableOptions table_options(const TableSettings& settings, const Executor& executor) {
  return {parse_angles(settings.angles), parse_rounding(settings.rounding), executor};
}

void add_machine_options(Command& command, Machine& machine) {
  command.section(computing_section);
  command
      .option("--target", machine.target,
              "instruction set, one of 'rotary targets' (default: the best; all give the same bits)")
      .type_name("NAME");
  command.option("--threads", machine.threads, "threads to use; 0: all cores (default 1)")
      .range(0U, 1024U)
      .type_name("N");
  command.section("");
}

void check_source(const Source& source) {
  if (!source.inv_freq.empty() && !source.weights.empty())
    throw UsageError("--inv-freq and --weights both give the frequencies: give one of them");
  check_scaling_options(source);
  if (source.base && !source.inv_freq.empty())
    throw UsageError("--base and --inv-freq both give the frequencies: give one of them");
  if (source.xpos_center && !source.xpos_scale) throw UsageError("--xpos-center needs --xpos-scale");
  if (source.xpos_scale && !(*source.xpos_scale > 0 && std::isfinite(*source.xpos_scale)))
    throw UsageError("--xpos-scale must be finite and above 0");
  if (!std::isfinite(source.xpos_center.value_or(0))) throw UsageError("--xpos-center must be finite");
  if (source.rope && source.layer) throw UsageError("--rope and --layer both say which rope: give one of them");
  if (!source.config.empty()) {
    if (source.rotary_dim || source.first || source.head_dim)
      throw UsageError("--rotary-dim, --first and --head-dim describe a rope without CONFIG");
    return;
  }
  const std::string given = described_by(source);
  if (!source.weights.empty()) throw UsageError("--weights needs CONFIG: it says which tensors count");
  if (!source.base && source.inv_freq.empty())
    throw UsageError("say which rope: CONFIG, or --base and --pairing, or --inv-freq and --pairing");
  if (source.pairing.empty()) throw UsageError(given + " needs --pairing: half, interleaved or interleaved_to_half");
  if (source.rope.value_or(0) != 0) throw UsageError(given + " describes one rope: --rope can only be 0");
  if (source.layer) throw UsageError("--layer needs CONFIG: it says which rope a layer has");
}

void check_source_without_tensor(const Source& source) {
  check_source(source);
  if (source.config.empty() && !source.head_dim) throw UsageError(described_by(source) + " needs --head-dim");
}

bool has_rope_options(const Source& source) {
  const bool words = !source.pairing.empty() || !source.inv_freq.empty() || !source.phase.empty() ||
                     source.xpos_scale || !source.weights.empty() || !source.scaling.empty();
  return words || source.base || source.head_dim || source.rotary_dim || source.first || source.names_rope() ||
         source.length || source.factor || source.trained_length || source.attention_factor;
}

void check_request(const TableRequest& request) {
  if (request.cos.empty() != request.sin.empty()) throw UsageError("--cos and --sin go together");
  if (request.cos.empty()) {
    check_source(request.source);
    return;
  }
  const Source& source = request.source;
  if (!source.config.empty() || source.base) throw UsageError("--cos and --sin replace CONFIG and --base");
  if (!source.scaling.empty() || source.factor || source.trained_length || source.attention_factor)
    throw UsageError(
        "--cos and --sin hold their scaling: no --scaling, --factor, --trained-length or --attention-factor");
  if (source.pairing.empty())
    throw UsageError("--cos and --sin need --pairing: half, interleaved or interleaved_to_half");
  if (!source.inv_freq.empty() || !source.weights.empty() || !source.phase.empty() || source.xpos_scale ||
      source.xpos_center)
    throw UsageError("--cos and --sin replace --inv-freq, --weights, --phase and --xpos-scale");
  if (source.names_rope() || source.length || request.positions.same_on_every_axis ||
      request.settings.angles != "exact" || request.settings.rounding != "f32") {
    throw UsageError(
        "--rope, --layer, --length, --angles, --rounding and --same-position-on-every-axis have no meaning beside "
        "--cos and "
        "--sin");
  }
}

}  // namespace rotary::cli
