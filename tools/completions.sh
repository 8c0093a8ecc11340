#!/usr/bin/env bash
# Generates shell completions from the output of --help: penstock.bash and _penstock, for zsh.
# `tools/completions.sh PROGRAM FOLDER`
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: tools/completions.sh PROGRAM FOLDER" >&2; exit 2; }
export LC_ALL=C  # CLI11 counts columns in bytes
program=$1 folder=$2
table=$(mktemp)
trap 'rm -f "$table"' EXIT

# parse COMMAND: reads the help of COMMAND from stdin, and prints a line for each subcommand, positional and flag. The
# columns are separated by tabs:
#   1 the command
#   2 subcommand, positional or flag
#   3 its names
#   4 the number of values: 0, 1, 2, ? (at most one) or + (one or more)
#   5 the words that a value can be, separated by |. @file, @folder and @FILE.SUFFIX are names of files. The words of a
#     flag's second value follow a =.
#   6 the names of its values
#   7 the flags it excludes
#   8 1 if the flag can be repeated
#   9 the help text
#
# In the help, an entry's text begins in column 31 of the same line if it fits, else on the next line. CLI11 2.5 and later
# write some headings in capitals, indent long flags by 10 columns, and wrap the text.
parse() {
  # shellcheck disable=SC2016  # the program is awk's
  awk -v command="$1" '
    function is_blank(text) { return text ~ /^ *$/ }

    # Returns the words of a text that is only a list of words: "split, per_tower (default) or sharded".
    function listed(text) {
      sub(/^[^,;()]*: /, "", text)
      gsub(/ \(default\)/, "", text)
      if (text !~ /^[a-z][a-z0-9_-]*(, [a-z][a-z0-9_-]*)*(,? or [a-z][a-z0-9_-]*)?$/) return ""
      if (text !~ /,.*,| or /) return ""
      gsub(/,? or |, /, "|", text)
      return text
    }

    # Returns column 5 for a value of this name.
    function choices(name, text,    parts, count, i, part, result, files, words) {
      count = split(name, parts, "|")
      for (i = 1; i <= count; ++i) {
        part = parts[i]
        if (part ~ /^FILE\.[a-z]+$/) { files = "@" part; continue }
        sub(/[[,.].*/, "", part)  # FILE,LINE and GLOB... and IMAGES[,LABELS]
        if (part ~ /^(FILE|PATH|GLOB|IMAGES)$/) files = "@file"
        else if (part ~ /^(DIR|FOLDER)$/ && files == "") files = "@folder"
        else if (count > 1 && part ~ /^(-|[a-z][a-z0-9_-]*)$/) words = words "|" part
      }
      if (name == "FILE" && text ~ /^(a )?folder /) files = "@folder"
      if (files == "" && words == "" && name ~ /^[A-Z]+$/) words = "|" listed(text)
      result = files words
      sub(/^\|/, "", result)
      return result
    }

    function flush(    spec, room, right, names, values, text, excludes, i, count, parts, arity, what, fixed) {
      if (entry == "") return
      spec = entry
      text = more
      room = substr(entry, 30, 1) == " " && substr(entry, 31, 1) ~ /[^ ]/
      # A line of names and constraints can happen to have a blank in column 30.
      right = substr(entry, 31)
      if (room && more != "" && (!wraps || right ~ /^(Needs:|Excludes:|REQUIRED|\.\.\.|x [0-9]|in \[)/ ||
          (right ~ /^--/ && substr(entry, 1, 29) ~ /(Needs|Excludes):/))) room = 0
      if (room) {
        spec = substr(entry, 1, 29)
        text = right (more == "" ? "" : " " more)
      }
      entry = more = ""
      gsub(/^ +| +$/, "", spec)
      if (kind == "flag") while (spec ~ /^-[^ ]*, +-/) sub(/, +/, ",", spec)  # -h,     --help
      names = spec
      sub(/ .*/, "", names)
      gsub(/\{[^}]*\}/, "", names)  # --no-decode{false}
      gsub(/,/, " ", names)
      values = index(spec, " ") ? substr(spec, index(spec, " ")) : ""
      if (match(values, / Excludes:( --?[A-Za-z0-9-]+)+/)) {
        excludes = substr(values, RSTART + 11, RLENGTH - 11)
        values = substr(values, 1, RSTART - 1) substr(values, RSTART + RLENGTH)
      }
      sub(/ Needs:( --?[A-Za-z0-9-]+)+/, "", values)
      sub(/ \(Env:[^)]*\)/, "", values)
      sub(/ REQUIRED$/, "", values)
      sub(/^ /, "", values)
      arity = values == "" ? 0 : 1
      if (sub(/ \.\.\.$/, "", values)) arity = "+"
      if (match(values, / x [0-9]+$/)) {
        arity = substr(values, RSTART + 3) + 0
        values = substr(values, 1, RSTART - 1)
      }
      if (match(values, /:\{[^}]*\}/)) {
        fixed = substr(values, RSTART + 2, RLENGTH - 3)
        gsub(/,/, "|", fixed)
        values = substr(values, 1, RSTART - 1)
      }
      sub(/:(INT|UINT|FLOAT|NUMBER|POSITIVE|NONNEGATIVE|TEXT)( in \[[^]]*\])?(=.*)?$/, "", values)
      if (values ~ /[^,]\.\.\.$/) arity = "+"
      if (values ~ /^\[.*\]$/) {
        values = substr(values, 2, length(values) - 2)
        arity = "?"
      }
      if (kind == "subcommand") { values = ""; arity = 0 }
      if (kind == "positional") what = text ~ /^(a )?folder / ? "@folder" : "@file"
      else if (fixed != "") what = fixed
      else if (arity ~ /^[2-9]/) {
        count = split(values, parts, " ")
        for (i = 1; i <= arity; ++i) what = what (i > 1 ? "=" : "") (i <= count ? choices(parts[i], "") : "")
      } else what = choices(values, text)
      printf "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", command, kind, names, arity, what, values, excludes, again, text
    }

    /^[A-Z].*:$/ {
      flush()
      if ($0 ~ /^(OPTIONS|POSITIONALS|SUBCOMMANDS):$/) wraps = 1
      title = tolower($0)
      again = title ~ /^stages/
      kind = title ~ /^example/ ? "" : title == "subcommands:" ? "subcommand" : title == "positionals:" ? "positional" : "flag"
      next
    }
    is_blank($0) { flush(); next }
    kind == "" { next }
    /^                              / {
      line = substr($0, 31)
      sub(/^ +/, "", line)
      more = more (more == "" ? "" : " ") line
      next
    }
    # Fail on an unknown layout. Otherwise the completions would silently lack flags.
    /^  +-/ && kind == "flag" || /^  [A-Za-z]/ && kind != "flag" { flush(); entry = $0; next }
    /^ / { print "completions: can\047t read this line of --help: " $0 | "cat >&2"; failed = 1; exit }
    { flush(); kind = "" }
    END { if (failed) exit 1; flush() }'
}

