// rotary.config, and the program's commands check, diagnose, extend, convert and accuracy. Answers go to Python as
// JSON.
#include <algorithm>
#include <cstring>

#include "module.h"
#include "rotary/accuracy.h"
#include "rotary/choice.h"
#include "rotary/convert.h"
#include "rotary/diagnose.h"
#include "rotary/extend.h"
#include "values.h"

namespace rotary::python {

namespace {

// Text is UTF-8, which on Windows a path of a std::string is not.
std::filesystem::path path_from(PyObject* text, const char* what) {
  const std::string_view letters = view_of(text, what);
  return std::u8string(letters.begin(), letters.end());
}

// ---- models ----

// pairing: may be null.
ConfigOptions options_of(PyObject* pairing) {
  ConfigOptions options;
  options.words.pairing = "pairing=";
  options.words.give_pairing = "pass pairing=\"half\", \"interleaved\" or \"interleaved_to_half\" to rotary.config";
  if (pairing != nullptr) options.pairing = parse_pairing(view_of(pairing, "pairing"));
  return options;
}

// The model of a source, which is ("text", JSON), ("path", a file, folder or repository of the Hugging Face cache), or
// ("rope", rotary.Rope, first).
Model model_of(PyObject* source, PyObject* pairing, const char* operation = "config") {
  if (PyTuple_Size(source) == 3) {
    if (pairing != nullptr) fail(Code::PAIRING, operation, "pairing must be None for a rope, which has its own");
    ModelRope used;
    used.rope = rope_of(PyTuple_GetItem(source, 1));
    used.first = int_of(PyTuple_GetItem(source, 2), "first");
    Model model;
    model.ropes.push_back(used);
    return model;
  }
  const bool is_text = view_of(PyTuple_GetItem(source, 0), "source") == "text";
  const std::string content = string_of(PyTuple_GetItem(source, 1), "source");
  const ConfigOptions options = options_of(pairing);
  return named(operation,
               [&] { return is_text ? parse_config(content, options) : read_config(config_path(content), options); });
}

Json to_json(const Model& model, const ModelRope& used) {
  Json origins = Json::array();
  for (const auto& [value, origin] : used.origins)
    origins.push_back({value, {origin_word(origin.kind), origin.key, name(origin.kind)}});
  return {{"rope", python::to_json(used.rope)},
          {"part", used.part},
          {"layers", used.layers},
          {"layers_without_rope", layers_without_rope(model, used.part)},
          {"heads", used.heads},
          {"kv_heads", used.kv_heads},
          {"first", used.first},
          {"context", part_of(model, used.part).context},
          {"notes", sentences_of(notes_on(model, used))},
          {"_origins", origins},
          {"axis_names", used.axis_names},
          {"coordinates", used.coordinates}};
}

Ref read_model(PyObject* operation, PyObject* source, PyObject* pairing, PyObject* weights) {
  const std::string caller = string_of(operation, "operation");
  Model model = model_of(source, or_null(pairing), caller.c_str());
  if (weights != Py_None) named(caller.c_str(), [&] { apply_weights(model, path_from(weights, "weights")); });
  Json ropes = Json::array();
  for (const ModelRope& used : model.ropes) ropes.push_back(to_json(model, used));
  Json noted = Json::array();
  for (const Note& note : model.notes) noted.push_back({note.part, name(note.kind), note.text});
  return new_json(Json{
      {"model_type", model.model_type}, {"notes", sentences_of(model.notes)}, {"noted", noted}, {"_ropes", ropes}});
}

// file: a path or None, which ends the use of another.
Ref set_models(PyObject* file) {
  file == Py_None ? use_own_models() : use_models(path_from(file, "models"));
  return new_text(model_data().version);
}

Ref set_own_models(PyObject* file) {
  set_models_beside(path_from(file, "models"));
  return none();
}

// The memory, type and shape of the factors, which rotary._memory.view takes. layer: may be None.
Ref make_query_scale(PyObject* source, PyObject* positions, PyObject* layer, PyObject* pairing) {
  const Model model = model_of(source, or_null(pairing));
  const PositionSet given = positions_from(positions, 1);
  if (!given.reals.empty()) fail(Code::POSITION, "query_scale", "positions must be whole numbers but got floats");
  std::optional<int> of;
  if (layer != Py_None) of = int_of(layer, "layer");
  const std::vector<float> factors = query_scale(model, given.integers, of);
  return checked(Py_BuildValue("(NsN)", bytes_of(factors).release(), "F32", tuple_of(given.shape()).release()));
}

// ---- check and diagnose ----

constexpr auto heed = [](auto...) { Unlocked::heed_signals(); };

ArrayView seen(const std::string& name, PyObject* object) { return {object, name.empty() ? "tensor" : name.c_str()}; }

TensorInfo info_of(const std::string& name, const ArrayView& view) {
  return {
      name, view.type, {view.shape.begin(), view.shape.begin() + view.ndim}, static_cast<std::uint64_t>(view.bytes())};
}

Tensor tensor_of(const std::string& name, PyObject* object) {
  const ArrayView view = seen(name, object);
  Tensor tensor{info_of(name, view), {}};
  tensor.data.resize(static_cast<std::size_t>(view.bytes()));
  std::byte* to = tensor.data.data();
  for_each_element(view, [&to](auto value) {
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  });
  return tensor;
}

// dict: arrays by their names, or one whose name is "".
diagnose::TensorSource source_of(const char* operation, const char* which, PyObject* dict) {
  diagnose::TensorSource source{which, {}, [=](const std::string& name) {
                                  PyObject* array = PyDict_GetItemString(dict, name.c_str());
                                  if (array == nullptr)
                                    fail(Code::TENSOR, operation, which, ": no tensor is named \"", name, "\"");
                                  return tensor_of(name, array);
                                }};
  PyObject *key = nullptr, *array = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &array) != 0;) {
    const std::string name = string_of(key, "a tensor's name");
    source.infos.push_back(info_of(name, seen(name, array)));
  }
  return source;
}

