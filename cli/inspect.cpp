// rotary inspect: the ropes of a model, of several side by side, or the tensors of a file.
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.h"
#include "inspect/engines.h"
#include "inspect/shown.h"
#include "rotary/config.h"
#include "rotary/tensors.h"
#include "shared/columns.h"
#include "shared/command.h"
#include "shared/tensors.h"
#include "shared/terminal.h"
#include "shared/text.h"
#include "source.h"
#include "subject/config_place.h"
#include "tensors/formats.h"
#include "text/paths.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  Source source;
  std::vector<std::string> configs;
  bool pairs = false;
  bool engines = false;
};

// ---- the ropes of a model ----

Inspected inspected(const Source& source) {
  return {source.config, read_model(source, source.head_dim.value_or(0)), {}};
}

// The views point into the model, which must not move any more.
void add_views(Inspected& inspected, const Source& source) {
  for (const ModelRope& used : inspected.model.ropes) {
    const auto index = static_cast<std::size_t>(&used - inspected.model.ropes.data());
    const bool shown = !source.names_rope() || &used == &chosen_rope(inspected.model, source);
    if (shown) frequencies_of(source, used.rope, source.length.value_or(0));  // an error names the file
    if (shown) inspected.views.emplace(index, view_rope(inspected.model, used, source.length));
  }
}

Json query_scale_json(const ModelQueryScale& known) {
  const QueryScale& scale = known.scale;
  const bool learned = scale.form == QueryForm::learned;
  return {{"part", known.part},
          {"layers", known.layers},
          {"form", name(scale.form)},
          {"formula", formula(scale)},
          {"amount", scale.form == QueryForm::ratio || learned ? Json(nullptr) : Json(scale.amount)},
          {"length", learned ? Json(nullptr) : Json(scale.length)},
          {"first", scale.first},
          {"from", known.from}};
}

Json model_json(const Inspected& inspected) {
  Json ropes = Json::array();
  for (const auto& [index, view] : inspected.views) ropes.push_back(rope_json(view));
  Json scales = Json::array();
  for (const ModelQueryScale& known : inspected.model.query_scales) scales.push_back(query_scale_json(known));
  Json noted = Json::array();
  for (const Note& note : inspected.model.notes)
    noted.push_back({{"part", note.part}, {"kind", name(note.kind)}, {"text", note.text}});
  return {{"model_type", inspected.model.model_type},
          {"ropes", std::move(ropes)},
          {"query_scales", std::move(scales)},
          {"notes", sentences_of(inspected.model.notes)},
          {"noted", std::move(noted)}};
}

// Moves the notes on the rope out of `notes`.
std::vector<std::string> take_notes(std::vector<Note>& notes, const RopeView& view) {
  std::vector<std::string> sentences;
  std::erase_if(notes, [&](const Note& note) {
    const bool is_own = note.part == view.used->part && is_about(note, view.layer_types);
    if (is_own) sentences.push_back("note: " + note.text);
    return is_own;
  });
  return sentences;
}

void print_model(const Inspected& inspected, bool pairs) {
  const Model& model = inspected.model;
  std::cout << (model.model_type.empty() ? "model_type not stated"
                                         : "model_type " + in_locale(printable(model.model_type)))
            << ", " << model.ropes.size() << (model.ropes.size() == 1 ? " rope\n" : " ropes\n");
  for (const auto& [index, view] : inspected.views) std::cout << wrapped(sentence_of(view), 2, 80) << '\n';
  std::vector<Note> notes = model.notes;
  std::erase_if(notes, [](const Note& note) {  // the column of origins has their facts
    return note.kind == NoteKind::model_default || note.kind == NoteKind::derived;
  });
  const NumberedView* before = nullptr;  // the first rope of the same part
  for (const NumberedView& shown : inspected.views) {
    if (before != nullptr && before->second.used->part != shown.second.used->part) before = nullptr;
    print_summary(shown, before);
    if (pairs) print_pairs(shown.second);
    print_sentences("", take_notes(notes, shown.second));
    if (before == nullptr) before = &shown;
  }
  std::vector<std::string> scales;
  for (const ModelQueryScale& known : model.query_scales) {
    const std::string of = known.part.empty() ? "" : " of " + known.part;
    const std::string whole = (is_everywhere(model, known) ? "every layer" : "layers " + ranges(known.layers)) + of +
                              ": " + formula(known.scale) + ", of a query at position p (" + known.from + ")";
    for (const std::string& line : wrapped(whole, 76)) scales.push_back(line);
  }
  print_sentences("query scale", scales);
  std::erase_if(notes, [&](const Note& note) {  // a rope that is not shown has them
    return std::ranges::count(model.ropes, note.part, &ModelRope::part) > 0;
  });
  print_sentences("notes", sentences_of(notes));
}

