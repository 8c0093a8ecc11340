#!/usr/bin/env bash
# Builds some tests under a sanitizer and runs them: tools/sanitized.sh asan|tsan FOLDER/NAME...
# sources/tar is the tests of tests/sources/tar_test.cpp. The whole suite: tools/build.sh asan && ctest --preset asan
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?usage: tools/sanitized.sh asan|tsan FOLDER/NAME...}
tests=("${@:2}")
programs=("${tests[@]//\//_}")
extra=()
only=$(IFS='|' && echo "${tests[*]}")
if [ "$preset" = tsan ]; then
  extra=(house_race)
  only+='|house/tsan'
fi
tools/build.sh "$preset" "${extra[@]}" "${programs[@]/%/_test}"
ctest --preset "$preset" -j "$(nproc)" -R "^($only)[/_]"
