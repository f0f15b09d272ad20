// Finds the parts of a config and their families: read_config() and parse_config().
#include <algorithm>
#include <cfenv>
#include <filesystem>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "rotary/error.h"
#include "stages.h"
#include "text/io.h"
#include "text/json.h"
#include "text/nearest.h"
#include "text/paths.h"
#include "values/fail.h"
#include "values/scaling_fields.h"

namespace rotary::files {
namespace {

constexpr int max_parts = 64;

// Where nothing but an object, or null, may stand.
constexpr std::string_view sub_configs =
    "text_config language_config llm_config thinker_config talker_config vision_config audio_config speech_config";

bool contains(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

std::string join(const std::string& path, const std::string& key) {
  return path.empty() ? printable(key) : path + "." + printable(key);
}

// An object that holds the keys of the whole model, whose model_type stands above it: MLC's, speculators'.
bool is_whole_model(std::string_view key) { return key == "model_config" || key == "transformer_layer_config"; }

// The kind of sub-config that a key names. Text comes first, so that rope 0 is the language model's.
enum class Modality : std::uint8_t { text, other, vision, audio };
Modality modality_of(std::string_view key) {
  if (contains(key, "text") || contains(key, "llm") || contains(key, "language") || key == "thinker_config" ||
      is_whole_model(key)) {
    return Modality::text;
  }
  if (contains(key, "vision") || contains(key, "visual")) return Modality::vision;
  return contains(key, "audio") || contains(key, "speech") ? Modality::audio : Modality::other;
}

bool has_any(const Object& keys, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return keys.has(name); });
}

// Layers and heads of its own: a model, not only a container of models.
bool is_model(const Object& keys) {
  return has_any(keys, {"num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth", "encoder_layers",
                        "decoder_num_hidden_layers", "layers_num"}) &&
         has_any(keys, {"num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
                        "decoder_num_attention_heads", "heads_num"});
}

// Whether a rope key that says something stands in the object or below it.
bool has_rope_keys(const Json& json) {
  for (const auto& item : json.items()) {
    const Json& value = item.value();
    if (item.key() == "quantization_config" || says_nothing(value)) continue;
    if (names_rope(item.key()) || (value.is_object() && has_rope_keys(value))) return true;
  }
  return false;
}

// TensorRT-LLM's checkpoints name the pairing in position_embedding_type.
Pairing named_pairing(const Object& keys) {
  const std::string word = string_of(keys.json(), "position_embedding_type");
  return word == "rope_gpt_neox" ? Pairing::half : word == "rope_gptj" ? Pairing::interleaved : Pairing::unset;
}

// ": did you mean llama?", where the name of a known model is near.
std::string suggested_type(const std::string& type) {
  std::vector<std::string_view> known;
  for (const std::string_view one : model_types()) {
    if (!is_our_name(one)) known.push_back(one);
  }
  for (const std::string_view parent : types_with_children()) known.push_back(parent);
  return suggestion(type, known);
}

// The first text of architectures, else a class that auto_map names, without its module; "" if there is none.
std::string class_of(const Object& root) {
  const Json* found = root.peek("architectures");
  if (found != nullptr && found->is_array() && !found->empty() && found->front().is_string()) return found->front();
  const Json* map = root.peek("auto_map");
  const std::string first = map == nullptr || !map->is_object() || map->empty() || !map->front().is_string()
                                ? ""
                                : map->front().get<std::string>();
  return first.substr(first.rfind('.') + 1);
}

const Family* first_family(std::initializer_list<std::string> types, bool vision_only) {
  for (const std::string& type : types) {
    const Family* family = find_family(type);
    if (family != nullptr && (!vision_only || family->tower != nullptr)) return family;
  }
  return nullptr;
}

struct Node {
  Object keys;
  std::string path;
  std::string key;     // its name in the parent; "" at the top
  std::string type;    // its own model_type
  std::string parent;  // the nearest model_type above
  bool root() const { return path.empty(); }
  Modality modality() const { return root() ? Modality::text : modality_of(key); }
};

const Family* family_of(const Node& node) {
  const std::string& own = node.type;
  const std::string by_parent(child_type(node.parent, node.key));
  if (node.modality() == Modality::vision) {
    if (const Family* f = first_family(
            {own, own + "_vision", node.parent + "_vision", own + "_vision_model", own + "_vision_encoder", by_parent},
            true)) {
      return f;
    }
    return first_family({own, by_parent}, false);
  }
  if (const Family* f = first_family({own}, false)) return f;
  if (node.root()) {
    const std::string text(child_type(own, "text_config"));
    return is_model(node.keys) ? first_family({own + "_text", text}, false) : nullptr;
  }
  if (own.empty()) {
    if (const Family* f = first_family({by_parent}, false)) return f;
  }
  return node.modality() == Modality::text
             ? first_family({own + "_text", own.empty() ? node.parent + "_text" : ""}, false)
             : nullptr;
}

class Walk {
 public:
  explicit Walk(Reading& reading) : reading_(reading) {}

