#include "single_file.h"

#include <algorithm>
#include <map>

#include "change.h"
#include "files/tensors/checkpoint.h"
#include "files/tensors/formats.h"
#include "files/text/io.h"
#include "files/text/paths.h"
#include "names.h"
#include "stamp.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::conversion {
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
  return lower.ends_with("_key") || lower.ends_with("_keys") ||
         is_listed(lower, "k key keys k_cache key_cache k_pe k_rot cached_key kcache key_states k_states cache_k_l");
}

// The first number of a name.
std::optional<int> layer_of(std::string_view name) {
  const std::size_t begin = name.find_first_of("0123456789");
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = std::min(name.find_first_not_of("0123456789", begin), name.size());
  return end - begin > 6 ? std::nullopt : std::optional(std::stoi(std::string(name.substr(begin, end - begin))));
}

struct KeyTensor {
  std::size_t index = 0;  // in the file
  Change change;
  int head_dim = 0;
  RotatedBlock block;
};

class KeyFinder {
 public:
  explicit KeyFinder(const ConvertRequest& request) : request_(request) {
    if (!request.model) {
      check_shape();
      return;
    }
    for (const ModelRope& rope : request.model->ropes) {
      if (!rope.coordinates && !is_of_another_model(rope.part)) ropes_.push_back(&rope);
    }
    if (ropes_.empty()) fail(Code::ROPE, operation, "the config must describe a text model with a rope but has none");
  }

  Pairing pairing_before(const Metadata& metadata) const {
    const auto written = metadata.find(files::pairing_key);
    if (written != metadata.end()) return parse_pairing(written->second);
    if (request_.from) return *request_.from;
    if (!request_.model)
      fail(Code::PAIRING, operation, "the pairing of the keys must be known but neither the file nor --from says it");
    const bool interleaved = ropes_.front()->rope.pairing == Pairing::interleaved;  // as the rotation writes them
    return interleaved ? Pairing::interleaved : Pairing::half;
  }

  std::vector<KeyTensor> find(const std::vector<TensorInfo>& tensors, bool npy) const {
    std::vector<std::string> missing = request_.tensors;
    std::vector<KeyTensor> keys;
    bool found = false;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto named = std::find(missing.begin(), missing.end(), tensors[i].name);
      const bool asked = request_.tensors.empty() ? says_key(tensors[i].name) : named != missing.end();
      if (!npy && !asked) continue;
      if (named != missing.end()) missing.erase(named);
      found = true;
      if (const std::optional<KeyTensor> key = key_of(tensors[i], i)) keys.push_back(*key);
    }
    if (!npy && !missing.empty())
      fail(Code::TENSOR, operation, "--tensor must name a tensor of the file but got " + in_quotes(missing.front()));
    if (!found) {
      fail(Code::TENSOR, operation,
           "a KV cache must have tensors of keys, as \"layers.0.k\" (or name them with --tensor), but has none");
    }
    return keys;
  }

 private:
  int rotary_dim() const { return request_.rotary_dim == 0 ? request_.head_dim : request_.rotary_dim; }

  void check_shape() const {
    const bool fits = request_.first >= 0 && rotary_dim() >= 2 && rotary_dim() % 2 == 0 &&
                      std::int64_t{request_.first} + rotary_dim() <= request_.head_dim;
    if (fits) return;
    fail(Code::SHAPE, operation,
         "the rotated block must be an even number of elements within a head of " + std::to_string(request_.head_dim) +
             " but got " + std::to_string(rotary_dim()) + " from element " + std::to_string(request_.first));
  }

  // Empty: the layer has no rope.
  std::optional<KeyTensor> key_of(const TensorInfo& info, std::size_t index) const {
    if (!request_.model) return heads_of(info, index, request_.head_dim, {request_.first, rotary_dim() / 2});
    const ModelRope* rope = rope_of(info);
    if (rope == nullptr) return std::nullopt;
    const int rotated = rope->rope.rotary_dim;
    const bool latent = rope->first != 0;
    if (latent && !info.shape.empty() && info.shape.back() % rope->rope.head_dim != 0) {
      const std::int64_t last = info.shape.back();
      if (last < rotated) refuse_shape(info, rotated);
      return heads_of(info, index, static_cast<int>(last), {last - rotated, rotated / 2});
    }
    const std::int64_t count = info.shape.empty() ? 0 : info.shape.back() / rope->rope.head_dim;
    if (count != 1 && count != rope->kv_heads && count != rope->heads) refuse_shape(info, rope->rope.head_dim);
    return heads_of(info, index, rope->rope.head_dim, {rope->first, rotated / 2});
  }

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

  KeyTensor heads_of(const TensorInfo& info, std::size_t index, int head_dim, RotatedBlock block) const {
    const std::int64_t last = info.shape.empty() ? 0 : info.shape.back();
    if (last < head_dim || last % head_dim != 0) refuse_shape(info, head_dim);
    check_whole_bytes(info, bits_of(info.type), "keys");
    Sources sources = unchanged(last);
    for (std::int64_t head = 0; head < last; head += head_dim)
      reorder(sources, {head + block.first, block.pairs}, *request_.to);
    return {index, {Axis::columns, 0, std::make_shared<const Sources>(std::move(sources))}, head_dim, block};
  }

  const ConvertRequest& request_;
  std::vector<const ModelRope*> ropes_;
};

void write_keys(const ConvertRequest& request, const std::vector<KeyTensor>& keys, const PairingStamp& stamp) {
  const Shard shard = open_shard(request.input);
  std::map<std::size_t, const Change*> changes;
  for (const KeyTensor& key : keys) changes[key.index] = &key.change;
  const std::string header = stamped_header(shard.header, stamp);
  files::write_whole(operation, request.output,
                     [&](const files::Sink& sink) { rewrite(shard, header, changes, sink); });
}

}  // namespace

bool is_checkpoint(const std::vector<TensorInfo>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const TensorInfo& tensor) {
    const std::optional<TensorName> name = parse_name(tensor.name);
    return name && name->suffix.ends_with("weight") && (name->word.ends_with("_proj") || name->role == Role::qkv);
  });
}

ConvertResult convert_keys(const ConvertRequest& request) {
  const std::vector<TensorInfo> tensors = tensor_infos(request.input);
  const Metadata metadata = tensor_metadata(request.input);
  const bool npy = tensors.size() == 1 && tensors.front().name.empty();
  const KeyFinder finder(request);
  check_stamp(metadata, files::path_text(request.input));
  ConvertResult result{.kind = ConvertKind::keys, .dry_run = request.dry_run, .output = request.output};
  result.from = finder.pairing_before(metadata);
  result.to = *request.to;
  result.all_tensors = tensors.size();
  if (result.from == result.to) {
    fail(Code::PAIRING, operation,
         std::string("the keys must be in the other pairing but are ") + name(result.to) + " already");
  }
  const std::vector<KeyTensor> keys = finder.find(tensors, npy);
  for (const KeyTensor& key : keys) {
    result.tensors.push_back({.info = tensors[key.index],
                              .head_dim = key.head_dim,
                              .first = key.block.first,
                              .rotary_dim = 2 * key.block.pairs});
  }
  if (request.dry_run) return result;
  if (files::format_to_read(request.input) == files::Format::npy) {
    Tensor tensor = read_npy(request.input);
    tensor.data = changed(tensor, keys.front().change, tensor.data);
    write_npy(request.output, tensor);
  } else {
    write_keys(request, keys, {.from = result.from, .to = result.to});
  }
  return result;
}

}  // namespace rotary::conversion
