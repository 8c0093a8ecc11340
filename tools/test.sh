#!/usr/bin/env bash
# Sets up what is missing, builds the release preset and runs every test. Arguments go to ctest: tools/test.sh -R core/
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
echo "test: building (build/release)"
cmake --preset release --log-level=WARNING
cmake --build --preset release
echo "test: running"
ctest --preset release -j "$(nproc)" "$@"
