#!/usr/bin/env bash
# Builds the fuzzers and runs each for so many seconds, as many at once as there are cores, from seeds that the tests'
# writers make and from what earlier runs found (build/fuzz-corpus): tools/fuzz.sh [SECONDS [TARGET...]]
# A target of its own time: tools/fuzz.sh 900 jpeg. `--coverage` instead says which lines the corpora reach.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-15}
targets=("${@:2}")
corpus=build/fuzz-corpus

if [ "$seconds" = --coverage ]; then
  CXXFLAGS="-fprofile-instr-generate -fcoverage-mapping" cmake --preset fuzz -B build/fuzz-coverage --log-level=WARNING
  cmake --build build/fuzz-coverage --target fuzz
  fuzz=build/fuzz-coverage/bin/fuzz
  for target in $($fuzz --list); do
    LLVM_PROFILE_FILE="build/fuzz-coverage/$target.profraw" $fuzz "$target" "$corpus/$target" -runs=0 2>/dev/null
  done
  llvm-profdata merge -o build/fuzz-coverage/all.profdata build/fuzz-coverage/*.profraw
  exec llvm-cov report $fuzz -instr-profile build/fuzz-coverage/all.profdata --show-functions=false \
    pipeline/sources pipeline/work/image pipeline/core/state.cpp tools/penstock/graph
fi

tools/build.sh fuzz fuzz
fuzz=$PWD/build/fuzz/bin/fuzz
if [ ${#targets[@]} -eq 0 ]; then mapfile -t targets < <($fuzz --list); fi
mkdir -p build/fuzz-logs build/fuzz-crashes

run() {
  local target=$1 log=build/fuzz-logs/$1.log
  mkdir -p "$corpus/$target" "build/fuzz-seeds/$target"
  "$fuzz" "$target" --seeds "build/fuzz-seeds/$target"
  if ! "$fuzz" "$target" "$corpus/$target" "build/fuzz-seeds/$target" -max_total_time="$seconds" -max_len=4096 \
    -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=128 -artifact_prefix="build/fuzz-crashes/$target-" \
    -print_final_stats=1 >"$log" 2>&1; then
    grep -nE "^==|runtime error|^fuzz: |SUMMARY|^    #[0-9]+ .*(penstock|toml)" "$log" | head -n 40
    echo "fuzz: $target failed; build/fuzz/bin/fuzz $target FILE runs the input again"
    return 1
  fi
  printf 'fuzz: %-9s %9d inputs, corpus %5d, covered %5s edges\n' "$target" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$(find "$corpus/$target" -type f | wc -l)" \
    "$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -n 1)"
}
export -f run
export seconds corpus fuzz
# shellcheck disable=SC2016  # the shell that xargs starts expands it
printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'run "$1"' run
