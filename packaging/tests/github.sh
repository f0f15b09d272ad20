#!/usr/bin/env bash
# Checks the files that GitHub reads, and CITATION.cff: by their schemas (check-jsonschema); the workflows' permissions,
# pins and expressions (zizmor); that every stage and script which a workflow names is there, and that fuzz.yml has
# every target. Exit 77: no PyPI.
set -euo pipefail
. "$(dirname "$0")/../../scripts/lib.sh"
cd "$root"
install_from_pypi github-tools check-jsonschema==0.39.0 zizmor==1.32.0 || exit $?

check() { "$venv/bin/check-jsonschema" --builtin-schema "vendor.$1" "${@:2}"; }
check github-workflows .github/workflows/*.yml
check dependabot .github/dependabot.yml
check github-issue-config .github/ISSUE_TEMPLATE/config.yml
check github-issue-forms .github/ISSUE_TEMPLATE/fault.yml .github/ISSUE_TEMPLATE/model.yml
check citation-file-format CITATION.cff
"$venv/bin/zizmor" -q --offline .github

"$venv/bin/python" - <<'PYTHON'
import pathlib, re, sys
from ruamel.yaml import YAML

bad = []
tested = pathlib.Path("scripts/test.sh").read_text()
stages = {name for row in re.findall(r"^    ([a-z0-9 |]+)\) ", tested, re.MULTILINE) for name in row.split(" | ")}
targets = sorted(corpus.stem for corpus in pathlib.Path().glob("*/tests/fuzz/*.corpus"))
for file in sorted(pathlib.Path(".github/workflows").glob("*.yml")):
    for job in YAML(typ="safe").load(file)["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        rows = matrix.get("stages", []) + [row["stages"] for row in matrix.get("include", [])]
        if matrix.get("target", targets) != targets:
            bad.append(f"{file}: the targets are {targets}")
        bad += [f"{file}: no stage {stage}" for row in rows for stage in row.split() if stage not in stages]
        for step in job["steps"]:
            called = re.findall(r"(?:scripts|packaging)/[\w./]+", step.get("run", ""))
            bad += [f"{file}: no file {name}" for name in called if not pathlib.Path(name).is_file()]
print("\n".join(bad))
sys.exit(bool(bad))
PYTHON
