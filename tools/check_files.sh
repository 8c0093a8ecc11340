#!/usr/bin/env bash
# Refuses tracked files that name folders of one machine, generated or large ones, and pages that name source files which
# do not exist.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

bad=0
if git grep -nIE '(^|[^A-Za-z0-9_.}~*-])/(work|root|tmp|home|Users)(/|[^A-Za-z0-9_-]|$)' -- ':!tools/check_files.sh'; then
  echo "check_files: the lines above name a folder of one machine" >&2
  bad=1
fi
if git ls-files | grep -E '(^|/)(build|__pycache__|\.cache)/|\.(o|a|so|pyc|profraw|orig|rej)$|compile_commands\.json$'; then
  echo "check_files: the files above are generated" >&2
  bad=1
fi
if git ls-files -z | xargs -0 -r sh -c 'find "$@" -maxdepth 0 -size +512k' sh | grep .; then
  echo "check_files: the files above are larger than 512 KiB" >&2
  bad=1
fi
# Worked examples make files of their own.
# shellcheck disable=SC2016  # the quotes are those of Markdown
named='`(include|pipelines?|staging|report|towers|cluster|tools|tests|bench)/[A-Za-z0-9_/.-]+\.(h|cpp|cuh?|py|sh|cmake|txt)`'
while IFS=: read -r page line name; do
  [ -e "$name" ] && continue
  echo "$page:$line: there is no $name"
  bad=1
done < <(git grep -noE "$named" -- '*.md' ':!docs/extending.md' ':!CHANGELOG.md' ':!docs/decisions.md' | tr -d '`')
exit $bad
