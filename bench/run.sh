#!/usr/bin/env bash
# Builds the release preset and runs benchmarks, all or those named: bench/run.sh [NAME...] [--images FOLDER]
# [--rounds N] [--no-peers]. One JSON line each: ours, limit, peers, ratios, machine, commit. See docs/performance.md.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh >&2
tools/build.sh release penstock_tool penstock_limits penstock_pipeline_bench penstock_image_bench >&2
exec python3 bench/suite.py "$@"
