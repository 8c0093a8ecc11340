#!/usr/bin/env bash
# Builds the pages and the reference of include/penstock as one site, with search, to be read from a
# disk or any web server. `tools/site.sh [FOLDER]`: by default build/site, which it replaces. Fails
# if Doxygen warns, as it does of what has no comment, and if a link within the site is dead.
set -euo pipefail
[ $# -le 1 ] || { echo "usage: tools/site.sh [FOLDER]" >&2; exit 2; }
site=$(realpath -m "${1:-$(dirname "$0")/../build/site}")
cd "$(dirname "$0")/.."
command -v doxygen >/dev/null || { echo "site: no doxygen here; apt-get install doxygen has it" >&2; exit 1; }
if [ -e "$site" ] && [ ! -e "$site/doxygen.css" ] && [ -n "$(ls -A "$site")" ]; then
  echo "site: $site is not empty, and no site: name another folder" >&2
  exit 1
fi

rm -rf "$site"
mkdir -p "$site"
version=$(sed -n 's/^project(.*VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
PENSTOCK_VERSION=$version PENSTOCK_SITE=$site doxygen docs/Doxyfile 2>"$log" || { cat "$log" >&2; exit 1; }
if [ -s "$log" ]; then
  sort -u "$log" >&2
  echo "site: Doxygen warns of the above" >&2
  exit 1
fi
tools/site.pl --finish "$site" || { echo "site: the links above are dead" >&2; exit 1; }
echo "$site/index.html"
