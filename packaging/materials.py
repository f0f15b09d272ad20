"""Libraries that a release has linked in: their licences, and the bill of materials (CycloneDX 1.6).

    materials.py licences FILE             prints the licence texts that go along with FILE
    materials.py bill DIST VERSION         prints the bill of the files in DIST

FILE and the files of DIST are named as scripts/release.sh names them: the name says what is linked. Versions and texts
are read from what the compiler read: ROTARY_ZIG is the folder of ziglang, ROTARY_JSON the headers of nlohmann-json.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import sys
import uuid

ZIG = pathlib.Path(os.environ["ROTARY_ZIG"])
JSON = pathlib.Path(os.environ["ROTARY_JSON"])
SYSTEM, DOCS = pathlib.Path("/usr/include"), pathlib.Path("/usr/share/doc")
JSON_VERSION = r"define NLOHMANN_JSON_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)"
LLVM = "Apache-2.0 WITH LLVM-exception"
BY_ZIG = r"\.whl$|-linux-"
# Name, SPDX licence, the files of a release that have it, the file and the pattern of its version, its licence text.
MATERIALS = [
    ("nlohmann-json", "MIT", BY_ZIG, JSON / "nlohmann/detail/abi_macros.hpp", JSON_VERSION,
     DOCS / "nlohmann-json3-dev/copyright"),
    ("nlohmann-json", "MIT", r"\.deb$", SYSTEM / "nlohmann/detail/abi_macros.hpp", JSON_VERSION,
     DOCS / "nlohmann-json3-dev/copyright"),
    ("CLI11", "BSD-3-Clause", r"^rotary_cli-.*\.whl$|-linux-|^rotary_.*\.deb$", SYSTEM / "CLI/Version.hpp",
     r'CLI11_VERSION "(.*)"', DOCS / "libcli11-dev/copyright"),
    ("libc++", LLVM, BY_ZIG, ZIG / "lib/libcxx/include/__config", r"define _LIBCPP_VERSION (\d+)",
     ZIG / "lib/libcxx/LICENSE.TXT"),
    ("musl", "MIT", "musllinux|-linux-", ZIG / "lib/libc/musl/src/internal/version.h", r'VERSION "(.*)"',
     ZIG / "lib/libc/musl/COPYRIGHT"),
    ("mingw-w64", "ZPL-2.1", "win_amd64", ZIG / "lib/libc/include/any-windows-any/_mingw_mac.h",
     r"define __MINGW64_VERSION_M(?:AJOR|INOR) (\d+)", ZIG / "lib/libc/mingw/COPYING"),
    ("zig-compiler-rt", "MIT", BY_ZIG, None, os.environ.get("ROTARY_ZIG_VERSION", ""), ZIG / "LICENSE"),
]


def version_of(file, pattern):
    if file is None:
        return pattern
    found = ".".join(re.findall(pattern, file.read_text())[:3])
    assert found, f"{file} names no version by {pattern}"
    return re.sub(r"^(\d\d)(\d\d)(\d\d)$", lambda m: ".".join(str(int(part)) for part in m.groups()), found)


def materials_of(name):
    return [(what, licence, version_of(file, pattern), text)
            for what, licence, files, file, pattern, text in MATERIALS if re.search(files, name)]


def print_licences(name):
    for what, licence, version, text in materials_of(name):
        print(f"==== {what} {version}, {licence} ====\n\n{text.read_text().strip()}\n")


def print_bill(dist, version):
    components, dependencies = {}, []
    for path in sorted(dist.iterdir()):
        used = []
        for what, licence, release, _ in materials_of(path.name):
            ref = f"pkg:generic/{what.lower().replace('+', '%2B')}@{release}"
            components[ref] = {"type": "library", "bom-ref": ref, "name": what, "version": release, "purl": ref,
                               "licenses": [{"expression": licence}]}
            used.append(ref)
        components[path.name] = {
            "type": "file", "bom-ref": path.name, "name": path.name, "version": version,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]}
        dependencies.append({"ref": path.name, "dependsOn": sorted(used)})
    when = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    listed = [components[ref] for ref in sorted(components)]
    rotary = {"type": "library", "bom-ref": "rotary", "name": "rotary", "version": version,
              "licenses": [{"expression": "Apache-2.0"}]}
    print(json.dumps({
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(listed))}",
        "metadata": {"timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": rotary},
        "components": listed, "dependencies": dependencies}, indent=2))


if sys.argv[1] == "licences":
    print_licences(sys.argv[2])
else:
    print_bill(pathlib.Path(sys.argv[2]), sys.argv[3])
