// The model_types of transformers 5.23 in which nothing turns, and a few of remote code: their files may carry rope
// words all the same, and they stand beside models that turn.
#include <algorithm>
#include <vector>

#include "families.h"

namespace rotary::files {
namespace {

constexpr std::string_view names =
    "aimv2 aimv2_text_model aimv2_vision_model albert align align_text_model align_vision_model altclip "
    "altclip_text_model altclip_vision_model audio-spectrogram-transformer audioflamingo3_encoder autoformer "
    "bark bart beit bert bert-generation big_bird bigbird_pegasus biogpt bit blenderbot blenderbot-small blip "
    "blip-2 blip_2_qformer blip_2_vision_model blip_text_model blip_vision_model bloom bridgetower "
    "bridgetower_text_model bridgetower_vision_model bros camembert canary canary_decoder canine "
    "chameleon_vqgan chinese_clip chinese_clip_text_model chinese_clip_vision_model clap clap_audio_model "
    "clap_text_model clip clip_text_model clip_vision_model clipseg clipseg_text_model clipseg_vision_model "
    "clvp_decoder cohere_asr conditional_detr convbert convnext convnextv2 cosmos3_edge_vision cpmant ctrl "
    "cvt d_fine dab-detr dac data2vec-audio data2vec-text data2vec-vision deberta deberta-v2 "
    "decision_transformer deepseek_ocr2_sam_vision_model deformable_detr deimv2 deit depth_anything depth_pro "
    "detr dinat dinov2 dinov2_with_registers dinov3_convnext distilbert donut-swin dpr dpt edgetam "
    "edgetam_mask_decoder edgetam_prompt_encoder edgetam_video_mask_decoder edgetam_video_prompt_encoder "
    "edgetam_vision_model efficientnet electra emu3_vqgan encodec encoder-decoder eomt ernie falcon_mamba "
    "fastspeech2_conformer fastspeech2_conformer_hifigan fastspeech2_conformer_with_hifigan flaubert flava "
    "flava_image_codebook flava_image_model flava_multimodal_model flava_text_model florence2 florence_vision "
    "fnet focalnet fsmt fun_asr_nano_encoder funnel gemma3n_audio gemma3n_vision gemma4_audio "
    "gemma4_unified_audio gemma4_unified_vision git git_vision_model glm5_next_text glm_image_vision "
    "glm_image_vqmodel glpn got_ocr2_vision gpt-sw3 gpt2 gpt_bigcode gpt_neo granite_docling_vision "
    "granite_speech5_ctc granite_speech5_encoder granite_speech_encoder granite_speech_plus_encoder "
    "grounding-dino groupvit groupvit_text_model groupvit_vision_model hgnet_v2 hiera "
    "higgs_audio_v2_tokenizer hubert hunyuan_vl_vision ibert idefics2 idefics2_perceiver idefics2_vision "
    "idefics3_vision idefics_perciever idefics_vision ijepa imagegpt informer inkling2_text inkling_audio "
    "inkling_mm_model inkling_text inkling_vision instructblip instructblip_qformer instructblip_vision_model "
    "instructblipvideo instructblipvideo_qformer instructblipvideo_vision_model intern_vit_6b internvl_vision "
    "jais jamba janus_vision_model janus_vqgan kimi_linear kosmos-2 kosmos-2.5 kosmos_2_5_text_model "
    "kosmos_2_5_vision_model kosmos_2_text_model kosmos_2_vision_model layoutlm layoutlmv2 layoutlmv3 "
    "layoutxlm led levit lilt longformer longt5 luke lw_detr lw_detr_vit lxmert m2m_100 mamba mamba2 marian "
    "markuplm mask2former maskformer maskformer-swin mbart megatron-bert metaclip_2 metaclip_2_text_model "
    "metaclip_2_vision_model mgp-str minicpm_ocr_vision minicpmv4_6_vision minicpmv4_7_vision "
    "mllama_vision_model mm-grounding-dino mobilebert mobilenet_v1 mobilenet_v2 mobilenetv5 mobilevit "
    "mobilevitv2 molmo2_adapter molmo2_vision moonshine_streaming_encoder moshi_depth "
    "moss_transcribe_diarize_audio mpnet mra mt5 muse_spark_audio musicgen musicgen_decoder musicgen_melody "
    "musicgen_melody_decoder mvp nemotron3_5_asr nemotron_asr_streaming nemotron_asr_streaming_encoder "
    "nemotron_h nemotron_h_omni nllb-moe nougat nystromformer omdet-turbo oneformer openai-gpt opt "
    "ovis2_vision owlv2 owlv2_text_model owlv2_vision_model owlvit owlvit_text_model owlvit_vision_model "
    "parakeet_ctc parakeet_encoder parakeet_rnnt parakeet_tdt patchtsmixer patchtst pegasus pegasus_x "
    "perceiver phi4_multimodal_audio phi4_multimodal_vision pix2struct pix2struct_text_model "
    "pix2struct_vision_model pixio plbart poolformer pop2piano pp_chart2table_vision pp_doclayout_v2 "
    "pp_doclayout_v3 pp_doclayout_v4 pp_formulanet pp_formulanet_text pp_formulanet_vision pp_lcnet "
    "pp_lcnet_v3 pp_lcnet_v4 pp_ocrv5_mobile_det pp_ocrv5_mobile_rec pp_ocrv5_server_det pp_ocrv5_server_rec "
    "pp_ocrv6_medium_det pp_ocrv6_small_det pp_ocrv6_small_rec pp_ocrv6_tiny_rec prompt_depth_anything "
    "prophetnet pvt pvt_v2 qianfan_ocr_vision qwen2_5_omni_audio_encoder qwen2_5_omni_bigvgan "
    "qwen2_audio_encoder qwen3_asr_encoder qwen3_omni_moe_audio_encoder radio rag reformer regnet rembert "
    "resnet rf_detr rf_detr_dinov2 roberta roberta-prelayernorm roc_bert rt_detr rt_detr_resnet rt_detr_v2 "
    "rwkv sam sam2 sam2_hiera_det_model sam2_mask_decoder sam2_prompt_encoder sam2_video_mask_decoder "
    "sam2_video_prompt_encoder sam2_vision_model sam3_detr_decoder sam3_detr_encoder sam3_geometry_encoder "
    "sam3_lite_text_detr_decoder sam3_lite_text_detr_encoder sam3_lite_text_geometry_encoder "
    "sam3_lite_text_mask_decoder sam3_lite_text_text_model sam3_mask_decoder sam3_tracker_mask_decoder "
    "sam3_tracker_prompt_encoder sam3_tracker_video_mask_decoder sam3_tracker_video_prompt_encoder sam_hq "
    "sam_hq_mask_decoder sam_hq_prompt_encoder sam_hq_vision_model sam_mask_decoder sam_prompt_encoder "
    "sam_vision_model sapiens2_head seamless_m4t_v2 segformer seggpt sew sew-d siglip siglip2 "
    "siglip2_text_model siglip2_vision_model siglip_text_model siglip_vision_model slanet slanext "
    "slanext_vision smolvlm_vision speech-encoder-decoder speech_to_text speecht5 speecht5_hifigan splinter "
    "squeezebert superglue superpoint swiftformer swin swin2sr swinv2 switch_transformers t5 "
    "table-transformer tapas textnet time_series_transformer timesfm timesformer timm_backbone timm_wrapper "
    "tipsv2 tipsv2_dpt tipsv2_text_model tipsv2_vision_model trocr tvp udop umt5 unispeech unispeech-sat "
    "univnet unlimited_ocr_sam_vision_model unlimited_ocr_vision unlimited_ocr_vision_encoder upernet uvdoc "
    "uvdoc_backbone vibevoice_acoustic_tokenizer vibevoice_acoustic_tokenizer_decoder "
    "vibevoice_acoustic_tokenizer_encoder vibevoice_diffusion videomae videomt videoprism "
    "videoprism_text_model videoprism_vision_model vilt vision-encoder-decoder vision-text-dual-encoder "
    "visual_bert vit vit_mae vit_msn vitdet vitmatte vitpose vitpose_backbone vits vivit voxtral_encoder "
    "wav2vec2 wavlm whisper xclip xclip_text_model xclip_vision_model xcodec xglm xlm xlm-roberta-xl xlnet "
    "xlstm xmod yolos yoso zamba zoedepth";

const std::vector<std::string_view>& list() {
  static const std::vector<std::string_view> types = words(names);
  return types;
}

}  // namespace

std::span<const std::string_view> types_without_rope() { return list(); }

bool known_without_rope(std::string_view model_type) {
  return std::find(list().begin(), list().end(), model_type) != list().end();
}

}  // namespace rotary::files
