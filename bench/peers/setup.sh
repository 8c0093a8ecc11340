#!/usr/bin/env bash
# Installs the peers, in the versions of requirements.txt, into the virtual environment build/peers: several gigabytes
# from PyPI. bench/run.sh runs whatever is there.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=build/peers/bin/python
if [ ! -x "$python" ]; then python3 -m venv build/peers; fi
"$python" -m pip install --quiet --requirement bench/peers/requirements.txt
"$python" - <<'PYTHON'
import importlib.metadata as metadata
for line in open("bench/peers/requirements.txt"):
    if "==" in line:
        name, wanted = line.strip().split("==")
        print(f"peers: {name} {metadata.version(name)}")
PYTHON