EngineFindings engines_of(const std::string& config) {
  const std::string text = config_text_at(config);
  if (text.empty()) throw UsageError("--engines reads the keys of a config.json, and a GGUF has none");
  return findings_of(files::parse_json(text));
}

void inspect_model(const InspectOptions& options) {
  Inspected one = inspected(options.source);
  add_views(one, options.source);
  std::optional<EngineFindings> engines;
  if (options.engines) engines = engines_of(options.source.config);
  if (!asks_json()) {
    print_model(one, options.pairs);
    if (engines) print_engines(*engines);
    return;
  }
  Json model = model_json(one);
  if (engines) model["engines"] = engines_json(*engines);
  print_json(json_text(model));
}

void inspect_models(const InspectOptions& options) {
  if (options.pairs) throw UsageError("--pairs shows one model: name one CONFIG");
  if (options.engines) throw UsageError("--engines shows one model: name one CONFIG");
  std::vector<Inspected> all;
  for (const std::string& config : options.configs) {
    Source source = options.source;
    source.config = config;
    if (files::names_tensors(files::path_of(config)))
      throw UsageError("a file of tensors is inspected alone: name one file");
    all.push_back(inspected(source));
  }
  for (Inspected& one : all) add_views(one, options.source);
  if (!asks_json()) return print_side_by_side(all);
  Json models = Json::array();
  for (const Inspected& one : all) {
    Json model = {{"config", one.config}};
    model.update(model_json(one));
    models.push_back(std::move(model));
  }
  print_json(json_text({{"models", std::move(models)}, {"differences", differences_of(all)}}));
}

// ---- the tensors of a file ----

// A long list of numbers or a whole config would fill the screen: it is cut, and --json prints all of it.
void print_metadata(const std::map<std::string, std::string>& metadata) {
  std::vector<Cells> rows;
  for (const auto& [key, value] : metadata) {
    if (!value.empty()) rows.push_back({printable(key), files::cut(printable(value), 72)});
  }
  if (rows.empty()) return;
  std::cout << "\nmetadata\n" << Columns({{}, {}}, 2, "  ").fit(rows).text(rows);
}

void print_tensors(const std::vector<TensorInfo>& tensors, const std::map<std::string, std::string>& metadata) {
  if (asks_json()) {
    Json list = Json::array();
    for (const TensorInfo& tensor : tensors)
      list.push_back({{"name", tensor.name}, {"dtype", name(tensor.type)}, {"shape", tensor.shape}});
    return print_json(json_text({{"tensors", std::move(list)}, {"metadata", metadata}}));
  }
  std::vector<Cells> rows = {{"name", "dtype", "shape"}};
  for (const TensorInfo& tensor : tensors) {
    rows.push_back({tensor.name.empty() ? "-" : printable(tensor.name), name(tensor.type), shape_text(tensor.shape)});
  }
  std::cout << Columns({{}, {.width = 7}, {}}).fit(rows).text(rows);
  print_metadata(metadata);
}

// Reads only the header of a file. stream: the bytes of a pipe, in place of the file.
void inspect_tensors(const Command& command, const InspectOptions& options, std::vector<std::byte> stream) {
  if (command.has_beside({"CONFIG,--config", "--json", "-q,--quiet", "--models"}))
    throw UsageError("a file of tensors has no rope: only --json can be given with it");
  const std::filesystem::path path = files::path_of(options.source.config);
  if (stream.empty()) return print_tensors(tensor_infos(path), tensor_metadata(path));
  const InputTensors input(std::move(stream), files::stream_name(path));
  print_tensors(input.infos(), input.metadata());
}

void run(const Command& command, InspectOptions options) {
  if (options.configs.size() > 1) return inspect_models(options);
  if (!options.configs.empty()) options.source.config = options.configs.front();
  const std::string& config = options.source.config;
  std::vector<std::byte> stream;
  if (is_pipe(files::path_of(config)) && files::format_of(tools::bytes_of_stream(config)))
    stream = tools::bytes_of_stream(config);
  if (stream.empty() && !files::names_tensors(files::path_of(config))) return inspect_model(options);
  inspect_tensors(command, options, std::move(stream));
}

}  // namespace

void add_inspect(Command& command) {
  auto options = std::make_shared<InspectOptions>();
  command.option("CONFIG,--config", options->configs);
  add_rope_options(command, options->source);
  command.option("--head-dim", options->source.head_dim);
  command.option("--pairs", options->pairs);
  command.option("--engines", options->engines);
  command.runs([options, &command] { run(command, *options); });
}

}  // namespace rotary::cli
