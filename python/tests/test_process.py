"""rotary in a process: without numpy; the modules that an import loads; threads, forks and memory."""

import importlib.util
import inspect
import os
import pathlib
import pydoc
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
from support import run_python
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
table = ropes[0].table(range(3))
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
rotary.self_test()
for name in ("numpy", "torch", "jax", "ml_dtypes"):
    assert name not in sys.modules, name
print("done")
"""

MEMORY = """
import gc, sys
import numpy as np
import rotary
try:
    import torch
except ImportError:
    torch = None
rope = rotary.Rope(head_dim=16, pairing="half")
table = rotary.Table(rope, range(2))
q, k = np.ones((2, 4, 16), np.float32), np.ones((2, 2, 16), np.float32)
rows = np.asarray(table.cos), np.asarray(table.sin)
class Capsule:
    def __dlpack__(self, *, max_version=None):
        return q.__dlpack__(max_version=max_version)
capsule = Capsule()
def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
def family(q, k, *rows):
    rotary.rotate_qk(q, k, table, layout="thd")
    rotary.rotate_qk_(q, k, table, layout="thd")
    rotary.rotate(q, rotary.from_rows(*rows, pairing="half"), layout="thd")
    for wrong in ({"layout": "bthd"}, {"layout": "thd", "first": 3}, {"layout": None}, {"layout": "thd", "out": k}):
        try:
            rotary.rotate(q, table, **wrong)
        except rotary.Error:
            pass
        else:
            raise AssertionError
