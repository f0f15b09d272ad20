#include "verify.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "files/tensors/element_types.h"
#include "files/text/paths.h"
#include "rotary/rotary.h"
#include "values/fail.h"

namespace rotary::convert {
namespace {

constexpr std::size_t tokens = 3;
constexpr std::array<double, tokens> positions = {0, 5, 1003};

using files::piece_bytes;
using Values = std::vector<double>;
using PerToken = std::array<Values, tokens>;

// Element `index` of the hidden state of a token: from -1 to 1, the same on every machine.
double hidden(std::size_t token, std::size_t index) {
  std::uint64_t x = index * tokens + token + 1;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9U;
  x = (x ^ x >> 27) * 0x94D049BB133111EBU;
  return static_cast<double>(static_cast<std::int64_t>(x ^ x >> 31)) * 0x1p-63;
}

// Elements of 8 bits and less, and integers, are read as unsigned bytes: every function of the bits tells rows apart.
Values numbers_of_bytes(ElementType type, std::vector<std::byte> bytes) {
  if (files::is_float(type)) {
    Tensor tensor;
    tensor.type = type;
    tensor.shape = {static_cast<std::int64_t>(bytes.size() * 8 / bits_of(type))};
    tensor.bytes = bytes.size();
    tensor.data = std::move(bytes);
    return files::numbers_of(tensor);
  }
  Values values(bytes.size());
  std::transform(bytes.begin(), bytes.end(), values.begin(),
                 [](std::byte byte) { return std::to_integer<int>(byte) / 128.0; });
  return values;
}

// Calls with the number, its place on the permuted axis, and its place on the other.
template <class Use>
void for_each_number(const TensorInfo& tensor, const Change& change, const Reader& read, const Use& use) {
  const std::size_t size = change.sources->size();
  const bool rows = change.axis == Axis::rows;
  const bool packed_rows = change.axis == Axis::packed_rows;
  const std::size_t lines = packed_rows ? 1
                            : rows      ? size
                                        : static_cast<std::size_t>(tensor.elements() / tensor.shape.back());
  const std::size_t line = static_cast<std::size_t>(tensor.bytes) / lines;
  const std::size_t together = std::max<std::size_t>(1, piece_bytes / line);
  for (std::size_t first = 0; first < lines; first += together) {
    std::vector<std::byte> bytes(std::min(together, lines - first) * line);
    read(first * line, bytes);
    const std::size_t count = bytes.size() / line;
    if (change.axis == Axis::rows || change.axis == Axis::columns) {
      const Values values = numbers_of_bytes(tensor.type, std::move(bytes));
      const std::size_t per_line = values.size() / count;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t at = i % per_line;
        rows ? use(values[i], first + i / per_line, at) : use(values[i], at * size / per_line, first + i / per_line);
      }
      continue;
    }
    const std::size_t columns = packed_rows ? static_cast<std::size_t>(tensor.shape.back()) : 1;
    for (std::size_t l = 0; l < count * columns; ++l) {
      const std::byte* words = bytes.data() + (packed_rows ? 4 * l : l * line);
      for (std::size_t i = 0; i < size; ++i) use(packed_number(change, words, columns, i), i, first + l);
    }
  }
}

// The tensor's product with the hidden states; of a vector, the vector.
PerToken product(const TensorInfo& tensor, const Change& change, const Reader& read) {
  const std::size_t size = change.sources->size();
  const bool vector = tensor.elements() == static_cast<std::int64_t>(size);
  PerToken result;
  result.fill(Values(size));
  for_each_number(tensor, change, read, [&](double number, std::size_t at, std::size_t other) {
    for (std::size_t t = 0; t < tokens; ++t) result[t][at] += vector ? number : number * hidden(t, other);
  });
  return result;
}

bool multiplies(const std::string& suffix) {
  return suffix.find("scale") != std::string::npos || suffix.find("magnitude") != std::string::npos ||
         suffix == "SCB" || suffix.find("absmax") != std::string::npos || suffix == "ia3_l";
}

// The output of a projection: its products and biases, then its scales.
struct Output {
  const Heads* heads = nullptr;
  PerToken values;

