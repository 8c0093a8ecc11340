#!/usr/bin/env python3
"""tools/gpu_check.py over programs that are made up: gpu_check_test.py SOURCE_DIR

Runs it whole, with failures of every kind within steps; then kills it after every step, and in the middle, and looks at what
it has left behind. A made-up device in the place of a GPU.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(sys.argv[1])
OUTCOMES = {"planned", "running", "passed", "failed", "timed out", "not run"}

# What every made-up program does: it writes what the flags ask for.
PROGRAM = r"""#!/bin/sh
name=$(basename "$0")
case $name in
  *sanitizer) shift 4; exec "$@" ;;
esac
for flag; do
  case $flag in
    --gtest_output=json:*) echo '{"tests": 2, "testsuites": [{"testsuite": [{"result": "COMPLETED"}, {"result": "SKIPPED"}]}]}' >"${flag#*:}" ;;
    *.json) echo '{"digest": "1", "verdict": "stage synthetic", "elements_per_second": 21000,
      "towers": [{"stall_share": 0.001, "causes": {"copy": 0.1, "stage synthetic": 2}}]}' >"$flag" ;;
  esac
done
case $name in
  penstock_staging_bench) echo '{"copies": [{"ratio": 1}], "hidden": [{"share": 1}], "finish": [{"ratio": 1}]}' ;;
  penstock_reconstruct_bench) echo '{"host_cpu_s_per_1000": 0.01, "images_per_s": 20000}' ;;
  penstock_towers_bench) echo '{"ratio": 1, "first_loss": 2, "last_loss": 1, "resident_images_per_second": 100}' ;;
  nvidia-smi) echo 'Some GPU, 1.2, CUDA Version: 12.4' ;;
esac
"""


def bundle(folder, **others):
    """A bundle of made-up programs; `others` are scripts in the place of some."""
    home = pathlib.Path(folder)
    (home / "bin").mkdir(parents=True)
    (home / "path").mkdir()
    names = ["penstock", "penstock_staging_bench", "penstock_towers_bench", "penstock_reconstruct_bench", "staging_device_test",
             "staging_area_test", "staging_area_contents_test", "staging_lifetimes_test", "staging_finish_test", "staging_reconstruct_test",
             "staging_reconstruct_faults_test", "staging_scans_test", "staging_cuda_test", "towers_gpu_test"]
    for place, name in [("bin", n) for n in names] + [("path", n) for n in ("nvidia-smi", "compute-sanitizer", "nsys")]:
        file = home / place / name
        file.write_text(others.get(name, PROGRAM))
        file.chmod(0o755)
    (home / "gpu_check.py").write_text((SOURCE / "tools/gpu_check.py").read_text())
    (home / "commit").write_text("made up\n")
    return home


def start(home, *flags):
    environment = dict(os.environ, OUT=str(home / "out"), PATH=f"{home / 'path'}:{os.environ['PATH']}")
    return subprocess.Popen([sys.executable, home / "gpu_check.py", "run", *flags], env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)


def left(home):
    """What is on disk: whole, and with an outcome of each step."""
    try:
        state = json.loads((home / "out/gpu_check.json").read_text())
    except FileNotFoundError:
        return None
    for name, step in state["steps"].items():
        assert step["status"] in OUTCOMES, (name, step)
        assert step["status"] not in ("timed out", "not run") or step["why"], (name, step)
    return state


def done(state):
    return sum(s["status"] not in ("planned", "running") for s in state["steps"].values()) if state else 0


def main():
    work = tempfile.mkdtemp()
    # Whole.
    home = bundle(f"{work}/whole")
    process = start(home)
    said = process.communicate(timeout=100)[0]
    state = left(home)
    assert state["complete"] and len(said) < 10000, said
    statuses = {name: step["status"] for name, step in state["steps"].items()}
    assert all(s in ("passed", "not run") for s in statuses.values()), statuses
    assert statuses["pytorch"] != "planned" and statuses["racecheck_towers_gpu_test_cuda"] == "passed", statuses
    assert process.returncode == 0 and all(state["limits"].values()), (state["limits"], said)
    assert state["environment"]["driver"] == "12.4"
    steps = len(state["steps"])

    # Steps that fail, hang, lie and are missing end themselves and nothing else.
    home = bundle(f"{work}/failing", staging_area_test="#!/bin/sh\nexit 3\n", staging_finish_test="#!/bin/sh\nkill -9 $$\n",
                  penstock_staging_bench="#!/bin/sh\necho '{\"copies\": ['\n", staging_cuda_test="not a program",
                  nsys="#!/bin/sh\necho said; sleep 100 & sleep 100\n",
                  penstock_reconstruct_bench="#!/bin/sh\nyes | head -c 3000000 >&2; exit 1\n")
    process = start(home, "--budget", "25")
    said = process.communicate(timeout=100)[0]
    state = left(home)
    assert process.returncode == 1 and state["complete"] and len(said) < 10000
    of = state["steps"]
    assert of["staging_area_test"]["exit_code"] == 3 and of["staging_finish_test"]["exit_code"] == -9
    assert of["staging_cuda_test"]["status"] == "failed" and of["nsys"]["status"] == "timed out"
    assert of["reconstruct"]["status"] == "failed" and of["racecheck_towers_gpu_test_cuda"]["why"].endswith("it takes 5 s")
    assert all(s["status"] != "planned" for s in of.values())
    assert state["elapsed_s"] < 60, state["elapsed_s"]

    # No device: one reason for all that needs one.
    home = bundle(f"{work}/none", penstock="#!/bin/sh\necho 'penstock: no CUDA here' >&2; exit 1\n")
    start(home).communicate(timeout=100)
    of = left(home)["steps"]
    assert of["device"]["said"].startswith("penstock: no CUDA here") and of["staging"]["why"] == "device did not pass"

    # Cut off after each step, by a signal that can't be caught; and in the middle, by one that can.
    for k in range(steps + 1):
        home = bundle(f"{work}/cut{k}")
        process = start(home)
        until = time.monotonic() + 60
        while done(left(home)) < k and process.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL if k % 4 else signal.SIGTERM)
        process.communicate(timeout=100)
        state = left(home)
        assert state is None or (len(state["steps"]) == steps and done(state) >= k), k
        assert state is not None or k == 0
    print(f"gpu_check: whole, failing and cut off after each of {steps} steps")


main()
