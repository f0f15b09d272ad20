// Layouts of published checkpoints beside the usual ones: fused projections of remote code, gates, experts, per-layer
// heads, and tensors that stay.
#include "families.h"

namespace rotary::convert_tests {
namespace {

Family family(const std::string& type, const std::string& config, std::vector<Tensor> tensors, std::vector<Heads> heads,
              Pairing native = Pairing::half) {
  return {.name = type,
          .config = R"({"model_type": ")" + type + R"(", )" + config + "}",
          .tensors = std::move(tensors),
          .heads = std::move(heads),
          .head_dim = 8,
          .first = 0,
          .pairs = 4,
          .native = native};
}

// Head h of a fused projection begins at row slot(h) * 8.
Heads at_slots(const std::string& name, int count, const std::function<int(int)>& slot) {
  return {count, [=](int h, int d) { return Place{name, slot(h) * 8 + d}; }};
}

class Published : public Families {};

TEST_F(Published, refined_web_is_falcon_40b_and_has_groups) {
  const std::string name = "transformer.h.0.self_attention.query_key_value.weight";
  expect_converts(family(
      "RefinedWeb", R"("hidden_size": 32, "n_head": 4, "n_head_kv": 2, "n_layer": 1, "alibi": false)", {rows(name, 64)},
      {at_slots(name, 4, [](int h) { return h / 2 * 4 + h % 2; }),
       at_slots(name, 2, [](int k) { return k * 4 + 2; })}));
}

TEST_F(Published, refined_web_model_has_one_key_head_only_where_it_says_so) {
  const std::string name = "transformer.h.0.self_attention.query_key_value.weight";
  const std::string config = R"("hidden_size": 32, "n_head": 4, "n_layer": 1, "alibi": false)";
  expect_converts(
      family("RefinedWebModel", config, {rows(name, 96)},
             {at_slots(name, 4, [](int h) { return 3 * h; }), at_slots(name, 4, [](int h) { return 3 * h + 1; })}));
  Family one_key = family("RefinedWebModel", config + R"(, "multi_query": true)", {rows(name, 48)},
                          {at_slots(name, 5, [](int h) { return h; })});
  one_key.name = "RefinedWebModel-7b";
  expect_converts(one_key);
}

TEST_F(Published, mpt_with_one_key_head_and_norms) {
  const std::string at = "transformer.blocks.0.attn.";
  expect_converts(family("mpt", R"("d_model": 32, "n_heads": 4, "n_layers": 1, "max_seq_len": 64,
 "attn_config": {"rope": true, "rope_theta": 10000, "attn_type": "multiquery_attention", "qk_ln": true})",
                         {rows(at + "Wqkv.weight", 48), vector(at + "q_ln.weight", 32), vector(at + "k_ln.weight", 8)},
                         {at_slots(at + "Wqkv.weight", 5, [](int h) { return h; }), plain(at + "q_ln.weight", 4, 8),
                          plain(at + "k_ln.weight", 1, 8)}));
}

TEST_F(Published, masks_of_codegen_stay) {
  const std::string at = "transformer.h.0.attn.";
  Family codegen =
      family("codegen", R"("n_embd": 32, "n_head": 4, "n_layer": 1, "rotary_dim": 8, "n_positions": 64)",
             {rows(at + "qkv_proj.weight", 96), some_tensor(at + "causal_mask", ElementType::u8, {1, 1, 8, 8}),
              vector(at + "maybe_rotary.inv_freq", 4)},
             {at_slots(at + "qkv_proj.weight", 4, [](int h) { return 3 * h; }),
              at_slots(at + "qkv_proj.weight", 4, [](int h) { return 3 * h + 2; })},
             Pairing::interleaved);
  expect_converts(codegen);
}

TEST_F(Published, openelm_and_laguna_have_heads_by_layer) {
  const std::string first = "transformer.layers.0.attn.", second = "transformer.layers.1.attn.";
  expect_converts(family("openelm", R"("model_dim": 32, "head_dim": 8, "num_transformer_layers": 2,
 "num_query_heads": [4, 8], "num_kv_heads": [1, 2], "rope_freq_constant": 10000, "max_context_length": 64)",
                         {rows(first + "qkv_proj.weight", 48), vector(first + "q_norm.weight", 8),
                          vector(first + "k_norm.weight", 8), rows(second + "qkv_proj.weight", 96)},
                         {plain(first + "qkv_proj.weight", 5, 8), shared(first + "q_norm.weight"),
                          shared(first + "k_norm.weight"), plain(second + "qkv_proj.weight", 10, 8)}));
  const std::string a = "model.layers.0.self_attn.", b = "model.layers.1.self_attn.";
  expect_converts(family("laguna", R"("hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
 "head_dim": 8, "num_hidden_layers": 2, "num_attention_heads_per_layer": [4, 6], "max_position_embeddings": 64,
 "layer_types": ["sliding_attention", "sliding_attention"])",
                         {rows(a + "q_proj.weight", 32), rows(a + "k_proj.weight", 16), rows(b + "q_proj.weight", 48),
                          rows(b + "k_proj.weight", 16)},
                         {plain(a + "q_proj.weight", 4, 8), plain(a + "k_proj.weight", 2, 8),
                          plain(b + "q_proj.weight", 6, 8), plain(b + "k_proj.weight", 2, 8)}));
}

