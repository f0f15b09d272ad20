"""Other libraries' functions, by their own names, signatures and meanings.

rotary.compat.flash_attn.apply_rotary_emb and rotary.compat.torch.rotary_embedding.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name in ("flash_attn", "torch"):
        import importlib

        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'rotary.compat' has no attribute '{name}'")
