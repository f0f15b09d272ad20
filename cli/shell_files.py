"""Writes rotary's bash completion and its man page from cli/data/commands.json, when rotary is built.

shell_files.py COMMANDS_JSON COMPLETION_BASH VERSION FOLDER: FOLDER/rotary is COMPLETION_BASH with the words of the
commands in it, FOLDER/rotary.1 is the page. Needs Python's standard library only. cli/shared/description.h describes
the data.
"""

import json
import sys
from pathlib import Path

def options_of(data, entries):
    """The names of each option, whether the first is a place, and its facts: places first, then required options, the
    others, and those below a heading."""
    options = []
    for key, given in entries.items():
        facts = {"shared": given} if isinstance(given, str) else given
        shared = data["shared"][given if isinstance(given, str) else key] if "shared" in facts else {}
        options.append((key.split(","), not key.startswith("-"), shared | facts))
    return sorted(options, key=lambda o: 0 if o[1] else 1 if o[2].get("required") else 3 if o[2].get("section") else 2)


def completion(data, commands, template):
    """Fills the template with the words of each option's value, and with each command's options and its places' words.
    Where there are no words bash offers files.
    """
    cases = ""
    for command, described in commands.items():
        rope = data["rope_options"] if described.get("rope_options") else {}
        options, places = [], []
        for names, is_place, facts in options_of(data, rope | described["options"] | data["command_options"]):
            words, dashed = facts.get("words", []), names[is_place:]
            places += words if is_place else []
            options += dashed
            if "type" in facts:
                cases += "".join(f"    *' {command} {name}') words='{' '.join(words)}' ;;\n" for name in dashed)
        cases += f"    *' {command} '*) options='{' '.join(options)}' places='{' '.join(places)}' ;;\n"
    program_options = " ".join(data["program_options"]).replace(",", " ")
    marks = {"COMMANDS": " ".join(commands), "OPTIONS": program_options, "CASES": cases}
    for mark, words in marks.items():
        template = template.replace(f"@{mark}@", words)
    return "# Completion of rotary in bash. Made by cli/shell_files.py.\n" + template


# ---- man ----


def roff(text):
    """text as roff prints it, letter by letter."""
    for letter, name in {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga"}.items():
        text = text.replace(letter, name)
    return "\\&" + text if text.startswith(".") else text


def described(data, entries):
    """The options, with the facts that their help does not say."""
    text = ""
    for names, is_place, facts in options_of(data, entries):
        value = "" if is_place else facts.get("value", data["values"].get(facts.get("type"), ""))
        help, words, notes = " ".join(facts["help"]), facts.get("words", []), []
        if facts.get("required"):
            notes.append("required")
        if not all(word in help for word in words) and not facts.get("suggests"):
            notes.append(", ".join(words[:-1]) + " or " + words[-1])
        if "default" in facts and "default" not in help:
            notes.append(f"default {facts['default']}")
        term = f"\\fB{roff(', '.join(names))}\\fR" + (f" \\fI{roff(value)}\\fR" if value else "")
        text += f".TP\n{term}\n{roff(help + (' [' + '; '.join(notes) + ']' if notes else ''))}\n"
    return text


def command_section(data, name, command):
    text = f".SS rotary {name}\n{roff(command['summary'][0])}.\n" + described(data, command["options"])
    if command.get("rope_options"):
        text += ".PP\nThe rope options below belong to it too.\n"
    for line in command.get("footer", []) + command.get("examples", []):  # roff keeps a line that begins with a space
        line = line if isinstance(line, str) else " ".join(line)
        text += ("" if line.startswith(" ") else ".PP\n") + roff(line) + "\n"
    return text


def page(data, commands, version):
    return (
        f'.TH ROTARY 1 "" "rotary {version}" "User Commands"\n'
        ".SH NAME\nrotary \\- rotary position embeddings of language models\n"
        ".SH SYNOPSIS\n\\fBrotary\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n"
        f".SH DESCRIPTION\n{roff(data['programs']['rotary']['summary'][1])}\n"
        f".SH OPTIONS\n{described(data, data['program_options'])}"
        f".PP\nOptions of every command:\n{described(data, data['command_options'])}.SH COMMANDS\n"
        + "".join(command_section(data, name, command) for name, command in commands.items())
        + f".SH ROPE OPTIONS\n{described(data, data['rope_options'])}"
        ".SH EXIT STATUS\n.TP\n0\nDone.\n"
        ".TP\n1\nSomething in a file, a position or a shape is wrong. Standard error has one line, error: CODE: "
        'sentence; with \\-\\-json a JSON object {"error": {"code", "message"}} too.\n'
        ".TP\n2\nThe command line is wrong.\n"
        ".SH ENVIRONMENT\n.TP\nROTARY_TARGET\n"
        "The instruction set to use, one of those that rotary \\-\\-version lists.\n"
        ".TP\nROTARY_MODELS\nThe sheet of models to use, as \\-\\-models.\n"
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
