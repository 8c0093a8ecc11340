#!/usr/bin/env bash
# Builds Penstock as part of another project, by that project's defaults: the library alone, which needs neither oneDNN nor
# gRPC nor libcurl nor CUDA nor what tests and the program need, and warns of a missing build type. Without `full` it is
# only configured: compiling takes minutes.
# subproject_test.sh SOURCE_DIR BUILD_DIR [full]
set -euo pipefail
source=$1 build=$2/../subproject
fail() {
  echo "$1" >&2
  exit 1
}

rm -rf "$build"
said=$(cmake -S "$source/examples/embed_subproject" -B "$build" -G Ninja 2>&1) || fail "$said"
grep -q 'CMAKE_BUILD_TYPE is not set' <<<"$said" || fail "nothing warns of a missing build type: $said"
grep -q 'PENSTOCK_BUILD_TOWERS' <<<"$said" || fail "nothing names the switches: $said"
if grep -iE '^[^/]*(dnnl|grpc|gloo|protobuf|cli11|tomlplusplus|curl|gtest|cuda_compiler)' "$build/CMakeCache.txt"; then
  fail "the library alone looked for what is above"
fi
grep -qx 'PENSTOCK_WERROR:BOOL=OFF' "$build/CMakeCache.txt" || fail "warnings are errors in another project"
objects=$(ninja -C "$build" -t inputs embed | grep -c '\.o$')
[ "$objects" -le 150 ] || fail "embed is made of $objects objects, more than 150"
[ "${3:-}" = full ] || exit 0
cmake -S "$source/examples/embed_subproject" -B "$build" -DCMAKE_BUILD_TYPE=Release --log-level=WARNING >/dev/null
said=$(cmake --build "$build" -j 2 --target embed 2>&1) || fail "$said"
if grep -i warning <<<"$said"; then fail "another project sees the warnings above"; fi
cmake -DPROGRAM="$build/embed" -DSOURCE="$source/examples/embed/main.cpp" -P "$source/examples/check_output.cmake"
if ldd "$build/embed" | grep -iE 'dnnl|gomp|curl|grpc|cuda'; then fail "embed needs what only other parts do"; fi
