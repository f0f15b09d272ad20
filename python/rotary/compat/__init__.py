"""Other libraries' functions, by their own names, signatures and meanings.

rotary.compat.flash_attn.apply_rotary_emb, which is also rotary.compat.apply_rotary_emb. Imported when first named: it
needs torch.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name not in ("flash_attn", "apply_rotary_emb"):
        raise AttributeError(f"module 'rotary.compat' has no attribute '{name}'")
    import importlib

    found = importlib.import_module(".flash_attn", __name__)
    return found if name == "flash_attn" else found.apply_rotary_emb


def __dir__() -> list[str]:
    from importlib.util import find_spec

    return sorted({*globals(), *(("apply_rotary_emb", "flash_attn") if find_spec("torch") else ())})
