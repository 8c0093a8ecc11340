#!/usr/bin/env bash
# What only a GPU can show. `tools/gpu_check.sh build [FILE]` compiles for sm_90 (and PTX, for what follows) with the nvcc
# that is here, and writes a bundle of what a machine with a driver, the CUDA toolkit and NVIDIA's Python wheels for cuDNN
# and NCCL lacks: programs, their libraries, this script. There, `./gpu_check.sh run` runs the conformance suite, the layers, the
# finishing kernels' comparison, compute-sanitizer's memcheck and racecheck and the benchmarks (of ResNet-50 too), and prints one JSON; 0 if
# all passed. Without arguments: run if this is a bundle, else build.
set -euo pipefail
cd "$(dirname "$0")"

suite=(staging_device_test staging_area_test staging_area_contents_test staging_finish_test staging_reconstruct_test
  staging_reconstruct_faults_test staging_cuda_test towers_gpu_test)
programs=(penstock penstock_staging_bench penstock_towers_bench penstock_reconstruct_bench "${suite[@]}")
limit=$((64 << 20))

fail() {
  echo "gpu_check: $*" >&2
  exit 1
}

build() {
  local file=${1:-../build/gpu_check.tar.xz} bundle size
  command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || fail "no nvcc here: install the CUDA toolkit"
  ./build.sh cuda penstock_tool penstock_cuda penstock_towers_cuda "${programs[@]:1}" >&2
  bundle=$(mktemp -d)
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$bundle'" EXIT
  mkdir "$bundle/bin" "$bundle/lib"
  for program in "${programs[@]}" libpenstock_cuda.so libpenstock_towers_cuda.so; do
    strip -o "$bundle/bin/$program" "../build/cuda/bin/$program"
    # What every Linux has, in the version that its loader needs, stays where it is.
    ldd "../build/cuda/bin/$program" | awk '$3 ~ /^\// {print $3}' |
      grep -Ev '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv))\.so' | xargs -r cp -nLt "$bundle/lib"
  done
  chmod +x "$bundle"/bin/*
  cp gpu_check.sh ../bench/peers/resnet50_steps.py "$bundle"
  git rev-parse HEAD >"$bundle/commit"
  mkdir -p "$(dirname "$file")"
  tar -C "$bundle" -c . | xz -T0 -6 >"$file"
  size=$(stat -c %s "$file")
  [ "$size" -le $limit ] || fail "$file has $size bytes, more than $limit"
  echo "gpu_check: $file, $size bytes; there: mkdir check && tar -xJf $(basename "$file") -C check && check/gpu_check.sh run"
}

# The folders of NVIDIA's wheels, if there are any.
wheels() {
  python3 - <<'PYTHON'
import glob, site, sys
folders = set(site.getsitepackages() + [site.getusersitepackages()] + sys.path)
print(":".join(sorted(f for d in folders if d for f in glob.glob(d + "/nvidia/*/lib"))))
PYTHON
}

sanitizer() {
  command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true
}

# step NAME COMMAND...: notes how it ended; what it says goes to a log.
step() {
  local name=$1 code=0
  shift
  echo "gpu_check: $name" >&2
  timeout -k 10 900 "$@" >"$out/$name.log" 2>&1 || code=$?
  echo "$code" >"$out/$name.code"
  [ $code -eq 0 ] || tail -n 20 "$out/$name.log" >&2
}

