// A text part: one ModelRope for each distinct rope of its layers.
#include <algorithm>
#include <map>

#include "rotary/error.h"
#include "stages.h"
#include "values/fail.h"
#include "values/names.h"

namespace rotary::files {
namespace {

constexpr std::size_t max_ropes = 256;

bool scaled(const RopeKeys& rope) { return rope.type != "default" && rope.type != "axial"; }

constexpr Names generic_partial_keys =
    "partial_rotary_factor rotary_pct rope_pct rotary_percent rope_percent rope_percentage rotary_percentage "
    "rotary_emb_fraction";

// The part's key of the fraction; "" if it has none.
std::string top_partial_key(const Part& part) {
  const auto says = [&](std::string_view key) { return !key.empty() && part.keys.number(key); };
  if (part.known) return says(part.family.partial_key) ? std::string(part.family.partial_key) : "";
  const std::vector<std::string_view> keys = words(generic_partial_keys);
  const auto found = std::find_if(keys.begin(), keys.end(), says);
  return found == keys.end() ? "" : std::string(*found);
}

// An absolute width: GPT-J's rotary_dim.
std::optional<int> absolute_dim(const Part& part, const HeadShape& heads) {
  if (const auto own = part.family.quirk->rotary_dim) return own(part, heads);
  const int block = heads.block;
  const std::string key = part.known ? std::string(part.family.dim_key)
                                     : word_for(part, "rotary_dim rotary_embedding_dim");  // the second: TensorRT-LLM
  if (key.empty()) return std::nullopt;
  const auto dim = read_whole(
      part,
      {.value = "rotary_dim", .keys = key, .most = block, .otherwise = part.keys.is_null(key) ? 0 : part.family.dim});
  if (!dim) return std::nullopt;
  if (*dim % 2 != 0) part.keys.refuse(key, "must be even");
  if (*dim > block) part.keys.refuse(key, "must be at most the head's ", block, " elements");
  return dim;
}

// Records the origin of rotary_dim. counts: whether a fraction has an effect.
void record_width(const Part& part, const HeadShape& heads, const RopeKeys& keys, bool counts) {
  const Fraction fraction = part.family.fraction;
  const bool given = counts && keys.partial_from && fraction != Fraction::nothing;
  if (given && keys.partial_from->kind == OriginKind::given) {
    const bool of_block = heads.mla && fraction != Fraction::head;
    part.derived("rotary_dim", (of_block ? "qk_rope_head_dim * " : "head_dim * ") + last_word(keys.partial_from->key));
  } else if (given) {
    part.origins().set("rotary_dim", *keys.partial_from);
  } else if (counts && part.family.partial != 1 && fraction != Fraction::head) {
    part.by_default("rotary_dim");
  } else if (heads.mla) {
    part.origins().set("rotary_dim", heads.block_from);
  } else {
    part.derived("rotary_dim", "head_dim");
  }
}

// Sets the rotated width: rotary_dim and exponent_dim of rope, and keys.partial. The fraction in the rope's object
// precedes the one at the top level, which precedes the family's.
void set_width(const Part& part, const HeadShape& heads, RopeKeys& keys, Rope& rope) {
  const Fraction fraction = part.family.fraction;
  if (const std::string key = top_partial_key(part); !keys.partial && !key.empty()) {
    keys.partial = part.keys.number(key);
    keys.partial_from = from_key(part.keys, key);
  }
  const bool reads_fraction = scaled(keys) || part.family.reads_partial || fraction == Fraction::head;
  const bool given = keys.partial && fraction != Fraction::nothing;
  if (!given || (!reads_fraction && !part.family.dim_key.empty())) {
    const std::optional<double> unread = given ? keys.partial : std::nullopt;
    keys.partial = part.family.partial;
    if (const auto dim = absolute_dim(part, heads)) {
      rope.rotary_dim = *dim;
      if (unread && static_cast<int>(heads.block * *unread) != *dim) {
        part.note(NoteKind::unread, part.family.partial_key, ' ', spelled(*unread),
                  " has no effect: ", part.family.dim_key, " decides for ", part.name(), ", which is ", *dim);
      }
      return;
    }
    keys.partial = unread ? unread : keys.partial;
  } else if (!part.family.dim_key.empty()) {
    const int by_fraction = static_cast<int>(heads.block * *keys.partial);
    const auto dim = part.keys.number(part.family.dim_key);
    if (dim && *dim != by_fraction) {
      part.note(NoteKind::unread, part.family.dim_key, ' ', spelled(*dim), " is not read: ", part.family.partial_key,
                " decides for ", part.name(), ", ", by_fraction, " elements");
    }
  }
  const double partial = *keys.partial;
  const std::string_view partial_key =
      part.family.partial_key.empty() ? "partial_rotary_factor" : part.family.partial_key;
  const std::string partial_path = part.keys.path_of(partial_key);
  if (!(partial > 0 && partial <= 1)) {
    fail(Code::CONFIG_VALUE, "read_config", partial_path, " must be above 0 and at most 1 but got ", spelled(partial));
  }
  if (!given && partial != 1) {
    part.note(NoteKind::model_default, partial_key, " is not given: ", spelled(partial), ", the default of ",
              part.name());
  }
  const bool counts = reads_fraction;
  record_width(part, heads, keys, counts && keys.type != "proportional");
  if (keys.type == "proportional") {
    rope.rotary_dim = heads.block;
    return;
  }
  if (!counts) {
    if (given && partial != 1) {
      part.note(NoteKind::unread, "partial_rotary_factor ", spelled(partial),
                " has no effect: transformers turns the whole head of ", part.name());
    }
    keys.partial = 1;
  }
  // For an MLA whose fraction counts the whole head (Mistral 4), the rope block already has that fraction.
  const bool of_head = fraction == Fraction::head;
  const int whole = of_head ? heads.head_dim : heads.block;
  const int rotating = of_head && !given ? heads.block : static_cast<int>(whole * *keys.partial);
  if (of_head && rotating > heads.block) {
    fail(Code::CONFIG_VALUE, "read_config", partial_path, " of the ", whole,
         " elements of a head must be at most qk_rope_head_dim, ", heads.block, ", but is ", rotating);
  }
  rope.rotary_dim = rotating + rotating % 2;
  if (rotating % 2 != 0) {
    if (rotating == whole) {
      throw OddHead(Code::CONFIG_VALUE, "read_config",
                    part.keys.path_of("head_dim") + " must be even but got " + std::to_string(rotating));
    }
    rope.exponent_dim = rotating;
    part.note(NoteKind::derived, rotating, " rotated elements are odd: ", rope.rotary_dim, " turn, with ", rotating,
              " in the exponent, ", (keys.type == "yarn" ? "where transformers refuses yarn" : "as in transformers"));
  }
  if (rope.rotary_dim == 0) {
    fail(Code::CONFIG_VALUE, "read_config", partial_path, " must leave at least one pair but got ",
         spelled(*keys.partial), " of ", whole);
  }
}

// Marks other spellings of known values, and factors of 1, if they agree; others are refused as unread.
void mark_what_agrees(const Part& part, const RopeKeys& rope, const Rope& model, const HeadShape& heads) {
  const auto mark = [&keys = part.keys](Names names, auto agrees) {
    for (const std::string_view key : words(names)) {
      if (const Json* found = keys.peek(key); found != nullptr && agrees(*found)) keys.mark(key);
    }
  };
  const auto equals = [](auto wanted) { return [wanted](const Json& value) { return value == wanted; }; };
  mark("rope_theta rotary_emb_base rotary_base rope_base theta", equals(rope.base));
  const int rotating = model.exponent_dim != 0 ? model.exponent_dim : model.rotary_dim;
  mark(generic_partial_keys, [&](const Json& value) {
    const double partial = value.is_number() ? value.get<double>() : 0;
    return partial > 0 && partial <= 1 && static_cast<int>(heads.block * partial) == rotating;
  });
  mark("rotary_dim rope_dim attn_rotary_emb", equals(model.rotary_dim));
  mark("rope_position_scale rope_condense_ratio rope_ratio rotary_scaling_factor rope_scaling_factor", equals(1));
  mark("rope_interleaved rope_interleave rope_traditional rotary_interleaved rotary_emb_interleaved",
       [&](const Json& value) {
         const auto agrees = [&](Pairing pairing) { return value == (pairing != Pairing::half); };
         return agrees(model.pairing) || (part.known && agrees(part.family.pairing));
       });
  mark("rope_type", [&](const Json& value) {  // moved out of the object
    return value.is_string() && published_type(value.get<std::string>()) == rope.type;
  });
  mark("rope rotary use_rope use_rotary use_rotary_pos_emb use_rotary_embedding rotary_position_embedding",
       equals(true));
}

Pairing pairing_of(const Part& part) {
  Pairing pairing = part.family.pairing;
  part.by_default("pairing");
  if (!part.known) part.record("pairing", "position_embedding_type");  // which names it, or an option does
  if (part.family.mla.rope != 0 && !is_mla(part)) {
    pairing = Pairing::half;
    part.record("pairing", "use_mla");
    part.note(NoteKind::read_as, "use_mla is false: ordinary heads, and the pairing is ", detail::familiar(pairing));
  }
  if (const std::string key(part.family.pairing_key); !key.empty()) {
    // transformers tests for true, so null counts as false.
    const bool null = part.keys.is_null(key);
    const auto interleaved = null ? std::optional(false) : part.keys.boolean(key);
    part.record_or_default("pairing", key);
    if (interleaved && *interleaved != (pairing != Pairing::half)) {
      pairing = *interleaved ? Pairing::interleaved : Pairing::half;
      part.note(NoteKind::read_as, key,
                (null           ? " is null"
                 : *interleaved ? " is true"
                                : " is false"),
                ": the pairing is ", detail::familiar(pairing));
    }
  }
  if (const auto own = part.family.quirk->pairing) pairing = own(part, pairing);
  return given_pairing(part, pairing, part.known ? detail::familiar(pairing) + " of " + part.name() : "");
}

// vLLM reads the pairing from indexer_rope_interleave; transformers uses the family's.
Indexer indexer_of(const Part& part, Pairing of_attention) {
  Indexer indexer = part.family.attention.indexer;
  if (indexer.heads == 0) return {};
  const auto read = [&](const char* key, int& value) {
    const Json* found = part.keys.peek(key);
    if (found != nullptr && found->is_number_integer())
      value = static_cast<int>(std::clamp<std::int64_t>(found->get<std::int64_t>(), 0, max_heads));
  };
  read("index_n_heads", indexer.heads);
  read("index_head_dim", indexer.head_dim);
  if (indexer.pairing == Pairing::unset) indexer.pairing = of_attention;
  if (const Json* says = part.keys.peek("indexer_rope_interleave"); says != nullptr && says->is_boolean()) {
    const Pairing interleaved = of_attention == Pairing::half ? Pairing::interleaved : of_attention;
    indexer.pairing = says->get<bool>() ? interleaved : Pairing::half;
  }
  return indexer;
}

// A number that divides the positions, which is linear scaling: LongChat, ChatGLM2-6B-32K, NeMo.
Scaling condensed(const Part& part) {
  const std::string key = part.known ? std::string(part.family.divisor_key)
                                     : word_for(part, "rope_condense_ratio seq_len_interpolation_factor");
  const auto ratio = part.keys.number(key);
  if (!ratio || *ratio == 1) return Unscaled{};
  if (!(*ratio >= 1 && *ratio <= max_factor)) part.keys.refuse(key, "must be from 1 to ", spelled(max_factor));
  part.record("scaling", key);
  part.record("scaling.factor", key);
  part.derived("attention_factor", "1 for linear");
  part.note(NoteKind::scaling, key, " divides the positions",
            (key == "rope_condense_ratio" ? " where FastChat runs the model, and it was trained so; transformers does "
                                            "not read it"
                                          : ", as the code of the model has it"));
  return Linear{.factor = *ratio};
}

class PartReader {
 public:
  PartReader(const Part& part) : part_(part), layers_(read_layers(part)), rope_of_(rope_source(part, layers_)) {}