  void visit(const Node& node) {
    const Family* family = family_of(node);
    const char* below = family != nullptr && node.root() ? text_below(node, *family) : nullptr;
    if (below != nullptr) {
      leave_text_to(node, below);
    } else if (family != nullptr) {  // the rope keys of one that is only named are refused as unread
      if (!only_named(node, *family)) read(node, *family, true);
    } else if (node.root() && has_child(node, "language_config") && !child_type(node.type, "language_config").empty()) {
      leave_text_to(node, "language_config");  // DeepSeek-OCR says the text model twice
    } else if (!known_without_rope(node.type)) {
      read_unknown(node);
    } else {
      read_without_rope(node);
    }
    visit_children(node);
  }

 private:
  // The sub-config that describes the root's text model: text_config of a wrapper, or one that alone has its layers.
  static const char* text_below(const Node& root, const Family& family) {
    if (family.type != root.type && has_child(root, "text_config")) return "text_config";
    for (const char* key : {"model_config", "transformer_layer_config", "llm_cfg"}) {
      if (!is_model(root.keys) && has_child(root, key) && is_model(*root.keys.object(key))) return key;
    }
    return nullptr;
  }

  static bool has_child(const Node& node, const char* key) {
    const Json* found = node.keys.peek(key);
    return found != nullptr && found->is_object() && !found->empty();
  }

  void leave_text_to(const Node& root, const std::string& child) {
    reading_.note(NoteKind::unread, "", "the text model is read from " + child + "; the same keys at the top are not");
    ignore_rope_keys(root.keys);
  }

  // MiniCPM-V's slice_config names the whole model's type and describes no layers.
  static bool only_named(const Node& node, const Family& family) {
    return node.modality() == Modality::other && family.shape.layers == 0 && !is_model(node.keys);
  }

  // Voxtral: keys that a text_config leaves out take the parent's defaults, not those of its own model_type.
  static Family with_parents_defaults(const Family& family, const Node& node) {
    const Child* child = find_child(node.parent, node.key);
    Family own = family;
    if (child == nullptr || !child->merged || child->type != family.type) return own;
    const auto replace = [](auto& value, auto other) { value = other != 0 ? other : value; };
    replace(own.shape.layers, child->shape.layers);
    replace(own.shape.heads, child->shape.heads);
    replace(own.shape.kv_heads, child->shape.kv_heads);
    replace(own.shape.hidden, child->shape.hidden);
    replace(own.shape.head_dim, child->shape.head_dim);
    replace(own.base, child->base);
    return own;
  }

  void read(const Node& node, const Family& family, bool known) {
    if (++reading_.parts > max_parts) {
      fail(Code::CONFIG_VALUE, "read_config", "a file must have at most ", max_parts,
           " sub-configs with a rope but has more");
    }
    const Family own = with_parents_defaults(family, node);
    const Part part{reading_, node.path, node.keys, own, known};
    family.tower != nullptr ? read_vision_part(part) : read_text_part(part);
  }

