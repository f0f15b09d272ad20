"""The ropes of speech, codecs, proteins, time series, drafts and other odd ones, for tools/sweep/sweep.py.

ADAPTERS[model_type](part's config, whole config) builds the model's own rotary module, turns vectors with the model's
own apply function and returns the records of that part, or one line that says why there is none. A config class
without model_type goes by its own name. FLAGGED are the models whose rope is off by default; NOT_ROTARY those whose
code has rope's words but turns nothing.
"""
import math
from types import SimpleNamespace

import torch

from generic import describe, heads_of, records
from rotations import record, ropes
from run import modeling


def llama_like(name, *, read=None, note=None):
    """module(x, position_ids) makes cos and sin, apply_rotary_pos_emb(q, k, cos, sin) turns.

    read(code, heads) rearranges a head before it turns.
    """
    def adapter(config, root):
        code = modeling(config)
        module = getattr(code, name)(config)
        size = heads_of(config).head_dim

        def turn(x, position):
            cos, sin = module(torch.zeros(1), torch.tensor([position]))
            heads = x[None, :, None, :]
            heads = read(code, heads) if read else heads
            return code.apply_rotary_pos_emb(heads, heads, cos, sin)[0][0, :, 0, :]

        found = ropes(turn, size, buffer=module.inv_freq, amplitude=module.attention_scaling)
        return describe(name, config, found, note=note)
    return adapter


def clvp(config, root):
    """The encoder turns q, k and v; the width of the block does not follow from the head's."""
    if not config.use_rotary_embedding:
        return "no rope: use_rotary_embedding is false"
    code = modeling(config)
    module = code.ClvpRotaryPositionalEmbedding(config)
    width = 2 * len(module.inv_freq)

    def turn(x, position):
        angles = module(torch.zeros(1, position[0] + 1, 1)).squeeze(0)
        heads, ids = x[None, :, None, :], torch.tensor([position])
        block, rest = heads[..., :width], heads[..., width:]
        block = code.apply_rotary_pos_emb(block, block, block, angles.cos(), angles.sin(), ids)[0]
        return torch.cat((block, rest), dim=-1)[0, :, 0, :]

    found = ropes(turn, heads_of(config).head_dim, buffer=module.inv_freq)
    return describe("ClvpRotaryPositionalEmbedding", config, found, note="v turns too")


def only_if(key, word, make=records):
    """The adapter, by default that which runs the model, where the config says that it turns."""
    def adapter(config, root):
        if getattr(config, key) != word:
            return f"no rope: {key} is {getattr(config, key)!r}, not {word!r}"
        return make(config, root)
    return adapter


def conformer(name, attention, *, heads="num_attention_heads", layers="num_hidden_layers"):
    """The hidden states turn, head by head, before they become q and k."""
    def adapter(config, root):
        code = modeling(config)
        module = getattr(code, name)(config)
        count = getattr(config, heads)
        size = config.hidden_size // count

        def turn(x, position):
            one = SimpleNamespace(num_heads=len(x), head_size=size)
            states = torch.zeros(1, position[0] + 1, x.numel())
            states[0, position[0]] = x.flatten()
            return getattr(code, attention)._apply_rotary_embedding(one, states, module(states))[0, -1].view(x.shape)

        found = ropes(turn, size, buffer=module.inv_freq)
        note = "the hidden states turn, head by head, before the projections to q and k"
        return [record(name, rope, layers=range(getattr(config, layers)), heads=count, head_dim=size, note=note)
                for rope in found]
    return only_if("position_embeddings_type", "rotary", adapter)


def esmfold2_atoms(config, root):
    """Four coordinates: x, y, z of the atom and the number of its token; pairs that are left over stand still."""
    code = modeling(config)
    module = code.EsmFold2RotaryEmbedding(config)

    def turn(x, position):
        where = torch.tensor(position, dtype=torch.float32)
        cos, sin = module(where[None, None, :3], where[None, None, 3], torch.float32)
        heads = x[None, :, None, :]
        return code.apply_rotary_pos_emb(heads, heads, cos, sin)[0][0, :, 0, :]

    found = ropes(turn, config.head_dim, axes=4, width=config.head_dim)
    return describe("EsmFold2RotaryEmbedding", config, found,
                    note="axes: x, y, z of the atom in its residue's reference frame, then its token's number")