  void read() {
    const Pairing pairing = pairing_of(part_);
    of_part_ = part_.origins();
    std::vector<int> without;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const std::size_t slot = slot_of(layers_[i], pairing);
      if (slot == none) {
        without.push_back(static_cast<int>(i));
      } else {
        ropes_[slot].layers.push_back(static_cast<int>(i));
      }
    }
    if (!ropes_.empty()) check_positions(part_);
    read_dual_chunk();
    if (ropes_.empty()) read_unused_keys();
    add_part(pairing);
    set_softmax_factors(part_, ropes_);
    note_reach(part_, ropes_, part_of(part_.reading.model, part_.path).context);
    if (!ropes_.empty()) read_query_scale(part_, scaling_, ropes_.front().rope.scaling, layers_.size(), without);
    const auto blocks = part_.family.quirk->blocks;
    for (const ModelRope& rope : ropes_) {
      for (ModelRope& block : blocks ? blocks(part_, rope) : std::vector{rope})
        part_.reading.model.ropes.push_back(std::move(block));
    }
    part_.keys.length("original_max_position_embeddings", max_length);
    for (const std::string_view key : part_.family.harmless) ignore(key);
    if (!part_.family.remark.text.empty()) part_.note(NoteKind::model, part_.family.remark.text);
  }

