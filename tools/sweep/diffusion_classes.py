"""How each class of diffusers places its tokens, by the code of its own pipeline and modules: for
diffusion_positions.py.

A pipeline's prepare_latents says the size of the latents (and the ids, where it makes them); the class's module of
ropes is run with get_1d_rotary_pos_embed recorded, or its angles are compared with those that its coordinates can have.
What a pipeline's __call__ does to a size before is written out here, with its words in a comment.
"""
import importlib
import math
from functools import partial
from types import SimpleNamespace
from unittest import mock

import diffusers
import torch

MODELS = "diffusers.models.transformers."
EMBEDDINGS = importlib.import_module("diffusers.models.embeddings")


# ---- what a pipeline makes of a size ----


def pipeline(name):
    folder, _, name = name.rpartition(".")  # one whose packages are not there is found by its module alone
    module = importlib.import_module("diffusers.pipelines." + folder if folder else getattr(diffusers, name).__module__)
    return module, getattr(module, name)


def latents(name, height, width, frames=None, vae=8, vae_time=4, **more):
    """(shape of the latents, what prepare_latents returns) of the pipeline of that name."""
    module, kind = pipeline(name)
    own = SimpleNamespace(
        vae_scale_factor=vae, vae_scale_factor_spatial=vae, vae_scale_factor_temporal=vae_time,
        vae_spatial_compression_ratio=vae, vae_temporal_compression_ratio=vae_time, vae_spatial_scale_factor=vae,
        vae_temporal_scale_factor=vae_time, transformer_spatial_patch_size=1, transformer_temporal_patch_size=1,
        transformer=SimpleNamespace(visual_cond=False), dtype=torch.float32,
        scheduler=SimpleNamespace(init_noise_sigma=1, config=SimpleNamespace(sigma_max=1)), **more)
    for helper in ("_prepare_latent_image_ids", "_pack_latents", "_prepare_latent_ids", "_pack_latents_no_patch"):
        if hasattr(kind, helper):
            setattr(own, helper, getattr(kind, helper))
    seen = []

    def randn(shape, **_):
        seen.append(tuple(shape))
        return torch.zeros(shape, device="cpu")

    given = {"batch_size": 1, "num_channels_latents": 4, "num_latents_channels": 4, "height": height, "width": width,
             "num_frames": frames, "dtype": torch.float32, "device": "cpu", "generator": None, "patch_size": 2,
             "images": None, "image_latents": torch.zeros(1, 4, 1, 1, 1), "first_latent": torch.zeros(1, 4, 1, 1, 1),
             "num_frames_in": 0, "num_frames_out": frames, "video": None, "latents": None}
    names = kind.prepare_latents.__code__.co_varnames[:kind.prepare_latents.__code__.co_argcount]
    with mock.patch.object(module, "randn_tensor", randn):
        result = kind.prepare_latents(own, **{key: value for key, value in given.items() if key in names})
    return seen[0], result, kind, module


# ---- what a module of ropes is handed ----


def recorded(module, call):
    """The positions that get_1d_rotary_pos_embed of this module is handed, axis by axis."""
    found = []
    real = module.get_1d_rotary_pos_embed

    def spy(dim, pos, *args, **more):
        found.append(torch.as_tensor(pos if not isinstance(pos, int) else range(pos)).double())
        return real(dim, pos, *args, **more)

    with mock.patch.object(module, "get_1d_rotary_pos_embed", spy):
        call()
    return found


def grid(*axes):
    return torch.stack([axis.flatten() for axis in torch.meshgrid(*axes, indexing="ij")])


def matched(angles, widths, choices):
    """Coordinates from the cos and sin of a table, [tokens, pairs] each: of every axis the choice whose angles these
    are. widths: pairs of each axis; choices: the coordinates that an axis can have."""
    (cos, sin), found, at = angles, [], 0
    for axis, width in enumerate(widths):
        speeds = 10000.0 ** (-torch.arange(width, dtype=torch.float64) / width)
        own = torch.as_tensor(choices[axis], dtype=torch.float64)
        want = torch.outer(own, speeds)
        block = slice(at, at + width)
        given = torch.cat([cos[:, block], sin[:, block]], 1).double()
        least, place = torch.cdist(given, torch.cat([want.cos(), want.sin()], 1)).min(1)
        assert least.max() < 1e-3, (axis, float(least.max()))
        found.append(own[place])
        at += width
    return torch.stack(found)