# walk [COMMAND...]: parses the help of a command and of its subcommands.
walk() {
  local help lines name
  help=$("$program" "$@" --help)
  lines=$(parse "$*" <<<"$help")
  [[ $lines == *$'\tflag\t'* ]] || { echo "completions: found no flag in the help of penstock $*" >&2; exit 1; }
  printf '%s\n' "$lines"
  while read -r name; do
    walk "$@" "$name" </dev/null
  done < <(awk -F '\t' '$2 == "subcommand" { print $3 }' <<<"$lines")
}
walk >"$table"
grep -q $'^\tsubcommand\t' "$table" || { echo "completions: found no subcommand in the help of penstock" >&2; exit 1; }

mkdir -p "$folder"

bash_functions() {
  cat <<'END'
# Bash completion for penstock. Generated by tools/completions.sh.
# shellcheck shell=bash disable=SC2088  # a ~ in quotes is compared as it is

END
  # shellcheck disable=SC2016  # the program is awk's
  awk -F '\t' '
    !($1 in seen) { seen[$1] = 1; order[++count] = $1 }
    $2 == "subcommand" { subcommands[$1] = subcommands[$1] " " $3 }
    $2 == "positional" { positional[$1] = $5 }
    $2 == "flag" {
      entry = $4 == "0" ? "" : ($4 == "?" ? ":" : "=") $5 ($4 == "+" ? "..." : "")
      names = split($3, name, " ")
      for (i = 1; i <= names; ++i) flags[$1] = flags[$1] " " name[i] entry
    }
    function quoted(list) { sub(/^ /, "", list); return "\047" list "\047" }
    END {
      print "# Sets the subcommands, the words for positionals, and the flags of a command. A flag that takes a value has = and the"
      print "# words that the value can be: --io=pread|mmap. @file, @folder and @FILE.SUFFIX are names of files. The value is"
      print "# optional if : replaces the =. Another = begins the second value. ... at the end: the flag takes one value or more."
      print "_penstock_command() {"
      print "  case $1 in"
      for (i = 1; i <= count; ++i) {
        command = order[i]
        print "    " (command ~ /^[a-z-]+$/ ? command : "\047" command "\047") ")"
        print "      subcommands=" quoted(subcommands[command]) " positional=" quoted(positional[command])
        print "      flags=" quoted(flags[command])
        print "      ;;"
      }
      print "  esac"
      print "}\n"
    }' "$table"
  cat <<'END'
# _penstock_complete WORDS VALUE: appends each of WORDS, separated by |, that begins with VALUE to `replies`. Sets `files`
# if WORDS includes names of files.
_penstock_complete() {
  local word found path value=$2 home=''
  local IFS='|'
  for word in $1; do
    if [[ $word != @* ]]; then
      [[ $word != "$value"* ]] || replies+=("$word")
      continue
    fi
    files=1
    # Expand ~ for the search only. The line keeps it.
    if [[ $value == '~/'* ]]; then
      home=$HOME/
      value=$HOME/${value#'~/'}
    fi
    # Not compgen -f: whether it removes quotes from its argument depends on the caller.
    mapfile -t found < <(
      set +f
      shopt -u failglob dotglob
      shopt -s nullglob
      case $word in
        @file) printf '%s\n' "$value"* ;;
        @folder) printf '%s\n' "$value"*/ ;;
        *) printf '%s\n' "$value"*".${word##*.}" "$value"*/ ;;
      esac)
    for path in "${found[@]}"; do
      path=${path%/}
      [[ -z $path ]] && continue
      [[ -n $home ]] && path='~/'${path#"$home"}
      replies+=("$path")
    done
    value=$2 home=''
  done
}

