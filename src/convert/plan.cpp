#include "plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "attention.h"
#include "config_change.h"
#include "files/tensors/checkpoint.h"
#include "files/text/json.h"
#include "files/text/json_file.h"
#include "files/text/paths.h"
#include "layers.h"
#include "suffixes.h"
#include "values/fail.h"

namespace rotary::convert {
namespace {

constexpr const char* operation = "convert";
using files::in_quotes;

// What is beside the heads in a module of attention, and does not depend on their pairing: by the first word behind the
// module.
bool is_harmless(std::string_view word) {
  constexpr std::string_view known[] = {
      "v_proj",
      "value",
      "wv",
      "v_norm",
      "o_proj",
      "out_proj",
      "out_lin",
      "dense",
      "dense_bias",
      "proj",
      "c_proj",
      "Wo",
      "wo",
      "output",
      "kv_b_proj",
      "q_a_proj",
      "q_a_layernorm",
      "kv_a_layernorm",
      "rotary_emb",
      "rotary_pos_emb",
      "rotary_embeddings",
      "rotary_fn",
      "sinks",
      "softmax_offset",
      "learnable_sink_param",
      "attn_out",
      "linear_gate",
      "sink",
      "attention_sink_bias",
      "gate_proj",
      "g_proj",
      "gate",
      "gate_bias",
      "masked_bias",
      "bias",
      "embed_positions",
      "A",
      "dt_proj",
      "attn_sub_norm",
      "inner_attn_ln",
      "o_norm",
      "core_attention",
      "exclusive_self_attention",
      "output_projection",
      "lambda_q1",
      "lambda_k1",
      "lambda_q2",
      "lambda_k2",
      "groupnorm",
      "subln",
      "k_scale",
      "v_scale",
      "q_scale",
      "kv_scale",
      "indexer",
      "LayerNorm",
      "self",
  };
  return std::find(std::begin(known), std::end(known), word) != std::end(known);
}

std::string first_word(std::string_view dotted) { return std::string(dotted.substr(0, dotted.find('.'))); }

// The tensors of one layer's attention.
struct Attends {
  bool q = false, k = false;
  bool own_k = false;  // a projection of keys alone
  std::set<std::string> modules;
};

class Planner {
 public:
  Planner(Plan& plan, const TextPart& part) : plan_(plan), part_(part) {}

  void plan() {
    for (const Shard& shard : plan_.folder.shards) {
      for (const files::Entry& entry : shard.header.header.entries) tensors_.emplace(entry.info.name, &entry.info);
    }
    for (std::size_t s = 0; s < plan_.folder.shards.size(); ++s) {
      const std::vector<files::Entry>& entries = plan_.folder.shards[s].header.header.entries;
      for (std::size_t e = 0; e < entries.size(); ++e) look_at(s, e, entries[e].info);
    }
    check_complete();
    check_values();
    check_unknown();
  }

 private:
  void look_at(std::size_t shard, std::size_t entry, const TensorInfo& tensor) {
    const std::optional<TensorName> name = parse_name(tensor.name);
    if (!name || is_of_another_model(name->stack)) return;
    const bool drafting = part_.is_drafting(name->stack, name->layer);
    if (!drafting && !part_.rope_of_layer[static_cast<std::size_t>(name->layer)]) return;
    if (name->role == Role::other) {
      others_.emplace_back(&tensor, *name);
      return;
    }
    if (is_cross_attention(name->module)) return;
    if (contains_word(name->module, "indexer")) {
      plan_.indexers = true;
      return;
    }
    const std::size_t rope =
        drafting ? drafting_rope(*name) : *part_.rope_of_layer[static_cast<std::size_t>(name->layer)];
    const std::shared_ptr<const Heads> heads = heads_of(tensor, *name, plan_.model.ropes[rope]);
    const std::shared_ptr<const Sources> sources(heads, &heads->sources);
    Attends& layer = layers_[{name->stack, name->layer}];
    layer.modules.insert(name->module);
    layer.q = layer.q || name->role == Role::q || name->role == Role::qkv;
    layer.k = layer.k || name->role == Role::k || name->role == Role::latent || name->role == Role::qkv;
    layer.own_k = layer.own_k || name->role == Role::k;
    if (const std::optional<Change> change = change_of(tensor, name->suffix, projection(tensor, *name, sources)))
      plan_.tensors.push_back({shard, entry, *name, *change, heads, rope});
  }

