// The hooks of single models, by the stage of the reading: layers, heads, the parameters of a rope and its scaling. At
// the end the rows, which models.json names.
#include <algorithm>
#include <cmath>

#include "config/stages.h"
#include "rotary/error.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

// ---- layers that differ from the rest of their model, and a model that rotates clockwise ----

// Sapiens 2: the first and the last layers have a key head for each head, the layers between share key heads.
void share_between(const Part& part, std::vector<Layer>& layers) {
  if (part.keys.has("num_key_value_heads_per_layer")) return;
  const auto read = [&](const char* key) {
    return static_cast<std::size_t>(part.keys.integer(key, 0, max_layers).value_or(8));
  };
  constexpr const char* key = "num_key_value_attention_heads";
  const std::size_t first = read("num_first_full_attention_layers");
  const std::size_t last = read("num_last_full_attention_layers");
  const std::size_t kv_heads = read(key);
  const Origin from = part.keys.has(key) ? from_key(part.keys, key) : Origin{OriginKind::model_default, part.name()};
  for (std::size_t i = first; i + last < layers.size(); ++i) {
    layers[i].kv_heads = static_cast<int>(kv_heads);
    layers[i].origins.push_back({"kv_heads", from});
  }
  part.note(NoteKind::layers, "the layers between the first ", first, " and the last ", last, " share ", kv_heads,
            " key heads");
}

// Baichuan M1: the listed layers slide, and have heads of their own that share the same width.
void swa_layers(const Part& part, std::vector<Layer>& layers) {
  constexpr const char* list_key = "sliding_window_layers";
  const auto read = [&](const char* key) { return static_cast<int>(part.keys.integer(key, 1, max_heads).value_or(0)); };
  const int heads = read("num_swa_attention_heads"), kv_heads = read("num_swa_key_value_heads");
  for (const int i : part.keys.integers(list_key).value_or(std::vector<int>())) {
    if (i < 0 || static_cast<std::size_t>(i) >= layers.size()) part.keys.refuse(list_key, "must list layers");
    Layer& layer = layers[static_cast<std::size_t>(i)];
    layer.type = "sliding_attention";
    layer.heads = heads;
    layer.kv_heads = kv_heads;
    if (kv_heads != 0)
      layer.origins = {{"kv_heads", {OriginKind::given, part.keys.path_of("num_swa_key_value_heads")}}};
    if (heads == 0) continue;
    layer.head_dim = hidden_per_head(part, heads);
    layer.origins.push_back({"heads", {OriginKind::given, part.keys.path_of("num_swa_attention_heads")}});
    layer.origins.push_back({"head_dim", {OriginKind::derived, "hidden_size / num_swa_attention_heads"}});
  }
}

// Ling 3 VL: the layers after the last complete group have attention.
void rest_attends(const Part& part, std::vector<Layer>& layers) {
  if (part.keys.has("layer_types") || part.keys.has("layers_block_type")) return;
  const auto group = static_cast<std::size_t>(part.keys.integer("layer_group_size", 1, max_layers).value_or(5));
  for (std::size_t i = layers.size() / group * group; i < layers.size(); ++i) {
    layers[i].type = "full_attention";
    layers[i].turns = true;
  }
}

// Step 3.5: rope_scaling applies to the layer types of that list.
std::optional<bool> yarn_only(const Part& part, const std::string& layer_type) {
  const auto listed = part.keys.texts("yarn_only_types");
  if (!listed || listed->empty()) return std::nullopt;
  return std::find(listed->begin(), listed->end(), layer_type) != listed->end();
}

// NeoMME: the whole head rotates in the sliding layers.
std::optional<double> whole_where_sliding(const Layer& layer) {
  return has_sliding_rope(layer.type) ? std::optional(1.0) : std::nullopt;
}

// nanochat rotates by minus the angle.
void turn_clockwise(const Part&, ModelRope& model) { model.rope.clockwise = true; }

// ---- the number and width of heads, and their rotated part, where the usual keys do not state them ----

// Falcon: multi_query defaults to true, and then num_kv_heads is not read.
std::optional<int> one_for_all(const Part& part) {
  const bool grouped = part.keys.boolean("new_decoder_architecture", false);
  if (grouped || part.keys.has("multi_query")) return std::nullopt;
  part.by_default("kv_heads");
  return 1;
}

