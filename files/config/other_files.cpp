// Files that people give in place of a model's config, and where the config is.
#include "rotary/error.h"
#include "stages.h"
#include "text/io.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

// A kind of file that has all these keys, which are separated by blanks.
struct OtherFile {
  Names keys;
  const char* is;
  const char* instead;        // where the model's config is
  const char* named_by = {};  // the key whose text names the model; null: none
};

constexpr OtherFile other_files[] = {
    {"peft_type", "of an adapter (PEFT)", "give the config.json of its base model", "base_model_name_or_path"},
    {"base_model_name_or_path r", "of an adapter (PEFT)", "give the config.json of its base model",
     "base_model_name_or_path"},
    {"model search", "ONNX Runtime's genai_config.json", "give the config.json of the model that was exported"},
    {"medusa_num_heads", "of the heads of Medusa", "give the config.json of its base model", "base_model_name_or_path"},
    {"builder_config plugin_config", "of a TensorRT-LLM engine",
     "give the config.json of the model that the engine was built from"},
    {"pretrained_config build_config", "of a TensorRT-LLM engine",
     "give the config.json of the model that the engine was built from, or its pretrained_config as a file of its own"},
    {"class_name config", "of a Keras model", "give the config.json of the same model for transformers"},
    {"error", "a server's answer and no config", "give the file itself, after a download that succeeds", "error"},
    {"weight_map", "an index of weights", "give the config.json beside it"},
    {"tokenizer_class", "of a tokenizer", "give the config.json beside it"},
    {"image_processor_type", "of an image processor", "give the config.json beside it"},
};

}  // namespace

void refuse_other_files(const Object& root) {
  if (root.has("model_type") || root.has("_class_name")) return;
  for (const OtherFile& other : other_files) {
    bool has_all = true;
    for (const std::string_view key : words(other.keys)) has_all = has_all && root.has(key);
    if (!has_all) continue;
    const std::string name = other.named_by == nullptr ? "" : string_of(root.json(), other.named_by);
    fail(Code::MODEL_TYPE, "read_config", "the file must be a model's config but is ", other.is,
         (name.empty() ? "" : " (" + in_quotes(name) + ")"), ": ", other.instead);
  }
}

}  // namespace rotary::files
