"""Proves every rotation function of the installed transformers, one line each, and the sum.

    python tools/probe_transformers.py [--bodies]

A function is what rotary.patch takes for one, by its name (python/rotary/_patch/functions.py). Exits with 1 where fewer
than 96 % are proved.
"""

import collections
import importlib
import logging
import pathlib
import sys
import warnings


def modeling_modules():
    """(the modeling modules that can be imported, {name: why not})."""
    import transformers

    modules, failed = [], {}
    for path in sorted(pathlib.Path(transformers.__file__).parent.glob("models/*/modeling_*.py")):
        name = f"transformers.models.{path.parent.name}.{path.stem}"
        try:
            modules.append(importlib.import_module(name))
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
    return modules, failed


def probe_all():
    """({(module, function): a Proof or the reason why there is none}, {module: why it was not imported})."""
    from rotary._patch.functions import candidates
    from rotary._patch.probes import Unproved, prove

    found, (modules, failed) = {}, modeling_modules()
    for module in modules:
        for name, function in candidates(module).items():
            if getattr(function, "__module__", None) != module.__name__:
                continue  # imported from another modeling module, where it is found
            try:
                found[module.__name__, name] = prove(function)
            except Unproved as error:
                found[module.__name__, name] = str(error)
    return found, failed


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    import transformers

    found, failed = probe_all()
    for (module, name), proof in found.items():
        print(
            f"{module.removeprefix('transformers.models.')}.{name}: {'NOT PROVED: ' if isinstance(proof, str) else ''}{proof}"
        )
    for module, reason in failed.items():
        print(f"{module}: cannot be imported: {reason}")
    proved = [proof for proof in found.values() if not isinstance(proof, str)]
    print()
    for behaviour, count in collections.Counter(str(proof.behaviour) for proof in proved).most_common():
        print(f"{count:4} {behaviour}")
    print(f"transformers {transformers.__version__}: {len(proved)} of {len(found)} functions are proved")
    return int(len(proved) < 0.96 * len(found))


if __name__ == "__main__":
    sys.exit(main())
