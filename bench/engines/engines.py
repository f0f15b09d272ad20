"""The engines: an environment of its own for each name and version, and the adapter that calls it."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Engine:
    name: str
    version: str
    adapter: str  # the file in adapters/
    alone: tuple[str, ...]  # packages that are installed without what they ask for (torch, kernels of a GPU)
    packages: tuple[str, ...] = ()  # packages that are installed with what they ask for
    torch: bool = True  # takes torch and its kin from the folder of --torch

    def __str__(self):
        return f"{self.name}-{self.version}"


def transformers(version):
    return Engine("transformers", version, "transformers_.py", (), (f"transformers=={version}",))


VLLM = tuple("""transformers==5.20.* regex cachetools psutil sentencepiece blake3 py-cpuinfo protobuf fastapi aiohttp
    openai prometheus_client tiktoken lark==1.2.2 partial-json-parser pyzmq msgspec cloudpickle python-json-logger
    pybase64 cbor2 ijson setproctitle einops orjson jsonschema gguf pillow numba==0.65.0 opencv-python-headless
    """.split())
VLLM_ALONE = tuple("""compressed-tensors==0.17.0 depyf==0.20.0 astor dill loguru frozendict openai-harmony mcp uvloop
    lm-format-enforcer==0.11.3 llguidance outlines_core==0.2.14 mistral_common anthropic xgrammar==0.2.8
    apache-tvm-ffi==0.1.11 torchvision==0.29.0""".split())
KERAS = tuple("absl-py namex h5py optree ml_dtypes rich packaging regex tokenizers safetensors sentencepiece".split())

ENGINES = (
    *map(transformers, ("4.36.2", "4.44.2", "4.51.3", "4.57.6", "5.0.0", "5.24.0")),
    Engine("mlx-lm", "0.32.2", "mlx_lm_.py", ("mlx==0.32.4", "mlx-cpu==0.32.4", "mlx-lm==0.32.2"),
           ("transformers==5.24.0", "sentencepiece", "protobuf", "pyyaml", "jinja2", "numpy"), torch=False),
    Engine("keras-hub", "0.32.0", "keras_hub_.py", ("keras==3.15.1", "keras-hub==0.32.0"), KERAS),
    Engine("vllm", "0.33.0", "vllm_.py", ("vllm==0.33.0", *VLLM_ALONE), VLLM),
)
