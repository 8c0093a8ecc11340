#!/usr/bin/env bash
# Builds the Python wheel, installs it into build/wheel-env with nothing but numpy, pyarrow, pytest and mypy, and tests it
# there: tools/python_tests.sh [--asan] [PACKAGE...]
#
# --asan: tests a module with AddressSanitizer, too, in build/asan.
# Packages such as torch, torchvision and jax are installed, too (gigabytes); their tests skip without them. Exits with 75 if
# PyPI can't be reached.
set -euo pipefail
cd "$(dirname "$0")/.."

asan=
if [ "${1:-}" = --asan ]; then asan=1 && shift; fi
tools/wheel.sh
environment=build/wheel-env
rm -rf $environment
"${PYTHON:-python3}" -m venv $environment
$environment/bin/pip install --quiet numpy==2.4.6 pyarrow==26.0.1 ml_dtypes==0.6.0 pytest==9.2.0 mypy==2.4.1 "$@" || exit 75
$environment/bin/pip install --quiet --no-deps --no-index build/wheels/*.whl
$environment/bin/mypy --strict --cache-dir build/wheel-env/mypy examples/python/*.py
$environment/bin/python -B -m pytest -q -p no:cacheprovider tests/python
if [ -n "$asan" ]; then
  cmake --preset asan -DPENSTOCK_BUILD_PYTHON=ON -DPython_EXECUTABLE="$PWD/build/wheel-tools/bin/python" >build/configure.log
  tools/build.sh asan penstock_python_package
  LD_PRELOAD=$(clang++ -print-file-name=libclang_rt.asan-x86_64.so) ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1 \
    PYTHONPATH=build/asan/python $environment/bin/python -B -m pytest -q -p no:cacheprovider tests/python
fi