# _penstock_unquoted TEXT: sets `unquoted` to TEXT without its quotes. The last quote may be open.
_penstock_unquoted() {
  local text=$1
  unquoted=''
  while [[ -n $text ]]; do
    case $text in
      \\*) unquoted+=${text:1:1} text=${text:2} ;;
      \'*)
        text=${text#\'}
        unquoted+=${text%%\'*}
        [[ $text == *\'* ]] && text=${text#*\'} || text='' ;;
      \"*)
        text=${text#\"}
        while [[ -n $text && $text != \"* ]]; do
          [[ $text == \\[\\\"\$\`]* ]] && text=${text:1}
          unquoted+=${text:0:1} text=${text:1}
        done
        text=${text#\"} ;;
      *) unquoted+=${text:0:1} text=${text:1} ;;
    esac
  done
}

# _penstock_kept WORD: sets `kept` to the prefix of WORD that readline does not replace by a reply. It ends with the last
# unquoted character that separates words for readline, such as the = of --io=.
_penstock_kept() {
  local rest=$1 passed=''
  kept=''
  while [[ -n $rest ]]; do
    case $rest in
      [\'\"]*) return ;;
      \\*) passed+=${rest:0:2} rest=${rest:2} ;;
      *)
        passed+=${rest:0:1}
        [[ ${rest:0:1} == [=:@] && $COMP_WORDBREAKS == *"${rest:0:1}"* ]] && kept=$passed
        rest=${rest:1} ;;
    esac
  done
}

_penstock() {
  local IFS=$' \t\n'
  local subcommands positional flags replies=() files='' unquoted kept
  local words=() word entry rest=${COMP_LINE:0:COMP_POINT} i
  COMPREPLY=()
  # Collect the words up to the cursor. Readline also splits words at = and :, so join words without a blank between them.
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    word=${rest#"${rest%%[![:blank:]]*}"}
    entry=${COMP_WORDS[i]}
    ((i < COMP_CWORD)) || entry=$word  # the part before the cursor
    if [[ $word == "$rest" ]] && ((i > 0)); then
      words[-1]+=$entry
    else
      words+=("$entry")
    fi
    rest=${word#"$entry"}
  done
  local current=${words[-1]} command='' only_positional='' help=''
  unset 'words[-1]'

  # `expected` has a = and the words of each value that the last flag still requires. `optional` has the words of a value
  # that it takes, but does not require.
  local expected='' optional=''
  _penstock_command ''
  for word in "${words[@]:1}"; do
    if [[ -n $expected ]]; then
      [[ $expected != *... ]] || optional=${expected:1:-3}
      expected=${expected:1}
      case $expected in
        *=*) expected="=${expected#*=}" ;;
        *) expected='' ;;
      esac
    elif [[ $word == -- ]]; then
      only_positional=1 optional=''
    elif [[ $word == -* && -z $only_positional ]]; then
      optional=''
      for entry in $flags; do
        case $entry in
          "$word="*) expected=${entry#"$word"} ;;
          "$word:"*) optional=${entry#"$word:"} ;;
        esac
      done
    elif [[ -z $command && $word == help && -z $help ]]; then
      help=1
    elif [[ -n $subcommands ]]; then
      [[ " $subcommands " == *" $word "* ]] || return 0
      command+=${command:+ }$word
      _penstock_command "$command"
    fi
  done

  local value flag=''
  _penstock_unquoted "$current"
  value=$unquoted
  if [[ -n $help ]]; then
    _penstock_complete "${subcommands// /|}" "$value"
  elif [[ -n $expected ]]; then
    expected=${expected#=}
    expected=${expected%%=*}
    _penstock_complete "${expected%...}" "$value"
  elif [[ $value == --*=* && -z $only_positional ]]; then
    flag=${value%%=*}
    for entry in $flags; do
      [[ $entry == "$flag"[=:]* ]] || continue
      entry=${entry#"$flag"[=:]}
      entry=${entry%%=*}
      _penstock_complete "${entry%...}" "${value#*=}"
    done
    flag+='='
  elif [[ $value == -* && -z $only_positional ]]; then
    for entry in $flags; do replies+=("${entry%%[=:]*}"); done
  else
    [[ $optional == "$positional" ]] || _penstock_complete "$optional" "$value"
    _penstock_complete "$positional" "$value"
    # Offer flags only if no other word is possible.
    if [[ -n $subcommands ]]; then
      [[ -n $command ]] || subcommands+=' help'
      _penstock_complete "${subcommands// /|}" "$value"
    elif [[ -z $positional && -z $only_positional ]]; then
      for entry in $flags; do replies+=("${entry%%[=:]*}"); done
    fi
  fi

  _penstock_kept "$current"
  _penstock_unquoted "$kept"
  for word in "${replies[@]}"; do
    word=$flag$word
    [[ $word != "$value"* ]] || COMPREPLY+=("${word#"$unquoted"}")
  done
  # Makes readline quote the names, and append a slash to folders.
  [[ -z $files ]] || compopt -o filenames 2>/dev/null || true
}

complete -F _penstock penstock
END
}

zsh_functions() {
  cat <<'END'
#compdef penstock
# Zsh completion for penstock. Generated by tools/completions.sh.

END
  # shellcheck disable=SC2016  # the program is awk's
  awk -F '\t' '
    function quoted(text) { gsub(/\047/, "\047\\\047\047", text); return "\047" text "\047" }
    function escaped(text, what,    i, c, result) {
      for (i = 1; i <= length(text); ++i) {
        c = substr(text, i, 1)
        result = result (index(what "\\", c) ? "\\" : "") c
      }
      return result
    }
    function function_of(command,    name) {
      name = "_penstock" (command == "" ? "" : "_" command)
      gsub(/[ -]/, "_", name)
      return name
    }
    # Returns the action for these words of column 5.
    function action(words,    parts, count, i, files, others) {
      count = split(words, parts, "|")
      for (i = 1; i <= count; ++i) {
        if (parts[i] == "@file") files = "_files"
        else if (parts[i] == "@folder") files = "_files -/"
        else if (parts[i] ~ /^@/) files = "_files -g *." substr(parts[i], index(parts[i], ".") + 1)
        else others = others " " parts[i]
      }
      if (files == "") return others == "" ? " " : "(" substr(others, 2) ")"
      return others == "" ? files : " _alternative \"words\\:word\\:(" substr(others, 2) ")\" \"files\\:file\\:" files "\""
    }
    function of_values(separator, names, words, count,    name, part, i, result) {
      split(names, name, " ")
      split(words, part, "=")
      if (count == 1) { name[1] = names; part[1] = words }
      for (i = 1; i <= count; ++i) result = result separator escaped(name[i], ":") ":" action(part[i])
      return result
    }
    function flag(    text, values, names, count, name, all, i, result, prefix) {
      text = "[" escaped($9, "[]") "]"
      values = $4 == "0" ? "" : of_values($4 == "?" ? "::" : ":", $6, $5, $4 ~ /^[2-9]/ ? $4 + 0 : 1)
      count = split($3, name, " ")
      if ($3 ~ /(^| )--(help|version)( |$)/) all = "- :"
      else if (count > 1 && !$8) all = $3
      if ($7 != "") all = all (all == "" ? "" : " ") $7
      if ($8 || $4 == "+") prefix = "*"
      else if (all ~ /^- :/) all = "- : *"
      for (i = 1; i <= count; ++i)
        result = result " \\\n    " quoted((all == "" ? "" : "(" all ")") prefix name[i] (values == "" ? "" : "=") text values)
      return result
    }
    !($1 in seen) { seen[$1] = 1; order[++count] = $1 }
    $2 == "flag" { flags[$1] = flags[$1] flag() }
    $2 == "positional" {
      flags[$1] = flags[$1] " \\\n    " quoted(($4 == "+" ? "*" : "1") ":" escaped($3, ":") ":" action($5))
    }
    $2 == "subcommand" {
      inner = $1 == "" ? $3 : $1 " " $3
      subcommands[$1] = subcommands[$1] "\n    " quoted(escaped($3, ":") ":" escaped($9, "\\"))
      cases[$1] = cases[$1] "\n      " $3 ") " function_of(inner) " ;;"
    }
    END {
      for (i = count; i >= 1; --i) {
        command = order[i]
        if (command in subcommands) {
          name = function_of(command)
          print name "_subcommands() {\n  local -a subcommands=(" subcommands[command] "\n  )"
          if (command == "") print "  [[ $words[1] == help ]] || subcommands+=(\047help:print the help of a subcommand\047)"
          print "  _describe subcommand subcommands\n}\n"
          print name "() {\n  local curcontext=$curcontext state state_descr line\n  local -A opt_args"
          print "  _arguments -C -S" flags[command] " \\\n    \0471: :" name "_subcommands\047 \047*:: :->rest\047 && return"
          print "  [[ $state == rest ]] || return"
          print "  case $words[1] in" (command == "" ? "\n      help) _arguments \0471: :" name "_subcommands\047 ;;" : "") cases[command]
          print "  esac\n}\n"
        } else {
          print function_of(command) "() {\n  _arguments -S" flags[command] "\n}\n"
        }
      }
    }' "$table"
  cat <<'END'
# When autoloaded, this file is the body of the function _penstock.
if [[ $funcstack[1] == _penstock ]]; then
  _penstock "$@"
else
  compdef _penstock penstock
fi
END
}

zsh_functions >"$folder/_penstock"
# Last: a build checks only this file.
bash_functions >"$folder/penstock.bash"
