#!/usr/bin/env bash
# Sets up what is missing, builds the release preset and runs every test. Arguments go to ctest: tools/test.sh -R core/
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
tools/build.sh release
ctest --preset release -j "$(nproc)" "$@"
