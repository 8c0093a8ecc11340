#!/usr/bin/env python3
"""tools/gpu_check.py over programs that are made up: gpu_check_test.py SOURCE_DIR

Runs it whole, with failures of every kind within steps; then kills it after every step, and in the middle, and looks at what
it has left behind. A made-up device in the place of a GPU. Then bench/peers/jpeg_on_device.py with a libnvjpeg that is made up,
where a C compiler and PyTorch are; NVIDIA's header is held against it, where that is.
"""
import ast
import concurrent.futures
import ctypes
import glob
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import site
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
    --gtest_output=json:*)
      echo '{"tests": 2, "testsuites": [{"testsuite": [{"result": "COMPLETED"}, {"result": "SKIPPED"}]}]}' >"${flag#*:}" ;;
    *.json) echo '{"digest": "1", "verdict": "stage synthetic", "elements_per_second": 21000,
      "decoding": {"on_device": 100, "on_host": {}}, "images_per_second": 95, "towers": [{"stall_share": 0.001,
      "causes": {"copy": 0.1, "stage synthetic": 2}}]}' >"$flag" ;;
  esac
done
case $name in
  penstock_staging_bench) echo '{"copies": [{"ratio": 1}], "hidden": [{"share": 1}], "finish": [{"ratio": 1}]}' ;;
  penstock_reconstruct_bench) echo '{"host_cpu_s_per_1000": 0.01, "images_per_s": 20000}' ;;
  penstock_towers_bench) echo '{"ratio": 1, "first_loss": 2, "last_loss": 1, "resident_images_per_second": 100,
      "images_per_second": 95}' ;;
  nvidia-smi) echo 'Some GPU, 1.2, CUDA Version: 12.4' ;;
esac
"""
# What the made-up programs of others do: {} is a rate of theirs, and how they end.
PEERS = """import json, os, sys
folders = [flag.split("=")[0] for flag in sys.argv if "=" in flag]
threads = [int(n) for n in sys.argv[sys.argv.index("--threads") + 1].split(",")]
assert 15 <= float(sys.argv[sys.argv.index("--budget") + 1]) <= 145
with open(sys.argv[1], "w") as file:
    json.dump({{"rates": [{{"decoder": "some", "folder": f, "threads": t, "images_per_second": {rate}}}
                          for f in folders for t in threads]}}, file)
os.kill(os.getpid(), {end})
"""


TWICE = "JPEGs >= 2 times the best peer, 4 threads (made)"


def bundle(folder, **others):
    """A bundle of made-up programs; `others` are scripts in the place of some."""
    home = pathlib.Path(folder)
    (home / "bin").mkdir(parents=True)
    for name in ("path", "photos/jpegs", "modules"):
        (home / name).mkdir(parents=True)
    (home / "photos/photos.pnr").touch()
    for module in ("torch", "torchvision"):
        (home / "modules" / f"{module}.py").touch()
    (home / "resnet50_steps.py").write_text("print('{\"images_per_second\": 100}')")
    (home / "jpeg_on_device.py").write_text(others.get("peers", PEERS.format(rate=10000, end=0)))
    names = ["penstock", "penstock_staging_bench", "penstock_towers_bench", "penstock_reconstruct_bench", "staging_device_test",
             "staging_area_test", "staging_area_contents_test", "staging_lifetimes_test", "staging_finish_test",
             "staging_reconstruct_test", "staging_reconstruct_faults_test", "staging_scans_test", "staging_cuda_test",
             "towers_gpu_test"]
    for place, name in [("bin", n) for n in names] + [("path", n) for n in ("nvidia-smi", "compute-sanitizer", "nsys")]:
        file = home / place / name
        file.write_text(others.get(name, PROGRAM))
        file.chmod(0o755)
    (home / "gpu_check.py").write_text((SOURCE / "tools/gpu_check.py").read_text())
    (home / "commit").write_text("made up\n")
    return home


def start(home, *flags):
    environment = dict(os.environ, OUT=str(home / "out"), PATH=f"{home / 'path'}:{os.environ['PATH']}",
                       PYTHONPATH=str(home / "modules"))
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


def cut_off(home, k, steps):
    process = start(home)
    until = time.monotonic() + 60
    while done(left(home)) < k and process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL if k % 4 else signal.SIGTERM)
    process.communicate(timeout=100)
    state = left(home)
    assert state is None or (len(state["steps"]) == steps and done(state) >= k), k
    assert state is not None or k == 0
    if k % 4 == 0 and state and k < steps:  # what is known is judged
        both = state["results"].get("jpeg_peers") and state["results"].get("jpegs_made_4")
        assert state["cut"] == "SIGTERM" and (not both or TWICE in state["limits"]), k


def header_agrees(work, source):
    """Whether NVIDIA's header is here; if so, it has the prototypes, the layout and the values that we repeat."""
    folders = [f for d in site.getsitepackages() + sys.path for f in glob.glob(f"{d}/nvidia/*/include")]
    folders += ["/usr/local/cuda/include", *os.environ.get("NVJPEG_INCLUDE", "").split(":")]
    if not all(any(os.path.exists(f"{f}/{header}") for f in folders) for header in ("nvjpeg.h", "cuda_runtime_api.h")):
        return False
    flags = [f"-I{f}" for f in folders if os.path.isdir(f)]
    subprocess.run(["cc", "-std=gnu11", "-Werror", "-DNVIDIA", *flags, source, "-o", work / "values", "-ljpeg"], check=True)
    sys.path.insert(0, str(SOURCE / "bench/peers"))
    import jpeg_decoders
    image = jpeg_decoders.NvjpegImage
    ours = dict(jpeg_decoders.BACKENDS, rgb=jpeg_decoders.RGB, success=0, major=0, size=ctypes.sizeof(image),
                pitch=image.pitch.offset, enum=ctypes.sizeof(ctypes.c_int))
    assert json.loads(subprocess.check_output([work / "values"])) == ours
    return True


