#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) on the given files, or on all of the library and the program. Configures the
# preset debug, which compiles each file by itself, and builds nothing but generated headers. PENSTOCK_TIDY_SECONDS: begins
# no file after that time, and prints how many are left.
set -euo pipefail
cd "$(dirname "$0")/.."

files=("$@")
if [ $# -eq 0 ]; then mapfile -t files < <(git ls-files 'pipeline/*.cpp' 'staging/*.cpp' 'report/*.cpp' 'towers/*.cpp' 'cluster/*.cpp' 'tools/*.cpp'); fi
build=build/debug
mkdir -p build
if ! cmake --preset debug --log-level=WARNING >build/configure.log 2>&1; then
  cat build/configure.log >&2
  exit 1
fi
if cmake --build "$build" --target help | grep '^penstock_generated:' >/dev/null; then
  cmake --build "$build" --target penstock_generated >>build/configure.log
fi
# What this build does not compile, such as CUDA's side, can't be looked at.
known=()
for file in "${files[@]}"; do
  if grep -qF "/$file\"" "$build/compile_commands.json"; then known+=("$file"); else echo "tidy: not in $build: $file"; fi
done
echo "tidy: ${#known[@]} files"
if [ ${#known[@]} -eq 0 ]; then exit 0; fi
left=$(mktemp)
trap 'rm -f "$left"' EXIT
export build left until=$((EPOCHSECONDS + ${PENSTOCK_TIDY_SECONDS:-1000000}))
# shellcheck disable=SC2016  # the inner shell expands it
printf '%s\0' "${known[@]}" | xargs -0 -r -n 1 -P "$(nproc)" bash -c '
  if [ "$EPOCHSECONDS" -ge "$until" ]; then echo "$1" >>"$left"; exit 0; fi
  exec clang-tidy -p "$build" --extra-arg=-Wno-unknown-warning-option --quiet "$1"' tidy 2> >(grep -v 'warnings generated' >&2)
if [ -s "$left" ]; then echo "tidy: no time for $(wc -l <"$left") of these files"; fi