def calls(count):
    for _ in range(count):
        family(q, k, *rows)
        rotary.rotate(capsule, table, layout="thd")
        rotary.rotate(memoryview(q), table, layout="thd")
        np.asarray(table.sin), table.cos[0].tolist()
        equal = rotary.Table(rope, [1, 2])
        hash(equal), equal == table, equal.positions.tolist()
    for _ in range(count // 4 if torch else 0):
        family(*map(torch.tensor, (q, k, *rows)))
    for _ in range(count // 40 if torch else 0):
        learned = torch.ones(2, 4, 16, requires_grad=True)
        rotary.rotate(learned, table, layout="thd").sum().backward()
calls(2000 if torch else 300)
before = resident()
calls(int(sys.argv[1]))
print(resident() - before)
"""


class Process(unittest.TestCase):
    def test_without_numpy(self):
        self.assertEqual(run_python("-c", WITHOUT_NUMPY).strip(), "done")

    def test_import_loads_no_framework_and_nothing_that_takes_long(self):
        code = "import sys; before = set(sys.modules); import rotary; rotary.patch; print(*set(sys.modules) - before)"
        slow = {"ctypes", "dataclasses", "inspect", "json", "logging", "numpy", "subprocess"}
        self.assertEqual({*slow, "torch", "jax", "transformers"} & set(run_python("-c", code).split()), set())

    def test_daemon_threads_do_not_break_the_end(self):
        code = (
            "import threading, time, numpy as np, rotary\n"
            "x = np.ones((1, 2048, 16, 128), np.float32)\n"
            "rope = rotary.Rope(head_dim=128, pairing='half')\n"
            "table = rotary.Table(rope, range(2048))\n"
            "def turn():\n"
            "    while True:\n"
            "        rotary.rotate_(x, table, layout='bthd')\n"
            "        rotary.Table(rope, range(2048))\n"
            "def compare():\n"
            "    while True:\n"
            "        rotary.check(rope, x[0, :64], x[0, :64])\n"
            "for work in (turn, turn, compare):\n"
            "    threading.Thread(target=work, daemon=True).start()\n"
            "time.sleep(0.2)\n"
        )
        for _ in range(5):
            run_python("-c", code)

    def test_type_hints_docstrings_and_signatures(self):
        for name in rotary.__all__:
            if name not in ("Scaling", "__version__"):
                thing = getattr(rotary, name)
                with self.subTest(name):
                    self.assertTrue((thing.__doc__ or "").strip() or not callable(thing))
                    typing.get_type_hints(thing)
                    if isinstance(thing, type) and isinstance(thing.__init__, types.FunctionType):
                        typing.get_type_hints(thing.__init__)
        late = {"jax": "jax", "makers": "rotary", "plot": "matplotlib", "torch": "torch"}
        there = {name for name, needed in late.items() if importlib.util.find_spec(needed)}
        self.assertEqual({*late} & {*dir(rotary)}, there)
        self.assertGreater(len(pydoc.render_doc(rotary)), 10000)
        self.assertIn("layout", inspect.signature(rotary.rotate_qk).parameters)
        self.assertIn("positions", inspect.signature(rotary.Table).parameters)

    def test_none_for_a_required_argument_is_an_error(self):
        for function in (getattr(of, name) for of in (rotary, rotary.positions) for name in of.__all__):
            if isinstance(function, types.FunctionType) and (torch or function is not rotary.patch):
                parameters = inspect.signature(function).parameters.values()
                required = [one for one in parameters if one.default is one.empty and one.kind != one.VAR_KEYWORD]
                names = {one.name: None for one in required if one.kind == one.KEYWORD_ONLY}
                places = [None] * (len(required) - len(names))
                with self.subTest(function.__name__), self.assertRaises((TypeError, rotary.Error)):
                    function(*places, **names)
                    self.assertFalse(required)
                    raise TypeError("it takes none")

    @unittest.skipUnless(os.path.exists("/proc/self/statm"), "needs /proc")
    def test_memory_is_flat_after_a_million_calls(self):
        code = MEMORY.replace("int(sys.argv[1])", os.environ.get("ROTARY_LEAK_CALLS", "80000"))
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
                if not (np.asarray(y if isinstance(y, np.ndarray) else y.detach()) == expected).all():
                    wrong.append(i)
                if rotary.Table(rotary.Rope(head_dim=64, pairing="half"), range(128)) != table:
                    wrong.append(i)
                if i % 10 == 0:
                    rotary.set_num_threads(1 + i // 10 % 4)

        workers = [threading.Thread(target=work) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        rotary.set_num_threads(0)
        self.assertEqual(wrong, [])

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_forks(self):
        code = (
            "import os, numpy as np, rotary\n"
            "rotary.set_num_threads(3)\n"
            "table = rotary.Table(rotary.Rope(head_dim=64, pairing='half'), range(128))\n"
            "x = np.ones((1, 128, 8, 64), np.float32)\n"
            "y = rotary.rotate(x, table, layout='bthd')\n"
            "for _ in range(20):\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            "        same = all((rotary.rotate(x, table, layout='bthd') == y).all() for _ in range(3))\n"
            "        os._exit(0 if same else 1)\n"
            "    assert os.waitpid(child, 0)[1] == 0\n"
            "    assert (rotary.rotate(x, table, layout='bthd') == y).all()\n"
            "print('done')\n"
        )
        self.assertEqual(run_python("-c", code).strip(), "done")

    def test_multiprocessing(self):
        code = (
            "import multiprocessing, pickle, rotary\n"
            "def rows(table):\n"
            "    return rotary.Table(rotary.Rope(head_dim=8, pairing='half'), range(3)) == table\n"
            "if __name__ == '__main__':\n"
            "    table = rotary.Table(rotary.Rope(head_dim=8, pairing='half'), range(3))\n"
            "    for method in multiprocessing.get_all_start_methods():\n"
            "        with multiprocessing.get_context(method).Pool(2) as pool:\n"
            "            assert all(pool.map(rows, [table] * 4)), method\n"
            "    print('done')\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "work.py"
            path.write_text(code)
            self.assertEqual(run_python(path).strip(), "done")

    def test_other_threads_run_during_a_large_call(self):
        rotary.set_num_threads(1)
        table = rotary.Table(rotary.Rope(head_dim=128, pairing="half"), range(2048))
        x = np.zeros((1, 2048, 32, 128), np.float32)
        rotary.rotate_(x, table, layout="bthd")
        seen, stop = [], threading.Event()

        def watch():
            while not stop.is_set():
                seen.append(time.perf_counter())
                time.sleep(0)

        watcher = threading.Thread(target=watch)
        watcher.start()
        inside = 0
        for _ in range(20):
            begin = time.perf_counter()
            rotary.rotate_(x, table, layout="bthd")
            end = time.perf_counter()
            inside += sum(begin < moment < end for moment in seen)
            seen.clear()
        stop.set()
        watcher.join()
        rotary.set_num_threads(0)
        self.assertGreater(inside, 0)


class Types(unittest.TestCase):
    def test_mypy(self):
        try:
            import mypy  # noqa: F401
        except ImportError:
            self.skipTest("mypy is not installed")
        package = pathlib.Path(rotary.__file__).parent
        with tempfile.TemporaryDirectory() as folder:
            use = pathlib.Path(folder) / "use.py"
            use.write_text(
                "import numpy as np\nimport numpy.typing as npt\nimport rotary\n"
                "rope = rotary.Rope(head_dim=64, pairing='half', scaling=rotary.Yarn(factor=4, trained_length=4096))\n"
                "x: npt.NDArray[np.float32] = np.zeros((1, 2, 3, 64), np.float32)\n"
                "table = rotary.Table(rope, range(2))\n"
                "y: npt.NDArray[np.float32] = rotary.rotate(x, table, layout='bthd')\n"
                "first: rotary.ModelRope = rotary.config('config.json')[0]\n"
            )
            installed = package.parent.name.endswith("-packages")  # else mypy needs the path
            environment = dict(os.environ) if installed else {**os.environ, "MYPYPATH": str(package.parent)}
            for more in (["-p", "rotary"], [str(use)]):
                words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder, *more]
                done = subprocess.run(words, capture_output=True, text=True, cwd=folder, env=environment)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            use.write_text("import rotary\nrotary.Rope(head_dim=64, pairing='halves')\n")
            done = subprocess.run(words, capture_output=True, text=True, cwd=folder, env=environment)
            self.assertNotEqual(done.returncode, 0)
