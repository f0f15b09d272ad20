#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job on bundled data: a model's config.json and its q and k in,
# rotated q and k out, checked.
set -euo pipefail
program=$("$(dirname "$0")/build.sh" | tail -n 1)
exec "$program" demo "$@"
