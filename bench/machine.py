"""What the system says of this machine."""

import re
import subprocess
from pathlib import Path


def output(*command: str) -> str:
    """In English."""
    return subprocess.run(command, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout


def lscpu() -> dict[str, str]:
    return dict(re.findall(r"^\s*([^:\n]+):\s+(.*)$", output("lscpu"), re.M))


def caches() -> dict[str, int]:
    """The bytes of one data cache of each level."""
    found = re.findall(r"^(L1d|L2|L3|L4) +(\d+)$", output("lscpu", "-B", "-C=NAME,ONE-SIZE"), re.M)
    return {name: int(size) for name, size in found}


def processor() -> str:
    found = lscpu()
    guest = f", a guest of {found['Hypervisor vendor']}" if "Hypervisor vendor" in found else ""
    sizes = ", ".join(f"{name} {size // 1024} KiB" for name, size in caches().items())
    return (f"{found.get('Model name', 'unknown processor')} (family {found.get('CPU family')}, model {found.get('Model')}"
            f"{guest}), {found.get('CPU(s)')} CPUs. Caches as the system says: {sizes}")  # fmt: skip


def system() -> str:
    return re.findall(r'PRETTY_NAME="(.*)"', Path("/etc/os-release").read_text())[0]
