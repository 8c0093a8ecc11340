#!/usr/bin/env bash
# Compares instructions per element, counted by callgrind, with those in bench/gate.txt: noise of the machine does not
# count. Fails where one grew by more than 3 %. `bench/gate.sh --update` writes the counts down as the new baseline.
# Needs valgrind. What a run costs before its first element cancels out, because each is run at two lengths.
set -euo pipefail
cd "$(dirname "$0")/.."

baseline=bench/gate.txt
work=build/gate
if ! command -v valgrind >/dev/null; then
  echo "gate: valgrind is missing: apt-get install valgrind" >&2
  exit 2
fi
tools/build.sh release penstock_tool >/dev/null
mkdir -p $work
[ -e $work/records.tfrecord ] || python3 bench/peers/make_records.py $work/records.tfrecord 200 2000000
[ -e $work/images ] || build/release/bin/penstock synth --images 40 --size 300x400 $work/images >/dev/null

# count FLAGS...: instructions and elements of one run.
count() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null build/release/bin/penstock profile --quiet --seed 7 \
    --threads 1 --json $work/report.json "$@" >$work/log 2>&1 || { tail $work/log >&2; return 1; }
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' $work/log
  sed -n 's/^ *"elements": \([0-9]*\),$/\1/p' $work/report.json | head -n 1
}

# measure NAME EPOCHS FLAGS...: instructions an element, from runs of one and of more epochs.
measure() {
  local name=$1 epochs=$2 short long
  shift 2
  mapfile -t short < <(count "$@" --epochs 2)
  mapfile -t long < <(count "$@" --epochs "$epochs")
  echo "$name $(((long[0] - short[0]) / (long[1] - short[1])))"
}

{
  measure range-identity 6 --range 200000 --identity --batch 1024
  measure range-shuffle 6 --range 200000 --shuffle --batch 1024
  measure tfrecord-200B 12 --tfrecord $work/records.tfrecord --batch 1024
  measure image-crop 5 --images $work/images --shuffle --random-resized-crop 224 --flip --normalize --batch 8
} | tee $work/now.txt

if [ "${1:-}" = --update ]; then
  cp $work/now.txt $baseline
  exit
fi
awk 'NR == FNR { was[$1] = $2; next }
     !($1 in was) { printf "gate: %s is not in the baseline\n", $1; bad = 1; next }
     $2 > 1.03 * was[$1] { printf "gate: %s takes %d instructions an element, %d before\n", $1, $2, was[$1]; bad = 1 }
     END { exit bad }' $baseline $work/now.txt
echo "gate: within 3 % of $baseline"
