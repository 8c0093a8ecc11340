#!/usr/bin/env bash
# Refuses includes against the direction of the layers, and two types of one name, of which the linker would take
# whichever it meets; branches on a stage's name, which its typed traits are for; casts around types in the engine;
# the inside of the library in the program; mutexes that the thread-safety analysis does not see; and names files of
# more than 600 lines.
# Each folder may include itself and those before it in the list; public headers only the standard
# library, the one for C what it needs of C's, and each other.
# `tools/check_layers.sh [ROOT]` prints one line per violation and exits with 1 if there are any.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

layers="include/penstock pipeline/core pipeline/io pipeline/http pipeline/codec pipeline/jpeg pipeline/sources pipeline/stage"
layers+=" pipeline/image pipeline/stages pipeline/graph pipeline/engine pipeline/pack pipeline/remote pipeline staging report pipelines python towers cluster tools tests bench"
folders=()
for folder in include pipeline staging report pipelines python towers cluster tools tests bench examples; do
  [ ! -d "$folder" ] || folders+=("$folder")
done

mapfile -t files < <(find "${folders[@]}" -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' | sort)
# shellcheck disable=SC2016  # the program is awk's
awk -v layers="$layers" '
  function layer_of(path, i, best) {
    best = 0
    for (i = 1; i <= count; ++i)
      if (index(path, names[i] "/") == 1 && length(names[i]) > length(names[best])) best = i
    return best
  }
  function refuse(why) { print FILENAME ":" FNR ": " why; bad = 1 }
  BEGIN { count = split(layers, names, " "); names[0] = ""
          for (towers = 1; names[towers] != "towers"; ++towers); }
  FNR == 1 { mine = layer_of(FILENAME); example = FILENAME ~ /^examples\//; public = mine == 1 }
  FNR == 1 { depth = 0 }
  FNR == 601 { print FILENAME ": more than 600 lines: is this one thing?" > "/dev/stderr" }
  /^(inline )?namespace .*\{$/ { sub(/^inline /, ""); spaces[++depth] = $2; next }
  /^\}  \/\/ (anonymous )?namespace/ { --depth; next }
  !example && /^(struct|class|enum class|union) [^;]*$/ {
    head = $0
    sub(/^(struct|class|enum class|union) (alignas\([^)]*\) |[A-Z_]+(\([^)]*\))? )?/, "", head)
    if (match(head, /^[A-Za-z0-9_]+/) == 0 || substr(head, RLENGTH + 1) ~ /^(::|<)/) next
    full = ""
    for (i = 1; i <= depth; ++i) {
      if (spaces[i] == "{") next
      full = full spaces[i] "::"
    }
    full = full substr(head, 1, RLENGTH)
    if (full in defined) refuse(full " is also defined at " defined[full])
    else defined[full] = FILENAME ":" FNR
  }
  /name\(\) *[!=]= *"|is_batch\(|"[a-z_]+" *[!=]= *[a-z_>.-]*name\(\)/ && FILENAME ~ /^(pipeline|staging|report|towers)\// {
    refuse("a branch on a name; ask for a typed trait")
  }
  /kind(\(\))?(\.name)? *[!=]= *("|[a-z_.>-]*kind)/ && FILENAME ~ /^(pipelines|tools)\// {
    refuse("a branch on the name of a source or stage; give its kind a typed field")
  }
  # An op of a user may have another contract besides.
  /(const|dynamic)_cast</ && !/dynamic_cast<const PackingOp\*>/ && FILENAME ~ /^(pipeline\/(engine|stages?)|staging)\// {
    refuse("a cast around a type")
  }
  /std::(((recursive_|shared_|timed_)?mutex|condition_variable(_any)?) [a-z_, ]+;|(lock_guard|scoped_lock|shared_lock))/ &&
      FILENAME ~ /^(pipelines?|staging|report|towers|cluster|tools)\// {
    refuse("the thread-safety analysis does not see this; use <penstock/internal/thread_annotations.h>")
  }
  !/^[ \t]*#[ \t]*include[ \t]*[<"]/ { next }
  {
    quoted = $0 ~ /include[ \t]*"/
    name = $0
    sub(/^[^<"]*[<"]/, "", name)
    sub(/[>"].*$/, "", name)
    path = name ~ /^penstock\// ? "include/" name : name
    theirs = layer_of(path)
    if (name ~ /(^|\/)\.\.?\//) refuse("relative include of " name)
    else if (quoted && (theirs == 0 || theirs == 1)) refuse("\"" name "\" is none of our folders: use <>")
    else if (!quoted && theirs > 1) refuse("<" name "> is internal: use \"\"")
    else if (FILENAME ~ /^(pipelines|tools\/penstock)\// && path ~ /^(pipeline|staging)\//)
      refuse("the program may include public headers, the reports, the trainer and its own only, not " name)
    else if (FILENAME ~ /^(staging|report|towers)\// && path ~ /^pipeline\/(engine|stage|stages)\//)
      refuse("the engine is reached by its public headers, not by " name)
    else if (mine == towers && theirs > 1 && theirs != towers)
      refuse("the trainer may include public headers and its own only, not " name)
    else if (mine == towers + 1 && theirs > 1 && theirs != mine && theirs != towers)
      refuse("the cluster may include public headers, the trainer and its own only, not " name)
    else if ((example || public && FILENAME !~ /\/internal\//) && name ~ /^penstock\/internal\//)
      refuse("<" name "> is not installed")
    else if (example && theirs > 1) refuse("an example may include public headers only, not " name)
    else if (public && (theirs > 1 || (theirs == 0 && name ~ /[.\/]/ && name !~ /^std(def|int)\.h$/)))
      refuse("a public header may not include " name)
    else if (!example && theirs > mine) refuse(names[mine] " may not include " names[theirs] " (" name ")")
  }
  END { exit bad }' "${files[@]}"
