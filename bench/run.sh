#!/usr/bin/env bash
# Builds the release preset and runs benchmarks, all or those named: bench/run.sh [NAME...] [--images FOLDER]
# [--peers VENV] [--rounds N] [--no-peers]. One JSON line each: ours, limit, peers, ratios, machine, commit; then a table.
# See docs/performance.md.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh >&2
tools/build.sh release penstock_tool penstock_limits penstock_slow_io_bench penstock_start_bench penstock_tuning_bench penstock_growth_bench penstock_uneven_bench >&2
exec python3 bench/suite.py "$@"
