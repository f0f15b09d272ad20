// The options that say what rotates tensors, and which of them go together.
#include "apps/shared/command.h"
#include "apps/shared/usage_error.h"
#include "source.h"

namespace rotary::cli {

namespace {

// The option that replaces CONFIG.
std::string described_by(const Source& source) { return source.base ? "--base" : "--inv-freq"; }

}  // namespace

void add_source_options(Command& command, Source& source, const char* config) {
  if (*config != '\0') command.option(config, source.config);
  command.option("--pairing", source.pairing, parse_pairing);
  command.option("--base,--rope-theta", source.base);
  command.option("--scaling", source.scaling, parse_scaling);
  command.option("--factor", source.factor);
  command.option("--trained-length,--original-max-position-embeddings", source.trained_length);
  command.option("--attention-factor", source.attention_factor);
  command.option("--rotary-dim", source.rotary_dim);
  command.option("--first", source.first);
  command.option("--inv-freq", source.inv_freq);
  command.option("--weights", source.weights);
  command.option("--length", source.length);
}

void add_head_dim_option(Command& command, Source& source) { command.option("--head-dim", source.head_dim); }

void add_rope_option(Command& command, Source& source) {
  command.option("--rope", source.rope);
  command.option("--layer", source.layer);
}

void add_request_options(Command& command, TableRequest& request) {
  add_source_options(command, request.source);
  add_rope_option(command, request.source);
  add_positions_options(command, request.source);
  command.option("--cos", request.cos);
  command.option("--sin", request.sin);
  add_table_options(command, request.settings);
}

void add_positions_options(Command& command, Choice& choice) {
  command.option("--positions", choice.positions, written_positions);
  command.option("--same-position-on-every-axis", choice.same_on_every_axis);
}

void add_table_options(Command& command, TableSettings& settings) {
  command.option("--angles", settings.angles, parse_angles);
  command.option("--rounding", settings.rounding, parse_rounding);
}

TableOptions table_options(const TableSettings& settings, const Executor& executor) {
  return {settings.angles, settings.rounding, executor};
}

void add_machine_options(Command& command, Machine& machine) {
  command.option("--target", machine.target);
  command.option("--threads", machine.threads);
}

void check_source(const Source& source) {
  if (!source.inv_freq.empty() && !source.weights.empty())
    throw UsageError("--inv-freq and --weights both give the frequencies: give one of them");
  check_scaling_options(source);
  if (source.base && !source.inv_freq.empty())
    throw UsageError("--base and --inv-freq both give the frequencies: give one of them");
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
  if (!source.pairing) throw UsageError(given + " needs --pairing: half, interleaved or interleaved_to_half");
  if (source.rope.value_or(0) != 0) throw UsageError(given + " describes one rope: --rope can only be 0");
  if (source.layer) throw UsageError("--layer needs CONFIG: it says which rope a layer has");
}

void check_source_without_tensor(const Source& source) {
  check_source(source);
  if (source.config.empty() && !source.head_dim) throw UsageError(described_by(source) + " needs --head-dim");
}

bool has_rope_options(const Source& source) {
  const bool files = !source.inv_freq.empty() || !source.weights.empty();
  return files || source.pairing || source.scaling || source.base || source.head_dim || source.rotary_dim || source.first || source.names_rope() ||
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
  if (source.scaling || source.factor || source.trained_length || source.attention_factor)
    throw UsageError(
        "--cos and --sin hold their scaling: no --scaling, --factor, --trained-length or --attention-factor");
  if (!source.pairing)
    throw UsageError("--cos and --sin need --pairing: half, interleaved or interleaved_to_half");
  if (!source.inv_freq.empty() || !source.weights.empty())
    throw UsageError("--cos and --sin replace --inv-freq and --weights");
  if (source.names_rope() || source.length || source.same_on_every_axis || request.settings.angles != Angles::exact ||
      request.settings.rounding != Rounding::f32) {
    throw UsageError(
        "--rope, --layer, --length, --angles, --rounding and --same-position-on-every-axis have no meaning beside "
        "--cos and "
        "--sin");
  }
}

}  // namespace rotary::cli
