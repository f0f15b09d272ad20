// Native formats without a model_type: params.json of Mistral and of Meta's Llama (interleaved pairs), and the
// original/config.json of gpt-oss.
#include "caller_words.h"
#include "fields.h"
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

void check_least(const Object& keys, const NativeKey& row, double value) {
  if (!row.least) return;
  if (!(value >= *row.least)) keys.refuse(row.key, "must be at least " + spelled(*row.least));
  if (!(value <= max_factor)) keys.refuse(row.key, "must be at most " + spelled(max_factor));
}

// The value of a row: it must be there where the row names the object that must have it.
template <class Value>
std::optional<Value> stated(const NativeKey& row, const std::optional<Value>& value) {
  if (value || row.object.empty()) return value;
  fail(Code::CONFIG_MISSING, "read_config", std::string(row.object) + " must have " + row.key + " but has none");
}

class Params {
 public:
  Params(Reading& reading, const Object& keys) : reading_(reading), keys_(keys) {}

  void read() {
    // Meta's files say multiple_of and how the feed-forward width follows; Mistral's say hidden_dim.
    meta_ = keys_.has("multiple_of") || keys_.has("use_scaled_rope") || keys_.has("ffn_dim_multiplier");
    reading_.model.model_type = meta_ ? "llama" : "mistral";
    reading_.note("", std::string("params.json of ") + (meta_ ? "Meta" : "Mistral") +
                          ": the native weights pair interleaved (the converted ones of Hugging Face half)");
    ModelRope model;
    read_heads(model);
    read_layers(model);
    model.rope.base = base();
    model.rope.pairing = reading_.options.pairing.value_or(Pairing::interleaved);
    origins().by_default("pairing", reading_.model.model_type);
    if (reading_.options.pairing) origins().given("pairing", std::string(caller_words::pairing));
    if (model.rope.pairing != Pairing::interleaved) {
      reading_.note("", std::string("the pairing given, ") + name(model.rope.pairing) + ", overrides interleaved");
    }
    origins().by_default("scaling", reading_.model.model_type);
    origins().derived("attention_factor", "1 for default");
    model.rope.scaling = meta_ ? meta_scaling() : mistral_scaling();
    model.origins = origins().of_rope();
    reading_.model.ropes.push_back(std::move(model));
    reading_.parts = 1;
    if (keys_.has("vision_encoder")) read_vision("vision_encoder", "pixtral");
    if (keys_.has("vision_args")) read_vision("vision_args", "llama4_vision_model");
    read_audio();
  }

 private:
  Origins& origins() { return reading_.origins; }
  void record(const char* value, const char* key) { origins().read(value, keys_, key); }
  int required(const char* value, const char* key, std::int64_t most) {
    const auto given = keys_.integer(key, 1, most);
    if (!given)
      fail(Code::CONFIG_MISSING, "read_config", "params.json must have " + std::string(key) + " but has none");
    if (value != nullptr) record(value, key);
    return static_cast<int>(*given);
  }

  void read_heads(ModelRope& model) {
    model.context = stated_context(reading_, keys_);
    model.heads = required("heads", "n_heads", max_heads);
    model.kv_heads = static_cast<int>(keys_.integer("n_kv_heads", 1, max_heads).value_or(model.heads));
    origins().derived("kv_heads", "n_heads");
    if (keys_.has("n_kv_heads")) {
      record("kv_heads", "n_kv_heads");
    } else {
      reading_.note("", "n_kv_heads is not given: as many as n_heads");
    }
    const int dim = required(nullptr, "dim", max_width);
    if (keys_.has("qk_rope_head_dim") || keys_.has("qk_nope_head_dim") || keys_.has("kv_lora_rank")) {  // MLA
      model.rope.rotary_dim = required("rotary_dim", "qk_rope_head_dim", max_head_dim);
      model.first = required("first", "qk_nope_head_dim", max_head_dim);
      model.rope.head_dim = model.first + model.rope.rotary_dim;
      origins().derived("head_dim", "qk_nope_head_dim + qk_rope_head_dim");
    } else {
      record("head_dim", "head_dim");
      origins().derived("rotary_dim", "head_dim");
      const auto head_dim = keys_.integer("head_dim", 0, max_head_dim);
      if (!head_dim || *head_dim == 0) {
        if (dim % model.heads != 0 || dim / model.heads > max_head_dim) {
          keys_.refuse("dim", "must be a multiple of the " + std::to_string(model.heads) + " heads, a head at most " +
                                  std::to_string(max_head_dim));
        }
        reading_.note("", "head_dim is not given: dim / n_heads = " + std::to_string(dim / model.heads));
        origins().derived("head_dim", "dim / n_heads");
      }
      model.rope.head_dim = head_dim && *head_dim > 0 ? static_cast<int>(*head_dim) : dim / model.heads;
      model.rope.rotary_dim = model.rope.head_dim;
    }
    if (model.rope.rotary_dim % 2 != 0)
      keys_.refuse(keys_.has("head_dim") ? "head_dim" : "dim", "must give even heads");
  }

