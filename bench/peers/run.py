"""Measures the same rotation by rotary and by every peer that is installed, alternating in one process.

Usually called by scripts/peers.sh, which installs the peers and builds librotary_peers.so. docs: README.md here.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

GIBIBYTE = str(1 << 30)
NO_DEVICE = 77  # the exit status of a check that was skipped


def environment(threads: int) -> dict[str, str]:
    """Read by the libraries when they start: the number of threads; and an allocator that keeps its memory, in large
    pages, so that a peer which allocates its results does not pay the kernel for them at every call."""
    counts = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "NPROC")
    tunables = {"hugetlb": "1", "mmap_max": "0", "trim_threshold": str(16 << 30), "top_pad": GIBIBYTE}
    return {
        **{name: str(threads) for name in counts},
        "XLA_FLAGS": "" if threads > 1 else "--xla_cpu_multi_thread_eigen=false",
        "JAX_PLATFORMS": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
        "TORCH_LOGS": "-all",
        "GLIBC_TUNABLES": ":".join(f"glibc.malloc.{name}={value}" for name, value in tunables.items()),
    }


def options() -> argparse.Namespace:
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(prog="peers.sh", description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--quick", action="store_true", help="8 cells instead of 48 (cuda: of 60)")
    parser.add_argument("--filter", default="", metavar="KEY=VALUE,...", help="cells, as in dtype=bf16,tokens=64")
    parser.add_argument("--peers", default="", metavar="NAME,...", help="peers whose names contain one of these")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each; their median counts")
    parser.add_argument("--fastest", action="store_true", help="the fastest counts instead: for a noisy machine")
    parser.add_argument("--processor-time", action="store_true", help="of all threads, not the clock: for a busy one")
    parser.add_argument("--no-table", action="store_true", help="without the making of a cos/sin table")
    parser.add_argument("--out", default=root / "build/peers", type=Path, help="where peers.{md,jsonl}, or gpu.{md,jsonl}, go")
    build = Path(os.environ.get("ROTARY_BUILD", root / "build/release"))
    parser.add_argument("--library", type=Path, help="librotary_peers.so, or librotary_peers_cuda.so")
    parser.add_argument("--only", default="", help=argparse.SUPPRESS)  # the process of one peer, on cuda
    parser.add_argument("--self-test", action="store_true", help="checks the checks; needs numpy alone")
    chosen = parser.parse_args()
    if chosen.threads < 1 or chosen.rounds < 1:
        parser.error("--threads and --rounds are at least 1")
    cuda = chosen.device == "cuda"
    if cuda and (chosen.threads > 1 or chosen.fastest or chosen.processor_time):
        parser.error("--device cuda has no --threads, --fastest and --processor-time")
    chosen.library = chosen.library or build / f"lib/librotary_peers{'_cuda' if cuda else ''}.so"
    return chosen


def cells_of(chosen: argparse.Namespace) -> list:
    from cells import grid

    cells = grid(chosen.device + " quick" * chosen.quick, 0 if chosen.device == "cuda" else chosen.threads)
    for condition in filter(None, chosen.filter.split(",")):
        key, _, value = condition.partition("=")
        cells = [cell for cell in cells if str(cell.keys().get(key)).lower() == value.lower()]
    return cells or sys.exit(f"peers.sh: no cell is {chosen.filter}")


def measured(chosen: argparse.Namespace, results) -> None:
    """All peers, or --only one, in this process: results gets the rows."""
    import measure
    import native
    from peer import loaded, on_cpu

    cpu, one = chosen.device == "cpu", measure.measure_cell
    if not cpu:
        import cuda

        one = cuda.measure_cell
    if cpu or not cuda.PRETEND:
        try:
            native.load(str(chosen.library))
        except OSError as error:
            sys.exit(f"peers.sh: cannot load rotary ({error}): scripts/peers.sh builds it")
    names = [name for name in chosen.peers.lower().split(",") if name]
    peers = loaded(on_cpu(names) if cpu else cuda.beside(chosen.only), results)
    results.target = native.target() if cpu else cuda.device_name()
    cells = cells_of(chosen) if len(peers) > 1 else []
    for number, cell in enumerate(cells, 1):
        print(f"[{number}/{len(cells)}] {cell}", file=sys.stderr, flush=True)
        one(cell, peers, chosen.rounds, results)
        if chosen.only:  # what there is, if the next cell ends the process
            results.save(chosen.out / "part.json")
    if cpu and not chosen.no_table:
        measure.measure_tables(names, chosen.rounds, results)


def on_device(chosen: argparse.Namespace, results) -> int:
    """A process a peer, and one for rotary's other ways, so that none spoils the device for the others."""
    try:
        import cuda

        why = cuda.missing_device()
    except ImportError as error:
        why = f"PyTorch cannot be loaded ({error})"
    if why:
        print(f"peers.sh: --device cuda: {why}: nothing is measured", file=sys.stderr)
        return NO_DEVICE
    from peer import PEERS

    chosen.out.mkdir(parents=True, exist_ok=True)
    part = chosen.out / "part.json"
    if chosen.only:
        measured(chosen, results)
        results.save(part)
        return 0
    names = chosen.peers.lower().split(",")
    wanted = [peer.name for peer in PEERS if "cuda" in peer.devices and not peer.name.startswith("rotary")
              and any(name in peer.name.lower() for name in names)]  # fmt: skip
    for name in wanted + ["rotary"]:
        part.unlink(missing_ok=True)
        status = subprocess.run([sys.executable, *sys.argv, "--only", name]).returncode
        results.merge(part) if part.exists() else results.missing(name, f"its process ended with {status}")
    part.unlink(missing_ok=True)
    return 0


def main() -> int:
    chosen = options()
    if chosen.self_test:
        import self_test

        return self_test.main()
    if chosen.device == "cpu":
        wanted = environment(chosen.threads)
        if any(os.environ.get(name) != value for name, value in wanted.items()):
            os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})
    import report

    results = report.Results(chosen.device, chosen.fastest, chosen.processor_time)
    if chosen.device == "cuda":
        status = on_device(chosen, results)
        if status or chosen.only:
            return status
    else:
        measured(chosen, results)
    results.write(chosen.out, ("scripts/peers.sh " + " ".join(sys.argv[1:])).strip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
