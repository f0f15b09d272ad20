// Any text as a checkpoint, its config and behind it the header of its weights: refused under a known code with nothing
// written, or converted, and converted back to the same tensors.
#include <algorithm>
#include <fstream>

#include "core/tests/fuzz/fuzz.h"
#include "rotary/convert.h"

namespace rotary::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view border = "\n\n";
constexpr std::size_t most_data = 1 << 16;

void write_file(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

// Data of as many bytes as the largest number in the header.
std::string weights(const std::string& header) {
  std::size_t largest = 0, number = 0;
  for (const char c : header) {
    number = c >= '0' && c <= '9' ? std::min(10 * number + static_cast<std::size_t>(c - '0'), most_data) : 0;
    largest = std::max(largest, number);
  }
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  text += header;
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < largest; ++i) text += static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
  return text;
}

class Checkpoint {
 public:
  explicit Checkpoint(const std::string& input) {
    std::string name = (fs::temp_directory_path() / "rotary-fuzz-XXXXXX").string();
    require(mkdtemp(name.data()) != nullptr, "mkdtemp failed");
    folder_ = name;
    fs::create_directory(folder_ / "0");
    const std::size_t end = std::min(input.find(border), input.size());
    write_file(folder_ / "0" / "config.json", input.substr(0, end));
    write_file(folder_ / "0" / "model.safetensors", weights(input.substr(std::min(end + border.size(), input.size()))));
  }
  ~Checkpoint() { fs::remove_all(folder_); }
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  bool convert(int from, int to, Pairing pairing) const {
    try {
      rotary::convert({.input = folder_ / std::to_string(from),
                       .output = folder_ / std::to_string(to),
                       .to = pairing,
                       .verify = true});
      return true;
    } catch (const Error& error) {
      require(from == 0, std::string("the way back is refused: ") + error.what());
      require(!fs::exists(folder_ / std::to_string(to)), "a refusal must write nothing");
      require_refusal(error, "[",
                      {"JSON", "CONFIG_KEY", "CONFIG_VALUE", "CONFIG_MISSING", "MODEL_TYPE", "ROPE", "SCALING", "SHAPE",
                       "TENSOR", "DTYPE", "FORMAT", "PAIRING", "FILE"});
      return false;
    }
  }

  void require_same(int a, int b) const {
    const std::vector<Tensor> before = read_tensors(folder_ / std::to_string(a) / "model.safetensors");
    const std::vector<Tensor> after = read_tensors(folder_ / std::to_string(b) / "model.safetensors");
    const auto is_same = [](const Tensor& x, const Tensor& y) {
      return x.name == y.name && x.type == y.type && x.shape == y.shape && x.data == y.data;
    };
    require(std::ranges::equal(before, after, is_same), "there and back must give the same tensors");
  }

 private:
  fs::path folder_;
};

}  // namespace

std::vector<std::string> seeds() {
  return {
      R"({"model_type":"llama","hidden_size":8,"num_attention_heads":2,"num_key_value_heads":1,"num_hidden_layers":1,)"
      R"("max_position_embeddings":64})"
      "\n\n"
      R"({"__metadata__":{"format":"pt"},"model.layers.0.self_attn.q_proj.weight":{"dtype":"F16","shape":[8,8],)"
      R"("data_offsets":[0,128]},"model.layers.0.self_attn.k_proj.weight":{"dtype":"F16","shape":[4,8],)"
      R"("data_offsets":[128,192]},"model.layers.0.self_attn.q_norm.weight":{"dtype":"F32","shape":[4],)"
      R"("data_offsets":[192,208]}})",
      R"({"model_type":"deepseek_v3","hidden_size":8,"num_attention_heads":2,"num_key_value_heads":2,)"
      R"("num_hidden_layers":1,"kv_lora_rank":2,"q_lora_rank":null,"qk_nope_head_dim":2,"qk_rope_head_dim":4,)"
      R"("v_head_dim":4,"rope_interleave":true})"
      "\n\n"
      R"({"model.layers.0.self_attn.q_proj.weight":{"dtype":"U8","shape":[12,4],"data_offsets":[0,48]},)"
      R"("model.layers.0.self_attn.kv_a_proj_with_mqa.weight":{"dtype":"U8","shape":[6,4],"data_offsets":[48,72]}})",
      R"({"model_type":"gpt_neox","hidden_size":16,"num_attention_heads":2,"num_hidden_layers":1,"rotary_pct":0.5})"
      "\n\n"
      R"({"gpt_neox.layers.0.attention.query_key_value.weight":{"dtype":"I8","shape":[48,2],"data_offsets":[0,96]},)"
      R"("gpt_neox.layers.0.attention.query_key_value.bias":{"dtype":"I8","shape":[48],"data_offsets":[96,144]}})",
      R"({"model_type":"llama","hidden_size":32,"num_attention_heads":2,"num_hidden_layers":1,)"
      R"("quantization_config":{"quant_method":"gptq","bits":4}})"
      "\n\n"
      R"({"model.layers.0.self_attn.q_proj.qweight":{"dtype":"I32","shape":[2,32],"data_offsets":[0,256]},)"
      R"("model.layers.0.self_attn.q_proj.qzeros":{"dtype":"I32","shape":[1,4],"data_offsets":[256,272]},)"
      R"("model.layers.0.self_attn.q_proj.scales":{"dtype":"F16","shape":[1,32],"data_offsets":[272,336]},)"
      R"("model.layers.0.self_attn.k_proj.qweight":{"dtype":"I32","shape":[2,32],"data_offsets":[336,592]}})",
      R"({"model_type":"llama","hidden_size":16,"num_attention_heads":2,"num_hidden_layers":1,)"
      R"("max_position_embeddings":64})"
      "\n\n"
      R"({"model.layers.0.self_attn.q_proj.weight":{"dtype":"F4","shape":[16,2],"data_offsets":[0,16]},)"
      R"("model.layers.0.self_attn.q_proj.weight_zero_point":{"dtype":"I32","shape":[2,1],"data_offsets":[16,24]},)"
      R"("model.layers.0.self_attn.k_proj.weight":{"dtype":"F6_E2M3","shape":[16,4],"data_offsets":[24,72]}})"};
}

std::vector<std::string> words() {
  return words_of(R"(
"model_type":"qwen3", "model_type":"falcon", "model_type":"codegen", "model_type":"phi3",
"num_key_value_heads": "head_dim": "partial_rotary_factor":0.5, "text_config": "rope_interleave":
"quantization_config": "rotary.pairing":"half" "rotary.pairing":"interleaved" "rotary.own_indexer":"true"
"weight_block_size":[2,2], "bits": "F4" "F6_E2M3" "F6_E3M2" "I32" "__metadata__":{}, .weight_scale
.weight_scale_inv .weight_zero_point .weight_packed .qzeros .scales .lora_B.weight .qweight .bias .1. [1,8]
[0] [] null 0 -1 { } ,)",
                  {"\n\n"});
}

void one(const std::string& input) {
  const Checkpoint checkpoint(input);
  for (const Pairing pairing : {Pairing::interleaved, Pairing::half}) {
    if (!checkpoint.convert(0, 1, pairing)) continue;
    require(checkpoint.convert(1, 2, pairing == Pairing::half ? Pairing::interleaved : Pairing::half), "the way back");
    checkpoint.require_same(0, 2);
    return;
  }
  const std::vector<std::string> all = seeds();
  require(std::find(all.begin(), all.end(), input) == all.end(), "a seed must convert");
}

}  // namespace rotary::fuzz
