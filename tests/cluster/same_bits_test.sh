#!/usr/bin/env bash
# One digest however a job of four towers is started: 1 process x 4 towers, 2 x 2 and 4 x 1, below mpirun, torchrun (or
# with its variables), srun and TF_CONFIG, those that are installed. With the ring's exchange losses agree with it to a
# relative 1e-5 over 5 steps, or within three times of what rings differ that add up in different orders; over 50, where
# rounding grows, within that.
# `same_bits_test.sh PROGRAM` trains the CIFAR-10 network as 2 x 2 below each launcher; with `full` behind it that and
# ResNet-18, in all ways, and 50 steps. Prints what was found.
set -euo pipefail
program=$(realpath "$1")
full=${2:-short}
# Seconds for one job, so that the script, not its caller, says which one hung.
bound=60
[ "$full" = short ] || bound=300
folder=$(mktemp -d)
# shellcheck source=tests/cluster/launching.sh
. "$(dirname "$0")/launching.sh"
end() {
  end_jobs
  rm -rf "$folder"
}
trap end EXIT
cd "$folder"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

fail() {
  printf 'failed: %s\n' "$1"
  tail -n 5 ./*.err 2>/dev/null || true
  exit 1
}
# value KEY FILE: of a line `  "KEY": VALUE,`.
value() { sed -n "s/^  \"$1\": \"\?\([^\",]*\)\"\?,\?$/\1/p" "$2"; }
# losses FILE STEPS
losses() { sed -n '/"train_loss": \[/,/\]/p' "$1" | grep -oE -- '-?[0-9.]+(e-?[0-9]+)?' | head -n "$2"; }

# under LAUNCHER PROCESSES OUT FLAGS...: rank 0 writes its JSON to OUT.
under() {
  local launcher=$1 processes=$2 out=$3 port rank members="" separator=""
  shift 3
  port=$(free_port "$processes")
  case $launcher in
    mpirun)
      timeout "$bound" mpirun --oversubscribe --bind-to none -n "$processes" "$program" "$@" --json "$out" >run.err 2>&1 ;;
    torchrun)
      timeout "$bound" torchrun --no-python --nproc-per-node "$processes" --master-port "$port" \
        "$program" "$@" --json "$out" >run.err 2>&1 ;;
    srun)
      timeout "$bound" srun -n "$processes" --overcommit "$program" "$@" --json "$out" >run.err 2>&1 ;;
    variables | TF_CONFIG)
      local jobs=()
      for ((rank = 0; rank < processes; ++rank)); do
        members+="$separator\"127.0.0.1:$((port + rank))\""
        separator=,
      done
      for ((rank = 0; rank < processes; ++rank)); do
        if [ "$launcher" = variables ]; then
          RANK=$rank WORLD_SIZE=$processes MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            timeout "$bound" "$program" "$@" --json "$out" >"$rank.err" 2>&1 &
        else
          TF_CONFIG="{\"cluster\":{\"worker\":[$members]},\"task\":{\"type\":\"worker\",\"index\":$rank}}" \
            timeout "$bound" "$program" "$@" --json "$out" >"$rank.err" 2>&1 &
        fi
        jobs+=($!)
      done
      for job in "${jobs[@]}"; do wait "$job" || return 1; done ;;
  esac
}

launchers=(TF_CONFIG)
if command -v mpirun >/dev/null; then launchers+=(mpirun); else echo "mpirun: skipped, not installed"; fi
if command -v torchrun >/dev/null; then
  launchers+=(torchrun)
else
  launchers+=(variables)
  echo "torchrun: not installed, its variables are set"
fi
if start_slurm "$folder"; then launchers+=(srun); fi

"$program" synth cifar --format cifar10 --images 200 --size 32x32 >/dev/null
networks=(cifar10)
processes=(2)
if [ "$full" = full ]; then
  "$program" synth photos --format tar --images 80 --size 240x320 >/dev/null
  networks+=(resnet18)
  processes=(1 2 4)
fi

# network NAME DATA STEPS BATCH
network() {
  local flags digest found many towers launcher
  flags=(train --model "$1" --data "$2" --max-steps "$3" --epochs 99 --batch "$4" --schedule constant:0.02
    --deterministic --quiet)
  timeout "$bound" "$program" "${flags[@]}" --device host:0,host:1,host:2,host:3 --json one.json 2>one.err || fail "one process"
  digest=$(value variables_digest one.json)
  [ -n "$digest" ] || fail "one process has no digest"
  for launcher in "${launchers[@]}"; do
    for many in "${processes[@]}"; do
      towers=$(seq -s, -f host:%.0f 0 $((4 / many - 1)))
      rm -f many.json
      under "$launcher" "$many" many.json "${flags[@]}" --device "$towers" || fail "$1, $launcher, $many processes"
      found=$(value variables_digest many.json)
      [ "$found" = "$digest" ] || fail "$1, $launcher, $many processes: digest $found, not $digest"
      printf '%s %s %d x %d: %s\n' "$1" "$launcher" "$many" $((4 / many)) "$found"
    done
  done
}
# ring NAME DATA BATCH RATE STEPS: how far losses are from those of `ordered`, and those of three rings from each other.
ring() {
  local flags bucket
  flags=(train --model "$1" --data "$2" --max-steps "$5" --epochs 999 --batch "$3" --schedule "constant:$4"
    --deterministic --quiet --device host:0)
  under "${launchers[0]}" 4 ordered.json "${flags[@]}" || fail "$1, ordered"
  for bucket in 4MiB 1MiB 64KiB; do
    under "${launchers[0]}" 4 "ring-$bucket.json" "${flags[@]}" --exchange ring --bucket $bucket ||
      fail "$1, ring, $bucket"
  done
  paste <(losses ordered.json "$5") <(losses ring-4MiB.json "$5") <(losses ring-1MiB.json "$5") \
    <(losses ring-64KiB.json "$5") |
    awk -v name="$1" -v wanted="$5" '
    function apart(a, b) { return a > b ? (a - b) / a : (b - a) / a }
    function larger(a, b) { return a > b ? a : b }
    {
      most = larger(most, apart($1, $2))
      rings = larger(rings, larger(apart($2, $3), larger(apart($2, $4), apart($3, $4))))
      ++steps
    }
    END {
      printf "%s ring: losses of %d steps are a relative %.2g from those of ordered, rings %.2g from each other\n",
        name, steps, most, rings
      exit steps != wanted || ((wanted > 5 || most > 1e-5) && most > 3 * rings)
    }' || fail "$1: the losses of ring and ordered differ"
  [ "$(value variables_digest ordered.json)" != "$(value variables_digest ring-4MiB.json)" ] ||
    echo "$1 ring: the same digest"
}
network cifar10 "$(echo cifar/*.bin)" 5 4
ring cifar10 "$(echo cifar/*.bin)" 4 0.02 5
if [ "$full" = full ]; then
  network resnet18 "$(echo photos/*.tar)" 5 1
  ring resnet18 "$(echo photos/*.tar)" 8 0.001 5
  ring cifar10 "$(echo cifar/*.bin)" 4 0.02 50
  ring resnet18 "$(echo photos/*.tar)" 2 0.001 50
fi
