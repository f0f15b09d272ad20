// rotary.extend, rotary.convert and rotary.accuracy: rotary/extend.h, convert.h and accuracy.h, their answers as JSON.
#include <algorithm>
#include <optional>
#include <string>

#include "files/text/paths.h"
#include "module.h"
#include "positions.h"
#include "rotary/accuracy.h"
#include "rotary/convert.h"
#include "rotary/extend.h"
#include "rotary/positions.h"
#include "threads.h"
#include "tools/config_place.h"
#include "tools/subject.h"
#include "values.h"

namespace rotary::python {

namespace {

// The result of body, JSON, made without the GIL.
template <class Body>
Ref told(const Body& body) {
  std::string text;
  {
    const Unlocked unlocked(true);
    text = body();
  }
  return new_text(text);
}

// The text beside a new config: the call, and what changed.
std::string note_of(const extend::Plan& plan, const std::string& call) {
  std::string text = "# A longer context, planned by rotary\n\n    " + call + "\n\n";
  for (const extend::MethodPlan& method : plan.methods) {
    if (plan.methods.size() > 1 && method.method != plan.recommended) continue;
    text += method.method + ", " + method.from + (plan.why.empty() ? "" : ": " + plan.why) + "\n\n";
    for (const extend::Change& change : method.changes) {
      text += "- `" + change.key + "`: " + change.before.value_or("not there") + " became " +
              change.after.value_or("nothing") + "\n";
    }
  }
  return text;
}

// (source, length, words)
PyObject* plan_longer(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    const auto [source, length, dict] = arguments<3>(given, count);
    const Words words{dict};
    const bool is_text = view_of(PyTuple_GetItem(source, 0), "source") == "text";
    const std::string content = text_of(PyTuple_GetItem(source, 1), "source");
    extend::Request request;
    request.model = model_of(source, words.find("pairing"));
    request.name = is_text ? "the config" : content;
    request.config = is_text ? content : tools::config_text_at(content);
    request.options = options_of(words.find("pairing"));
    request.context = integer_of(length, "length");
    request.trained_length = words.integer("trained_length");
    request.factor = words.number("factor");
    if (const auto rope = words.integer("rope")) request.rope = static_cast<std::size_t>(*rope);
    request.method = words.text("scaling");
    const std::string output = words.text("output"), call = words.text("call");
    return told([&] {
      extend::Plan plan = extend::plan(request);
      if (!output.empty()) plan.written = extend::write(plan, output, note_of(plan, call));
      return to_json(plan);
    });
  });
}

// (input, output or None, source or None, words)
PyObject* convert_files(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    const auto [input, output, source, dict] = arguments<4>(given, count, 1);
    const Words words{dict};
    ConvertRequest request;
    request.input = files::path_of(tools::config_path(text_of(input, "input")));
    if (output != nullptr) request.output = files::path_of(text_of(output, "output"));
    if (source != nullptr) request.model = model_of(source, nullptr);
    request.to = words.pairing("to");
    request.from = words.pairing("from_");
    request.dry_run = words.flag("dry_run");
    request.verify = words.flag("verify");
    request.head_dim = static_cast<int>(words.integer("head_dim").value_or(0));
    request.rotary_dim = static_cast<int>(words.integer("rotary_dim").value_or(0));
    request.first = static_cast<int>(words.integer("first").value_or(0));
    if (PyObject* names = words.find("tensors")) request.tensors = texts_of(names, "a tensor's name");
    if (const std::string form = words.text("form"); !form.empty()) request.form = parse_table_form(form);
    request.progress = heed;
    return told([&] { return to_json(convert(request)); });
  });
}

// (source, words)
PyObject* study(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    const auto [source, dict] = arguments<2>(given, count);
    const Words words{dict};
    accuracy::Request request;
    request.model = model_of(source, nullptr);
    const ModelRope& used =
        tools::chosen_rope(request.model, static_cast<int>(words.integer("rope").value_or(0)), "the config");
    request.rope = static_cast<std::size_t>(&used - request.model.ropes.data());
    request.length = used.context;
    if (PyObject* positions = words.find("positions")) {
      const GivenPositions places = positions_from(positions, 1);
      request.positions.assign(places.integers.begin(), places.integers.end());
      for (const double value : places.reals) request.positions.push_back(accuracy::Position::real(value));
      request.length = places.length();
    }
    request.length = words.integer("length").value_or(request.length);
    request.frequencies = frequencies(used.rope, request.length);
    request.tolerance = words.number("tolerance").value_or(request.tolerance);
    const Work work(1, 0);
    return told([&] { return to_json(accuracy::study(request, work.executor(), heed)); });
  });
}

}  // namespace

void heed_signals() {
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool stop = PyErr_CheckSignals() != 0;
  PyGILState_Release(state);
  if (stop) throw Raised{};
}

std::vector<PyMethodDef> tools_methods() {
  return {placed("_extend", plan_longer), placed("_convert", convert_files), placed("_accuracy", study)};
}

}  // namespace rotary::python