  // The rope of a drafting layer, which no config names: the one whose heads its weights have. Several may have them if
  // their elements move alike.
  std::size_t drafting_rope(const TensorName& layer) {
    std::optional<std::size_t> found;
    for (const std::size_t rope : part_.ropes) {
      const ModelRope& candidate = plan_.model.ropes[rope];
      if (part_.ropes.size() > 1 && !fits(layer, candidate)) continue;
      if (!found) found = rope;
      if (same_elements(plan_.model.ropes[*found], candidate)) continue;
      fail(Code::TENSOR, operation,
           "the rope of a drafting layer must be told by its heads but several fit " + layer.stack + "." +
               std::to_string(layer.layer));
    }
    if (found) return *found;
    fail(Code::SHAPE, operation,
         "the heads of a drafting layer must be those of one of the config's ropes but " + layer.stack + "." +
             std::to_string(layer.layer) + " has others");
  }

  static bool same_elements(const ModelRope& a, const ModelRope& b) {
    return a.rope.head_dim == b.rope.head_dim && a.rope.rotary_dim == b.rope.rotary_dim && a.first == b.first &&
           a.heads == b.heads && a.kv_heads == b.kv_heads;
  }

  // Whether the weights of the layer's projections have the rows of the rope's heads.
  bool fits(const TensorName& layer, const ModelRope& rope) {
    const std::string stem = layer.stack + "." + std::to_string(layer.layer) + ".";
    for (auto found = tensors_.lower_bound(stem); found != tensors_.end() && found->first.starts_with(stem); ++found) {
      const TensorInfo& tensor = *found->second;
      const std::optional<TensorName> name = parse_name(tensor.name);
      const bool projects = name && (name->role == Role::q || name->role == Role::k || name->role == Role::qkv);
      if (!projects || name->suffix != "weight" || tensor.shape.empty() || contains_word(name->module, "indexer"))
        continue;
      if (heads_of(tensor, *name, rope)->sources.size() != static_cast<std::size_t>(tensor.shape[0])) return false;
    }
    return true;
  }

  // The projection's name with its dot: what its suffixes follow.
  static std::string stem(const TensorInfo& tensor, const TensorName& name) {
    return tensor.name.substr(0, tensor.name.size() - name.suffix.size());
  }

  Projection projection(const TensorInfo& tensor, const TensorName& name,
                        std::shared_ptr<const Sources> sources) const {
    const std::string prefix = stem(tensor, name);
    const auto find = [this, prefix](std::string_view suffix) { return tensors_.find(prefix + std::string(suffix)); };
    const auto packed = find("qweight");
    const bool awq = packed != tensors_.end() && !packed->second->shape.empty() &&
                     packed->second->shape.back() != static_cast<std::int64_t>(sources->size());
    return {.sources = std::move(sources),
            .has = [this, find](std::string_view suffix) { return find(suffix) != tensors_.end(); },
            .fused = name.role == Role::qkv,
            .awq = awq,
            .quantization = part_.quantization};
  }

  std::shared_ptr<const Heads> heads_of(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope) {
    if (part_.attention.latent) return latent_heads(tensor, name, rope);
    const int dim = rope.rope.head_dim;
    switch (name.role) {
      case Role::q: {
        const std::int64_t stride = std::int64_t{dim} * (part_.attention.gated_q ? 2 : 1);
        return made(rope.heads * stride,
                    {.sources = {}, .q = heads_at(rope.heads, stride), .k = {}, .dim = dim, .block = block_of(rope)});
      }
      case Role::k:
        return keys(rope);
      case Role::qkv:
        return fused_heads_of(tensor, rope);
      case Role::q_norm:
      case Role::k_norm:
        return norm_heads(tensor, name, rope);
      default:
        fail(Code::TENSOR, operation,
             "the projections must be those of " + plan_.model_type + " but got tensor " + in_quotes(tensor.name));
    }
  }

  static RotatedBlock block_of(const ModelRope& rope) { return {rope.first, rope.rope.rotary_dim / 2}; }

  std::shared_ptr<const Heads> keys(const ModelRope& rope) {
    const int dim = rope.rope.head_dim;
    return made(std::int64_t{rope.kv_heads} * dim,
                {.sources = {}, .q = {}, .k = heads_at(rope.kv_heads, dim), .dim = dim, .block = block_of(rope)});
  }

