#!/usr/bin/env bash
# In a bare Debian without a compiler, a release in /root/dist (scripts/bare.sh release): the Debian packages by apt,
# the static program, and the wheels in a fresh environment; each passes smoke.sh or smoke.py.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
. "$source/scripts/lib.sh"
cd /root/dist
sha256sum --quiet -c SHA256SUMS
install() { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >/dev/null; }
smoke() { in_empty_folder timeout 60 "$@"; }
apt-get update >/dev/null

echo "the packages"
install ./librotary*.deb ./rotary_*.deb
smoke "$source/packaging/tests/smoke.sh" "$source" rotary
ls /usr/share/man/man1/rotary.1* /usr/share/bash-completion/completions/rotary >/dev/null
apt-get purge -y rotary librotary-dev 'librotary0*' >/dev/null
[ ! -e /usr/bin/rotary ]
[ ! -e /usr/share/rotary ]

echo "the static program"
tar -C /opt -xzf rotary-*-linux-"$(uname -m)".tar.gz
smoke "$source/packaging/tests/smoke.sh" "$source" /opt/rotary-*-linux-*/bin/rotary

echo "the wheels"
install python3-venv ca-certificates
python3 -m venv /root/venv
/root/venv/bin/pip install -q numpy rotary*manylinux*"$(uname -m)".whl
smoke /root/venv/bin/python -I "$source/packaging/tests/smoke.py" "$source"
smoke "$source/packaging/tests/smoke.sh" "$source" /root/venv/bin/rotary
if command -v cc gcc g++ clang; then exit 1; fi
