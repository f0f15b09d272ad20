"""SGLang's CPU engine: the model of the config on the meta device, and forward_native of the rotary module of the
layer's attention. sgl_kernel, whose kernels turn nothing here, is a module of nothing."""
import json
import os
import sys
from unittest import mock

os.environ |= {"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
sys.modules["sgl_kernel"] = mock.MagicMock()

import served  # noqa: E402
import torch  # noqa: E402
from harness import NotThere, main, make_small  # noqa: E402
from sglang.srt import runtime_context, server_args  # noqa: E402
from sglang.srt.configs.load_config import LoadConfig  # noqa: E402
from sglang.srt.configs.model_config import ModelConfig  # noqa: E402
from sglang.srt.distributed import parallel_state  # noqa: E402
from sglang.srt.layers.rotary_embedding import base, factory  # noqa: E402
from sglang.srt.model_loader.loader import _initialize_model  # noqa: E402

KINDS = base.RotaryEmbedding, factory.Phi3LongRoPEScaledRotaryEmbedding
served.make_on_cpu(*KINDS)
runtime_context.publish(server_args.ServerArgs(model_path="dummy", device="cpu"), role="test",
                        ranks=runtime_context.SpawnRanks(world_rank=0))
served.one_process(parallel_state)
parallel_state.initialize_model_parallel(backend="gloo")


def rotate(folder, case, q, positions):
    small = json.loads(make_small(folder, case["layer"]))
    config = ModelConfig(folder, False, context_length=case["length"], dtype="float32")
    kinds = (small.get("text_config") or small).get("layer_types")
    if kinds and list(config.hf_text_config.layer_types) != kinds:
        raise NotThere("the last layer of fewer is made another kind")
    factory._ROPE_DICT.clear()
    with torch.device("meta"):
        model = _initialize_model(config, LoadConfig())
    if any("layers." not in name and "vis" not in name and hasattr(m, "inv_freq") for name, m in model.named_modules()):
        raise NotThere("the model makes the rows of its layers; their own module turns on some CPUs alone")
    turns = served.rotary_module(model, case["layer"], KINDS)
    return served.turn(turns, case, q, positions, factory.DeepseekScalingRotaryEmbedding)


if __name__ == "__main__":
    main(rotate, axes=2, aborts=True)
