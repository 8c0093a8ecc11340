#!/usr/bin/env bash
# Libraries define no names that a program of somebody else's may have, too: of a shared library (.so) all that it shows,
# of a static one (.a) all that is external, is in the namespace penstock or begins with penstock_. Let pass in a static
# library is what is weak: inline functions and templates of headers, of which every object that uses them has one, and
# the linker keeps one of all that are alike.
# symbols_test.sh LIBRARY...
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: symbols_test.sh LIBRARY..." >&2; exit 2; }

ours='^(penstock_|_Z(T[ISVTWH]|T[hv][n0-9_]*_|GV|GR|Z)*N[KRO]*8penstock)'
for library; do
  case $library in
    *.a) symbols=$(nm -g --defined-only "$library" 2>/dev/null | awk 'NF == 3 && $2 !~ /^[WVwvu]$/ { print $3 }') ;;
    *) symbols=$(nm -D --defined-only "$library" | awk '{ print $3 }') ;;
  esac
  count=$(grep -cE "$ours" <<<"$symbols" || true)
  [ "$count" -gt 0 ] || { echo "$library has no symbols of ours" >&2; exit 1; }
  if grep -vE "$ours" <<<"$symbols" | sort -u | c++filt; then
    echo "$library defines the names above, which are not of penstock" >&2
    exit 1
  fi
  echo "$(basename "$library"): $count symbols, all of penstock"
done
