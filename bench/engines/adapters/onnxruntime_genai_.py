"""onnxruntime-genai: the model builder's nodes between the projections and the attention of the case's layer, in
onnxruntime. A rotation that the builder would leave to the attention's kernel stands as a node of its own."""
import numpy as np
import onnxruntime
from harness import need, need_head, turn_reached
from onnx_ir import DataType, to_proto
from onnxruntime_genai.models import builder
from transformers import AutoConfig

AXES, MADE = 2, []
for kind in vars(builder).values():  # the builder of the config is kept, where it would read the weights
    if isinstance(kind, type) and hasattr(kind, "make_model"):
        kind.make_model = lambda model, path: MADE.append(model)
        kind.save_model = kind.save_processing = kind.make_genai_config = lambda *a: None


def rotate(folder, case, q, positions):
    details = {"extra_kwargs": {}, "hf_name": folder, "hf_config": AutoConfig.from_pretrained(folder)}
    builder.create_model("", folder, folder, "fp32", "cpu", folder, hf_details=details)
    model = MADE.pop()
    attention = model.attention_attrs
    need_head(model.head_size, q)
    attention |= {"use_rope_in_attn": False, "sinks": False, "q_norm": False, "k_norm": False}
    model.input_names["position_ids"] = "position_ids"
    model.make_preprocessing_nodes()
    model.make_attention_input_proj = lambda *a, **k: attention.update(q_path="q", k_path="k", v_path="v")
    model.make_attention_op = model.make_attention_output_proj = lambda *a, **k: None
    model.make_attention(case["layer"], None, "")
    need(attention["q_path"] != "q", "the attention's kernel turns this layer")

    def turn(q, positions):
        feeds = {"q": np.tile(q, model.num_attn_heads)[None], "k": np.tile(q, model.num_kv_heads)[None],
                 "position_ids": positions[..., None, :], "attention_mask": np.ones((1, case["length"] or len(q)), int)}
        graph = model.model.graph
        graph.inputs[:] = [model.make_value(name, DataType.from_numpy(x.dtype), x.shape) for name, x in feeds.items()]
        graph.outputs[:] = [model.values[attention["q_path"]]]
        graph.sort()
        session = onnxruntime.InferenceSession(to_proto(model.model).SerializeToString())
        return session.run(None, feeds)[0][0, :, :q.shape[1]]
    return turn_reached(turn, model.context_length, q, positions)
