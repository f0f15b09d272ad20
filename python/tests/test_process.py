"""rotary in a process: without numpy; the modules that an import loads; threads, forks and memory."""

import concurrent.futures
import importlib.util
import inspect
import json
import os
import pathlib
import pydoc
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import types
import typing
import unittest

import numpy as np
import rotary
from support import CONFIGS, run_python
from torch_support import torch

WITHOUT_NUMPY = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numpy", "torch", "jax", "ml_dtypes"):
            raise ImportError(name + " is not installed")
sys.meta_path.insert(0, Refuse())
import rotary
ropes = rotary.config({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1,
                       "rope_theta": 10000.0, "max_position_embeddings": 128})
table = rotary.Table(ropes[0], range(3))
x = memoryview(bytearray(3 * 4 * 16 * 4)).cast("f", (3, 4, 16))
for i in range(16):
    x[1, 0, i] = i
before = memoryview(bytes(x)).cast("f", (3, 4, 16))
assert table == rotary.Table(rotary.frequencies(ropes[0].rope), range(3))
y = rotary.rotate_(x, table, layout="thd")
assert y is x and rotary.check(ropes[0], before, x, layout="thd")["equal"]
for make in (lambda: rotary.rotate(x, table, layout="thd"), lambda: table.cos, lambda: rotary.makers.clipped([0.5]),
             lambda: rotary.positions.packed([0, 3])):
    try:
        make()
    except rotary.Error as error:
        assert "must be one of numpy, which is not installed" in str(error) and error.code == "DTYPE", error
    else:
        raise AssertionError
rotary.cpu.self_test()
for name in ("numpy", "torch", "jax", "ml_dtypes"):
    assert name not in sys.modules, name
print("done")
"""

MEMORY = """
import contextlib, gc
import numpy as np
import rotary
try:
    import torch
except ImportError:
    torch = None
rope = rotary.Rope(head_dim=16, pairing="half")
table = rotary.Table(rope, range(2))
arrays = np.ones((2, 4, 16), np.float32), np.ones((2, 2, 16), np.float32), np.array(table.cos), np.array(table.sin)
class Capsule:
    def __dlpack__(self, *, max_version=None):
        return arrays[0].__dlpack__(max_version=max_version)
def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
def family(q, k, *rows):
    rotary.rotate_qk(q, k, table, layout="thd")
    rotary.rotate_qk_(q, k, table, layout="thd")
    rotary.rotate(q, rotary.from_rows(*rows, pairing="half"), layout="thd")
    for wrong in ({"layout": "bthd"}, {"layout": "thd", "first": 3}, {"layout": None}, {"layout": "thd", "out": k}):
        with contextlib.suppress(rotary.Error):
            raise AssertionError(rotary.rotate(q, table, **wrong))
def calls(count):
    for at in range(count):
        family(*arrays)
        for other in (Capsule(), memoryview(arrays[0])):
            rotary.rotate(other, table, layout="thd")
        np.asarray(table.sin), table.cos[0].tolist()
        equal = rotary.Table(rope, [1, 2])
        hash(equal), equal == table, equal.positions.tolist()
        if torch and at % 4 == 0:
            family(*map(torch.tensor, arrays))
            learned = torch.ones(2, 4, 16, requires_grad=True)
            rotary.rotate(learned, table, layout="thd").sum().backward()
calls(2000 if torch else 300)
before = resident()
calls(COUNT)
print(resident() - before)
"""

DAEMONS = """
import threading, time, numpy as np, rotary
x = np.ones((1, 2048, 16, 128), np.float32)
rope = rotary.Rope(head_dim=128, pairing="half")
table = rotary.Table(rope, range(2048))
def turn():
    while True:
        rotary.rotate_(x, table, layout="bthd")
        rotary.Table(rope, range(2048))
def compare():
    while True:
        rotary.check(rope, x[0, :64], x[0, :64])
for work in (turn, turn, compare):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""

FORKS = """
import os, threading, numpy as np, rotary
rotary.set_num_threads(3)
table, x = rotary.Table(rotary.Rope(head_dim=64, pairing="half"), range(128)), np.ones((1, 128, 8, 64), np.float32)
y = rotary.rotate(x, table, layout="bthd")
def turn():
    while True:
        rotary.rotate(x, table, layout="bthd")
threading.Thread(target=turn, daemon=True).start()  # a child of a fork has no thread that would end its call
for _ in range(20):
    child = os.fork()
    same = all((rotary.rotate(x, table, layout="bthd") == y).all() for _ in range(3))
    if child == 0:
        os._exit(not same)
    assert same and os.waitpid(child, 0)[1] == 0
print("done")
"""

NAMES = {"Error", "Rope", "Table", "check", "config", "frequencies", "from_doubled", "from_rows", "patch", "rotate",
         "rotate_", "rotate_qk", "rotate_qk_", "set_num_threads", "use_models"}  # fmt: skip
MODULES = {"cpu", "makers", "positions", "scalings", "tools"}


