"""vLLM on its CPU platform: the model of the config on the meta device, and forward_native of the rotary module of the
layer's attention. A case with a length is served with that max_model_len."""
import os

os.environ |= {"VLLM_TARGET_DEVICE": "cpu", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_KVCACHE_SPACE": "1",
               "HF_HUB_OFFLINE": "1"}

import served  # noqa: E402
import torch  # noqa: E402
from harness import main  # noqa: E402
from vllm.config import set_current_vllm_config  # noqa: E402
from vllm.distributed import parallel_state  # noqa: E402
from vllm.engine.arg_utils import EngineArgs  # noqa: E402
from vllm.model_executor.layers import rotary_embedding as ropes  # noqa: E402
from vllm.model_executor.model_loader.utils import initialize_model  # noqa: E402
from vllm.model_executor.models import registry  # noqa: E402

KINDS = ropes.base.RotaryEmbeddingBase, ropes.Phi3LongRoPEScaledRotaryEmbedding
registry._run_in_subprocess = lambda call: call()  # the question "which tasks has this class" needs no process here
served.make_on_cpu(*KINDS)


def rotate(folder, case, q, positions):
    config = EngineArgs(model=folder, skip_tokenizer_init=True, load_format="dummy", enforce_eager=True,
                        dtype="float32", max_model_len=case["length"]).create_engine_config()
    ropes._ROPE_DICT.clear()
    with set_current_vllm_config(config):
        served.one_process(parallel_state)
        parallel_state.destroy_model_parallel()
        parallel_state.initialize_model_parallel()
        with torch.device("meta"):
            model = initialize_model(vllm_config=config)
        turns = served.rotary_module(model, case["layer"], KINDS)
        return served.turn(turns, case, q, positions, ropes.DeepseekScalingRotaryEmbedding)


if __name__ == "__main__":
    main(rotate, axes=2)
