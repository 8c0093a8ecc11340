#!/usr/bin/env bash
# Runs what takes too long, or depends too much on the machine, for .ci/run, and writes the figures into
# bench/results/reliability.md with the date and the machine:
# - PENSTOCK_KILLS (2,000) kills of a consumer
# - allocations that fail in bursts, at every 7th place
# - PENSTOCK_FIGHTS (200) kills of one of three processes that want the same state; a full disk at every step of every file
# - PENSTOCK_CLUSTER_KILLS (300) kills, freezes and cut links of ranks, etcd, workers, parameter servers and chiefs
# - PENSTOCK_WORKER_DEATHS (5,000) kills and freezes of input workers; PENSTOCK_UPLOAD_KILLS (2,000) of writers to a store
# - the memory of 40 graphs, measured from outside; every limit on threads and addresses
# - PENSTOCK_TRAIN_KILLS (100) kills of a run of training; 200 steps of it
# - the Python module with PyTorch and JAX; PENSTOCK_TRAINING_KILLS (20) kills of a training in PyTorch; torchdata's tests of
#   states, if PENSTOCK_TORCHDATA is their file (bench/peers/torchdata_states.py); the wheel in a Debian without compiler
# - tests labelled `reliability` of other programs, on mounts of s3fs, sshfs and tmpfs too; a million schedules of batches and values
# - 25 changes of files in each kind of run; 20 runs of 12 graphs in each of 12 small budgets
# - PENSTOCK_GRAPHS (100,000) random graphs, each in a random budget; the least budgets of all pairs of stages
# - jobs of several processes, in every way to start them
# - the suites that .ci/run leaves out under ASan and TSan; each fuzzer for a minute
# Takes some four hours. Only the kills, of another build: tools/reliability.sh build/asan/bin/crash_crash_test
set -euo pipefail
cd "$(dirname "$0")/.."

test=${1:-}
if [ -z "$test" ]; then
  tools/build.sh release reliability_tests engine_tests conformance_tests e2e_contention_test e2e_full_disk_test engine_schedules_test remote_deaths_test \
    towers_trainer_test e2e_train_test
  test=build/release/bin/crash_crash_test
fi
page=bench/results/reliability.md
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)

# figures MARK COMMAND...: runs it and writes the figures that it prints between the marks of the page.
figures() {
  local mark=$1
  shift
  "$@" | tee "$log"
  {
    sed "/<!-- $mark -->/q" "$page"
    printf '\nMeasured on %s, %s, %d CPUs, Linux %s.\n\n' "$(date -u +%F)" "$cpu" "$(nproc)" "$(uname -r)"
    sed -n 's/^figure: | /| /p;t;s/^figure: /- /p' "$log"
    printf '\n'
    sed -n "/<!-- end of $mark -->/,\$p" "$page"
  } > "$log.page"
  mv "$log.page" "$page"
}

figures kills env PENSTOCK_KILLS="${PENSTOCK_KILLS:-2000}" "$test" --gtest_filter='Crash.*'
[ -z "${1:-}" ] || exit 0
figures storms env PENSTOCK_STORM=full bash -c 'build/release/bin/storm_malloc_test && build/release/bin/storm_new_test'
figures files env PENSTOCK_FIGHTS="${PENSTOCK_FIGHTS:-200}" PENSTOCK_DISKS=all \
  bash -c 'build/release/bin/e2e_contention_test && build/release/bin/e2e_full_disk_test'
# Without etcd its kills would be left out.
tools/setup.sh --checks
etcd --version >/dev/null
figures cluster env PENSTOCK_KILLS="${PENSTOCK_CLUSTER_KILLS:-300}" build/release/bin/cluster_kills_test
figures served env PENSTOCK_KILLS="${PENSTOCK_CLUSTER_KILLS:-300}" build/release/bin/cluster_served_kills_test
figures workers env PENSTOCK_WORKER_DEATHS="${PENSTOCK_WORKER_DEATHS:-5000}" build/release/bin/remote_deaths_test
figures uploads env PENSTOCK_KILLS="${PENSTOCK_UPLOAD_KILLS:-2000}" build/release/bin/http_upload_kills_test
figures rss env PENSTOCK_RSS=full build/release/bin/rss_rss_test
tools/build.sh release penstock_cuda penstock_towers_cuda
bench/kernel_budgets.py
figures limits env PENSTOCK_LIMITS=all build/release/bin/limits_limits_test
tools/python_tests.sh torch torchvision jax parameterized expecttest
python_figures() {
  local python=build/wheel-env/bin/python photographs=${PENSTOCK_DATA:-}/imagenet-sample
  PENSTOCK_KILLS="${PENSTOCK_TRAINING_KILLS:-20}" $python -B -m pytest -q -s -p no:cacheprovider tests/python/test_kills.py
  [ -z "${PENSTOCK_TORCHDATA:-}" ] || $python -B bench/peers/torchdata_states.py "$PENSTOCK_TORCHDATA"
  if [ -d "$photographs" ]; then
    tests/house/wheel_container_test.sh build/wheels/penstock-*.whl "$photographs" || [ $? = 77 ]
  fi
}
figures python python_figures
PENSTOCK_SCHEDULES=1000000 build/release/bin/engine_schedules_test
PENSTOCK_CHANGES=25 PENSTOCK_OUTCOMES=20 build/release/bin/engine_tests --gtest_filter='*ChangedFiles*:Outcomes.*'
PENSTOCK_GRAPHS="${PENSTOCK_GRAPHS:-100000}" build/release/bin/conformance_tests --gtest_filter='Budgets.AreEnough*:Budgets.OfFeeds*:SerialCount.*'
PENSTOCK_KILLS="${PENSTOCK_TRAIN_KILLS:-100}" build/release/bin/e2e_train_test --gtest_filter='*Killed*'
PENSTOCK_TRAIN_STEPS=200 ctest --preset release -R '^towers/trainer/Trainer\.(TowersAsOne|Learns)'
ctest --preset release -L reliability -E '^(crash|storm|rss|limits|cluster/kills|cluster/served_kills|http/upload_kills)/'
tools/build.sh release penstock_tool penstock_cluster_module
tests/cluster/same_bits_test.sh build/release/bin/penstock full
tests/house/subproject_test.sh . build/release full
tests/cluster/other_launchers_test.sh build/release/bin/penstock
timeout 300 tools/check_deploy.sh build/release/bin/penstock
tools/sanitized.sh --slow asan conformance/conformance image/resize sources/image_tails storm/new remote/{record,deaths} staging/feed_inputs \
  report/{observed_runs,trace,environment} kernels/{finish,reconstruct,towers} pipelines/c_feed http/{files,sources} \
  cluster/contradictions e2e/{malformed,faults}
tools/sanitized.sh --slow tsan staging/{feed_state,feed_proof,share_slots,area_errors} towers/{trainer,strategies,exchange} \
  engine/{texts,budget,budget_callers} http/files io/uring sources/{offset_index,hostile_index} conformance/{conformance,sources} \
  report/{trace,environment} kernels/{finish,reconstruct,towers} \
  conformance/semantics_{order,batch,errors,cache,interleave}
tools/fuzz.sh 60
