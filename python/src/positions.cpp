#include "values.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "arrays.h"

namespace rotary::python {

namespace {

constexpr const char* positions_operation = "positions";

using Integers = std::vector<std::int64_t>;

void add_array(PositionSet& given, PyObject* object, bool bools) {
  const ArrayView view(object, positions_operation);
  if (view.type == ElementType::boolean && !bools) {
    fail(Code::DTYPE, positions_operation, "an array must hold integers or floats but got ", type_word(view.type));
  }
  if (bits_of(view.type) < 32 && is_float(view.type)) {
    fail(Code::DTYPE, positions_operation, "an array of floats must be float32 or float64 but got ",
         type_word(view.type), ", which has not all integers above ", (view.type == ElementType::f16 ? "2048" : "256"),
         ": make the positions in another type");
  }
  given.given_shape = Integers(view.shape.begin(), view.shape.begin() + view.ndim);
  for_each_element(view, [&](auto value) {
    if constexpr (std::is_integral_v<decltype(value)>) {
      if (!std::in_range<std::int64_t>(value))
        fail(Code::POSITION, positions_operation, "a position must fit 64 bits with a sign but got one that does not");
      given.integers.push_back(static_cast<std::int64_t>(value));
    } else {
      given.reals.push_back(real(value));
    }
  });
}

void set_sizes(PositionSet& given, int axes) {
  const Integers shape = given.shape();
  const auto small = [](std::int64_t size) {
    if (size > std::numeric_limits<int>::max()) fail(Code::SHAPE, positions_operation, "a dimension is too large");
    return static_cast<int>(size);
  };
  const bool several = axes > 1;
  if (shape.size() > (several ? 3U : 2U)) {
    fail(Code::SHAPE, positions_operation, several ? "a rope of several axes" : "a rope of one axis",
         several ? " must have [tokens], [axes, tokens] or [axes, batch, tokens]"
                 : " must have [tokens] or [batch, tokens]",
         " but got ", shape.size(), " dimensions");
  }
  if (several && shape.size() > 1) given.axes = small(shape[0]);
  if (several && shape.size() > 1 && given.axes != 1 && given.axes != axes) {
    fail(Code::SHAPE, positions_operation, "the first dimension must be the rope's ", axes, " axes, or 1, but got ",
         given.axes, ": give [axes, tokens] or [axes, batch, tokens]");
  }
  given.batched = shape.size() == (several ? 3U : 2U);
  if (given.batched) given.batch = small(shape[shape.size() - 2]);
}

}  // namespace

PositionSet positions_from(PyObject* object, int axes, bool bools) {
  PositionSet given;
  PyObject *values = object, *shape = nullptr;
  if (PyTuple_Check(object) != 0 && PyArg_ParseTuple(object, "OO", &values, &shape) == 0) throw Raised{};
  if (PyTuple_Check(values) != 0) {
    long long first = 0, step = 0, count = 1;
    if (PyArg_ParseTuple(values, "LL", &first, &step) == 0 || PyArg_ParseTuple(shape, "|L", &count) == 0)
      throw Raised{};
    given.given_shape = Integers(static_cast<std::size_t>(PyTuple_Size(shape)), count);
    if (count > std::numeric_limits<int>::max())
      fail(Code::POSITION, positions_operation, "there must be at most 2^31 - 1 positions but got ", count);
    given.integers.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) given.integers.push_back(first + i * step);
  } else {
    add_array(given, values, bools);
    if (shape != nullptr) {
      const std::vector<int> sizes = list_of<int>(shape, positions_operation);
      given.given_shape = Integers(sizes.begin(), sizes.end());
    }
  }
  set_sizes(given, axes);
  const auto size = static_cast<std::int64_t>(given.reals.size() + given.integers.size());
  given.tokens = size / std::max(1, given.axes * given.batch);
  return given;
}

// ---- rotary.positions ----