  void read_unknown(const Node& node) {
    const std::string why(refusal(node.type));
    if (!why.empty()) {
      if (node.modality() == Modality::text)
        fail(Code::ROPE, "read_config", "a rope must be a rotation of q and k but ", node.type, ' ', why);
      ignore_rope_keys(node.keys);
      return reading_.note_no_rope(node.path, node.type + ' ' + why);
    }
    const bool model = is_model(node.keys);
    // Models alone are searched: a search of every nested object takes quadratic time.
    const bool rope_keys = model && (has_rope_keys(node.keys.json()) || states_rope_positions(node.keys));
    const bool asks = model && (node.modality() == Modality::text || (reading_.options.pairing && rope_keys));
    const std::string what = node.type.empty() ? "no model_type" : "model_type " + in_quotes(node.type);
    if (!asks) {
      if (model && !node.root()) {
        reading_.note(NoteKind::no_rope, node.path,
                      "whether it has a rope is not known (" + what + "), so none is listed for it");
      }
      if (!model) leave_to_children(node);
      return;
    }
    if (const std::string key = switched_off_by(node.keys); !key.empty()) {
      ++reading_.parts;
      node.keys.mark(key);
      ignore_rope_keys(node.keys);
      return reading_.note_no_rope(node.path, key + " is " + shown(*node.keys.peek(key)));
    }
    Family family = unknown_;
    family.pairing = named_pairing(node.keys);
    if (!reading_.options.pairing && family.pairing == Pairing::unset) refuse_unknown(node, what, rope_keys);
    if (!rope_keys && !reading_.options.sets_base) {
      fail(Code::MODEL_TYPE, "read_config", "a file of a model_type that is not known must have a rope key but ",
           node.root() ? "this one" : node.path, " has none, as the files of models without a rope",
           with_advice("", reading_.options.words.give_base));
    }
    reading_.note(NoteKind::chosen, node.path,
                  (node.type.empty() ? "no model_type is given" : what + " is not known") + ": the pairing " +
                      (reading_.options.pairing ? "given decides" : "stands in position_embedding_type") +
                      ", and the generic keys are read");
    read(node, family, false);
  }

  [[noreturn]] void refuse_unknown(const Node& node, const std::string& what, bool rope_keys) const {
    const CallerWords& words = reading_.options.words;
    const std::string name = node.root() ? class_of(node.keys) : "";
    std::string type = words.give_type;
    const std::string_view of_class = type_of_class(name);
    if (!type.empty() && !of_class.empty()) type += ": " + name + " is a class of " + std::string(of_class);
    const bool resembles_params = node.keys.has("dim") && node.keys.has("n_layers") && node.keys.has("n_heads");
    fail(Code::MODEL_TYPE, "read_config", "the pairing of every model_type must be known but ",
         node.root() ? "this file has " : node.path + " has ", what, (node.type.empty() ? "" : ", which is not known"),
         ", and no pairing is given", (rope_keys ? "" : ", and no rope key stands in it"),
         (resembles_params ? ", and it lacks norm_eps, or hidden_dim and multiple_of, of a params.json" : ""),
         with_advice(of_class.empty() ? suggested_type(node.type) : "", ways_on(words, type, rope_keys)));
  }

  void read_without_rope(const Node& node) {
    reading_.note(NoteKind::no_rope, node.path,
                  "model_type " + in_quotes(node.type) + " has no rotary positions of its own");
    ignore_rope_keys(node.keys);
    const Family family{.type = node.type};
    read_query_scale_without_rope(Part{reading_, node.path, node.keys, family});
  }

  // A node that only contains models: its own rope keys hold for none of them.
  void leave_to_children(const Node& node) {
    const auto& items = node.keys.json().items();
    const bool has_text = std::any_of(items.begin(), items.end(), [](const auto& item) {
      return item.value().is_object() && !item.value().empty() && modality_of(item.key()) == Modality::text;
    });
    if (!has_text && child_type(node.type, "encoder_config").empty()) return;
    for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor"}) {
      if (node.keys.has(key)) {
        reading_.note(NoteKind::unread, node.path,
                      std::string(key) + " outside the sub-configs is not read: each has its own, or the " +
                          "default of its model_type, as in transformers");
      }
    }
    ignore_rope_keys(node.keys);
  }

  // The common keys only: an invented key stays an error.
  static void ignore_rope_keys(const Object& keys) {
    for (const char* key :
         {"rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor", "rotary_dim",
          "position_embedding_type", "position_embeddings_type", "original_max_position_embeddings"}) {
      ignore_known(keys, key);
    }
  }