 private:
  // Qwen2.5-1M: beyond a chunk, attention remaps positions; the frequencies stay.
  void read_dual_chunk() {
    const char* key = "dual_chunk_attention_config";
    const auto chunks = part_.keys.has(key) ? part_.keys.object(key) : std::nullopt;
    if (!chunks) return;
    chunks->mark("original_max_position_embeddings");
    part_.note(NoteKind::attention, key,
               " remaps positions inside attention (vLLM); the frequencies shown do not include that");
  }

  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  void add_part(Pairing pairing) {
    ModelPart& whole = part_.add_to_model(static_cast<int>(layers_.size()));
    whole.norm_behind = part_.family.norm_behind;
    whole.turns_back = part_.family.turns_back;
    if (!ropes_.empty()) {
      whole.indexer = indexer_of(part_, pairing);
      if (is_mla(part_))
        whole.latent = static_cast<int>(part_.keys.integer("kv_lora_rank", 0, max_head_dim).value_or(0));
      whole.context = context_length(part_.keys).value_or(0);
    }
    const bool typed =
        std::any_of(layers_.begin(), layers_.end(), [](const Layer& layer) { return !layer.type.empty(); });
    for (std::size_t i = 0; typed && i < layers_.size(); ++i) whole.layer_types.push_back(layers_[i].type);
  }

