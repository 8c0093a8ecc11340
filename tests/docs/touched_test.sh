#!/usr/bin/env bash
# The worked examples of docs/extending.md touch the files that the page's tables list, and no others: each is done on a
# copy of the tree, and what git finds changed is compared.
set -euo pipefail
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# section TITLE: that part of the page.
section() { awk -v title="## $1" '$0 == title { on = 1; next } /^## / { on = 0 } on' "$root/docs/extending.md"; }

# listed: the files in the first column of the first table. Reads to the end, so that the writer gets no SIGPIPE.
# shellcheck disable=SC2016  # the backquotes are the page's
listed() { awk '/^\|/ && !done { seen = 1; if (/^\| `/) print $0 } seen && !/^\|/ { done = 1 }' | cut -d'|' -f2 | grep -o '`[^`]*`' | tr -d '`' | sort; }

# done_for_real: applies the section's code to a copy of the files that it names, and prints what differs.
done_for_real() {
  local tree=$work/tree page=$work/page.md
  rm -rf "$tree"
  mkdir -p "$tree"
  cat >"$page"
  git -C "$tree" init -q
  awk -v list=1 -v page=page -f "$root/tests/docs/extract.awk" "$page" | while read -r kind path original; do
    [ "$kind" = file ] || continue
    mkdir -p "$tree/$(dirname "$path")"
    [ -z "$original" ] || cp "$root/$original" "$tree/$original"
  done
  git -C "$tree" add -A
  git -C "$tree" -c user.name=test -c user.email=test@example.org commit -q --allow-empty -m before
  awk -v page=page -v root="$root" -v out="$tree" -f "$root/tests/docs/extract.awk" "$page"
  git -C "$tree" add -A
  git -C "$tree" diff --cached --name-only | sort
}

# expect TITLE MOST: that many files at most, and those that the page lists.
expect() {
  local told touched
  told=$(section "$1" | listed)
  touched=$(section "$1" | done_for_real)
  if [ "$told" != "$touched" ]; then
    printf '%s: the page lists\n%s\nand its code touches\n%s\n' "$1" "$told" "$touched" >&2
    exit 1
  fi
  if [ "$(wc -l <<<"$touched")" -gt "$2" ]; then
    printf '%s touches more than %s files:\n%s\n' "$1" "$2" "$touched" >&2
    exit 1
  fi
  echo "$1: $(wc -l <<<"$touched") files"
}

# An anchor that the tree's file lacks is refused, with its line in the page.
refused() {
  local page=$work/refused.md said
  # shellcheck disable=SC2016  # the backquotes are the page's
  printf 'Text.\n\n<!-- after: README.md: no line begins so -->\n```cpp\nint n;\n```\n\nMore.\n' >"$page"
  if said=$(awk -v page=refused -v root="$root" -v out="$work" -f "$root/tests/docs/extract.awk" "$page" 2>&1); then
    echo "a block without its anchor was taken" >&2
    exit 1
  fi
  if [ "$said" != "$page:3: 0 lines of README.md begin with: no line begins so" ]; then
    echo "the error does not name the anchor's line: $said" >&2
    exit 1
  fi
}

refused
expect "A stage in the tree" 4
expect "A source in the tree" 4
expect "An image op in the tree" 8