def model(file):
    return importlib.import_module(MODELS + file)


# ---- the classes: what each makes of {size, frames, fps, text, references}, [axes, tokens] ----


def ids(*parts):
    return torch.cat([part.reshape(-1, part.shape[-1]).double() for part in parts]).T


def flux(path, vae=8, text_ids=lambda n: torch.zeros(n, 3), **more):
    def made(size, text, references=()):
        _, (_, image), kind, _ = latents(path, *size, vae=vae, **more)
        parts = [text_ids(text), image]
        for h, w in references:  # pipeline_flux_kontext: the VAE's latents, packed; image_ids[..., 0] = 1
            own = kind._prepare_latent_image_ids(1, h // 8 // 2, w // 8 // 2, "cpu", torch.float32)
            own[..., 0] = 1
            parts.append(own)
        return ids(*parts)
    return made


def counted_text(n):  # OvisImagePipeline.encode_prompt
    found = torch.zeros(n, 3)
    found[..., 1:] += torch.arange(n)[:, None]
    return found


def bria_fibo(size, text, references=()):
    _, (_, image), kind, _ = latents("BriaFiboPipeline", *size, vae=16)
    _, edit = pipeline("BriaFiboEditPipeline")
    others = []
    for number, (height, width) in enumerate(references):  # prepare_reference_latents: reference_index from 1
        own = edit._prepare_latent_image_ids(1, height // 16, width // 16, "cpu", torch.float32)
        own[..., 0] = number + 1
        others.append(own)
    return ids(torch.zeros(text, 3), image, *others)


def flux2(size, text, references=()):
    _, (_, image), kind, _ = latents("Flux2Pipeline", *size)
    others = [torch.zeros(1, 4, h // 16, w // 16) for h, w in references]
    others = [kind._prepare_image_ids(others)] if others else []
    return ids(kind._prepare_text_ids(torch.zeros(1, text, 1)), image, *others)


def flux3(size, text, references=()):
    module = importlib.import_module("diffusers.modular_pipelines.flux3.before_denoise")
    prepare, scale = module._prepare_image_ids, module.Flux3PrepareLatentsStep().image_rope_scale
    words = next(kind for kind in vars(module).values() if hasattr(kind, "_prepare_text_ids"))._prepare_text_ids
    others = [prepare(h // 16, w // 16, scale, -(1 + index)) for index, (h, w) in enumerate(references)]
    return ids(words(torch.zeros(1, text, 1)), prepare(size[0] // 16, size[1] // 16, scale), *others)


def bria_fibo2(size, text, references=()):
    module = model("transformer_bria_fibo2")
    place, gist = module.BriaFibo2Transformer2DModel.create_coordinate_grid, module.compute_gist_count
    sizes = [(1, height // 16, width // 16) for height, width in [size, *references]]
    # forward: image_plane = max_num_gist_tokens + 1; context images on the planes after it
    return ids(place((gist([text], 256, 512, 64, 256, 2048)[0], 1, 1), (1, 0, 0)),
               *[place(own, (513 + number, 0, 0)) for number, own in enumerate(sizes)])


def longcat(size, text, references=()):
    module = pipeline("LongCatImageEditPipeline")[0]
    _, (_, image), _, _ = latents("LongCatImagePipeline", *size,
                                  tokenizer_max_length=text)
    prepare = module.prepare_pos_ids
    # LongCatImageEditPipeline.prepare_latents: modality_id 2, start (prompt_embeds_length, prompt_embeds_length)
    others = [prepare(2, "image", (text, text), height=h // 16, width=w // 16) for h, w in references]
    return ids(prepare(0, "text", (0, 0), num_token=text), image, *others)


def krea2(size, text):
    _, kind = pipeline("Krea2Pipeline")
    height, width = [-(-side // 16) * 16 for side in size]  # rounded_height = ((height + multiple - 1) ..
    return ids(kind.prepare_position_ids(text, height // 16, width // 16, "cpu"))


def ideogram4(size, text):
    _, kind = pipeline("Ideogram4Pipeline")
    return ids(kind._prepare_ids([text], size[0] // 16, size[1] // 16, text, "cpu")[0])


def qwen(kind, layered=False, first="text", path="QwenImagePipeline"):
    def made(size, text, references=(), frames=None):
        file = "nucleusmoe_image" if kind == "NucleusMoEEmbedRope" else "qwenimage"
        rope = getattr(model("transformer_" + file), kind)(10000, [16, 56, 56], scale_rope=True)
        shape, _, _, _ = latents({"qwenimage": path}.get(file, "NucleusMoEImagePipeline"), *size)
        own = [(1, shape[-2] // 2, shape[-1] // 2)] * (frames if layered else 1)
        shapes = [own + [(1, h // 16, w // 16) for h, w in references]]
        image, words = rope(shapes, max_txt_seq_len=text, device=torch.device("cpu"))
        both = torch.cat([words, image] if first == "text" else [image, words])
        return matched((both.real, both.imag), [8, 28, 28], [torch.arange(-128, 700)] * 3)
    return made


def qwen21(size, text):
    rope = model("transformer_qwenimage21").QwenImage21Rope(10000, [16, 56, 56])
    rows, columns = [side // 32 * 32 // 16 for side in size]  # multiple_of = vae_scale_factor * 2
    mask = torch.tensor([False] * text + [True] * (rows * columns))
    table = rope([(1, rows, columns)], mask, torch.device("cpu"))
    return matched((table.real, table.imag), [8, 28, 28], [torch.arange(-128, 700)] * 3)


def z_image(size, text):
    shape, _, _, _ = latents("ZImagePipeline", *size)
    kind = model("transformer_z_image").ZImageTransformer2DModel
    own = SimpleNamespace(create_coordinate_grid=kind.create_coordinate_grid)
    own._pad_with_ids, own._patchify_image = partial(kind._pad_with_ids, own), partial(kind._patchify_image, own)
    image, words = torch.zeros(4, 1, *shape[-2:]), torch.zeros(text, 1)
    made = kind.patchify_and_embed(own, [image], [words], 2, 1)
    long = [len(made[0][0]), len(made[1][0])]  # _prepare_sequence cuts the ids to the tokens
    return ids(made[3][0][:long[0]], made[4][0][:long[1]])


def lumina2(size, text):
    shape, _, _, _ = latents("Lumina2Pipeline", *size)
    rope = model("transformer_lumina2").Lumina2RotaryPosEmbed(10000, [2, 2, 2], [300, 512, 512])
    seen = []
    rope._get_freqs_cis = lambda ids: seen.append(ids) or torch.zeros(*ids.shape[:2], 3)
    rope(torch.zeros(shape), torch.ones(1, text, dtype=torch.int32))
    return ids(seen[0][0])


def hidream(size, text):
    # division = vae_scale_factor * 2; S_max = (default_sample_size * vae_scale_factor) ** 2
    height, width = size
    scale = math.sqrt((128 * 8) ** 2 / (width * height))
    width, height = int(width * scale // 16 * 16), int(height * scale // 16 * 16)
    shape, _, _, _ = latents("HiDreamImagePipeline", height, width)
    kind = model("transformer_hidream_image").HiDreamImageTransformer2DModel
    own = SimpleNamespace(config=SimpleNamespace(patch_size=2), max_seq=128 * 128 // 4)
    return ids(kind.patchify(own, torch.zeros(shape))[3][0], torch.zeros(text, 3))


def omnigen(size, text):
    shape, _, _, _ = latents("OmniGenPipeline", *size)
    collator = importlib.import_module("diffusers.pipelines.omnigen.processor_omnigen").OmniGenCollator()
    tokens = (shape[-2] // 2) * (shape[-1] // 2)
    return collator.create_position(torch.ones(1, text, dtype=torch.int64), [tokens]).double()


def prx(size):
    found = model("transformer_prx").get_image_ids(1, size[0] // 8, size[1] // 8, 2, "cpu")
    return ids(found[0])


def film(path, file, rope, vae=8, vae_time=4, rounded=False, **arguments):
    """Of a module that is handed latents and records its positions, or gives the angles of pairs (22, 21, 21)."""
    def made(size, frames=None, fps=None):
        if rounded and frames % vae_time != 1:  # num_frames = num_frames // self.vae_scale_factor_temporal * .. + 1
            frames = frames // vae_time * vae_time + 1
        shape, _, _, _ = latents(path, *size, frames, vae, vae_time)
        module = model(file)
        own = getattr(module, rope)(**arguments)
        if "rope_dim" in arguments:
            return torch.stack(recorded(module, lambda: own(torch.zeros(shape))))
        cosmos = "base_fps" in arguments
        parts = own(torch.zeros(shape), fps) if cosmos else own(torch.zeros(shape))
        parts = [part.reshape(-1, 128) for part in parts]
        parts = [part[:, :64] if cosmos else part[:, ::2] for part in parts]
        return matched(parts, [22, 21, 21], [torch.arange(64) * 24 / (fps or 24), range(256), range(256)])
    return made


def wan(path, file, rope="WanRotaryPosEmbed", **more):
    return film(path, file, rope, attention_head_dim=128, patch_size=(1, 2, 2), max_seq_len=1024,
                rounded=more.pop("rounded", True), **more)


def anyflow(size, frames):
    shape, _, _, _ = latents("AnyFlowPipeline", *size,
                             frames if frames % 4 == 1 else frames // 4 * 4 + 1)
    rope = model("transformer_anyflow").AnyFlowRotaryPosEmbed(128, (1, 2, 2), 1024)
    table = rope._forward_full_frame(shape[2], shape[3] // 2, shape[4] // 2, torch.device("cpu")).flatten(0, 2)
    return matched((table.real, table.imag), [22, 21, 21], [range(256)] * 3)


def hunyuan(path, file, rope, **more):
    return film(path, file, rope, patch_size=more.pop("patch", 2), patch_size_t=1, rope_dim=[16, 56, 56], **more)


def hunyuan_image(path, vae, *widths):
    def made(size):
        shape, _, _, _ = latents(path, *size, vae=vae)
        module = model("transformer_hunyuanimage")
        own = module.HunyuanImageRotaryPosEmbed((1,) * len(widths), widths)
        return torch.stack(recorded(module, lambda: own(torch.zeros(shape))))
    return made


def plane(path, file, rope, pairs, **arguments):
    """Of images, whose angles stand twice side by side."""
    def made(size):
        shape, _, _, _ = latents(path, *size)
        parts = getattr(model(file), rope)(dim=4 * pairs, patch_size=2, **arguments)(torch.zeros(shape))
        return matched([part[:, :2 * pairs] for part in parts], [pairs] * 2, [range(256)] * 2)
    return made


def cogvideox(kind="CogVideoXPipeline", patch_t=None):
    def made(size, frames):
        tokens = (frames - 1) // 4 + 1
        if patch_t and tokens % patch_t:  # num_frames += additional_frames * self.vae_scale_factor_temporal
            frames += (patch_t - tokens % patch_t) * 4
            tokens = (frames - 1) // 4 + 1
        base = {"sample_width": 90, "sample_height": 60} if not patch_t else {"sample_width": 170, "sample_height": 96}
        config = {"patch_size": 2, "patch_size_t": patch_t, "attention_head_dim": 64, **base}
        own = SimpleNamespace(vae_scale_factor_spatial=8, transformer=SimpleNamespace(config=SimpleNamespace(**config)))
        prepare = pipeline(kind)[1]._prepare_rotary_positional_embeddings
        seen = recorded(EMBEDDINGS, lambda: prepare(own, *size, tokens, "cpu"))
        return grid(seen[0], seen[1][:size[0] // 16], seen[2][:size[1] // 16])
    return made


def easyanimate(size, frames):
    height, width = [side // 16 * 16 for side in size]  # height = int((height // 16) * 16)
    own = model("transformer_easyanimate").EasyAnimateRotaryPosEmbed(2, 64)
    shape = (1, 1, (frames - 1) // 4 + 1, height // 8, width // 8)
    return grid(*recorded(EMBEDDINGS, lambda: own(torch.zeros(shape))))


def hunyuan_dit(size):
    module, _ = pipeline("HunyuanDiTPipeline")
    rows, columns = [side // 16 * 16 // 8 // 2 for side in size]  # height = int((height // 16) * 16)
    crop = module.get_resize_crop_region_for_grid((rows, columns), 512 // 8 // 2)
    return torch.stack(recorded(EMBEDDINGS, lambda: module.get_2d_rotary_pos_embed(88, crop, (rows, columns),
                                                                                  use_real=True, output_type="pt")))


def allegro(size, frames):
    path = "AllegroPipeline"
    shape, _, kind, _ = latents(path, *size, frames)
    config = {"patch_size": 2, "attention_head_dim": 96}
    config |= {f"interpolation_scale_{axis}": 1.0 for axis in "thw"}  # which the config gives to the frequencies
    own = SimpleNamespace(vae_scale_factor_spatial=8, transformer=SimpleNamespace(config=SimpleNamespace(**config)))
    prepare = kind._prepare_rotary_positional_embeddings
    return grid(*recorded(EMBEDDINGS, lambda: prepare(own, 1, *size, shape[2], "cpu")))


def kandinsky(size, frames):
    if frames % 4 != 1:
        frames = frames // 4 * 4 + 1
    shape, _, kind, _ = latents("Kandinsky5T2VPipeline", *size, frames)
    scale = kind._get_scale_factor(None, *size)
    sides = [shape[1], size[0] // 8 // 2, size[1] // 8 // 2]  # visual_rope_pos
    rope = model("transformer_kandinsky").Kandinsky5RoPE3D((16, 24, 24))
    table = rope((1, *sides), [torch.arange(side) for side in sides], scale).reshape(-1, 32, 2, 2)
    return matched((table[..., 0, 0], table[..., 1, 0]), [8, 12, 12], [torch.arange(128) / part for part in scale])


def mochi(size, frames):
    shape, _, _, _ = latents("MochiPipeline", *size, frames, vae_time=6)
    rope = model("transformer_mochi").MochiRoPE()
    return rope._get_positions(shape[2], shape[3] // 2, shape[4] // 2, dtype=torch.float32).double().T


def ltx(size, frames, fps=25):
    tokens = (frames - 1) // 8 + 1, size[0] // 32, size[1] // 32
    rope = model("transformer_ltx").LTXVideoRotaryPosEmbed(64)
    found = rope._prepare_video_coords(1, *tokens, (8 / fps, 32, 32), "cpu")[0].double().T
    return found * 2 - 1  # forward


def ltx2(size, frames, fps=24):
    tokens = (frames - 1) // 8 + 1, size[0] // 32, size[1] // 32
    rope = model("transformer_ltx2").LTX2AudioVideoRotaryPosEmbed(64)
    ends = rope.prepare_video_coords(1, *tokens, "cpu", fps)[0].double()
    return ends.mean(-1) / torch.tensor([20, 2048, 2048])[:, None] * 2 - 1  # forward


def lumina(size):
    table = EMBEDDINGS.get_2d_rotary_pos_embed_lumina(64, 384, 384)[:size[0] // 16, :size[1] // 16].flatten(0, 1)
    table = torch.cat([table[:, ::2], table[:, 1::2]], 1)
    return matched((table.real, table.imag), [16, 16], [range(256)] * 2)
