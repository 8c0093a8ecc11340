#!/usr/bin/env bash
# Kills a consumer PENSTOCK_KILLS times (2,000), lets allocations fail in bursts at every 7th place, kills one of
# three processes that want the same state PENSTOCK_FIGHTS times (200), lets the disk be full at every step of every file,
# measures the memory of 40 graphs from outside, tries every limit on threads and addresses, and writes the figures into
# docs/reliability.md, with the date and the machine; then drives batches and values through a million schedules, and
# watches feeds, towers and every stage by ThreadSanitizer.
# Takes two hours. The kills alone, of another build: tools/reliability.sh build/asan/bin/crash_crash_test
set -euo pipefail
cd "$(dirname "$0")/.."

test=${1:-}
if [ -z "$test" ]; then
  tools/build.sh release crash_crash_test storm_malloc_test storm_new_test e2e_contention_test e2e_full_disk_test \
    rss_rss_test limits_limits_test engine_schedules_test
  test=build/release/bin/crash_crash_test
fi
page=docs/reliability.md
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)

# figures MARK COMMAND...: runs it and writes the figures that it prints between the page's marks.
figures() {
  local mark=$1
  shift
  "$@" | tee "$log"
  {
    sed "/<!-- $mark -->/q" "$page"
    printf '\nMeasured on %s, %s, %d CPUs, Linux %s.\n\n' "$(date -u +%F)" "$cpu" "$(nproc)" "$(uname -r)"
    sed -n 's/^figure: | /| /p;t;s/^figure: /- /p' "$log"
    printf '\n'
    sed -n "/<!-- end of $mark -->/,\$p" "$page"
  } > "$log.page"
  mv "$log.page" "$page"
}

figures kills env PENSTOCK_KILLS="${PENSTOCK_KILLS:-2000}" "$test" --gtest_filter='Crash.*'
[ -z "${1:-}" ] || exit 0
figures storms env PENSTOCK_STORM=full bash -c 'build/release/bin/storm_malloc_test && build/release/bin/storm_new_test'
figures files env PENSTOCK_FIGHTS="${PENSTOCK_FIGHTS:-200}" PENSTOCK_DISKS=all \
  bash -c 'build/release/bin/e2e_contention_test && build/release/bin/e2e_full_disk_test'
figures rss env PENSTOCK_RSS=full build/release/bin/rss_rss_test
figures limits env PENSTOCK_LIMITS=all build/release/bin/limits_limits_test
PENSTOCK_SCHEDULES=1000000 build/release/bin/engine_schedules_test
# What CI has no time for.
tools/setup.sh --checks
tools/sanitized.sh tsan staging/{feed,feed_state,feed_proof,share_slots} towers/{trainer,exchange,strategies} \
  conformance/{conformance,semantics_order,semantics_batch,semantics_errors,semantics_cache,semantics_interleave}