def zamba2(config, root):
    return records(config, root) if config.use_mem_rope else "no rope: use_mem_rope is false"


def musicflamingo(config, root):
    """Audio frames turn once, after the encoder. With a frame's time stamp t, number j in its window and window w:
    angle = inv_freq * (-2 pi t) * (w / L) for the first half of the pairs, and * (2 pi j / L) for the second.
    """
    code = modeling(config)
    module = code.MusicFlamingoRotaryEmbedding(config)
    length, duration = module.max_seq_len_cached, config.audio_frame_step * 4 * 2  # of a window of two frames

    def table(turns):
        """cos and sin of frame 1 in window 1, at the time stamp where 2 pi t / L is `turns`."""
        stamps = torch.tensor([[duration, turns * length / (2 * math.pi)]])
        return (part[0, 1].chunk(2) for part in module(stamps, seq_len=2))

    def turn(x, position):
        (cos, _), (sin, _) = table(-position[0])
        (_, cos_in), (_, sin_in) = table(-position[1] / (2 * math.pi))
        return code.apply_rotary_time_emb(x, torch.cat((cos, cos_in)), torch.cat((sin, sin_in)))

    found = ropes(turn, config.head_dim, axes=2, buffer=module.inv_freq, width=4 * len(module.inv_freq))
    note = ("the audio encoder's hidden states turn once, as one head: axis 0 is -2 pi t w / L, axis 1 is "
            "-4 pi^2 t j / L, of time stamp t, window w, frame j in it, L = rope_theta")
    return [record("MusicFlamingoRotaryEmbedding", rope, layers=[0], heads=1, head_dim=config.head_dim, note=note)
            for rope in found]


HEAD_INDEX = "the model takes the index of the head for the position, the same for all tokens"
LIKE_DECODER = "encoder and decoder turn alike; these are the decoder's layers and heads"
BOTH_HALVES = "the encoder's and the decoder's transformer turn alike"

# Rotary class: the model_types of the parts that are not run with token ids.
PLAIN = {
    "DiaRotaryEmbedding": "dia_decoder",
    "Dots3NoteAudioRotaryEmbedding": "dots3_note_audio_encoder",
    "GlmAsrRotaryEmbedding": "glmasr_encoder",
    "LasrEncoderRotaryEmbedding": "lasr_encoder",
    "MimiRotaryEmbedding": "mimi mimi_decoder mimi_encoder",
    "MoonshineRotaryEmbedding": "moonshine",
    "MoonshineStreamingRotaryEmbedding": "moonshine_streaming",
    "MuseGlimmerAssistantRotaryEmbedding": "muse_glimmer_assistant",
    "Nemotron3_5TranscribeRotaryEmbedding": "nemotron3_5_transcribe_word_timestamp",
    "NeuCodecRotaryEmbedding": "neucodec",
    "PeAudioEncoderRotaryEmbedding": "pe_audio_encoder",
    "PeAudioVideoEncoderRotaryEmbedding": "pe_audio_video_encoder",
    "PeVideoEncoderRotaryEmbedding": "pe_video_encoder",
    "PocketTTSAudioTokenizerRotaryEmbedding":
        "pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_decoder pocket_tts_audio_tokenizer_encoder",
    "TimesFm2_5RotaryEmbedding": "timesfm2_5",
    "VoxtralRealtimeRotaryEmbedding": "voxtral_realtime_text",
    "Xcodec2RotaryEmbedding": "xcodec2",
}
NOTES = {
    "mimi": BOTH_HALVES,
    "moonshine": LIKE_DECODER,
    "neucodec": HEAD_INDEX,
    "pocket_tts_audio_tokenizer": BOTH_HALVES,
    "xcodec2": HEAD_INDEX,
}

