#!/usr/bin/env bash
# Compiles each case of misuse.cpp alone: case 0 compiles, each other is refused with the sentence beside its number, as
# the only error. misuse_test.sh SOURCE_DIR CXX
set -euo pipefail
source=$1 cxx=$2
cases=$source/tests/house/misuse.cpp
work=$(mktemp -d)
said=$work/said
trap 'rm -rf "$work"' EXIT
# The headers are precompiled: they are nearly all that a case takes to compile.
grep '^#include' "$cases" >"$work/headers.h"
"$cxx" -std=c++20 -I"$source/include" -x c++-header "$work/headers.h" -o "$work/headers.h.gch"

compile() {  # compile CASE
  "$cxx" -std=c++20 -fsyntax-only -I"$source/include" -include "$work/headers.h" -DCASE="$1" "$cases" >"$said" 2>&1
}

if ! compile 0; then
  cat "$said" >&2
  exit 1
fi
count=0
while read -r number sentence; do
  count=$((count + 1))
  if compile "$number"; then
    echo "case $number compiles" >&2
    exit 1
  fi
  errors=$(grep -c 'error:' "$said" || true)
  if [ "$errors" != 1 ] || ! grep 'error:' "$said" | grep -qF "$sentence"; then
    echo "case $number: $errors errors, and expected one that says: $sentence" >&2
    cat "$said" >&2
    exit 1
  fi
done < <(sed -n 's,^#elif CASE == \([0-9]*\) *// ,\1 ,p' "$cases")
if [ "$count" -lt 18 ]; then
  echo "only $count cases were found" >&2
  exit 1
fi
