// Class defaults of max_position_embeddings in transformers 5.23, for files that leave it out: a composite's sub-config
// holds what differs from its class only.
#include <algorithm>
#include <vector>

#include "families.h"

namespace rotary::files {
namespace {

struct Usual {
  std::int64_t positions;
  std::string_view types;
};

constexpr Usual rows[] = {
    {33, "csm_depth_decoder_model"},
    {512, "moonshine xlm-roberta"},
    {750, "kyutai_speech_to_text"},
    {1024, "dia_encoder muse_glimmer_vision muse_spark_vision seamless_m4t"},
    {1026, "esm"},
    {1500, "glmasr_encoder voxtral_realtime_encoder"},
    {1536, "roformer"},
    {2048,
     "aria_text bitnet codegen csm dbrx deepseek_ocr2_text deepseek_v2 diffllama doge dots1 esmc exaone4 "
     "exaone_moe falcon gpt_neox gpt_neox_japanese gptj granite granite4_vision_text granitemoe "
     "granitemoe_swa granitemoehybrid granitemoeshared higgs_audio_v2 hrm_text hunyuan_v1_dense "
     "hunyuan_v1_moe hunyuan_vl_text hyperclovax idefics llama nanochat nomic_bert olmo olmo2 olmo3 phi"},
    {2704, "step3p5_vision"},
    {3000, "moshi"},
    {3072, "dia_decoder"},
    {4096,
     "arcee blt_global_transformer chameleon deepseek_v3 flex_olmo helium jetmoe moonshine_streaming "
     "nemotron neucodec olmoe phi3 stablelm starcoder2 xcodec2 zamba2"},
    {5000, "nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_word_timestamp nemotron3_diarization_audio"},
    {6000, "dots3_note_audio_encoder"},
    {8000,
     "mimi mimi_decoder mimi_encoder pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_decoder "
     "pocket_tts_audio_tokenizer_encoder"},
    {8192,
     "beam blt_patcher cohere cohere2 cohere2_moe cohere_compass_text eurobert evolla falcon_h1 gemma "
     "gemma2 gradium_phonon_tts granite_swa gte jais2 modernbert modernbert-decoder pocket_tts "
     "t5_gemma_module vaultgemma"},
    {8194, "jina_embeddings_v3"},
    {9216, "emu3_text_model"},
    {10000, "lasr_encoder pe_audio_encoder pe_audio_video_encoder pe_video_encoder"},
    {16384, "afmoe neomme persimmon timesfm2_5"},
    {24576, "blt_local_decoder blt_local_encoder"},
    {32768,
     "axk1 deepseek_ocr2_encoder gemma3n_text glm4v_text granite_docling_text internlm3 minicpm3 qwen2 "
     "qwen2_5_omni_dit qwen2_5_omni_talker qwen2_5_omni_text qwen2_5_vl_text qwen2_moe qwen2_vl_text qwen3 "
     "qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next qwen3_omni_moe_talker_code_predictor "
     "qwen3_omni_moe_talker_text qwen3_omni_moe_text qwen4_exp_text smollm3 ultrabert unlimited_ocr_text"},
    {36864, "molmo2_text"},
    {65536, "apertus glm4v_moe_text olmo_hybrid"},
    {128000, "lfm2 lfm2_moe lfm3 qwen3_vl_moe_text qwen3_vl_text step3p5"},
    {131072,
     "axk2 cosmos3_edge_text cwm diffusion_gemma_text ernie4_5 ernie4_5_moe ernie4_5_vl_moe_text "
     "gemma3_text gemma4_text gemma4_vision glm glm4 glm4_moe glm_image_text glm_ocr_text gpt_oss hy_v3 "
     "iquestcoder laguna llama4_text longcat_flash mellum mimo_v2_flash minimax ministral mistral mixtral "
     "mllama_text_model muse_glimmer_assistant muse_glimmer_text openai_privacy_filter paddleocr_vl_text "
     "phi4_multimodal phimoe solar_open t5gemma2_decoder t5gemma2_text voxtral_realtime_text youtu zaya"},
    {163840, "deepseek_v32"},
    {196608, "minimax_m2"},
    {202752, "glm4_moe_lite glm_moe_dsa"},
    {262144, "bailing_hybrid bamba embedding_gemma2_text flint gemma4_unified_text hy_v4 kolibri1 ministral3"},
    {524288, "dots3_note_text minimax_m3_vl_text seed_oss"},
    {1048576, "deepseek_v4 mistral4 mistral_large4_text muse_spark_text"},
};

}  // namespace

std::int64_t usual_context(std::string_view model_type) {
  for (const Usual& row : rows) {
    const std::vector<std::string_view> types = words(row.types);
    if (std::find(types.begin(), types.end(), model_type) != types.end()) return row.positions;
  }
  return 0;
}

}  // namespace rotary::files