ADAPTERS = {name: llama_like(rotary, note=NOTES.get(name))
            for rotary, names in PLAIN.items() for name in names.split()} | {
    "EsmFold2AtomEncoderConfig": esmfold2_atoms,
    "SaProtConfig": only_if("position_embedding_type", "rotary"),
    "clvp_encoder": clvp,
    "esm": only_if("position_embedding_type", "rotary"),
    "granitemoehybrid": only_if("position_embedding_type", "rope"),
    "musicflamingo": musicflamingo,
    "qwen2_5_omni_dit": llama_like("Qwen2_5OmniDiTRotaryEmbedding", note="only head 0 turns",
                                   read=lambda code, heads: code.deinterleave_head_dim(heads)),
    "seamless_m4t": conformer("SeamlessM4TConformerRotaryPositionalEmbedding", "SeamlessM4TConformerSelfAttention",
                              heads="speech_encoder_attention_heads", layers="speech_encoder_layers"),
    "wav2vec2-bert": conformer("Wav2Vec2BertRotaryPositionalEmbedding", "Wav2Vec2BertSelfAttention"),
    "wav2vec2-conformer": conformer("Wav2Vec2ConformerRotaryPositionalEmbedding", "Wav2Vec2ConformerSelfAttention"),
    "zamba2": zamba2,
}

# model_type: {flag: what it changes in the config}
FLAGGED = {
    "bamba": {"attention": {"attn_layer_indices": [9, 18, 27]}},
    "esm": {"rotary": {"position_embedding_type": "rotary"}},
    "granitemoehybrid": {"rope": {"position_embedding_type": "rope",
                                  "layer_types": (["linear_attention"] * 7 + ["full_attention"]) * 4}},
    "seamless_m4t": {"rotary": {"position_embeddings_type": "rotary"}},
    "wav2vec2-bert": {"rotary": {"position_embeddings_type": "rotary"}},
    "wav2vec2-conformer": {"rotary": {"position_embeddings_type": "rotary"}},
    "zamba2": {"use_mem_rope": {"use_mem_rope": True}},
}

# model_type: what its class does not run without
MUST_SAY = {"esm": {"vocab_size": 33}, "moonshine_streaming": {"num_key_value_heads": 8}}

# Parts with words of rotary code that turn nothing (model_type, or the name of the class), by what they do instead.
WORDS_ONLY = {
    "its attention has no positions":
        "EsmFold2ConfidenceHeadConfig EsmFold2LmEncoderConfig EsmFold2MsaEncoderConfig moonshine_streaming_encoder "
        "moshi_depth",
    "only its atom_encoder turns": "EsmFold2DiffusionModuleConfig",
    "only its parts turn":
        "EsmFold2StructureHeadConfig EsmFoldConfig canary esmfold2 nemotron_asr_streaming parakeet_ctc parakeet_rnnt "
        "parakeet_tdt",
    "no attention":
        "GradiumPhononTTSFlowHeadConfig Nemotron3DiarizationHeadConfig Nemotron3DiarizationStreamingConfig "
        "PocketTTSFlowHeadConfig gemma4_unified_audio muse_spark_audio qwen2_5_omni_bigvgan",
    "positions bias the scores":
        "StructureModuleConfig TrunkConfig funnel gemma3n_audio gemma4_audio nemotron_asr_streaming_encoder "
        "parakeet_encoder phi4_multimodal_audio",
    "positions are added to the hidden states":
        "canary_decoder clvp_decoder cohere_asr qwen2_5_omni_audio_encoder qwen3_omni_moe_audio_encoder",
    "apply_rotary_pos_emb was inherited, nothing calls it": "jamba nemotron_h",
    "the block that other models turn stands still (NoPE)": "kimi_linear",
    "relative keys only: position_embeddings_type knows no rotary there": "seamless_m4t_v2",
}
NOT_ROTARY = {name: reason for reason, names in WORDS_ONLY.items() for name in names.split()}
