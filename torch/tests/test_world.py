"""Training over several processes: test_world.py CHECK [PROGRAM]. Needs Python's standard library only.

CHECK is world_check, PROGRAM rotary-torch; without it the command is not tried. The processes are started by hand, as
torchrun does it, and by torchrun where one that runs is beside this Python.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

CHECK, *PROGRAM = sys.argv[1:3]
del sys.argv[1:3]
TORCHRUN = pathlib.Path(sys.executable).parent / "torchrun"


class World:
    """The processes of one run. An environment variable of the value None is not set."""

    def __init__(self, ranks, *words, **variables):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = {"OMP_NUM_THREADS": 1, "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        self.ranks = []
        for rank in range(ranks):
            given = os.environ | {k: str(v) for k, v in (settings | {"RANK": rank} | variables).items()
                                  if v is not None}
            self.ranks.append(subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                               text=True, env=given))

    def ended(self, seconds=240):
        end = time.monotonic() + seconds
        try:
            return [(*rank.communicate(timeout=max(0.1, end - time.monotonic())), rank.returncode)
                    for rank in self.ranks]
        finally:
            self.kill()

    def kill(self):
        for rank in self.ranks:
            if rank.poll() is None:
                rank.kill()


class Scratch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def start(self, ranks, *words, **variables):
        world = World(ranks, *words, **variables)
        self.addCleanup(world.kill)
        return world

    def good(self, ranks, *words, **variables):
        outputs = self.start(ranks, *words, **variables).ended()
        for rank, (_, err, status) in enumerate(outputs):
            self.assertEqual(status, 0, f"rank {rank}: {err}")
        return [out for out, _, _ in outputs]


class Averages(Scratch):
    def test_averages_have_the_same_bits_on_every_rank(self):
        for ranks in (2, 3, 4):
            with self.subTest(ranks=ranks):
                self.good(ranks, CHECK, "averages")

    def test_f64_losses_are_those_of_one_process(self):
        files = {ranks: self.folder / f"losses{ranks}" for ranks in (1, 2, 4)}
        for ranks, file in files.items():
            self.good(ranks, CHECK, "losses", file)
        alone, *others = [[float(line) for line in file.read_text().split()] for file in files.values()]
        for losses in others:
            self.assertEqual(len(losses), len(alone))
            for a, b in zip(losses, alone):
                self.assertAlmostEqual(a, b, delta=1e-12 * b)

    def test_one_process_is_alone(self):
        self.good(1, CHECK, "alone")
        self.good(1, CHECK, "alone", WORLD_SIZE=None, RANK=None, MASTER_ADDR=None, MASTER_PORT=None)

    def test_variables_that_are_missing_or_wrong_are_named(self):
        for name, value, part in [("RANK", 2, "RANK must be a whole number from 0 to 1 but is '2'"),
                                  ("RANK", "one", "is 'one'"), ("MASTER_PORT", None, "MASTER_PORT"),
                                  ("MASTER_ADDR", None, "MASTER_ADDR must name the machine of rank 0"),
                                  ("WORLD_SIZE", 0, "WORLD_SIZE"), ("LOCAL_RANK", 4, "LOCAL_RANK"),
                                  ("ROTARY_PEER_TIMEOUT", "soon", "ROTARY_PEER_TIMEOUT")]:
            with self.subTest(name=name, value=value):
                variables = {"WORLD_SIZE": 2, name: value}
                [(_, err, status)] = self.start(1, CHECK, "alone", **variables).ended(20)
                self.assertEqual(status, 1)
                self.assertIn("error: VALUE: [world] ", err)
                self.assertIn(part, err)

    def test_ranks_that_never_come_end_the_wait(self):
        [(_, err, status)] = self.start(1, CHECK, "alone", WORLD_SIZE=2, ROTARY_PEER_TIMEOUT=1).ended(20)
        self.assertEqual(status, 3)
        self.assertIn("error: PEER: ", err)


@unittest.skipUnless(PROGRAM, "no program was named")
class Train(Scratch):
    def words(self, name, *options):
        return [*PROGRAM, "train", "--preset", "smoke", "--threads", 1, "--output", self.folder / name, *options]

    def losses(self, name):
        return [json.loads(line) for line in (self.folder / name / "loss.jsonl").read_text().splitlines()]

    def check_losses(self, name, expected):
        losses = self.losses(name)
        self.assertEqual(len(losses), len(expected))
        for a, b in zip(losses, expected):
            self.assertEqual(a.keys(), b.keys())
            for key, value in b.items():  # f32 rounding, grown by 60 steps of training
                self.assertAlmostEqual(a[key], value, delta=2e-5 * value, msg=f"step {b['step']}")
        self.assertAlmostEqual(losses[0]["train_loss"], expected[0]["train_loss"], delta=2e-6)
        self.assertEqual(sorted(os.listdir(self.folder / name)), sorted(os.listdir(self.folder / "alone")))

    def test_loss_curve_is_that_of_one_process(self):
        self.good(1, *self.words("alone", "--steps", 60))
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                out = self.good(ranks, *self.words(f"of{ranks}", "--steps", 60))
                self.assertIn("validation loss", out[0])
                self.assertEqual(out[1:], [""] * (ranks - 1), "rank 0 alone prints")
                self.check_losses(f"of{ranks}", self.losses("alone"))
        with self.subTest("torchrun"):
            # In the three wheels of scripts/torch.sh torchrun lacks the modules that it imports; the whole torch of the
            # stage parity has them.
            if subprocess.run([sys.executable, TORCHRUN, "--help"], capture_output=True).returncode != 0:
                self.skipTest("no torchrun that runs beside this Python")
            words = [sys.executable, TORCHRUN, "--no-python", "--standalone", "--nproc-per-node", 2,
                     *self.words("torchrun", "--steps", 60)]
            done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=200)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.check_losses("torchrun", self.losses("alone"))

    def test_a_run_in_the_folder_is_left_alone_by_every_rank(self):
        self.good(2, *self.words("run", "--steps", 5))
        before = {path.name: path.read_bytes() for path in (self.folder / "run").iterdir()}
        outputs = self.start(2, *self.words("run", "--steps", 7)).ended()
        self.assertNotIn(0, [status for _, _, status in outputs])
        self.assertIn("error: FILE: [train]", outputs[0][1])
        self.assertEqual({path.name: path.read_bytes() for path in (self.folder / "run").iterdir()}, before)

    def wait_for_losses(self, run):
        log, end = self.folder / run / "loss.jsonl", time.monotonic() + 60
        while not log.exists() or log.stat().st_size == 0:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        time.sleep(0.3)

    def interrupt(self, run, ranks, rank, number):
        """The output of the ranks after one of them got a signal in the middle of a run."""
        world = self.start(ranks, *self.words(run, "--steps", 300))
        self.wait_for_losses(run)
        world.ranks[rank].send_signal(number)
        signalled = time.monotonic()
        outputs = world.ended(30)
        self.assertLess(time.monotonic() - signalled, 10)
        self.assertNotIn(0, [status for _, _, status in outputs])
        self.assertLess(len(self.losses(run)), 300)
        return outputs

    def check_resumes(self, run, ranks, whole):
        self.good(ranks, *self.words(run, "--resume"))
        self.assertEqual(self.losses(run), self.losses(whole))

    def test_killed_rank_leaves_a_checkpoint_that_resumes_to_the_same_bits(self):
        self.good(2, *self.words("whole", "--steps", 300))
        for rank in (0, 1):
            with self.subTest(rank=rank):
                outputs = self.interrupt(f"run{rank}", 2, rank, signal.SIGKILL)
                self.assertRegex(outputs[1 - rank][1], r"error: PEER: .*go on from the last checkpoint by --resume")
                self.check_resumes(f"run{rank}", 2, "whole")

    def test_rank_that_answers_no_more_ends_the_wait_after_the_timeout(self):
        world = self.start(2, *self.words("run", "--steps", 5000), ROTARY_PEER_TIMEOUT=2)
        self.wait_for_losses("run")
        world.ranks[1].send_signal(signal.SIGSTOP)
        _, err = world.ranks[0].communicate(timeout=12)
        self.assertRegex(err, r"error: PEER: \[train\] all 2 processes must live .*go on from the last checkpoint")

    def test_told_to_stop_saves(self):
        self.good(2, *self.words("whole", "--steps", 300))
        outputs = self.interrupt("run", 2, 0, signal.SIGTERM)
        self.assertIn("stopped after step", outputs[0][1])
        self.assertEqual(outputs[0][2], 128 + signal.SIGTERM)
        self.check_resumes("run", 2, "whole")


if __name__ == "__main__":
    if not os.path.exists(CHECK):
        print("skipped: no world_check", file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=2)
