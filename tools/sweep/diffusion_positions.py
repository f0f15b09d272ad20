"""The coordinates of diffusion transformers, by the code of diffusers' own pipelines and classes.

    PYTHONPATH=DIFFUSERS python tools/sweep/diffusion_positions.py
    PYTHONPATH=DIFFUSERS python tools/sweep/diffusion_positions.py PROGRAM N [CLASS ...]

The first writes tests/golden/diffusion_positions.json; the second compares N random sizes of each class, or of those
named, with what PROGRAM (rotary) makes of them.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy

import diffusion_classes as made
import diffusion_more as more
import diffusion_streams as streams

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "diffusion_positions.json"

# class: (its maker, what it takes beside a size, what its sizes divide by, its config beside the class)
T, R, F, S, I, Z = "text", "references", "frames", "fps", "frame_indices", "no size"
CLASSES = {
    "FluxTransformer2DModel": (made.flux("FluxPipeline"), [T, R], 1),
    "ChromaTransformer2DModel": (made.flux("ChromaPipeline"), [T], 1),
    "OvisImageTransformer2DModel": (made.flux("OvisImagePipeline", text_ids=made.counted_text), [T], 1),
    "BriaTransformer2DModel": (made.flux("BriaPipeline", vae=16), [T], 1),
    "BriaFiboTransformer2DModel": (made.bria_fibo, [T, R], 16),
    "Flux2Transformer2DModel": (made.flux2, [T, R], 1),
    "Flux3Transformer2DModel": (made.flux3, [T, R], 16),
    "BriaFibo2Transformer2DModel": (made.bria_fibo2, [T, R], 16),
    "LongCatImageTransformer2DModel": (made.longcat, [T, R], 1),
    "Krea2Transformer2DModel": (made.krea2, [T], 1),
    "Ideogram4Transformer2DModel": (made.ideogram4, [T], 16),
    "QwenImageTransformer2DModel": (made.qwen("QwenEmbedRope"), [T, R], 1),
    "QwenImageTransformer2DModel.use_layer3d_rope": (made.qwen("QwenEmbedLayer3DRope", layered=True), [T, R, F], 1,
        {"use_layer3d_rope": True}),
    "NucleusMoEImageTransformer2DModel": (made.qwen("NucleusMoEEmbedRope", first="image"), [T], 1),
    "QwenImage21Transformer2DModel": (made.qwen21, [T], 1),
    "ZImageTransformer2DModel": (made.z_image, [T], 16),
    "Lumina2Transformer2DModel": (made.lumina2, [T], 16),
    "HunyuanDiT2DModel": (made.hunyuan_dit, [], 1),
    "LuminaNextDiT2DModel": (made.lumina, [], 16),
    "HiDreamImageTransformer2DModel": (made.hidream, [T], 1),
    "OmniGenTransformer2DModel": (made.omnigen, [T], 1),
    "PRXTransformer2DModel": (made.prx, [], 16),
    "HunyuanImageTransformer2DModel": (made.hunyuan_image("HunyuanImagePipeline", 32, 64, 64), [], 1),
    "HunyuanImageTransformer2DModel.patch_size.2": (made.hunyuan_image("HunyuanImageRefinerPipeline", 16, 16, 56, 56),
        [], 1, {"patch_size": [1, 1, 1]}),
    "CogView4Transformer2DModel": (made.plane("CogView4Pipeline", "transformer_cogview4", "CogView4RotaryPosEmbed", 16,
        rope_axes_dim=(256, 256)), [], 16),
    "GlmImageTransformer2DModel": (made.plane("GlmImagePipeline", "transformer_glm_image", "GlmImageRotaryPosEmbed",
        16), [], 32),
    "HunyuanVideoTransformer3DModel": (made.hunyuan("HunyuanVideoPipeline", "transformer_hunyuan_video",
        "HunyuanVideoRotaryPosEmbed"), [F], 16),
    "HunyuanVideo15Transformer3DModel": (made.hunyuan("HunyuanVideo15Pipeline", "transformer_hunyuan_video15",
        "HunyuanVideo15RotaryPosEmbed", vae=16, patch=1), [F], 1),
    "MotifVideoTransformer3DModel": (made.hunyuan("MotifVideoPipeline", "transformer_motif_video",
        "MotifVideoRotaryPosEmbed"), [F], 8),
    "WanTransformer3DModel": (made.wan("WanPipeline", "transformer_wan"), [F], 16),
    "WanVACETransformer3DModel": (made.wan("WanVACEPipeline", "transformer_wan"), [F], 16),
    "WanAnimateTransformer3DModel": (made.wan("WanAnimatePipeline", "transformer_wan_animate"), [F], 16),
    "AnyFlowTransformer3DModel": (made.anyflow, [F], 16),
    "SkyReelsV2Transformer3DModel": (made.wan("SkyReelsV2Pipeline", "transformer_skyreels_v2",
        "SkyReelsV2RotaryPosEmbed"), [F], 16),
    "SanaVideoTransformer3DModel": (made.wan("SanaVideoPipeline", "transformer_sana_video", rounded=False), [F], 32),
    "ChronoEditTransformer3DModel": (made.wan("WanPipeline", "transformer_chronoedit", "ChronoEditRotaryPosEmbed",
        temporal_skip_len=8), [F], 16),
    "CosmosTransformer3DModel": (made.film("CosmosTextToWorldPipeline", "transformer_cosmos", "CosmosRotaryPosEmbed",
        vae_time=8, hidden_size=128, base_fps=24, rope_scale=(1, 1, 1)), [F, S], 16, {"vae_scale_time": 8}),
    "Kandinsky5Transformer3DModel": (made.kandinsky, [F], 16),
    "CogVideoXTransformer3DModel": (made.cogvideox(), [F], 8, {"use_rotary_positional_embeddings": True}),
    "ConsisIDTransformer3DModel": (made.cogvideox("consisid.pipeline_consisid.ConsisIDPipeline"), [F], 8,
        {"use_rotary_positional_embeddings": True}),
    "CogVideoXTransformer3DModel.patch_size_t": (made.cogvideox(patch_t=2), [F], 8,
        {"use_rotary_positional_embeddings": True, "patch_size_t": 2, "sample_height": 96, "sample_width": 170}),
    "EasyAnimateTransformer3DModel": (made.easyanimate, [F], 1, {"patch_size": 2}),
    "AllegroTransformer3DModel": (made.allegro, [F], 8),
    "MochiTransformer3DModel": (made.mochi, [F], 8),
    "LTXVideoTransformer3DModel": (made.ltx, [F, S], 32),
    "LTX2VideoTransformer3DModel": (made.ltx2, [F, S], 32),
    "FluxControlNetModel": (made.flux("FluxControlNetPipeline"), [T], 1),
    "QwenImageControlNetModel": (made.qwen("QwenEmbedRope", path="QwenImageControlNetPipeline"), [T], 1),
    "CosmosControlNetModel": (made.film("Cosmos2_5_TransferPipeline", "transformer_cosmos", "CosmosRotaryPosEmbed",
        hidden_size=128, base_fps=24, rope_scale=(1, 1, 1)), [F], 16),
    "JoyImageEditTransformer3DModel": (more.joy("rope"), [R], 64),
    "JoyImageEditTransformer3DModel.rope_type.mrope": (more.joy("mrope"), [T, R], 64, {"rope_type": "mrope"}),
    "JoyImageEditPlusTransformer3DModel": (more.joy_plus, [R], 16),
    "Kandinsky6Transformer3DModel": (more.kandinsky6, [R, F], 16),
    "Kandinsky6SRTransformer3DModel": (more.kandinsky6_sr, [F], 128),
    "WanAnimate2Transformer3DModel": (more.wan_animate2, [F], 1),
    "SanaWMTransformer3DModel": (more.sana_wm, [F], 32),
    "MiniMaxH3Transformer3DModel": (more.minimax, [T, F], 32),
    "Cosmos3OmniTransformer": (more.cosmos3, [T, F, S], 16),
    "HeliosTransformer3DModel": (streams.helios, [F, I], 16),
    "HunyuanVideoFramepackTransformer3DModel": (streams.framepack, [F, I], 16),
    "AnyFlowFARTransformer3DModel": (streams.anyflow_far, [F, I], 16),
    "SanaWMLTX2RefinerTransformer3DModel": (streams.sana_refiner, [F, I, S], 32),
    "LTX2VideoTransformer3DModel/audio": (streams.ltx2_audio, [F, S, Z], 1),
    "LTX2VideoTransformer3DModel/cross_attention": (streams.ltx2_cross_attention, [F, S], 32),
    "Kandinsky6Transformer3DModel/audio": (streams.kandinsky6_audio, [F, S, Z], 1),
    "Kandinsky6Transformer3DModel/text": (streams.own_text, [T, Z], 1),
    "Kandinsky6Transformer3DModel/audio_text": (streams.own_text, [T, Z], 1),
    "Kandinsky5Transformer3DModel/text": (streams.own_text, [T, Z], 1),
    "WanAnimate2Transformer3DModel/driving": (streams.wan_animate2_driving, [F], 1),
}
FILMS = {"Kandinsky6SRTransformer3DModel": 4, "SanaWMTransformer3DModel": 8}  # whose pipelines want 1 + k of these
OF_ITS_SIZE = ("JoyImageEditTransformer3DModel", "Kandinsky6T")  # where the reference is made as large as the image


def case_of(name, size, **given):
    maker, takes, divides, *config = CLASSES[name]
    config = config[0] if config else {}
    more = {key: config[key] for key in config if key == "vae_scale_time"}
    sized, (name, _, part) = {} if Z in takes else {"size": size}, name.partition("/")
    return {"config": {"_class_name": name.split(".")[0]} | {key: config[key] for key in config if key not in more},
            **({"part": part} if part else {}), **sized, **more, **given, "positions": maker(**sized, **given)}


def given_of(name, choose):
    _, takes, divides, *_ = CLASSES[name]

    def side(most):
        return -(-choose(64, most) // divides) * divides

    several = name.startswith(("Flux2", "Flux3", "Qwen", "BriaFibo", "JoyImageEditPlus"))
    count = 1 if "layer" in name else choose(0, 2 if several else 1)  # a model of layers has its one condition image
    given = {T: choose(1, 70) * (29 if "Fibo2" in name else 1)} if T in takes else {}
    given |= {R: [[side(400), side(400)] for _ in range(count)]} if R in takes and count else {}
    given |= {F: choose(1, 40)} if F in takes else {}
    if name in FILMS:
        given[F] = given[F] // FILMS[name] * FILMS[name] + 1
    given |= {S: choose(5, 60)} if S in takes else {}
    if I in takes and choose(0, 1):
        del given[F]
        first, count = choose(1, 30), choose(1, 6)
        given[I] = list(range(first, first + count))
        given[I] = given[I] if name.startswith(("AnyFlow", "SanaWM")) else [0, choose(1, 50), *given[I]]
    size = [side(600), side(600)]
    if name.startswith(OF_ITS_SIZE) and R in given:
        given[R] = [size]
    return size, given


def command(program, case, folder):
    path = pathlib.Path(folder)
    (path / "config.json").write_text(json.dumps(case["config"]))
    words = [program, "positions", str(path), "--output", str(path / "p.npy")]
    words += ["--image-size", "x".join(map(str, case["size"]))] if "size" in case else []
    words += ["--frame-indices", ",".join(map(str, case[I]))] if I in case else []
    for key in ("part", "frames", "fps", "text", "vae_scale_time"):
        words += ["--" + key.replace("_", "-"), str(case[key])] if key in case else []
    for other in case.get("references", ()):
        words += ["--reference-size", "x".join(map(str, other))]
    subprocess.run(words, check=True, capture_output=True, text=True)
    return numpy.atleast_2d(numpy.load(path / "p.npy"))


def compare(program, count, names):
    random.seed(1)
    with tempfile.TemporaryDirectory() as folder:
        for name in names or CLASSES:
            wrong, worst = 0, 0.0
            for _ in range(count):
                size, given = given_of(name, random.randint)
                case = case_of(name, size, **given)
                try:
                    got, want = command(program, case, folder), case["positions"].double().numpy()
                except subprocess.CalledProcessError as error:
                    print(name, size, given, error.stderr)
                    raise
                same = got.shape == want.shape
                error = abs(got - want) / max(1, abs(want).max()) if same else numpy.array([[numpy.inf]])
                wrong += not (error.max() <= (0 if got.dtype == numpy.int64 else 1e-6))
                worst = max(worst, float(error.max()))
                if wrong == 1 and error.max() > 1e-6:
                    print("   ", name, size, given, got.shape, want.shape)
            print(f"{name:48} {count} sizes, {wrong} differ, {worst:.1e}", flush=True)


def main(words):
    if words:
        return compare(words[0], int(words[1]), words[2:])
    random.seed(34)
    lines = []
    for name in CLASSES:
        size, given = given_of(name, lambda least, most: random.randint(least, least + min(most - least, 40) // 4 + 1))
        case = case_of(name, size, **given)
        if case["positions"].shape[1] < 200:  # HiDream and Bria FIBO 2 have thousands
            case["positions"] = [[round(value, 9) if value % 1 else int(value) for value in axis]
                                 for axis in case["positions"].tolist()]
            lines.append(json.dumps(case))
    GOLDEN.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
