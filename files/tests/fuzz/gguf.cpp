// Any bytes as a GGUF file are refused with one sentence, or give a model each of whose ropes has frequencies or a
// reason for having none.
#include "core/tests/fuzz/fuzz.h"
#include "files/tests/file_bytes.h"
#include "rotary/config.h"

namespace rotary::fuzz {

using namespace test;

std::vector<std::string> seeds() {
  std::string factors;
  for (int i = 0; i < 8; ++i) factors += gguf_value(1.5F);
  const std::string numbers =
      gguf_value(std::uint32_t{5}) + gguf_value(std::uint64_t{2}) + gguf_value(4) + gguf_value(2);
  return {
      gguf_file("llama"),
      gguf_file("gemma3", 2,
                gguf_number("gemma3.attention.sliding_window", 8) + gguf_number("gemma3.context_length", 64)),
      gguf_file("gptneox", 1, gguf_number("gptneox.rope.dimension_count", 4)),
      gguf_front(0, 3) + gguf_key("general.architecture", 8, gguf_text("deci")) + gguf_number("deci.block_count", 2) +
          gguf_key("deci.attention.head_count", 9, numbers),
      gguf_with_tensor(
          gguf_front(1, gguf_model_keys) + gguf_model("llama") + gguf_tensor("rope_freqs.weight", {8}, 0, 0), factors),
  };
}

std::vector<std::string> words() {
  return {gguf_value(~std::uint64_t{0}),
          gguf_value(std::uint64_t{1}),
          gguf_value(std::uint32_t{9}),
          gguf_number("llama.rope.freq_base", 7),
          gguf_number("llama.rope.foo", 7),
          gguf_key("llama.rope.scaling.type", 8, gguf_text("yarn")),
          gguf_key("llama.rope.scaling.factor", 6, gguf_value(4.0F)),
          "qwen2vl",
          "deepseek2",
          ".attention.key_length",
          std::string(1, '\0'),
          "\xFF"};
}

void one(const std::string& input) {
  const MemoryFile memory("GGUF" + (input.size() < 4 ? input : input.substr(4)));
  Model model;
  try {
    model = read_config(memory.path());
  } catch (const Error& error) {
    return require_refusal(error, "[read_config] ",
                           {"FORMAT", "TENSOR", "CONFIG_KEY", "CONFIG_VALUE", "CONFIG_MISSING", "MODEL_TYPE", "ROPE"});
  }
  for (const ModelRope& used : model.ropes) {
    require(used.rope.rotary_dim >= 2 && used.first + used.rope.rotary_dim <= used.rope.head_dim,
            "a rope fits its head");
    try {
      require(frequencies(used.rope, 0).inv_freq.size() == static_cast<std::size_t>(used.rope.rotary_dim / 2), "pairs");
    } catch (const Error& error) {
      require(error.code() == Code::SCALING, std::string(name(error.code())) + ": " + error.what());
    }
  }
}

}  // namespace rotary::fuzz