// MiMo-V2-Flash: twice the key heads in the sliding layers.
void sliding_kv_twice(const Part& part, const std::string& layer_type, HeadShape& shape) {
  if (slides(layer_type) && !part.keys.has("swa_num_key_value_heads")) {
    shape.kv_heads *= 2;
    part.derived("kv_heads", "num_key_value_heads * 2");
  }
  read_heads_of_type(part, layer_type, shape);
}

// DeepSeek-OCR 2, Unlimited-OCR: head_dim of the file is ignored.
int always_derived(const Part& part, int heads) {
  const int dim = hidden_per_head(part, heads);
  const auto given = part.keys.integer("head_dim", 0, max_head_dim);
  if (given && *given != dim) {
    part.note(NoteKind::unread, "head_dim is not read: transformers writes hidden_size / heads = ", dim, " over it");
  }
  return dim;
}

// CLVP: max(projection_dim / (2 heads), 32) elements of a head rotate.
std::optional<int> half_head(const Part& part, const HeadShape& heads) {
  constexpr const char* key = "projection_dim";
  constexpr int least = 32;
  const auto width = part.keys.integer(key, 1, std::int64_t{1} << 30);
  const auto half = static_cast<int>(width.value_or(part.family.shape.hidden) / (2 * heads.heads));
  const int dim = std::max(half, least);
  if (dim % 2 != 0 || dim > heads.block) {
    fail(Code::CONFIG_VALUE, "read_config", part.keys.path_of(key), " / (2 * heads) must be even and at most ",
         heads.block, " but got ", dim);
  }
  part.derived("rotary_dim", std::string(key) + " / (2 * heads), at least " + std::to_string(least));
  return dim;
}

// dots3.note: its sliding layers have MLA heads of their own, which a file may state in per_layer_config.
void sliding_heads(const Part& part, const std::string& layer_type, HeadShape& shape) {
  for (const char* key : {"swa_qk_nope_head_dim", "swa_qk_rope_head_dim"}) part.keys.mark(key);
  if (!slides(layer_type) || part.keys.has("per_layer_config")) return;
  const auto read = [&](const char* value, const char* key, int most, int otherwise) {
    return *read_whole(part, {.value = value, .keys = key, .most = most, .otherwise = otherwise});
  };
  shape.heads = read("heads", "swa_num_attention_heads", max_heads, 64);
  shape.kv_heads = read("kv_heads", "swa_num_key_value_heads", max_heads, 64);
  shape.head_dim = read("head_dim", "swa_head_dim", max_head_dim, 256);
  shape.first = read("first", "swa_qk_nope_head_dim", max_head_dim, 192);
  shape.block = shape.head_dim - shape.first;
  shape.block_from = {OriginKind::derived, "swa_head_dim - swa_qk_nope_head_dim"};
  constexpr const char* own_key = "swa_qk_rope_head_dim";
  if (const auto own = read_whole(part, {nullptr, own_key, max_head_dim})) {
    shape.block = *own;
    shape.block_from = from_key(part.keys, own_key);
    shape.head_dim = shape.first + shape.block;
  }
  if (shape.block < 2) part.keys.refuse("swa_head_dim", "must leave elements beside swa_qk_nope_head_dim");
}

// ---- Gemma 4 and the models after it: the full_attention layers have a head_dim of their own ----

// global_head_dim, and fewer key heads where the keys serve as values too; others have no such switch.
void full_heads(const Part& part, HeadShape& shape, int default_kv_heads) {
  const Object& keys = part.keys;
  if (keys.has("per_layer_config")) return;
  shape.head_dim = shape.block =
      *read_whole(part, {.value = "head_dim", .keys = "global_head_dim", .most = max_head_dim, .otherwise = 512});
  if (!keys.boolean("attention_k_eq_v").value_or(!keys.has("attention_k_eq_v"))) return;
  if (default_kv_heads != 0) shape.kv_heads = default_kv_heads;
  const auto kv_heads = read_whole(part, {"kv_heads", "num_global_key_value_heads", max_heads});
  shape.kv_heads = kv_heads.value_or(shape.kv_heads);
}

template <int default_kv_heads>
void heads_of_type(const Part& part, const std::string& layer_type, HeadShape& shape) {
  if (layer_type == "full_attention") full_heads(part, shape, default_kv_heads);
  read_heads_of_type(part, layer_type, shape);
}

