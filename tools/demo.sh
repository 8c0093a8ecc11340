#!/usr/bin/env bash
# Sets up what is missing, builds the program, writes 2,000 synthetic photographs and profiles the pipeline that a
# trainer would read them through. Arguments go to the profiler: tools/demo.sh --threads 1
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
tools/build.sh release penstock_tool

penstock=build/release/bin/penstock
images=build/demo-images
if [ ! -d $images ]; then
  echo "demo: writing synthetic photographs to $images"
  $penstock synth $images.part --images 2000 --force
  mv $images.part $images
fi
command=("$penstock" profile --images "$images" --shuffle --random-resized-crop 224 --flip --normalize --batch 64
  --epochs 2 --seed 7 "$@")
printf 'demo: %s\n\n' "${command[*]}"
"${command[@]}"