  void visit_children(const Node& node) {
    std::vector<std::pair<Modality, std::string>> children;
    for (const auto& item : node.keys.json().items()) {
      const bool sub_config = !child_type(node.type, item.key()).empty() || is_listed(item.key(), sub_configs);
      if (sub_config && !item.value().is_object() && !item.value().is_null()) {
        node.keys.refuse(item.key(), "must be an object");
      }
      if (item.value().is_object() && !names_rope(item.key()) && item.key() != "quantization_config") {
        children.emplace_back(modality_of(item.key()), item.key());
      }
    }
    std::stable_sort(children.begin(), children.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [modality, key] : children) {
      const Object keys(node.keys.json().at(key), join(node.path, key), reading_.ledger);
      const std::string parent = node.type.empty() ? node.parent : node.type;
      visit(Node{keys, keys.path(), key, type_of(keys, parent, key), parent});
    }
  }

  // The model_type that a sub-config names, or its parent's default for it.
  std::string type_of(const Object& keys, const std::string& parent, const std::string& key) {
    std::string type = keys.text("model_type").value_or("");
    const Child* child = find_child(parent, key);
    if (!type.empty() && child != nullptr && child->always && type != child->type) {
      reading_.note(NoteKind::read_as, keys.path(),
                    "model_type " + in_quotes(type) + " is read as " + std::string(child->type) + ", which " + parent +
                        " makes of it");
      return std::string(child->type);
    }
    if (!type.empty()) return type;
    if (is_whole_model(key)) return parent;
    type = child_type(parent, key);
    if (!type.empty())
      reading_.note(NoteKind::model_default, keys.path(),
                    "model_type is not given: " + type + ", the default of " + parent);
    return type;
  }

  Reading& reading_;
  const Family unknown_ = {.type = "", .reads_partial = true, .scaling_key = "rotary_scaling"};
};

// The row of models.json that identifies a file with this model_type by other values of it.
const Misnamed* identify(const Object& root, const std::string& type) {
  for (const Misnamed& row : misnamed()) {
    const Json* found = row.key.empty() ? nullptr : root.peek(row.key);
    const std::string text = found != nullptr && found->is_string() ? lower(found->get<std::string>()) : "";
    if (row.type == type && (row.architecture.empty() || row.architecture == class_of(root)) &&
        (row.key.empty() || found != nullptr) && contains(text, row.text)) {
      return &row;
    }
  }
  return nullptr;
}

// The model_type that the file states, or that its class or another key states.
std::string stated_type(Reading& reading, const Object& root) {
  std::string type = root.text("model_type").value_or("");
  if (type.empty() && identify(root, type) == nullptr) {
    type = type_of_class(class_of(root));
    if (!type.empty())
      reading.note(NoteKind::read_as, "", "model_type is not given: " + class_of(root) + " is a class of " + type);
  }
  const Misnamed* meant = identify(root, type);
  if (meant == nullptr) return type;
  reading.note(NoteKind::read_as, "",
               (type.empty() ? "a file without model_type" : "model_type " + in_quotes(type)) +
                   (meant->key.empty() ? " of architecture " + std::string(meant->architecture)
                                       : " with " + std::string(meant->key)) +
                   " is read as " + std::string(meant->family));
  return std::string(meant->family);
}

// The model_type of the options, else the file's.
std::string type_of_file(Reading& reading, const Object& root) {
  const std::string& given = reading.options.model_type;
  if (given.empty()) return stated_type(reading, root);
  if (!is_known_type(given)) {
    fail(Code::MODEL_TYPE, "read_config", reading.options.words.model_type,
         " must be a model_type that is known but got ", in_quotes(given), suggested_type(given));
  }
  const std::string own = root.text(root.has("_class_name") ? "_class_name" : "model_type").value_or("");
  if (own != given) {
    reading.note(
        NoteKind::chosen, "",
        "the model_type given, " + given +
            (own.empty() ? ", stands for the file, which has none" : ", overrides " + in_quotes(own) + " of the file"));
  }
  return given;
}

// read(), whose errors are then about the file.
template <typename Read>
Model naming(const std::filesystem::path& file, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() == Code::FILE || !error.about().empty()) throw;  // they name it
    throw error.about(path_text(file));
  }
}

// Throws SCALING where the base grows with the power r / (r - 2) and r is 2.
void refuse_one_pair(const Rope& rope) {
  const bool grows = scalings::facts_of(rope.scaling).base == scalings::Base::grows;
  if (grows && std::max(rope.exponent_dim, rope.rotary_dim) <= 2) frequencies(rope, 0);
}

}  // namespace

