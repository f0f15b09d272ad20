// Native formats without a model_type: params.json of Mistral and of Meta's Llama (interleaved pairs), and the
// original/config.json of gpt-oss.
#include "rotary/error.h"
#include "stages.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

constexpr std::int64_t max_width = std::int64_t{1} << 30;

double checked_base(const Object& keys, double default_value) {
  const double base = keys.number("rope_theta").value_or(default_value);
  if (!(base > 1)) keys.refuse("rope_theta", "must be above 1");
  return base;
}

void add(const Part& part, ModelRope&& model, int layers, std::int64_t context) {
  ModelPart& whole = part.add_to_model(layers);
  whole.context = context;
  whole.model_type.clear();
  model.origins = part.origins().of_rope();
  part.reading.model.ropes.push_back(std::move(model));
  part.reading.parts = 1;
}

class Params {
 public:
  Params(const Part& part, bool meta) : part_(part), keys_(part.keys), meta_(meta) {}

  void read() {
    part_.note(NoteKind::read_as, "params.json of ", (meta_ ? "Meta" : "Mistral"),
               ": the native weights pair interleaved (the converted ones of Hugging Face half)");
    ModelRope model;
    read_heads(model);
    read_layers(model);
    model.rope.base = base();
    part_.by_default("pairing");
    model.rope.pairing = given_pairing(part_, Pairing::interleaved, "interleaved");
    part_.by_default("scaling");
    part_.derived("attention_factor", "1 for default");
    model.rope.scaling = meta_ ? meta_scaling() : mistral_scaling();
    add(part_, std::move(model), layers_, context_length(keys_).value_or(0));
    const std::vector<int> without = layers_without_rope(part_.reading.model, part_.path);
    read_query_scale(part_, {}, Unscaled{}, static_cast<std::size_t>(layers_), without);
    if (keys_.has("vision_encoder")) read_vision("vision_encoder", "pixtral");
    if (keys_.has("vision_args")) read_vision("vision_args", "llama4_vision_model");
    read_audio();
  }

 private:
  int required(const char* value, const char* key, std::int64_t most) {
    const auto given = read_whole(part_, {value, key, most});
    if (given) return *given;
    fail(Code::CONFIG_MISSING, "read_config", "params.json must have ", key, " but has none");
  }

  void read_heads(ModelRope& model) {
    record_context(part_);
    model.heads = required("heads", "n_heads", max_heads);
    part_.derived("kv_heads", "n_heads");
    const auto kv_heads = read_whole(part_, {"kv_heads", "n_kv_heads", max_heads});
    model.kv_heads = kv_heads.value_or(model.heads);
    if (!kv_heads) part_.note(NoteKind::derived, "n_kv_heads is not given: as many as n_heads");
    const int dim = required(nullptr, "dim", max_width);
    const bool mla = keys_.has("qk_rope_head_dim") || keys_.has("qk_nope_head_dim") || keys_.has("kv_lora_rank");
    if (mla) {
      model.rope.rotary_dim = required("rotary_dim", "qk_rope_head_dim", max_head_dim);
      model.first = required("first", "qk_nope_head_dim", max_head_dim);
      model.rope.head_dim = model.first + model.rope.rotary_dim;
      part_.derived("head_dim", "qk_nope_head_dim + qk_rope_head_dim");
    } else {
      model.rope.head_dim = model.rope.rotary_dim = head_dim(dim, model.heads);
      part_.derived("rotary_dim", "head_dim");
    }
    if (model.rope.rotary_dim % 2 != 0)
      keys_.refuse(mla ? "qk_rope_head_dim" : keys_.has("head_dim") ? "head_dim" : "dim", "must give even heads");
  }

  int head_dim(int dim, int heads) {
    const int given =
        read_whole(part_, {.value = "head_dim", .keys = "head_dim", .most = max_head_dim, .least = 0}).value_or(0);
    if (given != 0) return given;
    if (dim % heads != 0 || dim / heads > max_head_dim) {
      keys_.refuse("dim", "must be a multiple of the ", heads, " heads, a head at most ", max_head_dim);
    }
    part_.note(NoteKind::derived, "head_dim is not given: dim / n_heads = ", dim / heads);
    part_.derived("head_dim", "dim / n_heads");
    return dim / heads;
  }

