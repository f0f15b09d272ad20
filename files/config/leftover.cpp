// Nothing is ignored: a rope key that no stage has read is an error, wherever it is.
#include <algorithm>

#include "rotary/error.h"
#include "stages.h"
#include "text/io.h"
#include "text/nearest.h"
#include "values/fail.h"
#include "values/scaling_fields.h"

namespace rotary::files {
namespace {

// The common keys of rope_scaling and rope_parameters beside the values of the scalings.
constexpr std::string_view words_beside_scalings =
    "alpha finetuned llama_4_scaling_beta max_position_embeddings mrope_interleaved mrope_interleaved_glm "
    "mrope_section partial_rotary_factor rope_parameters rope_scaling rope_theta rope_type rotary_dim type";

constexpr const char* rope_positions[] = {"rope", "rotary", "yarn", "chatglm"};
constexpr const char* scaling_parts[] = {"scal", "ntk", "yarn", "dynamic", "xpos"};

constexpr std::string_view position_words =
    "position_embedding_type position_embeddings_type positional_embedding_type position_encoding_type "
    "position_embedding positional_embedding pos_emb pos_embed pe_type";

// Switches of a rope in files of many makers.
constexpr std::string_view rope_switches =
    "rope rotary use_rope use_rotary use_rotary_pos_emb use_rotary_embedding rotary_position_embedding";

// Whether a key that is false leaves a scaling out: "inference_rope_scaling", "ntk".
bool names_scaling(std::string_view key) {
  const std::string name = lower(key);
  return std::any_of(std::begin(scaling_parts), std::end(scaling_parts),
                     [&](const char* part) { return name.find(part) != name.npos; });
}

// Keys of a rope that one typing error would hide, because they contain only "rope" or not even that.
constexpr std::string_view slippery =
    "rope_scaling rope_parameters rope_interleave rope_local_base_freq rope_embedding_base rope_ratio "
    "no_rope_layers no_rope_layer_interval nope_layer_interval use_mem_rope use_scaled_rope qk_nope_head_dim "
    "qk_rope_head_dim original_max_position_embeddings initial_context_length position_embedding_type "
    "position_embeddings_type short_factor long_factor attention_factor low_freq_factor high_freq_factor";

// Whether it is a common key of rope_scaling and rope_parameters, for which null has no effect.
bool is_scaling_word(std::string_view key) {
  bool found = is_listed(key, words_beside_scalings);
  scalings::for_each_scaling([&](const auto& scaling) { found = found || scalings::has_key(scaling, key); });
  return found;
}

// A hint for a key that nothing reads: the rope_type that would read it is missing, or the key is misspelt; "" if
// neither is likely.
std::string advice_on(std::string_view key, const Json& object, const std::string& path) {
  if (!path.empty() && is_scaling_word(key) && !object.contains("rope_type") && !object.contains("type"))
    return ": rope_type is missing there, which says what it scales";
  std::vector<std::string_view> known = words(words_beside_scalings);
  for (const std::string_view word : words(slippery)) known.push_back(word);
  scalings::for_each_scaling([&](const auto& scaling) {
    scalings::for_each_field(scaling, [&](const auto& field, const auto&) { known.emplace_back(field.key); });
  });
  return suggestion(key, known);
}

// "position_embedding_type": "absolute" means that there is no rope.
bool says_other_positions(const std::string& key, const Json& value) {
  if (!is_listed(key, position_words)) return false;
  if (!value.is_string()) return value.is_null();
  const std::string text = lower(value.get_ref<const std::string&>());
  // TensorRT-LLM has "yarn" and "chatglm" for ropes too.
  return std::none_of(std::begin(rope_positions), std::end(rope_positions),
                      [&](const char* word) { return text.find(word) != std::string::npos; });
}

// The first key that states positions, rotary ones or others, as a word; "" if there is none.
std::string states_positions(const Object& keys, bool rotary) {
  for (const std::string_view word : words(position_words)) {
    const std::string key(word);
    const Json* found = keys.peek(key);
    if (found != nullptr && found->is_string() && says_other_positions(key, *found) != rotary) return key;
  }
  return "";
}

// Whether the words differ by one letter: changed, added, removed, or swapped with the next.
bool one_slip_apart(std::string_view a, std::string_view b) {
  return a.size() <= b.size() + 1 && b.size() <= a.size() + 1 && edit_distance(a, b) <= 1;
}

// Whether a word of a key begins or ends with "rope" ("property" does not), or states where there is none.
bool is_rope_word(std::string_view word) {
  if (word == "europe") return false;
  if (word.starts_with("rope") || word.ends_with("rope") || word.ends_with("ropes")) return true;
  if (word == "nope" || word == "xpos") return true;
  return one_slip_apart(word, "rotary") || one_slip_apart(word, "theta");
}

// Objects whose keys name modules of the model: "-:.*rotary_emb.*", "model.layers.0.self_attn.rotary_emb".
bool names_modules(std::string_view key) {
  return key == "quantization_config" || key == "quantization" || key.ends_with("device_map");
}

class Leftovers {
 public:
  explicit Leftovers(const Ledger& ledger) : ledger_(ledger) {}

