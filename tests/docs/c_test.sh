#!/usr/bin/env bash
# The C on docs/c.md is C99. c_test.sh SOURCE_DIR
set -euo pipefail
{
  printf '#include <%s>\n' stdio.h penstock/c.h
  echo 'void step(const void* values, const int64_t* shape, int rank);'
  echo 'void page(void);'
  echo 'void page(void) {'
  awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$1/docs/c.md"
  echo '}'
} | "${CC:-cc}" -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$1/include" -x c -
