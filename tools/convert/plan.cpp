#include "plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "config/stages.h"
#include "tensors/checkpoint.h"
#include "values/names.h"

namespace rotary::conversion {
namespace {

using tools::contains_word;
using tools::is_draft;
using tools::is_named_text;

bool is_of_queries(Role role) { return role == Role::q || role == Role::qkv; }
bool is_of_keys(Role role) { return role == Role::k || role == Role::kv || role == Role::latent || role == Role::qkv; }

const char* what(Role role) {
  if (role == Role::qkv) return "q and k";
  if (role == Role::q_norm) return "q norm";
  if (role == Role::k_norm) return "k norm";
  return role == Role::q ? "q" : role == Role::other ? "output" : "k";  // if keys and values are one, the keys change
}

// The tensors of one layer's attention.
struct Attends {
  bool q = false, k = false, v = false;
  std::optional<std::size_t> rope_of_keys = {};  // for a projection of keys alone
  std::set<std::string> modules = {};
};

// A tensor of the text model's layers by its name.
struct Located {
  const TensorInfo* info = nullptr;
  std::size_t shard = 0, entry = 0;
  TensorName name;
};

using LayerKey = std::pair<std::string, int>;  // stack and layer

class Planner {
 public:
  explicit Planner(Plan& plan) : plan_(plan), part_(plan.text) {}

  // Returns whether indexers of the sparse attention stay as they are.
  bool plan() {
    for (const Located* tensor : locate()) look_at(*tensor);
    check_stacks();
    check_complete();
    convert_shared_values();
    check_unknown();
    return leaves_indexers_;
  }

 private:
  // The located tensors, in the order of the files.
  std::vector<const Located*> locate() {
    std::vector<const Located*> in_order;
    for (std::size_t s = 0; s < plan_.folder.shards.size(); ++s) {
      const std::vector<files::Entry>& entries = plan_.folder.shards[s].entries();
      for (std::size_t e = 0; e < entries.size(); ++e) {
        const TensorInfo& info = entries[e].info;
        const std::optional<TensorName> name = tools::parse_name(info.name);
        if (!name || tools::is_of_another_model(name->stack)) continue;
        in_order.push_back(&tensors_.emplace(info.name, Located{&info, s, e, *name}).first->second);
        text_is_named_ = text_is_named_ || (is_of_queries(name->role) && is_named_text(name->stack));
      }
    }
    return in_order;
  }

  void look_at(const Located& tensor) {
    const TensorName& name = tensor.name;
    if (text_is_named_ && !is_named_text(name.stack) && !is_draft(name.stack)) return;
    if (name.layer < part_.attention.first_layer) return;
    const int layer = name.layer - part_.attention.first_layer;
    const bool drafting = part_.is_drafting(name.stack, layer);
    if (!drafting && !part_.rope_of_layer[static_cast<std::size_t>(layer)]) return;
    if (name.role == Role::other) {
      if (contains_word(name.suffix, "v_proj")) layers_[{name.stack, name.layer}].v = true;
      return others_.push_back(&tensor);
    }
    if (tools::is_cross_attention(name.module)) return;
    const bool indexes = contains_word(name.module, "indexer");
    if (indexes && part_.indexer.heads == 0) {
      leaves_indexers_ = true;
      return;
    }
    const std::size_t rope = drafting ? drafting_rope(name) : *part_.rope_of_layer[static_cast<std::size_t>(layer)];
    const ModelRope& used = plan_.model.ropes[rope];
    const Heads heads = indexes ? heads_of_indexer(name.role, used, part_) : heads_in(*tensor.info, name, used, part_);
    if (!indexes) {
      Attends& attends = layers_[{name.stack, name.layer}];
      attends.modules.insert(name.module);
      attends.q = attends.q || is_of_queries(name.role);
      attends.k = attends.k || is_of_keys(name.role);
      if (name.role == Role::k) attends.rope_of_keys = rope;
    }
    const std::string prefix = tensor.info->name.substr(0, tensor.info->name.size() - name.suffix.size());
    const auto part_of = [&](std::string_view suffix) -> const TensorInfo* {
      const auto found = tensors_.find(prefix + std::string(suffix));
      return found == tensors_.end() ? nullptr : found->second.info;
    };
    const Projection projection{order_of(heads, plan_.to), part_of, name.role == Role::qkv, part_.quantization};
    if (const std::optional<Change> change = change_of(*tensor.info, name.suffix, projection))
      add(tensor, name, *change, heads);
  }

