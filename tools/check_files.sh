#!/usr/bin/env bash
# Refuses tracked files that name folders of one machine, and generated or large ones.
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
exit $bad
