"""More of diffusion_classes.py: those that control another class, and those whose sequences are packed from parts."""
import importlib
from types import SimpleNamespace
from unittest import mock

import torch

from diffusion_classes import grid, ids, latents, matched, model, pipeline


def modular(name, file="before_denoise"):
    return importlib.import_module(f"diffusers.modular_pipelines.{name}.{file}")


def kandinsky6(size, frames, references=()):
    if frames % 4 != 1:  # num_frames = num_frames // self.vae_scale_factor_temporal * .. + 1
        frames = frames // 4 * 4 + 1
    shape, _, _, _ = latents("Kandinsky6TI2VAPipeline", *size, frames)
    times = torch.cat([torch.arange(shape[1])] + [torch.zeros(1, dtype=torch.long) for _ in references])  # tail_cond
    rope = model("transformer_kandinsky6").Kandinsky6RoPE3D((16, 24, 24))
    table = rope((times, torch.arange(shape[2] // 2), torch.arange(shape[3] // 2))).reshape(-1, 32, 2, 2)
    return matched((table[..., 0, 0], table[..., 1, 0]), [8, 12, 12], [range(128)] * 3)


def kandinsky6_sr(size, frames):
    shape = (frames - 1) // 4 + 1, size[0] // 16, size[1] // 16  # the latents of a tile, of Kandinsky6SRVAE
    module = model("transformer_kandinsky6_sr")
    table = module.Kandinsky6SRRoPE3D((16, 24, 24))(tuple(map(torch.arange, shape)))
    table = module._local_patch(table, shape, (1, 8, 8), dim=0).flatten(0, 1).reshape(-1, 32, 2, 2)
    return matched((table[..., 0, 0], table[..., 1, 0]), [8, 12, 12], [range(128)] * 3)


def forward_of(file, name, spied, hidden, **given):
    """What the method `spied` of a small model is called with and returns, in its forward of these latents."""
    own, seen = getattr(model(file), name)(
        hidden_size=256, num_attention_heads=2, num_layers=1, in_channels=4, out_channels=4, text_dim=8, theta=10000,
        **given.pop("config", {})), []
    real = getattr(own, spied)

    def spy(*args, **more):
        seen.append((args, real(*args, **more)))
        return seen[-1][1]

    with mock.patch.object(own, spied, spy):
        own(hidden, torch.zeros(1), torch.zeros(1, given.pop("text", 1), 8), **given)
    return seen


def joy(rope_type):
    def made(size, references=(), text=1):
        _, kind = pipeline("JoyImageEditPipeline")
        own = SimpleNamespace(vae_scale_factor_temporal=4, vae_scale_factor_spatial=8)
        noise, _ = kind.prepare_latents(own, 1, 4, *size, 1, torch.float32, torch.device("cpu"), None)
        hidden = torch.cat([noise] * (1 + len(references)), dim=1)  # torch.cat([image_latents, noise_latents], dim=1)
        (_, tables), = forward_of("transformer_joyimage", "JoyImageEditTransformer3DModel", "get_rotary_pos_embed",
                                  hidden, text=text, config={"rope_type": rope_type})
        table = [torch.cat([part[which] for part in tables if part is not None])[:, ::2] for which in (0, 1)]
        return matched(table, [8, 28, 28], [range(256)] * 3)
    return made


def joy_plus(size, references=()):
    _, kind = pipeline("JoyImageEditPlusPipeline")
    shapes = [[(1, height // 16, width // 16) for height, width in [size, *references]]]
    count = sum(height * width for _, height, width in shapes[0])
    seen = forward_of("transformer_joyimage_edit_plus", "JoyImageEditPlusTransformer3DModel",
                      "_get_rotary_pos_embed_for_range", torch.zeros(1, count, 4, 1, 2, 2), shape_list=shapes)
    return torch.cat([grid(*(torch.arange(a, b) for a, b in zip(*args))) for args, _ in seen], 1).double()


def cosmos3(size, text, frames, fps=24):
    _, kind = pipeline("Cosmos3OmniPipeline")
    config = SimpleNamespace(enable_fps_modulation=True, unified_3d_mrope_temporal_modality_margin=15000, base_fps=24,
                             unified_3d_mrope_reset_spatial_ids=True, latent_patch_size=2)
    own = SimpleNamespace(transformer=SimpleNamespace(config=config), vae_scale_factor_temporal=4)
    words = kind._prepare_text_segment(own, [0] * text, "cpu")
    tokens = torch.empty(1, 1, (frames - 1) // 4 + 1, size[0] // 16, size[1] // 16)  # of the VAE
    offset = words["vision_start_temporal_offset"]
    film = kind._prepare_vision_segment(own, tokens, False, offset, None if frames == 1 else fps, text, "cpu")
    return torch.cat([words["text_mrope_ids"], film["vision_mrope_ids"]], dim=1).double()


def sana_wm(size, frames):
    shape, _, _, _ = latents("SanaWMPipeline", *size, frames, 32, 8)
    table = model("transformer_sana_wm").SanaWMRotaryPosEmbed(128, (1, 1, 1), 1024)(shape[2:])[0, 0]
    return matched((table.real, table.imag), [22, 21, 21], [range(256)] * 3)


def wan_animate2_state(size, frames):
    """What the pipeline prepares for a segment, the module of the transformer and its config."""
    module = modular("wan_animate_2")
    kind = modular("wan_animate_2", "video_processor").WanAnimate2VideoProcessor
    height, width = kind(vae_scale_factor=8, spatial_patch_size=(2, 2)).get_default_height_width(None, *size)
    state = SimpleNamespace(reference_image_latents=torch.empty(20, 1, height // 8, width // 8),
                            driving_video_pixels=torch.empty(1, 3, 1, height, width), segment_frame_length=frames)
    step = module.WanAnimate2PrepareSegmentsStep()
    with mock.patch.object(step, "get_block_state", lambda _: state), mock.patch.object(step, "set_block_state"):
        step(SimpleNamespace(vae_scale_factor_spatial=8, vae_scale_factor_temporal=4), None)
    config = {"dim": 128, "num_heads": 1, "refer_offset_t": 1, "refer_offset_h": 0, "refer_offset_w": -1,
              "refer_stride": 1}
    own = SimpleNamespace(rope_freqs_cache={}, config=SimpleNamespace(**config))
    return state, model("transformer_wan_animate_2"), own


def wan_animate2(size, frames):
    state, module, own = wan_animate2_state(size, frames)
    rows, columns = state.grid_sizes_ref[0, 1:].tolist()
    sizes = torch.tensor([[state.max_seq_len // (rows * columns), rows, columns]])
    table = module.WanAnimate2Transformer3DModel._rope_freqs(own, (0, 0, 0), torch.device("cpu"))
    ones = torch.tensor([1.0, 0.0]).repeat(64).expand(1, state.max_seq_len, 1, 128)
    turned = module.rope_apply(ones, sizes, table)[0, :, 0]
    return matched((turned[:, ::2], turned[:, 1::2]), [22, 21, 21], [range(256)] * 3)


def minimax(size, text, frames):
    module = modular("minimax_h3")
    frames = module.align_num_frames(frames, 17, 5)
    step = module.MiniMaxH3PrepareLayoutStep
    return ids(step.build_packed_sequence(
        torch.ones(text), module.video_latent_num_frames(frames, 17, 5), size[0] // 16, size[1] // 16,
        module.audio_latent_num_frames(frames), (1, 2, 2), 2, 2, 0)[0])
