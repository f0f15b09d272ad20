"""Other libraries' functions, by their own names, signatures and meanings.

rotary.compat.flash_attn.apply_rotary_emb and rotary.compat.torch.rotary_embedding, which are also
rotary.compat.apply_rotary_emb and rotary.compat.rotary_embedding. Imported when first named: they need torch.
"""

from __future__ import annotations

_FUNCTIONS = {"apply_rotary_emb": "flash_attn", "rotary_embedding": "torch"}


def __getattr__(name: str) -> object:
    module = _FUNCTIONS.get(name, name)
    if module not in _FUNCTIONS.values():
        raise AttributeError(f"module 'rotary.compat' has no attribute '{name}'")
    import importlib

    found = importlib.import_module("." + module, __name__)
    return getattr(found, name) if name in _FUNCTIONS else found


def __dir__() -> list[str]:
    return sorted({*globals(), *_FUNCTIONS, *_FUNCTIONS.values()})
