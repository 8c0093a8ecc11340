#!/usr/bin/env bash
# Installs missing packages, builds the release preset and runs every test but those labelled `reliability`, which take
# too long (tools/reliability.sh). Arguments go to ctest, which then chooses among all tests: tools/test.sh -R core/
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
tools/build.sh release
if [ $# -eq 0 ]; then set -- -LE reliability; fi
ctest --preset release -j "$(nproc)" "$@"
