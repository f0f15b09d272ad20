"""How golden files and models.json are written, and where. Standard library only."""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "files/tests/golden"


def folded(values, indent, width, end=""):
    """The values, separated by commas, on as few lines as the width allows. end: what must fit behind the last."""
    lines, line, values = [], indent, list(values)
    for i, piece in enumerate(values):
        comma = "," if i + 1 < len(values) else ""
        if line != indent and len(f"{line} {piece}{comma or end}") > width:
            lines.append(line)
            line = indent
        line += " " * (line != indent) + piece + comma
    return "\n".join([*lines, line])


def dump(value, indent=0, width=118):
    """JSON with short values on one line and long lists wrapped."""
    flat, pad, inside = json.dumps(value), " " * indent, " " * (indent + 2)
    if not isinstance(value, (dict, list)) or len(pad + flat) <= width and not (isinstance(value, dict) and indent < 6):
        return flat
    if isinstance(value, dict):
        rows = (f"{inside}{json.dumps(key)}: {dump(v, indent + 2)}" for key, v in value.items())
        return "{\n" + ",\n".join(rows) + f"\n{pad}}}"
    if any(isinstance(v, (dict, list)) for v in value):
        return "[\n" + ",\n".join(inside + dump(v, indent + 2) for v in value) + f"\n{pad}]"
    return "[\n" + folded(map(json.dumps, value), inside, width, ",") + f"\n{pad}]"


def write(path, value):
    path.write_text(dump(value) + "\n")


def write_rows(path, values, **how):
    """A JSON list with a line for each value."""
    path.write_text("[\n" + ",\n".join(json.dumps(value, **how) for value in values) + "\n]\n")