  void read_layers(ModelRope& model) {
    layers_ = required("layers", "n_layers", max_layers);
    const auto interval = read_whole(part_, {"layers", "nope_layer_interval", max_layers, 2});  // Llama 4
    for (int i = 0; i < layers_; ++i) {
      if (!interval || (i + 1) % *interval != 0) model.layers.push_back(i);
    }
    if (interval) part_.note(NoteKind::layers, "every ", *interval, "th layer has no rope (nope_layer_interval)");
  }

  double base() {
    part_.record_or_default("base", "rope_theta");
    // Llama 2's code has 10000 built in. mistral-inference: 10000 for the first model, which slides, 1000000 after.
    const double default_value = meta_ || keys_.has("sliding_window") ? 10000 : 1000000;
    if (!keys_.has("rope_theta")) {
      part_.note(NoteKind::model_default, "rope_theta is not given: ", spelled(default_value), ", the default of ",
                 (meta_ ? "Meta's" : "Mistral's"), " code");
    }
    return checked_base(keys_, default_value);
  }

  // llama-models: factor 8 unless the file says otherwise, low 1, high 4, 8192.
  Scaling meta_scaling() {
    const Origins unscaled = part_.origins();
    const auto scaled = keys_.boolean("use_scaled_rope");
    Llama3 scaling{.factor = 8, .trained_length = 8192};
    read_native(part_, keys_,
                {{.name = "factor", .key = "rope_scaling_factor", .least = 1},
                 {.name = "high", .key = "rope_high_freq_factor", .least = 1},  // not below the low one
                 {.name = "low"},
                 {.name = "trained_length"}},
                {OriginKind::model_default, "llama"}, scaling);
    const bool has_factor = keys_.has("rope_scaling_factor");
    if (!scaled) part_.note(NoteKind::model_default, "use_scaled_rope is not given: ", (has_factor ? "true" : "false"));
    if (!scaled.value_or(has_factor)) {
      part_.origins() = unscaled;
      return Unscaled{};
    }
    part_.record("scaling", scaled ? "use_scaled_rope" : "rope_scaling_factor");
    part_.derived("attention_factor", "1 for llama3");
    if (!has_factor) {
      part_.note(
          NoteKind::scaling,
          "use_scaled_rope: llama3 scaling with factor 8, low 1, high 4, 8192 (built into Meta's code; the Llama 3.2 "
          "text models were trained with 32: add rope_scaling_factor for them)");
    }
    return scaling;
  }

  Scaling mistral_scaling() {
    const auto keys = keys_.object("yarn");
    if (!keys) return Unscaled{};
    Yarn yarn;
    read_native(part_, *keys,
                {{.name = "factor", .key = "factor", .object = "yarn", .least = 1},
                 {.name = "trained_length", .key = "original_max_position_embeddings", .object = "yarn"},
                 {.name = "beta_fast", .key = "beta", .least = 0},
                 {.name = "beta_slow", .key = "alpha", .least = 0},
                 {.name = "truncate"}},
                {OriginKind::method_default, "yarn"}, yarn);
    if (yarn.beta_fast == 0) yarn.beta_fast = 32;
    if (yarn.beta_slow == 0) yarn.beta_slow = 1;
    part_.record("scaling", "yarn");
    part_.derived("attention_factor", "0.1 * ln(factor) + 1");
    part_.note(NoteKind::read_as, "yarn: beta is beta_fast, alpha is beta_slow");
    if (!keys->boolean("apply_scale", true)) {
      yarn.mscale = yarn.mscale_all_dim = 1;
      part_.origins().read("attention_factor", *keys, "apply_scale");
      part_.note(NoteKind::scaling, "yarn.apply_scale is false: the attention factor is 1");
    }
    return yarn;
  }

  void read_vision(const char* key, const char* type) {
    Family tower = *find_family(type);
    tower.pairing = Pairing::interleaved;
    part_.reading.note(NoteKind::read_as, key, "the native tower pairs interleaved");
    read_vision_part(Part{part_.reading, key, *keys_.object(key), tower});
  }

