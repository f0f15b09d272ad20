// rotary table: the cos and sin rows of a model, as a safetensors file.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.h"
#include "rotary/config.h"
#include "rotary/positions.h"
#include "rotary/targets.h"
#include "rotary/tensors.h"
#include "shared/command.h"
#include "shared/tensors.h"
#include "shared/text.h"
#include "source.h"
#include "stamp.h"
#include "subject/rotation.h"
#include "text/io.h"
#include "text/paths.h"
#include "values/storage.h"

namespace rotary::cli {

namespace {

enum class Form { pairs, doubled, joined, complex };

constexpr std::array<std::string_view, 4> form_names = {"pairs", "doubled", "joined", "complex"};

Form parse_form(std::string_view word) {
  return static_cast<Form>(std::ranges::find(form_names, word) - form_names.begin());
}

struct TableFileOptions : RopeFileOptions {
  Form form = Form::pairs;
  DType dtype = DType::f32;
  TableSettings settings;
  Machine machine;
};

bool is_one_tensor(const TableFileOptions& options) {
  return options.form == Form::joined || options.form == Form::complex;
}

// Also makes --dtype round once, from the exact values.
void check_usage(TableFileOptions& options) {
  const std::string dtype = name(options.dtype);
  if (options.settings.rounding == Rounding::f32) options.settings.rounding = parse_rounding(dtype);
  if (options.dtype != DType::f32 && name(options.settings.rounding) != dtype)
    throw UsageError("--dtype " + dtype + " cannot hold values of --rounding " + name(options.settings.rounding));
  if (is_dash(options.output)) return;
  if (output_format("table", options.output) == files::Format::npy && !is_one_tensor(options)) {
    fail(Code::FORMAT, "table", "the output must be a .safetensors, because --form ",
         form_names.at(static_cast<std::size_t>(options.form)),
         " has two tensors (joined and complex have one), but got '", files::path_text(options.output), "'");
  }
}

// A tensor of a form: the sizes of a token's row, and its element i of the token's cos and sin.
struct FormTensor {
  std::string name;
  std::vector<std::int64_t> row;
  std::function<float(std::span<const float> cos, std::span<const float> sin, std::size_t i)> element;
};

std::vector<FormTensor> tensors_of_form(Form form, const Table& table) {
  const auto n = static_cast<std::size_t>(table.pairs());
  const std::int64_t pairs = table.pairs(), width = table.rotary_dim();
  if (form == Form::joined) {
    return {{"cos_sin", {width}, [n](auto cos, auto sin, auto i) { return i < n ? cos[i] : sin[i - n]; }}};
  }
  if (form == Form::complex) {
    return {{"freqs_cis", {pairs, 2}, [](auto cos, auto sin, auto i) { return i % 2 == 0 ? cos[i / 2] : sin[i / 2]; }}};
  }
  if (form == Form::doubled) {
    const bool neighbours = table.pairing() == Pairing::interleaved;
    const auto pair_of = [neighbours, n](std::size_t i) { return neighbours ? i / 2 : i % n; };
    return {{"cos", {width}, [pair_of](auto cos, auto, auto i) { return cos[pair_of(i)]; }},
            {"sin", {width}, [pair_of](auto, auto sin, auto i) { return sin[pair_of(i)]; }}};
  }
  return {{"cos", {pairs}, [](auto cos, auto, auto i) { return cos[i]; }},
          {"sin", {pairs}, [](auto, auto sin, auto i) { return sin[i]; }}};
}

// leading: [tokens], or [batch, tokens]. --rounding has made the values fit the type.
Tensor make_tensor(const FormTensor& form, const Table& table, const std::vector<std::int64_t>& leading, DType dtype) {
  const auto pairs = static_cast<std::size_t>(table.pairs());
  std::size_t width = 1;
  for (const std::int64_t size : form.row) width *= static_cast<std::size_t>(size);
  std::vector<float> values;
  values.reserve(table.cos().size() / pairs * width);
  for (std::size_t at = 0; at < table.cos().size(); at += pairs) {
    const auto cos = table.cos().subspan(at, pairs), sin = table.sin().subspan(at, pairs);
    for (std::size_t i = 0; i < width; ++i) values.push_back(form.element(cos, sin, i));
  }
  std::vector<std::int64_t> shape = leading;
  shape.insert(shape.end(), form.row.begin(), form.row.end());
  Tensor tensor;
  detail::by_type(dtype, [&]<class T>(T) {
    std::vector<T> stored(values.size());
    std::ranges::transform(values, stored.begin(), detail::encode<T>);
    tensor = tensor_of<T>(form.name, shape, stored);
  });
  return tensor;
}

// "cos, sin f32 [8, 64], query_scale f32 [8]"
std::string list_text(const std::vector<Tensor>& tensors) {
  std::string text;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    const bool like_next =
        i + 1 < tensors.size() && tensors[i + 1].shape == tensor.shape && tensors[i + 1].type == tensor.type;
    text += (i == 0 ? "" : ", ") + tensor.name;
    if (!like_next) text += ' ' + files::lower(name(tensor.type)) + ' ' + shape_text(tensor.shape);
  }
  return text;
}

// The rope and the query scale of its layers; for a layer without a rope the query scale alone.
tools::Subject subject_in(Model& model, const Source& source) {
  Choice choice = source;
  if (model.ropes.empty() && !model.query_scales.empty()) {  // Inkling's queries are multiplied, and nothing turns
    ModelRope& bare = model.ropes.emplace_back();
    bare.part = model.query_scales.front().part;
    if (!source.layer) {
      query_scale_of(model, bare.part);  // throws for an ambiguous layer
      choice.layer = 0;
    }
  }
  choice.query_scale = true;
  tools::Subject subject = tools::subject_of(model, choice);
  const bool has_factors = subject.scale.form != QueryForm::none && subject.scale.form != QueryForm::learned;
  if (!subject.turns && !has_factors) chosen_rope(model, source);  // refuses the layer
  const PositionSet& positions = subject.positions.emplace(positions_of("table", source, model, *subject.used));
  if (positions.open_from)
    fail(Code::POSITION, "table",
         "--positions must end, as 0:4096 does, because no tensor gives the number of tokens, but got '",
         *positions.spec, "'");
  return subject;
}

void run(TableFileOptions options) {
  check_usage(options);
  if (!options.machine.target.empty()) use_target(options.machine.target);
  check_output(options.output, asks_json());
  const Source& source = options.source;
  Model model = read_model(source, source.head_dim.value_or(0));
  const tools::Subject subject = subject_in(model, source);
  const PositionSet& positions = *subject.positions;
  const bool npy = !is_dash(options.output) && output_format("table", options.output) == files::Format::npy;
  std::vector<std::int64_t> leading = {positions.tokens};
  if (positions.batched) leading.insert(leading.begin(), positions.batch);
  RopeInUse use;
  std::vector<Tensor> tensors;
  if (subject.turns) {
    use = use_rope(source, options.settings, model, subject);
    const ThreadPool pool(options.machine.threads);
    const Table table(use.frequencies, positions.view(), table_options(options.settings, pool));
    std::vector<std::int64_t> rows = leading;
    if (table.head_rows() > 1) rows.push_back(table.head_rows());
    for (const FormTensor& form : tensors_of_form(options.form, table))
      tensors.push_back(make_tensor(form, table, rows, options.dtype));
  } else {
    use.notes.push_back("layer " + std::to_string(*subject.layer) +
                        " rotates nothing (NoPE): its queries are multiplied by " + formula(subject.scale));
    use.facts = metadata_of(source, options.settings, model, subject, {}, 0);
  }
  Metadata& metadata = use.facts;
  metadata["positions"] = *positions.spec;
  if (subject.turns) metadata["form"] = form_names.at(static_cast<std::size_t>(options.form));
  if (!subject.turns) metadata["layer"] = std::to_string(*subject.layer);
  for (auto& [key, value] : metadata) value = files::legible(value);  // a path need not be UTF-8
  const bool learned = subject.scale.form == QueryForm::learned;  // a note says so
  if (!learned && (!npy || !subject.turns)) {
    const std::vector<float> factors = query_scale(subject.scale, positions);
    tensors.push_back(tensor_of<float>("query_scale", leading, factors));
  }
  save(options.output, tensors, npy ? Metadata{} : metadata);
  nlohmann::ordered_json list;
  for (const Tensor& tensor : tensors)
    list.push_back({{"name", tensor.name}, {"dtype", name(tensor.type)}, {"shape", tensor.shape}});
  const bool ones = tensors.back().name == "query_scale" && subject.scale.form == QueryForm::none;
  report_written(options.output, {{"table", metadata}, {"tensors", list}}, use.notes,
                 ": " + list_text(tensors) + (ones ? " (all 1: this model multiplies no queries)" : ""));
}

}  // namespace

void add_table(Command& command) {
  auto options = std::make_shared<TableFileOptions>();
  add_rope_file_options(command, *options);
  command.option("--form", options->form, parse_form);
  command.option("--dtype", options->dtype, parse_dtype);
  add_table_options(command, options->settings);
  add_machine_options(command, options->machine);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