// ---- ChatGLM: original_rope: false pairs in halves, and the base is 10000 times rope_ratio ----

Pairing chatglm_pairing(const Part& part, Pairing default_value) {
  const auto original = part.keys.boolean("original_rope");
  if (!original) return default_value;
  part.record("pairing", "original_rope");
  if (*original) return default_value;
  part.note(NoteKind::read_as, "original_rope is false: the pairing is half");
  return Pairing::half;
}

double chatglm_base(const Part& part) {
  const double ratio = part.keys.number("rope_ratio").value_or(1);
  const double base = ratio * part.family.base;
  if (!(base > 1)) part.keys.refuse("rope_ratio", "times 10000 must be above 1");
  part.note(NoteKind::derived, "base = 10000 * rope_ratio = ", spelled(base));
  part.derived("base", "10000 * rope_ratio");
  if (!part.keys.has("rope_ratio")) part.by_default("base");
  const std::string name = lower(string_of(part.keys.json(), "_name_or_path"));
  if (ratio != 1 && name.find("chatglm3") == name.npos && name.find("glm-4") == name.npos) {
    part.note(NoteKind::warning,
              "rope_ratio is read as ChatGLM3 and GLM-4 mean it, and the file does not say that it is ChatGLM2-6B-32K, "
              "whose code divides the positions by it: model_type chatglm2 here");
  }
  return base;
}

// The first ChatGLM: each half of a head has its own coordinate, unless position_encoding_2d is false.
bool has_two_blocks(const Part& part) { return part.keys.boolean("position_encoding_2d", true); }

std::optional<int> block_of_chatglm(const Part& part, const HeadShape& heads) {
  if (!has_two_blocks(part)) return std::nullopt;
  part.derived("rotary_dim", "head_dim / 2");
  return heads.block / 2;
}

std::vector<ModelRope> two_coordinates(const Part& part, const ModelRope& model) {
  if (!has_two_blocks(part)) return {model};
  std::vector<ModelRope> halves(2, model);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const auto pairs = static_cast<std::size_t>(model.rope.rotary_dim / 2);
    halves[i].rope.axis.assign(pairs, static_cast<std::uint8_t>(i));
    halves[i].axis_names = {"position", "block"};
    halves[i].origins.push_back({"axis", {OriginKind::model_default, part.name()}});
  }
  halves[1].first = model.rope.rotary_dim;
  halves[1].origins.push_back({"first", {OriginKind::derived, "head_dim / 2"}});
  part.note(NoteKind::axes, "the first half of a head turns by the position, the second by the position in its block");
  return halves;
}

// ---- flash-linear-attention: the layers that attn lists attend, with heads of their own; the others do not turn ----

void listed_layers(const Part& part, std::vector<Layer>& layers) {
  static const Json samba = parse_json(R"({"layers": [1, 3, 5, 7, 9, 11, 13, 15, 17], "num_heads": 18})");
  for (Layer& layer : layers) layer.turns = false;
  const Json* given = part.keys.value("attn");
  const bool by_default = given == nullptr && part.name() == "samba";
  if (given == nullptr && !by_default)
    return part.note(NoteKind::no_rope, "attn is not given: no layer of ", part.name(), " has a rope");
  const Json& attn = by_default ? samba : *given;
  if (!attn.is_structured()) part.keys.refuse("attn", "must be an object or a list of objects");
  if (by_default) part.note(NoteKind::model_default, "attn is not given: ", shown(samba), ", the default of samba");
  const auto read = [&](const Json& spec) {
    if (!spec.is_object()) part.keys.refuse("attn", "must be an object or a list of objects");
    const Object keys(spec, part.keys.path_of("attn"), part.reading.ledger, by_default ? part.name() : "");
    Layer own;
    own.heads = *read_whole(part, {.value = nullptr,
                                   .keys = "num_heads",
                                   .most = max_heads,
                                   .needed_for = "how many heads attn has",
                                   .in = &keys});
    own.kv_heads = read_whole(part, {.value = nullptr, .keys = "num_kv_heads", .most = max_heads, .in = &keys})
                       .value_or(own.heads);
    own.head_dim = hidden_per_head(part, own.heads);
    own.base = keys.number("rope_theta").value_or(part.family.base);
    own.origins = {{"layers", from_key(keys, "layers")},
                   {"heads", from_key(keys, "num_heads")},
                   {"kv_heads", from_key(keys, keys.has("num_kv_heads") ? "num_kv_heads" : "num_heads")},
                   {"head_dim", {OriginKind::derived, "hidden_size / attn.num_heads"}}};
    if (keys.has("rope_theta")) {
      own.origins.push_back({"base", from_key(keys, "rope_theta")});
    } else {
      own.origins.push_back({"base", {OriginKind::model_default, part.name()}});
    }
    for (const int i : keys.integers("layers").value_or(std::vector<int>())) {
      if (i < 0 || (static_cast<std::size_t>(i) >= layers.size() && !by_default))
        keys.refuse("layers", "must list layers");
      if (static_cast<std::size_t>(i) < layers.size()) layers[static_cast<std::size_t>(i)] = own;
    }
  };
  if (attn.is_object()) return read(attn);
  for (const Json& spec : attn) read(spec);
}

