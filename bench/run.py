"""Measures the same rotation by rotary and by every peer that is installed, alternating in one process.

Usually called by scripts/peers.sh, which installs the peers and builds librotary_peers.so. docs: README.md here.
"""

import argparse
import os
import sys
from pathlib import Path

NO_DEVICE = 77  # the exit status of a check that was skipped


def environment() -> dict[str, str]:
    """Read by the libraries when they start: one thread; and an allocator that keeps its memory, in large
    pages, so that a peer which allocates its results does not pay the kernel for them at every call."""
    tunables = {"hugetlb": "1", "mmap_max": "0", "trim_threshold": str(16 << 30), "top_pad": str(1 << 30)}
    return {
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        "CUDA_VISIBLE_DEVICES": "",
        "TORCH_LOGS": "-all",
        "GLIBC_TUNABLES": ":".join(f"glibc.malloc.{name}={value}" for name, value in tunables.items()),
    }


def options() -> argparse.Namespace:
    root = Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(prog="peers.sh", description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--filter", default="", metavar="KEY=VALUE,...", help="cells: dtype=bf16,tokens=1,tokens=8")
    parser.add_argument("--peers", default="", metavar="NAME,...", help="peers whose names contain one of these")
    parser.add_argument("--out", default=root / "build/peers", type=Path,
                        help="where peers.{md,jsonl}, or gpu.{md,jsonl}, go")
    build = Path(os.environ.get("ROTARY_BUILD", root / "build/release"))
    parser.add_argument("--library", type=Path, help="librotary_peers.so, or librotary_peers_cuda.so")
    chosen = parser.parse_args()
    chosen.library = chosen.library or build / f"lib/librotary_peers{'_cuda' if chosen.device == 'cuda' else ''}.so"
    return chosen


def cells_of(chosen: argparse.Namespace) -> list:
    from cells import grid

    wanted: dict[str, list[str]] = {}
    for condition in filter(None, chosen.filter.lower().split(",")):
        key, _, value = condition.partition("=")
        wanted.setdefault(key, []).append(value)
    cells = [cell for cell in grid(chosen.device)
             if all(str(cell.keys().get(key)).lower() in values for key, values in wanted.items())]
    return cells or sys.exit(f"peers.sh: no cell is {chosen.filter}")


def measure_all(chosen: argparse.Namespace) -> int:
    import measure
    import native
    import report
    from peer import chosen_peers, loaded

    measure_cell = measure.measure_cell
    if chosen.device == "cuda":
        try:
            import cuda

            why = cuda.missing_device()
        except ImportError as error:
            why = f"PyTorch cannot be loaded ({error})"
        if why:
            print(f"peers.sh: --device cuda: {why}: nothing is measured", file=sys.stderr)
            return NO_DEVICE
        measure_cell = cuda.measure_cell
    try:
        native.load(str(chosen.library))
    except OSError as error:
        sys.exit(f"peers.sh: cannot load rotary ({error}): scripts/peers.sh builds it")
    results = report.Results(chosen.device)
    results.target = native.target()
    peers = loaded(chosen_peers(chosen.device, [name for name in chosen.peers.lower().split(",") if name]), results)
    if len(peers) < 2:
        sys.exit("peers.sh: no peer of rotary that is asked for is here: nothing is measured, and no file is written")
    cells = cells_of(chosen)
    for number, cell in enumerate(cells, 1):
        print(f"[{number}/{len(cells)}] {cell}", file=sys.stderr, flush=True)
        measure_cell(cell, peers, results)
    results.write(chosen.out, ("scripts/peers.sh " + " ".join(sys.argv[1:])).strip())
    return 0


def main() -> int:
    chosen = options()
    if chosen.device == "cpu":
        wanted = environment()
        if any(os.environ.get(name) != value for name, value in wanted.items()):
            os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})
    return measure_all(chosen)


if __name__ == "__main__":
    sys.exit(main())