std::string with_advice(const std::string& suggestion, const std::string& advice) {
  if (advice.empty()) return suggestion;
  return suggestion.empty() ? ": " + advice : suggestion + " Or " + advice;
}

std::string ways_on(const CallerWords& words, const std::string& type, bool rope_keys) {
  std::string pairing = words.give_pairing;
  if (!rope_keys)
    pairing = words.give_base.empty() ? "" : pairing + ", and " + words.give_base + ", if the model has a rope";
  return type + (type.empty() || pairing.empty() ? "" : "; or ") + pairing;
}

Reading read_json(const Json& json, const ConfigOptions& options) {
  if (!json.is_object()) {
    const std::string is = json.type_name();
    fail(Code::JSON, "read_config", "a config must be a JSON object but is ",
         is == "null"    ? ""
         : is == "array" ? "an "
                         : "a ",
         is);
  }
  const SheetOfReading one_sheet;
  Reading reading{options, &json};
  const Object root(json, "", reading.ledger);
  refuse_other_files(root);
  const std::string& given = options.model_type;
  if (given.empty() && identify(root, string_of(json, "model_type")) == nullptr && is_params(root)) {
    read_params(reading, root);
  } else if (given.empty() ? is_diffusers(root) : is_class_of_diffusers(given)) {
    read_diffusers(reading, root, given.empty() ? root.text("_class_name").value_or("") : type_of_file(reading, root));
  } else {
    const std::string type = reading.model.model_type = type_of_file(reading, root);
    Walk(reading).visit(Node{root, "", "", type, ""});
    if (reading.parts == 0 && !known_without_rope(type)) {
      fail(type.empty() ? Code::CONFIG_MISSING : Code::MODEL_TYPE, "read_config",
           "a config must describe a model that is known but this one has ",
           (type.empty() ? std::string("neither model_type nor num_hidden_layers and num_attention_heads")
                         : "model_type " + in_quotes(type) +
                               " and no layers and heads (num_hidden_layers, "
                               "num_attention_heads) or known sub-config" +
                               suggested_type(type)));
    }
  }
  refuse_unread_keys(reading, json);
  for (const ModelRope& used : reading.model.ropes) refuse_one_pair(used.rope);
  return reading;
}

}  // namespace rotary::files

namespace rotary {
namespace {

// During its lifetime the C library rounds to nearest even: strtod, which reads the numbers, asks on x86-64 the control
// word of the x87, which detail::FloatState leaves alone.
class NearestRounding {
 public:
  NearestRounding() { std::fesetround(FE_TONEAREST); }
  ~NearestRounding() { std::fesetround(callers_); }
  NearestRounding(const NearestRounding&) = delete;
  NearestRounding& operator=(const NearestRounding&) = delete;

 private:
  int callers_ = std::fegetround();
};

}  // namespace

files::ConfigFile files::read_config_file(const std::filesystem::path& path, const ConfigOptions& options) {
  const NearestRounding ours;
  ConfigFile file{json_file_text("read_config", InputFile("read_config", path)), {}, {}};
  file.model = naming(path, [&] {
    file.json = parse_json(file.text);
    return read_json(file.json, options).model;
  });
  return file;
}

Model parse_config(std::string_view json, const ConfigOptions& options) {
  const NearestRounding ours;
  return files::read_json(files::parse_json(json), options).model;
}

Model read_config(const std::filesystem::path& path, const ConfigOptions& options) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const std::filesystem::path config = path / "config.json", params = path / "params.json";
    const bool has_params = std::filesystem::exists(params, ignored);
    if (!std::filesystem::exists(config, ignored)) {
      if (has_params) return read_config(params, options);
      fail(Code::FILE, "read_config", "a folder must hold config.json or params.json but ",
           files::in_quotes(files::path_text(path)), " holds neither");
    }
    Model model = read_config(config, options);
    if (has_params) model.notes.push_back(files::note_beside(model, params, options));
    return model;
  }
  const std::filesystem::path& file = path;
  const files::InputFile input("read_config", file);
  const NearestRounding ours;
  if (files::is_gguf(input)) return files::naming(file, [&] { return files::read_gguf(input, options); });
  return files::read_config_file(file, options).model;
}

}  // namespace rotary
