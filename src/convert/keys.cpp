#include <algorithm>

#include "files/tensors/checkpoint.h"
#include "files/tensors/formats.h"
#include "files/text/paths.h"
#include "steps.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::conversion {
namespace {

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

int rotary_dim_of(const ConvertRequest& request) {
  return request.rotary_dim == 0 ? request.head_dim : request.rotary_dim;
}

void check_block(const ConvertRequest& request) {
  const int rotary_dim = rotary_dim_of(request);
  const bool fits = request.first >= 0 && rotary_dim >= 2 && rotary_dim % 2 == 0 &&
                    std::int64_t{request.first} + rotary_dim <= request.head_dim;
  if (fits) return;
  fail(Code::SHAPE, operation, "the rotated block must be an even number of elements within a head of ",
       request.head_dim, " but got ", rotary_dim, " from element ", request.first);
}

// Those of the model's text; empty: the request has no model, and says the block itself.
std::vector<ModelRope> ropes_of(const ConvertRequest& request) {
  std::vector<ModelRope> ropes;
  if (!request.model) {
    check_block(request);
    return ropes;
  }
  for (const ModelRope& rope : request.model->ropes)
    if (!rope.coordinates && !is_of_another_model(rope.part)) ropes.push_back(rope);
  if (ropes.empty()) fail(Code::ROPE, operation, "the config must describe a text model with a rope but has none");
  return ropes;
}

Pairing pairing_before(const ConvertRequest& request, const std::vector<ModelRope>& ropes, const Metadata& metadata) {
  const auto written = metadata.find(files::pairing_key);
  if (written != metadata.end()) return parse_pairing(written->second);
  if (request.from) return *request.from;
  if (ropes.empty())
    fail(Code::PAIRING, operation, "the pairing of the keys must be known but neither the file nor --from says it");
  const bool interleaved = ropes.front().rope.pairing == Pairing::interleaved;  // as the rotation writes them
  return interleaved ? Pairing::interleaved : Pairing::half;
}

// nullptr: the layer of the tensor has no rope.
const ModelRope* rope_of(const TensorInfo& info, const std::vector<ModelRope>& ropes) {
  const std::optional<int> layer = layer_of(info.name);
  const auto has = [&](const std::vector<int>& layers) {
    return layer && std::find(layers.begin(), layers.end(), *layer) != layers.end();
  };
  for (const ModelRope& rope : ropes)
    if (has(rope.layers)) return &rope;
  const std::vector<int>& without = ropes.front().layers_without_rope;
  if (has(without)) return nullptr;
  if (!layer && ropes.size() == 1 && without.empty()) return &ropes.front();
  fail(Code::TENSOR, operation, "the name of a key must say its layer", layer ? ", one of the config's," : "",
       " but got ", in_quotes(info.name));
}

[[noreturn]] void refuse_heads(const TensorInfo& info, int head_dim) {
  fail(Code::SHAPE, operation, "the last dimension of keys must be heads of ", head_dim, " elements but tensor ",
       in_quotes(info.name), " has shape ", detail::shape_text(info.shape));
}

// The heads along the last dimension; empty: the layer has no rope.
std::optional<Heads> heads_of(const TensorInfo& info, const ConvertRequest& request,
                              const std::vector<ModelRope>& ropes) {
  const std::int64_t last = info.shape.empty() ? 0 : info.shape.back();
  Heads heads{.dim = request.head_dim, .block = {request.first, rotary_dim_of(request) / 2}};
  if (request.model) {
    const ModelRope* rope = rope_of(info, ropes);
    if (rope == nullptr) return std::nullopt;
    const int dim = rope->rope.head_dim, rotated = rope->rope.rotary_dim;
    heads = {.dim = dim, .block = {rope->first, rotated / 2}};
    const std::int64_t count = last / dim;
    if (rope->first != 0 && !info.shape.empty() && last % dim != 0) {  // of MLA
      if (last < rotated) refuse_heads(info, rotated);
      heads = {.dim = static_cast<int>(last), .block = {last - rotated, rotated / 2}};
    } else if (count != 1 && count != rope->kv_heads && count != rope->heads) {
      refuse_heads(info, dim);
    }
  }
  if (last < heads.dim || last % heads.dim != 0) refuse_heads(info, heads.dim);
  check_whole_bytes(info, bits_of(info.type), "keys");
  const int dim = heads.dim;
  return evenly_spaced(std::move(heads), static_cast<int>(last / dim), dim);
}

// unnamed: the file is one array without a name.
std::vector<TensorPlan> find_keys(const ConvertRequest& request, const std::vector<ModelRope>& ropes,
                                  const std::vector<TensorInfo>& tensors, bool unnamed) {
  std::vector<std::string> missing = request.tensors;
  std::vector<TensorPlan> keys;
  bool found = false;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto named = std::find(missing.begin(), missing.end(), tensors[i].name);
    const bool asked = request.tensors.empty() ? says_key(tensors[i].name) : named != missing.end();
    if (!unnamed && !asked) continue;
    if (named != missing.end()) missing.erase(named);
    found = true;
    const std::optional<Heads> heads = heads_of(tensors[i], request, ropes);
    if (!heads) continue;
    const Change change{Axis::columns, 0, order_of(*heads, *request.to)};
    keys.push_back({.entry = i, .change = change, .shown = shown_as(tensors[i], *heads)});
  }
  if (!unnamed && !missing.empty())
    fail(Code::TENSOR, operation, "--tensor must name a tensor of the file but got ", in_quotes(missing.front()));
  if (!found) {
    fail(Code::TENSOR, operation,
         "a KV cache must have tensors of keys, as \"layers.0.k\" (or name them with --tensor), but has none");
  }
  return keys;
}

}  // namespace