  // MLA: the rotated part of the one key is the last rows of kv_a_proj_with_mqa.
  std::shared_ptr<const Heads> latent_heads(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope) {
    const int dim = rope.rope.head_dim;
    const int rotated = rope.rope.rotary_dim;
    if (name.role == Role::q) {
      return made(std::int64_t{rope.heads} * dim,
                  {.sources = {}, .q = heads_at(rope.heads, dim), .k = {}, .dim = dim, .block = block_of(rope)});
    }
    if (name.role == Role::q_norm || name.role == Role::k_norm) return norm_heads(tensor, name, rope);
    if (name.role != Role::latent) {
      fail(Code::TENSOR, operation,
           "the projections must be those of " + plan_.model_type + " but got tensor " + in_quotes(tensor.name));
    }
    if (part_.latent_rows == 0)
      fail(Code::CONFIG_MISSING, operation, "the config must have kv_lora_rank but it is missing");
    return made(part_.latent_rows + rotated,
                {.sources = {}, .q = {}, .k = {part_.latent_rows}, .dim = rotated, .block = {0, rotated / 2}});
  }

  std::shared_ptr<const Heads> fused_heads_of(const TensorInfo& tensor, const ModelRope& rope) {
    const Fused fused = part_.attention.fused;
    if (fused == Fused::none) {
      fail(Code::MODEL_TYPE, operation,
           "the order of the rows of a fused projection must be known but that of " + plan_.model_type +
               " is not: tensor " + in_quotes(tensor.name));
    }
    const bool alike = fused != Fused::by_head && fused != Fused::four_parts;
    const bool fits = rope.kv_heads > 0 && rope.heads % rope.kv_heads == 0 && (alike || rope.heads == rope.kv_heads) &&
                      (fused != Fused::four_parts || rope.heads % 4 == 0);
    if (!fits) {
      fail(Code::SHAPE, operation,
           "the heads of a fused projection must fit its order but the config has " + std::to_string(rope.heads) +
               " and " + std::to_string(rope.kv_heads) + " key heads: tensor " + in_quotes(tensor.name));
    }
    const int dim = rope.rope.head_dim;
    const std::vector<std::int64_t> all = fused_heads(fused, rope.heads, rope.kv_heads, dim);
    return made(fused_rows(rope.heads, rope.kv_heads, dim), {.sources = {},
                                                             .q = {all.begin(), all.begin() + rope.heads},
                                                             .k = {all.begin() + rope.heads, all.end()},
                                                             .dim = dim,
                                                             .block = block_of(rope)});
  }

  // One weight for all heads, or for each its own, in one tensor or in one module per head.
  std::shared_ptr<const Heads> norm_heads(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope) {
    const int dim = rope.rope.head_dim;
    const bool of_q = name.role == Role::q_norm;
    const int heads = of_q ? rope.heads : rope.kv_heads;
    const int count = name.head < 0 && tensor.elements() != dim ? heads : 1;
    std::vector<std::int64_t> rows = heads_at(count, dim);
    Heads made_of{.sources = {}, .q = {}, .k = {}, .dim = dim, .block = block_of(rope)};
    (of_q ? made_of.q : made_of.k) = std::move(rows);
    return made(std::int64_t{count} * dim, std::move(made_of));
  }

  std::shared_ptr<const Heads> made(std::int64_t rows, Heads heads) {
    std::shared_ptr<const Heads>& found = made_[{rows, heads.q, heads.k, heads.block.first, heads.block.pairs}];
    if (!found) {
      heads.sources = unchanged(rows);
      for (const std::vector<std::int64_t>* list : {&heads.q, &heads.k}) {
        for (const std::int64_t head : *list)
          reorder(heads.sources, {head + heads.block.first, heads.block.pairs}, plan_.to);
      }
      found = std::make_shared<const Heads>(std::move(heads));
    }
    return found;
  }

