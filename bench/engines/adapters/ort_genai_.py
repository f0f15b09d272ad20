"""onnxruntime-genai: the model builder's nodes between the projections and the attention of the case's layer, which
onnxruntime runs on the CPU. Rotations that the builder would leave to the attention's kernel stand as nodes of their
own, as they do for the kernels that cannot turn."""
import numpy as np
import onnx_ir
import onnxruntime
from harness import NotThere, OtherHead, main
from onnxruntime_genai.models import builder
from transformers import AutoConfig


class Made(Exception):
    """The builder has read the config; the weights would come next."""


def made(model, *_):
    raise Made(model)


for kind in vars(builder).values():
    if isinstance(kind, type) and hasattr(kind, "make_model"):
        kind.make_model = made


def read(folder):
    details = {"extra_kwargs": {}, "hf_name": folder, "hf_config": AutoConfig.from_pretrained(folder)}
    try:
        builder.create_model("", folder, folder, "fp32", "cpu", folder, hf_details=details)
    except Made as error:
        return error.args[0]


def rotate(folder, case, q, positions):
    model = read(folder)
    if model.head_size != q.shape[1]:
        raise OtherHead(model.head_size)
    heads = {"q": model.num_attn_heads, "k": model.num_kv_heads}
    model.attention_attrs |= {"use_rope_in_attn": False, "sinks": False, "q_norm": False, "k_norm": False}
    model.input_names["position_ids"] = "position_ids"
    model.make_preprocessing_nodes()
    paths = {f"{name}_path": name for name in "qkv"}
    model.make_attention_input_proj = lambda *a, **k: model.attention_attrs.update(paths)
    model.make_attention_op = model.make_attention_output_proj = lambda *a, **k: None
    model.make_attention(case["layer"], None, "")
    if model.attention_attrs["q_path"] == "q":
        raise NotThere("the attention's kernel turns this layer")
    reached = positions.reshape(-1, len(q)).max(0) < model.context_length
    length = case["length"] or int(reached.sum())
    feeds = {name: np.tile(q[reached], n)[None] for name, n in heads.items()} | {
        "position_ids": positions[..., None, reached], "attention_mask": np.ones((1, length), np.int64)}
    graph = model.model.graph
    graph.inputs[:] = [model.make_value(name, onnx_ir.DataType.from_numpy(x.dtype), x.shape)
                       for name, x in feeds.items()]
    graph.outputs[:] = [model.values[model.attention_attrs["q_path"]]]
    graph.sort()
    session = onnxruntime.InferenceSession(onnx_ir.to_proto(model.model).SerializeToString())
    result = np.full(q.shape, np.nan, np.float32)
    result[reached] = session.run(None, feeds)[0][0, :, :q.shape[1]]
    return result


if __name__ == "__main__":
    main(rotate, axes=2)
