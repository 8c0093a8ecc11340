#!/usr/bin/env bash
# Plants every kind of violation in a small tree and expects tools/check_layers.sh (the argument) to name each, and
# nothing else.
set -euo pipefail
check=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"

put() {  # put FILE LINE...
  mkdir -p "$(dirname "$1")"
  printf '%s\n' "${@:2}" >"$1"
}
put include/penstock/good.h '#include <cstdint>' '#include <penstock/error.h>'
put pipeline/engine/good.cpp '#include <penstock/good.h>' '#include <tbb/task_arena.h>' \
  '#include "pipeline/core/a.h"' '#include "pipeline/image/b.h"' '#include "pipeline/engine/c.h"'
put tests/engine/good_test.cpp '#include <gtest/gtest.h>' '#include "pipeline/engine/c.h"' '#include "tests/support/d.h"'
put tools/penstock/good.cpp '#include <penstock/good.h>' '#include "towers/layer.h"' '#include "tools/penstock/a.h"'
put towers/good.cpp '#include <penstock/good.h>' '#include <dnnl.hpp>' '#include "towers/layer.h"'
put examples/good.cpp '#include <penstock/good.h>' '#include <iostream>'
put pipeline/core/names.h 'class Twice;' 'namespace penstock {' 'class Twice {' '};' 'namespace {' 'struct Mine {' '};' \
  '}  // namespace' '}  // namespace penstock'
put pipeline/core/names.cpp 'namespace penstock {' 'class Twice::Part {' '};' 'namespace other {' 'struct Twice {' '};' \
  '}  // namespace other' '}  // namespace penstock' 'struct Mine {' '};'
if ! "$check" "$tree"; then
  echo "a tree without violations was refused" >&2
  exit 1
fi

put include/penstock/bad.h '#include "pipeline/core/a.h"'
put include/penstock/bad2.h '#include <tbb/task_arena.h>'
put include/penstock/bad3.h '#include <penstock/internal/posix.h>'
put include/penstock/internal/good.h '#include <penstock/internal/posix.h>'
put pipeline/core/bad.cpp '#include <penstock/good.h>' '#include "pipeline/io/a.h"'
put pipeline/io/bad.cpp '#  include "pipeline/engine/c.h"  // upward'
put pipeline/sources/bad.cu '#include "pipeline/stage/a.h"'
put pipeline/stages/graph.cpp '#include "pipeline/graph/a.h"'
put pipeline/graph/bad.cpp '#include "pipeline/stages/a.h"' '#include "pipeline/engine/c.h"'
put pipeline/image/bad.h '#include "staging/device.h"'
put staging/bad.cuh '#include "towers/layer.h"'
put towers/bad.h '#include "tools/penstock/a.h"' '#include "staging/device.h"'
put tools/penstock/bad.cpp '#include "tests/support/d.h"'
put pipeline/stage/bad.h '#include "../core/a.h"'
put pipeline/stage/bad2.h '#include <pipeline/core/a.h>'
put pipeline/stage/bad3.h '#include "penstock/good.h"'
put staging/names.cpp 'namespace penstock {' '' 'struct Twice final {' '};' '}  // namespace penstock'
put staging/engine.cpp '#include "pipeline/engine/c.h"'
put towers/engine.cpp 'x' '#include "pipeline/stage/c.h"'
put tools/penstock/engine.cpp '#include "pipeline/engine/c.h"' '#include "pipeline/io/d.h"' '#include "staging/e.h"'
put pipelines/engine.cpp '#include "pipeline/engine/c.h"'
put pipelines/identity.cpp 'if (stage.kind().name == "batch") return;' 'return kind != "map";' \
  'if (stage.kind().name == kind) return;' 'if (kind.name == name) return;' 'if (stage.kind().role == StageRole::batch) return;'
put pipeline/stages/identity.cpp 'if (node.name() == "batch") return;' 'if ("map" != stage->name()) return;' 'is_batch(x);'
put pipeline/engine/casts.cpp 'auto& a = const_cast<A&>(b);' 'auto* c = dynamic_cast<C*>(d);'
put pipeline/remote/locks.cpp 'mutable std::mutex mutex_;' 'const std::lock_guard lock(mutex_);' 'std::condition_variable_any changed_;' \
  'bool wait(std::mutex& mutex);'
put pipeline/image/cast.cpp 'auto* c = dynamic_cast<C*>(d);'
put pipeline/stages/cast.cpp 'auto* op = dynamic_cast<const PackingOp*>(d);'
mapfile -t lines < <(seq 601)
put towers/long.cpp "${lines[@]}"
put examples/bad.cpp '#include "pipeline/core/a.h"' '#include <penstock/internal/posix.h>'
if output=$("$check" "$tree" 2> "$tree/warnings"); then
  echo "planted violations were not refused" >&2
  exit 1
fi
expected="examples/bad.cpp:1 examples/bad.cpp:2 include/penstock/bad3.h:1 include/penstock/bad.h:1 include/penstock/bad2.h:1 pipeline/core/bad.cpp:2
pipeline/io/bad.cpp:1 pipeline/stage/bad.h:1 pipeline/stage/bad2.h:1 pipeline/stage/bad3.h:1 pipeline/sources/bad.cu:1
pipeline/engine/casts.cpp:1 pipeline/engine/casts.cpp:2 pipeline/remote/locks.cpp:1 pipeline/remote/locks.cpp:2
pipeline/remote/locks.cpp:3 pipeline/stages/identity.cpp:1 pipeline/stages/identity.cpp:2
pipeline/stages/identity.cpp:3 staging/engine.cpp:1 towers/engine.cpp:2 tools/penstock/engine.cpp:1 pipelines/engine.cpp:1
tools/penstock/engine.cpp:2 tools/penstock/engine.cpp:3 pipelines/identity.cpp:1
pipelines/identity.cpp:2 pipelines/identity.cpp:3
pipeline/stages/graph.cpp:1 pipeline/graph/bad.cpp:2 pipeline/image/bad.h:1 staging/bad.cuh:1 staging/names.cpp:3 tools/penstock/bad.cpp:1 towers/bad.h:1
towers/bad.h:2"
named=$(cut -d: -f1,2 <<<"$output" | LC_ALL=C sort)
if [ "$named" != "$(tr ' ' '\n' <<<"$expected" | LC_ALL=C sort)" ]; then
  printf 'expected:\n%s\ngot:\n%s\n' "$expected" "$output" >&2
  exit 1
fi
if [ "$(cat "$tree/warnings")" != "towers/long.cpp: more than 600 lines: is this one thing?" ]; then
  echo "a long file was not named: $(cat "$tree/warnings")" >&2
  exit 1
fi
echo "$(wc -l <<<"$named") violations named"