namespace {

// The memory, type and shape, which rotary._memory.view takes.
template <class Value>
Ref array_of(const std::vector<Value>& values, const Integers& shape = {}) {
  const Integers flat = {static_cast<std::int64_t>(values.size())};
  const char* type = std::is_integral_v<Value> ? "I64" : "F64";
  return checked(
      Py_BuildValue("(NsN)", bytes_of(values).release(), type, tuple_of(shape.empty() ? flat : shape).release()));
}

Ref array_of(const PositionSet& set) {
  return set.reals.empty() ? array_of(set.integers, set.shape()) : array_of(set.reals, set.shape());
}

// A tuple of arrays of one shape.
template <class... Values>
Ref arrays_of(const Integers& shape, const std::vector<Values>&... values) {
  return checked(PyTuple_Pack(sizeof...(values), array_of(values, shape).get()...));
}

// The argument `word`: integers or bools.
PositionSet integers_of(const Words& words, const char* word) {
  PositionSet given = positions_from(words.needed(word), 1, /*bools=*/true);
  if (!given.reals.empty()) fail(Code::DTYPE, positions_operation, word, " must hold integers but got floats");
  return given;
}

// Positions, deltas or None, and the notes as JSON. config: a path, or JSON.
Ref make_model_positions(PyObject* config, PyObject* dict) {
  const Words words{dict};
  ModelInputs inputs;
  inputs.part = words.text("part");
  inputs.publisher = words.flag("publisher");
  Integers shape;
  const auto take_tokens = [&](const char* word, Integers& values) {
    if (words.find(word) == nullptr) return;
    PositionSet given = integers_of(words, word);
    if (given.shape().empty() || (!shape.empty() && shape != given.shape()))
      fail(Code::SHAPE, positions_operation, "ids and mask must have one shape, [batch, tokens] or [tokens], but ",
           word, " has another");
    shape = given.shape();
    inputs.batch = given.batch;
    inputs.tokens = given.tokens;
    values = std::move(given.integers);
  };
  take_tokens("ids", inputs.ids);
  take_tokens("mask", inputs.mask);
  const auto take_grids = [&](const char* word, auto& grids) {
    if (words.find(word) == nullptr) return;
    const PositionSet given = integers_of(words, word);
    const Integers dimensions = given.shape();
    if (dimensions.size() != 2 || dimensions[1] != 3)
      fail(Code::SHAPE, positions_operation, word, " must be [pictures, 3], time, height and width, but has ",
           dimensions.size(), " dimensions");
    for (std::size_t i = 0; i < given.integers.size(); i += 3)
      grids.push_back({given.integers[i], given.integers[i + 1], given.integers[i + 2]});
  };
  take_grids("image_grids", inputs.image_grids);
  take_grids("video_grids", inputs.video_grids);
  if (words.find("audio_lengths") != nullptr) inputs.audio_lengths = integers_of(words, "audio_lengths").integers;
  if (PyObject* seconds = words.find("seconds_per_grid")) {
    const PositionSet given = positions_from(seconds, 1);
    inputs.seconds_per_grid = given.reals;
    if (given.reals.empty()) inputs.seconds_per_grid.assign(given.integers.begin(), given.integers.end());
  }
  ModelPositions found = model_positions(string_of(config, "config"), inputs);
  if (shape.size() == 1 && found.positions.axes == 1) found.positions.batched = false;
  const Integers whole(found.deltas.begin(), found.deltas.end());
  const bool integers = found.positions.reals.empty();
  Ref deltas = found.deltas.empty() ? none() : integers ? array_of(whole) : array_of(found.deltas);
  return checked(Py_BuildValue("(NNN)", array_of(found.positions).release(), deltas.release(),
                               new_json(Json(found.notes)).release()));
}

// Calls a function of rotary.positions. name: its name; dict: its arguments.
Ref make_positions(PyObject* name, PyObject* dict) {
  const Words words{dict};
  const std::string_view function = view_of(name, "function");
  const auto integers = [&words](const char* word) { return integers_of(words, word); };
  const auto number = [&words](const char* word) { return integer_of(words.needed(word), word); };
  if (function == "packed") return array_of(packed_positions(integers("cu_seqlens").integers));
  if (function == "mask") {
    const PositionSet mask = integers("mask");
    return array_of(mask_positions(mask.integers, mask.tokens), mask.shape());
  }
  if (function == "image") return array_of(image_positions(number("rows"), number("columns"), number("merge")));
  if (function == "held_tokens") {
    const HeldTokens held = held_tokens({number("window"), number("sinks")}, number("token"));
    return arrays_of({}, held.tokens, held.positions);
  }
  if (function == "dual_chunk" || function == "self_extend") {
    const PositionSet given = integers("positions");
    if (function == "self_extend") {
      const auto found = self_extend_positions(given.integers, number("group"), number("window"));
      return arrays_of(given.shape(), found.query, found.key);
    }
    const auto found = dual_chunk_positions(given.integers, number("chunk"), number("local"));
    return arrays_of(given.shape(), found.key, found.same, found.before, found.far, found.before_critical,
                     found.far_critical);
  }
  const Split split = parse_split(words.text("split"));
  const Integers bounds = integers("cu_seqlens").integers;
  return array_of(function == "shard_tokens" ? shard_tokens(split, number("rank"), number("ranks"), bounds)
                                             : place_of_tokens(split, number("ranks"), bounds));
}

}  // namespace

std::vector<PyMethodDef> position_methods() {
  return {method<make_positions>("_positions"), method<make_model_positions>("_model_positions")};
}

}  // namespace rotary::python