  void ignore(std::string_view key) {
    const bool says = part_.keys.has(key);
    ignore_known(part_.keys, std::string(key));
    const std::vector<std::string_view>& explained = part_.family.remark.keys;
    if (says && std::find(explained.begin(), explained.end(), key) == explained.end()) {
      part_.note(NoteKind::unread, key,
                 " is not read: ", (ropes_.empty() ? "nothing rotates" : part_.name() + " does not use it"));
    }
  }

  // No layer has a rope (ALiBi, position_embedding_type): the file's rope keys are understood and unused.
  void read_unused_keys() {
    for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters"}) ignore(key);
    for (const std::string_view key : part_.family.base_key) ignore(key.substr(0, key.find('.')));
    if (!part_.family.partial_key.empty()) ignore(part_.family.partial_key);
    part_.keys.mark(switched_off_by(part_.keys));
    head_shape(part_, Layer{});
  }

  // Layers of one type and one pair of list entries share a slot; slots with equal ropes are one rope.
  std::size_t slot_of(const Layer& layer, Pairing pairing) {
    if (!layer.turns) return none;
    const auto key = std::make_tuple(layer.type, layer.base.value_or(0), layer.partial.value_or(0), layer.scaled,
                                     layer.heads, layer.kv_heads, layer.head_dim, layer.nope, layer.rotating);
    if (const auto found = slots_.find(key); found != slots_.end()) return found->second;
    part_.origins() = of_part_;
    part_.reading.layer_type = printable(layer.type);
    const auto rope = rope_of_(layer);
    const std::size_t slot = rope ? add(layer, *rope, pairing) : none;
    part_.reading.layer_type.clear();
    slots_.emplace(key, slot);
    return slot;
  }

