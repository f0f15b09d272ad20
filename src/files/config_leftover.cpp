// Nothing ignored: a rope key that no stage read is an error, wherever it stands.
#include <algorithm>
#include <array>
#include <cctype>

#include "config.h"
#include "io.h"
#include "rotary/error.h"

namespace rotary::files {
namespace {

// The common keys of rope_scaling and rope_parameters: null says nothing.
constexpr std::string_view scaling_words[] = {
    "alpha",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "factor",
    "high_freq_factor",
    "llama_4_scaling_beta",
    "long_factor",
    "long_mscale",
    "low_freq_factor",
    "max_position_embeddings",
    "mrope_interleaved",
    "mrope_section",
    "mscale",
    "mscale_all_dim",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "rope_type",
    "rotary_dim",
    "short_factor",
    "short_mscale",
    "truncate",
    "type",
};

// Rope words in keys that do not say how anything turns.
constexpr std::string_view harmless[] = {
    "rope_deltas",                       // run-time state that some files saved
    "qk_nope_head_dim",                  // read where a model is an MLA; without meaning elsewhere
    "qk_rope_head_dim",                  //
    "rotary_value",                      // RoFormer: v turns too
    "relation_bias_theta",               // a bias, not a rope
    "memory_attention_rope_dropout",     // SAM 2 video
    "memory_attention_rope_feat_sizes",  //
    "memory_attention_rope_k_sizes",     // EdgeTAM
    "use_rotary_pos_emb_fusion",         // a faster kernel
    "apply_rope_fusion",                 // a faster kernel
    "fuse_rope",                         // a faster kernel
    "fused_rope",                        //
    "use_fused_rope",                    //
    "fused_rotary",                      //
};

// Switches of other models that files carry switched off.
constexpr std::string_view harmless_if_false[] = {
    "position_embedding_xdrope",  // Hunyuan
    "use_mrope",                  // Qwen2
};

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// "position_embedding_type": "absolute" says that there is no rope.
bool says_other_positions(const std::string& key, const Json& value) {
  if (key.find("position") != 0) return false;
  if (!value.is_string()) return value.is_null();
  const std::string text = lower(value.get_ref<const std::string&>());
  return text.find("rope") == std::string::npos && text.find("rotary") == std::string::npos;
}

class Leftovers {
 public:
  explicit Leftovers(const Ledger& ledger) : ledger_(ledger) {}

  void object(const Json& json, const std::string& path, bool in_rope) const {
    for (const auto& item : json.items()) {
      const std::string& key = item.key();
      const std::string where = path.empty() ? key : path + "." + key;
      const bool rope = in_rope || names_rope(key);
      if (ledger_.whole(json, key)) continue;
      if (rope && is_not_finite(item.value())) refuse_number(where, item.value());
      if (rope && !ledger_.was_read(json, key) && !is_harmless(key, item.value())) refuse(key, path, item.value());
      values(item.value(), where, rope);
    }
  }

 private:
  void values(const Json& json, const std::string& path, bool in_rope) const {
    if (json.is_object()) object(json, path, in_rope);
    if (!json.is_array()) return;
    for (const Json& element : json) {
      if (in_rope && is_not_finite(element)) refuse_number(path, element);
      if (element.is_structured()) values(element, path + "[]", in_rope);
    }
  }

  static bool is_harmless(const std::string& key, const Json& value) {
    const auto is_in = [&key](const auto& list) {
      return std::find(std::begin(list), std::end(list), key) != std::end(list);
    };
    return is_in(harmless) || (value == false && is_in(harmless_if_false)) ||
           (value.is_null() && is_in(scaling_words)) || says_other_positions(key, value);
  }

  [[noreturn]] static void refuse(const std::string& key, const std::string& path, const Json& value) {
    throw Error("CONFIG_KEY", "[read_config] every rope key must be understood but nothing reads " + printable(key) +
                                  " in " + (path.empty() ? "the top level" : printable(path)) + " (" + shown(value) +
                                  ")");
  }

  [[noreturn]] static void refuse_number(const std::string& path, const Json& value) {
    throw Error("CONFIG_VALUE",
                "[read_config] " + printable(path) + " must be a finite number but got " + shown(value));
  }

  const Ledger& ledger_;
};

}  // namespace

bool names_rope(std::string_view key) {
  static constexpr std::array exact = {"original_max_position_embeddings",
                                       "initial_context_length",
                                       "position_embedding_type",
                                       "position_embeddings_type",
                                       "positional_embedding_type",
                                       "long_factor",
                                       "short_factor",
                                       "inv_freq",
                                       "beta_fast",
                                       "beta_slow",
                                       "mscale",
                                       "mscale_all_dim",
                                       "low_freq_factor",
                                       "high_freq_factor"};
  const std::string name = lower(key);
  if (std::find(exact.begin(), exact.end(), name) != exact.end()) return true;
  for (const char* word : {"rotary", "yarn", "ntk", "theta"}) {
    if (name.find(word) != std::string::npos) return true;
  }
  // A word of the name that begins or ends with "rope" ("property" does not), or says where there is none.
  for (std::size_t begin = 0; begin <= name.size();) {
    std::size_t end = name.find_first_of("_-. ", begin);
    if (end == std::string::npos) end = name.size();
    const std::string_view word = std::string_view(name).substr(begin, end - begin);
    if (word.starts_with("rope") || word.ends_with("rope") || word.ends_with("ropes") || word == "nope") {
      return true;
    }
    begin = end + 1;
  }
  return false;
}

void ignore_known(const Object& object, const std::string& key) {
  object.mark(key);
  const auto found = object.json().find(key);
  if (found == object.json().end() || !found->is_object()) return;
  const Object inner = *object.object(key);
  for (const auto& item : inner.json().items()) {
    const bool known =
        std::find(std::begin(scaling_words), std::end(scaling_words), item.key()) != std::end(scaling_words);
    if (known || item.value().is_object()) ignore_known(inner, item.key());
  }
}

void refuse_leftovers(Reading& reading, const Json& root) { Leftovers(reading.ledger).object(root, "", false); }

}  // namespace rotary::files
