#!/usr/bin/env python3
"""What data-parallel training costs on many machines: a model of one step, fed with measured numbers.

One process per machine. The sum of a bucket of b bytes travels in a ring over n ranks:
    2 (n - 1) (latency + pause) + 2 (n - 1) / n * b / bandwidth
A bucket starts once its share of the backward pass is done. Over MPI the buckets travel together, so that each waits for
its own messages and only the bytes queue; pause is how long the thread that drives MPI sleeps between two looks while the
step computes. Over NCCL one bucket follows the other. Adding and copying cost the processor b / memory_rate seconds for
two ranks, 2 (n - 1) / n times that for n, which the backward pass loses. What remains after the pass is waited for.
Needs Python's standard library only.
"""

import argparse
import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    parameters: int
    tensors: int
    batch: int  # sequences of one step
    step: float  # seconds of one step on one machine
    source: str
    gpu: bool = False  # sums by NCCL

    @property
    def bytes(self):  # f32, and for each tensor the number of ranks that gave a gradient
        return 4 * (self.parameters + self.tensors)


@dataclasses.dataclass(frozen=True)
class Network:
    name: str
    bandwidth: float  # bytes a second, as a ring sees it
    latency: float  # seconds of one message


def gigabits(rate):
    return rate * 1e9 / 8


# Assumed, not measured: nine tenths of the line rate; latencies of TCP, of TCP on better adapters, of RDMA.
NETWORKS = [
    Network("10 Gbit/s", 0.9 * gigabits(10), 30e-6),
    Network("25 Gbit/s", 0.9 * gigabits(25), 20e-6),
    Network("100 Gbit/s", 0.9 * gigabits(100), 5e-6),
]

# Measured: rotary_torch/tests/bench_decoder.py, one thread of an AMD EPYC, medians of 9 rounds.
WORKLOADS = [
    Workload("nanogpt-cpu", 810_049, 53, 12, 57.6e-3, "one core, measured"),
    Workload("labml", 1_206_593, 77, 4, 305e-3, "one core, measured"),
    Workload("nanogpt-gpu", 10_697_537, 77, 64, 36e-3, "one A100, nanoGPT's README, not measured", gpu=True),
]


@dataclasses.dataclass(frozen=True)
class Machine:
    backward_share: float = 0.6  # of a step; the forward pass and the optimiser are the rest
    bucket: int = 1 << 20
    pause: float = 50e-6
    memory_rate: float = 3.5e9  # bytes a second: a bucket summed by two ranks in one memory, measured
    gpu_memory_rate: float = 200e9  # assumed


def ring(size, ranks, network, pause=0.0):
    """The seconds of messages that wait for each other, and the seconds of bytes."""
    if ranks == 1:
        return 0.0, 0.0
    return 2 * (ranks - 1) * (network.latency + pause), 2 * (ranks - 1) / ranks * size / network.bandwidth


def sent(workload, ranks):
    """Bytes that one rank sends, and receives, in one step."""
    return 2 * (ranks - 1) / ranks * workload.bytes


def buckets(workload, machine):
    count = max(1, math.ceil(workload.bytes / machine.bucket))
    return count, workload.bytes / count


def step_time(workload, ranks, network, machine, work=1.0):
    """Seconds of one step of `work` times the workload's batch on each rank; and of them the wait after the pass."""
    step = workload.step * work
    if ranks == 1:
        return step, 0.0
    rate = machine.gpu_memory_rate if workload.gpu else machine.memory_rate
    backward = step * machine.backward_share + sent(workload, ranks) / rate
    count, size = buckets(workload, machine)
    gone = 0.0
    for k in range(1, count + 1):
        computing = k < count and not workload.gpu
        messages, wire = ring(size, ranks, network, machine.pause if computing else 0.0)
        ready = backward * k / count
        gone = max(ready, gone) + messages + wire if workload.gpu else max(ready + messages, gone) + wire
    loss = 2 * math.ceil(math.log2(ranks)) * network.latency  # its mean, one number
    wait = gone + loss - backward
    return step * (1 - machine.backward_share) + backward + wait, wait


def report(workloads, networks, machine, ranks):
    print(f"backward {100 * machine.backward_share:g} % of a step, buckets of {machine.bucket} bytes, "
          f"pause {1e6 * machine.pause:g} us, sums in memory {machine.memory_rate / 1e9:g} GB/s")
    for workload in workloads:
        print(f"\n{workload.name}: {workload.parameters:,} parameters, {workload.bytes:,} bytes of gradients, "
              f"{1e3 * workload.step:g} ms a step ({workload.source})")
        print(f"{'network':12}{'machines':>9}{'MB sent':>9}{'sums ms':>9}{'waited ms':>11}{'step ms':>9}"
              f"{'efficiency':>12}{'same batch':>12}")
        for network in networks:
            for n in ranks:
                count, size = buckets(workload, machine)
                messages, wire = ring(size, n, network)
                time, waited = step_time(workload, n, network, machine)
                split = "-"
                if workload.batch % n == 0:
                    shared, _ = step_time(workload, n, network, machine, 1 / n)
                    split = f"{100 * workload.step / n / shared:.0f} %"
                print(f"{network.name:12}{n:9}{sent(workload, n) / 1e6:9.2f}{1e3 * count * (messages + wire):9.2f}"
                      f"{1e3 * waited:11.2f}{1e3 * time:9.2f}{100 * workload.step / time:10.0f} %{split:>12}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step", action="append", default=[], metavar="NAME=MS", help="a measured step on one machine")
    parser.add_argument("--network", metavar="GBITS,LATENCY_US", help="one network instead of the three")
    parser.add_argument("--ranks", default="8,64", help="numbers of machines")
    parser.add_argument("--backward-share", type=float, default=Machine.backward_share)
    parser.add_argument("--bucket", type=int, default=Machine.bucket, help="bytes")
    parser.add_argument("--pause-us", type=float, default=1e6 * Machine.pause)
    parser.add_argument("--memory-gb", type=float, default=Machine.memory_rate / 1e9, help="GB/s of sums in one memory")
    given = parser.parse_args()
    measured = dict(pair.split("=") for pair in given.step)
    unknown = set(measured) - {workload.name for workload in WORKLOADS}
    if unknown:
        parser.error(f"--step knows {', '.join(w.name for w in WORKLOADS)} but got {', '.join(sorted(unknown))}")
    workloads = [dataclasses.replace(w, step=float(measured[w.name]) / 1e3, source="given") if w.name in measured else w
                 for w in WORKLOADS]
    networks = NETWORKS
    if given.network:
        rate, latency = map(float, given.network.split(","))
        networks = [Network(f"{rate:g} Gbit/s", gigabits(rate), latency * 1e-6)]
    machine = Machine(given.backward_share, given.bucket, given.pause_us * 1e-6, given.memory_gb * 1e9)
    report(workloads, networks, machine, [int(n) for n in given.ranks.split(",")])


if __name__ == "__main__":
    main()
