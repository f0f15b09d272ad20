#include "cache.h"

#include <algorithm>

#include "files/tensors/checkpoint.h"
#include "files/text/io.h"
#include "names.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::convert {
namespace {

constexpr const char* operation = "convert";
using files::in_quotes;

// "k", "key_cache.3", "layers.0.keys", "past_key_values.3.key", "model.layers.0.self_attn.k".
bool says_key(std::string_view name) {
  std::string_view word = name;
  const std::size_t end = word.find_last_not_of("0123456789._");  // a layer's number at the end
  word = word.substr(0, end == std::string_view::npos ? 0 : end + 1);
  word.remove_prefix(word.find_last_of("./") + 1);
  const std::string lower = files::lower(word);
  for (const std::string_view ending : {"_key", "_keys"}) {
    if (lower.ends_with(ending)) return true;
  }
  for (const std::string_view key : {"k", "key", "keys", "k_cache", "key_cache", "k_pe", "k_rot", "cached_key",
                                     "kcache", "key_states", "k_states", "cache_k_l"}) {
    if (lower == key) return true;
  }
  return false;
}

// The first number of a name.
std::optional<int> layer_of(std::string_view name) {
  const std::size_t begin = name.find_first_of("0123456789");
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = std::min(name.find_first_not_of("0123456789", begin), name.size());
  return end - begin > 6 ? std::nullopt : std::optional(std::stoi(std::string(name.substr(begin, end - begin))));
}

class Planner {
 public:
  explicit Planner(const CacheRequest& request) : request_(request) {
    if (request.model == nullptr) return;
    for (const ModelRope& rope : request.model->ropes) {
      if (!rope.coordinates && !is_of_another_model(rope.part)) ropes_.push_back(&rope);
    }
    if (ropes_.empty()) fail(Code::ROPE, operation, "the config must describe a text model with a rope but has none");
  }

  // The order of what the rotation writes.
  Pairing written() const {
    const bool interleaved = ropes_.front()->rope.pairing == Pairing::interleaved;
    return interleaved ? Pairing::interleaved : Pairing::half;
  }

  std::optional<CacheTensor> tensor(const TensorInfo& info, std::size_t entry) const {
    if (request_.model == nullptr) {
      const KeyShape& keys = request_.keys;
      const int rotary_dim = keys.rotary_dim == 0 ? keys.head_dim : keys.rotary_dim;
      return heads(info, entry, keys.head_dim, {keys.first, rotary_dim / 2});
    }
    const ModelRope* rope = rope_of(info);
    if (rope == nullptr) return std::nullopt;
    const int rotated = rope->rope.rotary_dim;
    const bool latent = rope->first != 0;
    if (latent && !info.shape.empty() && info.shape.back() % rope->rope.head_dim != 0) {
      const std::int64_t last = info.shape.back();
      if (last < rotated) refuse_shape(info, rotated);
      return changed(info, entry, last, static_cast<int>(last), {last - rotated, rotated / 2});
    }
    const std::int64_t count = info.shape.empty() ? 0 : info.shape.back() / rope->rope.head_dim;
    if (count != 1 && count != rope->kv_heads && count != rope->heads) refuse_shape(info, rope->rope.head_dim);
    return heads(info, entry, rope->rope.head_dim, {rope->first, rotated / 2});
  }

 private:
  // None: the layer has no rope.
  const ModelRope* rope_of(const TensorInfo& info) const {
    const std::optional<int> layer = layer_of(info.name);
    const auto has = [](const std::vector<int>& layers, int index) {
      return std::find(layers.begin(), layers.end(), index) != layers.end();
    };
    for (const ModelRope* rope : ropes_) {
      if (layer && has(rope->layers, *layer)) return rope;
    }
    if (layer && has(ropes_.front()->layers_without_rope, *layer)) return nullptr;
    const bool same = ropes_.size() == 1 && ropes_.front()->layers_without_rope.empty();
    if (!layer && same) return ropes_.front();
    fail(Code::TENSOR, operation,
         "the name of a key must say its layer" + std::string(layer ? ", one of the config's," : "") + " but got " +
             in_quotes(info.name));
  }

  [[noreturn]] static void refuse_shape(const TensorInfo& info, int head_dim) {
    fail(Code::SHAPE, operation,
         "the last dimension of keys must be heads of " + std::to_string(head_dim) + " elements but tensor " +
             in_quotes(info.name) + " has shape " + detail::shape_text(info.shape));
  }

  CacheTensor heads(const TensorInfo& info, std::size_t entry, int head_dim, RotatedBlock block) const {
    const std::int64_t last = info.shape.empty() ? 0 : info.shape.back();
    if (last < head_dim || last % head_dim != 0) refuse_shape(info, head_dim);
    return changed(info, entry, last, head_dim, block);
  }

  CacheTensor changed(const TensorInfo& info, std::size_t entry, std::int64_t last, int head_dim,
                      RotatedBlock block) const {
    if (bits_of(info.type) % 8 != 0) {
      fail(Code::DTYPE, operation,
           "keys must have elements of whole bytes but tensor " + in_quotes(info.name) + " is " + name(info.type));
    }
    Sources sources = unchanged(last);
    for (std::int64_t head = 0; head < last; head += head_dim)
      reorder(sources, {head + block.first, block.pairs}, request_.to);
    return {info, entry, {Axis::columns, 0, std::make_shared<const Sources>(std::move(sources))}, head_dim, block};
  }

  const CacheRequest& request_;
  std::vector<const ModelRope*> ropes_;
};

Pairing pairing_before(const std::map<std::string, std::string>& metadata, const CacheRequest& request,
                       const Planner& planner) {
  const auto written = metadata.find(files::pairing_key);
  if (written != metadata.end()) return parse_pairing(written->second);
  if (request.from) return *request.from;
  if (request.model == nullptr)
    fail(Code::PAIRING, operation, "the pairing of the keys must be known but neither the file nor --from says it");
  return planner.written();
}

}  // namespace

bool is_checkpoint(const std::vector<TensorInfo>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const TensorInfo& tensor) {
    const std::optional<TensorName> name = parse_name(tensor.name);
    return name && name->suffix.ends_with("weight") && (name->word.ends_with("_proj") || name->role == Role::qkv);
  });
}

CachePlan plan_cache(const std::vector<TensorInfo>& tensors, const std::map<std::string, std::string>& metadata,
                     const CacheRequest& request) {
  const Planner planner(request);
  CachePlan plan{.from = pairing_before(metadata, request, planner), .to = request.to, .tensors = {}};
  if (plan.from == plan.to)
    fail(Code::PAIRING, operation,
         std::string("the keys must be in the other pairing but are ") + name(plan.to) + " already");
  std::vector<std::string> missing = request.tensors;
  bool found = false;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto named = std::find(missing.begin(), missing.end(), tensors[i].name);
    const bool only = tensors.size() == 1 && tensors[i].name.empty();  // of an .npy
    if (request.tensors.empty() ? !only && !says_key(tensors[i].name) : named == missing.end()) continue;
    if (named != missing.end()) missing.erase(named);
    found = true;
    if (std::optional<CacheTensor> tensor = planner.tensor(tensors[i], i)) plan.tensors.push_back(std::move(*tensor));
  }
  if (!missing.empty())
    fail(Code::TENSOR, operation, "--tensor must name a tensor of the file but got " + in_quotes(missing.front()));
  if (!found)
    fail(Code::TENSOR, operation,
         "a KV cache must have tensors of keys, as \"layers.0.k\" (or name them with --tensor), but has none");
  return plan;
}

}  // namespace rotary::convert
