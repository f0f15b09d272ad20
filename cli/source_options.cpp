// The options that say what rotates tensors. Which of them go together is said in cli/data/commands.json.
#include "shared/command.h"
#include "source.h"

namespace rotary::cli {

void add_rope_options(Command& command, Source& source) {
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
  command.option("--rope", source.rope);
  command.option("--layer", source.layer);
}

void add_source_options(Command& command, Source& source) {
  command.option("CONFIG,--config", source.config);
  add_rope_options(command, source);
}

void add_positions_options(Command& command, Choice& choice) {
  command.option("--positions", choice.positions, written_positions);
  command.option("--same-position-on-every-axis", choice.same_on_every_axis);
}

void add_rope_file_options(Command& command, RopeFileOptions& options) {
  add_source_options(command, options.source);
  command.option("--head-dim", options.source.head_dim);
  add_positions_options(command, options.source);
  command.option("--output", options.output);
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

bool has_rope_options(const Source& source) {
  const bool files = !source.inv_freq.empty() || !source.weights.empty();
  return files || source.pairing || source.scaling || source.base || source.head_dim || source.rotary_dim ||
         source.first || source.names_rope() || source.length || source.factor || source.trained_length ||
         source.attention_factor;
}

}  // namespace rotary::cli
