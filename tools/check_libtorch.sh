#!/usr/bin/env bash
# Compares examples/libtorch with PyTorch's DistributedDataParallel: ResNet-18 on two towers, one thread for operators,
# losses within 1e-5 over 5 steps in f32 and within 1e-6 over 20 in f64; four towers, and four virtual towers on two
# devices, beside four ranks. No batch may be copied, and the input may take 3 % of the CPU time.
#
#     tools/check_libtorch.sh PYTHON [PROGRAM]    PYTHON has torch; PROGRAM: build/release/bin/examples/libtorch
#
# Prints a table for bench/results.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:?usage: tools/check_libtorch.sh PYTHON [PROGRAM]}
program=${2:-build/release/bin/examples/libtorch}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1
peer=bench/peers/ddp_resnet18.py
broken=0

# compare NAME LIMIT OURS THEIRS: the largest difference of two lists of losses.
compare() {
  local result
  result=$(paste -d' ' <(grep '^step' "$3") <(grep '^step' "$4") | awk -v limit="$2" '
    NF != 8 || $2 != $6 { bad = 1 }
    { d = $4 - $8; if (d < 0) d = -d; if (d > most) most = d; ++steps; last = $4 }
    END { printf "%d | %.6f | %.2g | %s | %s\n", steps, last, most, limit,
          bad || steps == 0 || !(most <= limit) ? "no" : "yes" }')
  echo "| $1 | $result |"
  [[ $result = *"| yes" ]] || broken=1
}
# input NAME OURS: that nothing was copied, and what the input took.
input() {
  local line
  line=$(tail -n 1 "$2")
  echo "$1: $line"
  awk '{ exit !($1 == 0 && $6 <= 3) }' <<<"$line" || broken=1
}

for dtype in f32 f64; do
  "$python" $peer make "$work/$dtype" $dtype 400
done
ours() {  # DTYPE STEPS ARGUMENTS...: ours over the files of that dtype
  local dtype=$1 steps=$2 flag=()
  shift 2
  [ "$dtype" = f32 ] || flag=(--f64)
  "$@" --images "$work/$dtype/images.npy" --labels "$work/$dtype/labels.npy" --init "$work/$dtype/init.f64" \
    --steps "$steps" --batch 8 "${flag[@]}"
}

"$python" $peer run "$work/f32" f32 2 5 8 >"$work/ddp32"
"$python" $peer run "$work/f64" f64 2 20 8 >"$work/ddp64"
"$python" $peer run "$work/f64" f64 4 5 8 >"$work/ddp64x4"
ours f32 5 "$program" >"$work/ours32"
ours f64 20 "$program" >"$work/ours64"
ours f64 5 "$program" --towers 4 --devices 4 >"$work/ours64x4"
ours f64 5 "$program" --towers 4 --devices 2 >"$work/virtual64"

echo "| ResNet-18, batches of 8 | steps | last loss | largest difference | at most | |"
echo "|---|---|---|---|---|---|"
compare "two towers beside DDP with two ranks, f32" 1e-5 "$work/ours32" "$work/ddp32"
compare "the same, f64" 1e-6 "$work/ours64" "$work/ddp64"
compare "four towers beside DDP with four ranks, f64" 1e-6 "$work/ours64x4" "$work/ddp64x4"
compare "four virtual towers on two devices beside DDP with four ranks, f64" 1e-6 "$work/virtual64" "$work/ddp64x4"
echo
input "f32" "$work/ours32"
input "f64" "$work/ours64"
exit $broken
