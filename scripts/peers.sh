#!/usr/bin/env bash
# Measures the same rotation by rotary and by its peers, alternating: Markdown and JSON lines in build/peers.
#   scripts/peers.sh [--filter KEY=VALUE,...] [--peers NAME,...] [--out DIR]    (--help: all)
#   scripts/peers.sh --device cuda ...      the same on a GPU, beside a device-to-device copy; 77 where there is none
# Installs what is missing from Debian and PyPI (into build/peers-venv) and builds rotary in Release. Environment:
#   TORCH_ROOT=DIR          the site-packages of a torch that Python can import; else scripts/torch.sh --full: 6 GB
#   ROTARY_PEERS_SKIP=LIST  peers not to install, as in "torch llama-cpp-python" (compiling that takes 10 to 40 minutes)
#   ROTARY_PEERS_WAIT=S     seconds that one installation may take (default 3000)
#   ROTARY_PEERS_PYTHON=P   --device cuda: a Python that has PyTorch and the peers; nothing is installed
set -euo pipefail
. "$(dirname "$0")/lib.sh"

for option in "$@"; do
  case "$option" in -h|--help) sed -n '2,9s/^# //p' "$0"; exec python3 "$root/bench/run.py" --help ;; esac
done

cuda= previous=
for option in "$@"; do
  case "$previous $option" in "--device cuda"|*" --device=cuda") cuda=yes ;; esac
  previous=$option
done
if [ -n "$cuda" ] && ! nvidia-smi -L >/dev/null 2>&1; then
  say "peers.sh: --device cuda: nvidia-smi finds no GPU here: nothing is measured"
  exit 77
fi

need python3 python3-venv
export ROTARY_BUILD=${ROTARY_BUILD:-$root/build/release}
patience=${ROTARY_PEERS_WAIT:-3000}
"$root/scripts/build.sh" --with bench ${cuda:+--with cuda} >/dev/null
[ -z "$cuda" ] || [ -z "${ROTARY_PEERS_PYTHON:-}" ] || exec "$ROTARY_PEERS_PYTHON" "$root/bench/run.py" "$@"

venv=$root/build/peers-venv
python=$venv/bin/python
[ -x "$python" ] || python3 -m venv "$venv"

skipped() { case " ${ROTARY_PEERS_SKIP:-} " in *" $1 "*) return 0 ;; *) return 1 ;; esac }

# torch is large: the one that the parity tests use serves here too.
if ! skipped torch && ! "$python" -c 'import torch' 2>/dev/null; then
  if site=$("$root/scripts/torch.sh" --full | tail -n 1); then
    printf '%s\n' "$site" >"$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
  else
    say "peers.sh: no torch: its peers are left out"
  fi
fi

# One by one: a peer that cannot be installed is a line, not the end.
while read -r requirement options; do
  case "$requirement" in ""|"#"*) continue ;; esac
  name=${requirement%%[=[]*}
  skipped "$name" && { say "peers.sh: $name is left out, as asked"; continue; }
  mark=$venv/installed-$(printf %s "$requirement" | tr -c 'A-Za-z0-9._\n' -)
  [ -f "$mark" ] && continue
  case "$name" in
    llama-cpp-python) say "installing $requirement: compiled here, 10 to 40 minutes" ;;
    *) say "installing $requirement" ;;
  esac
  log=$venv/$name.log
  # shellcheck disable=SC2086 # options are words
  if timeout "$patience" "$venv/bin/pip" install $options "$requirement" >"$log" 2>&1 </dev/null; then
    touch "$mark"
  else
    say "peers.sh: $requirement could not be installed, or took longer than $patience s: left out (log: $log)"
  fi
done <"$root/bench/requirements${cuda:+-gpu}.txt"

exec "$python" "$root/bench/run.py" "$@"
