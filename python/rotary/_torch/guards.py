# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""Whether the memory of a tensor is all there is to a call."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor

_forward_ad = torch.autograd.forward_ad
_keys = torch._C._dispatch_keys
_number = getattr(torch._C.DispatchKeySet, "raw_repr", repr)  # of a set of keys; torch 2.4 has only the text
_included = torch._C._dispatch_tls_local_include_set
_function_modes = torch._C._len_torch_function_stack
_profiled = torch.autograd._profiler_enabled
TYPES = (Tensor, torch.nn.Parameter)


def _ordinary() -> tuple[frozenset[Any], frozenset[Any]]:
    """The dispatch keys of a thread without modes, and those of tensors that are nothing but memory of the CPU; each
    without and with inference mode.

    Asked in a new thread: this module may be imported under a mode.
    """
    found: list[Any] = []

    def ask() -> None:
        for inference in (False, True):
            with torch.inference_mode(inference):
                found.append((_number(_included()), _number(_keys(torch.empty(1, device="cpu")))))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    modes, plain_keys = zip(*found)
    return frozenset(modes), frozenset(plain_keys)


_NO_MODES, _PLAIN = _ordinary()


def is_quiet() -> bool:
    """No dispatch mode, functorch level, tracer, function mode, dual level or profiler that should see the call."""
    return (
        _number(_included()) in _NO_MODES
        and _function_modes() == 0
        and _forward_ad._current_level < 0
        and not _profiled()
    )


def is_plain(x: Any) -> bool:
    """Memory of the CPU and nothing else: no subclass, fake, wrapper, view of negative signs, zeros without memory."""
    return type(x) in TYPES and _number(_keys(x)) in _PLAIN


def can_be_read(*tensors: Tensor) -> bool:
    """Whether the numbers are there, in the memory of the CPU."""
    return not torch.compiler.is_dynamo_compiling() and is_quiet() and all(map(is_plain, tensors))