def others(work):
    """Others' decoders on the host: what is missing, crashes or hangs fails alone."""
    source, library = SOURCE / "tests/house/fake_nvjpeg.c", work / "libnvjpeg.so"
    build = ["cc", "-std=gnu11", "-Wall", "-Werror", "-shared", "-fPIC", source, "-o", library, "-ljpeg"]
    if not shutil.which("cc") or subprocess.run(build, stderr=subprocess.DEVNULL).returncode != 0:
        return "no C compiler with libjpeg for others' decoders"
    header = "NVIDIA's header agrees" if header_agrees(work, source) else "NVIDIA's header is not here"
    (work / "jpegs").mkdir()
    for i, (width, height) in enumerate([(97, 61), (64, 48), (97, 61)]):
        assert ctypes.CDLL(library).write_jpeg(str(work / f"jpegs/{i}.jpg").encode(), width, height) == 0
    (work / "jpegs/other.jpg").write_bytes(b"\xff\xd8\xff\xc2\x00\x04\x00\x00\xff\xd9" + bytes(20))  # a progressive one
    out, good = work / "peers.json", ["torchvision", "nvjpeg_hardware", "nvjpeg_hardware_device"]
    subprocess.run([sys.executable, SOURCE / "bench/peers/jpeg_on_device.py", out, f"some={work / 'jpegs'}", "--rehearse",
                    "--nvjpeg", library, "--threads", "1,2", "--batch", "3", "--seconds", "0.05", "--child", "8", "--only",
                    ",".join(["nvjpeg_hybrid", "nvjpeg_gpu_hybrid", *good])],
                   check=True, stderr=subprocess.DEVNULL, timeout=100)
    state = json.loads(out.read_text())
    assert state["complete"] and state["rehearsal"]
    if not all(importlib.util.find_spec(name) for name in ("torch", "torchvision")):
        assert not state["rates"] and (state["skipped"] or state["errors"]), state
        return f"no PyTorch for others' decoders, {header}"
    assert state["folders"]["some"]["files"] == 3 and state["folders"]["some"]["of_another_kind"] == 1
    assert [(r["decoder"], r["threads"]) for r in state["rates"]] == [(d, t) for d in good for t in (1, 2)], state
    assert all(r["images_per_second"] > 0 for r in state["rates"])
    assert all(d["max"] <= 2 and d["images"] == 3 for d in state["differences"].values()), state["differences"]
    assert state["facts"]["nvjpeg_hardware"] == {"path": "libnvjpeg.so", "version": "90.91.92", "hardware_engines": 3,
                                                 "cores_of_each": 1}
    assert state["errors"] == {"nvjpeg_hybrid, some": "its process ended with -6",
                               "nvjpeg_gpu_hybrid, some": "was not done after 8 s"}, state["errors"]
    return f"others' decoders, {header}"


