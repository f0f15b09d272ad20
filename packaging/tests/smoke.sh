#!/usr/bin/env bash
# Runs a released program as a user would: its version and its sheet of models, the demo, a rotation and its check.
#   smoke.sh SOURCE_DIR PROGRAM...     PROGRAM may be several words, as of an emulator
# Run in an empty folder, to which it writes. Needs only bash, sed and grep besides.
set -euo pipefail
source=$1
shift
fail() { echo "smoke.sh: $*"; exit 1; }
version=$(sed -nE 's/^#define ROTARY_VERSION "(.*)"$/\1/p' "$source/core/include/rotary/version.h")
data=$(sed -nE 's/.*"data": *"([^"]*)".*/\1/p' "$source/files/models/models.json" | head -n 1)
said=$("$@" --version | tr -d '\r')
[ "$(head -n 1 <<<"$said")" = "rotary $version" ] || fail "--version must begin with rotary $version but says: $said"
grep -qE "^models +$data\$" <<<"$said" || fail "--version must name the sheet of models $data but says: $said"
said=$("$@" demo)
grep -q '^All checks passed\.' <<<"$said" || fail "demo must pass its checks but says: $said"

cp -r "$source/cli/data/demo" given
said=$("$@" inspect given --json | tr -d '\r')
grep -q '"model_type": *"llama"' <<<"$said" || fail "inspect must name llama but says: $said"
status=0
for pairing in half interleaved; do
  "$@" apply given --pairing "$pairing" --input given/qk.safetensors --output "$pairing.safetensors" >/dev/null
done
"$@" check given --before given/qk.safetensors --after half.safetensors >half.log || status=$?
[ "$status" -eq 0 ] || fail "check must find the model's own rotation equal but ends with $status: $(cat half.log)"
"$@" check given --before given/qk.safetensors --after interleaved.safetensors >interleaved.log || status=$?
[ "$status" -eq 1 ] || fail "check must find the other pairing but ends with $status: $(cat interleaved.log)"
echo "rotary $version: the program finds its data, rotates and checks"
