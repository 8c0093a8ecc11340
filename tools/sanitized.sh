#!/usr/bin/env bash
# Builds some tests under a sanitizer and runs them: tools/sanitized.sh [--slow] asan|tsan FOLDER/NAME...
# --slow: also those labelled `reliability`.
# sources/tar is the tests of tests/sources/tar_test.cpp. The whole suite: tools/build.sh asan && ctest --preset asan
set -euo pipefail
cd "$(dirname "$0")/.."

labels=(-LE reliability)
if [ "${1:-}" = --slow ]; then
  labels=()
  shift
fi
preset=${1:?usage: tools/sanitized.sh [--slow] asan|tsan FOLDER/NAME...}
tests=("${@:2}")
extra=()
only=$(IFS='|' && echo "${tests[*]}")
if [ "$preset" = tsan ]; then
  extra=(house_race)
  only+='|house/tsan'
fi
PENSTOCK_TESTS=$(IFS=';' && echo "${tests[*]}") tools/build.sh "$preset" "${extra[@]}" chosen_tests
# Shadow memory of GCC 12 and Clang 14 leaves no room for more random bits of address (google/sanitizers #1614, #1716).
steady=()
if [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)" -gt 28 ]; then steady=(setarch -R); fi
"${steady[@]}" ctest --preset "$preset" -j "$((3 * $(nproc)))" "${labels[@]}" -R "^($only)[/_]"
