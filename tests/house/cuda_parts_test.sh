#!/usr/bin/env bash
# cmake/cuda.cmake where parts of CUDA are missing: AUTO says which and continues, ON fails, and a part of another project
# has none unless it is asked for. `cuda_parts_test.sh SOURCE_DIR`
set -euo pipefail

source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/top" "$work/other"
cat >"$work/top/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(top LANGUAGES CXX)
include($source/cmake/cuda.cmake)
message(STATUS "have: \${PENSTOCK_HAVE_CUDA}")
CMAKE
cat >"$work/other/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(other LANGUAGES CXX)
add_subdirectory($work/top top)
CMAKE
# An nvcc of a version, which compiles nothing.
for release in 11.8 13.0; do
  cat >"$work/nvcc-$release" <<SCRIPT
#!/bin/sh
[ "\$1" != --version ] || { echo "Cuda compilation tools, release $release, V$release.0"; exit 0; }
[ "\$1" != --list-gpu-code ] || { printf 'sm_80\nsm_90\n'; exit 0; }
exit 1
SCRIPT
  chmod +x "$work/nvcc-$release"
done

count=0
# expect EXIT_CODE TEXT FOLDER NVCC CMAKE_FLAGS...
expect() {
  local code=$1 text=$2 folder=$3 nvcc=$4 got=0
  shift 4
  count=$((count + 1))
  env -u CUDAARCHS CUDACXX="$work/$nvcc" cmake -S "$work/$folder" -B "$work/build$count" "$@" >"$work/log" 2>&1 || got=$?
  # CMake breaks the lines of errors.
  if [ "$got" != "$code" ] || ! tr -s '\n ' ' ' <"$work/log" | grep -qF -- "$text"; then
    echo "$folder with $nvcc and '$*': exit code $got, where $code and \"$text\" are expected:"
    cat "$work/log"
    exit 1
  fi
}

expect 0 "CUDA: not built, no nvcc: put it on PATH" top nowhere
expect 0 "nvcc-11.8 is release 11.8, and 12 is the first that compiles C++20" top nvcc-11.8
expect 0 "nvcc-13.0 does not compile with this host compiler, or lacks parts" top nvcc-13.0
expect 0 "have: OFF" top nvcc-13.0
expect 0 "CUDA: not built, PENSTOCK_CUDA is OFF" top nvcc-13.0 -DPENSTOCK_CUDA=OFF
expect 1 "PENSTOCK_CUDA is ON, but: no nvcc" top nowhere -DPENSTOCK_CUDA=ON
expect 0 "-DPENSTOCK_CUDA=AUTO builds it where nvcc is" other nowhere
expect 0 "CUDA: not built, no nvcc" other nowhere -DPENSTOCK_CUDA=AUTO
echo "cuda_parts: $count"
