#include "module.h"

#include <string>

#include "arguments.h"
#include "files/config/caller_words.h"
#include "files/text/paths.h"
#include "tools/config_place.h"
#include "tools/subject.h"
#include "values.h"

namespace rotary::python {

namespace {

template <class Texts>
Ref texts_of(const Texts& texts) {
  Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(texts.size())));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    checked(PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), new_text(texts[i]).release()));
  }
  return tuple;
}

Ref origins_of(const ModelRope& used) {
  Ref origins = checked(PyDict_New());
  for (const ValueOrigin& known : used.origins) {
    const Ref pair = checked(Py_BuildValue("(sN)", name(known.origin), new_text(known.from).release()));
    checked(PyDict_SetItemString(origins.get(), known.value.c_str(), pair.get()));
  }
  return origins;
}

Ref words_of(const Model& model, const ModelRope& used) {
  Ref words = checked(PyDict_New());
  const auto put = [&](const char* name, Ref value) { checked(PyDict_SetItemString(words.get(), name, value.get())); };
  put("rope", python::words_of(used.rope));
  put("part", new_text(used.part));
  put("layers", tuple_of(used.layers));
  put("layers_without_rope", tuple_of(used.layers_without_rope));
  put("heads", checked(PyLong_FromLong(used.heads)));
  put("kv_heads", checked(PyLong_FromLong(used.kv_heads)));
  put("first", checked(PyLong_FromLong(used.first)));
  put("context", checked(PyLong_FromLongLong(used.context)));
  put("notes", texts_of(tools::notes_on(model, used)));
  put("origins", origins_of(used));
  put("axis_names", texts_of(used.axis_names));
  put("coordinates", Ref::borrowed(used.coordinates ? Py_True : Py_False));
  return words;
}

constexpr const char* config_hint =
    "pass pairing=\"half\", \"interleaved\" or \"interleaved_to_half\" to rotary.config";

// ConfigOptions::pairing is the argument `pairing` here.
void name_arguments(std::string& sentence) {
  constexpr std::string_view word = files::caller_words::pairing;
  if (const auto at = sentence.find(word); at != std::string::npos) sentence.replace(at, word.size(), "pairing=");
}

PyObject* read_model(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words) {
  static const Signature<3> signature{"_model", 3, 1, {"source", "pairing", "weights"}};
  return guarded([&]() -> PyObject* {
    const auto [source, pairing, weights] = signature.read(arguments, given, words);
    Model model = model_of(source, pairing);
    if (weights != nullptr) apply_weights(model, files::path_of(text_of(weights, "weights")));
    Ref ropes = checked(PyTuple_New(static_cast<Py_ssize_t>(model.ropes.size())));
    for (std::size_t i = 0; i < model.ropes.size(); ++i) {
      Ref one = words_of(model, model.ropes[i]);
      checked(PyTuple_SetItem(ropes.get(), static_cast<Py_ssize_t>(i), one.release()));
    }
    return checked(Py_BuildValue("(NNN)", new_text(model.model_type).release(), ropes.release(),
                                 texts_of(model.notes).release()))
        .release();
  });
}

PyObject* write_parameters(PyObject*, PyObject* rope) {
  return guarded([&]() -> PyObject* { return new_text(rope_parameters(rope_from(rope))).release(); });
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

PyObject* make_axes(PyObject*, PyObject* arguments) {
  const char* kind = nullptr;
  PyObject* given = nullptr;
  if (PyArg_ParseTuple(arguments, "sO", &kind, &given) == 0) return nullptr;
  return guarded([&]() -> PyObject* {
    const std::vector<int> sections = ints_of(given, "sections");
    const std::string_view word = kind;
    return tuple_of(word == "sectioned"     ? sectioned_axes(sections)
                    : word == "interleaved" ? interleaved_axes(sections)
                                            : ernie_axes(sections))
        .release();
  });
}

PyObject* make_axial(PyObject*, PyObject* arguments) {
  int head_dim = 0, axes = 0;
  double base = 0;
  const char* pairing = nullptr;
  if (PyArg_ParseTuple(arguments, "iids", &head_dim, &axes, &base, &pairing) == 0) return nullptr;
  return guarded(
      [&]() -> PyObject* { return python::words_of(axial(head_dim, axes, base, parse_pairing(pairing))).release(); });
}

}  // namespace

Model model_of(PyObject* source, PyObject* pairing) {
  if (PyTuple_Size(source) == 3) return model_of_rope(source);
  const char *kind = nullptr, *text = nullptr;
  Py_ssize_t size = 0;
  if (PyArg_ParseTuple(source, "ss#", &kind, &text, &size) == 0) throw Raised{};
  const std::string content(text, static_cast<std::size_t>(size));
  ConfigOptions options;
  if (pairing != nullptr && pairing != Py_None) options.pairing = parse_pairing(view_of(pairing, "pairing"));
  try {
    Model model = std::string_view(kind) == "text" ? parse_config(content, options)
                                                   : read_config(files::path_of(tools::config_path(content)), options);
    for (std::string& note : model.notes) name_arguments(note);
    for (ModelRope& used : model.ropes) {
      for (ValueOrigin& known : used.origins) name_arguments(known.from);
    }
    return model;
  } catch (const Error& error) {
    std::string sentence = error.what();
    name_arguments(sentence);
    if (error.code() == Code::MODEL_TYPE && !options.pairing) {
      sentence += std::string(sentence.ends_with('?') ? " Or " : ": ") + config_hint;
    }
    throw Error(error.code(), sentence);
  }
}

std::vector<PyMethodDef> model_methods() {
  return {fast("_model", read_model, nullptr),
          {"_rope_parameters", write_parameters, METH_O, nullptr},
          {"_axes", make_axes, METH_VARARGS, nullptr},
          {"_axial", make_axial, METH_VARARGS, nullptr}};
}

}  // namespace rotary::python