run() {
  local check libraries
  [ -d bin ] || fail "this is no bundle: tools/gpu_check.sh build makes one"
  command -v python3 >/dev/null || fail "no python3 here"
  libraries=$(wheels)
  export LD_LIBRARY_PATH=$PWD/lib:${libraries:+$libraries:}${LD_LIBRARY_PATH:-}
  out=$(mktemp -d)
  # The one clear error of a machine that can't do this.
  if ! bin/penstock profile --range 64 --batch 8 --device cuda:0 --quiet >"$out/first.log" 2>&1; then
    fail "$(head -n 1 "$out/first.log")"
  fi
  for test in "${suite[@]}"; do
    step "$test" "bin/$test" --gtest_filter='*cuda*:*Cuda*:*OnGpu*' --gtest_output="json:$out/$test.json"
  done
  check=$(sanitizer)
  if [ -n "$check" ]; then
    step memcheck "$check" --tool memcheck --error-exitcode 9 bin/staging_area_test --gtest_filter='*cuda*'
    step memcheck_finish "$check" --tool memcheck --error-exitcode 9 bin/staging_finish_test --gtest_filter='*cuda*'
    step memcheck_contents "$check" --tool memcheck --error-exitcode 9 bin/staging_area_contents_test --gtest_filter='*cuda*'
    step memcheck_reconstruct "$check" --tool memcheck --error-exitcode 9 bin/staging_reconstruct_test \
      --gtest_filter='*EverySize*cuda*'
    step memcheck_damaged "$check" --tool memcheck --error-exitcode 9 bin/staging_reconstruct_faults_test \
      --gtest_filter='*Damaged*cuda*'
    step racecheck_reconstruct "$check" --tool racecheck --error-exitcode 9 bin/staging_reconstruct_test \
      --gtest_filter='*EveryScale*cuda*'
    step racecheck_padding "$check" --tool racecheck --error-exitcode 9 bin/staging_reconstruct_faults_test \
      --gtest_filter='*Padding*cuda*'
    step racecheck "$check" --tool racecheck --error-exitcode 9 bin/staging_finish_test --gtest_filter='*cuda*'
  else
    echo "no compute-sanitizer on this machine" >"$out/memcheck.log"
    echo 127 >"$out/memcheck.code"
  fi
  # shellcheck disable=SC2016 # for the inner shell
  step bench bash -c 'bin/penstock_staging_bench cuda:0 60 >"$0"' "$out/bench.json"
  bin/penstock synth "$out/images" --images 2000 --size 375x500 >/dev/null
  # Images made there from coefficient records: the same as here, and how fast.
  bin/penstock pack --images "$out/images" --jpeg coefficients --out "$out/images.pnr" >/dev/null
  local records=(--records "$out/images.pnr" --shuffle --random-resized-crop 224 --flip --normalize --batch 64 --seed 1
    --digest --quiet)
  step digest_host bin/penstock profile "${records[@]}" --json "$out/digest_host.json"
  step digest_device bin/penstock profile "${records[@]}" --on-device --device cuda:0 --epoch-end stop \
    --json "$out/digest_device.json"
  # shellcheck disable=SC2016 # for the inner shell
  step reconstruct bash -c 'bin/penstock_reconstruct_bench "$1" cuda:0 10 mmap >"$0"' "$out/reconstruct.json" "$out/images.pnr"
  # 7,000 images a second are wanted: batches of 256 in steps of 36.6 ms.
  step trainer bin/penstock profile --images "$out/images" --shuffle --repeat --random-resized-crop 224 --batch 256 \
    --device cuda:0 --step-ms 36.57 --seconds 30 --quiet --json "$out/trainer.json"
  # ResNet-50 from JPEGs beside the same step on a batch that stays, and beside PyTorch's where that is.
  # shellcheck disable=SC2016 # for the inner shell
  step resnet50 bash -c 'bin/penstock_towers_bench cuda:0 bf16 resnet50 "$1" 256 60 >"$0"' "$out/resnet50.json" "$out/images"
  if python3 -c 'import torch, torchvision' 2>/dev/null; then
    # shellcheck disable=SC2016 # for the inner shell
    step pytorch env -u LD_LIBRARY_PATH bash -c './resnet50_steps.py >"$0"' "$out/pytorch.json"
  fi
  python3 - "$out" commit <<'PYTHON'
import glob, json, os, sys
out, commit = sys.argv[1:]
def read(name):
    try:
        with open(os.path.join(out, name)) as file:
            return file.read()
    except OSError:
        return ""
def parsed(name):
    try:
        return json.loads(read(name))
    except ValueError:
        return None
steps, passed = {}, True
for path in sorted(glob.glob(out + "/*.code")):
    name = os.path.basename(path)[:-5]
    code = int(open(path).read())
    counts = parsed(name + ".json") if name.endswith("_test") else None
    steps[name] = {"exit_code": code}
    if counts:
        skipped = sum(t.get("result") == "SKIPPED" for s in counts["testsuites"] for t in s["testsuite"])
        steps[name].update(tests=counts["tests"], failures=counts["failures"], skipped=skipped)
        passed = passed and counts["tests"] > skipped
    if code:
        steps[name]["said"] = read(name + ".log")[-2000:]
        passed = False
bench, trainer = parsed("bench.json"), parsed("trainer.json") or {}
resnet, pytorch = parsed("resnet50.json"), parsed("pytorch.json")
reconstruct = parsed("reconstruct.json")
digests = [(parsed(f"digest_{where}.json") or {}).get("digest") for where in ("host", "device")]
tower = (trainer.get("towers") or [{}])[0]
want = {}
if bench:
    want = {"staged copies >= 0.97 of bare ones": min(c["ratio"] for c in bench["copies"]) >= 0.97,
            "copies hidden >= 0.95": min(h["share"] for h in bench["hidden"]) >= 0.95,
            "finishing kernels >= 0.8 of a copy": min(f["ratio"] for f in bench["finish"]) >= 0.8}
want["images made on the device have the host's digest"] = digests[0] is not None and digests[0] == digests[1]
if reconstruct:
    want["of their making <= 0.06 s a 1,000 on the host"] = reconstruct["host_cpu_s_per_1000"] <= 0.06
    want["15,000 of them a second"] = reconstruct["images_per_s"] >= 15000
if resnet:
    want["ResNet-50 with its input >= 0.97 of a batch that stays"] = resnet["ratio"] >= 0.97
    want["the loss of ResNet-50 falls"] = resnet["last_loss"] < resnet["first_loss"]
print(json.dumps({"commit": open(commit).read().strip(), "device": (bench or {}).get("device"), "passed": passed,
                  "steps": steps, "bench": bench, "reconstruct": reconstruct, "resnet50": resnet, "pytorch": pytorch, "limits": want,
                  "trainer": {"images_per_second": trainer.get("elements_per_second"),
                              "stall_share": tower.get("stall_share"), "causes": tower.get("causes"),
                              "verdict": trainer.get("verdict")}}, indent=1))
sys.exit(0 if passed and want and all(want.values()) else 1)
PYTHON
}

action=${1:-}
[ $# -eq 0 ] || shift
if [ -z "$action" ]; then action=$([ -d bin ] && echo run || echo build); fi
case $action in
  build) build "$@" ;;
  run) run ;;
  *) fail "usage: gpu_check.sh [build [FILE] | run]" ;;
esac
