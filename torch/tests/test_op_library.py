"""The ops of librotary_torch.so beside rotate and rotate_qk, and the library with the Python package in one process:
test_op_library.py LIBRARY RUN_PACKAGE [TEST...], "-" for no RUN_PACKAGE. Exit 77 as of test_op.py.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

import test_op  # skips where torch cannot be imported
import torch

rotary = torch.ops.rotary
LIBRARY, RUN_PACKAGE = sys.argv[1], sys.argv.pop(2)


class Table(unittest.TestCase):
    def test_batch_rows_axes_and_integer_kinds(self):
        inv_freq = 10.0 ** -torch.arange(4, dtype=torch.float64)
        positions = torch.randint(-50, 50, (3, 2, 6))
        expect = lambda p: ((p.double() * inv_freq).cos().float(), (p.double() * inv_freq).sin().float())
        close = lambda ours, theirs: [torch.testing.assert_close(a, b, rtol=0, atol=1e-7) for a, b in zip(ours, theirs)]
        close(rotary.table(positions[0], inv_freq), expect(positions[0, :, :, None]))
        close(rotary.table(positions[0].int(), inv_freq), expect(positions[0, :, :, None]))
        close(rotary.table(positions[0, 0], inv_freq), expect(positions[0, 0, :, None]))
        axis = [0, 1, 2, 0]
        by_axis = positions[axis].movedim(0, -1)
        close(rotary.table(positions, inv_freq, 1.0, axis), expect(by_axis))
        close(rotary.table(positions[:, 0], inv_freq, 1.0, axis), expect(by_axis[0]))
        close(rotary.table(positions[0, 0], inv_freq, 1.0, axis), expect(positions[0, 0, :, None]))

    def test_gradient_in_inv_freq(self):
        positions = torch.randint(-50, 50, (3, 2, 6))
        for p, axis in [(positions[0], []), (positions[0, 0].double() / 3, []), (positions, [0, 1, 2, 0])]:
            ours = (10.0 ** -torch.arange(4, dtype=torch.float64)).requires_grad_()
            theirs = ours.detach().clone().requires_grad_()
            angles = (p[axis].movedim(0, -1) if axis else p[..., None]) * theirs
            weights = torch.randn_like(angles), torch.randn_like(angles)
            loss = lambda cos, sin: (cos * weights[0] + sin * weights[1]).square().sum()
            (first,) = torch.autograd.grad(loss(*rotary.table(p, ours, 1.0, axis)), ours, create_graph=True)
            (other,) = torch.autograd.grad(loss(angles.cos(), angles.sin()), theirs, create_graph=True)
            torch.testing.assert_close(first, other, rtol=1e-5, atol=1e-3)
            (second,) = torch.autograd.grad(first.sum(), ours)
            (curve,) = torch.autograd.grad(other.sum(), theirs)
            torch.testing.assert_close(second, curve, rtol=1e-4, atol=1e-1)

    def test_wrong_calls_get_one_clear_sentence(self):
        speeds = torch.ones(4, dtype=torch.float64)
        for sentence, call in {
            "positions must be int32, int64 or float64 but got Float": (torch.zeros(2), speeds),
            "positions must be .tokens. or .batch, tokens. but got shape": (torch.zeros(2, 2, 2).long(), speeds),
            "inv_freq must be f64": (torch.arange(2), speeds.float()),
            "inv_freq must be finite but is": (torch.arange(2), speeds / 0),
            "positions must be finite": (torch.tensor([float("nan")], dtype=torch.float64), speeds),
            "attention_factor must be finite": (torch.arange(2), speeds, float("inf")),
            "axis must be empty or have one value for each of the 4 pairs but has 2": (
                torch.arange(2), speeds, 1.0, [0, 1]),
            "positions have no gradient": (speeds.clone().requires_grad_(), speeds),
        }.items():
            with self.subTest(sentence), self.assertRaisesRegex(RuntimeError, r"^\[table\] .*" + sentence):
                rotary.table(*call)

    def test_opcheck(self):
        speeds = torch.rand(4, dtype=torch.float64)
        for inv_freq in [speeds, speeds.clone().requires_grad_()]:
            torch.library.opcheck(rotary.table.default, (torch.arange(5), inv_freq, 1.5))
            torch.library.opcheck(rotary.table.default, (torch.arange(12).view(2, 6), inv_freq))
            torch.library.opcheck(rotary.table.default, (torch.arange(12).view(2, 1, 6), inv_freq, 1.0, [0, 1, 0, 1]))


WITH_PACKAGE = """
import io, sys, torch
def load(name): torch.ops.load_library(LIBRARY) if name == "library" else __import__("rotary.torch")
for name in ORDER: load(name)
import rotary
q, k = torch.randn(2, 4, 5, 16, requires_grad=True), torch.randn(2, 1, 5, 16)
table = rotary.Table(rotary.Rope(head_dim=16, pairing="half"), range(5))
cos, sin = (torch.tensor(rows) for rows in (table.cos, table.sin))
both = lambda q, k: rotary.rotate_qk(q, k, table, layout="bhtd")
ours = both(q, k)
op = torch.ops.rotary
assert all(map(torch.equal, op.rotate_qk(q, k, cos, sin, "half", "bhtd"), ours))
assert all(map(torch.equal, torch.compile(both, fullgraph=True, backend="aot_eager")(q, k), ours))
assert all(map(torch.equal, torch.func.vmap(both)(q[None], k[None]), [x[None] for x in ours]))
grads = [torch.autograd.grad(f(q).square().sum(), q)[0] for f in (
    lambda x: rotary.rotate(x, table, layout="bhtd"), lambda x: op.rotate(x, cos, sin, "half", "bhtd"))]
