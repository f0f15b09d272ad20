"""tools/scaling_model.py against sums done by hand, and the docs against it: test_scaling_model.py ROOT [--write]."""

import contextlib
import importlib.util
import io
import pathlib
import re
import sys
import unittest
from dataclasses import replace

ROOT = pathlib.Path(sys.argv.pop(1))
DOCS = ROOT / "docs" / "training-at-scale.md"
BLOCK = re.compile(r"(<!-- tools/scaling_model.py -->\n```\n)(.*?)(```\n)", re.DOTALL)

spec = importlib.util.spec_from_file_location("scaling_model", ROOT / "tools" / "scaling_model.py")
model = importlib.util.module_from_spec(spec)
sys.modules["scaling_model"] = model
spec.loader.exec_module(model)


def printed():
    with contextlib.redirect_stdout(io.StringIO()) as out:
        model.report(model.WORKLOADS, model.NETWORKS, model.Machine(), [8, 64])
    return out.getvalue()


def parameters(layers, width, vocabulary):
    """Of a decoder with pre-norms, biases everywhere and a head of its own; and its tensors."""
    layer = 12 * width * width + 13 * width
    return layers * layer + 2 * width + (2 * width + 1) * vocabulary, 12 * layers + 5


class Model(unittest.TestCase):
    def setUp(self):
        self.small = model.WORKLOADS[0]
        self.network = model.Network("a", 1e9, 10e-6)

    def test_workloads_have_the_parameters_of_the_presets(self):
        for workload, shape in zip(model.WORKLOADS, [(4, 128), (6, 128), (6, 384)]):
            self.assertEqual((workload.parameters, workload.tensors), parameters(*shape, 65), workload.name)

    def test_one_machine_pays_nothing(self):
        self.assertEqual(model.step_time(self.small, 1, self.network, model.Machine()), (self.small.step, 0.0))

    def test_one_bucket_is_waited_for_whole(self):
        machine = model.Machine(bucket=1 << 40, memory_rate=1e30)
        time, waited = model.step_time(self.small, 4, self.network, machine)
        by_hand = 6 * 10e-6 + 1.5 * 4 * (810_049 + 53) / 1e9 + 4 * 10e-6  # six messages, the bytes, the loss
        self.assertAlmostEqual(waited, by_hand, delta=1e-12)
        self.assertAlmostEqual(time, self.small.step + by_hand, delta=1e-12)

    def test_only_the_last_of_many_buckets_is_waited_for_on_a_fast_network(self):
        machine = model.Machine(bucket=(self.small.bytes + 9) // 10, memory_rate=1e30)
        _, waited = model.step_time(self.small, 2, replace(self.network, latency=0.0), machine)
        self.assertAlmostEqual(waited, self.small.bytes / 10 / 1e9, delta=1e-9)

    def test_slow_network_is_bound_by_the_bytes(self):
        slow = model.Network("slow", 1e6, 0.0)
        time, _ = model.step_time(self.small, 2, slow, model.Machine(pause=0, memory_rate=1e30))
        self.assertGreater(time, self.small.bytes / 1e6)
        self.assertLess(time, self.small.bytes / 1e6 + self.small.step)

    def test_more_machines_never_help_one_step(self):
        for workload in model.WORKLOADS:
            for network in model.NETWORKS:
                times = [model.step_time(workload, n, network, model.Machine())[0] for n in (1, 2, 4, 8, 64, 512)]
                self.assertEqual(times, sorted(times))

    def test_docs_show_what_the_tool_prints(self):
        text = DOCS.read_text()
        self.assertEqual(BLOCK.search(text)[2], printed())
        for workload in model.WORKLOADS:
            row = next(line for line in text.splitlines() if line.startswith(f"| {workload.name} "))
            megabytes = [f"{model.sent(workload, n) / 1e6:.2f} MB" for n in (2, 8, 64)]
            self.assertEqual([cell.strip() for cell in row.split("|")[2:-1]], [f"{workload.parameters:,}", *megabytes])


if __name__ == "__main__":
    if "--write" in sys.argv:
        DOCS.write_text(BLOCK.sub(lambda found: found[1] + printed() + found[3], DOCS.read_text()))
    else:
        unittest.main()
