"""Megatron Bridge: the Megatron Core model that it makes of the config on the meta device, its rotary module and its
attention's apply function. The kernels of Transformer Engine, which the bridge alone asks for, turn nothing here."""
import served
import torch
from harness import need, need_head
from megatron.core import parallel_state
from megatron.core.models.common.embeddings import rope_utils, yarn_rotary_pos_embedding
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.transformer.enums import AttnBackend

served.put_absent("transformer_engine", "transformer_engine.pytorch", "mamba_ssm", "mamba_ssm.ops", *(
    f"mamba_ssm.ops.triton{end}" for end in ("", ".selective_state_update", ".layernorm_gated", ".ssd_combined")))
from megatron.bridge import AutoBridge  # noqa: E402

AXES = 2
PLAIN = {"use_cpu_initialization": True, "init_model_with_meta_device": True, "apply_rope_fusion": False,
         "persist_layer_norm": False, "layernorm_zero_centered_gamma": False, "moe_permute_fusion": False,
         "attention_backend": AttnBackend.auto}  # turn nothing
torch.cuda.current_device = lambda: "cpu"
torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
parallel_state.initialize_model_parallel()


def rotate(folder, case, q, positions):
    provider = AutoBridge.from_hf_pretrained(folder).to_megatron_provider(load_weights=False)
    vars(provider).update(PLAIN, num_layers=case["layer"] + 1, transformer_layer_spec=get_gpt_layer_local_spec(
        qk_layernorm=provider.qk_layernorm))
    provider.finalize()
    with torch.device("meta"):
        model = provider.provide(True, True)
    turns = getattr(model, "language_model", model).rotary_pos_emb
    need_head(provider.kv_channels, q)
    if positions.ndim > 1:
        rows = turns(torch.tensor(positions)[:, None], provider.mrope_section)
    else:
        made = [turns(1, offset=int(p)) for p in positions]  # YaRN's is its rows and a number
        need(not (isinstance(made[0], tuple) and torch.is_tensor(made[0][1])), "its attention chooses one of two")
        rows = torch.cat([one[0] if isinstance(one, tuple) else one for one in made])
    factor = yarn_rotary_pos_embedding._yarn_get_concentration_factor_from_config(provider)
    return rope_utils.apply_rotary_pos_emb(torch.tensor(q)[:, None, None], rows, provider, mscale=factor)[:, 0, 0]