  std::size_t add(const Layer& layer, RopeKeys keys, Pairing pairing) {
    const HeadShape heads = head_shape(part_, layer);
    if (heads.block % 2 != 0 && !part_.path.empty() && !part_.family.reads_partial) {  // the other parts may be sound
      part_.reading.note_no_rope(part_.path, "heads of " + std::to_string(heads.block) + " elements cannot turn");
      return none;
    }
    ModelRope model;
    set_width(part_, heads, keys, model.rope);
    model.part = part_.path;
    model.heads = heads.heads;
    model.kv_heads = heads.kv_heads;
    record_context(part_);
    model.rope.head_dim = heads.head_dim;
    model.rope.base = keys.base;
    model.rope.pairing = pairing;
    model.first = heads.first;
    const Quirk& quirk = *part_.family.quirk;
    if (quirk.rope != nullptr) quirk.rope(part_, model);
    if (part_.family.learned.what != Learns::nothing) start_learned(part_, part_.family.learned, model);
    mark_what_agrees(part_, keys, model.rope, heads);
    model.rope.scaling = read_scaling(part_, keys, model.rope.rotary_dim / 2);
    if (std::holds_alternative<Unscaled>(model.rope.scaling)) model.rope.scaling = condensed(part_);
    set_mrope_axes(part_, keys.scaling, model);
    if (!keys.scaling && model.rope.inv_freq.empty() && std::holds_alternative<Unscaled>(model.rope.scaling) &&
        !part_.keys.has("rope_condense_ratio") && !part_.reading.options.sets_scaling) {
      part_.note(NoteKind::scaling, "no rope_scaling or rope_parameters apply: the rope is not scaled");
    }
    const auto same = std::find_if(ropes_.begin(), ropes_.end(), [&](const ModelRope& other) {
      return std::tie(other.rope, other.heads, other.kv_heads, other.first) ==
             std::tie(model.rope, model.heads, model.kv_heads, model.first);
    });
    if (same != ropes_.end()) return static_cast<std::size_t>(same - ropes_.begin());
    if (ropes_.size() == max_ropes) {
      fail(Code::CONFIG_VALUE, "read_config", "a model must have at most ", max_ropes, " different ropes but has more");
    }
    if (!scaling_) scaling_ = keys.scaling;
    model.origins = part_.origins().of_rope();
    ropes_.push_back(std::move(model));
    return ropes_.size() - 1;
  }

  const Part& part_;
  std::vector<Layer> layers_;
  RopeOfLayer rope_of_;
  Origins of_part_;
  std::vector<ModelRope> ropes_;
  std::optional<Object> scaling_;  // the object of the first that has one
  std::map<std::tuple<std::string, double, double, bool, int, int, int, int, int>, std::size_t> slots_;
};

}  // namespace

Pairing given_pairing(const Part& part, Pairing own, const std::string& overridden) {
  const std::optional<Pairing>& given = part.reading.options.pairing;
  if (!given) return own;
  part.origins().set("pairing", {OriginKind::chosen, part.reading.options.words.pairing});
  if (*given != own && !overridden.empty()) {
    part.note(NoteKind::chosen, "the pairing given, ", detail::familiar(*given), ", overrides ", overridden);
  }
  return *given;
}

void read_text_part(const Part& part) {
  part.origins() = {};
  PartReader(part).read();
}

}  // namespace rotary::files
