// rotary shift: the keys of a cache at other positions, or of another rope; tokens that leave it.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "commands.h"
#include "files/text/paths.h"
#include "rotary/targets.h"
#include "source.h"
#include "stamp.h"
#include "tools/rotation.h"
#include "tools/subject.h"

namespace rotary::cli {

namespace {

struct ShiftOptions {
  Source source;  // of the rope that rotated the keys
  std::string to_config;
  std::optional<std::int64_t> to_length;
  PositionRequest from, to;
  std::optional<std::int64_t> drop, keep;
  std::string layout, input, output;
  std::vector<std::string> tensors, values;
  Machine machine;
  bool json = false;
};

// What rotated the keys, or what they shall be rotated by.
struct Side {
  Source source;
  Model model;
};

struct Done {
  std::vector<Stamp> stamps;       // one for each way
  std::vector<std::string> lines;  // of the tensors
  std::vector<std::string> notes;
  std::vector<std::string> warnings;
};

void check_usage(const ShiftOptions& options) {
  check_source(options.source);
  const bool moves = options.from.spec || options.to.spec;
  const bool turns = moves || options.to_length || !options.to_config.empty();
  if (options.drop && turns)
    throw UsageError("--drop moves tokens by one rope: no --from, --to, --to-config, --to-length");
  if (options.keep && !options.drop) throw UsageError("--keep needs --drop: how many tokens behind them leave");
  if (!options.drop && !turns) throw UsageError("say what changes: --drop, --to, --to-config or --to-length");
  const auto is_input = [&](const std::string& path) { return is_dash(files::path_of(path)); };
  if (is_input(options.input) + is_input(options.source.config) + is_input(options.to_config) > 1)
    throw UsageError("standard input is one: only one of CONFIG, --to-config and --input can be -");
}

// The tensors of those names, else those that are keys, or values, by their names.
std::vector<Tensor> read_those(InputTensors& input, const std::vector<std::string>& names,
                               bool (*is_one)(const TensorInfo&)) {
  std::vector<Tensor> tensors;
  for (const TensorInfo& info : input.infos()) {
    if (names.empty() && is_one(info)) tensors.push_back(input.read(info.name));
  }
  for (const std::string& name : names) tensors.push_back(input.read(name));
  return tensors;
}

bool is_key(const TensorInfo& tensor) {
  return tensor.name.empty() || tools::role_of(tensor.name) == tools::Role::key;  // of an .npy
}
bool is_value_tensor(const TensorInfo& tensor) { return tools::is_value(tensor.name); }

// Tokens [keep, keep + drop) leave a tensor of that layout.
void cut(Tensor& tensor, const std::string& word, std::int64_t keep, std::int64_t drop) {
  const std::size_t dimensions = tensor.shape.size();
  const std::size_t axis = word == "flat" ? dimensions - 2 : word.find('t');
  const std::int64_t tokens = axis < dimensions ? tensor.shape[axis] : 1;
  const bool fits = axis < dimensions && (word == "flat" || dimensions == word.size());
  if (!fits || keep > tokens || drop > tokens - keep)
    fail(Code::SHAPE, "shift", "--keep and --drop must name at most the ", tokens, " tokens of ", label(tensor),
         ", in layout ", word, ", but name ", keep, " and ", drop);
  tensor.shape[axis] = tokens - drop;
  if (tensor.data.empty() || drop == 0) return;
  std::int64_t rows = 1;
  for (std::size_t i = 0; i < axis; ++i) rows *= tensor.shape[i];
  const std::size_t row = tensor.data.size() / static_cast<std::size_t>(rows),
                    token = row / static_cast<std::size_t>(tokens);
  const std::size_t head = token * static_cast<std::size_t>(keep), gone = token * static_cast<std::size_t>(drop);
  std::byte* to = tensor.data.data();
  for (const std::byte* from = to; from != tensor.data.data() + tensor.data.size(); from += row) {
    std::memmove(to, from, head);
    std::memmove(to + head, from + head + gone, row - head - gone);
    to += row - gone;
  }
  tensor.data.resize(tensor.data.size() - static_cast<std::size_t>(rows) * gone);
  tensor.bytes = tensor.data.size();
}

void add_new(std::vector<std::string>& lines, const std::string& line) {
  if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
}

std::string line_of(const char* what, const Tensor& tensor) {
  return std::string(what) + "  " + (tensor.name.empty() ? "" : printable(tensor.name) + "  ") +
         rotary::name(tensor.type) + " " + shape_text(tensor.shape);
}

// Both ropes turn the same elements of the same heads.
void check_same_block(const Tensor& tensor, const ModelRope* used, const ModelRope* wanted) {
  const bool both = used != nullptr && wanted != nullptr;
  if (both && used->rope.head_dim == wanted->rope.head_dim && used->rope.rotary_dim == wanted->rope.rotary_dim &&
      used->first == wanted->first)
    return;
  fail(Code::ROPE, "shift", "CONFIG and --to-config must rotate the same elements of ", label(tensor),
       (both ? " but their head_dim, rotary_dim or first element differ"
             : " but its layer has a rope in one of them only"));
}

// Keys that interleaved_to_half has rotated lie in the order of half.
Frequencies of_rotated(Frequencies f) {
  if (f.pairing == Pairing::interleaved_to_half) f.pairing = Pairing::half;
  f.xpos.reciprocal = f.xpos.scale != 0;
  return f;
}

// Of the keys of one rope and as many tokens.
struct Turned {
  const ModelRope* used = nullptr;
  const ModelRope* wanted = nullptr;
  std::optional<Table> table = {};
};

// tokens: of the tensor before some left.
tools::Rotation rotation_of(const ShiftOptions& options, const Side& from, const Side& to, const Turned& turned,
                            std::int64_t tokens, Done& done, Stamp& stamp) {
  PositionRequest before = options.from, after = options.to.spec ? options.to : options.from;
  tools::Rotation how{"shift"};
  if (options.drop) {
    how.still = options.keep.value_or(0);
    before.spec = std::to_string(how.still + *options.drop) + ":";
    after.spec = std::to_string(how.still) + ":";
  }
  how.head_dim = turned.used->rope.head_dim;
  how.rotary_dim = turned.used->rope.rotary_dim;
  how.first = turned.used->first;
  how.positions_before = positions_of("shift", before, from.model, *turned.used);
  how.positions = positions_of("shift", after, to.model, *turned.wanted);
  const auto length_at = [&](const PositionSet& positions) {
    return options.drop ? from.source.length.value_or(tokens)
                        : positions.closed(std::max(tokens, positions.tokens)).length();
  };
  const std::int64_t length = from.source.length.value_or(length_at(how.positions_before));
  const std::int64_t to_length = options.to_length.value_or(length_at(how.positions));
  how.before = of_rotated(frequencies_of(from.source, turned.used->rope, length));
  how.frequencies = of_rotated(frequencies_of(to.source, turned.wanted->rope, to_length));
  add_new(done.notes, describe(from.model, *turned.used, *how.before));
  if (!options.to_config.empty() || options.to_length)
    add_new(done.notes, "to " + describe(to.model, *turned.wanted, how.frequencies));
  stamp.facts = metadata_of(to.source, {}, to.model, *turned.wanted, how.frequencies, to_length);
  stamp.facts["direction"] = "between";
  stamp.facts["from"] = before.spec.value_or("0:");
  stamp.facts["positions"] = after.spec.value_or("0:");
  stamp.facts["from_config"] = from.source.config;
  stamp.facts["from_length"] = std::to_string(length);
  if (options.drop) stamp.facts["drop"] = std::to_string(*options.drop);
  return how;
}

// One way for each rope and what else it depends on.
void tell_of(std::vector<Stamp>& stamps, const Stamp& stamp, const std::string& tensor) {
  auto same = std::ranges::find(stamps, stamp.facts, &Stamp::facts);
  if (same == stamps.end()) same = stamps.insert(same, stamp);
  same->tensors.push_back(tensor);
}

// Returns the word of its layout.
std::string shift_key(Tensor& tensor, const ShiftOptions& options, const Side& from, const Side& to,
                      const Executor& pool, Turned& last, Done& done) {
  const auto [used, chosen] = rope_of_tensor(from.source, from.model, tensor);
  const ModelRope* const wanted = rope_of_tensor(to.source, to.model, tensor).used;
  const std::vector<const Tensor*> seen{&tensor};
  const tools::Readings readings =
      tools::read_heads("shift", seen, options.layout, used != nullptr ? *used : ModelRope{});
  const auto& [word, read] = readings.tensors.front();
  for (const std::string& note : readings.notes) add_new(done.notes, note);
  for (const std::string& warning : readings.warnings) add_new(done.warnings, warning);
  if (options.drop) cut(tensor, word, options.keep.value_or(0), *options.drop);
  if (used == nullptr && wanted == nullptr) {
    done.lines.push_back(line_of(options.drop ? "cut    " : "copied ", tensor) + ": its layer rotates nothing (NoPE)");
    return word;
  }
  check_same_block(tensor, used, wanted);
  if (last.used != used || last.wanted != wanted) last = {used, wanted};
  Stamp stamp;
  tools::Rotation how = rotation_of(options, from, to, last, read.tokens, done, stamp);
  for (const std::string& note : notes_of_use(from.model, *used, chosen)) add_new(done.notes, note);
  how.options = pool;
  const Layout layout = layout_of("shift", tensor, word, read.head_dim);
  tools::rotate_tensor(tensor, layout, how, last.table);
  stamp.facts["layout"] = word;
  tell_of(done.stamps, stamp, tensor.name);
  done.lines.push_back(line_of("shifted", tensor) + ": batch " + std::to_string(layout.batch) + ", tokens " +
                       std::to_string(layout.tokens) + ", heads " + std::to_string(layout.heads));
  return word;
}

void report(const ShiftOptions& options, const std::vector<const Tensor*>& changed, const Done& done) {
  for (const std::string& warning : done.warnings) std::cerr << printable(warning) << '\n';
  if (options.json) {
    nlohmann::ordered_json rotations = nlohmann::ordered_json::array(), shapes = nlohmann::ordered_json::object();
    for (const Stamp& stamp : done.stamps) {
      rotations.push_back(stamp.facts);
      rotations.back()["tensors"] = stamp.tensors;
    }
    for (const Tensor* tensor : changed) shapes[tensor->name] = tensor->shape;
    std::cout << versioned({{"output", options.output},
                            {"rotations", std::move(rotations)},
                            {"shapes", std::move(shapes)},
                            {"notes", done.notes}})
              << '\n';
    return;
  }
  const bool dash = is_dash(files::path_of(options.output));
  std::ostream& out = dash ? std::cerr : std::cout;
  for (const auto* lines : {&done.notes, &done.lines})
    for (const std::string& line : *lines) out << printable(line) << '\n';
  out << "wrote " << (dash ? "standard output" : printable(options.output)) << '\n';
}

void run(const ShiftOptions& options) {
  check_usage(options);
  check_output(files::path_of(options.output), options.json);
  if (!options.machine.target.empty()) use_target(options.machine.target);
  InputTensors input(files::path_of(options.input));
  check_one_format("shift", options.input, input.format(), options.output);
  std::vector<Tensor> keys = read_those(input, options.tensors, is_key);
  std::vector<Tensor> values;
  if (options.drop) values = read_those(input, options.values, is_value_tensor);
  if (keys.empty())
    fail(
        Code::TENSOR, "shift", input.name(),
        " must have keys by their names, as k, layers.3.key or key_cache.3 (or name yours with --tensor) but has none");
  std::vector<Tensor*> pointers;
  for (Tensor& key : keys) pointers.push_back(&key);
  tools::check_types("shift", pointers);
  std::vector<const Tensor*> changed(pointers.begin(), pointers.end());
  for (const Tensor& value : values) changed.push_back(&value);
  std::set<std::string> names;
  for (const Tensor* tensor : changed) {
    if (!names.insert(tensor->name).second)
      fail(Code::TENSOR, "shift", "a tensor must be named once, among the keys or the values, but got ",
           files::in_quotes(tensor->name), " twice");
  }

  const std::vector<std::int64_t>& shape = keys.front().shape;
  const Side from{options.source, read_model(options.source, shape.empty() ? 0 : static_cast<int>(shape.back()))};
  Side to = from;
  if (!options.to_config.empty()) {
    to.source = {};
    to.source.config = options.to_config;
    to.source.pairing = options.source.pairing;
    to.source.rope = options.source.rope;
    to.source.layer = options.source.layer;
    to.model = read_model(to.source, 0);
  }
  const ThreadPool pool(options.machine.threads.value_or(1));
  Turned last;
  Done done;
  std::string word = options.layout;
  for (Tensor& key : keys) word = shift_key(key, options, from, to, pool, last, done);
  for (Tensor& value : values) {
    cut(value, word, options.keep.value_or(0), *options.drop);
    done.lines.push_back(line_of("cut    ", value));
  }

  Metadata metadata = input.metadata();
  if (input.format() == files::Format::safetensors) {
    std::vector<Stamp> stamps = stamps_of(metadata);
    std::ranges::copy(done.stamps, std::back_inserter(stamps));
    metadata = stamped(metadata, stamps);
  }
  input.save_changed(files::path_of(options.output), changed, metadata);
  report(options, changed, done);
}

}  // namespace

void add_shift(CLI::App& app) {
  auto options = std::make_shared<ShiftOptions>();
  Command command(app, "shift");
  add_source_options(command, options->source);
  add_rope_option(command, options->source);
  command.option("--input", options->input);
  command.option("--output", options->output);
  command.option("--drop", options->drop);
  command.option("--keep", options->keep);
  command.option("--from", options->from.spec);
  command.option("--to", options->to.spec);
  command.option("--to-config", options->to_config);
  command.option("--to-length", options->to_length);
  command.option("--tensor", options->tensors);
  command.option("--values", options->values);
  command.option("--layout", options->layout, layout_words);
  add_same_position_option(command, options->from);
  command.option("--json", options->json);
  add_machine_options(command, options->machine);
  command.runs([options] {
    options->to.same_on_every_axis = options->from.same_on_every_axis;
    run(*options);
  });
}

}  // namespace rotary::cli
