#include "module.h"

#include <string>

#include "files/text/paths.h"
#include "tools/config_place.h"
#include "tools/subject.h"
#include "values.h"

namespace rotary::python {

namespace {

Ref origins_of(const ModelRope& used) {
  Ref origins = checked(PyDict_New());
  for (const ValueOrigin& known : used.origins) {
    put(origins, known.value.c_str(),
        checked(Py_BuildValue("(sN)", name(known.origin), new_text(known.from).release())));
  }
  return origins;
}

Ref words_of(const Model& model, const ModelRope& used) {
  Ref words = checked(PyDict_New());
  put(words, "rope", python::words_of(used.rope));
  put(words, "part", used.part);
  put(words, "layers", used.layers);
  put(words, "layers_without_rope", used.layers_without_rope);
  put(words, "heads", used.heads);
  put(words, "kv_heads", used.kv_heads);
  put(words, "first", used.first);
  put(words, "context", used.context);
  put(words, "notes", tools::notes_on(model, used));
  put(words, "origins", origins_of(used));
  put(words, "axis_names", used.axis_names);
  put(words, "coordinates", used.coordinates);
  return words;
}

constexpr const char* config_hint =
    "pass pairing=\"half\", \"interleaved\" or \"interleaved_to_half\" to rotary.config";

PyObject* read_model(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    const auto [source, pairing, weights] = arguments<3>(given, count, 1);
    Model model = model_of(source, pairing);
    if (weights != nullptr) apply_weights(model, files::path_of(text_of(weights, "weights")));
    Ref ropes = checked(PyList_New(0));
    for (const ModelRope& used : model.ropes) checked(PyList_Append(ropes.get(), words_of(model, used).get()));
    return checked(Py_BuildValue("(NNN)", new_text(model.model_type).release(), ropes.release(),
                                 object_of(model.notes).release()));
  });
}

PyObject* write_parameters(PyObject*, PyObject* rope) {
  return guarded([&] { return new_text(rope_parameters(rope_from(rope))); });
}

// ("rope", rotary.Rope, first)
Model model_of_rope(PyObject* source) {
  ModelRope used;
  used.rope = rope_from(PyTuple_GetItem(source, 1));
  used.first = static_cast<int>(integer_of(PyTuple_GetItem(source, 2), "first"));
  Model model;
  model.ropes.push_back(used);
  return model;
}

PyObject* make_axes(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    const auto [kind, counts] = arguments<2>(given, count);
    const std::vector<int> sections = ints_of(counts, "sections");
    const std::string_view word = view_of(kind, "kind");
    return object_of(word == "sectioned"     ? sectioned_axes(sections)
                     : word == "interleaved" ? interleaved_axes(sections)
                                             : ernie_axes(sections));
  });
}

PyObject* make_axial(PyObject*, PyObject* arguments) {
  return guarded([&] {
    int head_dim = 0, axes = 0;
    double base = 0;
    const char* pairing = nullptr;
    if (PyArg_ParseTuple(arguments, "iids", &head_dim, &axes, &base, &pairing) == 0) throw Raised{};
    return python::words_of(axial(head_dim, axes, base, parse_pairing(pairing)));
  });
}

}  // namespace

ConfigOptions options_of(PyObject* pairing) {
  ConfigOptions options;
  options.words.pairing = "pairing=";
  if (pairing != nullptr && pairing != Py_None) options.pairing = parse_pairing(view_of(pairing, "pairing"));
  return options;
}

Model model_of(PyObject* source, PyObject* pairing) {
  if (PyTuple_Size(source) == 3) return model_of_rope(source);
  const char *kind = nullptr, *text = nullptr;
  Py_ssize_t size = 0;
  if (PyArg_ParseTuple(source, "ss#", &kind, &text, &size) == 0) throw Raised{};
  const std::string content(text, static_cast<std::size_t>(size));
  const ConfigOptions options = options_of(pairing);
  try {
    return std::string_view(kind) == "text" ? parse_config(content, options)
                                            : read_config(files::path_of(tools::config_path(content)), options);
  } catch (const Error& error) {
    std::string sentence = error.what();
    if (error.code() == Code::MODEL_TYPE && !options.pairing) {
      sentence += std::string(sentence.ends_with('?') ? " Or " : ": ") + config_hint;
    }
    throw Error(error.code(), sentence);
  }
}

std::vector<PyMethodDef> model_methods() {
  return {placed("_model", read_model),
          {"_rope_parameters", write_parameters, METH_O, nullptr},
          placed("_axes", make_axes),
          {"_axial", make_axial, METH_VARARGS, nullptr}};
}

}  // namespace rotary::python
