#!/usr/bin/env bash
# Compares what our JPEG decoder makes of photographs with NEON, under qemu, with what libjpeg-turbo makes of them here.
#   tools/check_neon.sh FOLDER [COUNT]
# Needs Debian's g++-aarch64-linux-gnu, qemu-user and, after `dpkg --add-architecture arm64`, libjpeg62-turbo-dev:arm64
# and libhwy-dev:arm64.
set -euo pipefail
folder=$(realpath "${1:?usage: tools/check_neon.sh FOLDER [COUNT]}")
count=${2:-200}
cd "$(dirname "$0")/.."

work=build/neon
mkdir -p $work
sources=(tests/jpeg/digests.cpp pipeline/core/*.cpp pipeline/codec/*.cpp
  pipeline/jpeg/*.cpp pipeline/jpeg/{records,turbo}/*.cpp)
flags=(-std=c++20 -O2 -DNDEBUG -DHWY_SHARED_DEFINE -ffunction-sections -Iinclude -I.)
# Other formats are not needed.
libraries=("-Wl,--gc-sections" -ljpeg -lhwy -lpthread)

# build COMPILER OUTPUT: each source on its own, as many at once as there are processors.
build() {
  mkdir -p "$2.o"
  # shellcheck disable=SC2016  # the shell that xargs starts expands it
  printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I{} bash -c \
    'o=$1.o/$(echo "$2" | tr / _).o; [ "$o" -nt "$2" ] || "$0" "${@:3}" -c "$2" -o "$o"' "$1" "$2" {} "${flags[@]}"
  "$1" -o "$2" "$2".o/*.o "${libraries[@]}"
}

build c++ $work/digests-here
build aarch64-linux-gnu-g++ $work/digests-arm
$work/digests-here "$folder" "$count" library >$work/here.txt
# Debian's cross libraries lie beside those of the added architecture.
# A processor without SVE: Highway would choose that, for which there are no kernels.
qemu-aarch64 -cpu cortex-a72 -L / -E LD_LIBRARY_PATH=/usr/lib/aarch64-linux-gnu:/usr/aarch64-linux-gnu/lib $work/digests-arm \
  "$folder" "$count" own >$work/arm.txt
if ! cmp -s $work/here.txt $work/arm.txt; then
  diff $work/here.txt $work/arm.txt | head -n 20 >&2
  exit 1
fi
echo "neon: $(wc -l <$work/arm.txt) decodes, no difference"
