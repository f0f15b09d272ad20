#include "sweep.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <tuple>

namespace rotary::sweep {
namespace {

SweptRope rope_from(const Json& json) {
  SweptRope rope;
  rope.part = json.at("part");
  rope.layers = json.at("layers").get<std::vector<int>>();
  rope.layers_without_rope = json.at("layers_without_rope").get<std::vector<int>>();
  rope.heads = json.at("heads");
  rope.kv_heads = json.at("kv_heads");
  rope.head_dim = json.at("head_dim");
  rope.first = json.at("first");
  rope.rotary_dim = json.at("rotary_dim");
  rope.pairing = json.at("pairing");
  rope.clockwise = json.at("clockwise");
  rope.axis = json.at("axis");
  rope.attention_factor = json.at("attention_factor");
  rope.inv_freq = json.at("inv_freq").get<std::vector<double>>();
  rope.position = json.at("position").get<std::vector<double>>();
  rope.vector = json.at("vector").get<std::vector<float>>();
  rope.rows = json.value("rows", 1);
  if (json.contains("length") && !json.at("length").is_null()) rope.length = json.at("length");
  return rope;
}

Record record_from(const std::filesystem::path& path) {
  std::ifstream file(path);
  const Json json = Json::parse(file);
  Record record;
  record.name = path.stem().string();
  record.config = json.at("config");
  record.model_type =
      record.config.contains("model_type") ? record.config.at("model_type") : record.config.at("_class_name");
  record.transformers = json.at("made").value("transformers", "");
  record.diffusers = json.at("made").value("diffusers", "");
  for (const Json& rope : json.at("ropes")) record.ropes.push_back(rope_from(rope));
  for (const Json& none : json.at("none")) record.none.push_back({none.at("part"), none.at("why")});
  return record;
}

// Compares one rope of ours with its swept counterpart.
class Pair {
 public:
  Pair(const Model& model, const ModelRope& ours, const SweptRope& theirs)
      : model_(model), ours_(ours), theirs_(theirs) {}

  void compare() {
    same("layers", ours_.layers, theirs_.layers);
    same("layers_without_rope", layers_without_rope(model_, ours_.part), theirs_.layers_without_rope);
    same("heads", ours_.heads, theirs_.heads);
    same("kv_heads", ours_.kv_heads, theirs_.kv_heads);
    same("head_dim", ours_.rope.head_dim, theirs_.head_dim);
    same("first", ours_.first, theirs_.first);
    same("rotary_dim", ours_.rope.rotary_dim, theirs_.rotary_dim);
    same("pairing", std::string(name(ours_.rope.pairing)), theirs_.pairing);
    same("clockwise", ours_.rope.clockwise, theirs_.clockwise);
    if (ours_.rope.rotary_dim != theirs_.rotary_dim) return;
    const Frequencies ours = frequencies(ours_.rope, theirs_.length);
    if (std::fabs(ours.attention_factor - theirs_.attention_factor) > 1e-6 * theirs_.attention_factor) {
      same("attention_factor", ours.attention_factor, theirs_.attention_factor);
    }
    same("rows", ours.heads, theirs_.rows);
    if (ours.heads != theirs_.rows) return;
    compare_pairs(ours);
    compare_vector(ours);
  }

  Match match;
  std::vector<std::string> problems;

 private:
  template <typename T>
  void same(const std::string& what, const T& ours, const T& theirs) {
    if (ours == theirs) return;
    problems.push_back("'" + theirs_.part + "' " + what + ": " + Json(ours).dump() + " for " + Json(theirs).dump());
  }

  void compare_pairs(const Frequencies& ours) {
    for (std::size_t i = 0; i < theirs_.inv_freq.size(); ++i) {
      const double wanted = theirs_.inv_freq[i];
      const auto [speed, axis] = speed_of(ours, i);
      const double difference = std::fabs(speed - wanted);
      const double relative = difference == 0 ? 0 : difference / std::fabs(wanted);
      match.inv_freq = std::max(match.inv_freq, relative);
      if (wanted != 0 && axis != theirs_.axis[i] - '0') {
        return same("axis of pair " + std::to_string(i), axis, theirs_.axis[i] - '0');
      }
      if (relative > 4e-6) return same("inv_freq of pair " + std::to_string(i), speed, wanted);
    }
  }

  // The frequency of a pair, those of a second head behind those of the first, and the coordinate that it follows.
  static std::pair<double, int> speed_of(const Frequencies& f, std::size_t i) {
    const auto pairs = static_cast<std::size_t>(f.pairs());
    if (f.summed_axes == 0) return {f.inv_freq[i], f.axis.empty() ? 0 : f.axis[i % pairs]};
    std::pair<double, int> found = {0, 0};
    for (int axis = 0; axis < f.summed_axes; ++axis) {
      const std::size_t row = i / pairs * static_cast<std::size_t>(f.summed_axes) + static_cast<std::size_t>(axis);
      if (const double speed = f.inv_freq[row * pairs + i % pairs]; speed != 0) found = {speed, axis};
    }
    return found;
  }