  struct Enclosing {
    bool in_rope = false;
    bool of_modules = false;
  };

  void object(const Json& json, const std::string& path, Enclosing enclosing) const {
    for (const auto& item : json.items()) {
      const std::string& key = item.key();
      const std::string where = path.empty() ? key : path + "." + key;
      // Keys in these three are the words of a task: a classifier may know "Europe", and "rope".
      if (is_listed(key, "label2id id2label task_specific_params") || ledger_.whole(json, key)) continue;
      if (enclosing.of_modules && key.find('.') != std::string::npos) continue;
      const bool rope = enclosing.in_rope || names_rope(key);
      if (rope && says_nothing(item.value())) continue;
      if (rope && is_not_finite(item.value())) refuse_number(where, item.value());
      if (rope && !ledger_.was_read(json, key) && !is_harmless(key, item.value()))
        refuse(key, path, item.value(), advice_on(key, json, path));
      values(item.value(), where, {rope, enclosing.of_modules || names_modules(key)});
    }
  }

 private:
  void values(const Json& json, const std::string& path, Enclosing enclosing) const {
    if (json.is_object()) object(json, path, enclosing);
    if (!json.is_array()) return;
    for (const Json& element : json) {
      if (enclosing.in_rope && is_not_finite(element)) refuse_number(path, element);
      if (element.is_structured()) values(element, path + "[]", enclosing);
    }
  }

  static bool is_harmless(const std::string& key, const Json& value) {
    return is_harmless_key(key, value == false) || (value == false && names_scaling(key)) ||
           says_other_positions(key, value);
  }

  [[noreturn]] static void refuse(const std::string& key, const std::string& path, const Json& value,
                                  const std::string& advice) {
    fail(Code::CONFIG_KEY, "read_config", "every rope key must be understood but nothing reads ", key,
         " in ", path.empty() ? "the top level" : path, " (", shown(value), ")",
         advice.empty() ? ": remove it, or report the model" : advice);
  }

  [[noreturn]] static void refuse_number(const std::string& path, const Json& value) {
    fail(Code::CONFIG_VALUE, "read_config", path, " must be a finite number but got ", shown(value));
  }

  const Ledger& ledger_;
};

}  // namespace

bool names_rope(std::string_view key) {
  constexpr std::string_view exact =
      "positional_embedding_type position_encoding_type inv_freq beta_fast beta_slow attn_factor extrapolation_factor "
      "rotate_every_two truncate position_embedding_base seq_len_interpolation_factor";
  const std::string name = lower(key);
  if (is_listed(name, exact)) return true;
  for (const char* word : {"rotary", "yarn", "ntk", "theta", "mscale", "freq_base"}) {
    if (name.find(word) != std::string::npos) return true;
  }
  if (name.starts_with("orig") && name.find("max_position_embedding") != std::string::npos) return true;
  static const std::vector<std::string_view> slips = words(slippery);
  for (const std::string_view known : slips) {
    if (one_slip_apart(name, known)) return true;
  }
  for (std::size_t begin = 0; begin <= name.size();) {
    std::size_t end = name.find_first_of("_-. ", begin);
    if (end == std::string::npos) end = name.size();
    if (is_rope_word(std::string_view(name).substr(begin, end - begin))) return true;
    begin = end + 1;
  }
  return false;
}

bool says_nothing(const Json& value) {
  if (value.is_null()) return true;
  if (!value.is_object()) return false;
  return std::all_of(value.items().begin(), value.items().end(), [](const auto& item) {
    return item.value().is_null() || (is_listed(item.key(), "type rope_type") && item.value().is_string() &&
                                      published_type(item.value().template get<std::string>()) == "default");
  });
}

std::string switched_off_by(const Object& keys) {
  for (const std::string_view key : words(rope_switches)) {
    const Json* found = keys.peek(key);
    if (found != nullptr && *found == false) return std::string(key);
  }
  return states_positions(keys, false);
}

bool states_rope_positions(const Object& keys) { return !states_positions(keys, true).empty(); }

void check_positions(const Part& part) {
  const Object& keys = part.keys;
  for (const std::string_view key : words(position_words)) {
    const Json* found = keys.peek(key);
    if (found == nullptr) continue;
    keys.mark(key);
    if (found->is_string() && says_other_positions(std::string(key), *found)) {
      part.note(NoteKind::unread, key, " is ", shown(*found), " but has no effect: ", part.name(),
                " rotates all the same");
    }
  }
  for (const char* key : {"alibi", "use_alibi"}) {
    if (const Json* found = keys.peek(key); found != nullptr && *found == true) {
      keys.refuse(key, "must be false where layers have a rope");
    }
  }
}

void ignore_known(const Object& object, const std::string& key) {
  object.mark(key);
  const Json* found = object.peek(key);
  if (found == nullptr || !found->is_object()) return;
  const Object inner = *object.object(key);
  for (const auto& item : inner.json().items()) {
    if (is_scaling_word(item.key()) || item.value().is_object()) ignore_known(inner, item.key());
  }
}

void refuse_unread_keys(Reading& reading, const Json& root) { Leftovers(reading.ledger).object(root, "", {}); }

}  // namespace rotary::files