  void add(const Located& tensor, const TensorName& name, const Change& change, const Heads& heads) {
    const ConvertedTensor shown{.info = *tensor.info,
                                .file = plan_.folder.shards[tensor.shard].name,
                                .layer = name.layer,
                                .what = what(name.role),
                                .q_heads = heads.q,
                                .k_heads = heads.k,
                                .head_dim = heads.dim,
                                .first = heads.block.first,
                                .rotary_dim = 2 * heads.block.pairs};
    plan_.tensors.push_back({tensor.shard, tensor.entry, change, shown, name});
  }

  // The rope of a drafting layer, which no config names, by the heads of its weights. Several ropes may fit if their
  // permutations are equal.
  std::size_t drafting_rope(const TensorName& layer) {
    std::optional<std::size_t> found;
    for (const std::size_t rope : part_.ropes) {
      const ModelRope& candidate = plan_.model.ropes[rope];
      if (part_.ropes.size() > 1 && !fits(layer, candidate)) continue;
      if (!found) found = rope;
      if (same_elements(plan_.model.ropes[*found], candidate)) continue;
      fail(Code::TENSOR, operation,
           "the rope of a drafting layer must follow from its number of heads but several ropes fit ",
           layer.layer_name());
    }
    if (found) return *found;
    fail(Code::SHAPE, operation, "the heads of a drafting layer must be those of one of the config's ropes but ",
         layer.layer_name(), " has others");
  }

  static bool same_elements(const ModelRope& a, const ModelRope& b) {
    return a.rope.head_dim == b.rope.head_dim && a.rope.rotary_dim == b.rope.rotary_dim && a.first == b.first &&
           a.heads == b.heads && a.kv_heads == b.kv_heads;
  }

  // Whether the weights of the layer's projections have the rows of the rope's heads.
  bool fits(const TensorName& layer, const ModelRope& rope) {
    const std::string stem = layer.layer_name() + ".";
    for (auto found = tensors_.lower_bound(stem); found != tensors_.end() && found->first.starts_with(stem); ++found) {
      const TensorInfo& tensor = *found->second.info;
      const TensorName& name = found->second.name;
      const bool projects = is_of_queries(name.role) || name.role == Role::k;
      if (!projects || name.suffix != "weight" || tensor.shape.empty() || contains_word(name.module, "indexer"))
        continue;
      if (heads_in(tensor, name, rope, part_).rows != tensor.shape[0]) return false;
    }
    return true;
  }

  // Beside a tower without a telling name, the layers of the text model are unknown.
  void check_stacks() const {
    const std::string* text = nullptr;
    for (const auto& [place, layer] : layers_) {
      if (!part_.beside_towers || !layer.q || is_draft(place.first)) continue;
      if (text == nullptr) text = &place.first;
      if (*text == place.first) continue;
      fail(Code::TENSOR, operation, "only the layers of the text model may have a projection of the queries but ",
           in_quotes(*text), " and ", in_quotes(place.first), " both have one");
    }
  }