  // Voxtral Realtime. The encoder of the first Voxtral has other positions.
  void read_audio() {
    std::optional<Object> keys = part_.keys;
    for (const char* key : {"multimodal", "whisper_model_args", "encoder_args"}) {
      keys = keys->object(key);
      if (!keys) return;
    }
    if (!keys->has("rope_theta") && keys->text("pos_embed") != "rope") return;
    Family tower = *find_family("voxtral_realtime_encoder");
    tower.pairing = Pairing::interleaved;
    tower.base = 1e6;
    part_.reading.note(NoteKind::read_as, keys->path(), "the native encoder pairs interleaved");
    read_text_part(Part{part_.reading, keys->path(), *keys, tower});
  }

  const Part& part_;
  const Object& keys_;
  bool meta_;
  int layers_ = 0;
};

// vLLM saves Mistral's params.json with the model_type "transformer".
bool names_model(const Object& keys) { return keys.has("model_type") && keys.json().at("model_type") != "transformer"; }

bool is_gpt_oss(const Object& keys) {
  return !keys.has("model_type") && keys.has("initial_context_length") && keys.has("num_hidden_layers");
}

// gpt_oss/torch/model.py: yarn without truncation; alpha is beta_slow, beta is beta_fast.
void read_gpt_oss(const Part& part) {
  const Object& keys = part.keys;
  part.note(NoteKind::read_as,
            "the original configuration of gpt-oss: rope_ntk_beta is beta_fast, rope_ntk_alpha is beta_slow");
  const HeadShape heads = head_shape(part, Layer{});
  ModelRope model;
  const int layers = layer_count(part);
  for (int i = 0; i < layers; ++i) model.layers.push_back(i);
  model.heads = heads.heads;
  model.kv_heads = heads.kv_heads;
  model.rope.head_dim = model.rope.rotary_dim = heads.head_dim;
  if (heads.head_dim % 2 != 0) keys.refuse("head_dim", "must be even");
  part.derived("rotary_dim", "head_dim");
  part.record_or_default("base", "rope_theta");
  model.rope.base = checked_base(keys, part.family.base);
  part.by_default("pairing");
  model.rope.pairing = given_pairing(part, Pairing::half, "");
  const Origins unscaled = part.origins();
  Yarn yarn{.truncate = false};
  read_native(part, keys,
              {{.name = "factor", .key = "rope_scaling_factor", .least = 1},
               {.name = "trained_length", .key = "initial_context_length", .object = "gpt_oss"},
               {.name = "beta_fast", .key = "rope_ntk_beta", .least = 0},
               {.name = "beta_slow", .key = "rope_ntk_alpha", .least = 0},
               {.name = "truncate"}},
              {OriginKind::model_default, part.name()}, yarn);
  if (yarn.factor > 1) {
    model.rope.scaling = yarn;
    part.derived("attention_factor", "0.1 * ln(factor) + 1");
  } else {
    part.origins() = unscaled;
    part.derived("attention_factor", "1 for default");
  }
  part.record_or_default("scaling", "rope_scaling_factor");
  add(part, std::move(model), layers, 0);
}

// Meta's files have multiple_of, from which the feed-forward width follows; Mistral's have hidden_dim.
bool is_meta(const Object& keys) {
  return keys.has("multiple_of") || keys.has("use_scaled_rope") || keys.has("ffn_dim_multiplier");
}

}  // namespace

// dim, n_layers and n_heads stand in other files too: DistilBERT's of 2019 with hidden_dim, Falcon-Perception's
// model_args with norm_eps. A row of "misnamed" in models.json precedes this.
bool is_params(const Object& keys) {
  if (is_gpt_oss(keys)) return true;
  if (names_model(keys) || !keys.has("dim") || !keys.has("n_layers") || !keys.has("n_heads")) return false;
  return keys.has("n_dense_layers") || (keys.has("norm_eps") && (keys.has("hidden_dim") || is_meta(keys)));
}

void read_params(Reading& reading, const Object& keys) {
  const bool meta = is_meta(keys);
  const bool gpt_oss = is_gpt_oss(keys);
  if (!gpt_oss && keys.has("n_dense_layers")) {
    fail(
        Code::MODEL_TYPE, "read_config",
        "a params.json must be Mistral's or Meta's but n_dense_layers is a key of DeepSeek's own inference code, whose "
        "base and scaling stand in the code: read the model's config.json");
  }
  const Part part{reading, "", keys, *find_family(gpt_oss ? "gpt_oss" : meta ? "llama" : "mistral")};
  reading.model.model_type = part.name();
  gpt_oss ? read_gpt_oss(part) : Params(part, meta).read();
}

}  // namespace rotary::files
