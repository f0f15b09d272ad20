"""How the files of tests/golden and data are written. Standard library only."""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"


def folded(values, indent, width):
    """The values, separated by commas, on as few lines as the width allows."""
    lines, line = [], indent
    for piece in values:
        if line != indent and len(line) + len(piece) + 3 > width:
            lines.append(line + ",")
            line = indent
        line += (", " if line != indent else "") + piece
    return "\n".join([*lines, line])


def dump(value, indent=0, width=118):
    """JSON with short values on one line and long lists wrapped."""
    flat, pad, inside = json.dumps(value), " " * indent, " " * (indent + 2)
    if not isinstance(value, (dict, list)) or len(pad + flat) <= width and not (isinstance(value, dict) and indent < 6):
        return flat
    if isinstance(value, dict):
        return "{\n" + ",\n".join(f"{inside}{json.dumps(k)}: {dump(v, indent + 2)}" for k, v in value.items()) + f"\n{pad}}}"
    if any(isinstance(v, (dict, list)) for v in value):
        return "[\n" + ",\n".join(inside + dump(v, indent + 2) for v in value) + f"\n{pad}]"
    return "[\n" + folded(map(json.dumps, value), inside, width) + f"\n{pad}]"


def write(path, value):
    path.write_text(dump(value) + "\n")


def write_rows(path, values, **how):
    """A JSON list with a line for each value."""
    path.write_text("[\n" + ",\n".join(json.dumps(value, **how) for value in values) + "\n]\n")
