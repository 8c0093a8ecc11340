#!/usr/bin/env bash
# Kills a consumer PENSTOCK_KILLS times (2,000) and writes the figures into docs/reliability.md, with the date and the
# machine. Takes a few minutes. Of another build: tools/reliability.sh build/asan/bin/crash_crash_test
set -euo pipefail
cd "$(dirname "$0")/.."

test=${1:-}
if [ -z "$test" ]; then
  tools/build.sh release crash_crash_test
  test=build/release/bin/crash_crash_test
fi
page=docs/reliability.md
log=$(mktemp)
trap 'rm -f "$log"' EXIT
PENSTOCK_KILLS=${PENSTOCK_KILLS:-2000} "$test" --gtest_filter='Crash.*' | tee "$log"
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
{
  sed '/<!-- kills -->/q' "$page"
  printf '\nMeasured on %s, %s, %d CPUs, Linux %s.\n\n' "$(date -u +%F)" "$cpu" "$(nproc)" "$(uname -r)"
  sed -n 's/^figure: /- /p' "$log"
  printf '\n'
  sed -n '/<!-- end of kills -->/,$p' "$page"
} > "$log.page"
mv "$log.page" "$page"
