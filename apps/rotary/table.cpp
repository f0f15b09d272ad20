// rotary table: the cos and sin rows of a model, as a safetensors file.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>

#include "apps/shared/command.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "positions.h"
#include "rotary/config.h"
#include "rotary/targets.h"
#include "rotary/tensors.h"
#include "source.h"

namespace rotary::cli {

namespace {

struct Options {
  Source source;
  std::string positions;
  std::string output;
  TableSettings settings;
  Machine machine;
};

Tensor make_tensor(const std::string& name, std::span<const float> values, std::vector<std::int64_t> shape) {
  Tensor tensor;
  tensor.name = name;
  tensor.type = ElementType::f32;
  tensor.shape = std::move(shape);
  tensor.bytes = values.size_bytes();
  tensor.data.resize(values.size_bytes());
  std::copy(values.begin(), values.end(), tensor.as<float>().begin());
  return tensor;
}

std::map<std::string, std::string> metadata(const Options& options, const Model& model, const ModelRope& used,
                                            const Frequencies& frequencies, std::int64_t length) {
  return {{"made_by", std::string("rotary ") + ROTARY_VERSION},
          {"model_type", model.model_type},
          {"part", used.part},
          {"rope", std::to_string(options.source.rope.value_or(0))},
          {"pairing", name(used.rope.pairing)},
          {"direction", direction(used.rope)},
          {"rotary_dim", std::to_string(used.rope.rotary_dim)},
          {"base", used.rope.inv_freq.empty() ? significant(used.rope.base, 17) : ""},
          {"inv_freq", options.source.inv_freq},
          {"weights", options.source.weights},
          {"scaling", name(used.rope.scaling)},
          {"attention_factor", significant(frequencies.attention_factor, 17)},
          {"positions", options.positions},
          {"length", std::to_string(length)},
          {"angles", options.settings.angles},
          {"rounding", options.settings.rounding}};
}

void run(const Options& options) {
  check_source_without_tensor(options.source);
  if (!options.machine.target.empty()) use_target(options.machine.target);
  if (is_npy(options.output)) {
    throw Error(Code::FORMAT, "[table] cos and sin are two tensors: the output must be a safetensors file but got '" +
                                  options.output + "'");
  }
  check_output(options.output);
  const Model model = read_model(options.source, options.source.head_dim.value_or(0));
  const ModelRope& used = chosen_rope(model, options.source);
  // The number of axes does not depend on the length; the default length follows from the positions.
  const PositionSet positions = parse_positions(options.positions, frequencies(used.rope, 0).axes());
  const std::int64_t length = options.source.length.value_or(positions.length());
  const Frequencies turns = frequencies(used.rope, length);
  const ThreadPool pool(options.machine.threads.value_or(1));
  const Table table(turns, positions.view(), table_options(options.settings, pool));

  std::vector<std::int64_t> shape = {table.tokens(), table.pairs()};
  if (positions.batched) shape.insert(shape.begin(), positions.batch);
  const Tensor tensors[] = {make_tensor("cos", table.cos(), shape), make_tensor("sin", table.sin(), shape)};
  write_tensors(options.output, tensors, metadata(options, model, used, turns, length));
  std::cout << describe(model, used, turns) << '\n';
  for (const std::string& note : model.notes) std::cout << "note: " << printable(note) << '\n';
  std::cout << "wrote " << printable(options.output) << ": cos, sin f32 " << shape_text(shape) << '\n';
}

}  // namespace

void add_table(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Command command(app, "table", "Write the cos and sin rows of a model for the positions you name");
  add_source_options(command, options->source);
  add_head_dim_option(command, options->source);
  add_rope_option(command, options->source);
  command
      .option("--positions", options->positions,
              "positions, ends not included: 7, 0:4096, -5:5, 0:8,100:104; or a .npy of int32, int64\n"
              "or float64: [tokens] or [batch, tokens], with [axes, ...] in front for a rope of several axes")
      .type_name("SPEC")
      .required();
  command.option("--output", options->output, "the safetensors file to write").type_name("FILE").required();
  add_table_options(command, options->settings);
  add_machine_options(command, options->machine);
  command.footer(
      "Writes f32 tensors cos and sin, [tokens, pairs] or [batch, tokens, pairs]; both hold the model's\n"
      "attention factor. What was done stands in the file's metadata.\n"
      "  rotary table config.json --positions 0:4096 --output t.safetensors\n"
      "  rotary table --base 10000 --pairing half --head-dim 64 --positions -5:5 --output t.safetensors");
  command.can_be_quiet();
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
