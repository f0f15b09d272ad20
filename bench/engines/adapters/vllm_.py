"""vLLM on its CPU platform: the model of the config on the meta device, and forward_native of the rotary module of the
layer's attention. A case with a length is served with that max_model_len."""
import served
import torch
from vllm.config import set_current_vllm_config
from vllm.distributed import parallel_state
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.layers import rotary_embedding as ropes
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.model_executor.models import registry

AXES = 2
KINDS = ropes.base.RotaryEmbeddingBase, ropes.Phi3LongRoPEScaledRotaryEmbedding
registry._run_in_subprocess = lambda call: call()  # the question "which tasks has this class" needs no process here
served.make_on_cpu(*KINDS)


def rotate(folder, case, q, positions):
    config = EngineArgs(model=folder, skip_tokenizer_init=True, load_format="dummy", enforce_eager=True,
                        dtype="float32", max_model_len=case["length"]).create_engine_config()
    ropes._ROPE_DICT.clear()
    with set_current_vllm_config(config):
        served.one_process(parallel_state)
        with torch.device("meta"):
            model = initialize_model(vllm_config=config)
        return served.turn(model, KINDS, ropes.DeepseekScalingRotaryEmbedding, case, q, positions)