TEST_F(Published, remote_code_that_joins_q_k_and_v) {
  for (const auto& [type, name] : {std::pair("baichuan", "model.layers.0.self_attn.W_pack.weight"),
                                   {"bailing_moe", "model.layers.0.attention.query_key_value.weight"},
                                   {"bailing_moe_v2", "model.layers.0.attention.query_key_value.weight"},
                                   {"codeshell", "transformer.h.0.attn.c_attn.weight"},
                                   {"llada2_moe", "model.layers.0.attention.query_key_value.weight"},
                                   {"molmo", "model.transformer.blocks.0.att_proj.weight"},
                                   {"qwen", "transformer.h.0.attn.c_attn.weight"}}) {
    const bool all = std::string(type) == "baichuan" || std::string(type) == "qwen";  // as many keys as queries
    const bool says = std::string(type) == "codeshell";
    Family joined = family(type, llama + (says ? R"(, "position_embedding_type": "rope")" : ""),
                           {rows(name, all ? 96 : 64)}, {plain(name, all ? 8 : 6, 8)});
    if (all) joined.config.replace(joined.config.find(R"("num_key_value_heads": 2, )"), 26, "");
    expect_converts(joined);
  }
}

TEST_F(Published, neobert_has_a_bare_qkv_head_by_head) {
  const std::string name = "transformer_encoder.0.qkv.weight";
  expect_converts(
      family("neobert", R"("hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1)",
             {rows(name, 96), rows("transformer_encoder.0.wo.weight", 32)},
             {at_slots(name, 4, [](int h) { return 3 * h; }), at_slots(name, 4, [](int h) { return 3 * h + 1; })},
             Pairing::interleaved));
}

TEST_F(Published, hrm_has_a_gate_in_front_and_stacks_that_run_by_turns) {
  const std::string high = "model.H_module.layers.0.attn.gqkv_proj.weight",
                    low = "model.L_module.layers.0.attn.gqkv_proj.weight";
  expect_converts(
      family("hrm_text", R"("hidden_size": 32, "num_attention_heads": 4, "head_dim": 8,
 "num_hidden_layers": 6, "num_layers_per_stack": 1, "max_position_embeddings": 64)",
             {rows(high, 128), rows(low, 128)},
             {at_slots(high, 8, [](int h) { return 4 + h; }), at_slots(low, 8, [](int h) { return 4 + h; })}));
}