// before, after: two paths, or two dicts of arrays.
std::vector<diagnose::TensorPair> pairs_of(const char* operation, PyObject* before, PyObject* after, PyObject* given) {
  std::vector<std::string> names;
  if (given != nullptr) names = list_of<std::string>(given, "a tensor's name");
  if (PyDict_Check(before) == 0)
    return diagnose::read_pairs(operation, string_of(before, "before"), string_of(after, "after"), names);
  return diagnose::read_pairs(operation, source_of(operation, "before", before), source_of(operation, "after", after),
                              names);
}

PositionSet positions_for(PyObject* positions, const std::optional<Model>& model) {
  if (PyUnicode_Check(positions) != 0) return written_positions(string_of(positions, "positions"));
  int axes = 1;
  for (std::size_t i = 0; model && i < model->ropes.size(); ++i) axes = std::max(axes, model->ropes[i].rope.axes());
  return positions_from(positions, axes);
}

Ref ask(PyObject* word, PyObject* source, PyObject* before, PyObject* after, PyObject* dict) {
  const Words words{dict};
  diagnose::Request request;
  request.operation = string_of(word, "operation");
  request.progress = heed;
  request.layout = words.text("layout");
  request.length = words.integer("length");
  request.rope = words.small("rope");
  if (source != Py_None) {
    request.config = "the config";
    request.model = model_of(source, words.find("pairing"));
  }
  if (PyObject* positions = words.find("positions")) request.positions = positions_for(positions, request.model);
  request.same_on_every_axis = words.flag("same_position_on_every_axis");
  request.tolerance = words.number("tolerance");
  const auto pairs = pairs_of(request.operation.c_str(), before, after, words.find("tensors"));
  return new_text(unlocked([&] {
    return request.operation == "check" ? to_json(diagnose::check(request, pairs))
                                        : to_json(diagnose::diagnose(request, pairs));
  }));
}

// ---- the others ----

Ref plan_longer(PyObject* source, PyObject* length, PyObject* dict) {
  const Words words{dict};
  const bool is_text = view_of(PyTuple_GetItem(source, 0), "source") == "text";
  const std::string content = string_of(PyTuple_GetItem(source, 1), "source");
  extend::Request request;
  request.model = model_of(source, words.find("pairing"));
  request.name = is_text ? "the config" : content;
  request.config = is_text ? content : config_text_at(content);
  request.options = options_of(words.find("pairing"));
  request.context = integer_of(length, "length");
  request.trained_length = words.integer("trained_length");
  request.factor = words.number("factor");
  request.rope = words.small("rope");
  request.method = words.text("scaling");
  const std::string output = words.text("output");
  return new_text(unlocked([&] {
    extend::Plan plan = extend::plan(request);
    if (!output.empty()) plan.written = extend::write(plan, output);
    return to_json(plan);
  }));
}

Ref convert_checkpoint(PyObject* input, PyObject* output, PyObject* dict) {
  const Words words{dict};
  ConvertRequest request;
  request.input = config_path(string_of(input, "input"));
  if (output != Py_None) request.output = path_from(output, "output");
  request.to = words.pairing("to").value_or(Pairing::unset);
  request.from = words.pairing("from_");
  request.dry_run = words.flag("dry_run");
  request.verify = words.flag("verify");
  request.progress = heed;
  return new_text(unlocked([&] { return to_json(convert(request)); }));
}

Ref study(PyObject* source, PyObject* dict) {
  const Words words{dict};
  accuracy::Request request;
  request.model = model_of(source, nullptr);
  const ModelRope& used = chosen_rope(request.model, {.config = "the config", .rope = words.small("rope")});
  request.rope = static_cast<std::size_t>(&used - request.model.ropes.data());
  request.length = part_of(request.model, used.part).context;
  if (PyObject* positions = words.find("positions")) {
    const PositionSet places = positions_from(positions, 1);
    request.positions.assign(places.integers.begin(), places.integers.end());
    request.positions.insert(request.positions.end(), places.reals.begin(), places.reals.end());
    request.length = places.length();
  }
  request.length = words.integer("length").value_or(request.length);
  request.frequencies = frequencies(used.rope, request.length);
  request.tolerance = words.number("tolerance").value_or(request.tolerance);
  return new_text(unlocked([&] { return to_json(request, accuracy::study(request, heed)); }));
}

}  // namespace

std::vector<PyMethodDef> tools_methods() {
  return {method<read_model>("_model"),      method<make_query_scale>("_query_scale"), method<ask>("_ask"),
          method<plan_longer>("_extend"),    method<convert_checkpoint>("_convert"),   method<study>("_accuracy"),
          method<set_models>("_use_models"), method<set_own_models>("_own_models")};
}

}  // namespace rotary::python
