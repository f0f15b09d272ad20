// Frequencies that no config can state: from the caller's file or the tensors of a checkpoint.
#include <algorithm>
#include <cmath>
#include <utility>

#include "models/diffusers.h"
#include "rotary/error.h"
#include "stages.h"
#include "tensors/checkpoint.h"
#include "tensors/formats.h"
#include "text/io.h"
#include "text/paths.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::files {
namespace {

constexpr std::int64_t max_frequencies = 65536;

// The values of a tensor; throws if one is not finite. what: the tensor's name in error sentences. shapes: the
// rule of its shape in them. axes: the most axes that it may have.
std::vector<double> values_of(const char* operation, const std::string& what, const Tensor& tensor,
                              const std::string& shapes = "have one axis, [pairs],", std::size_t axes = 1) {
  const auto fail = [&](Code code, const std::string& rule, const auto&... value) {
    detail::fail(code, operation, what, " must ", rule, " but got ", value...);
  };
  if (tensor.shape.empty() || tensor.shape.size() > axes || tensor.elements() == 0)
    fail(Code::SHAPE, shapes, detail::shape_text(tensor.shape));
  if (!is_float(tensor.type)) fail(Code::DTYPE, "be F64, F32, F16 or BF16", name(tensor.type));
  std::vector<double> values = numbers_of(tensor);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) fail(Code::TENSOR, "hold finite numbers", spelled(values[i]), " at ", i);
  }
  return values;
}

void check_pairs(const char* operation, const std::string& what, std::size_t values, const ModelRope& used) {
  const int pairs = used.rope.rotary_dim / 2;
  if (values != static_cast<std::size_t>(pairs)) {
    fail(Code::SHAPE, operation, what, " must have one value for each of the rope's ", pairs, " pairs but got ",
         values);
  }
}

bool ends_in(std::string_view name, std::string_view end) {
  return name == end || (name.ends_with(end) && name[name.size() - end.size() - 1] == '.');
}

void note(Model& model, NoteKind kind, const std::string& part, const std::string& sentence) {
  model.notes.push_back({part, kind, printable(sentence) + "."});
}

// ---- tensors of a rope in checkpoints ----

Learned learned_of(const ModelPart& part) {
  if (const Family* family = find_family(part.model_type)) return family->learned;
  const DiffusersRope* row = find_diffusers(part.model_type + (part.path.empty() ? "" : "/" + part.path));
  if (row == nullptr || row->laid != Laid::learned) return {};
  return {Learns::directions, row->widths.front()};
}

void forget_start(Model& model, const ModelRope& used) {
  std::erase_if(model.notes,
                [&](const Note& one) { return one.kind == NoteKind::awaits_weights && one.part == used.part; });
}

// The only tensor of that name. what: its effect on the model.
std::string only_tensor(const Checkpoint& checkpoint, const Learned& learned, const std::string& what) {
  std::vector<std::string> found;
  for (const std::string& tensor : checkpoint.names()) {
    if (ends_in(tensor, learned.tensor) || (!learned.also.empty() && ends_in(tensor, learned.also)))
      found.push_back(tensor);
  }
  if (found.size() != 1) {
    fail(Code::TENSOR, "weights", in_quotes(path_text(checkpoint.path())), " must hold one tensor ", learned.tensor,
         ", which ", what, ", but has ", found.empty() ? "none" : std::to_string(found.size()));
  }
  return found.front();
}

void read_multiplier(Model& model, ModelRope& used, const Learned& learned, const Checkpoint& checkpoint) {
  const std::string found = only_tensor(checkpoint, learned, "multiplies the model's frequencies");
  const std::string what = "tensor " + in_quotes(found);
  std::vector<double> values = values_of("weights", what, checkpoint.read(found));
  check_pairs("weights", what, values.size(), used);
  for (double& value : values) value = std::exp(value);
  used.rope.multiplier = std::move(values);
  const std::string from = "exp(" + found + ") of " + path_text(checkpoint.path());
  used.origins.push_back({"multiplier", {OriginKind::weights, from}});
  note(model, NoteKind::weights, used.part, "inv_freq is multiplied by " + from);
}

// ---- directions that the checkpoint holds ----

// The values of a tensor of that shape, of two or three dimensions.
std::vector<double> shaped(const std::string& what, const Tensor& tensor, const std::vector<std::int64_t>& shape) {
  if (tensor.shape != shape) {
    fail(Code::SHAPE, "weights", what, " must be ", detail::shape_text(shape), " but got ",
         detail::shape_text(tensor.shape));
  }
  return values_of("weights", what, tensor, "have elements", shape.size());
}

