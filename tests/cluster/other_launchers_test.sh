#!/usr/bin/env bash
# Runs each row of docs/cluster.md ("From other launchers") on a little data:
# `other_launchers_test.sh PROGRAM [FIRST [LAST]]`. A row whose launcher is not installed is said to be skipped; those of
# torchrun have its variables set then. Where TF_CONFIG lists several, each of them is started. Every row has to make its
# updates, and those of evaluators an evaluation.
set -euo pipefail
program=$(realpath "$1")
first=${2:-1}
last=${3:-1000}
page=$(realpath "$(dirname "$0")/../../docs/cluster.md")
folder=$(mktemp -d)
# shellcheck source=tests/cluster/launching.sh
. "$(dirname "$0")/launching.sh"
end() {
  end_jobs
  rm -rf "$folder"
}
trap end EXIT
cd "$folder"
mkdir bin
ln -s "$program" bin/penstock
export PATH=$folder/bin:$PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Rows say what they need; a test's own surroundings say nothing.
unset TF_CONFIG RANK WORLD_SIZE MASTER_ADDR MASTER_PORT SLURM_STEP_ID PMIX_RANK JOB_COMPLETION_INDEX PENSTOCK_ALONE

penstock synth cifar --format cifar10 --images 48 --size 32x32 >/dev/null
cat cifar/*.bin >data.bin
JOB=$(sed -n 's/^JOB="\(.*\)"$/\1/p' "$page")
[ -n "$JOB" ] || { echo "the page does not say what JOB is"; exit 1; }
export JOB
told=$JOB

# limited COMMAND NAME: in the background.
limited() { timeout -k 5 100 bash -c "$1" </dev/null >"$2.out" 2>&1 & }

# all_end: every job of the row has ended with 0.
all_end() {
  local job
  for job in "$@"; do wait "$job" || return 1; done
}

# row COMMAND: in a folder of its own.
row() {
  local command=$1 task jobs=() rank
  case $command in
    TF_CONFIG=*)
      local tasks=()
      mapfile -t tasks < <(grep -oE '"(chief|master|worker|evaluator)": (\[[^]]*\]|\{[^}]*\})' <<<"$command" |
        awk -F'"' '{ n = gsub(/127\.0\.0\.1/, "&"); for (i = 0; i < n; ++i) printf "\"type\": \"%s\", \"index\": %d\n", $2, i }')
      # One that the cluster does not list, beside those that it does.
      grep -q '"task": {"type": "evaluator"' <<<"$command" && tasks+=('"type": "evaluator", "index": 0')
      for task in "${tasks[@]}"; do
        # shellcheck disable=SC2001  # a pattern that bash has not
        task=$(sed "s/\"task\": {[^}]*}/\"task\": {$task}/" <<<"$command")
        if [[ $task == *'"task": {"type": "evaluator"'* ]]; then
          JOB=${JOB/result.json/evaluated.json} limited "$task" "${#jobs[@]}"
        else
          limited "$task" "${#jobs[@]}"
        fi
        jobs+=($!)
      done ;;
    torchrun*)
      if command -v torchrun >/dev/null; then
        limited "${command/torchrun/torchrun --master-port $port}" 0
        jobs+=($!)
      else
        for rank in 0 1; do
          limited "RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            penstock ${command#*penstock}" $rank
          jobs+=($!)
        done
      fi ;;
    *)
      if [[ $command == *"--role evaluator"* ]]; then
        JOB=${JOB/result.json/evaluated.json} limited "$command" 0
        jobs+=($!)
        command="penstock train $JOB --checkpoint kept" # the run that it follows
      fi
      limited "$command" 1
      jobs+=($!) ;;
  esac
  all_end "${jobs[@]}" || return 1
}

steps_of() { sed -n 's/^  "steps": \([0-9]*\),$/\1/p' result.json 2>/dev/null; }

number=0 ran=0 skipped=0
mapfile -t rows < <(awk -F' [|] ' '/^## / { on = $0 == "## From other launchers" } on && /^\| / && $2 ~ /^`.*`$/ { gsub(/^`|`$/, "", $2); print $2 }' "$page")
for command in "${rows[@]}"; do
  number=$((number + 1))
  if [ $number -lt "$first" ] || [ $number -gt "$last" ]; then continue; fi
  port=$(free_port 12)
  case $command in
    --*) full="penstock train \$JOB $command" ;;
    *) full=$command ;;
  esac
  tool=${full%% *}
  case $tool in
    mpirun)
      if ! command -v mpirun >/dev/null; then
        printf 'SKIPPED: %s: mpirun is not installed\n' "$command"
        skipped=$((skipped + 1))
        continue
      fi ;;
    srun)
      if ! start_slurm "$folder"; then
        printf 'SKIPPED: %s\n' "$command"
        skipped=$((skipped + 1))
        continue
      fi ;;
    torchrun) command -v torchrun >/dev/null || printf 'torchrun is not installed, its variables are set: %s\n' "$command" ;;
  esac
  mkdir "row$number"
  cd "row$number"
  ln -s ../data.bin cifar10-train.bin
  ln -s ../data.bin cifar10-test.bin
  full=$(sed "s/:2222/:$port/g; s/:2223/:$((port + 1))/g; s/MASTER_PORT=2222/MASTER_PORT=$port/" <<<"$full")
  # What a row says replaces what all are told.
  JOB=$told
  for flag in max-steps batch eval-data; do
    if [[ $full == *"--$flag "* ]]; then JOB=$(sed -E "s/--$flag [^ ]+ ?//" <<<"$JOB"); fi
  done
  if ! row "$full"; then
    printf 'failed: row %d: %s\n' $number "$full"
    tail -n 5 ./*.out
    exit 1
  fi
  expected=6
  case $full in *"--max-steps 5"*) expected=5 ;; *"--max-steps 4"*) expected=4 ;; esac
  if [ "$(steps_of)" != $expected ]; then
    printf 'failed: row %d made %s updates, not %d: %s\n' $number "$(steps_of)" $expected "$full"
    tail -n 5 ./*.out
    exit 1
  fi
  case $full in
    *evaluator*)
      grep -q '"finished": true' evaluated.json || { printf 'failed: row %d: no evaluation: %s\n' $number "$full"; exit 1; } ;;
  esac
  cd ..
  ran=$((ran + 1))
done
printf '%d rows ran, %d were skipped\n' $ran $skipped
[ $ran -gt 0 ]
