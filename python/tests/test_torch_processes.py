"""Two processes with gloo: FSDP2, and DTensors of every placement."""

import os
import tempfile
import unittest

import rotary

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as multiprocessing
except ImportError:
    torch = None
    raise unittest.SkipTest("torch is not installed") from None

HEADS, HEAD_DIM, TOKENS = 4, 16, 12
WIDTH = HEADS * HEAD_DIM


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rope = rotary.RotaryEmbedding(head_dim=HEAD_DIM, base=10000, pairing="half", layout="bhtd")
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = torch.nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        q, k, v = (one.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        q, k = self.rope(q, k)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(-2))


def model(device=None):
    torch.manual_seed(0)
    with torch.device(device or "cpu"):
        return torch.nn.Sequential(Attention(), Attention())


def batch():
    return torch.randn(4, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))


def work_together(rank, folder, work):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.save(work(), f"{folder}/result{rank}")
    dist.barrier()  # Gloo aborts a process whose peer has gone while it still sends
    dist.destroy_process_group()


def load_by_fsdp():
    """The model is built on meta, sharded, given memory and then its weights, as in trainers."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import distribute_tensor

    mesh = init_device_mesh("cpu", (2,))
    weights = model().state_dict()
    loaded = model("meta")
    for layer in loaded:
        fully_shard(layer, mesh=mesh)
    fully_shard(loaded, mesh=mesh)
    loaded.to_empty(device="cpu")
    with torch.no_grad():
        for one in loaded.parameters():
            one.fill_(float("nan"))
    for name, one in loaded.state_dict().items():
        one.copy_(distribute_tensor(weights[name], mesh, one.placements))
    y = loaded(batch())
    y.square().mean().backward()
    return y.detach(), [one.grad.full_tensor() for one in loaded.parameters()]


def rotate_shards():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh, results = init_device_mesh("cpu", (2,)), []
    generator = torch.Generator().manual_seed(2)
    rope = rotary.Rope(head_dim=HEAD_DIM, pairing="half")
    own_rows = rotary.Table(rope, [list(range(TOKENS)), list(range(9, 9 + TOKENS))])
    for layout, shape in (("bthd", (2, TOKENS, HEADS, HEAD_DIM)), ("bhtd", (2, HEADS, TOKENS, HEAD_DIM))):
        for table in (rotary.Table(rope, range(TOKENS)), own_rows):
            for placement in (Replicate(), *(Shard(at) for at in range(3))):
                q, k = (torch.randn(shape, generator=generator, requires_grad=True) for _ in range(2))
                expected = rotary.rotate_qk(q, k, table, layout=layout)
                expected[0].square().sum().backward()
                given = [distribute_tensor(one.detach(), mesh, [placement]).requires_grad_() for one in (q, k)]
                got = rotary.rotate_qk(*given, table, layout=layout)
                alone = rotary.rotate(given[1].detach(), table, layout=layout)
                got[0].square().sum().backward()
                results += [
                    got[0].placements == (placement,) and alone.placements == (placement,),
                    all(torch.equal(one.full_tensor(), other)
                        for one, other in zip((*got, alone), (*expected, expected[1]))),
                    torch.equal(given[0].grad.full_tensor(), q.grad),
                ]
    return results


class Processes(unittest.TestCase):
    def run_two(self, work):
        with tempfile.TemporaryDirectory() as folder:
            multiprocessing.spawn(work_together, (folder, work), nprocs=2)
            return [torch.load(os.path.join(folder, f"result{rank}")) for rank in range(2)]

    def test_fsdp_with_meta_init(self):
        try:
            from torch.distributed.fsdp import fully_shard  # noqa: F401
        except ImportError:
            self.skipTest("this torch has no FSDP2")
        alone = model()
        expected = alone(batch())
        expected.square().mean().backward()
        for y, gradients in self.run_two(load_by_fsdp):
            torch.testing.assert_close(y, expected.detach(), rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(gradients, [one.grad for one in alone.parameters()], rtol=1e-5, atol=1e-7)

    @unittest.skipUnless(torch.__version__ >= (2, 5), "torch.distributed.tensor is of torch 2.5")
    def test_dtensors_of_every_placement(self):
        for results in self.run_two(rotate_shards):
            self.assertEqual(results, [True] * len(results))
