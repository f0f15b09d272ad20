"""Engines made for GPUs: kernels that are not here, the group of one process, rotary modules on the CPU."""
import importlib.machinery
import sys
import tempfile
from unittest import mock

import torch
from harness import OtherHead, need, turn_reached


def put_absent(*names):
    """Modules of kernels, which turn nothing, as modules of nothing."""
    for name in names:
        sys.modules[name] = mock.MagicMock(__spec__=importlib.machinery.ModuleSpec(name, None), __path__=[])


def make_on_cpu(*kinds):
    """Modules of these classes are made on the CPU wherever the model is made."""
    for kind in kinds:
        def made(self, *a, init=kind.__init__, **k):
            with torch.device("cpu"):
                init(self, *a, **k)
        kind.__init__ = made


def one_process(parallel_state):
    """The groups of one process that the layers of the next model ask for."""
    if torch.distributed.is_initialized():
        parallel_state.destroy_model_parallel()
    else:
        parallel_state.init_distributed_environment(1, 0, f"file://{tempfile.mkdtemp()}/store", 0, "gloo")
    parallel_state.initialize_model_parallel(backend="gloo")


def turn(model, kinds, three_axes, case, q, positions):
    """The rotation of q by the layer's rotary module, one of these kinds, at the positions that its table reaches. MLA
    hands its rope the end of the head; the classes of three_axes take [tokens, heads, head_dim]."""
    need(not any(hasattr(m, "permute_qk_weight_for_rotary") for m in model.modules()),
         "it permutes the weights of q and k when they are loaded")
    turns = next(m for name, m in model.named_modules()
                 if f"layers.{case['layer']}." in name and "vis" not in name and isinstance(m, kinds))
    begin = case["first"] if turns.head_size == case["rotary_dim"] else 0
    if begin + turns.head_size != q.shape[1]:
        raise OtherHead(turns.head_size)

    def turn_some(q, positions):
        head = torch.tensor(q[:, begin:])
        head = head[:, None] if isinstance(turns, three_axes) else head
        forward = getattr(turns, "forward_native", turns.forward)
        return forward(torch.tensor(positions), head, torch.zeros_like(head))[0].reshape(len(q), turns.head_size)

    rows = len(getattr(turns, "cos_sin_cache", range(turns.max_position_embeddings)))
    return turn_reached(turn_some, rows, q, positions)