void read_directions(Model& model, ModelRope& used, const Learned& learned, const Checkpoint& checkpoint) {
  const std::string name_of_tensor = only_tensor(checkpoint, learned, "has the model's directions");
  const Tensor tensor = checkpoint.read(name_of_tensor);
  const auto axes = static_cast<std::size_t>(used.rope.summed_axes),
             heads = static_cast<std::size_t>(used.rope.head_rows),
             pairs = static_cast<std::size_t>(used.rope.rotary_dim / 2);
  const std::vector<std::int64_t> wanted = {used.rope.summed_axes, used.rope.head_rows, used.rope.rotary_dim / 2};
  const std::vector<double> values = shaped("tensor " + in_quotes(name_of_tensor), tensor, wanted);
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t a = 0; a < axes; ++a) {
      for (std::size_t i = 0; i < pairs; ++i) {
        used.rope.inv_freq[(h * axes + a) * pairs + i] = values[(a * heads + h) * pairs + i];
      }
    }
  }
  const std::string from = name_of_tensor + " of " + path_text(checkpoint.path());
  std::erase_if(used.origins, [](const ValueOrigin& known) { return known.value == "inv_freq"; });
  used.origins.push_back({"inv_freq", {OriginKind::weights, from}});
  note(model, NoteKind::weights, used.part, "inv_freq is " + from);
}

// Falcon-Perception: F[h, 0, i] of the first half of the pairs stays, F[h, 1..2, i] of the second half is from the
// tensor.
void read_last_directions(Model& model, ModelRope& used, const Learned& learned, const Checkpoint& checkpoint) {
  const std::string found = only_tensor(checkpoint, learned, "has the model's directions");
  const auto pairs = static_cast<std::size_t>(used.rope.rotary_dim / 2), half = pairs / 2;
  const auto heads = static_cast<std::size_t>(used.heads);
  const std::vector<double> values =
      shaped("tensor " + in_quotes(found), checkpoint.read(found), {used.heads, static_cast<std::int64_t>(half), 2});
  const std::vector<double> along = std::exchange(used.rope.inv_freq, std::vector<double>(heads * 3 * pairs));
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t i = 0; i < half; ++i) {
      used.rope.inv_freq[h * 3 * pairs + i] = along[i];
      for (std::size_t a = 0; a < 2; ++a)
        used.rope.inv_freq[(h * 3 + 1 + a) * pairs + half + i] = values[(h * half + i) * 2 + a];
    }
  }
  used.rope.axis.clear();
  used.rope.head_rows = used.heads;
  used.rope.summed_axes = 3;
  const std::string from = found + " of " + path_text(checkpoint.path());
  for (ValueOrigin& known : used.origins) {
    if (known.value == "inv_freq") known.origin = {OriginKind::weights, known.origin.key + ", then " + from};
  }
  std::erase_if(used.origins, [](const ValueOrigin& known) { return known.value == "axis"; });  // axes are summed
  note(model, NoteKind::weights, used.part,
       "the last " + std::to_string(half) + " pairs of each head turn by their own directions, " + from);
}

// Reads the learned values of the rope; false if it has none.
bool read_learned(Model& model, ModelRope& used, const Checkpoint& checkpoint) {
  const Learned learned = learned_of(part_of(model, used.part));
  if (learned.what == Learns::nothing) return false;
  if (learned.what == Learns::multiplier) read_multiplier(model, used, learned, checkpoint);
  if (learned.what == Learns::directions) read_directions(model, used, learned, checkpoint);
  if (learned.what == Learns::last_directions) read_last_directions(model, used, learned, checkpoint);
  forget_start(model, used);
  return true;
}

// ---- buffers that older checkpoints carry ----

struct Buffer {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<double> values;
  int more = 0;  // tensors with the same values
};

std::vector<Buffer> buffers_of(const Checkpoint& checkpoint) {
  std::vector<Buffer> buffers;
  for (const std::string& name : checkpoint.names()) {
    if (!name.ends_with("inv_freq") && !ends_in(name, "rope.freqs") && !ends_in(name, "rotary_emb.freqs")) continue;
    const TensorInfo info = checkpoint.info(name);
    if (info.shape.size() != 1 || info.elements() > max_frequencies || !is_float(info.type)) continue;
    std::vector<double> values = numbers_of(checkpoint.read(name));
    const auto same = std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& b) { return b.values == values; });
    if (same != buffers.end()) {
      ++same->more;
    } else {
      buffers.push_back({name, info.type, std::move(values)});
    }
  }
  return buffers;
}

