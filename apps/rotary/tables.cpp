#include "tables.h"

#include "apps/shared/command.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "rotary/version.h"
#include "values/scaling_fields.h"

namespace rotary::cli {

namespace {

std::string text_of(double value) { return significant(value, 17); }
std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(const std::optional<double>& value) { return value ? significant(*value, 17) : "none"; }
std::string text_of(const std::vector<double>& list) {
  std::string text;
  for (const double value : list) text += (text.empty() ? "" : ", ") + significant(value, 17);
  return text;
}

}  // namespace

void add_request_options(Command& command, TableRequest& request) {
  add_source_options(command, request.source);
  add_rope_option(command, request.source);
  add_positions_options(command, request.positions);
  command.option("--cos", request.cos, "your own cos, f32 [rows, pairs]: .npy, or the tensor cos of a safetensors file")
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
              "[tokens] or [batch, tokens], with [axes, ...] in front for a rope of several axes.\n"
              "Default: 0:")
      .type_name("SPEC");
  add_same_position_option(command, request);
}

void add_same_position_option(Command& command, PositionRequest& request) {
  command.flag("--same-position-on-every-axis", request.same_on_every_axis,
               "a rope of image axes takes one position for all axes, which is refused otherwise");
}

void check_request(const TableRequest& request) {
  if (request.cos.empty() != request.sin.empty()) throw UsageError("--cos and --sin go together");
  if (request.cos.empty()) {
    check_source(request.source);
    return;
  }
  const Source& source = request.source;
  if (!source.config.empty() || source.base) throw UsageError("--cos and --sin replace CONFIG and --base");
  if (!source.scaling.empty() || source.factor || source.trained_length) {
    throw UsageError("--cos and --sin hold their scaling: no --scaling, --factor or --trained-length");
  }
  if (source.pairing.empty())
    throw UsageError("--cos and --sin need --pairing: half, interleaved or interleaved_to_half");
  if (!source.inv_freq.empty() || !source.weights.empty()) {
    throw UsageError("--cos and --sin replace --inv-freq and --weights");
  }
  if (source.rope || source.length || request.positions.same_on_every_axis || request.settings.angles != "exact" ||
      request.settings.rounding != "f32") {
    throw UsageError(
        "--rope, --length, --angles, --rounding and --same-position-on-every-axis have no meaning beside --cos and "
        "--sin");
  }
}

std::map<std::string, std::string> metadata_of(const Source& source, const TableSettings& settings, const Model& model,
                                               const ModelRope& used, const Frequencies& frequencies,
                                               std::int64_t length) {
  std::map<std::string, std::string> facts = {
      {"made_by", std::string("rotary ") + ROTARY_VERSION},
      {"config", source.config},
      {"model_type", model.model_type},
      {"part", used.part},
      {"rope", std::to_string(&used - model.ropes.data())},
      {"pairing", name(used.rope.pairing)},
      {"direction", direction(used.rope)},
      {"head_dim", std::to_string(used.rope.head_dim)},
      {"rotary_dim", std::to_string(used.rope.rotary_dim)},
      {"first", std::to_string(used.first)},
      {"base", used.rope.inv_freq.empty() ? significant(used.rope.base, 17) : ""},
      {"inv_freq", source.inv_freq},
      {"weights", source.weights},
      {"scaling", name(used.rope.scaling)},
      {"attention_factor", significant(frequencies.attention_factor, 17)},
      {"length", std::to_string(length)},
      {"angles", settings.angles},
      {"rounding", settings.rounding}};
  scalings::for_each_field(used.rope.scaling, [&facts](const auto& field, const auto& value) {
    facts[std::string("scaling.") + field.name] = text_of(value);
  });
  return facts;
}

}  // namespace rotary::cli
