"""vLLM on its CPU platform: the model of the config on the meta device, and forward_native of the rotary module of the
layer's attention. A case with a length is served with that max_model_len."""
import os
import tempfile

os.environ |= {"VLLM_TARGET_DEVICE": "cpu", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_KVCACHE_SPACE": "1",
               "HF_HUB_OFFLINE": "1"}

import torch  # noqa: E402
from harness import NotThere, OtherHead, main  # noqa: E402
from vllm.config import set_current_vllm_config  # noqa: E402
from vllm.distributed import parallel_state  # noqa: E402
from vllm.engine.arg_utils import EngineArgs  # noqa: E402
from vllm.model_executor.layers import rotary_embedding as ropes  # noqa: E402
from vllm.model_executor.model_loader.utils import initialize_model  # noqa: E402
from vllm.model_executor.models import registry  # noqa: E402

KINDS = ropes.base.RotaryEmbeddingBase, ropes.Phi3LongRoPEScaledRotaryEmbedding
registry._run_in_subprocess = lambda call: call()  # the question "which tasks has this class" needs no process here


def on_cpu(init):
    def made(self, *a, **k):
        with torch.device("cpu"):
            init(self, *a, **k)
    return made


for kind in KINDS:
    kind.__init__ = on_cpu(kind.__init__)


def make_model(folder, length):
    args = EngineArgs(model=folder, skip_tokenizer_init=True, load_format="dummy", enforce_eager=True, dtype="float32",
                      max_model_len=length)
    config = args.create_engine_config()
    ropes._ROPE_DICT.clear()
    with set_current_vllm_config(config):
        if not torch.distributed.is_initialized():
            parallel_state.init_distributed_environment(1, 0, f"file://{tempfile.mkdtemp()}/store", 0, "gloo")
        parallel_state.destroy_model_parallel()
        parallel_state.initialize_model_parallel()
        with torch.device("meta"):
            return config, initialize_model(vllm_config=config)


def rotate(folder, case, q, positions):
    if not os.path.exists(f"{folder}/config.json"):
        raise NotThere("config.json only")
    config, model = make_model(folder, case["length"])
    if any(hasattr(m, "permute_qk_weight_for_rotary") for m in model.modules()):
        raise NotThere("it permutes the weights of q and k when they are loaded")
    layer = [m for name, m in model.named_modules() if f"layers.{case['layer']}." in name and "vis" not in name]
    turns = next((m for m in layer if isinstance(m, KINDS)), None)
    if not turns:
        raise NotThere("no rotary module in the layer")
    begin = case["first"] if turns.head_size == case["rotary_dim"] else 0  # MLA hands on the end of the head
    if begin + turns.head_size != q.shape[1]:
        raise OtherHead(turns.head_size)
    rows = getattr(turns, "cos_sin_cache", None)
    rows = turns.max_position_embeddings if rows is None else len(rows)
    reached = torch.tensor(positions).reshape(-1, q.shape[0]).amax(0) < rows
    x, result = torch.tensor(q)[reached], torch.full(q.shape, float("nan"))
    forward = getattr(turns, "forward_native", turns.forward)
    with set_current_vllm_config(config):
        head = x[:, begin:].clone()
        if isinstance(turns, ropes.DeepseekScalingRotaryEmbedding):  # this one takes [tokens, heads, head_dim]
            head = head[:, None]
        out = forward(torch.tensor(positions)[..., reached], head, torch.zeros_like(head))[0]
    result[reached] = torch.cat([x[:, :begin], out.reshape(len(x), -1)], 1)
    return result.numpy()


if __name__ == "__main__":
    main(rotate)