  // The model's angle is the float32 product of the position and its own float32 inv_freq, so it is off by at most
  // p w (r + 2^-24), where r is the relative difference of the two inv_freq. cos and sin of it are rounded (2^-24, and
  // 2^-23 more where the library's float32 cos is 1 ulp off), so are both products and the sum, of two elements of at
  // most 2: in all |x| (angle + 6 * 2^-24), |x| <= sqrt(8), times the attention factor.
  void compare_vector(const Frequencies& ours) {
    const int n = theirs_.rotary_dim;
    std::vector<float> x(static_cast<std::size_t>(theirs_.rows * n));
    for (std::size_t d = 0; d < x.size(); ++d) x[d] = input(static_cast<int>(d) % n);
    const auto axes = std::max(ours.axes(), 1);
    std::vector<double> position(theirs_.position);
    position.resize(static_cast<std::size_t>(axes), position.back());
    const Table table(ours, Positions(position, axes));
    rotate(heads(x, thd(1, theirs_.rows, n)), table);
    double angle = 0;
    for (std::size_t i = 0; i < theirs_.inv_freq.size(); ++i) {
      const auto [speed, axis] = speed_of(ours, i);
      angle = std::max(angle, std::fabs(position[static_cast<std::size_t>(axis)] * speed));
    }
    const double bound = std::sqrt(8.0) * ours.attention_factor * (angle * (match.inv_freq + 0x1p-24) + 6 * 0x1p-24);
    for (std::size_t d = 0; d < x.size(); ++d) {
      match.vector = std::max(match.vector, std::fabs(double{x[d]} - double{theirs_.vector[d]}));
    }
    if (match.vector > bound) {
      problems.push_back("'" + theirs_.part + "' vector: off by " + Json(match.vector).dump() + ", more than " +
                         Json(bound).dump());
    }
  }

  const Model& model_;
  const ModelRope& ours_;
  const SweptRope& theirs_;
};

template <typename Rope>
std::vector<const Rope*> in_order(const std::vector<Rope>& ropes) {
  std::vector<const Rope*> sorted;
  for (const Rope& rope : ropes) sorted.push_back(&rope);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Rope* a, const Rope* b) {
    return std::tie(a->first, a->layers) < std::tie(b->first, b->layers);
  });
  return sorted;
}

template <typename Rope>
std::vector<Rope> of_part(const std::vector<Rope>& ropes, const std::string& part) {
  std::vector<Rope> found;
  std::copy_if(ropes.begin(), ropes.end(), std::back_inserter(found),
               [&part](const Rope& rope) { return rope.part == part; });
  return found;
}

}  // namespace

const std::vector<Record>& records() {
  static const std::vector<Record> all = [] {
    std::vector<Record> list;
    for (const auto& entry : std::filesystem::directory_iterator(ROTARY_SOURCE_DIR "/tests/golden/sweep")) {
      if (entry.path().extension() == ".json") list.push_back(record_from(entry.path()));
    }
    std::sort(list.begin(), list.end(), [](const Record& a, const Record& b) { return a.name < b.name; });
    return list;
  }();
  return all;
}

std::vector<ModelRope> ropes_of(const std::vector<ModelRope>& ropes, const std::string& part) {
  return of_part(ropes, part);
}
std::vector<SweptRope> ropes_of(const std::vector<SweptRope>& ropes, const std::string& part) {
  return of_part(ropes, part);
}

const std::vector<Exception>& exceptions() {
  static const std::vector<Exception> all = {
      {"hunyuan_vl+xdrope", "text_config",
       "as vLLM, and as text tokens in transformers, where the two members of an image token's pair have other axes"},
  };
  return all;
}

const Exception* exception_of(const Record& record, const std::string& part) {
  for (const Exception& exception : exceptions()) {
    if (exception.record == record.name && exception.part == part) return &exception;
  }
  return nullptr;
}

Comparison compare(const Model& model, const std::string& part, const std::vector<SweptRope>& theirs) {
  const std::vector<ModelRope> ours = of_part(model.ropes, part);
  Comparison result;
  result.matches.resize(ours.size());
  if (ours.size() != theirs.size()) {
    result.problems.push_back("'" + part + "' has " + std::to_string(ours.size()) + " ropes, not " +
                              std::to_string(theirs.size()));
    return result;
  }
  const auto a = in_order(ours);
  const auto b = in_order(theirs);
  for (std::size_t i = 0; i < a.size(); ++i) {
    Pair pair(model, *a[i], *b[i]);
    pair.compare();
    result.problems.insert(result.problems.end(), pair.problems.begin(), pair.problems.end());
    result.matches[static_cast<std::size_t>(a[i] - ours.data())] = pair.match;
  }
  return result;
}

}  // namespace rotary::sweep
