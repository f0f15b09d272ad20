# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""Whether torch.compile has seen a model."""

from __future__ import annotations

from .functions import modeling_classes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

    from torch.nn import Module


def _has_entries(code: CodeType) -> bool:
    """Whether dynamo keeps compiled code for it: torch's own debugging function, which may leave."""
    try:
        from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list
    except ImportError:
        return False
    return len(_debug_get_cache_entry_list(code)) > 0


def compiled_part(model: Module) -> str | None:
    """What of the model torch.compile has compiled, in words; None: nothing."""
    for path, part in model.named_modules():
        where = path or type(part).__name__
        if type(part).__name__ == "OptimizedModule" or hasattr(part, "_orig_mod"):
            return f"{where} is what torch.compile returned"
        if getattr(part, "_compiled_call_impl", None) is not None:
            return f"{where} was compiled by its method compile()"
    for kinds in modeling_classes(model).values():
        for kind in kinds:
            code = getattr(vars(kind).get("forward"), "__code__", None)
            if code is not None and _has_entries(code):
                return f"{kind.__name__}.forward has been compiled in this process"
    return None
