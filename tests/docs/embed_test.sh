#!/usr/bin/env bash
# examples/embed (the first argument) over images that the program penstock (the second) makes: it loses nothing in
# silence. Where one of 600 files is cut it ends with an error that names the file; where none is it takes all.
set -euo pipefail
program=$1 penstock=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
  echo "$1" >&2
  exit 1
}

"$penstock" synth --images 600 --size 24x32 photos >/dev/null
"$program" photos >out 2>err || fail "$(cat out err)"
grep -qx "2 trainers took 600 elements in 19 batches" out || fail "of 600 images: $(cat out)"

mapfile -t files < <(find photos -name '*.jpg' | sort)
cut=${files[417]}
truncate -s 300 "$cut"
for _ in 1 2 3 4 5; do  # which thread meets it is up to them
  if "$program" photos >out 2>err; then fail "a file that is cut was lost: $(cat out)"; fi
  grep -qF "$(basename "$cut")" err || fail "the error does not name $cut: $(cat err)"
done