assert torch.equal(*grads)
with torch.no_grad():
    x = q.clone()
    op.rotate_(x, cos, sin, "half", "bhtd")
    assert torch.equal(x, ours[0])
"""

EXPORTED = """
import sys, torch
torch.ops.load_library(LIBRARY)
program, inputs, ours = (torch.export.load(FILE + ".pt2"), *torch.load(FILE + ".pt"))
assert any(str(node.target).startswith("rotary.rotate_qk") for node in program.graph.nodes)
assert all(map(torch.equal, program.module()(*inputs), ours))
"""


@unittest.skipIf(importlib.util.find_spec("rotary") is None, "needs the package")
class BesideThePackage(unittest.TestCase):
    def run_python(self, code, **words):
        code = "".join(f"{name} = {value!r}\n" for name, value in words.items()) + code
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_both_in_one_process(self):
        for order in [("library", "package"), ("package", "library")]:
            self.run_python(WITH_PACKAGE, LIBRARY=LIBRARY, ORDER=order)

    def test_a_program_exported_with_the_package_runs_with_the_library_alone(self):
        export = """
import rotary.torch, torch
class Model(torch.nn.Module):
    def forward(self, q, k, cos, sin):
        return rotary.rotate_qk(q, k, rotary.from_rows(cos, sin, pairing="interleaved"), layout="bhtd")
inputs = torch.randn(1, 4, 5, 16), torch.randn(1, 2, 5, 16).half(), *(torch.randn(5, 6) for _ in range(2))
torch.export.save(torch.export.export(Model(), inputs), FILE + ".pt2")
torch.save((inputs, Model()(*inputs)), FILE + ".pt")
"""
        with tempfile.TemporaryDirectory() as folder:
            self.run_python(export, FILE=folder + "/program")
            self.run_python(EXPORTED, FILE=folder + "/program", LIBRARY=LIBRARY)

    @unittest.skipIf(RUN_PACKAGE == "-", "the torch in use has no AOTIModelPackageLoader")
    def test_a_package_of_aotinductor_runs_in_cpp(self):
        """One token needs libtorch alone, and several need the library; the bits are Python's."""
        export = """
import pathlib, rotary.torch, torch
rope = rotary.RotaryEmbedding(head_dim=64, base=5e5, pairing="half", layout="bhtd")
for tokens in 1, 5:
    q, k, positions = torch.randn(1, 4, tokens, 64), torch.randn(1, 2, tokens, 64), torch.arange(70000, 70000 + tokens)
    values = torch.cat([x.flatten() for x in (q, k, *rope(q, k, positions))])
    pathlib.Path(f"{FOLDER}/{tokens}.f32").write_bytes(bytes(values.view(torch.uint8).tolist()))
    program = torch.export.export(rope, (q, k, positions))
    torch._inductor.aoti_compile_and_package(program, package_path=f"{FOLDER}/{tokens}.pt2")
"""
        with tempfile.TemporaryDirectory() as folder:
            self.run_python(export, FOLDER=folder)
            environment = os.environ | {"LD_LIBRARY_PATH": torch.__path__[0] + "/lib"}  # for the code in the package
            for tokens, library, exit_code in (1, [], 0), (5, [LIBRARY], 0), (5, [], 2):
                words = [RUN_PACKAGE, f"{folder}/{tokens}.pt2", f"{folder}/{tokens}.f32", *library]
                done = subprocess.run(words, capture_output=True, text=True, env=environment)
                self.assertEqual(done.returncode, exit_code, done.stderr)
            self.assertIn("rotary::rotate_qk", done.stderr)


if __name__ == "__main__":
    test_op.run(sys.argv.pop(1))
