"""The meaning of each published config in files/tests/golden/configs, written by hand from the papers, the model cards
and the published modeling code: the part of make_golden.py that is opinion. No config is read here.
"""


def scaling(name, **defaults):
    """A function of the scaling's values, in the order of defaults; ... stands for one that has none."""
    def of(*values, **named):
        return {"name": name} | defaults | dict(zip(defaults, values)) | named
    return of


default = scaling("default")
linear = scaling("linear", factor=...)
ntk = scaling("ntk", factor=...)
ntk_fixed = scaling("ntk_fixed", factor=...)  # kexue.fm/9706: (b f)^(-2i/r) f^(-2/r)
dynamic = scaling("dynamic", factor=..., trained=...)
llama3 = scaling("llama3", factor=..., low=1.0, high=4.0, trained=8192)
YARN = {"factor": ..., "trained": ..., "beta_fast": 32, "beta_slow": 1}
yarn = scaling("yarn", **YARN, truncate=True, attention=None, mscale=None, mscale_all_dim=None)
longrope = scaling("longrope", factor=..., trained=..., mscale=None)  # its lists are the config's rope_scaling
# SGLang models/grok.py, ScalingRotaryEmbedding._compute_inv_freq
yarn_log = scaling("yarn_log", **YARN)
theta_scale = scaling("theta_scale", factor=..., trained=...)
proportional = scaling("proportional", fraction=...)


def rope(layers, heads, kv_heads, head_dim, base, pairing="half", scaling=None, part="", rotary_dim=None, first=0,
         without=(), axis=None, index=None, exponent_dim=None, lengths=()):
    """axis, index: per pair, the coordinate it listens to and i in base^(-2i/exponent_dim)."""
    layers = range(layers) if isinstance(layers, int) else layers
    rotary_dim = rotary_dim or head_dim
    pairs = rotary_dim // 2
    return {"part": part, "layers": list(layers), "layers_without_rope": list(without), "heads": heads,
            "kv_heads": kv_heads, "head_dim": head_dim, "rotary_dim": rotary_dim, "first": first, "pairing": pairing,
            "base": base, "scaling": scaling or default(), "axis": axis or [0] * pairs,
            "index": index or list(range(pairs)), "exponent_dim": exponent_dim or rotary_dim, "lengths": list(lengths)}


def every(count, n):
    """Layers n - 1, 2n - 1, ...: "every n-th"; and the others."""
    hit = [i for i in range(count) if (i + 1) % n == 0]
    return hit, [i for i in range(count) if (i + 1) % n]