  // A checkpoint has both projections in each of the model's layers; an adapter may omit any.
  void check_complete() const {
    if (plan_.folder.adapter) return;
    const std::int64_t in_stack = part_.number(part_.attention.layers_in_stack);
    const bool may_lack_keys = part_.number("num_kv_shared_layers") > 0 || part_.keys.contains("kv_source_layers");
    for (const std::size_t rope : part_.ropes) {
      for (const int index : plan_.model.ropes[rope].layers) {
        if (in_stack != 0 && index >= in_stack) break;
        Attends found;
        for (const auto& [place, layer] : layers_) {
          if (place.second != index + part_.attention.first_layer || is_draft(place.first)) continue;
          found.q = found.q || layer.q;
          found.k = found.k || layer.k;
        }
        if (found.q && (found.k || may_lack_keys)) continue;
        fail(Code::TENSOR, operation, "layer ", index, " must have a projection of ",
             found.q ? "the keys" : "the queries", " but the checkpoint has no tensor that is known as one");
      }
    }
  }

  // If keys also serve as values, the attention's output has their order, and so must the columns of the projection
  // after it.
  void convert_shared_values() {
    if (!part_.attention.keys_may_be_values) return;
    for (const auto& [key, layer] : layers_) {
      if (!layer.rope_of_keys || layer.v) continue;
      for (const std::string& module : layer.modules)
        convert_output(key, module, plan_.model.ropes[*layer.rope_of_keys]);
    }
    std::ranges::sort(plan_.tensors, {},
                      [](const TensorPlan& tensor) { return std::pair(tensor.shard, tensor.entry); });
  }

  void convert_output(const LayerKey& key, const std::string& module, const ModelRope& rope) {
    const TensorName name{.stack = key.first, .layer = key.second, .module = module};
    const std::string weight = name.layer_name() + "." + module + ".o_proj.weight";
    const auto found = tensors_.find(weight);
    const Located* output = found == tensors_.end() ? nullptr : &found->second;
    const bool plain = output != nullptr && !plan_.folder.adapter && bits_of(output->info->type) >= 16 &&
                       output->info->shape.size() == 2 &&
                       output->info->shape[1] == std::int64_t{rope.heads} * rope.rope.head_dim;
    if (!plain) {
      fail(Code::TENSOR, operation,
           "keys that serve as values must have an output projection that is not quantised, and no adapter, but ",
           in_quotes(weight), output == nullptr ? " is missing" : " is not one");
    }
    const Heads heads = of_queries(rope, rope.heads, rope.rope.head_dim);
    add(*output, name, {Axis::columns, 0, order_of(heads, plan_.to)}, heads);
  }

  // An unknown tensor may depend on the order of the heads' elements.
  void check_unknown() const {
    for (const Located* other : others_) {
      const TensorInfo& tensor = *other->info;
      const TensorName& name = other->name;
      const auto layer = layers_.find({name.stack, name.layer});
      if (layer == layers_.end()) continue;
      for (const std::string& module : layer->second.modules) {
        if (module.empty() || !name.suffix.starts_with(module + ".")) continue;
        const std::string_view inside = std::string_view(name.suffix).substr(module.size() + 1);
        if (tools::is_independent(inside.substr(0, inside.find('.')))) continue;
        if (tensor.elements() == 1 || tensor.name.ends_with("inv_freq")) continue;
        fail(Code::TENSOR, operation,
             "every tensor of an attention must be known, as it may depend on the pairing, but ",
             in_quotes(tensor.name), " is not");
      }
    }
  }

