#include "attention.h"

namespace rotary::convert {
namespace {

struct FusedRow {
  std::string_view type;
  Fused fused;
};
// Of transformers 5.23's modules, and of the remote code of the published repositories: baichuan, bailing_moe, chatglm,
// codeshell, hf_olmo, internlm2, llada2_moe, mixformer-sequential, molmo, neobert, new, openelm, phi-msft, phi3_v,
// phi3small, phi4mm, qwen, RefinedWeb, xlm-roberta (with the code of jina-embeddings-v3).
constexpr FusedRow fused_rows_of[] = {
    {"phi3", Fused::joined},
    {"phi3_v", Fused::joined},
    {"phi4_multimodal", Fused::joined},
    {"phi4mm", Fused::joined},
    {"dbrx", Fused::joined},
    {"mpt", Fused::joined},
    {"modernbert", Fused::joined},
    {"nomic_bert", Fused::joined},
    {"gte", Fused::joined},
    {"new", Fused::joined},
    {"hf_olmo", Fused::joined},
    {"jina_embeddings_v3", Fused::joined},
    {"molmo2_text", Fused::joined},
    {"baichuan", Fused::joined},
    {"bailing_moe", Fused::joined},
    {"bailing_moe_v2", Fused::joined},
    {"codeshell", Fused::joined},
    {"llada2_moe", Fused::joined},
    {"molmo", Fused::joined},
    {"openelm", Fused::joined},
    {"xlm-roberta", Fused::joined},
    {"qwen", Fused::joined},
    {"phi-msft", Fused::joined},
    {"mixformer-sequential", Fused::joined},
    {"gpt_neox", Fused::by_head},
    {"gpt_neox_japanese", Fused::by_head},
    {"persimmon", Fused::by_head},
    {"neobert", Fused::by_head},
    {"internlm2", Fused::by_group},
    {"internlmxcomposer2", Fused::by_group},
    {"phi3small", Fused::by_group},
    {"hrm_text", Fused::gate_first},
    {"codegen", Fused::four_parts},
};

constexpr std::string_view gated[] = {"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen4_exp_text"};

// Gemma 4 and what came of it, with attention_k_eq_v.
constexpr std::string_view shared[] = {"gemma4_text", "gemma4_unified_text", "embedding_gemma2_text",
                                       "diffusion_gemma_text"};

struct Reason {
  std::string_view type, why;
};
constexpr Reason reasons[] = {
    {"clvp_encoder", "it rotates v too"},
    {"deepseek_v4", "its keys are its values, and its attention output is rotated back"},
    {"efficientloftr", "it rotates all heads as one"},
    {"seamless_m4t", "it rotates the hidden states in front of the projections"},
    {"wav2vec2-conformer", "it rotates the hidden states in front of the projections"},
    {"zaya", "convolutions mix the elements of q and k"},
};

}  // namespace

std::string_view why_not(std::string_view model_type) noexcept {
  for (const Reason& row : reasons) {
    if (row.type == model_type) return row.why;
  }
  return {};
}

std::optional<Attention> attention_of(std::string_view model_type, const LayoutFlags& flags) {
  if (!why_not(model_type).empty()) return std::nullopt;
  Attention attention;
  for (const std::string_view type : gated) attention.gated_q = attention.gated_q || type == model_type;
  attention.gated_by_value = model_type == "axk2";
  attention.query_experts = model_type == "jetmoe";
  if (model_type == "jetmoe") attention.fused_keys = FusedKeys::joined;
  if (model_type == "telechat") attention.fused_keys = FusedKeys::by_head;
  for (const std::string_view type : shared) {
    attention.keys_may_be_values = attention.keys_may_be_values || type == model_type;
  }
  for (const FusedRow& row : fused_rows_of) {
    if (row.type == model_type) attention.fused = row.fused;
  }
  // Falcon 40B was published as RefinedWeb, whose code knows no other order.
  const bool groups = flags.new_decoder_architecture || model_type == "RefinedWeb";
  if (model_type == "falcon" || model_type == "RefinedWeb" || model_type == "RefinedWebModel")
    attention.fused = groups ? Fused::by_group : flags.multi_query ? Fused::joined : Fused::by_head;
  if (model_type == "chatglm") attention.fused = flags.multi_query ? Fused::joined : Fused::by_head;
  return attention;
}

std::vector<std::int64_t> heads_at(int heads, std::int64_t stride) {
  std::vector<std::int64_t> rows;
  for (int head = 0; head < heads; ++head) rows.push_back(head * stride);
  return rows;
}

std::int64_t fused_rows(Fused fused, int heads, int kv_heads, int head_dim) {
  const int gates = fused == Fused::gate_first ? heads : 0;
  return (std::int64_t{gates} + heads + 2 * std::int64_t{kv_heads}) * head_dim;
}

// Heads are counted in the order of the rows: head `slot` begins at row slot * head_dim.
std::vector<std::int64_t> fused_heads(Fused fused, int heads, int kv_heads, int head_dim) {
  const int group = heads / kv_heads;
  const int quarter = heads / 4;
  const auto slot = [&](int head, bool key) {
    switch (fused) {
      case Fused::by_head:
        return 3 * head + (key ? 1 : 0);
      case Fused::by_group:
        return key ? head * (group + 2) + group : head / group * (group + 2) + head % group;
      case Fused::four_parts:
        return head / quarter * 3 * quarter + (key ? 2 * quarter : 0) + head % quarter;
      case Fused::gate_first:
        return heads + (key ? heads : 0) + head;
      case Fused::joined:
      case Fused::none:
        break;
    }
    return (key ? heads : 0) + head;
  };
  std::vector<std::int64_t> rows;
  for (int head = 0; head < heads; ++head) rows.push_back(std::int64_t{slot(head, false)} * head_dim);
  for (int head = 0; head < kv_heads; ++head) rows.push_back(std::int64_t{slot(head, true)} * head_dim);
  return rows;
}

}  // namespace rotary::convert
