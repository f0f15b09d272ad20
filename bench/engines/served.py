"""The parts that adapters of serving engines share: a model on the meta device, its rotary modules on the CPU."""
import tempfile

import torch
from harness import NotThere, OtherHead


def make_on_cpu(*kinds):
    """Modules of these classes are made on the CPU wherever the model is made."""
    for kind in kinds:
        def made(self, *a, init=kind.__init__, **k):
            with torch.device("cpu"):
                init(self, *a, **k)
        kind.__init__ = made


def one_process(parallel_state):
    """The group of one process that vLLM's and SGLang's layers ask for."""
    if not torch.distributed.is_initialized():
        parallel_state.init_distributed_environment(1, 0, f"file://{tempfile.mkdtemp()}/store", 0, "gloo")


def rotary_module(model, layer, kinds):
    if any(hasattr(m, "permute_qk_weight_for_rotary") for m in model.modules()):
        raise NotThere("it permutes the weights of q and k when they are loaded")
    inside = [m for name, m in model.named_modules() if f"layers.{layer}." in name and "vis" not in name]
    turns = next((m for m in inside if isinstance(m, kinds)), None)
    if turns is None:
        raise NotThere("no rotary module in the layer")
    return turns


def turn(turns, case, q, positions, three_axes=()):
    """The module's own rotation of q at the positions that its table reaches. MLA hands its rope the end of the head;
    the classes of three_axes take [tokens, heads, head_dim]."""
    begin = case["first"] if turns.head_size == case["rotary_dim"] else 0
    if begin + turns.head_size != q.shape[1]:
        raise OtherHead(turns.head_size)
    rows = len(getattr(turns, "cos_sin_cache", range(turns.max_position_embeddings)))
    positions = torch.tensor(positions)
    reached = positions.reshape(-1, len(q)).amax(0) < rows
    head = torch.tensor(q)[reached, begin:]
    head = head[:, None] if isinstance(turns, three_axes) else head
    forward = getattr(turns, "forward_native", turns.forward)
    result = torch.full((len(q), turns.head_size), float("nan"))
    result[reached] = forward(positions[..., reached], head, torch.zeros_like(head))[0].reshape(-1, turns.head_size)
    return result