def axial(layers, heads, head_dim, base, part="vision_config", pairing="half", axes=(0, 1)):
    """A vision head: the first half of the pairs is one axis, the second half the other, frequencies restarted."""
    n = head_dim // 4
    return rope(layers, heads, heads, head_dim, base, pairing, part=part, axis=[axes[0]] * n + [axes[1]] * n,
                index=list(range(n)) * 2, exponent_dim=head_dim // 2)


def pixtral(part, pairing):
    """Rows take the even, columns the odd entries of base^(-2j/64)."""
    return rope(24, 16, 16, 64, 10000, pairing, part=part, axis=[0] * 16 + [1] * 16,
                index=list(range(0, 32, 2)) + list(range(1, 32, 2)))


def sectioned(t, h, w):
    return [0] * t + [1] * h + [2] * w


def interleaved_axes(t, h, w):
    """thw thw ...; a pair whose section is used up goes to t."""
    return [i % 3 if i < 3 * (t, h, w)[i % 3] else 0 for i in range(t + h + w)]


def mla(layers, heads, base, pairing, scaling):
    return rope(layers, heads, heads, 192, base, pairing, scaling, rotary_dim=64, first=128)


def but(count, without):
    return [i for i in range(count) if i not in without]


full4, other4 = every(48, 4)  # Llama 4, Qwen3-Next: 48 layers, every fourth is the odd one
LLAMA4_VISION = axial(34, 16, 88, 10000, pairing="interleaved", axes=(1, 0))  # the column first
QWEN_VISION = axial(32, 16, 80, 10000)
QWEN3_VISION = axial(27, 16, 72, 10000)
gemma27_full, gemma27_local = every(62, 6)
gemma4b_full, gemma4b_local = every(34, 6)
gemma1b_full, gemma1b_local = every(26, 6)
gemma31_full, gemma31_local = every(60, 6)
mllama_cross = list(range(3, 40, 5))
bamba_full = [9, 18, 27]
lfm2_full = [2, 5, 8, 10, 12, 14]
bert_full = list(range(0, 22, 3))
bert_local = [i for i in range(22) if i % 3]
V2_YARN = yarn(40, 4096, mscale=0.707, mscale_all_dim=0.707)


def llama4(scaling):
    return [rope(other4, 40, 8, 128, 500000, "interleaved", scaling, part="text_config", without=full4), LLAMA4_VISION]


# The published values were read in a public copy of the file; the other files are our own, in the form of that model's,
# whose published values nobody here has seen: they test the reader, and say nothing about the model.
OPENED = """llama-3.3-70b llama-4-scout qwen3-next-80b-a3b qwen3.5-27b qwen2.5-vl-7b gemma-3-27b phi-3-mini-128k
    phi-3.5-moe minicpm3-4b gpt-oss-20b""".split()

# name: (where the values come from, the ropes)
MODELS = {
    "llama-2-7b": ("meta-llama/Llama-2-7b-hf", [rope(32, 32, 32, 128, 10000)]),
    "llama-2-7b.params": ("Meta's llama-2-7b/params.json", [rope(32, 32, 32, 128, 10000, "interleaved")]),
    "llama-7b-dynamic": ("huggyllama/llama-7b with the rope_scaling of Hugging Face's documentation", [
        rope(32, 32, 32, 128, 10000, scaling=dynamic(2, 2048), lengths=[4096, 8192])]),
    "yarn-llama-2-7b-128k": ("NousResearch/Yarn-Llama-2-7b-128k", [
        rope(32, 32, 32, 128, 10000, scaling=yarn(32, 4096))]),
    "deepseek-coder-6.7b": ("deepseek-ai/deepseek-coder-6.7b-instruct", [
        rope(32, 32, 32, 128, 100000, scaling=linear(4))]),
    "llama-3-8b": ("meta-llama/Meta-Llama-3-8B", [rope(32, 32, 8, 128, 500000)]),
    "llama-3.1-8b": ("meta-llama/Llama-3.1-8B-Instruct", [rope(32, 32, 8, 128, 500000, scaling=llama3(8))]),
    "llama-3.1-8b.params": ("Meta's Llama-3.1-8B/original/params.json", [
        rope(32, 32, 8, 128, 500000, "interleaved", llama3(8))]),
    "llama-3.2-1b": ("meta-llama/Llama-3.2-1B", [rope(16, 32, 8, 64, 500000, scaling=llama3(32))]),
    "llama-3.3-70b": ("meta-llama/Llama-3.3-70B-Instruct", [rope(80, 64, 8, 128, 500000, scaling=llama3(8))]),
    "llama-4-scout": ("meta-llama/Llama-4-Scout-17B-16E-Instruct, first published file", llama4(llama3(8))),
    "llama-4-scout-factor-16": ("meta-llama/Llama-4-Scout-17B-16E-Instruct, later file", llama4(llama3(16, 1.0, 1.0))),
    "dbrx-132b": ("databricks/dbrx-instruct", [rope(40, 48, 8, 128, 500000)]),
    "falcon3-7b": ("tiiuae/Falcon3-7B-Base", [rope(28, 12, 4, 256, 1000042)]),
    "mistral-7b-v0.1": ("mistralai/Mistral-7B-v0.1", [rope(32, 32, 8, 128, 10000)]),
    "mistral-7b-v0.3": ("mistralai/Mistral-7B-v0.3", [rope(32, 32, 8, 128, 1000000)]),
    "mistral-7b-v0.3.params": ("mistralai/Mistral-7B-v0.3 params.json", [rope(32, 32, 8, 128, 1000000, "interleaved")]),
    "mistral-nemo-12b": ("mistralai/Mistral-Nemo-Instruct-2407", [rope(40, 32, 8, 128, 1000000)]),
    "mixtral-8x7b": ("mistralai/Mixtral-8x7B-v0.1", [rope(32, 32, 8, 128, 1000000)]),
    "ministral-3-8b": ("mistralai/Ministral-3-8B-Instruct-2512", [
        rope(34, 32, 8, 128, 1000000, scaling=yarn(16, 16384, mscale=1, mscale_all_dim=1), part="text_config"),
        pixtral("vision_config", "half")]),
    "ministral-3-8b.params": ("mistralai/Ministral-3-8B-Instruct-2512 params.json", [
        rope(34, 32, 8, 128, 1000000, "interleaved", yarn(16, 16384, mscale=1, mscale_all_dim=1)),
        pixtral("vision_encoder", "interleaved")]),
    "pixtral-12b": ("mistral-community/pixtral-12b; heads and vision sizes are the families' defaults", [
        rope(40, 32, 8, 128, 1000000000, part="text_config"), pixtral("vision_config", "half")]),
    "pixtral-12b.params": ("mistralai/Pixtral-12B-2409 params.json", [
        rope(40, 32, 8, 128, 1000000000, "interleaved"), pixtral("vision_encoder", "interleaved")]),
    "qwen1.5-7b": ("Qwen/Qwen1.5-7B", [rope(32, 32, 32, 128, 1000000)]),
    "qwen2-7b": ("Qwen/Qwen2-7B", [rope(28, 28, 4, 128, 1000000)]),
    "qwen2.5-7b": ("Qwen/Qwen2.5-7B-Instruct", [rope(28, 28, 4, 128, 1000000)]),
    "qwen2.5-7b-yarn": ("Qwen/Qwen2.5-7B-Instruct with the rope_scaling of its model card", [
        rope(28, 28, 4, 128, 1000000, scaling=yarn(4, 32768))]),
    "qwen3-8b": ("Qwen/Qwen3-8B", [rope(36, 32, 8, 128, 1000000)]),
    "qwen3-30b-a3b": ("Qwen/Qwen3-30B-A3B", [rope(48, 32, 4, 128, 1000000)]),
    "qwen3-next-80b-a3b": ("Qwen/Qwen3-Next-80B-A3B-Thinking", [
        rope(full4, 16, 2, 256, 10000000, rotary_dim=64, without=other4)]),
    "qwen3.5-27b": ("Qwen/Qwen3.5-27B", [
        rope(every(64, 4)[0], 24, 4, 256, 10000000, rotary_dim=64, without=every(64, 4)[1], part="text_config",
             axis=interleaved_axes(11, 11, 10)),
        QWEN3_VISION]),
    "qwen2-vl-7b": ("Qwen/Qwen2-VL-7B-Instruct", [
        rope(28, 28, 4, 128, 1000000, axis=sectioned(16, 24, 24)), QWEN_VISION]),
    "qwen2.5-vl-7b": ("Qwen/Qwen2.5-VL-7B-Instruct", [
        rope(28, 28, 4, 128, 1000000, axis=sectioned(16, 24, 24)), QWEN_VISION]),
    "qwen3-vl-8b": ("Qwen/Qwen3-VL-8B-Instruct", [
        rope(36, 32, 8, 128, 5000000, part="text_config", axis=interleaved_axes(24, 20, 20)), QWEN3_VISION]),
    "gemma-7b": ("google/gemma-7b", [rope(28, 16, 16, 256, 10000)]),
    "gemma-2-9b": ("google/gemma-2-9b", [rope(42, 16, 8, 256, 10000)]),
    "gemma-3-1b": ("google/gemma-3-1b-it, old spelling", [
        rope(gemma1b_local, 4, 1, 256, 10000), rope(gemma1b_full, 4, 1, 256, 1000000)]),
    "gemma-3-27b": ("google/gemma-3-27b-it, old spelling, nearly every key left to the family's default", [
        rope(gemma27_local, 32, 16, 128, 10000, part="text_config"),
        rope(gemma27_full, 32, 16, 128, 1000000, scaling=linear(8), part="text_config")]),
    "gemma-3-4b-v5": ("google/gemma-3-4b-it as transformers 5 saves it", [
        rope(gemma4b_local, 8, 4, 256, 10000, part="text_config"),
        rope(gemma4b_full, 8, 4, 256, 1000000, scaling=linear(8), part="text_config")]),
    "gemma-4-31b": ("google/gemma-4-31B-it (shape opened; rope_parameters, global heads ours)", [
        rope(gemma31_local, 32, 16, 256, 10000, part="text_config"),
        rope(gemma31_full, 32, 4, 512, 1000000, scaling=proportional(0.25), part="text_config"),
        # the head's two halves turn apart, columns (x) first: two ropes on the same layers
        rope(27, 16, 16, 72, 100, part="vision_config", rotary_dim=36, axis=[1] * 18),
        rope(27, 16, 16, 72, 100, part="vision_config", rotary_dim=36, first=36, axis=[0] * 18)]),
    "phi-1.5": ("microsoft/phi-1_5", [rope(24, 32, 32, 64, 10000, rotary_dim=32)]),
    "phi-2": ("microsoft/phi-2", [rope(32, 32, 32, 80, 10000, rotary_dim=32)]),
    "phi-3-mini-4k": ("microsoft/Phi-3-mini-4k-instruct", [rope(32, 32, 32, 96, 10000)]),
    "phi-3-mini-128k": ("microsoft/Phi-3-mini-128k-instruct", [
        rope(32, 32, 32, 96, 10000, scaling=longrope(32, 4096), lengths=[4096, 4097, 131072])]),
    "phi-3-mini-128k-su": (
        "microsoft/Phi-3-mini-128k-instruct, first published file; factors opened in Phi-3-vision's", [
        rope(32, 32, 32, 96, 10000, scaling=longrope(32, 4096), lengths=[131072])]),
    "phi-3.5-mini": ("microsoft/Phi-3.5-mini-instruct (factors opened)", [
        rope(32, 32, 32, 96, 10000, scaling=longrope(32, 4096), lengths=[131072])]),
    "phi-3.5-moe": ("microsoft/Phi-3.5-MoE-instruct", [
        rope(32, 32, 8, 128, 10000, scaling=longrope(32, 4096, mscale=1.243163121016122))]),
    "phi-4": ("microsoft/phi-4", [rope(40, 40, 10, 128, 250000)]),
    "phi-4-mini": ("microsoft/Phi-4-mini-instruct (factors opened)", [
        rope(32, 24, 8, 128, 10000, scaling=longrope(32, 4096), rotary_dim=96, lengths=[131072])]),
    "deepseek-v2-lite": ("deepseek-ai/DeepSeek-V2-Lite", [mla(27, 16, 10000, "interleaved", V2_YARN)]),
    "deepseek-v2": ("deepseek-ai/DeepSeek-V2", [mla(60, 128, 10000, "interleaved", V2_YARN)]),
    "deepseek-v3": ("deepseek-ai/DeepSeek-V3", [
        mla(61, 128, 10000, "interleaved_to_half", yarn(40, 4096, mscale=1, mscale_all_dim=1))]),
    "kimi-k2": ("moonshotai/Kimi-K2-Instruct (shape opened, rope keys ours)", [
        mla(61, 64, 50000, "interleaved_to_half", yarn(32, 4096, 1, 1, mscale=1, mscale_all_dim=1))]),
    "minicpm3-4b": ("openbmb/MiniCPM3-4B", [
        rope(62, 40, 40, 96, 10000, scaling=longrope(1, 32768), rotary_dim=32, first=64, lengths=[32769])]),
    "glm-4-9b-chat": ("THUDM/glm-4-9b-chat (shape opened, rope_ratio ours): base 10000 rope_ratio", [
        rope(40, 32, 2, 128, 5000000, "interleaved", rotary_dim=64)]),
    "glm-4-9b-chat-hf": ("THUDM/glm-4-9b-chat-hf", [rope(40, 32, 2, 128, 5000000, "interleaved", rotary_dim=64)]),
    "glm-4-9b-0414": ("THUDM/GLM-4-9B-0414", [rope(40, 32, 2, 128, 10000, "interleaved", rotary_dim=64)]),
    "glm-4.5-air": ("zai-org/GLM-4.5-Air", [rope(46, 96, 8, 128, 1000000, rotary_dim=64)]),
    "gpt-oss-20b": ("openai/gpt-oss-20b", [rope(24, 64, 8, 64, 150000, scaling=yarn(32, 4096, truncate=False))]),
    "gpt-j-6b": ("EleutherAI/gpt-j-6b", [rope(28, 16, 16, 256, 10000, "interleaved", rotary_dim=64)]),
    "gpt-neox-20b": ("EleutherAI/gpt-neox-20b", [rope(44, 64, 64, 96, 10000, rotary_dim=24)]),
    "pythia-1.4b": ("EleutherAI/pythia-1.4b", [rope(24, 16, 16, 128, 10000, rotary_dim=32)]),
    "stablelm-2-1.6b": ("stabilityai/stablelm-2-1_6b", [rope(24, 32, 32, 64, 10000, rotary_dim=16)]),
    "falcon-7b": ("tiiuae/falcon-7b", [rope(32, 71, 1, 64, 10000)]),
    "falcon-40b": ("tiiuae/falcon-40b", [rope(60, 128, 8, 64, 10000)]),
    "olmo-2-7b": ("allenai/OLMo-2-1124-7B", [rope(32, 32, 32, 128, 500000)]),
    "olmo-3-7b": ("allenai/Olmo-3-1025-7B (rope keys opened)", [
        rope(every(32, 4)[1], 32, 32, 128, 500000),
        rope(every(32, 4)[0], 32, 32, 128, 500000, scaling=yarn(8, 8192, attention=1.2079441541679836))]),
    "command-r-v01": ("CohereForAI/c4ai-command-r-v01", [rope(40, 64, 64, 128, 8000000, "interleaved")]),
    "command-r7b": ("CohereForAI/c4ai-command-r7b-12-2024", [
        rope(every(32, 4)[1], 32, 8, 128, 50000, "interleaved", without=every(32, 4)[0])]),
    "granite-3.3-8b": ("ibm-granite/granite-3.3-8b-instruct", [rope(40, 32, 8, 128, 10000000)]),
    "smollm3-3b": ("HuggingFaceTB/SmolLM3-3B", [rope(every(36, 4)[1], 16, 4, 128, 5000000, without=every(36, 4)[0])]),
    "modernbert-base": ("answerdotai/ModernBERT-base", [
        rope(bert_full, 12, 12, 64, 160000), rope(bert_local, 12, 12, 64, 10000)]),
    "roformer-chinese-base": ("junnyu/roformer_chinese_base", [rope(12, 12, 12, 64, 10000, "interleaved")]),
    "hunyuan-7b": ("tencent/Hunyuan-7B-Instruct: dynamic with alpha is static NTK", [
        rope(32, 32, 8, 128, 10000, scaling=ntk(1000))]),
    "minimax-m2": ("MiniMaxAI/MiniMax-M2 (shape opened)", [rope(62, 48, 8, 128, 5000000, rotary_dim=64)]),
    "ernie-4.5-0.3b": ("baidu/ERNIE-4.5-0.3B-PT", [rope(18, 16, 2, 128, 500000, "interleaved")]),
    "ernie-4.5-vl-28b-a3b": ("baidu/ERNIE-4.5-VL-28B-A3B as transformers 5 saves it", [
        rope(28, 20, 4, 128, 500000, "interleaved", part="text_config", axis=[1, 2] * 22 + [0] * 20), QWEN_VISION]),
    "apertus-8b": ("swiss-ai/Apertus-8B-2509", [rope(32, 32, 8, 128, 12000000, scaling=llama3(8))]),
    "exaone-4.0-32b": ("LGAI-EXAONE/EXAONE-4.0-32B", [
        rope(every(64, 4)[1], 40, 8, 128, 1000000, scaling=llama3(16), without=every(64, 4)[0])]),
    "afm-4.5b": ("arcee-ai/AFM-4.5B; mscale without mscale_all_dim counts nothing", [
        rope(36, 20, 4, 128, 10000, scaling=yarn(20, 4096))]),
    "bamba-9b": ("ibm-ai-platform/Bamba-9B-v2: the file holds Infinity", [
        rope(bamba_full, 32, 8, 128, 10000, rotary_dim=64, without=but(32, bamba_full))]),
    "deepseek-vl2-tiny": ("deepseek-ai/deepseek-vl2-tiny: use_mla false is Llama's attention", [
        rope(12, 10, 10, 128, 10000, part="language_config")]),
    "glm-4.5v": ("zai-org/GLM-4.5V", [
        rope(46, 96, 8, 128, 10000, rotary_dim=64, part="text_config", axis=sectioned(8, 12, 12)),
        axial(24, 12, 128, 10000)]),
    "gte-multilingual-base": ("Alibaba-NLP/gte-multilingual-base: the published code's fixed NTK", [
        rope(12, 12, 12, 64, 20000, scaling=ntk_fixed(8))]),
    "internlm2.5-7b-1m": ("internlm/internlm2_5-7b-chat-1m", [
        rope(32, 32, 8, 128, 50000000, scaling=dynamic(2.5, 262144), lengths=[262144, 1048576])]),
    "jina-embeddings-v3": ("jinaai/jina-embeddings-v3: XLM-RoBERTa with rotary positions", [
        rope(24, 16, 16, 64, 20000)]),
    "lfm2-1.2b": ("LiquidAI/LFM2-1.2B", [rope(lfm2_full, 32, 8, 64, 1000000, without=but(16, lfm2_full))]),
    "llama-3.2-11b-vision": ("meta-llama/Llama-3.2-11B-Vision: cross-attention layers do not turn", [
        rope(but(40, mllama_cross), 32, 8, 128, 500000, scaling=llama3(8), part="text_config", without=mllama_cross)]),
    "minimax-text-01": ("MiniMaxAI/MiniMax-Text-01: every eighth layer attends by softmax", [
        rope(every(80, 8)[0], 64, 8, 128, 10000000, rotary_dim=64, without=every(80, 8)[1])]),
    "mistral-large-3.params": ("mistralai/Mistral-Large-3-675B-Instruct-2512 params.json", [
        mla(61, 128, 10000, "interleaved", yarn(36, 8192, mscale=1, mscale_all_dim=1))]),
    "mistral-small-3.1-24b": ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", [
        rope(40, 32, 8, 128, 1000000000, part="text_config"), pixtral("vision_config", "half")]),
    "moonshine-tiny": ("UsefulSensors/moonshine-tiny, the decoder's rope", [
        rope(6, 8, 8, 36, 10000, "interleaved", rotary_dim=32)]),
    "qwen2.5-omni-7b": ("Qwen/Qwen2.5-Omni-7B: thinker, its tower, talker, and the codec's DiT", [
        rope(28, 28, 4, 128, 1000000, part="thinker_config.text_config", axis=sectioned(16, 24, 24)),
        axial(32, 16, 80, 10000, "thinker_config.vision_config"),
        rope(24, 12, 4, 128, 1000000, part="talker_config", axis=sectioned(16, 24, 24)),
        rope(22, 16, 16, 64, 10000, "interleaved_to_half", part="token2wav_config.dit_config")]),
    "smollm2-135m": ("HuggingFaceTB/SmolLM2-135M", [rope(30, 9, 3, 64, 100000)]),
    "yarn-mistral-7b-128k": ("NousResearch/Yarn-Mistral-7b-128k", [
        rope(32, 32, 8, 128, 10000, scaling=yarn(16, 8192))]),
    "exaone-4.0-1.2b": ("LGAI-EXAONE/EXAONE-4.0-1.2B", [rope(30, 32, 8, 64, 1000000, scaling=llama3(16))]),
    "grok-2-yarn-log": ("xai-org/grok-2 with another rope_type", [
        rope(64, 64, 8, 128, 208533496, scaling=yarn_log(16, 8192, 8))]),
    "grok-2-theta-scale": ("xai-org/grok-2 with another rope_type", [
        rope(64, 64, 8, 128, 208533496, scaling=theta_scale(16, 8192))]),
}