class Process(unittest.TestCase):
    def test_without_numpy(self):
        self.assertEqual(run_python("-c", WITHOUT_NUMPY).strip(), "done")

    def test_import_loads_no_framework_and_nothing_that_takes_long(self):
        code = "import sys; before = set(sys.modules); import rotary; rotary.patch; print(*set(sys.modules) - before)"
        slow = {"ctypes", "logging", "numpy", "subprocess"}
        self.assertEqual({*slow, "torch", "jax", "transformers"} & set(run_python("-c", code).split()), set())

    def test_daemon_threads_do_not_break_the_end(self):
        for _ in range(5):
            run_python("-c", DAEMONS)

    def test_names(self):
        """Sixteen names and eight modules; the types of every function can be read, and help() is short."""
        late = [name for name in ("RotaryEmbedding", "torch", "jax") if name in dir(rotary)]
        self.assertEqual({name for name in dir(rotary) if name[:2] != "__"}, {*NAMES, *MODULES, *late})
        self.assertEqual("RotaryEmbedding" in late, torch is not None)
        self.assertEqual({*rotary.__all__}, NAMES)
        for module in (rotary, *(getattr(rotary, name) for name in MODULES)):
            for name in module.__all__:
                thing = getattr(module, name)
                self.assertTrue((thing.__doc__ or "").strip() or name == "Split", name)
                for typed in (thing, getattr(thing, "__init__", None)):
                    if isinstance(typed, type | types.FunctionType):
                        typing.get_type_hints(typed)
        self.assertLessEqual(len(pydoc.render_doc(rotary).splitlines()), 600)
        self.assertIn("layout", inspect.signature(rotary.rotate_qk).parameters)
        self.assertIn("positions", inspect.signature(rotary.Table).parameters)

    def test_none_for_a_required_argument_is_an_error(self):
        for function in (getattr(of, name) for of in (rotary, rotary.positions, rotary.tools) for name in of.__all__):
            if isinstance(function, types.FunctionType) and (torch or function is not rotary.patch):
                parameters = inspect.signature(function).parameters.values()
                required = {one.name: None for one in parameters if one.default is one.empty}
                if required:
                    with self.subTest(function.__name__), self.assertRaises((TypeError, rotary.Error)):
                        function(**required)

    @unittest.skipUnless(os.path.exists("/proc/self/statm"), "needs /proc")
    def test_memory_is_flat_after_a_million_calls(self):
        code = MEMORY.replace("COUNT", os.environ.get("ROTARY_LEAK_CALLS", "80000"))
        self.assertLess(int(run_python("-c", code)), 1 << 20)

    def test_threads(self):
        """numpy's arrays, and with torch its tensors, with and without a recorded gradient."""
        table = rotary.Table(rotary.Rope(head_dim=64, pairing="half"), range(128))
        x = np.random.default_rng(0).standard_normal((1, 128, 8, 64)).astype(np.float32)
        given = [x] if torch is None else [x, torch.tensor(x), torch.tensor(x, requires_grad=True)]
        expected, wrong = rotary.rotate(x, table, layout="bthd"), []

        def work():
            for i in range(100):
                y = rotary.rotate(given[i % len(given)], table, layout="bthd")
                same = (np.asarray(y if isinstance(y, np.ndarray) else y.detach()) == expected).all()
                if not same or rotary.Table(rotary.Rope(head_dim=64, pairing="half"), range(128)) != table:
                    wrong.append(i)
                rotary.set_num_threads(1 + i // 10 % 4)
                self.assertLessEqual(rotary.cpu.get_num_threads(), 4)

        with concurrent.futures.ThreadPoolExecutor(8) as workers:
            for done in [workers.submit(work) for _ in range(8)]:
                done.result()
        rotary.set_num_threads(0)
        self.assertEqual(wrong, [])

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_forks(self):
        self.assertEqual(run_python("-c", FORKS).strip(), "done")

    def test_other_threads_run_during_a_large_call(self):
        rotary.set_num_threads(1)
        table = rotary.Table(rotary.Rope(head_dim=128, pairing="half"), range(2048))
        x = np.zeros((1, 2048, 32, 128), np.float32)
        calls, seen = [], []

        def work():
            for _ in range(20):
                begin = time.perf_counter()
                rotary.rotate_(x, table, layout="bthd")
                calls.append((begin, time.perf_counter()))

        worker = threading.Thread(target=work)
        worker.start()
        while worker.is_alive():
            seen.append(time.perf_counter())
            time.sleep(0)
        rotary.set_num_threads(0)
        self.assertTrue(any(begin < moment < end for begin, end in calls for moment in seen))


GOOD = """
import numpy as np
import numpy.typing as npt
import rotary

rope = rotary.Rope(head_dim=64, pairing="half", scaling=rotary.scalings.Yarn(factor=4, trained_length=4096))
same = rotary.Rope(head_dim=64, pairing="neox", theta=1e4, scaling={"rope_type": "yarn", "factor": 4.0})
x: npt.NDArray[np.float32] = np.zeros((1, 2, 3, 64), np.float32)
table = rotary.Table(rope, range(2))
y: npt.NDArray[np.float32] = rotary.rotate(x, table[:1], layout="bshd")
first: rotary.tools.ModelRope = rotary.config("config.json").for_layer(0)
table = rotary.Table(rotary.config("config.json"), [[0, 1], [2, 3]])
answer = rotary.check(rope, x, y)
equal: bool = answer["equal"]
factor: float = rotary.frequencies(first, 9).attention_factor
"""
TORCH = """
import torch

module = rotary.RotaryEmbedding(head_dim=64, pairing="half", layout="bhtd")
same_module = rotary.RotaryEmbedding(first, angles="float32")
q = torch.zeros(1, 2, 3, 64)
one: torch.Tensor = module(q, offset=3)
two: tuple[torch.Tensor, torch.Tensor] = module(q, q, positions=range(3))
tensors: tuple[torch.Tensor, torch.Tensor] = table.tensors("cpu")
"""
# Each line has one fault.
BAD = """
rotary.Rope(head_dim=64, pairing="halves")
rotary.Rope(head_dim=64)
rotary.Rope(head_dims=64, pairing="half")
rotary.Rope(head_dim=64, pairing="half", bases=1e4)
rotary.Table(rope, "abc")
rotary.Table(7, range(3))
rotary.Table(rope, range(3), lenght=9)
rotary.Table(rope, range(3), rounding="bfloat16")
rotary.config(7)
rotary.config("config.json", pairings="half")
rotary.rotate(x, table)
rotary.rotate(x, table, layout="btdh")
rotary.rotate(x, table, layout="bthd", direction="back")
rotary.rotate("abc", table, layout="bthd")
rotary.rotate_qk(x, x, table, layout="bthd", query_scales=None)
rotary.from_rows(x, x, pairings="half")
rotary.check(rope, x, y)["equals"]
rotary.check(rope, x, y, tolerances=1.0)
rotary.tools.diagnose(x, y)["verdicts"]
rotary.tools.extend("config.json", 9)["method"]
"""
BAD_TORCH = """
rotary.RotaryEmbedding(head_dims=64, pairing="half")
rotary.RotaryEmbedding(head_dim=64)
rotary.RotaryEmbedding(head_dim=64, pairing="halves")
rotary.RotaryEmbedding(rope, head_dim=64, pairing="half")
rotary.RotaryEmbedding(rope, layouts="bhtd")
module(q, offsets=3)
module(q, offset="3")
module("q")
module(q).shape_of
module.table(range(3), lengths=9)
"""


def checker(name):
    """The words that run a type checker, or None: mypy is a module, pyright a program."""
    if name == "mypy":
        return [sys.executable, "-m", "mypy", "--strict"] if importlib.util.find_spec("mypy") else None
    found = [shutil.which(one, path=str(pathlib.Path(sys.executable).parent)) for one in ("basedpyright", "pyright")]
    return next(([one, "--pythonpath", sys.executable] for one in found if one), None)


class Types(unittest.TestCase):
    def run_checker(self, name, folder, *words):
        package = pathlib.Path(rotary.__file__).parent
        installed = package.parent.name.endswith("-packages")  # else a checker needs the path
        settings = {"include": ["use.py"], "typeCheckingMode": "standard"}
        settings |= {} if installed else {"extraPaths": [str(package.parent)]}
        pathlib.Path(folder, "pyrightconfig.json").write_text(json.dumps(settings))
        environment = dict(os.environ) if installed else {**os.environ, "MYPYPATH": str(package.parent)}
        words = [*checker(name), *(["--cache-dir", folder, *words] if name == "mypy" else [])]
        return subprocess.run(words, capture_output=True, text=True, cwd=folder, env=environment)

    def test_a_users_program(self):
        """The lines of a right program have no fault, and those of a wrong one have one each."""
        right, wrong = GOOD + TORCH * bool(torch), BAD.strip() + BAD_TORCH * bool(torch)
        names = [name for name in ("mypy", "pyright") if checker(name)]
        if not names:
            self.skipTest("neither mypy nor pyright is installed")
        for name in names:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                pathlib.Path(folder, "use.py").write_text(right + wrong + "\n")
                done = self.run_checker(name, folder, "use.py")
                found = re.findall(r"use\.py:(\d+)(?::\d+)?(?: -)? ?:? ?error", done.stdout)
                lines = enumerate(wrong.splitlines(), len(right.splitlines()) + 1)
                wanted = {at for at, line in lines if line}
                self.assertEqual({*map(int, found)}, wanted, done.stdout + done.stderr)

    def test_mypy_of_the_package(self):
        if checker("mypy") is None:
            self.skipTest("mypy is not installed")
        with tempfile.TemporaryDirectory() as folder:
            settings = CONFIGS.parents[3] / "pyproject.toml"
            done = self.run_checker("mypy", folder, "--config-file", settings, "-p", "rotary")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
