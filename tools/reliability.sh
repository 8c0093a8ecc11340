#!/usr/bin/env bash
# Kills a consumer PENSTOCK_KILLS times (2,000) and writes the figures into docs/reliability.md, with the date and the
# machine. Takes a few minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

test=${1:-build/dev/bin/crash_crash_test}
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