  void read_layers(ModelRope& model) {
    const int layers = required("layers", "n_layers", max_layers);
    const auto interval = keys_.integer("nope_layer_interval", 1, max_layers);  // Llama 4
    if (interval) record("layers", "nope_layer_interval");
    for (int i = 0; i < layers; ++i) {
      const bool turns = !interval || (i + 1) % *interval != 0;
      (turns ? model.layers : model.layers_without_rope).push_back(i);
    }
    if (interval)
      reading_.note("", "every " + std::to_string(*interval) + "th layer has no rope (nope_layer_interval)");
  }

  double base() {
    if (keys_.has("rope_theta")) {
      record("base", "rope_theta");
      return checked_base(keys_, 0);
    }
    // Llama 2's code had 10000 built in. mistral-inference: 10000 for the first model, which slides, 1000000 after.
    const double default_value = meta_ || keys_.has("sliding_window") ? 10000 : 1000000;
    reading_.note("", "rope_theta is not given: " + spelled(default_value) + ", the default of " +
                          (meta_ ? "Meta's" : "Mistral's") + " code");
    origins().by_default("base", reading_.model.model_type);
    return default_value;
  }

  // llama-models: factor 8 unless the file says otherwise, low 1, high 4, 8192.
  Scaling meta_scaling() {
    const Origins unscaled = origins();
    const auto scaled = keys_.boolean("use_scaled_rope");
    Llama3 scaling{.factor = 8, .trained_length = 8192};
    read_native(reading_, keys_,
                {{.name = "factor", .key = "rope_scaling_factor", .least = 1},
                 {.name = "high", .key = "rope_high_freq_factor", .least = 1},  // not below the low one
                 {.name = "low"},
                 {.name = "trained_length"}},
                "llama", scaling);
    const bool has_factor = keys_.has("rope_scaling_factor");
    if (!scaled) reading_.note("", "use_scaled_rope is not given: " + std::string(has_factor ? "true" : "false"));
    if (!scaled.value_or(has_factor)) {
      origins() = unscaled;
      return Unscaled{};
    }
    record("scaling", scaled ? "use_scaled_rope" : "rope_scaling_factor");
    origins().derived("attention_factor", "1 for llama3");
    if (!has_factor) {
      reading_.note("",
                    "use_scaled_rope: llama3 scaling with factor 8, low 1, high 4, 8192 (built into Meta's code; the "
                    "Llama 3.2 text models were trained with 32: add rope_scaling_factor for them)");
    }
    return scaling;
  }

  Scaling mistral_scaling() {
    if (keys_.has("llama_4_scaling")) {
      keys_.mark_all("llama_4_scaling");
      reading_.note("", "llama_4_scaling scales the queries by position; it is not part of the rotation");
    }
    keys_.mark("yarn");
    if (!keys_.has("yarn")) return Unscaled{};
    const Object keys = *keys_.object("yarn");
    Yarn yarn;
    read_native(reading_, keys,
                {{.name = "factor", .key = "factor", .object = "yarn", .least = 1},
                 {.name = "trained_length", .key = "original_max_position_embeddings", .object = "yarn"},
                 {.name = "beta_fast", .key = "beta", .least = 0},
                 {.name = "beta_slow", .key = "alpha", .least = 0},
                 {.name = "truncate"}},
                "yarn", yarn);
    if (yarn.beta_fast == 0) yarn.beta_fast = 32;
    if (yarn.beta_slow == 0) yarn.beta_slow = 1;
    record("scaling", "yarn");
    origins().derived("attention_factor", "0.1 * ln(factor) + 1");
    reading_.note("", "yarn: beta is beta_fast, alpha is beta_slow");
    if (!keys.boolean("apply_scale", true)) {
      yarn.mscale = yarn.mscale_all_dim = 1;
      origins().read("attention_factor", keys, "apply_scale");
      reading_.note("", "yarn.apply_scale is false: the attention factor is 1");
    }
    return yarn;
  }

  void read_vision(const char* key, const char* type) {
    Family tower = *find_family(type);
    tower.pairing = Pairing::interleaved;
    reading_.note(key, "the native tower pairs interleaved");
    read_vision_part(reading_, Part{key, *keys_.object(key), tower, true});
  }