def main():
    work, pool = tempfile.mkdtemp(), concurrent.futures.ThreadPoolExecutor()
    # Whole.
    home = bundle(f"{work}/whole")
    process = start(home)
    said = process.communicate(timeout=100)[0]
    state = left(home)
    assert state["complete"] and len(said) < 10000, said
    statuses = {name: step["status"] for name, step in state["steps"].items()}
    assert all(s == "passed" for s in statuses.values()), statuses
    assert statuses["racecheck_towers_gpu_test_batch_norm"] == "passed", statuses
    assert process.returncode == 0 and all(state["limits"].values()), (state["limits"], said)
    assert state["environment"]["driver"] == "12.4"
    for name in ("20,000 JPEGs a second from one thread of the host (photos)", TWICE, "the device decodes JPEGs, 4 threads",
                 "CIFAR-10 from JPEGs >= 0.9 of a batch that stays"):
        assert name in state["limits"], state["limits"]
    steps = len(state["steps"])
    shares = ast.literal_eval(re.search(r"^SHARES = (.*)$", (SOURCE / "tools/gpu_check.py").read_text(), re.M)[1])
    groups = [step["group"] for step in state["steps"].values()]
    assert sum(shares.values()) == 540 and list(dict.fromkeys(groups)) == [*shares, "rest"], groups
    assert groups == sorted(groups, key=[*shares, "rest"].index)

    # Steps that fail, hang, lie and are missing end themselves and nothing else.
    home = bundle(f"{work}/failing", staging_area_test="#!/bin/sh\nexit 3\n", staging_finish_test="#!/bin/sh\nkill -9 $$\n",
                  penstock_staging_bench="#!/bin/sh\necho '{\"copies\": ['\n", staging_cuda_test="not a program",
                  peers=PEERS.format(rate=11000, end="signal.SIGSEGV").replace("import json", "import signal, json"),
                  **{"compute-sanitizer": "#!/bin/sh\ncase $* in *EveryScale*) echo said; sleep 100 & sleep 100 ;; esac\n"},
                  penstock_reconstruct_bench="#!/bin/sh\nyes | head -c 3000000 >&2; exit 1\n")
    failing = home, start(home, "--budget", "40")  # which waits, beside the others

    # No device: one reason for all that needs one.
    home = bundle(f"{work}/none", penstock="#!/bin/sh\necho 'penstock: no CUDA here' >&2; exit 1\n")
    start(home).communicate(timeout=100)
    of = left(home)["steps"]
    assert of["device"]["said"].startswith("penstock: no CUDA here") and of["staging"]["why"] == "device did not pass"
    decoders = pool.submit(others, pathlib.Path(work))

    # Cut off after each step, by a signal that can't be caught; and in the middle, by one that can.
    for k in range(steps + 1):
        cut_off(bundle(f"{work}/cut{k}"), k, steps)

    home, process = failing
    said = process.communicate(timeout=100)[0]
    state = left(home)
    assert process.returncode == 1 and state["complete"] and len(said) < 10000
    of = state["steps"]
    assert of["staging_area_test"]["exit_code"] == 3 and of["staging_finish_test"]["exit_code"] == -9
    assert of["staging_cuda_test"]["status"] == of["reconstruct"]["status"] == "failed"
    assert of["racecheck_staging_reconstruct_test_EveryScale"]["status"] == "timed out", of
    assert of["synccheck_staging_reconstruct_test_EveryScale"]["why"].endswith("it takes 15 s")
    # What others had measured before they crashed counts.
    assert of["jpeg_peers"]["exit_code"] == -signal.SIGSEGV and state["limits"][TWICE] is False, of
    assert all(s["status"] != "planned" for s in of.values())
    assert state["elapsed_s"] < 60, state["elapsed_s"]
    print(f"gpu_check: whole, failing and cut off after each of {steps} steps; {decoders.result()}")


main()
