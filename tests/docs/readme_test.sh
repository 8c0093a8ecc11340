#!/usr/bin/env bash
# The README's own program (the first argument) over images that the program penstock (the second) makes: it loses
# nothing in silence. Without the folder it ends with the message that the README shows. Where one of 600 files is cut it ends with an error that names the file; where none is it makes
# all steps of its 90 epochs.
set -euo pipefail
program=$1 penstock=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
  echo "$1" >&2
  exit 1
}

if "$program" >out 2>err; then fail "a folder that is missing was not noticed: $(cat out)"; fi
[ "$(cat err)" = "no such file or folder: photos" ] || fail "without the folder the program says: $(cat err)"

"$penstock" synth --images 600 --size 24x32 photos >/dev/null
mapfile -t files < <(find photos -name '*.jpg' | sort)
[ ${#files[@]} -eq 600 ] || fail "${#files[@]} images were made"
cut=${files[417]}
truncate -s 300 "$cut"
if "$program" >out 2>err; then fail "a file that is cut was lost: $(cat out)"; fi
grep -qF "$(basename "$cut")" err || fail "the error does not name $cut: $(cat err)"

rm -r photos
"$penstock" synth --images 70 --size 24x32 photos >/dev/null
"$program" >out 2>err || fail "$(cat err)"
[ "$(cat out)" = "90 steps" ] || fail "of 90 batches of 64 there were $(cat out)"