bool is_checkpoint(const std::vector<TensorInfo>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const TensorInfo& tensor) {
    const std::optional<TensorName> name = parse_name(tensor.name);
    return name && name->suffix.ends_with("weight") && (name->word.ends_with("_proj") || name->role == Role::qkv);
  });
}

ConvertResult convert_keys(const ConvertRequest& request) {
  const bool npy = files::format_to_read(request.input) == files::Format::npy;
  std::optional<Shard> shard;
  std::vector<TensorInfo> tensors;
  Metadata metadata;
  if (npy) {
    tensors = tensor_infos(request.input);
  } else {
    shard = open_shard(request.input);
    for (const files::Entry& entry : shard->entries()) tensors.push_back(entry.info);
    metadata = shard->header.header.metadata;
  }
  const std::vector<ModelRope> ropes = ropes_of(request);
  check_stamp(metadata, files::path_text(request.input));
  ConvertResult result{.kind = ConvertKind::keys, .dry_run = request.dry_run, .output = request.output};
  result.from = pairing_before(request, ropes, metadata);
  result.to = *request.to;
  result.all_tensors = tensors.size();
  if (result.from == result.to) {
    fail(Code::PAIRING, operation, "the keys must be in the other pairing but are ", name(result.to), " already");
  }
  const bool unnamed = tensors.size() == 1 && tensors.front().name.empty();
  const std::vector<TensorPlan> keys = find_keys(request, ropes, tensors, unnamed);
  for (const TensorPlan& key : keys) result.tensors.push_back(key.shown);
  if (request.dry_run) return result;
  if (npy) {
    Tensor tensor = read_npy(request.input);
    tensor.data = changed(tensor, keys.front().change, tensor.data);
    write_npy(request.output, tensor);
  } else {
    files::write_whole(operation, request.output, [&](const Sink& sink) {
      rewrite(*shard, {.from = result.from, .to = result.to}, keys, 0, sink);
    });
  }
  return result;
}

}  // namespace rotary::conversion