// ---- DeepSeek-V4: the last elements of a head turn, and yarn leaves their length as it is ----

std::optional<int> rope_head_dim(const Part& part, const HeadShape& heads) {
  constexpr const char* key = "qk_rope_head_dim";
  const auto dim = read_whole(part, {.value = "rotary_dim", .keys = key, .most = heads.block, .least = 2});
  if (dim && *dim % 2 != 0) part.keys.refuse(key, "must be even");
  return dim;
}

void keep_length(const Part& part, Yarn& yarn) {
  if (yarn.attention_factor) return;
  yarn.attention_factor = 1;
  part.by_default("attention_factor");
  part.note(NoteKind::scaling, "yarn without an attention factor, as ", part.name(), " has it");
}

void put_last(const Part& part, ModelRope& model) {
  model.first = model.rope.head_dim - model.rope.rotary_dim;
  if (model.first != 0) part.derived("first", "head_dim - rotary_dim");
}

// Falcon-Perception, Falcon-OCR: the first half of a head rotates by the place in the text, the second by directions in
// the image, which the checkpoint has for each head.
void turn_by_directions(const Part& part, ModelRope& model) {
  Rope& rope = model.rope;
  const int half = rope.head_dim / 4;
  if (rope.head_dim % 4 != 0) part.keys.refuse("head_dim", "must be a multiple of 4");
  for (int i = 0; i < 2 * half; ++i) {
    rope.inv_freq.push_back(i < half ? std::pow(rope.base, -double(i) / half) : 0);
    rope.axis.push_back(static_cast<std::uint8_t>(i < half ? 0 : 1 + i % 2));
  }
  part.derived("inv_freq", "base^(-i / " + std::to_string(half) + ") of the first " + std::to_string(half) + " pairs");
  part.by_default("axis");
  model.axis_names = {"time", "height", "width"};
  model.coordinates = true;
  model.kv_heads = model.heads;
  part.derived("kv_heads", "heads, for each of which a key is repeated");
  part.note(NoteKind::model,
            "a key is repeated for each query head that shares it before it turns; tokens of text are at height and "
            "width 0");
}

// Intern-S1-Pro: FoPE (arXiv:2412.17739), if the rope has one of its keys.
void refuse_fope(const Part& part, ModelRope&) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto dict = part.keys.has(key) ? part.keys.object(key) : std::nullopt;
    if (!dict) continue;
    if (!dict->integer("num_inv_freq", 1, max_head_dim) && !dict->boolean("fope_sep_head") &&
        !dict->number("fope_init_factor"))
      continue;
    fail(Code::ROPE, "read_config", "a rope must be a rotation here but ", part.name(),
         " has FoPE, whose cos and sin two tensors of the checkpoint mix");
  }
}

// SGLang models/grok.py, get_rope_scaling: the keys of the scaling are at the top level.
std::optional<Object> top_level_scaling(const Part& part) {
  const std::string type = part.keys.text("rope_type").value_or("original");
  const bool original = type == "original";
  for (const std::string key : {"attn_factor", "beta_fast", "beta_slow", "extrapolation_factor"}) {
    const bool unused = original || type == "theta_scale" || key == "attn_factor";
    if (!unused || !part.keys.has(key)) continue;
    part.note(NoteKind::unread, key, " is not read: ", part.name(), " does not use it");
    part.keys.mark(key);
  }
  if (original) return std::nullopt;
  for (const char* key : {"scaling_factor", "original_max_position_embeddings"}) {
    if (!part.keys.has(key))
      fail(Code::CONFIG_MISSING, "read_config", "rope_type ", type, " must have ", key, " beside it but has none");
  }
  return part.keys;
}