  // Voxtral Realtime. The encoder of the first Voxtral has other positions.
  void read_audio() {
    std::optional<Object> keys = keys_;
    for (const char* key : {"multimodal", "whisper_model_args", "encoder_args"}) {
      keys = keys->has(key) ? keys->object(key) : std::nullopt;
      if (!keys) return;
    }
    if (!keys->has("rope_theta") && keys->text("pos_embed") != "rope") return;
    Family tower = *find_family("voxtral_realtime_encoder");
    tower.pairing = Pairing::interleaved;
    tower.base = 1e6;
    reading_.note(keys->path(), "the native encoder pairs interleaved");
    read_text_part(reading_, Part{keys->path(), *keys, tower, true});
  }

  Reading& reading_;
  const Object& keys_;
  bool meta_ = false;
};

// vLLM saves Mistral's params.json with the model_type "transformer".
bool names_model(const Object& keys) { return keys.has("model_type") && keys.json().at("model_type") != "transformer"; }

bool is_gpt_oss(const Object& keys) {
  return !keys.has("model_type") && keys.has("initial_context_length") && keys.has("num_hidden_layers");
}

// gpt_oss/torch/model.py: yarn without truncation; alpha is beta_slow, beta is beta_fast.
void read_gpt_oss(Reading& reading, const Object& keys) {
  const Part part{"", keys, *find_family("gpt_oss"), true};
  reading.model.model_type = "gpt_oss";
  reading.note("", "the original configuration of gpt-oss: rope_ntk_beta is beta_fast, rope_ntk_alpha is beta_slow");
  const HeadShape heads = head_shape(reading, part, Layer{});
  ModelRope model;
  for (int i = 0, layers = layer_count(reading, part); i < layers; ++i) model.layers.push_back(i);
  model.heads = heads.heads;
  model.kv_heads = heads.kv_heads;
  model.rope.head_dim = model.rope.rotary_dim = heads.head_dim;
  if (heads.head_dim % 2 != 0) keys.refuse("head_dim", "must be even");
  Origins& origins = reading.origins;
  origins.derived("rotary_dim", "head_dim");
  origins.read_or_by_default("base", keys, "rope_theta", "gpt_oss");
  origins.by_default("pairing", "gpt_oss");
  if (reading.options.pairing) origins.given("pairing", std::string(caller_words::pairing));
  model.rope.base = checked_base(keys, part.family.base);
  model.rope.pairing = reading.options.pairing.value_or(Pairing::half);
  const Origins unscaled = origins;
  Yarn yarn{.truncate = false};
  read_native(reading, keys,
              {{.name = "factor", .key = "rope_scaling_factor", .least = 1},
               {.name = "trained_length", .key = "initial_context_length", .object = "gpt_oss"},
               {.name = "beta_fast", .key = "rope_ntk_beta", .least = 0},
               {.name = "beta_slow", .key = "rope_ntk_alpha", .least = 0},
               {.name = "truncate"}},
              "gpt_oss", yarn);
  if (yarn.factor > 1) {
    model.rope.scaling = yarn;
    origins.derived("attention_factor", "0.1 * ln(factor) + 1");
  } else {
    origins = unscaled;
    origins.derived("attention_factor", "1 for default");
  }
  origins.read_or_by_default("scaling", keys, "rope_scaling_factor", "gpt_oss");
  model.origins = origins.of_rope();
  reading.model.ropes.push_back(std::move(model));
  reading.parts = 1;
}

}  // namespace

std::optional<double> read_native_number(const Object& keys, const NativeKey& row) {
  const auto value = stated(row, keys.number(row.key));
  if (value) check_least(keys, row, *value);
  return value;
}

std::optional<std::int64_t> read_native_length(const Object& keys, const NativeKey& row) {
  return stated(row, keys.length(row.key, max_length));
}

bool is_params(const Object& keys) {
  return is_gpt_oss(keys) || (!names_model(keys) && keys.has("dim") && keys.has("n_layers") && keys.has("n_heads"));
}

void read_params(Reading& reading, const Object& keys) {
  if (is_gpt_oss(keys)) return read_gpt_oss(reading, keys);
  if (keys.has("n_dense_layers")) {
    fail(Code::MODEL_TYPE, "read_config",
         "a params.json must be Mistral's or Meta's but n_dense_layers is a key of DeepSeek's own "
         "inference code, whose base and scaling stand in the code: read the model's config.json");
  }
  Params(reading, keys).read();
}

}  // namespace rotary::files
