#!/usr/bin/env bash
# The Python wheel in a Debian with no compiler and no network: it installs, the example of docs/python.md and the command
# run, and its files need no library of the system but the C and C++ ones and zlib.
# wheel_container_test.sh WHEEL PHOTOGRAPHS [SUITE]: at least 64 JPEGs; SUITE is a Debian whose Python the wheel is for.
# What is in single quotes is for other shells and sed.
# shellcheck disable=SC2016
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
wheel=$(realpath -e "$1") photographs=$(realpath -e "$2") suite=${3:-bookworm}
debootstrap=$(PATH=$PATH:/usr/sbin command -v debootstrap) || { echo "skipped: debootstrap is not installed"; exit 77; }
unshare --net --mount --pid --fork true 2>/dev/null || { echo "skipped: no namespaces can be made here"; exit 77; }
root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
fail() {
  echo "$1" >&2
  exit 1
}

if ! "$debootstrap" --variant=minbase --include=python3,python3-venv,ca-certificates "$suite" "$root" \
  "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$root.log" 2>&1; then
  tail -n 3 "$root.log"
  rm "$root.log"
  echo "skipped: Debian's packages can't be had"
  exit 77
fi
rm "$root.log"

mkdir "$root"/trial "$root"/trial/{wheels,photos}
cp "$wheel" "$root/trial/wheels"
# numpy comes from here, because there is no network inside.
version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if ! python3 -m pip download --quiet --only-binary :all: --python-version "$version" --dest "$root/trial/wheels" numpy; then
  echo "skipped: PyPI can't be reached"
  exit 77
fi
find "$photographs" -name '*.jp*g' -o -name '*.JP*G' | sort | head -n 70 | xargs -d '\n' cp -t "$root/trial/photos"
sed -n '/^```python/,/^```/{/^```/d;p}' "$source/docs/python.md" >"$root/trial/example.py"
echo 'print(type(images).__name__, images.dtype, images.shape)' >>"$root/trial/example.py"

# inside COMMAND...: runs it there, where /proc is the only mount.
inside() {
  unshare --net --mount --pid --fork bash -c 'mount -t proc proc "$0/proc" && cd "$0/trial" && exec chroot "$0" "$@"' "$root" \
    env -i PATH=/usr/bin:/bin HOME=/trial LC_ALL=C.UTF-8 bash -c 'cd /trial && exec "$@"' inside "$@"
}

for tool in cc c++ gcc g++ clang cmake ninja make ld; do
  if inside bash -c "command -v $tool"; then fail "the container has $tool"; fi
done
inside python3 -m venv env
inside env/bin/pip install --quiet --no-index --find-links wheels penstock numpy
[ "$(inside env/bin/python example.py)" = "ndarray float32 (64, 3, 224, 224)" ] || fail "the example made something else"
inside env/bin/penstock --version | head -n 1
inside env/bin/penstock profile --images photos --batches 1 >/dev/null

base='libc\.so\.6|libm\.so\.6|libstdc\+\+\.so\.6|libgcc_s\.so\.1|libresolv\.so\.2|libz\.so\.1|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1'
needed=$(inside bash -c 'for file in env/lib/python*/site-packages/penstock/{*.so,penstock}; do ldd $file; done')
[ "$(wc -l <<<"$needed")" -gt 40 ] || fail "ldd says too little: $needed"
outside=$(grep -vE '=> /trial/env/lib/python[0-9.]*/site-packages/penstock(\.libs)?/' <<<"$needed" |
  grep -vE "^	($base) => /|^	linux-vdso\.so\.1|^	/lib64/ld-linux-x86-64\.so\.2" || true)
[ -z "$outside" ] || fail "needed from outside of the wheel: $outside"
echo "figure: the wheel ($(du -k "$wheel" | cut -f 1) KiB) in a Debian $suite of $(chroot "$root" dpkg-query -W | wc -l) packages, without \
compiler and network: installed, the example and the command ran; needed from outside: $(sed -nE "s/^	($base) => .*/\1/p" <<<"$needed" | sort -u | paste -sd ' ')"
