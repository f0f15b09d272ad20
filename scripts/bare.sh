#!/usr/bin/env bash
# Runs README's commands in a bare Debian: a fresh minimal root, a clone of this checkout's HEAD, nothing else.
#   scripts/bare.sh demo|test|readme|packages|release|PART [bookworm|trixie] [--keep]
# By default in bookworm; --keep leaves the root.
# readme: both commands, one after the other, in the same root; the second goes on from the objects of the first.
# packages: the packages that scripts/packages.sh makes here are installed, and programs compiled against them.
# release: what scripts/release.sh left in dist (or ROTARY_DIST) is installed, without a compiler, and used.
# PART: core, gpu, files, tools or cli; scripts/test.sh builds and tests it without what stands above it.
# Needs root (chroot, mount). The root is removed at the end, or --keep prints its path. Packages: this host's mirror.
#   ROTARY_MIRROR=URI  another Debian mirror
#   ROTARY_CACHE=DIR   where the minimal root is kept for the next run, at most a week (default ~/.cache/rotary)
#   TMPDIR=DIR         where the root is made (default /var/tmp)
# The last line is "bare RELEASE: COMMAND passed" or "... failed with status N", and the time. Exits with that status.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

usage() {
  say "bare.sh: $1; usage: scripts/bare.sh demo|test|readme|packages|release|PART [bookworm|trixie] [--keep]"
  exit 2
}

what="" release="" keep=no
for argument in "$@"; do
  case "$argument" in
    demo | test | readme | packages | release | core | gpu | files | tools | cli) what=$argument ;;
    bookworm | trixie) release=$argument ;;
    --keep) keep=yes ;;
    *) usage "unknown argument $argument" ;;
  esac
done
[ -n "$what" ] || usage "it needs demo, test, readme, packages, release or a part"
release=${release:-bookworm}
[ "$(id -u)" -eq 0 ] || { say "bare.sh: must run as root (chroot, mount) but runs as $(id -un)"; exit 1; }
packages="" dist="" command=
case "$what" in
  packages)
    command=./packaging/tests/packages.sh
    packages=$("$root/scripts/packages.sh") ;;
  release)
    command=./packaging/tests/release.sh
    dist=${ROTARY_DIST:-$root/dist}
    [ -f "$dist/SHA256SUMS" ] || { say "bare.sh: no release is in $dist: scripts/release.sh VERSION"; exit 1; } ;;
  demo | test | readme)
    for name in $(if [ "$what" = readme ]; then echo demo test; else echo "$what"; fi); do
      line=$(grep -oE "^    \./scripts/$name\.sh" "$root/README.md" | tr -d ' ') ||
        { say "bare.sh: README.md must name the command ./scripts/$name.sh but does not"; exit 1; }
      command+="${command:+ && }$line"
    done ;;
  *) command="./scripts/test.sh $what" ;;
esac
need debootstrap debian-archive-keyring git

mirror=$(find_mirror) || { say "bare.sh: /etc/apt names no mirror of Debian; set ROTARY_MIRROR"; exit 1; }

bare=$(mktemp -d "${TMPDIR:-/var/tmp}/rotary-bare-$release.XXXXXX")
finish() {
  if [ "$keep" = yes ]; then say "kept: $bare"; else rm -rf --one-file-system "$bare"; fi
}
trap finish EXIT
chmod 755 "$bare"

# ---- the minimal root: a week old at most, or made now ----
cache=${ROTARY_CACHE:-$HOME/.cache/rotary}
archive=$cache/bare-$release.tar
mkdir -p "$cache"
if [ -n "$(find "$archive" -mtime -7 2>/dev/null)" ]; then
  tar -C "$bare" -xpf "$archive"
else
  say "making a minimal $release from $mirror"
  log=$(mktemp)
  if ! debootstrap --variant=minbase "$release" "$bare" "$mirror" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    say "bare.sh: debootstrap could not make $release from $mirror (whole log: $log)"
    exit 1
  fi
  rm -f "$log" "$bare"/var/cache/apt/archives/*.deb
  tar -C "$bare" -cf "$archive.$$" . && mv "$archive.$$" "$archive"
fi

# ---- this machine's network: names, proxy, certificates ----
copy_in() { [ ! -e "$1" ] || { mkdir -p "$bare$(dirname "$1")" && cp -L "$1" "$bare$1"; }; }
copy_in /etc/resolv.conf
copy_in /etc/hosts
copy_in /etc/pip.conf
for certificate in /usr/local/share/ca-certificates/*.crt; do copy_in "$certificate"; done
case "$mirror" in https:*) copy_in /etc/ssl/certs/ca-certificates.crt ;; esac
apt-config dump | grep -iE '^Acquire::(.*(proxy|cainfo)|Check-|Retries|Force)' \
  >"$bare/etc/apt/apt.conf.d/90host" || true
environment=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
# One folder and one name of the compiler: CMake builds all anew where either changes.
[ "$what" != readme ] || environment+=(ROTARY_BUILD=/root/rotary/build/test-release CXX=g++)
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY ROTARY_JOBS ROTARY_AGAIN; do
  [ -z "${!name:-}" ] || environment+=("$name=${!name}")
done

git clone -q --no-hardlinks "$root" "$bare/root/rotary"
[ -z "$packages" ] || xargs -d '\n' cp -t "$bare/root" <<<"$packages"
[ -z "$dist" ] || cp -r "$dist" "$bare/root/dist"
[ -z "$(git -C "$root" status --porcelain)" ] || say "bare.sh: changes that are not committed are not in the clone"

# ---- the command, in namespaces of its own: what it mounts and starts ends with it ----
say "bare $release: $command at $(git -C "$root" rev-parse --short HEAD), $jobs cores"
inside='mount -t proc proc "$1/proc" && mount -t sysfs -o ro sysfs "$1/sys" && mount -t tmpfs tmpfs "$1/dev/shm" &&
        exec chroot "$1" /usr/bin/env -i "${@:3}" /bin/bash -c "cd /root/rotary && $2"'
status=0
TIMEFORMAT="%R %U %S"
{ time unshare --mount --pid --fork --kill-child \
    /bin/bash -c "$inside" bare "$bare" "$command" "${environment[@]}" 2>&3; } 3>&2 2>"$bare/took" || status=$?
took=$(awk 'END { printf "%.0f s, %.0f s of CPU time", $1, $2 + $3 }' "$bare/took")
if [ "$status" -eq 0 ]; then
  echo "bare $release: $command passed ($took)"
else
  echo "bare $release: $command failed with status $status ($took)"
fi
exit "$status"
