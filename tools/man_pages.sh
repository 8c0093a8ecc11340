#!/usr/bin/env bash
# Makes manual pages of what --help says: penstock.1, and one for each subcommand, nested ones too. `tools/man_pages.sh PROGRAM FOLDER`
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: tools/man_pages.sh PROGRAM FOLDER" >&2; exit 2; }
program=$1 folder=$2
version=$("$program" --version)
version=${version%%$'\n'*}
mkdir -p "$folder"

# page NAME OTHERS: the page of that name, of help on stdin. A heading ends with a colon; an option's text stands behind
# two blanks or on the next line, far to the right; examples stay as they are.
page() {
  # shellcheck disable=SC2016  # the program is awk's
  awk -v name="$1" -v others="$2" -v version="$version" '
    function roff(text) { gsub(/^ +| +$/, "", text); gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); return text ~ /^[.\047]/ ? "\\\\&" text : text }
    function as_is(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); return text }
    function head(text) { if (verbatim) print ".fi"; verbatim = 0; print ".SH " toupper(text) }
    BEGIN { printf ".TH %s 1 \"\" \"penstock %s\" \"Penstock\"\n", toupper(name), version }
    NR == 1 { about = $0; head("name"); print roff(name) " \\- " roff(about); next }
    /^Usage: / { head("synopsis"); sub(/^Usage: /, ""); print roff($0); next }
    /^[A-Z].*:$/ {
      title = $0
      sub(/:$/, "", title)
      head(title)
      if (title ~ /^Example/) { print ".nf"; verbatim = 1 }
      next
    }
    verbatim { print as_is($0); next }
    /^  [^ ]/ {
      # The text begins in column 31, where the flag leaves room for it.
      room = substr($0, 30, 1) == " " && substr($0, 31, 1) != " "
      print ".TP\n.B " roff(room ? substr($0, 1, 29) : $0)
      if (room) print roff(substr($0, 31))
      next
    }
    /^ *$/ { next }
    /^          / { print roff($0); next }
    { print ".PP\n" roff($0) }
    END { head("see also"); print others }' >"$folder/$1.1"
}

# subcommands [COMMAND]: the names of those that the help lists.
subcommands() {
  "$program" "$@" --help | awk '/^Subcommands:/ { on = 1; next } on && /^  [a-z]/ { print $1 } /^$/ { on = 0 }'
}
references() { for name in "$@"; do printf '.BR penstock-%s (1)\n' "$name"; done; }

all=()
for command in $(subcommands); do
  all+=("$command")
  inner=()
  for name in $(subcommands "$command"); do
    inner+=("$command-$name")
    "$program" "$command" "$name" --help | page "penstock-$command-$name" ".BR penstock-$command (1)"
  done
  "$program" "$command" --help | page "penstock-$command" \
    "$(references "${inner[@]}"; echo '.BR penstock (1)')"
done
# Last: a build takes it for all of them.
"$program" --help | page penstock "$(references "${all[@]}")"
