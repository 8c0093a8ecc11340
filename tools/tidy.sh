#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) on the given files, or on all of the library and the program. Needs a preset
# that compiles each file by itself: tools/build.sh release.
set -euo pipefail
cd "$(dirname "$0")/.."

files=("$@")
if [ $# -eq 0 ]; then mapfile -t files < <(git ls-files 'pipeline/*.cpp' 'staging/*.cpp' 'towers/*.cpp' 'tools/*.cpp'); fi
build=${PENSTOCK_TIDY_BUILD:-build/release}
# What this build does not compile, such as CUDA's side, can't be looked at.
known=()
for file in "${files[@]}"; do
  if grep -qF "/$file\"" "$build/compile_commands.json"; then known+=("$file"); else echo "tidy: not in $build: $file"; fi
done
echo "tidy: ${#known[@]} files"
if [ ${#known[@]} -eq 0 ]; then exit 0; fi
printf '%s\0' "${known[@]}" |
  xargs -0 -r -n 1 -P "$(nproc)" clang-tidy -p "$build" --extra-arg=-Wno-unknown-warning-option --quiet 2> >(grep -v 'warnings generated' >&2)
