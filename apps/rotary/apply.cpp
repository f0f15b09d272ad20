// rotary apply: rotates tensors of a file.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/progress_line.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "commands.h"
#include "files/tensors/formats.h"
#include "files/text/paths.h"
#include "rotary/targets.h"
#include "rotary/version.h"
#include "source.h"
#include "stamp.h"
#include "tools/rotation.h"
#include "tools/subject.h"

namespace rotary::cli {

namespace {

struct Options {
  TableRequest tables;
  std::string layout;  // a word of layout_words; empty: by the tensors' dimensions and the config's heads
  bool backward = false;
  bool each_step = false;
  std::string input;
  std::string output;
  std::vector<std::string> tensors;
  Machine machine;
};

void check_formats(const Options& options, files::Format input) {
  if (input == files::Format::npy && !options.tensors.empty())
    throw UsageError("an .npy holds one tensor: leave --tensor away");
  if (!is_dash(files::path_of(options.output)) && input != output_format("apply", files::path_of(options.output))) {
    throw Error(Code::FORMAT, "[apply] input and output must be of one format but got '" + options.input + "' and '" +
                                  options.output + "'");
  }
}

void check_usage(const Options& options) {
  const TableRequest& request = options.tables;
  const Source& source = request.source;
  const bool described = !source.config.empty() || source.base || !source.inv_freq.empty() || !request.cos.empty();
  if (!described && !options.tensors.empty()) {
    throw UsageError(
        "say which rope: CONFIG (before --tensor, which takes all words that follow), --base, --inv-freq or --cos");
  }
  check_request(request);
  if (is_dash(files::path_of(source.config)) && is_dash(files::path_of(options.input)))
    throw UsageError("standard input is one: only CONFIG or --input can be -");
  if (!is_pipe(files::path_of(options.input)))
    check_formats(options, files::format_to_read(files::path_of(options.input)));
  if (options.each_step && (!options.machine.target.empty() || options.machine.threads.value_or(1) != 1))
    throw UsageError("--each-step runs the scalar reference on one thread: no --target, no --threads");
}

// The tensors to rotate: those that --tensor names, else q and k.
std::vector<Tensor> choose_tensors(InputTensors& input, const Options& options) {
  std::vector<Tensor> chosen;
  if (input.format() == files::Format::npy) {
    chosen.push_back(input.read(""));
    return chosen;
  }
  const bool named = !options.tensors.empty();
  const std::vector<std::string> wanted = named ? options.tensors : std::vector<std::string>{"q", "k"};
  std::string present;
  for (const TensorInfo& tensor : input.infos()) present += (present.empty() ? "" : ", ") + tensor.name;
  if (present.empty()) present = "none";
  for (const std::string& name : wanted) {
    const auto is_it = [&name](const TensorInfo& tensor) { return tensor.name == name; };
    if (std::none_of(input.infos().begin(), input.infos().end(), is_it)) {
      const bool comma = name.find(',') != std::string::npos;
      if (named)
        throw Error(Code::TENSOR, "[apply] --tensor must name a tensor of " + input.name() + " but got '" + name +
                                      "'; it holds: " + present + (comma ? " (separate names by spaces)" : ""));
    } else if (std::none_of(chosen.begin(), chosen.end(), is_it)) {
      chosen.push_back(input.read(name));
    }
  }
  if (chosen.empty())
    throw Error(Code::TENSOR, "[apply] " + input.name() + " must have a q or a k (or name yours with --tensor) but " +
                                  "holds: " + present);
  return chosen;
}

// What turns the tensors, and how they lie.
struct Applied {
  tools::Readings readings;
  tools::Rotation rotation = {"apply"};
  std::vector<std::string> notes;  // for standard output
  Metadata facts;                  // of the rotation
};

void use_model(Applied& applied, const Options& options, const Model& model, std::int64_t max_tokens) {
  const Source& source = options.tables.source;
  const ModelRope& used = chosen_rope(model, source);
  const PositionSet positions = positions_of("apply", options.tables.positions, model, used);
  const std::int64_t length = source.length.value_or(positions.closed(std::max(max_tokens, positions.tokens)).length());
  const Frequencies turns = frequencies_of(source, used.rope, length);
  applied.notes.push_back(describe(model, used, turns));
  if (model.ropes.size() > 1 && !source.rope) {
    applied.notes.push_back("note: the model has " + std::to_string(model.ropes.size()) +
                            " ropes; rope 0 was used (--rope N takes another, see 'rotary inspect')");
  }
  for (const std::string& note : notes_on(model, used)) applied.notes.push_back("note: " + note);
  applied.facts = metadata_of(source, options.tables.settings, model, used, turns, length);
  tools::Rotation& how = applied.rotation;
  how.head_dim = used.rope.head_dim;
  how.rotary_dim = used.rope.rotary_dim;
  how.first = used.first;
  how.positions = positions;
  how.frequencies = turns;
}

void use_rows(Applied& applied, const Options& options, int head_dim) {
  const TableRequest& request = options.tables;
  tools::Rotation& how = applied.rotation;
  how.head_dim = head_dim;
  how.first = request.source.first.value_or(0);
  how.frequencies.pairing = *pairing_of(request.source);
  how.cos = load_rows("apply", files::path_of(request.cos), "cos");
  how.sin = load_rows("apply", files::path_of(request.sin), "sin");
  how.positions = parse_positions(request.positions.spec.value_or("0:"), 1);
  tools::check_rows(how, request.source.rotary_dim);
  const bool empty = how.cos->elements() == 0;  // refused where a position selects a row
  const double factor = empty ? 1 : std::hypot(how.cos->as<float>()[0], how.sin->as<float>()[0]);
  const std::string pairing = name(how.frequencies.pairing), rotary_dim = std::to_string(how.rotary_dim),
                    first = std::to_string(how.first);
  applied.notes.push_back("cos and sin " + shape_text(how.cos->shape) + ": " + pairing + ", turning " + rotary_dim +
                          " from element " + first);
  applied.facts = {{"made_by", std::string("rotary ") + ROTARY_VERSION},
                   {"cos", request.cos},
                   {"sin", request.sin},
                   {"pairing", pairing},
                   {"rotary_dim", rotary_dim},
                   {"first", first},
                   {"attention_factor", significant(factor, 6)}};  // as far as f32 tells
}

Applied prepare(const Options& options, const std::vector<Tensor*>& tensors) {
  const bool by_rows = !options.tables.cos.empty();
  const Source& source = options.tables.source;
  std::optional<Model> model;
  if (!by_rows && !source.config.empty()) model = read_model(source, 0);
  tools::check_types("apply", tensors);
  Applied applied;
  const std::vector<const Tensor*> seen(tensors.begin(), tensors.end());
  applied.readings =
      tools::read_heads("apply", seen, options.layout, model ? chosen_rope(*model, source) : ModelRope{});
  int head_dim = 0;
  std::int64_t tokens = 0;
  for (const tools::Reading& reading : applied.readings.tensors) {
    head_dim = std::max(head_dim, reading.layout.head_dim);
    tokens = std::max(tokens, reading.layout.tokens);
  }
  if (by_rows) {
    use_rows(applied, options, head_dim);
  } else {
    if (!model) model = read_model(source, head_dim);
    use_model(applied, options, *model, tokens);
  }
  const PositionSet& positions = applied.rotation.positions;
  const bool only_open = positions.open_from && positions.tokens == 0;  // +16 is 16:, and none is 0:
  applied.facts["positions"] = only_open ? std::to_string(*positions.open_from) + ":" : *options.tables.positions.spec;
  const std::vector<std::string>& notes = applied.readings.notes;
  applied.notes.insert(applied.notes.end(), notes.begin(), notes.end());
  return applied;
}

void rotate_all(Applied& applied, const std::vector<Tensor*>& tensors) {
  std::optional<Table> table;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::optional<ProgressLine> progress;
    applied.rotation.progress = [&progress](std::int64_t done, std::int64_t total) {
      if (!progress) progress.emplace("rotate", total);
      progress->done(done);
    };
    tools::rotate_tensor(*tensors[i], applied.readings.tensors[i].layout, applied.rotation, table);
  }
}

Stamp stamp_of(const Options& options, const Applied& applied, const std::vector<Tensor*>& tensors) {
  Stamp stamp{applied.facts, {}};
  if (stamp.facts["direction"] == "clockwise") stamp.facts["clockwise"] = "true";
  stamp.facts["direction"] = options.backward ? "backward" : "forward";
  for (const tools::Reading& reading : applied.readings.tensors) {
    std::string& words = stamp.facts["layout"];
    if (words.find(reading.word) == std::string::npos) words += (words.empty() ? "" : ", ") + reading.word;
  }
  for (const Tensor* tensor : tensors) stamp.tensors.push_back(tensor->name);
  return stamp;
}

std::string sizes_text(const Layout& layout) {
  return "batch " + std::to_string(layout.batch) + ", tokens " + std::to_string(layout.tokens) + ", heads " +
         std::to_string(layout.heads);
}

// To standard error where the tensors go to standard output.
void report(const Options& options, const InputTensors& input, const Applied& applied,
            const std::vector<Tensor*>& rotated, const Stamped& stamps) {
  std::ostream& out = is_dash(files::path_of(options.output)) ? std::cerr : std::cout;
  for (const std::string& line : applied.notes) out << printable(line) << '\n';
  if (stamps.undone) out << "note: this undoes the rotation that the input's metadata tells of\n";
  for (const TensorInfo& tensor : input.infos()) {
    const auto found = std::find_if(rotated.begin(), rotated.end(),
                                    [&tensor](const Tensor* turned) { return turned->name == tensor.name; });
    const bool is_rotated = found != rotated.end();
    out << (is_rotated ? options.backward ? "rotated backward  " : "rotated  " : "copied   ")
        << (tensor.name.empty() ? "" : printable(tensor.name) + "  ") << rotary::name(tensor.type) << ' '
        << shape_text(tensor.shape);
    if (is_rotated) {
      const auto at = static_cast<std::size_t>(found - rotated.begin());
      out << ": " << sizes_text(applied.readings.tensors[at].layout);
    }
    out << '\n';
  }
  out << "wrote " << (is_dash(files::path_of(options.output)) ? "standard output" : printable(options.output)) << '\n';
}

void run(const Options& options) {
  check_usage(options);
  check_output(files::path_of(options.output));
  if (!options.machine.target.empty()) use_target(options.machine.target);
  InputTensors input(files::path_of(options.input));
  check_formats(options, input.format());
  std::vector<Tensor> tensors = choose_tensors(input, options);
  std::vector<Tensor*> pointers;
  for (Tensor& tensor : tensors) pointers.push_back(&tensor);
  Applied applied = prepare(options, pointers);
  const ThreadPool pool(options.machine.threads.value_or(1));
  applied.rotation.options = table_options(options.tables.settings, pool);
  applied.rotation.direction = options.backward ? Direction::backward : Direction::forward;
  applied.rotation.each_step = options.each_step;
  rotate_all(applied, pointers);
  Stamped stamps;
  Metadata metadata = input.metadata();
  if (input.format() == files::Format::safetensors) {
    stamps = add_stamp(stamps_of(metadata), stamp_of(options, applied, pointers));
    metadata = stamped(metadata, stamps.stamps);
  }
  const std::vector<const Tensor*> changed(pointers.begin(), pointers.end());
  input.save_changed(files::path_of(options.output), changed, metadata);
  for (const std::string& warning : applied.readings.warnings) std::cerr << printable(warning) << '\n';
  if (!stamps.warning.empty()) std::cerr << printable(stamps.warning) << '\n';
  report(options, input, applied, pointers, stamps);
}

constexpr const char* footer =
    "The rope comes from CONFIG; or from --base or --inv-freq, with --pairing; or from --cos and --sin\n"
    "(f32 [rows, pairs]), with --pairing.\n"
    "Tensors are f32, f16, bf16 or f64 and may differ in dtype and heads. Everything else in the file is\n"
    "copied bit for bit; the output appears whole or not at all, and may be the input. The output's\n"
    "metadata tells of the rotation.\n"
    "  rotary apply config.json --input qk.safetensors --output rotated.safetensors\n"
    "  rotary apply config.json --input qk.safetensors --output r.safetensors \\\n"
    "      --tensor query key --layout bhtd --positions 100:\n"
    "  rotary apply --base 10000 --pairing interleaved --input q.npy --output r.npy\n"
    "  rotary apply --cos c.npy --sin s.npy --pairing half --input q.npy --output -";

}  // namespace

void add_apply(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Command command(app, "apply", "Rotate the q and k of a file");
  add_request_options(command, options->tables);
  command.option("--input", options->input, "the tensors: a safetensors file, or one .npy; - reads standard input")
      .type_name("FILE")
      .required();
  command.option("--output", options->output, "the file to write, of the same format; - writes standard output")
      .type_name("FILE")
      .required();
  command.option("--tensor", options->tensors, "names of the tensors to rotate (default: q and k, whichever is there)")
      .type_name("NAME");
  command
      .option("--layout", options->layout,
              "order of the dimensions: b batch, t tokens, h heads, d head_dim; or flat, heads and\n"
              "head_dim in one (default: bthd, thd, or what the config's heads fit; refused where they\n"
              "fit another one only)")
      .one_of(layout_words, layout_aliases)
      .type_name("WORD");
  command.flag("--backward", options->backward, "the gradient: the transposed rotation");
  command.section(computing_section);
  command.flag("--each-step", options->each_step,
               "round after every operation, as a framework running in the tensor's dtype does (slow)");
  add_machine_options(command, options->machine);
  command.footer(footer);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
