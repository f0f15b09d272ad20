"""Measures the same rotation by rotary and by every peer that is installed, alternating in one process.

Usually called by scripts/peers.sh, which installs the peers and builds librotary_peers.so. docs: README.md here.
"""

import argparse
import os
import sys
from pathlib import Path

GIBIBYTE = str(1 << 30)


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
    parser.add_argument("--out", default=root / "build/peers", type=Path, help="where peers.{md,jsonl,svg} go")
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

    cells = grid(chosen.threads)
    if chosen.quick:
        cells = grid(chosen.threads, dtypes=("f32", "bf16"), pairings=("half",), tokens=(1, 2048))
    for condition in filter(None, chosen.filter.split(",")):
        key, _, value = condition.partition("=")
        known = cells[0].keys() if cells else {key: value}
        if key not in known:
            sys.exit(f"peers.sh: --filter knows {', '.join(known)} but got {condition}")
        cells = [cell for cell in cells if str(cell.keys()[key]).lower() == value.lower()]
    return cells or sys.exit(f"peers.sh: no cell is {chosen.filter}")


def main() -> int:
    chosen = options()
    if chosen.self_test:
        import self_test

        return self_test.main()
    if chosen.device == "cuda":
        import gpu_run

        return gpu_run.main(chosen)
    wanted = environment(chosen.threads)
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})

    import measure
    import native
    import report
    from registry import installed

    cells, results = cells_of(chosen), report.Results(chosen.fastest, chosen.processor_time)
    try:
        rotary_library = native.load(str(chosen.library))
    except OSError as error:
        sys.exit(f"peers.sh: cannot load rotary ({error}): scripts/peers.sh builds it")
    names = [name for name in chosen.peers.lower().split(",") if name]
    peers = installed(rotary_library, names, results)
    rotary = native.Rotary(rotary_library)
    for number, cell in enumerate(cells, 1):
        results.begin(cell)
        print(f"[{number}/{len(cells)}] {cell}", file=sys.stderr, flush=True)
        measure.measure_cell(cell, rotary, peers, chosen.rounds, results)
    if not chosen.no_table:
        import tables

        tables.measure_tables(rotary_library, names, chosen.rounds, results)
    command = "scripts/peers.sh " + " ".join(sys.argv[1:])
    results.write(chosen.out, command.strip(), rotary.version())
    return 0


if __name__ == "__main__":
    sys.exit(main())
