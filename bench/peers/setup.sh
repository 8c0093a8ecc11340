#!/usr/bin/env bash
# Installs the peers, in the versions of requirements.txt, into the virtual environment build/peers, and where there is a
# Python 3.10 (python3.10, or what PYTHON310 names) FFCV into build/peers-ffcv: several gigabytes from PyPI. FFCV is built
# from source, with the Debian packages libopencv-dev and libturbojpeg0-dev. bench/run.sh runs whatever is there.
set -euo pipefail
cd "$(dirname "$0")/../.."

# install VENV PYTHON REQUIREMENTS
install() {
  if [ ! -x "$1/bin/python" ]; then "$2" -m venv "$1"; fi
  "$1/bin/python" -m pip install --quiet --requirement "$3"
  "$1/bin/python" - "$3" <<'PYTHON'
import importlib.metadata as metadata
import sys
for line in open(sys.argv[1]):
    if "==" in line:
        name, wanted = line.strip().split("==")
        print(f"peers: {name} {metadata.version(name)}")
PYTHON
}

install build/peers python3 bench/peers/requirements.txt

python310=${PYTHON310:-$(command -v python3.10 || true)}
if [ -z "$python310" ]; then
  echo "peers: no FFCV: it wants Python 3.10; name one in PYTHON310" >&2
elif ! pkg-config --exists opencv4 libturbojpeg; then
  echo "peers: no FFCV: it wants the packages libopencv-dev and libturbojpeg0-dev" >&2
else
  mkdir -p build/peers-pkgconfig  # it looks for OpenCV under a name that Debian does not use
  cp "$(pkg-config --variable=pcfiledir opencv4)/opencv4.pc" build/peers-pkgconfig/opencv.pc
  export PKG_CONFIG_PATH=$PWD/build/peers-pkgconfig
  install build/peers-ffcv "$python310" bench/peers/requirements-ffcv.txt
fi
