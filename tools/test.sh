#!/usr/bin/env bash
# Installs missing packages, builds the release preset and runs every test but those labelled `reliability`, which take
# too long (tools/reliability.sh). The last line counts what passed, failed and was skipped, and why.
#
#     tools/test.sh                # all
#     tools/test.sh -R core/rng    # builds only the programs whose names begin so, and runs their tests
#
# Other arguments go to ctest, which then chooses among all tests.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh

# The programs in FOLDER/NAME... of an argument `-R FOLDER/NAME...`; none if there is no such argument, or no such program.
programs=()
if [ "${1:-}" = -R ] && [[ ${2:-} =~ ^\^?([a-z0-9_]+/[a-z0-9_]*) ]]; then
  [ -f build/release/tests/programs.txt ] || tools/build.sh release test_places >/dev/null
  mapfile -t programs < <(awk -v name="${BASH_REMATCH[1]}" 'index($1, name) == 1 { print $2 }' build/release/tests/programs.txt)
fi
tools/build.sh release "${programs[@]}"

if [ $# -eq 0 ]; then set -- -LE reliability; fi
[ ! -t 1 ] || set -- --progress "$@"
result=0
# Most tests wait rather than compute.
ctest --preset release -j "$((3 * $(nproc)))" "$@" || result=$?

read -r passed failed skipped < <(awk -f tools/count_tests.awk build/release/Testing/Temporary/LastTest.log)
echo "test: $passed passed, $failed failed, ${skipped%% *} skipped${skipped#"${skipped%% *}"}, $SECONDS s"
exit $result
