#!/usr/bin/env bash
# Plants a layer that needs a symbol of the one above it. Expects tools/check_links.sh (the first argument) to name it, and
# to accept the same object files as one layer. The second argument is the compiler.
set -euo pipefail
check=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"

echo 'namespace penstock { void upper(); void lower() { upper(); } }' >lower.cpp
echo 'namespace penstock { void lower(); void upper() { lower(); } }' >upper.cpp
"$2" -c lower.cpp upper.cpp
printf 'low lower.o\nhigh upper.o\n' >layers
if output=$("$check" layers); then
  echo "a layer that needs the one above it was not refused" >&2
  exit 1
fi
[ "$output" = "low: penstock::upper()" ] || { echo "named: $output" >&2; exit 1; }
printf 'both lower.o upper.o\n' >layers
"$check" layers
