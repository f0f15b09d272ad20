"""gpu_verdict.py bench.jsonl: the cells of `rotary bench --device cuda --json` beside what they are judged by."""

import json
import sys


def cell_words(row: dict) -> str:
    place = "in place" if row["in_place"] else "out of place"
    table = "" if row["table"] else ", no table"
    cache = f", cache {row['cache']}" if row["cache"] else ""
    return f"{row['op']} {row['dtype']} {row['pairing']} {row['tokens']} x {row['head_dim']} {place}{table}{cache}"


def judge(rule: str, rows: list[dict], key: str, limit: float, at_least: bool) -> None:
    """The rows that miss the limit, the worst first."""
    if not rows:
        return print(f"{rule}: no such cell was measured")
    sign = 1 if at_least else -1
    worst = sorted(rows, key=lambda row: sign * row[key])
    missed = [row for row in worst if sign * (row[key] - limit) < 0]
    print(f"{rule}: {len(rows) - len(missed)} of {len(rows)} cells; from {worst[0][key]:.4g} to {worst[-1][key]:.4g}")
    for row in missed[:8]:
        print(f"    {row[key]:.4g}  {cell_words(row)}")
    if len(missed) > 8:
        print(f"    and {len(missed) - 8} more")


def main() -> int:
    rows = [json.loads(line) for line in open(sys.argv[1])]
    turned = [row for row in rows if row["op"] == "fused"]
    for dtype in ("bf16", "f16", "f32"):
        large = [row for row in turned if row["dtype"] == dtype and row["tokens"] >= 8192]
        judge(f"{dtype}: at least 95 % of the device copy from 8192 tokens", large, "percent_of_copy", 95, True)
    small = [row for row in turned if row["tokens"] <= 64]
    judge("at most 2.5 us per replayed launch at 1 to 64 tokens", small, "graph_microseconds", 2.5, False)
    normed = [row for row in rows if row["op"] == "norm_append" and row["tokens"] == 8192]
    judge("norm + rope + cache write at least 1.8 times its parts", normed, "ratio_to_unfused", 1.8, True)
    judge("rope + cache write ahead of its parts", [row for row in rows if row["op"] == "append"], "ratio_to_unfused", 1, True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
