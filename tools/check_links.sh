#!/usr/bin/env bash
# Refuses a layer whose object files need symbols of ours that no layer up to it defines: such a layer can't be linked
# without those above. `tools/check_links.sh FILE`, where each line of FILE is a layer's name and its object files, in
# the order of the layers. Prints one line per symbol and exits with 1 if there are any.
set -euo pipefail

found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
: >"$found/defined"
bad=0
while read -r layer objects; do
  [ -n "$layer" ] || continue
  read -ra files <<<"$objects"
  nm --defined-only "${files[@]}" | awk 'NF == 3 { print $3 }' >>"$found/defined"
  LC_ALL=C sort -u -o "$found/defined" "$found/defined"
  nm -u "${files[@]}" | awk '$1 == "U" && $2 ~ /^_Z.*8penstock/ { print $2 }' | LC_ALL=C sort -u >"$found/needed"
  LC_ALL=C comm -13 "$found/defined" "$found/needed" | c++filt | sed "s/^/$layer: /" >"$found/missing"
  cat "$found/missing"
  [ ! -s "$found/missing" ] || bad=1
done <"$1"
exit "$bad"
