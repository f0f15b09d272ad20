"""run.py --device cuda: rotary and a peer in turn on a GPU, one process a peer, so that none spoils the device for the
others. Each leaves gpu_NAME.json in the folder; all that lie there make gpu.md, gpu.jsonl and gpu.svg."""

import gc
import json
import subprocess
import sys
from pathlib import Path

NO_DEVICE = 77  # the exit code of a check that was skipped


def missing_device() -> str:
    """Why there is nothing to measure on, or nothing."""
    try:
        import gpu_work
        import torch
    except ImportError as error:
        return f"PyTorch cannot be loaded ({error})"
    if gpu_work.PRETEND or torch.cuda.is_available():
        return ""
    return "PyTorch finds no CUDA device"


def cells_of(chosen) -> list:
    from cells import gpu_grid

    cells = gpu_grid()
    if chosen.quick:
        cells = gpu_grid(dtypes=("bf16",), pairings=("half", "interleaved"), tokens=(1, 8192))
    for condition in filter(None, chosen.filter.split(",")):
        key, _, value = condition.partition("=")
        if key not in gpu_grid()[0].keys():
            sys.exit(f"peers.sh: --filter knows {', '.join(gpu_grid()[0].keys())} but got {condition}")
        cells = [cell for cell in cells if str(cell.keys()[key]).lower() == value.lower()]
    return cells or sys.exit(f"peers.sh: no cell is {chosen.filter}")


def file_of(folder: Path, name: str) -> Path:
    return folder / f"gpu_{''.join(c for c in name.lower() if c.isalnum())}.json"


# ---- the process of one peer ----


def ready(cell, peer, works, outcome: dict):
    """Its calls timed once, if it has such a cell and agrees; else the outcome hears why not."""
    from gpu_work import Timed, rows, synchronize
    from peer import Unavailable

    reason = peer.refuse(cell)
    if not reason:
        try:
            peer.prepare(cell)
            calls = [peer.bind(work) for work in works]
            calls[0]()  # tuners run a kernel again and again, in place too
            works[0].block.copy_(works[0].source)
            q, k = calls[0]()[:2]
            synchronize()
            at = cell.compared()
            difference, allowed = cell.difference_at(rows(q, at), rows(k, at)), cell.tolerance(peer.own_angles)
            if difference <= allowed:
                largest = outcome["differences"].setdefault(peer.name, {})
                largest[cell.dtype] = max(difference, largest.get(cell.dtype, 0))
                return Timed(peer.name, calls)
            reason = f"differs from float64 by {difference:.2g}, more than {allowed:.2g}"
        except Unavailable as error:
            reason = str(error)
        except Exception as error:  # a peer that breaks in one cell is left out of it; the others go on
            reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    outcome["left_out"].setdefault(reason, []).append(str(cell))
    print(f"  {peer.name}: {reason}", file=sys.stderr, flush=True)
    return None


def row_of(cell, peer, mine, rotary, copy) -> dict:
    """Ratios are of replayed graphs where the peer can be captured, else of calls one by one."""
    captured = mine.graph_seconds() is not None and rotary.graph_seconds() is not None
    own, theirs = (t.graph_seconds() if captured else t.event_seconds() for t in (rotary, mine))
    row = {**cell.keys(), "peer": peer.name, "captured": captured, "anew": bool(cell.in_place and peer.anew)}
    for name, timed in (("", mine), ("rotary_", rotary), ("copy_", copy)):
        row[f"{name}microseconds"] = round(timed.event_seconds() * 1e6, 3)
        seconds = timed.graph_seconds()
        row[f"{name}graph_microseconds"] = None if seconds is None else round(seconds * 1e6, 3)
    per_element = 1e9 / cell.elements
    row |= {"ns_per_element": round(theirs * per_element, 7), "rotary_ns_per_element": round(own * per_element, 7),
            "ratio": round(theirs / own, 3), "sets": len(mine.calls)}  # fmt: skip
    if mine.why_not:
        row["why_not"] = mine.why_not
    return row


def measure_cell(cell, rotary, peers, rounds: int, outcome: dict) -> None:
    from gpu_work import Timed, alternate, works_of
    from gpu_peers import DeviceCopy

    works = works_of(cell)
    own = ready(cell, rotary, works, outcome)
    if own is None:
        raise SystemExit(f"peers.sh: rotary is wrong at {cell}; nothing else matters")
    # Of their own sets: what turns in place turns on and on.
    found = [(peer, timed) for peer in peers if (timed := ready(cell, peer, works_of(cell), outcome))]
    copy = Timed("device copy", [DeviceCopy().bind(work) for work in works])
    gc.collect()
    alternate([own, copy, *(timed for _, timed in found)], rounds)
    outcome["rows"] += [row_of(cell, peer, timed, own, copy) for peer, timed in found]


def measure_only(chosen) -> int:
    import gpu_peers
    from gpu_work import PRETEND, device_name

    kinds = {kind.__name__: kind for kind in gpu_peers.PEERS}
    outcome = {"peer": chosen.only, "device": device_name(), "versions": {}, "absent": "", "rows": [],
               "left_out": {}, "differences": {}}  # fmt: skip
    try:
        library = None if PRETEND else gpu_peers.load(str(chosen.library))
    except OSError as error:
        sys.exit(f"peers.sh: cannot load rotary ({error}): scripts/build.sh --with bench --with cuda builds it")
    rotary = gpu_peers.PretendedRotary() if PRETEND else gpu_peers.Rotary(library)
    try:
        if chosen.only == "rotary":
            peers = [] if PRETEND else [kind(library) for kind in gpu_peers.OWN]
        else:
            peers = [kinds[chosen.only]()]
        outcome["versions"] = {peer.name: peer.version() for peer in peers}
    except Exception as error:  # whatever an import throws
        peers, outcome["absent"] = [], f"{type(error).__name__}: {error}"
        print(f"{chosen.only} is not here: {outcome['absent']}", file=sys.stderr)
    cells = cells_of(chosen) if peers else []
    for number, cell in enumerate(cells, 1):
        print(f"[{chosen.only}: {number}/{len(cells)}] {cell}", file=sys.stderr, flush=True)
        measure_cell(cell, rotary, peers, chosen.rounds, outcome)
        file_of(chosen.out, chosen.only).write_text(json.dumps(outcome))  # what there is, if the next cell ends it
    file_of(chosen.out, chosen.only).write_text(json.dumps(outcome))
    return 0


# ---- all ----


def main(chosen) -> int:
    if why := missing_device():
        print(f"peers.sh: --device cuda: {why}: nothing is measured", file=sys.stderr)
        return NO_DEVICE
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.only:
        return measure_only(chosen)
    import gpu_peers
    import gpu_report

    names = [name for name in chosen.peers.lower().split(",") if name]
    wanted = [kind.__name__ for kind in gpu_peers.PEERS
              if not names or any(part in text.lower() for part in names for text in (kind.name, kind.__name__))]
    for name in wanted + ["rotary"]:
        file_of(chosen.out, name).unlink(missing_ok=True)
        status = subprocess.run([sys.executable, *sys.argv, "--only", name]).returncode
        if status != 0 and not file_of(chosen.out, name).exists():
            outcome = {"peer": name, "absent": f"its process ended with {status}"}
            file_of(chosen.out, name).write_text(json.dumps(outcome))
    command = "scripts/peers.sh " + " ".join(sys.argv[1:])
    gpu_report.write(chosen.out, command)
    return 0
