#!/usr/bin/env bash
# Installs the Debian packages that Penstock is built from; does nothing when all are there. `--checks` adds those that
# .ci/run needs beyond that. docs/dependencies.md says what each is for. CUDA is never installed: it is used if found.
# Exits with 75 if packages could not be downloaded, and with 1 for any other failure.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build ccache pkg-config libtbb-dev libboost1.81-dev libjpeg62-turbo-dev libpng-dev zlib1g-dev
  libisal-dev libhwy-dev libxxhash-dev liburing-dev libre2-dev liblz4-dev libtomlplusplus-dev nlohmann-json3-dev libcli11-dev libgtest-dev
  libgmock-dev libdnnl-dev libicu-dev libfarmhash-dev libabsl-dev libgrpc++-dev libprotobuf-dev protobuf-compiler-grpc
  libgloo-dev libcurl4-openssl-dev libssl-dev)
if [ "${1:-}" = --checks ]; then
  packages+=(git clang clang-format clang-tidy lld libclang-rt-dev shellcheck doxygen dpkg-dev file openmpi-bin slurm-wlm prometheus graphviz
    libfuse3-dev etcd-server nginx-light apache2-bin lighttpd python3-dev python3-venv debootstrap)
elif [ $# -gt 0 ]; then
  echo "usage: tools/setup.sh [--checks]" >&2
  exit 2
fi

# What is not Debian's.
say_cuda() {
  command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] ||
    echo "setup: no nvcc here, so cuda: devices are not built; NVIDIA's CUDA toolkit (12 or later) has it, for GPU training beside cuDNN 9 and NCCL"
}

installed=" $(dpkg-query -W -f '${db:Status-Status}=${Package} ' "${packages[@]}" 2>/dev/null || true)"
missing=()
for package in "${packages[@]}"; do
  [[ $installed == *" installed=$package "* ]] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: all ${#packages[@]} packages are installed"
  say_cuda
  exit 0
fi

root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: become root or install sudo, then run this again; missing: ${missing[*]}" >&2
    exit 1
  fi
  root=(sudo)
fi

mkdir -p build
log=build/setup.log
: >"$log"
# Descriptor 3 is made below sudo, which would close it.
apt() {
  "${root[@]}" sh -c 'DEBIAN_FRONTEND=noninteractive exec apt-get "$@" 3>&1' apt -o APT::Status-Fd=3 \
    -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 "$@" </dev/null 2>&1
}

# Turns apt's status lines into a percentage, on one line on a terminal, and keeps the rest for when it fails.
progress() {
  local line kind percent said=-1
  while IFS= read -r line; do
    case $line in
      dlstatus:*) kind=downloading ;;
      pmstatus:*) kind=installing ;;
      *)
        echo "$line" >>"$log"
        continue
        ;;
    esac
    percent=${line#*:*:}
    percent=${percent%%[.:]*}
    if [ -t 1 ]; then
      printf '\rsetup: %-11s %3d %%' "$kind" "$percent"
    elif [ "$kind$((percent / 25))" != "$said" ]; then
      echo "setup: $kind $percent %"
    fi
    said=$kind$((percent / 25))
  done
  [ ! -t 1 ] || echo
}

echo "setup: installing ${#missing[@]} packages: ${missing[*]}"
if ! { apt update && apt install -y --no-install-recommends "${missing[@]}"; } | progress; then
  tail -n 30 "$log" >&2
  echo "setup: apt-get failed, see above or $log. Penstock is built and tested on Debian 12." >&2
  # apt-get update succeeds without a network; then packages are unknown or old.
  if grep -qE 'Failed to fetch|Unable to fetch|Could not (resolve|connect)|Temporary failure resolving' "$log"; then exit 75; fi
  exit 1
fi
say_cuda
echo "setup: done"