  void add(const TensorPlan& tensor, const PerToken& part) {
    heads = tensor.heads.get();
    for (std::size_t t = 0; t < tokens; ++t) {
      Values& sum = values[t];
      const bool factor = multiplies(tensor.name.suffix);
      sum.resize(part[t].size(), factor ? 1.0 : 0.0);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = factor ? sum[i] * part[t][i] : sum[i] + part[t][i];
    }
  }
};

struct LayerOutputs {
  std::map<std::string, Output> projections;  // by the part of the name in front of the suffix
  std::map<std::string, Output> norms;
  const ModelRope* rope = nullptr;
};

// One head's elements, in an order that does not depend on the pairing: pairs first, then what does not rotate.
struct Head {
  std::vector<std::pair<double, double>> pairs;
  Values rest;
};

Head head_at(const Values& values, std::int64_t row, const Heads& heads, Pairing pairing) {
  const auto at = [&](std::int64_t element) { return values[static_cast<std::size_t>(row + element)]; };
  const std::int64_t n = heads.block.pairs, first = heads.block.first;
  Head head;
  for (std::int64_t j = 0; j < n; ++j) {
    const bool half = pairing == Pairing::half;
    head.pairs.emplace_back(at(first + (half ? j : 2 * j)), at(first + (half ? n + j : 2 * j + 1)));
  }
  for (std::int64_t i = 0; i < heads.dim; ++i) {
    if (i < first || i >= first + 2 * n) head.rest.push_back(at(i));
  }
  return head;
}

void normalize(Head& head, const Head& weight) {
  double sum = 1e-6;
  for (const auto& [a, b] : head.pairs) sum += a * a + b * b;
  for (const double x : head.rest) sum += x * x;
  const double factor = 1 / std::sqrt(sum / static_cast<double>(2 * head.pairs.size() + head.rest.size()));
  for (std::size_t j = 0; j < head.pairs.size(); ++j) {
    head.pairs[j].first *= factor * weight.pairs[j].first;
    head.pairs[j].second *= factor * weight.pairs[j].second;
  }
  for (std::size_t i = 0; i < head.rest.size(); ++i) head.rest[i] *= factor * weight.rest[i];
}

void rotate(Head& head, const Frequencies& frequencies, double position) {
  const double sign = frequencies.clockwise ? -1 : 1;
  for (std::size_t j = 0; j < head.pairs.size(); ++j) {
    auto& [a, b] = head.pairs[j];
    const double axis = frequencies.axis.empty() ? 0 : frequencies.axis[j];
    const double angle = (position + 2 * axis) * frequencies.inv_freq[j];
    const double c = std::cos(angle), s = sign * std::sin(angle);
    std::tie(a, b) = std::pair(a * c - b * s, b * c + a * s);
  }
}

double score(const Head& q, const Head& k) {
  double sum = 0;
  for (std::size_t j = 0; j < q.pairs.size(); ++j)
    sum += q.pairs[j].first * k.pairs[j].first + q.pairs[j].second * k.pairs[j].second;
  for (std::size_t i = 0; i < std::min(q.rest.size(), k.rest.size()); ++i) sum += q.rest[i] * k.rest[i];
  return sum;
}

// The rotated heads of q, or of k, at every token.
std::vector<std::array<Head, tokens>> rotated_heads(const LayerOutputs& layer, bool of_q, Pairing pairing,
                                                    const Frequencies& frequencies) {
  std::vector<std::array<Head, tokens>> result;
  for (const auto& [name, output] : layer.projections) {
    const std::vector<std::int64_t>& rows = of_q ? output.heads->q : output.heads->k;
    for (std::size_t h = 0; h < rows.size(); ++h) {
      std::array<Head, tokens>& heads = result.emplace_back();
      for (std::size_t t = 0; t < tokens; ++t) {
        heads[t] = head_at(output.values[t], rows[h], *output.heads, pairing);
        for (const auto& [norm_name, norm] : layer.norms) {
          const std::vector<std::int64_t>& weights = of_q ? norm.heads->q : norm.heads->k;
          if (weights.empty()) continue;
          normalize(heads[t], head_at(norm.values[t], weights[h % weights.size()], *norm.heads, pairing));
        }
        rotate(heads[t], frequencies, positions[t]);
      }
    }
  }
  return result;
}

Values scores(const LayerOutputs& layer, Pairing pairing, const Frequencies& frequencies) {
  std::vector<std::array<Head, tokens>> q = rotated_heads(layer, true, pairing, frequencies);
  std::vector<std::array<Head, tokens>> k = rotated_heads(layer, false, pairing, frequencies);
  if (q.empty()) q = k;  // an adapter of one of them
  if (k.empty()) k = q;
  Values result;
  for (std::size_t h = 0; h < q.size(); ++h) {
    for (const Head& query : q[h]) {
      for (const Head& key : k[h * k.size() / q.size()]) result.push_back(score(query, key));
    }
  }
  return result;
}

double largest_difference(const Values& a, const Values& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;  // infinite weights too can be equal
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

Frequencies frequencies_of(const ModelRope& rope) {
  return depends_on_length(rope.rope.scaling) ? frequencies(rope.rope, 1) : frequencies(rope.rope);
}

// Reads the tensors of one layer: from a folder, or as the plan would change those of its source.
class Side {
 public:
  Side(const Plan& plan, const std::filesystem::path& folder, bool changed_here)
      : plan_(plan), changed_here_(changed_here) {
    for (const Shard& shard : plan.folder.shards) {
      files_.push_back(std::make_unique<files::InputFile>("convert", folder / files::path_of(shard.name)));
      headers_.push_back(files::read_header(*files_.back()));
    }
  }

  LayerOutputs read(const std::vector<const TensorPlan*>& tensors) const {
    LayerOutputs layer;
    std::vector<const TensorPlan*> ordered = tensors;  // scales behind what they multiply
    std::stable_partition(ordered.begin(), ordered.end(),
                          [](const TensorPlan* tensor) { return !multiplies(tensor->name.suffix); });
    for (const TensorPlan* tensor : ordered) {
      const TensorInfo& info = plan_.info(*tensor);
      const files::FileHeader& header = headers_[tensor->shard];
      const files::Entry& entry = header.header.entries.at(tensor->entry);
      if (entry.info.name != info.name || entry.info.shape != info.shape)
        fail(Code::TENSOR, "convert", "a converted file must hold the tensors of its source but differs");
      Reader reader = [&](std::uint64_t offset, std::span<std::byte> out) {
        files_[tensor->shard]->read(header.data + entry.begin + offset, out);
      };
      if (changed_here_) reader = changed(*tensor, reader);
      const bool norm = tensor->name.role == Role::q_norm || tensor->name.role == Role::k_norm;
      const std::string key = info.name.substr(0, info.name.size() - tensor->name.suffix.size());
      (norm ? layer.norms : layer.projections)[key].add(*tensor, product(info, tensor->change, reader));
      layer.rope = &plan_.model.ropes[tensor->rope];
    }
    return layer;
  }

 private:
  // Holds the whole tensor.
  Reader changed(const TensorPlan& tensor, const Reader& source) const {
    auto bytes = std::make_shared<std::vector<std::byte>>();
    bytes->reserve(static_cast<std::size_t>(plan_.info(tensor).bytes));
    stream_changed(plan_.info(tensor), tensor.change, source,
                   [&](std::span<const std::byte> piece) { bytes->insert(bytes->end(), piece.begin(), piece.end()); });
    return [bytes](std::uint64_t offset, std::span<std::byte> out) {
      std::copy_n(bytes->begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    };
  }

  const Plan& plan_;
  bool changed_here_ = false;
  std::vector<std::unique_ptr<files::InputFile>> files_;
  std::vector<files::FileHeader> headers_;
};

std::string layer_name(const TensorName& name) {
  return name.stack + "." + std::to_string(name.layer) + (name.module.empty() ? "" : "." + name.module);
}

}  // namespace

std::vector<LayerCheck> verify(const Plan& plan, const std::optional<std::filesystem::path>& converted,
                               const std::function<void(std::size_t, std::size_t)>& progress) {
  using Place = std::tuple<std::string, int, std::string>;
  std::map<Place, std::vector<const TensorPlan*>> layers;
  for (const TensorPlan& tensor : plan.tensors) {
    if (tensor.name.role == Role::other) continue;  // behind the scores
    layers[{tensor.name.stack, tensor.name.layer, tensor.name.module}].push_back(&tensor);
  }
  const Side before(plan, plan.folder.path, false), after(plan, converted.value_or(plan.folder.path), !converted);
  std::vector<LayerCheck> checks;
  for (const auto& [place, tensors] : layers) {
    const LayerOutputs source = before.read(tensors);
    const LayerOutputs result = after.read(tensors);
    const Frequencies speeds = frequencies_of(*source.rope);
    const Values old_scores = scores(source, plan.from, speeds);
    checks.push_back({.layer = layer_name(tensors.front()->name),
                      .scores = static_cast<std::int64_t>(old_scores.size()),
                      .largest_difference = largest_difference(old_scores, scores(result, plan.to, speeds)),
                      .difference_unconverted = largest_difference(old_scores, scores(source, plan.to, speeds))});
    if (progress) progress(checks.size(), layers.size());
  }
  return checks;
}

}  // namespace rotary::convert