// Whether the frequencies agree with a buffer: float32 steps of any framework, then the rounding of the buffer's type.
bool agree(const Buffer& buffer, const std::vector<double>& computed) {
  const double rounding = buffer.type == ElementType::bf16 ? 0x1p-8 : buffer.type == ElementType::f16 ? 0x1p-10 : 0;
  const double smallest = buffer.type == ElementType::f16 ? 0x1p-24 : 0;  // the step of its subnormals
  return std::equal(computed.begin(), computed.end(), buffer.values.begin(), buffer.values.end(),
                    [&](double a, double b) { return std::abs(a - b) <= (4e-6 + rounding) * std::abs(a) + smallest; });
}

std::string compared(const Buffer& buffer, const std::vector<ModelRope>& ropes, const CallerWords& words) {
  std::string difference;
  for (std::size_t i = 0; i < ropes.size(); ++i) {
    const std::string rope = "rope " + std::to_string(i);
    Rope plain = ropes[i].rope;
    const std::vector<double> used = frequencies(plain, 0).inv_freq;
    if (agree(buffer, used)) return "the frequencies of " + rope;
    plain.scaling = Unscaled{};
    plain.multiplier.clear();
    if (agree(buffer, frequencies(plain, 0).inv_freq))
      return "the frequencies of " + rope + " before scaling: not used";
    if (buffer.values.size() != used.size() || !difference.empty()) continue;
    const auto apart = std::mismatch(used.begin(), used.end(), buffer.values.begin(), [&](double a, double b) {
      return agree({.name = {}, .type = buffer.type, .values = {b}}, {a});
    });
    difference = "not the frequencies of " + rope + ", pair " + std::to_string(apart.first - used.begin()) + " has " +
                 spelled(*apart.second) + " there and " + spelled(*apart.first) + " here; not used (" + words.inv_freq +
                 ")";
  }
  if (!difference.empty()) return difference;
  return std::to_string(buffer.values.size()) + " values, which fit no rope of the model: not used";
}

Pairing stated_pairing(const std::string& written, const std::string& file) {
  try {
    return parse_pairing(written);
  } catch (const Error& error) {
    fail(error.code(), "weights", pairing_key, " of ", in_quotes(file), ": ", error.rule());
  }
}

bool is_chosen(const ModelRope& used, std::string_view value) {
  const auto known = std::ranges::find(used.origins, value, &ValueOrigin::value);
  return known != used.origins.end() && known->origin.kind == OriginKind::chosen;
}

// Sets the pairing of the checkpoint's metadata for the ropes whose pairing the caller has not chosen; false if there
// is none.
bool read_pairing(Model& model, const Checkpoint& checkpoint) {
  const std::string written = checkpoint.metadata(pairing_key);
  if (written.empty()) return false;
  const std::string file = path_text(checkpoint.path().filename());
  const Pairing pairing = stated_pairing(written, file);
  const std::string part = checkpoint.metadata(part_key);
  bool differs = false;
  for (ModelRope& used : model.ropes) {
    const bool same = used.rope.pairing == pairing ||
                      (pairing == Pairing::interleaved && used.rope.pairing == Pairing::interleaved_to_half);
    if (used.part != part || used.coordinates || same || is_chosen(used, "pairing")) continue;
    differs = true;
    for (ModelPart& whole : model.parts) {
      if (whole.path == part && whole.indexer.pairing == used.rope.pairing) whole.indexer.pairing = pairing;
    }
    used.rope.pairing = pairing;
    for (ValueOrigin& known : used.origins) {
      if (known.value == "pairing") known.origin = {OriginKind::weights, pairing_key + (" of " + file)};
    }
  }
  if (differs) {
    note(model, NoteKind::weights, "",
         "q and k were converted: the pairing is " + written + ", as " + pairing_key + " of " + file +
             " says, whatever the model_type says");
  }
  return true;
}

void compare_buffers(Model& model, const Checkpoint& checkpoint, const CallerWords& words) {
  for (const Buffer& buffer : buffers_of(checkpoint)) {
    const std::string more = buffer.more == 0 ? "" : " and " + std::to_string(buffer.more) + " more like it";
    note(model, NoteKind::compared, "",
         path_text(checkpoint.path()) + " holds " + buffer.name + more + ": " + compared(buffer, model.ropes, words));
  }
}

// The tensor of an .npy, the only one in its file, or the one whose name ends in the word; and its name in sentences.
std::pair<Tensor, std::string> tensor_named(const std::filesystem::path& path, const char* word) {
  const std::string file = in_quotes(path_text(path));
  const std::vector<TensorInfo> tensors = tensor_infos(path);
  std::vector<std::string> named;
  bool exact = false;
  for (const TensorInfo& tensor : tensors) {
    if (tensors.size() == 1 || tensor.name.ends_with(word)) named.push_back(tensor.name);
    exact = exact || tensor.name == word;
  }
  if (exact) named = {word};
  if (named.size() != 1) {
    fail(Code::TENSOR, word, file, " must hold one tensor, or one whose name ends in ", word, ", but has ",
         tensors.size(), " tensors, and ", named.size(), " of that name");
  }
  const std::string what =
      named.front().empty() ? file : "tensor " + in_quotes(named.front()) + " of " + file;  // an .npy: no name
  return {read_tensor(path, named.front()), what};
}

}  // namespace

