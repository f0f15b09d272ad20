"""More of diffusion_classes.py: films that are drawn piece by piece, and what stands beside a film (sound, the text of
blocks of its own, a film that drives another)."""
import inspect
import textwrap
from types import SimpleNamespace

import torch

from diffusion_classes import ids, latents, matched, model, pipeline, recorded
from diffusion_more import wan_animate2_state


def run_lines(function, first, last, **names):
    """These names and those that some lines of a function set: from the first that has one text to before the next
    that has the other."""
    lines = inspect.getsource(function).split("\n")
    start = next(i for i, line in enumerate(lines) if first in line)
    end = next(i for i, line in enumerate(lines) if i > start and last in line)
    exec(textwrap.dedent("\n".join(lines[start:end])), vars(inspect.getmodule(function)) | names, names)
    return names


# ---- pieces ----


def helios(size, frames=None, frame_indices=None):
    shape, _, kind, _ = latents("HeliosPipeline", *size, frames or 1)
    if frames:
        found = run_lines(kind.__call__, "if keep_first_frame:", "indices_hidden_states = ", keep_first_frame=True,
                          history_sizes=[16, 2, 1], num_latent_frames_per_chunk=shape[2])
        short, chunk = found["indices_latents_history_short"], found["indices_hidden_states"]
    else:
        short, chunk = torch.tensor(frame_indices[:2]), torch.tensor(frame_indices[2:])
    own, seen = model("transformer_helios").HeliosTransformer3DModel(
        num_attention_heads=1, num_layers=1, in_channels=4, out_channels=4, text_dim=8, ffn_dim=8, freq_dim=8), []
    own.blocks[0].register_forward_pre_hook(lambda _, args: seen.extend(args))

    def film(tokens):
        return torch.zeros(1, 4, tokens, *shape[3:])

    own(film(len(chunk)), torch.zeros(1), torch.zeros(1, 1, 8), chunk[None], short[None], torch.tensor([[17, 18]]),
        torch.arange(1, 17)[None], film(len(short)), film(2), film(16))
    table = next(given for given in seen if given.dim() == 3 and given.shape[-1] == 256)[0]
    table = table[-(len(short) + len(chunk)) * (shape[3] // 2) * (shape[4] // 2):]  # those before are means
    return matched((table[:, :128:2], table[:, 128::2]), [22, 21, 21], [range(128)] * 3)


def framepack(size, frames=None, frame_indices=None):
    shape, _, kind, module = latents("HunyuanVideoFramepackPipeline", *size, frames or 1)
    if frames:  # the last piece, with which the film begins
        found = run_lines(kind.__call__, "latent_paddings = list", "latents_prefix = ", k=0, num_latent_sections=1,
                          latent_window_size=shape[2], history_sizes=[1, 2, 16])
        clean, chunk = found["indices_clean_latents"], found["indices_latents"]
    else:
        clean, chunk = torch.tensor(frame_indices[:2]), torch.tensor(frame_indices[2:])
    module = model("transformer_hunyuan_video_framepack")
    rope = module.HunyuanVideoFramepackRotaryPosEmbed(2, 1, [16, 56, 56])
    places = [torch.stack(recorded(module, lambda own=own: rope(own, *shape[3:], "cpu"))).T for own in (chunk, clean)]
    pack = module.HunyuanVideoFramepackTransformer3DModel._pack_history_states
    empty = torch.zeros(1, 0, 1)
    _, found = pack(None, empty, latents_clean=empty, image_rotary_emb=(places[0],) * 2,
                    image_rotary_emb_clean=(places[1],) * 2)
    return ids(found[0])


def anyflow_far(size, frames=None, frame_indices=None):
    shape, _, _, _ = latents("AnyFlowPipeline", *size, frames // 4 * 4 + 1 if frames else 1)
    if frames:
        frame_indices = range(shape[2])
    rope = model("transformer_anyflow_far").AnyFlowCausalRotaryPosEmbed(128, (1, 2, 2), (1, 4, 4), 1024)
    far = {"total_frames": frame_indices[-1] + 1, "num_compressed_frames": frame_indices[0],  # _forward_inference
           "full_frame_shape": (shape[3] // 2, shape[4] // 2), "compressed_frame_shape": (shape[3] // 4, shape[4] // 4)}
    table = rope(far, torch.device("cpu"))["query"][0, 0]
    return matched((table.real, table.imag), [22, 21, 21], [torch.arange(512) / 2] * 3)


def sana_refiner(size, fps, frames=None, frame_indices=None):
    module = model("transformer_sana_wm_refiner")
    with torch.device("meta"):
        own = module.SanaWMLTX2RefinerTransformer3DModel(num_layers=1)
    seen, base = [], torch.tensor([own.rope.base_num_frames, own.rope.base_height, own.rope.base_width])
    own.rope.register_forward_pre_hook(lambda _, args: seen.append(args[0][0].double()))
    places = frame_indices or list(range((frames - 1) // 8 + 1))
    own.build_rotary_emb_for_absolute_positions(1, places, size[0] // 32, size[1] // 32, "cpu", fps)
    return seen[0].mean(-1) / base[:, None] * 2 - 1  # forward


# ---- streams ----


def ltx2_ropes():
    with torch.device("meta"):
        return model("transformer_ltx2").LTX2VideoTransformer3DModel(num_layers=1)


def ltx2_sound(frames, fps, rope):
    _, kind = pipeline("LTX2Pipeline")
    own = SimpleNamespace(audio_sampling_rate=16000, audio_hop_length=160, audio_vae_temporal_compression_ratio=4)
    count = run_lines(kind.__call__, "duration_s = ", "if audio_latents is not None", self=own, num_frames=frames,
                      frame_rate=fps)["audio_num_frames"]
    ends = ltx2_ropes().audio_rope.prepare_audio_coords(1, count, "cpu")[0].double()
    return ends.mean(-1) / rope.base_num_frames * 2 - 1  # forward


def ltx2_audio(frames, fps=24):
    return ltx2_sound(frames, fps, ltx2_ropes().audio_rope)


def ltx2_cross_attention(size, frames, fps=24):
    own, grid = ltx2_ropes(), ((frames - 1) // 8 + 1, size[0] // 32, size[1] // 32)
    ends = own.rope.prepare_video_coords(1, *grid, "cpu", fps)[0, 0:1].double()
    pictures = ends.mean(-1) / own.cross_attn_rope.base_num_frames * 2 - 1
    return torch.cat([pictures, ltx2_sound(frames, fps, own.cross_attn_audio_rope)], 1)


def kandinsky6_audio(frames, fps=24):
    shape, _, kind, _ = latents("Kandinsky6TI2VAPipeline", 64, 64, frames // 4 * 4 + 1)
    own = SimpleNamespace(vae_scale_factor_temporal=4, audio_sample_rate=44_100, audio_latent_hop_length=1024)
    count = run_lines(kind.__call__, "audio_length = math", "audio_latents = ", self=own, frame_rate=fps,
                      num_latent_frames=shape[1])["audio_length"]
    return torch.arange(count)[None].double()  # forward


def own_text(text):  # text_rope_pos, text_pos
    return torch.arange(text)[None].double()


def wan_animate2_driving(size, frames):
    state, module, own = wan_animate2_state(size, frames)
    grid = state.grid_sizes_ref
    offsets = run_lines(module.WanAnimate2Transformer3DModel.forward, "refer_offsets = ", "freqs_ref = ", self=own,
                        reference_grid=grid)["refer_offsets"]
    ones = torch.tensor([1.0, 0.0]).repeat(64).expand(1, int(grid.prod()), 1, 128)
    table = module.WanAnimate2Transformer3DModel._rope_freqs(own, offsets, torch.device("cpu"))
    turned = module.rope_apply(ones, grid, table, own.config.refer_stride)[0, :, 0]
    return matched((turned[:, ::2], turned[:, 1::2]), [22, 21, 21], [range(256)] * 3)
