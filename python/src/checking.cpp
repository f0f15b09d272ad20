// rotary.check and rotary.diagnose: rotary/diagnose.h on files or arrays.
#include <cstring>
#include <optional>
#include <string>

#include "arrays.h"
#include "module.h"
#include "positions.h"
#include "rotary/diagnose.h"
#include "values.h"

namespace rotary::python {

namespace {

Tensor tensor_of(const std::string& name, PyObject* object) {
  const ArrayView view(object, name.empty() ? "tensor" : name.c_str());
  Tensor tensor;
  tensor.name = name;
  tensor.type = view.type;
  tensor.shape.assign(view.shape.begin(), view.shape.begin() + view.ndim);
  tensor.bytes = static_cast<std::uint64_t>(view.bytes());
  tensor.data.resize(static_cast<std::size_t>(view.bytes()));
  const std::size_t item = bits_of(view.type) / 8;
  std::byte* to = tensor.data.data();
  for_each_offset(view, [&](const void* place) {
    std::memcpy(to, place, item);
    to += item;
  });
  return tensor;
}

// Of two dicts of arrays of the same names.
std::vector<diagnose::TensorPair> pairs_of(PyObject* before, PyObject* after) {
  std::vector<diagnose::TensorPair> pairs;
  Py_ssize_t at = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(before, &at, &key, &value) != 0) {
    PyObject* other = PyDict_GetItemWithError(after, key);
    if (other == nullptr) continue;
    const std::string name = text_of(key, "a tensor's name");
    pairs.push_back({name, tensor_of(name, value), tensor_of(name, other)});
  }
  return pairs;
}

std::vector<diagnose::TensorPair> tensors_of(const char* operation, PyObject* before, PyObject* after,
                                             PyObject* names) {
  const bool dicts = PyDict_Check(before) != 0 && PyDict_Check(after) != 0;
  std::vector<diagnose::TensorPair> pairs =
      dicts ? pairs_of(before, after)
            : diagnose::read_pairs(operation, text_of(before, "before"), text_of(after, "after"),
                                   names == nullptr ? std::vector<std::string>{} : texts_of(names, "a tensor's name"));
  if (pairs.empty()) fail(Code::TENSOR, operation, "there must be tensors of one name before and after but got none");
  return pairs;
}

void set_positions(PositionRequest& request, PyObject* positions, const std::optional<Model>& model) {
  if (positions == nullptr) return;
  if (PyUnicode_Check(positions) != 0) {
    request.spec = text_of(positions, "positions");
    return;
  }
  int axes = 1;
  for (std::size_t i = 0; model && i < model->ropes.size(); ++i) {
    axes = std::max(axes, Frequencies{.axis = model->ropes[i].rope.axis}.axes());
  }
  const GivenPositions given = positions_from(positions, axes);
  PositionSet set;
  set.integers = given.integers;
  set.reals = given.reals;
  set.axes = given.axes;
  set.batch = given.batch;
  set.batched = given.batched;
  set.tokens = given.view().tokens();
  request.set = set;
}

// before, after: paths, or dicts of arrays. source: as model_of takes it, or None.
struct Asked {
  Asked(const char* operation, PyObject* source, PyObject* before, PyObject* after, PyObject* dict) {
    const Words words{dict};
    request.operation = operation;
    request.progress = heed;
    request.layout = words.text("layout");
    request.length = words.integer("length");
    if (const auto rope = words.integer("rope")) request.rope = static_cast<int>(*rope);
    if (source != nullptr) {
      request.config = "the config";
      request.model = model_of(source, words.find("pairing"));
    }
    set_positions(request.positions, words.find("positions"), request.model);
    request.positions.same_on_every_axis = words.flag("same_position_on_every_axis");
    request.tolerance = words.number("tolerance");
    request.scores = words.flag("scores");
    pairs = tensors_of(operation, before, after, words.find("tensors"));
  }

  diagnose::Request request;
  std::vector<diagnose::TensorPair> pairs;
};

// (operation, source, before, after, words): the JSON that the command prints.
PyObject* ask(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    const auto [word, source, before, after, words] = arguments<5>(given, count);
    const bool check = view_of(word, "operation") == "check";
    const Asked asked(check ? "check" : "diagnose", source == Py_None ? nullptr : source, before, after, words);
    std::string text;
    {
      const Unlocked unlocked(true);
      text = check ? to_json(diagnose::check(asked.request, asked.pairs))
                   : to_json(diagnose::diagnose(asked.request, asked.pairs));
    }
    return new_text(text);
  });
}

}  // namespace

std::vector<PyMethodDef> checking_methods() { return {placed("_ask", ask)}; }

}  // namespace rotary::python