  Plan& plan_;
  const TextPart& part_;
  bool text_is_named_ = false;  // a stack is named as the text model's, so the others are not
  bool leaves_indexers_ = false;
  std::map<std::string, Located> tensors_;
  std::map<LayerKey, Attends> layers_;
  std::vector<const Located*> others_;  // tensors without a role
};

Pairing weights_pairing(const Folder& folder, const ModelRope& rope, std::optional<Pairing> from) {
  const std::string written = common_metadata(folder, files::pairing_key);
  if (written.empty()) return from.value_or(rope.rope.pairing == Pairing::half ? Pairing::half : Pairing::interleaved);
  if (written != name(Pairing::half) && written != name(Pairing::interleaved)) {
    fail(Code::FORMAT, operation, files::pairing_key, " of ", folder.shards.front().name,
         " must be half or interleaved but is ", in_quotes(written));
  }
  const Pairing pairing = parse_pairing(written);
  if (from && *from != pairing) {
    fail(Code::PAIRING, operation, "--from must be the pairing of the files' metadata but got ", name(*from),
         ": they say ", name(pairing));
  }
  return pairing;
}

// The changed keys of the pairing, in models that have such a key.
std::vector<ChangedKey> config_changes(const Plan& plan) {
  const TextPart& part = plan.text;
  const std::string above = part.path.empty() ? "" : part.path + ".",
                    after = plan.to == Pairing::half ? "false" : "true";
  std::vector<ChangedKey> changes;
  const auto change = [&](const std::string& key) {
    if (part.json(key) != after) changes.push_back({above + key, part.json(key), after});
  };
  if (part.indexer.heads != 0 && part.keys.contains(indexer_key)) change(indexer_key);
  if (!part.pairing_key.empty()) change(part.pairing_key);
  return changes;
}

std::vector<std::string> notes_on(const Plan& plan, bool leaves_indexers) {
  const TextPart& part = plan.text;
  const bool half = plan.model.ropes[part.ropes.front()].rope.pairing == Pairing::half;
  const Pairing native = half ? Pairing::half : Pairing::interleaved;
  std::vector<std::string> notes;
  if (part.pairing_key.empty() && plan.to != native) {
    const std::string why =
        part.keys.contains("rope_interleave")
            ? "transformers does not read rope_interleave of " + part.model_type + ", which stays as it is"
            : plan.folder.config + " of " + part.model_type + " cannot state the pairing";
    notes.push_back(why + ": code of the model will read these weights as " + detail::familiar(native) +
                    ", without an error, so use them only in an engine that is set to " + detail::familiar(plan.to));
  }
  if (part.has_own_code && !part.pairing_key.empty() && !part.keys.contains(part.pairing_key) && plan.to != native) {
    notes.push_back("the checkpoint brings the code of its model (auto_map), which may not read " + part.pairing_key +
                    ": transformers' own class does");
  }
  if (leaves_indexers)
    notes.push_back("the indexers of the sparse attention have a pairing of their own and are left as they are");
  for (const std::string& other : part.other_parts)
    notes.push_back(other + " is left as it is: an image or audio model with a rope of its own");
  return notes;
}

// from decides if the model_type is unknown; if it is known, the pairing is the one that the model's code reads.
files::ConfigFile read_config_of(const std::filesystem::path& path, std::optional<Pairing> from) {
  try {
    return files::read_config_file(path, {});
  } catch (const Error& error) {
    if (error.code() != Code::MODEL_TYPE || !from) throw;
    return files::read_config_file(path, {.pairing = from});
  }
}

}  // namespace

Plan make_plan(const std::filesystem::path& path, Pairing to, std::optional<Pairing> from) {
  Plan plan{.folder = open_folder(path), .to = to};
  files::ConfigFile config = read_config_of(path / path_of(plan.folder.config), from);
  plan.model = std::move(config.model);
  plan.config_text = std::move(config.text);
  plan.text = text_part(config.json, plan.model);
  plan.from = weights_pairing(plan.folder, plan.model.ropes[plan.text.ropes.front()], from);
  if (plan.from == to) {
    fail(Code::PAIRING, operation, path_text(path), ": the checkpoint must be in the other pairing but is ",
         detail::familiar(to), " already: nothing to convert");
  }
  const bool interleaved = plan.from == Pairing::interleaved;
  const std::string says = plan.text.json(indexer_key);
  const bool says_other = plan.text.attention.indexer.heads != 0 && !says.empty() && (says != "false") != interleaved;
  plan.own_indexer = says_other || !common_metadata(plan.folder, own_indexer_key).empty();
  if (plan.own_indexer) plan.text.indexer = {};
  const bool leaves_indexers = Planner(plan).plan();
  plan.config = config_changes(plan);
  plan.notes = notes_on(plan, leaves_indexers);
  return plan;
}

}  // namespace rotary::conversion
