"""rotary-torch train as a command: test_train.py PROGRAM. Needs Python's standard library only."""

import filecmp
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = sys.argv.pop(1)
FILES = ["checkpoint.safetensors", "config.json", "loss.jsonl", "model.safetensors", "vocab.json"]


def words(*options):
    return [PROGRAM, "train", *map(str, options)]


def run(*options, **settings):
    return subprocess.run(words(*options), capture_output=True, text=True, timeout=300, **settings)


class Train(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)

    def smoke(self, name, *options, **settings):
        return run("--preset", "smoke", "--threads", 1, "--output", self.folder / name, *options, **settings)

    def good(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def refused(self, done, code, *parts):
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr.splitlines()[-1], rf"^error: {code}: \[")
        for part in parts:
            self.assertIn(part, done.stderr)

    def losses(self, name):
        return [json.loads(line) for line in (self.folder / name / "loss.jsonl").read_text().splitlines()]

    def same(self, a, b, *files):
        for file in files:
            self.assertTrue(filecmp.cmp(self.folder / a / file, self.folder / b / file, shallow=False), file)

    def test_a_run_writes_its_folder_and_learns(self):
        done = self.good(self.smoke("run", "--steps", 120))
        self.assertEqual(sorted(os.listdir(self.folder / "run")), FILES)
        losses = self.losses("run")
        train = [line for line in losses if "train_loss" in line]
        self.assertEqual([line["step"] for line in train], list(range(1, 121)))
        self.assertEqual([line["step"] for line in losses if "validation_loss" in line], [100, 120])
        self.assertLess(losses[-1]["validation_loss"], 2.6)
        self.assertGreater(train[0]["train_loss"], 3.5)
        self.assertIn(f"validation loss {losses[-1]['validation_loss']:.4f} after 120 steps", done.stdout)
        config = json.loads((self.folder / "run" / "config.json").read_text())
        self.assertEqual(config["model_type"], "rotary_decoder")
        vocabulary = json.loads((self.folder / "run" / "vocab.json").read_text())
        self.assertEqual(list(vocabulary), sorted(vocabulary))
        self.assertEqual(list(vocabulary.values()), list(range(len(vocabulary))))
        self.assertIn("step 100/120", done.stderr)
        self.assertNotIn("\r", done.stderr)

        again = self.smoke("run", "--steps", 120)
        self.refused(again, "FILE", "--resume")
        finished = self.good(self.smoke("run", "--resume"))
        self.assertIn("after 120 steps", finished.stdout)
        self.assertEqual(self.losses("run"), losses)

    def test_every_position_trains(self):
        for position in ["rope", "learned", "sinusoidal", "none", "alibi"]:
            self.good(self.smoke(position, "--steps", 3, "--position", position))
            config = json.loads((self.folder / position / "config.json").read_text())
            self.assertEqual(config["position_embedding_type"], position)

    def test_a_run_stopped_by_ctrl_c_goes_on_to_the_same_bits(self):
        self.good(self.smoke("whole"))
        for number, status in [(signal.SIGINT, 130), (signal.SIGTERM, 143)]:
            name = f"stopped{status}"
            options = ["--preset", "smoke", "--threads", 1, "--output", self.folder / name]
            process = subprocess.Popen(words(*options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.wait_for_loss(name, process)
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, status, err)
            self.assertEqual(out, "")
            self.assertRegex(err, r"stopped after step \d+ of 300; go on with: rotary-torch train --resume --output ")
            self.assertEqual(sorted(os.listdir(self.folder / name)), FILES)
            step = self.losses(name)[-1]["step"]
            self.assertTrue(0 < step < 300, step)
            self.good(run("--resume", "--threads", 1, "--output", self.folder / name))
            self.same("whole", name, "model.safetensors", "config.json", "vocab.json", "loss.jsonl")

    def wait_for_loss(self, name, process):
        """Until the run has taken steps that its log shows."""
        log = self.folder / name / "loss.jsonl"
        for _ in range(3000):
            if process.poll() is not None or (log.exists() and log.stat().st_size > 0):
                return
            time.sleep(0.01)

    def test_a_killed_run_goes_on_from_its_checkpoint(self):
        self.good(self.smoke("whole"))
        options = ["--preset", "smoke", "--threads", 1, "--output", self.folder / "killed"]
        process = subprocess.Popen(words(*options), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        while "step 100/300" not in process.stderr.readline():
            self.assertIsNone(process.poll())
        time.sleep(0.3)
        process.kill()
        process.communicate()
        with open(self.folder / "killed" / "loss.jsonl", "a") as log:
            log.write('{"step": 101, "train_l')
        self.good(run("--resume", "--threads", 1, "--output", self.folder / "killed"))
        self.same("whole", "killed", "model.safetensors", "loss.jsonl")

    def test_a_resumed_run_refuses_other_options_by_name(self):
        text = self.folder / "text"
        text.write_text("round goes the wheel and round goes the day\n" * 20)
        self.good(self.smoke("run", "--steps", 2, "--text", text))
        for options, part in [(["--preset", "labml"], "preset must be smoke"), (["--seed", 5], "seed must be 1337"),
                              (["--position", "none"], "position must be rope"),
                              (["--rope-fraction", 0.5], "rope_fraction must be 1"),
                              (["--steps", 5], "steps must be 2")]:
            done = run("--resume", "--output", self.folder / "run", *options)
            self.refused(done, "RESUME", part)
        self.good(self.smoke("alibi", "--steps", 2, "--position", "alibi"))
        self.refused(run("--resume", "--output", self.folder / "alibi", "--rope-fraction", 0.5), "VALUE", "got alibi")
        self.good(run("--resume", "--output", self.folder / "run", "--rope-fraction", 1, "--seed", 1337, "--steps", 2))
        text.write_text("round goes the wheel and round goes the night\n" * 20)
        self.refused(run("--resume", "--output", self.folder / "run"), "RESUME", "text_hash")
        self.refused(run("--resume", "--output", self.folder / "none"), "FILE", "--resume")
        self.assertFalse((self.folder / "none").exists())

    def test_a_checkpoint_whose_notes_say_nothing_or_no_number_is_refused(self):
        folder = self.folder / "run"
        self.good(self.smoke("run", "--steps", 2))
        checkpoint = folder / "checkpoint.safetensors"
        data = checkpoint.read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")

        def note(change):
            header = json.loads(data[8:end])
            record = json.loads(header["__metadata__"]["rotary training run"])
            change(record["notes"])
            header["__metadata__"]["rotary training run"] = json.dumps(record)
            text = json.dumps(header).encode()
            text += b" " * (-len(text) % 8)
            checkpoint.write_bytes(len(text).to_bytes(8, "little") + text + data[end:])

        for key, text in [("rope_fraction", "half"), ("validation_loss", "1.5x"), ("validation_step", "")]:
            note(lambda notes: notes.update({key: text}))
            self.refused(run("--resume", "--output", folder), "FORMAT", key, "must be a number")
        note(lambda notes: notes.clear())
        done = subprocess.run([PROGRAM, "perplexity", folder, "--length", "8"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--text", done.stderr)

    def test_a_folder_with_a_model_in_it_is_left_alone(self):
        for name in FILES:
            (self.folder / name).mkdir()
            (self.folder / name / name).write_text("mine")
            self.refused(self.smoke(name, "--steps", 2), "FILE", name)
            self.assertEqual((self.folder / name / name).read_text(), "mine")
        (self.folder / "file").write_text("mine")
        self.refused(self.smoke("file", "--steps", 2), "FILE", "file")

    def test_two_runs_do_not_share_a_folder(self):
        both = [subprocess.Popen(words("--preset", "smoke", "--threads", 1, "--output", self.folder / "run"),
                                 stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) for _ in range(2)]
        errors = [process.communicate()[1] for process in both]
        self.assertEqual(sorted(process.returncode for process in both), [0, 1], errors)
        self.assertEqual(len(self.losses("run")), 303)

    def test_files_lost_beside_the_last_checkpoint_are_made_again(self):
        self.good(self.smoke("whole", "--steps", 5))
        self.good(self.smoke("run", "--steps", 5))
        (self.folder / "run" / "model.safetensors").write_bytes(b"cut off")
        (self.folder / "run" / "loss.jsonl").write_text((self.folder / "run" / "loss.jsonl").read_text() + '{"step": 6')
        self.good(run("--resume", "--threads", 1, "--output", self.folder / "run"))
        self.same("whole", "run", *FILES)

    def test_on_a_full_disk_the_old_checkpoint_survives(self):
        self.good(self.smoke("run", "--steps", 2))
        options = ["--preset", "smoke", "--threads", 1, "--output", self.folder / "run2"]
        process = subprocess.Popen(words(*options), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.wait_for_loss("run2", process)
        process.send_signal(signal.SIGINT)
        process.communicate()
        before = (self.folder / "run2" / "checkpoint.safetensors").read_bytes()
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000))
        self.refused(run("--resume", "--output", self.folder / "run2", preexec_fn=limit),
                     "FILE", "checkpoint.safetensors")
        self.assertEqual((self.folder / "run2" / "checkpoint.safetensors").read_bytes(), before)
        self.assertEqual(sorted(os.listdir(self.folder / "run2")), FILES)
        self.good(run("--resume", "--threads", 1, "--output", self.folder / "run2"))

    def test_wrong_usage_is_refused_by_name(self):
        for options, part in [(["--preset", "nanogpt"], "smoke"), (["--position", "relative"], "sinusoidal"),
                              (["--steps", 0], "--steps"), (["--steps", "-3"], ""), (["--threads", 0], "--threads"),
                              (["--rope-fraction", 0], "--rope-fraction"), (["--device", "tpu"], "cuda"),
                              (["--position", "none", "--rope-fraction", 0.5], "--rope-fraction"),
                              (["--seed", "x"], "--seed"), (["--seed", "-1"], "--seed"),
                              (["--seed", 2**64], "--seed"), (["--steps", 10**30], "--steps"),
                              (["--text", ""], "--text")]:
            done = (run("--output", self.folder / "run", *options) if "--preset" in options
                    else self.smoke("run", *options))
            self.assertEqual(done.returncode, 2, (options, done.stderr))
            self.assertIn(part, done.stderr)
            self.assertLess(len(done.stderr), 200)
        self.assertEqual(run("--preset", "smoke").returncode, 2)
        without = run("--output", self.folder / "run")
        self.assertEqual(without.returncode, 2)
        self.assertIn("--text must name a file: only the preset smoke has a text of its own", without.stderr)
        self.assertFalse((self.folder / "run").exists())

    def test_wrong_input_is_refused_with_a_sentence(self):
        short, binary = self.folder / "short", self.folder / "binary"
        short.write_text("too short")
        binary.write_bytes(b"abc\xff" * 500)
        self.refused(self.smoke("run", "--text", short), "TEXT", "block of 32")
        self.refused(self.smoke("run", "--text", binary), "TEXT", "byte 3")
        self.refused(self.smoke("run", "--text", self.folder / "none"), "FILE", "none")
        self.refused(self.smoke("run", "--text", self.folder), "FILE", "folder")
        self.refused(self.smoke("run", "--rope-fraction", 0.2), "VALUE", "rope fraction")
        self.refused(self.smoke("run", "--rope-fraction", 1.5), "VALUE", "rope fraction")
        if not os.path.exists("/dev/nvidia0"):
            self.refused(self.smoke("run", "--device", "cuda"), "DEVICE")
        self.assertFalse((self.folder / "run").exists())

    def test_the_seed_decides(self):
        for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
            self.good(self.smoke(name, "--steps", 3, "--seed", seed))
        self.same("a", "b", *(file for file in FILES))
        self.assertNotEqual(self.losses("a"), self.losses("c"))


if __name__ == "__main__":
    unittest.main()
