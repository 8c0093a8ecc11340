#!/usr/bin/env bash
# Configures a preset and builds it, or some targets of it: tools/build.sh release [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?usage: tools/build.sh PRESET [TARGET...]}
shift
if command -v ccache >/dev/null; then
  # Hits in every checkout of the same sources: paths are relative to the checkout, and debug information does not name
  # the folder of the build.
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_MAXSIZE=20G
fi
if [ "$preset" = tsan ]; then tools/build_tsan_tbb.sh; fi
mkdir -p build
echo "build: $preset (build/$preset)"
if ! cmake --preset "$preset" ${PENSTOCK_TESTS:+"-DPENSTOCK_TESTS=$PENSTOCK_TESTS"} --log-level=STATUS >build/configure.log 2>&1; then
  cat build/configure.log >&2
  exit 1
fi
sed -n 's/^-- \(CUDA: .*\)$/build: \1/p' build/configure.log
cmake --build --preset "$preset" ${1:+--target "$@"}