// Layer 0 is the embedding, and the head comes behind the last one.
TEST_F(Published, the_first_phi_counts_its_layers_from_one) {
  Family phi = family("mixformer-sequential", R"("n_embd": 96, "n_head": 2, "n_layer": 2, "n_positions": 64)",
                      {rows("layers.0.wte.weight", 10), rows("layers.1.mixer.Wqkv.weight", 288),
                       vector("layers.1.mixer.Wqkv.bias", 288), rows("layers.2.mixer.Wqkv.weight", 288),
                       vector("layers.2.mixer.Wqkv.bias", 288), rows("layers.2.mixer.out_proj.weight", 96),
                       rows("layers.3.linear.weight", 10)},
                      {});
  phi.head_dim = 48;
  phi.pairs = 16;
  for (const char* layer : {"1", "2"}) {
    for (const char* part : {".mixer.Wqkv.weight", ".mixer.Wqkv.bias"})
      phi.heads.push_back(plain("layers." + std::string(layer) + part, 4, 48));
  }
  expect_converts(phi);
}

TEST_F(Published, telechat_has_keys_and_values_head_by_head) {
  const std::string at = "transformer.h.0.self_attention.";
  expect_converts(family("telechat", R"("hidden_size": 32, "n_head": 4, "n_layer": 1, "num_key_value_heads": 2)",
                         {rows(at + "query.weight", 32), rows(at + "key_value.weight", 32)},
                         {plain(at + "query.weight", 4, 8), plain(at + "key_value.weight", 2, 16)}));
}

// The experts' dimension is in front of the rows.
TEST_F(Published, jetmoe_has_queries_of_each_expert) {
  const std::string at = "model.layers.0.self_attention.";
  const std::string queries = at + "experts.input_linear.weight", keys = at + "kv_proj.weight";
  const fs::path source = make("jetmoe", R"({"model_type": "jetmoe", "hidden_size": 12, "num_attention_heads": 4,
 "num_key_value_heads": 2, "kv_channels": 8, "num_experts_per_tok": 2, "num_hidden_layers": 1,
 "max_position_embeddings": 64})",
                               {some_tensor(queries, ElementType::f32, {3, 16, 12}), rows(keys, 32),
                                some_tensor(at + "experts.output_linear.weight", ElementType::f32, {3, 12, 16})});
  convert(source, Pairing::interleaved, path("jetmoe-2"));
  const Tensors before = tensors_in(source), after = tensors_in(path("jetmoe-2"));
  const auto row = [](const Tensor& tensor, std::size_t r) {
    return std::vector<std::byte>(tensor.data.begin() + static_cast<std::ptrdiff_t>(r * 48),
                                  tensor.data.begin() + static_cast<std::ptrdiff_t>(r * 48 + 48));
  };
  for (const auto& [name, moved, all] : {std::tuple(queries, 48U, 48U), {keys, 16U, 32U}}) {
    for (std::size_t r = 0; r < all; ++r) {
      const std::size_t from = r < moved ? r / 8 * 8 + r % 8 / 2 + r % 2 * 4 : r;
      EXPECT_EQ(row(after.at(name), r), row(before.at(name), from)) << name << " row " << r;
    }
  }
  convert(path("jetmoe-2"), Pairing::half, path("jetmoe-3"));
  expect_same_files(source, path("jetmoe-3"));
}

TEST_F(Published, cosmos_names_its_projections_to_q) {
  const std::string at = "layers.0.self_attn.";
  expect_converts(family("qwen3_vl_text", llama,
                         {rows(at + "to_q.weight", 32), rows(at + "to_k.weight", 16), rows(at + "to_v.weight", 16),
                          rows(at + "to_out.weight", 12), vector(at + "norm_q.weight", 8),
                          vector(at + "norm_k.weight", 8), rows("blocks.0.attn.qkv.weight", 48)},
                         {plain(at + "to_q.weight", 4, 8), plain(at + "to_k.weight", 2, 8),
                          shared(at + "norm_q.weight"), shared(at + "norm_k.weight")}));
}