// Grok: ScalingRotaryEmbedding has no amplitude, whatever attn_factor says.
void without_amplitude(const Part& part, Yarn& yarn) {
  yarn.attention_factor = yarn.attn_factor = 1;
  part.by_default("attention_factor");
}

std::optional<int> half_of_grok(const Part& part, const HeadShape& shape) {
  if (!part.keys.boolean("rope_rotate_half_dims", false)) return std::nullopt;
  part.record("rotary_dim", "rope_rotate_half_dims");
  return shape.head_dim / 2;
}

// Phi-3.5-MoE in transformers: long_factor is never used.
void short_factors_only(const Part& part, LongRope& rope) {
  rope.long_factor = rope.short_factor;
  part.derived("scaling.long_factor", "short_factor");
  part.note(NoteKind::unread, "long_factor is not used: transformers turns ", part.name(),
            " by short_factor at every length");
}

// ---- one head of the whole width: q and k turn before the heads are cut (EfficientLoFTR), or the audio encoder's
// hidden states turn once (Music Flamingo) ----

// The width of the sub-config `inner`, else the part's own.
HeadShape one_head(const Part& part, const char* inner) {
  HeadShape shape;
  for (const char* value : {"heads", "kv_heads"}) part.by_default(value);
  shape.heads = shape.kv_heads = 1;
  const auto below = inner != nullptr ? part.keys.object(inner) : std::nullopt;
  const auto width =
      below ? read_whole(part, {.value = "head_dim", .keys = hidden_keys, .most = max_head_dim, .in = &*below})
            : std::nullopt;
  shape.head_dim = shape.block = width ? *width : read_head_dim(part, 1);
  return shape;
}

HeadShape hidden_as_head(const Part& part) { return one_head(part, nullptr); }

int once(const Part& part) {
  part.by_default("layers");
  return 1;
}

HeadShape audio_width_as_head(const Part& part) { return one_head(part, "audio_config"); }

constexpr Quirk quirk_rows[] = {
    {.name = "baichuan_m1", .layers = swa_layers},
    {.name = "bailing_moe_v3_vl", .layers = rest_attends},
    {.name = "chatglm", .pairing = chatglm_pairing, .base = chatglm_base},
    {.name = "chatglm2", .pairing = chatglm_pairing},
    {.name = "chatglm_6b", .rotary_dim = block_of_chatglm, .blocks = two_coordinates},
    {.name = "clvp", .rotary_dim = half_head},
    {.name = "deepseek_ocr2", .head_dim = always_derived},
    {.name = "deepseek_v4", .rotary_dim = rope_head_dim, .yarn = keep_length, .rope = put_last},
    {.name = "dots3_note", .heads_of_type = sliding_heads},
    {.name = "efficientloftr", .head_shape = hidden_as_head},
    {.name = "embedding_gemma2", .heads_of_type = heads_of_type<1>},
    {.name = "falcon", .kv_heads = one_for_all},
    {.name = "falcon_perception", .rope = turn_by_directions},
    {.name = "fla", .layers = listed_layers},
    {.name = "fope", .rope = refuse_fope},
    {.name = "gemma4", .heads_of_type = heads_of_type<0>},
    {.name = "grok", .rotary_dim = half_of_grok, .scaling = top_level_scaling, .yarn = without_amplitude},
    {.name = "mimo_v2_flash", .heads_of_type = sliding_kv_twice},
    {.name = "music_flamingo", .layer_count = once, .head_shape = audio_width_as_head},
    {.name = "nanochat", .rope = turn_clockwise},
    {.name = "neomme", .partial = whole_where_sliding},
    {.name = "phimoe", .longrope = short_factors_only},
    {.name = "sapiens2", .layers = share_between},
    {.name = "step3p5", .is_scaled = yarn_only},
};

}  // namespace

constexpr Quirk quirks::none = {};

const Quirk* find_quirk(std::string_view name) noexcept {
  const Quirk* found =
      std::find_if(std::begin(quirk_rows), std::end(quirk_rows), [&](const Quirk& row) { return row.name == name; });
  return found == std::end(quirk_rows) ? nullptr : found;
}

}  // namespace rotary::files
