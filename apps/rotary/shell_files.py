"""Writes rotary's bash completion and its man page from data/commands.json, when rotary is built.

shell_files.py COMMANDS_JSON COMPLETION_BASH VERSION FOLDER: FOLDER/rotary is COMPLETION_BASH with the words of the
commands in it, FOLDER/rotary.1 is the page. Needs Python's standard library only. apps/shared/description.h describes the
data.
"""

import json
import sys
from pathlib import Path

VALUES = {"integer": "N", "number": "X", "word": "WORD", "path": "FILE", "text": "TEXT"}  # as the program's help


def names_of(option):
    """The place of an option, "CONFIG" or "", and its names with dashes."""
    words = option.split(",")
    dashed = [word for word in words if word.startswith("-")]
    return ("" if dashed == words else words[0]), dashed


def facts_of(data, name, facts):
    """The facts of an option; those of the shared option that it is, or that it changes."""
    if isinstance(facts, str):
        return data["shared"][facts]
    return data["shared"][name] | facts if facts.get("shared") else facts


def own_options(data, command):
    """The options of the command's own list by name: places, what is required, the others, and what has a heading."""

    def rank(item):
        name, facts = item
        return 0 if names_of(name)[0] else 1 if facts.get("required") else 3 if facts.get("section") else 2

    return dict(sorted(((name, facts_of(data, name, facts)) for name, facts in command["options"].items()), key=rank))


def rope_options(data):
    return {name: data["shared"][name] for name in data["rope_options"]}


# ---- bash ----


def completion(data, commands, template):
    """template, with each command's options and the words of its places, and after "COMMAND OPTION" the words that the
    value of the option can be. Where there are no words bash offers files.
    """
    values, cases = "", ""
    for command, described in commands.items():
        options, places = [], []
        every = rope_options(data) if described.get("rope_options") else {}
        for option, facts in (every | own_options(data, described) | data["command_options"]).items():
            place, names = names_of(option)
            options += names
            words = " ".join(facts.get("words", []))
            if place:
                places += words.split()
            if "type" in facts:
                values += "".join(f"    '{command} {name}') value='{words}' ;;\n" for name in names)
        cases += f"    {command}) options='{' '.join(options)}' words='{' '.join(places)}' ;;\n"
    program_options = " ".join(name for option in data["program_options"] for name in names_of(option)[1])
    marks = {"COMMANDS": " ".join(commands), "OPTIONS": program_options, "VALUES": values, "CASES": cases}
    for mark, words in marks.items():
        template = template.replace(f"@{mark}@", words)
    return "# Completion of rotary in bash. Made by apps/rotary/shell_files.py.\n" + template


# ---- man ----


def roff(text):
    """text as roff prints it, letter by letter."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\n".join("\\&" + line if line.startswith(".") else line for line in text.split("\n"))


def whole_help(facts):
    """The help of an option, and the facts that it does not say."""
    text = " ".join(facts["help"])
    words = facts.get("words", [])
    notes = ["required"] if facts.get("required") else []
    if any(word not in text for word in words) and not facts.get("suggests"):
        notes.append(", ".join(words[:-1]) + " or " + words[-1])
    if "default" in facts and "default" not in text:
        notes.append(f"default {facts['default']}")
    return text + (f" [{'; '.join(notes)}]" if notes else "")


def described(options):
    text = ""
    for option, facts in options.items():
        value = "" if names_of(option)[0] else facts.get("value", VALUES.get(facts.get("type"), ""))
        term = "\\fB" + roff(option.replace(",", ", ")) + "\\fR" + (f" \\fI{roff(value)}\\fR" if value else "")
        text += f".TP\n{term}\n{roff(whole_help(facts))}\n"
    return text


def command_section(data, name, command):
    summary = " ".join(command["summary"])
    text = f".SS rotary {name}\n{roff(summary)}.\n" + described(own_options(data, command))
    if command.get("rope_options"):
        text += ".PP\nThe rope options below belong to it too.\n"
    footer = "\n".join(command.get("footer", []))
    return text + (f".PP\n.nf\n{roff(footer)}\n.fi\n" if footer else "")


def page(data, commands, version):
    return (
        f'.TH ROTARY 1 "" "rotary {version}" "User Commands"\n'
        ".SH NAME\nrotary \\- rotary position embeddings of language models\n"
        ".SH SYNOPSIS\n\\fBrotary\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n"
        f".SH DESCRIPTION\n{roff(data['programs']['rotary']['summary'][1])}\n"
        f".SH OPTIONS\n{described(data['program_options'])}"
        f".PP\nOptions of every command:\n{described(data['command_options'])}"
        ".SH COMMANDS\n"
        + "".join(command_section(data, name, command) for name, command in commands.items())
        + ".SH ROPE OPTIONS\n"
        + described(rope_options(data))
        + ".SH EXIT STATUS\n.TP\n0\nDone.\n"
        ".TP\n1\nSomething in a file, a position or a shape is wrong. Standard error has one line, error: CODE: "
        'sentence; with \\-\\-json a JSON object {"error": {"code", "message"}} too.\n'
        ".TP\n2\nThe command line is wrong.\n"
        ".SH ENVIRONMENT\n.TP\nROTARY_TARGET\n"
        "The instruction set to use, one of those that rotary \\-\\-version lists.\n"
    )


def main(commands_json, completion_bash, version, folder):
    data = json.loads(Path(commands_json).read_text(encoding="utf-8"))
    names = [name for group in data["programs"]["rotary"]["groups"].values() for name in group]
    commands = {name: data["commands"][name] for name in names}
    template = Path(completion_bash).read_text(encoding="utf-8")
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "rotary").write_text(completion(data, commands, template), encoding="utf-8")
    (Path(folder) / "rotary.1").write_text(page(data, commands, version), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
