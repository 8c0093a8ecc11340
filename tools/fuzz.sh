#!/usr/bin/env bash
# Builds the fuzzers and runs each for some seconds, as many at once as there are cores, from seeds that the tests'
# writers make and from what earlier runs found (build/fuzz-corpus): tools/fuzz.sh [SECONDS [TARGET...]]
# `tools/fuzz.sh --runs [TARGET...]` instead runs a number of inputs that takes some seconds. With FUZZ_SEED=N and no
# earlier finds, the inputs are the same on every machine.
# `tools/fuzz.sh --coverage` instead says what of each parser the corpora reach.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-15}
targets=("${@:2}")
corpus=build/fuzz-corpus
seed=${FUZZ_SEED:-0}

tools/build.sh asan fuzz
fuzz=$PWD/build/asan/bin/fuzz
mapfile -t all < <("$fuzz" --list)
[ ${#all[@]} -gt 0 ] || { echo "fuzz: $fuzz lists no targets" >&2; exit 1; }
if [ "$seconds" = --coverage ]; then
  for target in "${all[@]}"; do
    mkdir -p "$corpus/$target"
    "$fuzz" "$target" "$corpus/$target" -runs=0 -print_coverage=1 2>&1 | grep -E '^(UN)?COVERED_FUNC' || true
  done | awk -v root="$PWD" '
    { place = $NF; sub(":[0-9]*$", "", place); sub(".*/build/asan/../../", "", place); sub(root "/", "", place) }
    place !~ /^(pipeline\/(sources|work\/(image|jpeg)|core\/state)|tools\/penstock\/graph\/toml_read|towers\/safetensors)/ { next }
    { split($0, part, "edges: "); split(part[2], edges, "[/ ]"); key = place " " $0; sub(".*edges: [0-9]*/[0-9]* ", "", key)
      if (edges[1] + 0 > most[key] + 0) most[key] = edges[1]
      total[key] = edges[2]; file[key] = place }
    END { for (key in total) { f = file[key]; all[f]++; in_all[f] += total[key]; in_reached[f] += most[key]
                               if (most[key] > 0) reached[f]++ }
          for (f in all) printf "%-45s functions %3d of %3d, edges %4d of %4d\n", f, reached[f], all[f], in_reached[f], in_all[f] }' |
    sort
  exit
fi
if [ ${#targets[@]} -eq 0 ]; then targets=("${all[@]}"); fi
limit=-max_total_time=$seconds
if [ "$seconds" = --runs ]; then limit=-runs; fi
mkdir -p build/fuzz-logs build/fuzz-crashes

# Inputs that take about a second on one core.
runs_of() {
  case $1 in
    csv | jpeg | own_jpeg | state) echo 1000 ;;
    example | png) echo 20000 ;;
    toml) echo 7000 ;;
    image_records | npy | safetensors) echo 15000 ;;
    *) echo 3000 ;;
  esac
}

run() {
  local target=$1 log=build/fuzz-logs/$1.log until=$limit
  [ "$until" != -runs ] || until=-runs=$(runs_of "$target")
  mkdir -p "$corpus/$target" "build/fuzz-seeds/$target"
  "$fuzz" "$target" --seeds "build/fuzz-seeds/$target"
  if ! "$fuzz" "$target" "$corpus/$target" "build/fuzz-seeds/$target" "$until" -seed="$seed" -max_len=4096 \
    -timeout=60 -rss_limit_mb=2048 -malloc_limit_mb=128 -artifact_prefix="build/fuzz-crashes/$target-" \
    -print_final_stats=1 >"$log" 2>&1; then
    grep -anE "^==|runtime error|^fuzz: |SUMMARY|^    #[0-9]+ .*(penstock|toml|tbb)" "$log" | head -n 120
    echo "fuzz: $target failed; build/asan/bin/fuzz $target FILE runs the input again, in base64:"
    find build/fuzz-crashes -name "$target-*" -newer "build/fuzz-seeds/$target" -exec base64 {} +
    return 1
  fi
  printf 'fuzz: %-9s %9d inputs, corpus %5d, covered %5s edges\n' "$target" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$(find "$corpus/$target" -type f | wc -l)" \
    "$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -n 1)"
}
export -f run runs_of
export limit seed corpus fuzz
# shellcheck disable=SC2016  # the shell that xargs starts expands it
printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'run "$1"' run
