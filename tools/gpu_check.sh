#!/usr/bin/env bash
# What only a GPU can show. `tools/gpu_check.sh build [FILE [PHOTOS [WHEELS]]]` compiles for sm_90 (and PTX, for what follows)
# with the nvcc that is here, and writes a bundle of what a machine with a driver, the CUDA toolkit and NVIDIA's Python wheels
# for cuDNN and NCCL lacks: programs, their libraries, this script, 20 JPEGs of the folder PHOTOS, and the unpacked wheels of
# the folder WHEELS. There, `./gpu_check.sh run` does all that gpu_check.py plans within 540 s, and keeps $OUT/gpu_check.json
# whole whenever it is cut off. Without arguments: run if this is a bundle, else build.
#
# The check compares our JPEG decoding with that of PyTorch's torchvision and of libnvjpeg, where they are installed. For
# nvImageCodec, download two wheels for the CUDA version there (12: -cu12, and nvidia-nvjpeg-cu12):
#     pip download --no-deps -d WHEELS nvidia-nvimgcodec-cu13 nvidia-nvjpeg
# DALI's wheel has 199 MB, and is not in the bundle. docs/adr/device-images.md says how to measure it once, by hand.
set -euo pipefail
from=$PWD
cd "$(dirname "$0")"

suite=(staging_device_test staging_area_test staging_area_contents_test staging_lifetimes_test staging_finish_test
  staging_reconstruct_test staging_reconstruct_faults_test staging_scans_test staging_cuda_test towers_gpu_test)
programs=(penstock penstock_staging_bench penstock_towers_bench penstock_reconstruct_bench "${suite[@]}")
limit=$((52 << 20)) # beside a checkout of 11 MiB, within 64 MiB

fail() {
  echo "gpu_check: $*" >&2
  exit 1
}

build() {
  local file=${1:-$PWD/../build/gpu_check.tar.xz} photos=${2:-} wheels=${3:-} bundle size wheel
  # Names are relative to where the caller is.
  [[ $file == /* ]] || file=$from/$file
  [[ -z $photos || $photos == /* ]] || photos=$from/$photos
  [[ -z $wheels || $wheels == /* ]] || wheels=$from/$wheels
  command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || fail "no nvcc here: install the CUDA toolkit"
  ./build.sh cuda penstock_tool penstock_cuda penstock_towers_cuda "${programs[@]:1}" >&2
  bundle=$(mktemp -d)
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$bundle'" EXIT
  mkdir "$bundle/bin" "$bundle/lib"
  for program in "${programs[@]}" libpenstock_cuda.so libpenstock_towers_cuda.so; do
    strip -o "$bundle/bin/$program" "../build/cuda/bin/$program"
    # What every Linux has, in the version that its loader needs, stays where it is.
    ldd "../build/cuda/bin/$program" | awk '$3 ~ /^\// {print $3}' |
      grep -Ev '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv))\.so' | xargs -r cp -nLt "$bundle/lib"
  done
  chmod +x "$bundle"/bin/*
  cp gpu_check.sh gpu_check.py ../bench/peers/{resnet50_steps,jpeg_on_device,jpeg_decoders}.py "$bundle"
  if [ -n "$photos" ]; then
    mkdir -p "$bundle/photos/jpegs"
    find "$photos" -iname '*.jp*g' | sort | sed -n 1,20p | xargs -d '\n' cp -t "$bundle/photos/jpegs"
    ../build/cuda/bin/penstock pack --images "$bundle/photos/jpegs" --jpeg coefficients --out "$bundle/photos/photos.pnr" >&2
  fi
  if [ -n "$wheels" ]; then
    for wheel in "$wheels"/*.whl; do python3 -m zipfile -e "$wheel" "$bundle/wheels"; done
  fi
  git rev-parse HEAD >"$bundle/commit"
  mkdir -p "$(dirname "$file")"
  tar -C "$bundle" -c . | xz -T0 -6 >"$file"
  size=$(stat -c %s "$file")
  [ "$size" -le $limit ] || fail "$file has $size bytes, more than $limit"
  echo "gpu_check: $file, $size bytes; there: mkdir check && tar -xJf $(basename "$file") -C check && check/gpu_check.sh run"
}

run() {
  [ -d bin ] || fail "this is no bundle: tools/gpu_check.sh build makes one"
  command -v python3 >/dev/null || fail "no python3 here"
  exec python3 ./gpu_check.py run "$@"
}

action=${1:-}
[ $# -eq 0 ] || shift
if [ -z "$action" ]; then action=$([ -d bin ] && echo run || echo build); fi
case $action in
  build) build "$@" ;;
  run) run "$@" ;;
  *) fail "usage: gpu_check.sh [build [FILE [PHOTOS [WHEELS]]] | run]" ;;
esac
