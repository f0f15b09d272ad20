#include "source.h"

#include <algorithm>
#include <vector>

#include "reach.h"
#include "shared/command.h"
#include "shared/text.h"
#include "subject/config_place.h"
#include "subject/subject.h"
#include "text/paths.h"
#include "values/names.h"

namespace rotary::cli {

namespace {

std::vector<ValueOrigin> origins_of(const Source& source) {
  ValueOrigin width{"rotary_dim", {OriginKind::derived, source.first ? "head_dim - first" : "head_dim"}};
  if (!source.inv_freq.empty()) width.origin.key = "2 * pairs";
  if (source.rotary_dim) width = {"rotary_dim", {OriginKind::chosen, "--rotary-dim"}};
  std::vector<ValueOrigin> origins = {{"head_dim", {OriginKind::chosen, "--head-dim"}}, width};
  if (source.first.value_or(0) != 0) origins.push_back({"first", {OriginKind::chosen, "--first"}});
  origins.push_back({"pairing", {OriginKind::chosen, "--pairing"}});
  if (source.base) origins.push_back({"base", {OriginKind::chosen, "--base"}});
  if (!source.inv_freq.empty()) origins.push_back({"inv_freq", {OriginKind::chosen, "--inv-freq"}});
  origins.push_back({"scaling", {OriginKind::derived, "none without CONFIG"}});
  origins.push_back({"attention_factor", {OriginKind::derived, "1 for default"}});
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
    PairRows rows = read_pair_rows(source.inv_freq);
    described.rope.rotary_dim = source.rotary_dim.value_or(2 * rows.pairs);
    described.rope.inv_freq = std::move(rows.values);
    described.rope.head_rows = rows.rows;
    described.rope.summed_axes = rows.summed_axes;
  }
  described.rope.pairing = *source.pairing;
  if (described.first < 0 || described.rope.rotary_dim < 1 || described.rope.rotary_dim > room) {
    fail(Code::SHAPE, "rope", "the rotated elements must fit head_dim ", head_dim, " but got ",
         described.rope.rotary_dim, " from element ", described.first);
  }
  described.origins = origins_of(source);
  Model model;
  model.parts.emplace_back();
  model.ropes.push_back(described);
  return model;
}

// Messages name the program's options in place of the library's functions.
CallerWords words_of_options() {
  return {.pairing = "--pairing",
          .model_type = "--model-type",
          .give_pairing = "pass --pairing half, interleaved or interleaved_to_half",
          .give_type = "pass --model-type NAME of a model that is known",
          .give_base = "add --base B (10000 is usual)",
          .weights = "--weights FILE gives the checkpoint",
          .inv_freq = "--inv-freq FILE uses such values"};
}

}  // namespace

// ---- the options ---------------------------------------------------------------------------------

void add_rope_options(Command& command, Source& source) {
  command.option("--pairing", source.pairing, parse_pairing);
  command.option("--model-type", source.model_type);
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

// ---- their meaning -------------------------------------------------------------------------------

Model read_model(const Source& source, int head_dim) {
  const ConfigOptions options = {.pairing = source.pairing,
                                 .model_type = source.model_type,
                                 .sets_base = source.base || !source.inv_freq.empty(),
                                 .sets_scaling = source.scaling.has_value(),
                                 .words = words_of_options()};
  Model model =
      source.config.empty() ? model_without_config(source, head_dim) : tools::read_config_at(source.config, options);
  apply_scaling_options(model, source);
  if (!source.config.empty() && !source.inv_freq.empty()) {
    const ModelRope& used = rope_for_option(model, source, "--inv-freq", std::ssize(model.ropes));
    const auto index = static_cast<std::size_t>(&used - model.ropes.data());
    set_inv_freq(model, index, read_pair_rows(source.inv_freq), files::path_text(source.inv_freq));
  }
  if (!source.config.empty() && !source.weights.empty())
    apply_weights(model, source.weights, words_of_options());
  return model;
}

Frequencies frequencies_of(const Source& source, const Rope& rope, std::int64_t length) {
  try {
    return frequencies(rope, length);
  } catch (const Error& error) {
    if (source.config.empty()) throw;
    throw error.about(printable(source.config));
  }
}

Frequencies frequencies_of(const Source& source, const Model& model, const ModelRope& used, std::int64_t length) {
  if (used.rope.summed_axes > 0 && awaits_weights(model, used.part))
    fail(Code::ROPE, "rope",
         "the model's directions of rotation must be read from its checkpoint (--weights FILE) but none is given");
  return frequencies_of(source, used.rope, length);
}

std::vector<std::string> notes_of_use(const Model& model, const tools::Subject& subject) {
  std::vector<std::string> notes;
  if (model.ropes.size() > 1 && !subject.chosen) {
    notes.push_back("note: the model has " + std::to_string(model.ropes.size()) +
                    " ropes; rope 0 was used (--rope N or --layer N takes another, see 'rotary inspect')");
  }
  for (const Note& note : notes_on(model, *subject.used))
    if (note.kind != NoteKind::derived) notes.push_back("note: " + sentence_of(note));  // else the value says it
  return notes;
}

std::string scaling_text(std::string_view word) { return word == name(Scaling()) ? "none" : std::string(word); }
std::string scaling_text(const Scaling& scaling) { return scaling_text(name(scaling)); }

std::string elements_text(const ModelRope& used) {
  const int first = used.first, count = used.rope.rotary_dim, all = used.rope.head_dim;
  if (count == all) return "all " + std::to_string(all) + " elements";
  return "elements " + std::to_string(first) + "-" + std::to_string(first + count - 1) + " of " + std::to_string(all);
}

std::string describe(const Model& model, const ModelRope& used, const Frequencies& frequencies, std::int64_t length) {
  const auto index = static_cast<std::size_t>(&used - model.ropes.data());
  std::string text = "rope " + std::to_string(index) + " of " + std::to_string(model.ropes.size());
  if (!used.part.empty()) text += " (" + used.part + ")";
  text += ": " + detail::familiar(used.rope.pairing) + ", " + elements_text(used);
  if (used.rope.clockwise) text += ", clockwise";
  text += used.rope.inv_freq.empty() ? ", base " + significant(used.rope.base, 10) : ", inv_freq given";
  text += ", scaling " + scaling_text(used.rope.scaling);
  if (const std::string which = which_lengths(lengths_of(used.rope, frequencies, length)); !which.empty())
    text += " (" + which + ")";
  if (frequencies.attention_factor != 1) text += ", attention factor " + significant(frequencies.attention_factor, 10);
  for (const auto& [word, value] : equation_facts(used.rope)) text += ", " + word + " " + value;
  return text;
}

std::string short_name(const std::string& config) {
  if (config == "-") return config;
  std::error_code ignored;
  std::filesystem::path path = files::path_of(config);
  path = (std::filesystem::absolute(path, ignored) / "").lexically_normal().parent_path();
  if (path.filename() == "config.json" || path.filename() == "params.json") path = path.parent_path();
  return files::path_text(path.has_filename() ? path.filename() : path);
}

std::vector<std::pair<std::string, std::string>> equation_facts(const Rope& rope) {
  std::vector<std::pair<std::string, std::string>> facts;
  if (rope.summed_axes > 0) facts.emplace_back("summed axes", std::to_string(rope.summed_axes));
  if (rope.head_rows > 1) facts.emplace_back("rows per head", std::to_string(rope.head_rows));
  return facts;
}

}  // namespace rotary::cli
