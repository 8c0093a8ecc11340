#!/usr/bin/env bash
# Checks the completions that tools/completions.sh generates. `completions_test.sh PROGRAM SOURCE_DIR`
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: completions_test.sh PROGRAM SOURCE_DIR" >&2; exit 2; }
program=$1 source_dir=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$source_dir"/tools/completions.sh "$program" "$folder"
bash -n "$folder/penstock.bash"

mkdir -p "$folder/data/my photos" "$folder/data/home/shards"
touch "$folder/data/my file.txt" "$folder/data/it's" "$folder/data/a:b.jpg" "$folder/data/graph.toml" \
  "$folder/data/my photos/one two.jpg" "$folder/data/.hidden"

cat >"$folder/cases.sh" <<'END'
set -euo pipefail
HOME=$PWD/home
source "$1"
failed=0

# replies LINE: prints the sorted replies for the cursor at the end of LINE. Splits LINE at blanks, = and : as readline does.
replies() {
  local rest=$1
  COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=() COMPREPLY=()
  while [[ $rest =~ ^[[:blank:]]*(([^][:blank:]=:\\\"\'[]|\\.|[\"\'].*|[][])+|[=:]+)(.*)$ ]]; do
    COMP_WORDS+=("${BASH_REMATCH[1]}")
    rest=${BASH_REMATCH[3]}
  done
  [[ -z $rest ]] || COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _penstock
  [[ ${#COMPREPLY[@]} -eq 0 ]] || printf '%s\n' "${COMPREPLY[@]}" | sort -u
}
# expect LINE REPLY...: checks that these are the replies. among LINE REPLY...: checks that the replies include these.
expect() {
  local want got
  want=$([[ $# -eq 1 ]] || printf '%s\n' "${@:2}" | sort -u)
  got=$(replies "$1")
  [[ $got == "$want" ]] && return
  printf '"%s" gives\n%s\ninstead of\n%s\n' "$1" "$got" "$want" >&2
  failed=1
}
among() {
  local got word
  got=$(replies "$1")
  for word in "${@:2}"; do
    grep -qxF -e "$word" <<<"$got" && continue
    printf '"%s" gives\n%s\nwithout %s\n' "$1" "$got" "$word" >&2
    failed=1
  done
}

[[ $(complete -p penstock) == 'complete -F _penstock penstock' ]] || failed=1
files=('my photos' home 'my file.txt' "it's" a:b.jpg graph.toml)
mapfile -t commands < <("$2" --help | sed -n '/^Subcommands:/I,/^$/s/^  \([a-z-]*\) .*/\1/p')
[[ ${#commands[@]} -gt 10 ]] || { echo "found too few subcommands in --help" >&2; exit 1; }

# The flags in the help of each subcommand are offered, and no others.
for command in '' "${commands[@]}" 'report merge'; do
  # shellcheck disable=SC2086  # two words
  mapfile -t flags < <("$2" $command --help | grep -oE '^ {2,10}-[^ ]+( +--[^ ]+)?' | grep -oE -e '--?[A-Za-z][A-Za-z0-9-]*')
  [[ ${#flags[@]} -ge 2 ]] || { echo "found no flags of $command" >&2; exit 1; }
  expect "penstock ${command:+$command }-" "${flags[@]}"
done

expect 'penstock ' "${commands[@]}" help
expect 'penstock pro' profile
expect 'penstock  un' unpack
expect 'penstock --ver' --version
expect 'penstock help ' "${commands[@]}"
expect 'penstock help che' check-determinism
expect 'penstock help report ' merge
expect 'penstock help profile '
expect 'penstock report ' merge
expect 'penstock nothing '
expect 'penstock nothing --'
expect 'penstock report nothing '
expect 'penstock profile --ran' --range --random-resized-crop --random-pad-crop
expect 'penstock profile --no-such'
expect 'penstock verify --no' --no-decode

# Values.
expect 'penstock profile --io ' pread io_uring mmap
expect 'penstock profile --io p' pread
expect 'penstock profile --io=' pread io_uring mmap
expect 'penstock profile --io=io' io_uring
expect 'penstock serve --io m' mmap
expect 'penstock profile --feed ' split per_tower sharded
expect 'penstock train --epoch-end=' drop pad wrap stop
expect 'penstock train --role ' chief worker ps evaluator
expect 'penstock synth --format t' tar tfrecord
expect 'penstock profile --compression ' automatic none gzip zlib
expect 'penstock profile --seed '
expect 'penstock profile --seed=1'
expect 'penstock train --device '
expect 'penstock train --optimizer '
among 'penstock train ' --model --data --help
among 'penstock train --seed 1 ' --model
among 'penstock profile --io pread --' --batch

# Names of files.
for line in 'penstock profile --trace ' 'penstock profile --tar ' 'penstock profile --tar x ' 'penstock profile ' \
  'penstock profile --shuffle ' 'penstock profile --cache ' 'penstock profile -- ' 'penstock profile --seed 1 ' \
  'penstock inspect ' 'penstock profile --idx ' 'penstock replay --record ' 'penstock profile --images=' 'penstock train --data ' 'penstock profile --state=' \
  'penstock profile --quiet --json - ' 'penstock report merge ' 'penstock predict --variables '; do
  expect "$line" "${files[@]}"
done
expect 'penstock profile --pipeline ' graph.toml home 'my photos'
expect 'penstock train --checkpoint ' home 'my photos'
expect 'penstock synth ' home 'my photos'
expect 'penstock profile --index-folder ' beside - home 'my photos'
expect 'penstock profile --dump 3 ' home 'my photos'
expect 'penstock profile --dump '
expect 'penstock inspect my' 'my file.txt' 'my photos'
expect 'penstock inspect my\ f' 'my file.txt'
expect 'penstock inspect "my f' 'my file.txt'
expect "penstock inspect 'my f" 'my file.txt'
expect 'penstock profile --images=my\ p' 'my photos'
expect 'penstock profile my\ photos/' 'my photos/one two.jpg'
expect "penstock inspect it\\'" "it's"
expect 'penstock inspect a:' b.jpg
expect 'penstock inspect a\:b' a:b.jpg
expect 'penstock inspect .h' .hidden
expect 'penstock inspect ~/s' '~/shards'
expect 'penstock inspect no-such'
expect 'penstock profile -- --'

# A shell that does not split words at =.
COMP_WORDBREAKS=$' \t\n'
COMP_LINE='penstock profile --io=p' COMP_POINT=23 COMP_WORDS=(penstock profile --io=p) COMP_CWORD=2
_penstock
[[ ${COMPREPLY[*]} == --io=pread ]] || { echo "--io=p gives ${COMPREPLY[*]}" >&2; failed=1; }
# The cursor is not at the end of the line.
COMP_LINE='penstock profile --io x' COMP_POINT=11 COMP_WORDS=(penstock profile --io x) COMP_CWORD=1
_penstock
[[ ${COMPREPLY[*]} == 'profile predict' ]] || { echo "pr gives ${COMPREPLY[*]}" >&2; failed=1; }
exit $failed
END
(cd "$folder/data" && env -u BASH_ENV bash --norc "$folder/cases.sh" "$folder/penstock.bash" "$program")

# The layout of CLI11 2.5 and later.
cat >"$folder/wraps" <<'END'
#!/bin/sh
[ "$1" = --help ] && cat <<'HELP' && exit
POSITIONALS:
OPTIONS:
  -h,     --help              Print this help message and exit

SUBCOMMANDS:
  run                         a text that is so long that it is
                              wrapped
HELP
cat <<'HELP'
POSITIONALS:
  OUT TEXT ...                folder to write to, with a text that is
                              wrapped

OPTIONS:
  -h,     --help              Print this help message and exit
          --decode, --no-decode{false} 
                              decode images
          --exchange HOW:{ordered,ring} 
                              ordered: the bits of one process; ring:
                              the usual all-reduce
          --mode NAME         split, per_tower
                              (default) or sharded
          --dump N DIR x 2 Excludes: --mode 
                              write images
HELP
END
chmod +x "$folder/wraps"
"$source_dir"/tools/completions.sh "$folder/wraps" "$folder/wrapped"
for line in "flags='-h --help --decode --no-decode --exchange=ordered|ring --mode=split|per_tower|sharded --dump==@folder'" \
  "subcommands='' positional='@folder'"; do
  grep -qF -e "$line" "$folder/wrapped/penstock.bash" || { echo "there is no $line in:" >&2; cat "$folder/wrapped/penstock.bash" >&2; exit 1; }
done
for line in "'run:a text that is so long that it is wrapped'" \
  "'--exchange=[ordered: the bits of one process; ring: the usual all-reduce]:HOW:(ordered ring)'"; do
  grep -qF -e "$line" "$folder/wrapped/_penstock" || { echo "there is no $line in:" >&2; cat "$folder/wrapped/_penstock" >&2; exit 1; }
done

# The script fails if the layout of the help is unknown.
printf '#!/bin/sh\necho "Options:"; echo "  --flag X  text"; echo " * other"\n' >"$folder/other"
chmod +x "$folder/other"
if "$source_dir"/tools/completions.sh "$folder/other" "$folder/none" 2>/dev/null; then
  echo "an unknown layout of --help was accepted" >&2
  exit 1
fi

if command -v zsh >/dev/null; then
  zsh -n "$folder/_penstock"
else
  echo "zsh is not installed: its completions are not checked"
fi
