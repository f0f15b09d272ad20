"""Times `rotary train` and `rotary generate`, and the same decoders in eager PyTorch (eager_decoder.py).

    bench_decoder.py BENCH_DECODER [--threads 1] [--rounds 9]

BENCH_DECODER is the program of rotary_torch/tests/bench_decoder.cpp. Both sides use one libtorch, the same number of threads and the
same shapes, and alternate: a round of ours, a round of theirs. Medians of the rounds.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
try:
    import torch
except ImportError as error:
    print(f"skipped: this python has no torch ({error})")
    sys.exit(77)

import eager_decoder as eager

VOCABULARY = 65


class Ours:
    def __init__(self, program, threads):
        self.process = subprocess.Popen([program, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def __call__(self, what, preset, count):
        self.process.stdin.write(f"{what} {preset} {count}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


class Eager:
    def __init__(self):
        self.data = torch.randint(VOCABULARY, (100000,))
        self.models = {}

    def model(self, what, preset):
        if (what, preset) not in self.models:
            model = eager.Decoder(VOCABULARY, **eager.PRESETS[preset])
            self.models[what, preset] = model, eager.optimizer_of(model, preset)
        return self.models[what, preset]

    def __call__(self, what, preset, count):
        model, optimizer = self.model(what, preset)
        start = time.perf_counter()
        if what == "train":
            model.train()
            for step in range(count):
                eager.train_step(model, optimizer, self.data, preset, step, max(count, 2000))
        else:
            model.eval().generate(torch.zeros(1, 1, dtype=torch.long), count)
        return 1e3 * (time.perf_counter() - start) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    ours, theirs = Ours(options.program, options.threads), Eager()
    print(f"torch {torch.__version__}, threads {options.threads}, medians of {options.rounds} alternating rounds, ms")
    print(f"{'':34}{'ours':>9}{'eager':>9}{'ours/eager':>12}")
    works = [("train", "nanogpt-cpu", 10), ("train", "labml", 2), ("generate", "nanogpt-cpu", 200)]
    for what, preset, count in works:
        times = [], []
        for round_number in range(options.rounds + 1):
            for side, run in zip(times, (ours, theirs)):
                spent = run(what, preset, count)
                if round_number > 0:  # the first warms up
                    side.append(spent)
        mine, peer = map(statistics.median, times)
        name = f"{what} {preset}, per {'step' if what == 'train' else 'token'}"
        print(f"{name:34}{mine:9.3f}{peer:9.3f}{mine / peer:12.3f}")


if __name__ == "__main__":
    main()
