"""Training over several processes: test_mpi.py MPIRUN CHECK FAKE_NCCL [PROGRAM]. Needs Python's standard library only.

CHECK is mpi_check, PROGRAM rotary-torch or rotary; without it the command is not tried.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

MPIRUN, CHECK, FAKE_NCCL, *PROGRAM = sys.argv[1:5]
del sys.argv[1:5]


def mpirun(ranks, *words, options=(), variables=None):
    launch = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", *options, "-n", str(ranks)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": "/tmp"} | (variables or {})
    return subprocess.Popen([*launch, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment)


def ended(process, seconds=240):
    if process.stdout.closed:
        return None
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:  # mpirun ends its ranks when it is told to end
        process.terminate()
        out, err = process.communicate()
        raise AssertionError(f"still running after {seconds} s:\n{out}\n{err}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def wait_for(path, seconds=60):
    end = time.monotonic() + seconds
    while not (path.exists() and path.read_text().endswith("\n")):
        if time.monotonic() > end:
            raise AssertionError(f"{path} has not come")
        time.sleep(0.01)
    return path.read_text().strip()


class Scratch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def start(self, ranks, *words, **settings):
        process = mpirun(ranks, *words, **settings)
        self.addCleanup(ended, process)
        self.addCleanup(process.terminate)
        return process


class World(Scratch):
    def good(self, ranks, *words):
        done = ended(mpirun(ranks, CHECK, *words))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_sums_and_broadcasts_have_the_same_bits_on_every_rank(self):
        for ranks in (2, 3, 4):
            with self.subTest(ranks=ranks):
                self.good(ranks, "sums")

    def test_averaged_gradients_are_those_of_the_joint_batch(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.good(ranks, "gradients")

    def test_buckets_are_summed_while_the_backward_pass_runs(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.good(ranks, "overlap")

    def test_id_of_nccl_reaches_every_rank(self):
        self.good(4, "nccl", FAKE_NCCL)

    def test_one_process_never_initialises_mpi(self):
        done = subprocess.run([CHECK, "alone"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = ended(mpirun(1, CHECK, "alone"))
        self.assertEqual(done.returncode, 0, done.stderr)


class LostRank(Scratch):
    """The victim writes the moment of its end to died, the one that saves: moment, rank, step to saved."""

    def lose(self, how, ranks=2, **settings):
        return self.start(ranks, CHECK, "die", self.folder, how, **settings)

    def saved(self, rank, seconds, sentence):
        moment, saver, step = wait_for(self.folder / "saved").split()
        self.assertEqual((int(saver), int(step)), (rank, 20))
        self.assertLess(float(moment) - float(wait_for(self.folder / "died")), seconds)
        self.assertIn(sentence, wait_for(self.folder / "said"))

    def test_killed_rank_is_noticed_within_a_second(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                done = ended(self.lose("kill", ranks))
                self.assertNotEqual(done.returncode, 0)
                self.saved(0, 1, f"rank {ranks - 1} is gone")
                self.assertIn("error: PEER: ", done.stderr)
                for name in os.listdir(self.folder):
                    (self.folder / name).unlink()

    def test_another_rank_saves_where_rank_0_is_killed(self):
        self.assertNotEqual(ended(self.lose("kill0")).returncode, 0)
        self.saved(1, 1, "rank 0 is gone")

    def test_rank_that_fails_does_not_hang_the_others(self):
        done = ended(self.lose("throw"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("error: FILE: [check] the disk is full", done.stderr)
        self.saved(0, 1, "rank 1 is gone")

    def test_killed_rank_is_noticed_where_mpirun_keeps_the_others(self):
        ended(self.lose("kill", options=["--enable-recovery"]))
        self.saved(0, 1, "rank 1 is gone")

    def test_rank_that_answers_no_more_ends_the_wait_after_the_timeout(self):
        process = self.lose("stop", variables={"ROTARY_PEER_TIMEOUT": "1"})
        self.saved(0, 2, "within ROTARY_PEER_TIMEOUT")
        os.kill(int(wait_for(self.folder / "pid1")), signal.SIGKILL)
        self.assertNotEqual(ended(process).returncode, 0)

    def test_told_to_stop_saves(self):
        process = self.lose("slow")
        pid = int(wait_for(self.folder / "pid0"))
        wait_for(self.folder / "pid1")
        time.sleep(1)
        told = time.monotonic()
        os.kill(pid, signal.SIGTERM)
        moment, saver, _ = wait_for(self.folder / "saved").split()
        self.assertLess(float(moment) - told, 1)
        self.assertEqual(int(saver), 0)
        self.assertIn("told to stop", wait_for(self.folder / "said"))
        self.assertNotEqual(ended(process).returncode, 0)


@unittest.skipUnless(PROGRAM, "no program was named")
class Train(Scratch):
    def words(self, name, *options):
        return [*PROGRAM, "train", "--preset", "smoke", "--threads", 1, "--output", self.folder / name, *options]

    def losses(self, name):
        return [json.loads(line) for line in (self.folder / name / "loss.jsonl").read_text().splitlines()]

    def test_loss_curve_is_that_of_one_process(self):
        alone = subprocess.run([*map(str, self.words("alone", "--steps", 60))], capture_output=True, text=True,
                               timeout=300)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        expected = self.losses("alone")
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                done = ended(mpirun(ranks, *self.words(f"of{ranks}", "--steps", 60)))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.count("validation loss"), 1, "rank 0 alone prints")
                losses = self.losses(f"of{ranks}")
                self.assertEqual(len(losses), len(expected))
                for a, b in zip(losses, expected):
                    self.assertEqual(a.keys(), b.keys())
                    # f32 rounding, grown by 60 steps of training
                    for key, value in b.items():
                        self.assertAlmostEqual(a[key], value, delta=2e-5 * value, msg=f"step {b['step']}")
                self.assertAlmostEqual(losses[0]["train_loss"], expected[0]["train_loss"], delta=2e-6)
                self.assertEqual(sorted(os.listdir(self.folder / f"of{ranks}")),
                                 sorted(os.listdir(self.folder / "alone")))

    def test_a_run_in_the_folder_is_left_alone_by_every_rank(self):
        self.assertEqual(ended(self.start(2, *self.words("run", "--steps", 5))).returncode, 0)
        before = {path.name: path.read_bytes() for path in (self.folder / "run").iterdir()}
        done = ended(self.start(2, *self.words("run", "--steps", 7)))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("error: FILE: [train]", done.stderr)
        self.assertEqual({path.name: path.read_bytes() for path in (self.folder / "run").iterdir()}, before)

    def test_killed_rank_leaves_a_checkpoint_that_resumes_to_the_same_bits(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                self.kill_and_resume(rank)

    def kill_and_resume(self, rank):
        run, whole = f"run{rank}", f"whole{rank}"
        process = self.start(2, *self.words(run, "--steps", 300))
        log = self.folder / run / "loss.jsonl"
        end = time.monotonic() + 60
        while not log.exists() or log.read_text().count("\n") < 20:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        ranks = [int(pid) for pid in subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True,
                                                    text=True).stdout.split()]
        self.assertEqual(len(ranks), 2)
        os.kill(sorted(ranks)[rank], signal.SIGKILL)
        killed = time.monotonic()
        done = ended(process, 30)
        self.assertLess(time.monotonic() - killed, 10)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, rf"error: PEER: .*rank {rank} is gone")
        self.assertLess(len(self.losses(run)), 300)
        for name, options in (run, ["--resume"]), (whole, ["--steps", 300]):
            done = ended(self.start(2, *self.words(name, *options)))
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.losses(run), self.losses(whole))


if __name__ == "__main__":
    if not (os.path.exists(MPIRUN) and os.path.exists(CHECK)):
        print("skipped: no mpirun", file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=2)