  // A checkpoint has both projections in each of the model's layers; an adapter may leave any away.
  void check_complete() const {
    if (plan_.folder.adapter) return;
    for (const ModelRope& rope : plan_.model.ropes) {
      if (rope.part != part_.path || rope.coordinates) continue;
      for (const int index : rope.layers) {
        Attends found;
        for (const auto& [place, layer] : layers_) {
          if (place.second != index || is_draft(place.first)) continue;
          found.q = found.q || layer.q;
          found.k = found.k || layer.k;
        }
        if (found.q && (found.k || part_.keys_may_be_missing)) continue;
        fail(Code::TENSOR, operation,
             "layer " + std::to_string(index) + " must have a projection of " + (found.q ? "the keys" : "the queries") +
                 " but the checkpoint has no tensor that is known as one");
      }
    }
  }

  // Keys that serve as values too would need the other order in the output's projection.
  void check_values() const {
    if (plan_.folder.adapter || !part_.attention.keys_may_be_values) return;
    std::set<Place> with_values;
    for (const auto& [tensor, name] : others_) {
      for (const char* word : {"v_proj", "value", "wv"}) {
        if (contains_word(name.suffix, word)) with_values.insert({name.stack, name.layer});
      }
    }
    for (const auto& [place, layer] : layers_) {
      if (!layer.own_k || with_values.count(place) != 0) continue;
      fail(Code::TENSOR, operation,
           "keys and values must be two projections but " + place.first + "." + std::to_string(place.second) +
               " has none of the values: its keys serve as both");
    }
  }

  // A tensor that is not known may depend on the order of the heads' elements.
  void check_unknown() const {
    for (const auto& [tensor, name] : others_) {
      const auto layer = layers_.find({name.stack, name.layer});
      if (layer == layers_.end()) continue;
      for (const std::string& module : layer->second.modules) {
        if (module.empty() || !name.suffix.starts_with(module + ".")) continue;
        if (is_harmless(first_word(std::string_view(name.suffix).substr(module.size() + 1)))) continue;
        if (tensor->elements() == 1) continue;
        fail(Code::TENSOR, operation,
             "every tensor of an attention must be known, as it may depend on the pairing, but " +
                 in_quotes(tensor->name) + " is not");
      }
    }
  }

  using Place = std::pair<std::string, int>;
  using Rows = std::vector<std::int64_t>;
  using Key = std::tuple<std::int64_t, Rows, Rows, std::int64_t, int>;
  Plan& plan_;
  const TextPart& part_;
  std::map<std::string, const TensorInfo*> tensors_;
  std::map<Place, Attends> layers_;
  std::vector<std::pair<const TensorInfo*, TensorName>> others_;
  std::map<Key, std::shared_ptr<const Heads>> made_;
};

Pairing weights_pairing(const Folder& folder, const ModelRope& rope, std::optional<Pairing> from) {
  const std::string written = common_metadata(folder, files::pairing_key);
  if (!written.empty()) {
    const Pairing pairing = parse_pairing(written);
    if (from && *from != pairing) {
      fail(Code::PAIRING, operation,
           std::string("--from must be the pairing of the files' metadata but got ") + name(*from) + ": they say " +
               name(pairing));
    }
    return pairing;
  }
  if (from) return *from;
  return rope.rope.pairing == Pairing::half ? Pairing::half : Pairing::interleaved;
}

void check_adapter(const Folder& folder) {
  for (const char* known : {"", "LORA", "ADALORA", "IA3"}) {
    if (folder.adapter_type == known) return;
  }
  fail(Code::MODEL_TYPE, operation,
       "an adapter must be of the type LORA, ADALORA or IA3 but is of " + in_quotes(folder.adapter_type));
}

}  // namespace

Plan make_plan(const std::filesystem::path& path, Pairing to, std::optional<Pairing> from) {
  Plan plan;
  plan.folder = open_folder(path);
  check_adapter(plan.folder);
  plan.model = read_config(path / files::path_of(plan.folder.config));
  const TextPart part = text_part(plan.folder, plan.model);
  plan.part = part.path;
  plan.model_type = part.model_type;
  plan.to = to;
  plan.from = weights_pairing(plan.folder, plan.model.ropes[part.first_rope], from);
  if (plan.from == to) {
    fail(Code::PAIRING, operation,
         files::path_text(path) + ": the checkpoint must be in the other pairing but is " + name(to) + " already");
  }
  Planner(plan, part).plan();
  const std::string config = files::json_file_text(operation, path / files::path_of(plan.folder.config));
  plan.config = config_changes(plan, part, config);
  add_notes(plan, part);
  return plan;
}

}  // namespace rotary::convert