TEST_F(Published, jina_keeps_its_weights_behind_parametrizations) {
  const std::string at = "roberta.encoder.layers.0.mixer.Wqkv.";
  const std::string name = at + "parametrizations.weight.original", lora = at + "parametrizations.weight.0.lora_B";
  const fs::path source = make("jina", R"({"model_type": "xlm-roberta", "position_embedding_type": "rotary",
 "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1, "rotary_emb_base": 20000.0})",
                               {rows(name, 96), some_tensor(lora, ElementType::f32, {5, 96, 4}),
                                some_tensor(at + "parametrizations.weight.0.lora_A", ElementType::f32, {5, 4, 12})});
  const convert::Plan plan = convert::make_plan(source, Pairing::interleaved, std::nullopt);
  ASSERT_EQ(plan.tensors.size(), 2U);
  EXPECT_EQ(plan.tensors[0].change.sources->size(), 96U);
  ASSERT_EQ(plan.tensors[1].change.sources->size(), 480U);
  for (std::size_t row = 0; row < 480; ++row)
    EXPECT_EQ((*plan.tensors[1].change.sources)[row], row / 96 * 96 + (*plan.tensors[0].change.sources)[row % 96]);
}

TEST_F(Published, zamba2_adds_matrices_to_its_shared_projections) {
  const std::string at = "model.layers.0.shared_transformer.self_attn.";
  const std::string second = at + "linear_q_adapter_list.0.1.weight";
  expect_converts(family("zamba2", R"("hidden_size": 16, "attention_hidden_size": 32, "num_attention_heads": 4,
 "num_key_value_heads": 4, "attention_head_dim": 8, "num_hidden_layers": 1, "use_mem_rope": true,
 "layers_block_type": ["hybrid"], "hybrid_layer_ids": [0], "max_position_embeddings": 64)",
                         {rows(at + "q_proj.weight", 32), rows(at + "k_proj.weight", 32),
                          rows(at + "linear_q_adapter_list.0.0.weight", 12), rows(second, 32),
                          rows(at + "linear_v_adapter_list.0.1.weight", 32)},
                         {plain(at + "q_proj.weight", 4, 8), plain(at + "k_proj.weight", 4, 8), plain(second, 4, 8)}));
}

// Where a stack says that it is the text model's, the others are not.
TEST_F(Published, a_named_text_model_beside_a_stack_without_a_name) {
  const std::string at = "language_model.model.layers.0.self_attn.";
  Family speech = family(
      "granite_speech", "",
      {rows(at + "q_proj.weight", 32), rows(at + "k_proj.weight", 16), rows("encoder.layers.0.attn.to_q.weight", 32),
       rows("encoder.layers.0.attn.to_kv.weight", 64), rows("mtp.layers.0.self_attn.q_proj.weight", 32)},
      {plain(at + "q_proj.weight", 4, 8), plain(at + "k_proj.weight", 2, 8),
       plain("mtp.layers.0.self_attn.q_proj.weight", 4, 8)});
  speech.config = R"({"model_type": "granite_speech", "text_config": {"model_type": "granite", )" + llama +
                  R"(}, "encoder_config": {"model_type": "granite_speech_encoder", "num_heads": 4}})";
  expect_converts(speech);
}

// MiniCPM-V's config is that of its text model, with vision_config beside.
TEST_F(Published, layers_of_towers_stay_or_are_refused) {
  const std::string at = "llm.model.layers.0.self_attn.";
  const std::string config = llama + R"(, "vision_config": {"model_type": "siglip", "num_attention_heads": 4})";
  std::vector<Tensor> tensors = {rows(at + "q_proj.weight", 32), rows(at + "k_proj.weight", 16),
                                 rows("vpm.encoder.layers.0.self_attn.q_proj.weight", 32)};
  const std::vector<Heads> heads = {plain(at + "q_proj.weight", 4, 8), plain(at + "k_proj.weight", 2, 8)};
  expect_converts(family("minicpmv", config, tensors, heads));
  for (Tensor& tensor : tensors) {
    if (tensor.name.starts_with("llm")) tensor = rows(tensor.name.substr(4), tensor.shape[0]);
  }
  tensors.push_back(rows("eyes.layers.0.self_attn.q_proj.weight", 32));
  const fs::path other = make("other", R"({"model_type": "minicpmv", )" + config + "}", tensors);
  expect_error("TENSOR", "must be told from those of its towers but \"eyes.layers\" and \"model.layers\"",
               [&] { convert(other, Pairing::interleaved, path("x")); });
}

}  // namespace
}  // namespace rotary::convert_tests
