#include "published.h"

#include <algorithm>

#include "files/models/families.h"
#include "published_lists.h"

namespace rotary::extend {
namespace {

Scaling yarn_4() { return Yarn{.factor = 4, .trained_length = 32768}; }
Scaling yarn_deepseek_v2() {
  return Yarn{.factor = 40, .trained_length = 4096, .mscale = 0.707, .mscale_all_dim = 0.707};
}
Scaling yarn_deepseek_v3() { return Yarn{.factor = 40, .trained_length = 4096, .mscale = 1, .mscale_all_dim = 1}; }
Scaling yarn_kimi() {
  return Yarn{.factor = 32, .trained_length = 4096, .beta_fast = 1, .mscale = 1, .mscale_all_dim = 1};
}
Scaling yarn_ministral() { return Yarn{.factor = 16, .trained_length = 16384, .mscale = 1, .mscale_all_dim = 1}; }

// What tests/golden/configs holds is checked by tests/extend: the published config planned from its short original.
constexpr Published table[] = {
    {.types = "qwen2 qwen2_moe qwen2_vl_text qwen2_5_vl_text",
     .trained_length = 32768,
     .context = 131072,
     .scaling = yarn_4,
     .publisher = "Qwen",
     .models = "Qwen2, Qwen2.5 and their vision models",
     .source = "the model card of Qwen/Qwen2.5-7B-Instruct",
     .base = 1e6,
     .stated = 128000},
    {.types = "qwen3 qwen3_moe",
     .trained_length = 32768,
     .context = 131072,
     .scaling = yarn_4,
     .publisher = "Qwen",
     .models = "Qwen3",
     .source = "the model card of Qwen/Qwen3-8B",
     .base = 1e6,
     .stated = 40960},
    {.types = "llama",
     .trained_length = 8192,
     .context = 131072,
     .scaling = [] { return Scaling(Llama3{.factor = 32, .trained_length = 8192}); },
     .publisher = "Meta",
     .models = "Llama 3.2 1B and 3B",
     .source = "config.json of meta-llama/Llama-3.2-1B",
     .base = 5e5,
     .max_width = 3072},
    {.types = "llama mllama_text_model",
     .trained_length = 8192,
     .context = 131072,
     .scaling = [] { return Scaling(Llama3{.factor = 8, .trained_length = 8192}); },
     .publisher = "Meta",
     .models = "Llama 3.1, 3.2 Vision and 3.3",
     .source = "config.json of meta-llama/Llama-3.1-8B",
     .base = 5e5,
     .min_width = 4096},
    {.types = "llama4_text",
     .trained_length = 8192,
     .context = 10485760,
     .scaling = [] { return Scaling(Llama3{.factor = 16, .trained_length = 8192, .low = 1, .high = 1}); },
     .publisher = "Meta",
     .models = "Llama 4 Scout",
     .source = "the later config.json of meta-llama/Llama-4-Scout-17B-16E-Instruct",
     .base = 5e5},
    {.types = "phi3",
     .trained_length = 4096,
     .context = 131072,
     .scaling = [] { return Scaling(phi_3_5_mini()); },
     .publisher = "Microsoft",
     .models = "Phi-3.5-mini",
     .source = "config.json of microsoft/Phi-3.5-mini-instruct",
     .base = 1e4,
     .min_width = 3072,
     .max_width = 3072,
     .kv_heads = 32,
     .name = "Phi-3.5"},
    {.types = "phi3",
     .trained_length = 4096,
     .context = 131072,
     .scaling = [] { return Scaling(phi_3_mini()); },
     .publisher = "Microsoft",
     .models = "Phi-3-mini",
     .source = "config.json of microsoft/Phi-3-mini-128k-instruct",
     .base = 1e4,
     .min_width = 3072,
     .max_width = 3072,
     .kv_heads = 32},
    {.types = "phi3",
     .trained_length = 4096,
     .context = 131072,
     .scaling = [] { return Scaling(phi_4_mini()); },
     .publisher = "Microsoft",
     .models = "Phi-4-mini",
     .source = "config.json of microsoft/Phi-4-mini-instruct",
     .base = 1e4,
     .min_width = 3072,
     .max_width = 3072,
     .kv_heads = 8},
    {.types = "phimoe",
     .trained_length = 4096,
     .context = 131072,
     .scaling = [] { return Scaling(phi_3_5_moe()); },
     .publisher = "Microsoft",
     .models = "Phi-3.5-MoE",
     .source = "config.json of microsoft/Phi-3.5-MoE-instruct",
     .base = 1e4},
    {.types = "deepseek_v2",
     .trained_length = 4096,
     .context = 163840,
     .scaling = yarn_deepseek_v2,
     .publisher = "DeepSeek",
     .models = "DeepSeek-V2",
     .source = "config.json of deepseek-ai/DeepSeek-V2",
     .base = 1e4,
     .states_betas = true},
    {.types = "deepseek_v3 deepseek_v32",
     .trained_length = 4096,
     .context = 163840,
     .scaling = yarn_deepseek_v3,
     .publisher = "DeepSeek",
     .models = "DeepSeek-V3 and R1",
     .source = "config.json of deepseek-ai/DeepSeek-V3",
     .base = 1e4,
     .states_betas = true},
    {.types = "kimi_k2 deepseek_v3",
     .trained_length = 4096,
     .context = 131072,
     .scaling = yarn_kimi,
     .publisher = "Moonshot AI",
     .models = "Kimi K2",
     .source = "config.json of moonshotai/Kimi-K2-Instruct",
     .base = 5e4,
     .states_betas = true},
    {.types = "gpt_oss",
     .trained_length = 4096,
     .context = 131072,
     .scaling = [] { return Scaling(Yarn{.factor = 32, .trained_length = 4096, .truncate = false}); },
     .publisher = "OpenAI",
     .models = "gpt-oss",
     .source = "config.json of openai/gpt-oss-20b",
     .base = 1.5e5,
     .states_betas = true},
    {.types = "ministral3",
     .trained_length = 16384,
     .context = 262144,
     .scaling = yarn_ministral,
     .publisher = "Mistral AI",
     .models = "Ministral 3",
     .source = "config.json of mistralai/Ministral-3-8B-Instruct-2512",
     .base = 1e6,
     .states_betas = true},
    {.types = "gemma3_text",
     .trained_length = 32768,
     .context = 131072,
     .scaling = [] { return Scaling(Linear{.factor = 8}); },
     .publisher = "Google",
     .models = "Gemma 3 4B, 12B and 27B",
     .source = "config.json of google/gemma-3-27b-it",
     .base = 1e6,
     .min_width = 2048},
    {.types = "olmo3",
     .trained_length = 8192,
     .context = 65536,
     .scaling = [] { return Scaling(Yarn{.factor = 8, .trained_length = 8192}); },
     .publisher = "Ai2",
     .models = "Olmo 3",
     .source = "config.json of allenai/Olmo-3-1025-7B",
     .base = 5e5,
     .states_betas = true},
    {.types = "apertus",
     .trained_length = 8192,
     .context = 65536,
     .scaling = [] { return Scaling(Llama3{.factor = 8, .trained_length = 8192}); },
     .publisher = "the Swiss AI Initiative",
     .models = "Apertus",
     .source = "config.json of swiss-ai/Apertus-8B-2509",
     .base = 1.2e7},
    {.types = "exaone4",
     .trained_length = 8192,
     .context = 131072,
     .scaling = [] { return Scaling(Llama3{.factor = 16, .trained_length = 8192}); },
     .publisher = "LG AI Research",
     .models = "EXAONE 4.0 32B",
     .source = "config.json of LGAI-EXAONE/EXAONE-4.0-32B",
     .base = 1e6,
     .min_width = 4096},
    {.types = "exaone4",
     .trained_length = 8192,
     .context = 65536,
     .scaling = [] { return Scaling(Llama3{.factor = 16, .trained_length = 8192}); },
     .publisher = "LG AI Research",
     .models = "EXAONE 4.0 1.2B",
     .source = "config.json of LGAI-EXAONE/EXAONE-4.0-1.2B",
     .base = 1e6,
     .max_width = 4095},
    {.types = "arcee",
     .trained_length = 4096,
     .context = 65536,
     .scaling = [] { return Scaling(Yarn{.factor = 20, .trained_length = 4096}); },
     .publisher = "Arcee AI",
     .models = "AFM-4.5B",
     .source = "config.json of arcee-ai/AFM-4.5B",
     .base = 1e4,
     .states_betas = true},
};

bool is_of(const Published& row, const ModelRope& used, std::string_view name) {
  const std::vector<std::string_view> types = files::words(row.types);
  const int width = used.heads * used.rope.head_dim;
  return std::find(types.begin(), types.end(), used.model_type) != types.end() &&
         (row.base == 0 || row.base == used.rope.base) && width >= row.min_width &&
         (row.max_width == 0 || width <= row.max_width) && (row.kv_heads == 0 || row.kv_heads == used.kv_heads) &&
         name.find(row.name) != std::string_view::npos;
}

}  // namespace

const Published* published_for(const ModelRope& used, std::string_view name, std::int64_t context) {
  const Published* other = nullptr;
  for (const Published& row : table) {
    if (!is_of(row, used, name)) continue;
    if (row.context == context) return &row;
    if (other == nullptr) other = &row;
  }
  return other;
}

}  // namespace rotary::extend
