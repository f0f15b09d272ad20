"""SGLang's CPU engine: the model of the config on the meta device, and forward_native of the rotary module of the
layer's attention. sgl_kernel, whose kernels turn nothing here, is a module of nothing."""
import json

import served
import torch
from harness import make_small, need

served.put_absent("sgl_kernel")
from sglang.srt import runtime_context, server_args  # noqa: E402
from sglang.srt.configs.load_config import LoadConfig  # noqa: E402
from sglang.srt.configs.model_config import ModelConfig  # noqa: E402
from sglang.srt.distributed import parallel_state  # noqa: E402
from sglang.srt.layers.rotary_embedding import base, factory  # noqa: E402
from sglang.srt.model_loader.loader import _initialize_model  # noqa: E402

AXES, ENDS = 2, True
KINDS = base.RotaryEmbedding, factory.Phi3LongRoPEScaledRotaryEmbedding
served.make_on_cpu(*KINDS)


def rotate(folder, case, q, positions):
    small = json.loads(make_small(folder, case["layer"]))
    runtime_context.publish(server_args.ServerArgs(model_path="dummy", device="cpu"), role="test",
                            ranks=runtime_context.SpawnRanks(world_rank=0))
    served.one_process(parallel_state)
    config = ModelConfig(folder, False, context_length=case["length"], dtype="float32")
    kinds = (small.get("text_config") or small).get("layer_types")
    need(not kinds or list(config.hf_text_config.layer_types) == kinds, "the last layer of fewer is made another kind")
    with torch.device("meta"):
        model = _initialize_model(config, LoadConfig())
    need(not any("layers." not in name and "vis" not in name and hasattr(m, "inv_freq")
                 for name, m in model.named_modules()),
         "the model makes the rows of its layers; their own module turns on some CPUs alone")
    return served.turn(model, KINDS, factory.DeepseekScalingRotaryEmbedding, case, q, positions)
