#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) on the given files, or on all of the library and the program. Needs the clang preset
# configured: tools/build.sh clang.
set -euo pipefail
cd "$(dirname "$0")/.."

files=("$@")
if [ $# -eq 0 ]; then mapfile -t files < <(git ls-files 'pipeline/*.cpp' 'tools/*.cpp'); fi
echo "tidy: ${#files[@]} files"
printf '%s\0' "${files[@]}" |
  xargs -0 -r -n 1 -P "$(nproc)" clang-tidy -p "${PENSTOCK_TIDY_BUILD:-build/clang}" --quiet 2> >(grep -v 'warnings generated' >&2)
