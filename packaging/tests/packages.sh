#!/usr/bin/env bash
# In a bare Debian that has the three packages in /root (scripts/bare.sh packages): the program alone, then the library
# and what compiles against it.
set -euo pipefail
cd "$(dirname "$0")"
install() { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >/dev/null; }
apt-get update >/dev/null
install /root/rotary_*.deb
rotary --version
install /root/librotary*.deb gcc g++ pkg-config cmake make
# shellcheck disable=SC2046
gcc -std=c99 c/main.c $(pkg-config --cflags --libs rotary) -o /root/by_pc
/root/by_pc
# shellcheck disable=SC2046
g++ -std=c++20 consumer/main.cpp $(pkg-config --cflags --libs rotary_files rotary) -o /root/main
/root/main
cmake -S c -B /root/c >/dev/null
cmake --build /root/c >/dev/null
/root/c/consumer_c
readelf -d /root/c/consumer_c | grep librotary.so.0.1
apt-get remove -y librotary0.1 >/dev/null
[ ! -e /usr/include/rotary/rotary_c.h ] || { echo "librotary-dev stays without its library"; exit 1; }