void start_learned(const Part& part, const Learned& learned, ModelRope& used) {
  const std::string tensor(learned.tensor), until = ", until " + part.reading.options.words.weights;
  const auto pairs = static_cast<std::size_t>(used.rope.rotary_dim / 2);
  const auto note = [&](const std::string& sentence) { part.note(NoteKind::awaits_weights, sentence); };
  switch (learned.what) {
    case Learns::nothing:
      return;
    case Learns::multiplier:
      return note("inv_freq is multiplied by exp(" + tensor + "), which the model learns: " + tensor +
                  " is taken as 0, its start" + until);
    case Learns::directions:
      used.rope.head_rows = used.heads;
      used.rope.inv_freq.assign(static_cast<std::size_t>(used.heads * used.rope.summed_axes) * pairs, 0);
      part.derived("inv_freq", "0 until " + tensor + " is read");
      return note("every head turns by directions that the model learns, " + tensor + ": nothing turns until " +
                  part.reading.options.words.weights);
    case Learns::last_directions:
      return note("the last " + std::to_string(used.rope.inv_freq.size() / 2) +
                  " pairs turn by directions of the checkpoint, " + tensor + ": they stand still, as for text" + until);
  }
}

void apply_weights_pairing(Model& model, const std::filesystem::path& folder) {
  const std::optional<std::filesystem::path> weights = weights_in(folder);
  if (weights) read_pairing(model, Checkpoint(*weights));
}

}  // namespace rotary::files

namespace rotary {

PairRows read_pair_rows(const std::filesystem::path& path) {
  const auto [tensor, what] = files::tensor_named(path, "inv_freq");
  const std::string rule = "be [pairs], [axes, pairs] or [heads, axes, pairs]";
  PairRows rows{files::values_of("inv_freq", what, tensor, rule, 3)};
  const std::vector<std::int64_t>& shape = tensor.shape;
  const auto most = std::ranges::max(shape);
  if (most > files::max_frequencies)
    fail(Code::SHAPE, "inv_freq", what, " must have sizes of at most 65536 but got ", most);
  rows.pairs = static_cast<int>(shape.back());
  if (shape.size() == 3) rows.rows = static_cast<int>(shape[0]);
  const auto axes = shape.size() == 1 ? 1 : shape[shape.size() - 2];
  if (axes > 256) fail(Code::SHAPE, "inv_freq", what, " must have at most 256 axes but got ", axes);
  rows.summed_axes = axes > 1 ? static_cast<int>(axes) : 0;
  return rows;
}

void set_inv_freq(Model& model, std::size_t rope, PairRows inv_freq, const std::string& from) {
  ModelRope& used = model.ropes.at(rope);
  files::check_pairs("inv_freq", from, static_cast<std::size_t>(inv_freq.pairs), used);
  used.rope.inv_freq = std::move(inv_freq.values);
  used.rope.head_rows = inv_freq.rows;
  used.rope.summed_axes = inv_freq.summed_axes;
  if (inv_freq.summed_axes > 0) used.rope.axis.clear();
  used.rope.multiplier.clear();
  used.origins.push_back({"inv_freq", {OriginKind::chosen, from}});
  files::forget_start(model, used);
  files::note(model, NoteKind::chosen, "",
              "rope " + std::to_string(rope) + " turns by the frequencies of " + from +
                  ": its base does not count, and of its scaling only the attention factor");
}

void apply_weights(Model& model, const std::filesystem::path& weights, const CallerWords& words) {
  const files::Checkpoint checkpoint(weights);
  const std::size_t notes = model.notes.size();
  bool learned = files::read_pairing(model, checkpoint);
  for (ModelRope& used : model.ropes) learned = files::read_learned(model, used, checkpoint) || learned;
  files::compare_buffers(model, checkpoint, words);
  if (!learned && model.notes.size() == notes) {
    files::note(model, NoteKind::weights, "",
                files::path_text(checkpoint.path()) + " holds no tensor of frequencies: nothing changed");
  }
}

bool awaits_weights(const Model& model, std::string_view part) {
  return std::any_of(model.notes.begin(), model.notes.end(),
                     [part](const Note& one) { return one.kind == NoteKind::awaits_weights && one.part == part; });
}

}  // namespace rotary
