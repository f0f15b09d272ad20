// rotary apply: rotates tensors of a file.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "rotary/targets.h"
#include "rotary/version.h"
#include "shared/command.h"
#include "shared/progress_line.h"
#include "shared/tensors.h"
#include "shared/text.h"
#include "source.h"
#include "stamp.h"
#include "subject/rotation.h"
#include "subject/subject.h"
#include "tensors/formats.h"
#include "text/paths.h"
#include "values/names.h"

namespace rotary::cli {

namespace {

struct ApplyOptions {
  Source source;
  TableSettings settings;
  std::filesystem::path cos, sin;
  bool backward = false;
  bool each_step = false;
  bool as_hf = false;
  std::filesystem::path input, output;
  std::vector<std::string> tensors;
  Machine machine;
};

void check_formats(const ApplyOptions& options, files::Format input) {
  if (input == files::Format::npy && !options.tensors.empty())
    throw UsageError("an .npy holds one tensor, without a name: remove --tensor");
  if (!is_dash(options.output) && input != output_format("apply", options.output))
    fail(Code::FORMAT, "apply", "input and output must be of one format but got '", files::path_text(options.input),
         "' and '", files::path_text(options.output), "'");
}

void check_usage(const ApplyOptions& options) {
  if (options.source.config == "-" && is_dash(options.input))
    throw UsageError("standard input holds one file: only one of CONFIG and --input can be -");
}

// The tensors to rotate: those of --tensor, else q and k.
std::vector<Tensor> choose_tensors(InputTensors& input, const ApplyOptions& options) {
  std::vector<Tensor> chosen;
  if (input.format() == files::Format::npy) {
    chosen.push_back(input.read(""));
    return chosen;
  }
  const bool named = !options.tensors.empty();
  std::vector<std::string> present;
  for (const TensorInfo& tensor : input.infos()) present.push_back(tensor.name);
  for (const std::string& name : named ? options.tensors : std::vector<std::string>{"q", "k"}) {
    const bool is_read = std::ranges::find(chosen, name, &Tensor::name) != chosen.end();
    if (!is_read && (named || std::ranges::find(present, name) != present.end())) chosen.push_back(input.read(name));
  }
  if (chosen.empty())
    fail(Code::TENSOR, "apply", input.name(),
         " must have a q or a k (or name yours with --tensor) but holds: ", present.empty() ? "none" : joined(present));
  return chosen;
}

// Computes as transformers does: angles and rows in f32; the rows and each step rounded to the tensors' type.
void compute_as_hf(ApplyOptions& options, const std::vector<Tensor*>& tensors) {
  options.each_step = true;
  options.settings.angles = Angles::float32;
  for (const Tensor* tensor : tensors) {
    if (tensor->type != tensors[0]->type)
      fail(Code::DTYPE, "apply", "--as hf must have tensors of one type, whose rounding cos and sin take, but got ",
           name(tensors[0]->type), " and ", name(tensor->type));
  }
  if (const std::optional<DType> dtype = dtype_of(tensors[0]->type))
    options.settings.rounding = parse_rounding(name(*dtype));
}

// The tensors of one subject, their rotation and their layouts.
struct Applied {
  tools::Rotation rotation = {};
  std::vector<Tensor*> tensors = {};
  tools::Readings readings = {};
  std::vector<std::string> notes = {};  // for standard output
  Metadata facts = {};                  // the rotation's
};

// A model with one rope, which --cos and --sin describe.
Model model_of_rows(const ApplyOptions& options, const Tensor& cos, const Tensor& sin, int head_dim) {
  Model model;
  ModelRope& used = model.ropes.emplace_back();
  used.first = options.source.first.value_or(0);
  used.rope.head_dim = head_dim;
  used.rope.pairing = *options.source.pairing;
  used.rope.rotary_dim = tools::check_rows(cos, sin, used, options.source.rotary_dim);
  return model;
}

void describe_rows(Applied& applied, const ApplyOptions& options) {
  const tools::Rotation& how = applied.rotation;
  const ModelRope& used = *how.subject.used;
  const bool empty = how.cos->elements() == 0;  // refused where a position selects a row
  const double factor = empty ? 1 : std::hypot(how.cos->as<float>()[0], how.sin->as<float>()[0]);
  const std::string pairing = name(used.rope.pairing), rotary_dim = std::to_string(used.rope.rotary_dim),
                    first = std::to_string(used.first);
  applied.notes.push_back("cos and sin " + shape_text(how.cos->shape) + ": " + detail::familiar(used.rope.pairing) +
                          ", " + elements_text(used));
  applied.facts = {{"made_by", std::string("rotary ") + ROTARY_VERSION},
                   {"cos", files::path_text(options.cos)},
                   {"sin", files::path_text(options.sin)},
                   {"pairing", pairing},
                   {"rotary_dim", rotary_dim},
                   {"first", first},
                   {"attention_factor", significant(factor, 6)}};  // as far as f32 tells
}

// Sets the positions of the subject, its frequencies, and the notes and facts about them.
void prepare(Applied& applied, const ApplyOptions& options, const Model& model) {
  const Source& source = options.source;
  tools::Rotation& how = applied.rotation;
  const ModelRope& used = *how.subject.used;
  const std::vector<const Tensor*> seen(applied.tensors.begin(), applied.tensors.end());
  const tools::Subject unknown{.layout = source.layout};  // a rope without CONFIG has no number of heads
  applied.readings = tools::read_heads(seen, source.config.empty() ? unknown : how.subject);
  std::int64_t tokens = 0;
  for (const tools::Reading& reading : applied.readings.tensors) tokens = std::max(tokens, reading.layout.tokens);
  const PositionSet& positions = how.subject.positions.emplace(positions_of("apply", source, model, used));
  if (how.cos) {
    describe_rows(applied, options);
  } else {
    RopeInUse use = use_rope(source, options.settings, model, how.subject, tokens);
    how.frequencies = std::move(use.frequencies);
    applied.notes = std::move(use.notes);
    applied.facts = std::move(use.facts);
  }
  const bool only_open = positions.open_from && positions.tokens == 0;  // +16 is 16:, and none is 0:
  applied.facts["positions"] = only_open ? std::to_string(*positions.open_from) + ":" : *positions.spec;
  for (auto& [key, value] : applied.facts) value = files::legible(value);  // a path need not be UTF-8
  std::ranges::copy(applied.readings.notes, std::back_inserter(applied.notes));
}

// The tensors by their subjects. Tensors of layers without a rope are left out, but for queries that are multiplied.
std::vector<Applied> parts_of(const ApplyOptions& options, const std::vector<Tensor*>& tensors, Model& model) {
  int head_dim = 0;  // a rope's without CONFIG
  for (const Tensor* tensor : tensors) head_dim = std::max(head_dim, tools::last_dimension(*tensor));
  tools::Rotation how;
  if (!options.cos.empty()) {
    how.cos = load_rows("apply", options.cos, "cos");
    how.sin = load_rows("apply", options.sin, "sin");
    model = model_of_rows(options, *how.cos, *how.sin, head_dim);
  } else {
    model = read_model(options.source, head_dim);
  }
  tools::check_types(tensors);
  std::vector<Applied> parts;
  for (tools::Subject& subject : tools::subjects_of(model, options.source, tensors)) {
    Applied& part = parts.emplace_back();
    part.rotation = how;
    for (const std::size_t i : subject.tensors) part.tensors.push_back(tensors[i]);
    part.rotation.subject = std::move(subject);
  }
  return parts;
}

void rotate_all(Applied& applied) {
  std::optional<Table> table;
  ProgressLine progress("rotate", std::ssize(applied.tensors));
  for (std::size_t i = 0; i < applied.tensors.size(); ++i) {
    tools::rotate_tensor(*applied.tensors[i], applied.readings.tensors[i].layout, applied.rotation, table);
    progress.done(static_cast<std::int64_t>(i) + 1);
  }
}

Stamp stamp_of(const ApplyOptions& options, const Applied& applied) {
  Stamp stamp{applied.facts, {}};
  if (stamp.facts["direction"] == "clockwise") stamp.facts["clockwise"] = "true";
  stamp.facts["direction"] = options.backward ? "backward" : "forward";
  for (const tools::Reading& reading : applied.readings.tensors) {
    std::string& words = stamp.facts["layout"];
    const bool listed = (", " + words + ", ").find(", " + reading.word + ", ") != std::string::npos;  // thd is not bthd
    if (!listed) words += (words.empty() ? "" : ", ") + reading.word;
  }
  for (const Tensor* tensor : applied.tensors) stamp.tensors.push_back(tensor->name);
  return stamp;
}

// The line that reports a tensor: "rotated  q  F32 [1, 16, 8, 64]: batch 1, tokens 16, heads 8".
std::string line_of(const ApplyOptions& options, const TensorInfo& tensor, const std::vector<const Tensor*>& chosen,
                    const std::vector<Applied>& parts) {
  std::string how = "copied   ", what, ropes;
  if (std::ranges::find(chosen, tensor.name, &Tensor::name) != chosen.end())  // where no part turns it
    what = ": layer " + std::to_string(options.source.layer.value_or(tools::layer_of(tensor.name).value_or(0))) +
           " rotates nothing (NoPE)";
  for (const Applied& part : parts) {
    const auto found =
        std::ranges::find_if(part.tensors, [&](const Tensor* turned) { return turned->name == tensor.name; });
    if (found == part.tensors.end()) continue;
    how = !part.rotation.subject.turns ? "multiplied  " : options.backward ? "rotated backward  " : "rotated  ";
    const Layout& layout = part.readings.tensors[static_cast<std::size_t>(found - part.tensors.begin())].layout;
    what = ": batch " + std::to_string(layout.batch) + ", tokens " + std::to_string(layout.tokens) + ", heads " +
           std::to_string(layout.heads);
    if (parts.size() > 1 && part.rotation.subject.turns)
      ropes += (ropes.empty() ? ", rope " : ", ") + part.facts.at("rope");
  }
  return how + (tensor.name.empty() ? "" : tensor.name + "  ") + rotary::name(tensor.type) + " " +
         shape_text(tensor.shape) + what + ropes;
}

// Prints the report; the facts of a rotation are those of the output's metadata.
void report(const ApplyOptions& options, const InputTensors& input, const std::vector<const Tensor*>& chosen,
            const std::vector<Applied>& parts, bool undone) {
  std::vector<std::string> notes;
  nlohmann::ordered_json rotations = nlohmann::ordered_json::array();
  for (const Applied& part : parts) {
    for (const std::string& warning : part.readings.warnings) std::cerr << printable(warning) << '\n';
    for (const std::string& line : part.notes) {
      if (std::ranges::find(notes, line) == notes.end()) notes.push_back(line);
    }
    const Stamp stamp = stamp_of(options, part);
    rotations.push_back(stamp.facts);
    rotations.back()["tensors"] = stamp.tensors;
  }
  if (!asks_json()) {
    if (undone) notes.emplace_back("note: this undoes the last rotation in the input's metadata");
    for (const TensorInfo& tensor : input.infos()) notes.push_back(line_of(options, tensor, chosen, parts));
  }
  report_written(options.output, {{"undoes", undone}, {"rotations", rotations}}, notes);
}

void run(ApplyOptions options) {
  check_usage(options);
  InputTensors input(options.input);
  check_formats(options, input.format());
  check_output(options.output, asks_json());
  if (!options.machine.target.empty()) use_target(options.machine.target);
  std::vector<Tensor> tensors = choose_tensors(input, options);
  std::vector<Tensor*> pointers;
  for (Tensor& tensor : tensors) pointers.push_back(&tensor);
  Model model;
  std::vector<Applied> parts = parts_of(options, pointers, model);
  if (options.as_hf) compute_as_hf(options, pointers);
  if (options.backward) std::ranges::reverse(parts);  // the last stamp is undone first
  const ThreadPool pool(options.machine.threads);
  for (Applied& part : parts) {
    prepare(part, options, model);
    part.rotation.options = table_options(options.settings, pool);
    part.rotation.direction = options.backward ? Direction::backward : Direction::forward;
    part.rotation.each_step = options.each_step;
    rotate_all(part);
  }
  Metadata metadata = input.metadata();
  bool undone = !parts.empty() && input.format() == files::Format::safetensors;  // every rotation removes a stamp
  for (Applied& part : parts) {
    if (input.format() == files::Format::safetensors)
      undone = add_stamp(metadata, stamp_of(options, part), part.readings.warnings) && undone;
  }
  const std::vector<const Tensor*> changed(pointers.begin(), pointers.end());
  input.save_changed(options.output, changed, metadata);
  report(options, input, changed, parts, undone);
}

}  // namespace

void add_apply(Command& command) {
  auto options = std::make_shared<ApplyOptions>();
  add_source_options(command, options->source);
  add_positions_options(command, options->source);
  command.option("--cos", options->cos);
  command.option("--sin", options->sin);
  add_table_options(command, options->settings);
  command.option("--input", options->input);
  command.option("--output", options->output);
  command.option("--tensor", options->tensors);
  command.option("--layout", options->source.layout);
  command.option("--backward", options->backward);
  command.option("--query-scale", options->source.query_scale);
  command.option("--each-step", options->each_step);
  command.option("--as", options->as_hf, [](const std::string& word) { return word == "hf"; });
  add_machine_options(command, options->machine);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
