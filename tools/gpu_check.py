#!/usr/bin/env python3
"""What only a GPU can show, in a bundle that tools/gpu_check.sh makes: `gpu_check.py run [--budget SECONDS] [--work FOLDER]`.

Every step has a name, a limit and a share of the budget (540 s, so that a command of ten minutes ends by itself). What is
known is written anew to $OUT/gpu_check.json (default: out/) behind each step: whenever this is cut off, the file is whole, and
says of each step that is planned whether it passed, failed, ran out of time, or why it did not run. Nothing outside of a step
ends this. The summary on standard output has less than 10,000 characters. Exit code 0: all that ran passed, and so did the
limits.

`gpu_check.py rehearse [FOLDER]` is the same on a host device, with little to do: what a machine without a GPU can show of
this file. FOLDER has the programs.
"""
import argparse
import glob
import importlib.util
import json
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = ["staging_device_test", "staging_area_test", "staging_area_contents_test", "staging_lifetimes_test",
         "staging_finish_test", "staging_reconstruct_test", "staging_reconstruct_faults_test", "staging_scans_test",
         "staging_cuda_test", "towers_gpu_test"]
SUMMARY = 9000  # characters
# Seconds of each group of steps, in their order; the first has what a new machine needs to start.
SHARES = {"environment": 30, "tests": 60, "training": 120, "peers": 180, "sanitizers": 90, "profiler": 60}
GPU = ("name,driver_version,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,clocks.sm,clocks.max.sm,clocks.mem,"
       "clocks.max.mem,power.draw,temperature.gpu,mig.mode.current")


class Check:
    def __init__(self, arguments):
        self.began = time.monotonic()
        self.rehearsal = arguments.action == "rehearse"
        self.budget = arguments.budget
        self.bin = os.path.abspath(arguments.bin)
        self.device = "host:0" if self.rehearsal else "cuda:0"
        self.filter = "*host*" if self.rehearsal else "*cuda*:*Cuda*:*OnGpu*"
        self.out = os.path.abspath(os.environ.get("OUT") or os.path.join(os.getcwd(), "out"))
        os.makedirs(self.out, exist_ok=True)
        # Thousands of images do not belong beside what is kept.
        self.work = os.path.abspath(arguments.work) if arguments.work else self.out
        os.makedirs(self.work, exist_ok=True)
        self.running = None
        self.state = {"commit": self.text_of(os.path.join(HERE, "commit")).strip(), "rehearsal": self.rehearsal,
                      "budget_s": self.budget, "elapsed_s": 0, "complete": False, "environment": {}, "steps": {},
                      "results": {}, "limits": {}}
        # What we carry goes in front of what is here, and the system's in front of wheels' (they may be another version).
        folders = [os.path.join(HERE, "lib")] + compat_folder() + wheel_folders()
        self.environment = dict(os.environ, CUDNN_LOGLEVEL_DBG="2", CUDNN_LOGDEST_DBG="stderr", NCCL_DEBUG="WARN",
                                CUDA_DEVICE_MAX_CONNECTIONS=os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "32"),
                                LD_LIBRARY_PATH=":".join(f for f in folders + [os.environ.get("LD_LIBRARY_PATH", "")] if f))

    def elapsed(self):
        return time.monotonic() - self.began

    @staticmethod
    def text_of(path):
        try:
            with open(path, errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def json_of(self, name):
        try:
            return json.loads(self.text_of(os.path.join(self.work, name)))
        except ValueError:
            return None

    def write(self):
        """The state, whole at every moment."""
        try:
            self.state["elapsed_s"] = round(self.elapsed(), 1)
            path = os.path.join(self.out, "gpu_check.json")
            with open(path + ".new", "w") as file:
                json.dump(self.state, file, indent=1)
            os.replace(path + ".new", path)
        except OSError as error:  # a full disk ends no step
            print(f"gpu_check: {error}", file=sys.stderr)

    def run(self, plan):
        for step in plan:
            self.state["steps"][step["name"]] = {"status": "planned", "group": step["group"]}
        self.write()
        for step in plan:
            outcome = self.state["steps"][step["name"]]
            try:
                self.one(step, outcome)
            except Exception as error:  # of this file's own
                outcome.update(status="failed", why=f"{type(error).__name__}: {error}")
            self.write()
        self.state["complete"] = True
        self.write()

    def one(self, step, outcome):
        left = min(step["until"], self.budget) - self.elapsed()
        if step.get("skip"):
            return outcome.update(status="not run", why=step["skip"])
        needs = [n for n in step.get("needs", []) if self.state["steps"][n]["status"] != "passed"]
        if needs:
            return outcome.update(status="not run", why=f"{needs[0]} did not pass")
        if left < step["least"]:
            return outcome.update(status="not run", why=f"{left:.0f} s are left, and it takes {step['least']} s")
        if "call" in step:
            outcome.update(status="passed", said=step["call"]())
            return None
        started, limit = time.monotonic(), min(step["most"], left)
        # A program that knows its limit ends by itself.
        command = [part.replace("{limit}", f"{limit - 5:.0f}") for part in step["command"]]
        log = os.path.join(self.work, step["name"] + ".log")
        print(f"gpu_check: {step['name']}, after {self.elapsed():.0f} s", file=sys.stderr, flush=True)
        outcome["status"] = "running"
        self.write()
        with open(log, "w") as said:
            target = open(os.path.join(self.work, step["into"]), "w") if "into" in step else said
            try:
                self.running = subprocess.Popen(command, stdout=target, stderr=said, stdin=subprocess.DEVNULL,
                                                env=dict(self.environment, **step.get("env", {})), cwd=self.work,
                                                start_new_session=True)
                code = self.running.wait(limit)
                outcome.update(status="passed" if code == 0 else "failed", exit_code=code)
            except subprocess.TimeoutExpired:
                outcome.update(status="timed out", why=f"after {limit:.0f} s")
            except OSError as error:
                outcome.update(status="failed", why=str(error))
            finally:
                self.end_running()
                if target is not said:
                    target.close()
        outcome["seconds"] = round(time.monotonic() - started, 1)
        if outcome["status"] != "passed":
            outcome["said"] = self.text_of(log)[-1500:]
        self.take_result(step)
        if step["name"] in TESTS:
            counts = self.json_of(step["name"] + ".json") or {}
            skipped = sum(t.get("result") == "SKIPPED" for s in counts.get("testsuites", []) for t in s["testsuite"])
            outcome.update(tests=counts.get("tests", 0), failures=counts.get("failures", 0), skipped=skipped)
            if outcome["status"] == "passed" and outcome["tests"] == skipped:
                outcome.update(status="failed", why="no test ran")
        return None

    def take_result(self, step):
        if "result" in step:
            result = self.json_of(step["result"])
            self.state["results"][step["name"]] = step["keep"](result) if result and "keep" in step else result

    def kill_running(self):
        """Kills the running step and everything it has started. Returns it, or None."""
        process, self.running = self.running, None
        if process is not None:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except OSError:
                pass
        return process

    def end_running(self):
        process = self.kill_running()
        if process is not None:
            process.wait()

    def ask(self, *command):
        """What a short command says, or why it says nothing."""
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, env=self.environment)
            return (done.stdout or done.stderr).strip()[:2000]
        except (OSError, subprocess.SubprocessError) as error:
            return f"{type(error).__name__}: {error}"


def wheel_folders():
    """Where NVIDIA's wheels put cuDNN, NCCL and cuBLAS: nvidia/cudnn/lib, nvidia/cu13/lib and the like."""
    folders = set(site.getsitepackages() + [site.getusersitepackages()] + sys.path)
    return sorted(f for d in folders if d for f in glob.glob(d + "/nvidia/*/lib"))


def compat_folder():
    """The forward-compatibility driver, if it is newer than the one that is loaded; it is for data centers' GPUs only."""
    libraries = glob.glob("/usr/local/cuda/compat/libcuda.so.*.*")
    version = re.search(r"\.so\.(\d+)", libraries[0]) if libraries else None
    try:
        with open("/proc/driver/nvidia/version") as file:
            loaded = re.search(r"(\d+)\.\d+\.\d+", file.read())
    except OSError:
        loaded = None
    newer = version and loaded and int(version.group(1)) > int(loaded.group(1))
    return [os.path.dirname(libraries[0])] if newer else []


def environment_of(check):
    def library(name):
        where = [f for f in check.environment["LD_LIBRARY_PATH"].split(":") if glob.glob(os.path.join(f, name + "*"))]
        known = next((l.split("=>")[-1].strip() for l in check.ask("ldconfig", "-p").splitlines() if name in l), None)
        return where[0] if where else known or "not found"
    listed = check.ask("nvidia-smi", "-L")
    check.state["environment"] = {
        "machine": " ".join(os.uname()[i] for i in (0, 2, 4)), "cpus": os.cpu_count(), "gpus": listed,
        "mig": "a part of a GPU: names are MIG-..., bandwidths are the part's" if "MIG" in listed else "no",
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES", "all"),
        "gpu": check.ask("nvidia-smi", f"--query-gpu={GPU}", "--format=csv"),
        "driver": (re.search(r"CUDA Version: *(\S+)", check.ask("nvidia-smi")) or ["", "unknown"])[1],
        "forward_compatibility": (compat_folder() or ["not needed, or not there"])[0],
        "program": check.ask(os.path.join(check.bin, "penstock"), "--version"),
        "libraries": {name: library(name) for name in ("libcudnn.so.9", "libnccl.so.2", "libcublasLt.so")}}
    return "in environment"


def profiled(report):
    """What is kept of a profile."""
    tower, decoding = (report.get("towers") or [{}])[0], report.get("decoding") or {}
    # As others' rates, without the start.
    seconds = (report.get("wall_s") or 0) - 1e-3 * (report.get("first_batch_ms") or 0)
    rate = report["elements"] / seconds if seconds > 0 and "elements" in report else report.get("elements_per_second")
    return {"images_per_second": rate, "stall_share": tower.get("stall_share"),
            "causes": tower.get("causes"), "verdict": report.get("verdict"), "on_device": decoding.get("on_device"),
            "on_host": decoding.get("on_host")}


def plan_of(check):
    """The steps. `until`: seconds from the start; `least`: what a step is not begun without; `most`: its own limit. A group is
    over once its share and those before it are. What has no share follows as time is left, the cheapest first. A rehearsal has
    more time for tests: it may run beside other work."""
    small = check.rehearsal
    program = lambda name: os.path.join(check.bin, name)
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    profiler = shutil.which("nsys") or shutil.which("/usr/local/cuda/bin/nsys")
    photos = os.path.join(HERE, "photos")
    plan, until, share = [], {}, 0
    for group, seconds in SHARES.items():
        share += seconds
        until[group] = check.budget if small else share
    if small:
        until["tests"] = 300

    def add(group, name, command=None, least=5, most=100, **more):
        plan.append(dict(group=group, name=name, command=command, until=until.get(group, check.budget), least=least, most=most,
                         **more))

    penstock = lambda *flags: [program("penstock"), *flags]
    on_device = ["--on-device", "--device", check.device]
    batch = "8" if small else "256"
    torch = all(importlib.util.find_spec(name) for name in ("torch", "torchvision"))

    add("environment", "environment", call=lambda: environment_of(check), least=0)
    add("environment", "device", penstock("profile", "--range", "64", "--batch", "8", "--device", check.device, "--quiet"),
        most=60)

    for test in TESTS:
        of_gpus = test == "staging_cuda_test" or test == "towers_gpu_test"
        add("tests", test, [program(test), "--gtest_filter=" + ("*fake*" if small and of_gpus else check.filter),
                            f"--gtest_output=json:{test}.json"], most=150 if small else 60, needs=["device"],
            skip="only a GPU can run it" if small and test == "staging_cuda_test" else None)

    # ResNet-50 on photographs' sizes, as PyTorch makes its steps, and CIFAR-10's network on small JPEGs, which the host or the
    # device decodes.
    synth = lambda name, few, many, size, *flags: penstock("synth", name, *flags, "--images", few if small else many, "--size",
        size, "--force")
    add("training", "images", synth("images", "40", "2000", "375x500"), most=40)
    bench = [program("penstock_towers_bench"), check.device]
    model = ["f32", "cifar10", "images", "4", "2"] if small else ["bf16", "resnet50", "images", "256", "60"]
    add("training", "resnet50", bench + model, least=3 if small else 20, most=60, into="resnet50.json", result="resnet50.json",
        needs=["device", "images"])
    no_torch = None if torch else "no PyTorch with torchvision here"
    add("training", "pytorch", [sys.executable, os.path.join(HERE, "resnet50_steps.py")], least=20, most=50,
        into="pytorch.json", result="pytorch.json", env={"LD_LIBRARY_PATH": ""},
        skip="only a GPU can run it" if small else no_torch)
    add("training", "small_images", synth("small", "40", "10000", "32x32"), most=20)
    model = ["f32", "cifar10", "small", "4", "2"] if small else ["bf16", "cifar10", "small", "256", "2000"]
    add("training", "cifar10", bench + model, most=30, into="cifar10.json", result="cifar10.json",
        needs=["device", "small_images"])
    add("training", "cifar10_on_device", bench + model + ["on-device"], most=30, into="cifar10_on_device.json",
        result="cifar10_on_device.json", needs=["device", "small_images"])

    # JPEGs to 224x224 on the device: ours, and then others' from the same files.
    threads = [1, 2] if small else sorted({1, 4, len(os.sched_getaffinity(0))})
    folders = {"photos": os.path.join(photos, "jpegs"), "made": "images"}
    for source, folder in folders.items():
        for count in threads:
            add("peers", f"jpegs_{source}_{count}", penstock("profile", "--images", folder, "--shuffle", "--repeat",
                "--random-resized-crop", "224", "--flip", "--normalize", "--batch", batch, "--seed", "1", "--quiet",
                "--threads", str(count), *on_device, "--seconds", "1" if small else "4", "--json",
                f"jpegs_{source}_{count}.json"), most=20, result=f"jpegs_{source}_{count}.json", keep=profiled,
                skip=None if source == "made" or os.path.isdir(folder) else "this bundle carries no photographs",
                needs=["device", "images"])
    scripts = [os.path.join(HERE, folder, "jpeg_on_device.py") for folder in ("", "../bench/peers")]
    peers = [*[s for s in scripts if os.path.exists(s)][:1], "peers.json", "--threads", ",".join(map(str, threads)),
             *[f"{s}={f}" for s, f in folders.items() if s == "made" or os.path.isdir(f)]]
    peers += ["--rehearse", "--batch", "4", "--seconds", "0.2"] if small else []
    add("peers", "jpeg_peers", [sys.executable, *peers, "--budget", "{limit}"], least=20, most=100 if small else 150,
        result="peers.json", env={"LD_LIBRARY_PATH": ""}, needs=["images"], skip=no_torch)

    # Sanitizers, of the newest kernels first; the others are the last of all.
    def sanitize(group, test, only, *tools):
        for tool in tools:
            add(group, f"{tool}_{test}_{only.split('*')[1]}", [sanitizer or "compute-sanitizer", "--tool", tool,
                "--error-exitcode", "9", program(test), f"--gtest_filter={only}"], least=15,
                most=40 if group == "sanitizers" else 60,
                skip=None if sanitizer else "no compute-sanitizer here", needs=["device", test])
    tools = ["memcheck", "racecheck", "synccheck", "initcheck"]
    sanitize("sanitizers", "staging_scans_test", "*cuda*", *tools)
    sanitize("sanitizers", "towers_gpu_test", "*batch_norm*cuda*:*residual*cuda*:*max_pool*cuda*", *tools)
    add("profiler", "nsys", [profiler or "nsys", "profile", "--stats=true", "--force-overwrite=true", "-o", "staged",
        *penstock("profile", "--images", "images", "--repeat", "--random-resized-crop", "224", "--batch", batch, *on_device,
        "--seconds", "3", "--quiet")], most=60, skip=None if profiler else "no nsys here", needs=["device", "images"])

    # Elements take so long that the pipeline is what stalls the steps: the verdict has to say so.
    add("rest", "throttled", penstock("profile", "--synthetic", "count=100000,bytes=1000,cost_us=1000", "--threads", "1",
        "--batch", "16", "--device", check.device, "--step-ms", "2", "--seconds", "2" if small else "5", "--quiet", "--json",
        "throttled.json"), needs=["device"], most=20)
    crops = ["--shuffle", "--random-resized-crop", "224", "--flip", "--normalize", "--batch", batch, "--seed", "1", "--digest",
             "--quiet"]

    def digests(source, epochs, missing, needs, *flags):
        flags = ["profile", *flags, *crops, "--epochs", epochs]
        add("rest", f"digest_host_{source}", penstock(*flags, "--json", f"digest_host_{source}.json"), skip=missing,
            needs=needs, most=40)
        add("rest", f"digest_device_{source}", penstock(*flags, *on_device, "--epoch-end", "stop", "--json",
            f"digest_device_{source}.json"), skip=missing, needs=["device", *needs], most=40)
    missing = None if os.path.exists(os.path.join(photos, "photos.pnr")) else "this bundle carries no photographs"
    digests("jpegs", "1", None, ["images"], "--images", "images")
    digests("photo_jpegs", "1" if small else "20", missing, [], "--images", folders["photos"])
    # NCCL as one rank: the calls are proven, and the variables stay what they are.
    add("rest", "made_cifar", synth("cifar", "200", "200", "32x32", "--format", "cifar10"), most=20)
    train = ["train", "--model", "cifar10", "--data", os.path.join(check.work, "cifar", "data_batch_1.bin"), "--batch", "8",
             "--epochs", "1", "--deterministic", "--quiet", "--device"]
    for name, alone in (("without_nccl", []), ("nccl_alone", ["--nccl-alone"])):
        add("rest", name, penstock(*train, f"{check.device},{check.device}", *alone, "--json", f"{name}.json"), most=40,
            result=f"{name}.json", needs=["device", "made_cifar"])
    add("rest", "on_host", penstock(*train, "host:0,host:1", "--json", "on_host.json"), most=60, result="on_host.json",
        needs=["made_cifar"])
    add("rest", "packed", penstock("pack", "--images", "images", "--jpeg", "coefficients", "--out", "images.pnr"), most=40,
        needs=["images"])
    digests("made", "1", None, ["packed"], "--records", "images.pnr")
    digests("photos", "2" if small else "60", missing, [], "--records", os.path.join(photos, "photos.pnr"))
    add("rest", "reconstruct", [program("penstock_reconstruct_bench"), "images.pnr", check.device, "2" if small else "10",
        "mmap"], most=40, into="reconstruct.json", result="reconstruct.json", needs=["device", "packed"])
    # 7,000 images a second are wanted: batches of 256 in steps of 36.57 ms.
    add("rest", "trainer", penstock("profile", "--images", "images", "--shuffle", "--repeat", "--random-resized-crop", "224",
        "--batch", batch, "--device", check.device, "--step-ms", "36.57", "--seconds", "1" if small else "15", "--quiet",
        "--json", "trainer.json"), least=1 if small else 20, most=40, result="trainer.json", keep=profiled,
        needs=["device", "images"])
    add("rest", "staging", [program("penstock_staging_bench"), check.device, "1" if small else "40"], least=20, most=80,
        into="staging.json", result="staging.json", needs=["device"])
    add("rest", "load", call=lambda: check.ask("nvidia-smi", f"--query-gpu={GPU}", "--format=csv"), least=0)
    sanitize("rest", "staging_area_test", "*cuda*", "memcheck")
    sanitize("rest", "staging_area_contents_test", "*cuda*", "memcheck")
    sanitize("rest", "staging_finish_test", "*cuda*", "memcheck", "racecheck", "initcheck")
    sanitize("rest", "staging_reconstruct_test", "*EverySize*cuda*", "memcheck")
    sanitize("rest", "staging_reconstruct_test", "*EveryScale*cuda*", "racecheck", "synccheck")
    sanitize("rest", "staging_reconstruct_faults_test", "*Damaged*cuda*", "memcheck")
    sanitize("rest", "staging_reconstruct_faults_test", "*Padding*cuda*", "racecheck")
    return plan


def limits_of(check):
    """What was asked for, as true or false; what was not measured has none."""
    results, limits = check.state["results"], {}

    def want(name, test):
        try:
            limits[name] = bool(test())
        except (AttributeError, KeyError, TypeError, ValueError, IndexError):
            pass
    staging, resnet, torch = (results.get(n) for n in ("staging", "resnet50", "pytorch"))
    for source in ("made", "photos", "jpegs", "photo_jpegs"):
        digests = [(check.json_of(f"digest_{where}_{source}.json") or {}).get("digest") for where in ("host", "device")]
        if digests[0] and digests[1]:
            want(f"images made on the device have the host's digest ({source})", lambda d=digests: d[0] == d[1])
    want("NCCL of one rank changes no bit", lambda: results["nccl_alone"]["variables_digest"] ==
         results["without_nccl"]["variables_digest"])
    want("losses are the host's within 1 in 1,000", lambda: all(
        abs(there - here) <= 1e-3 * here for there, here in
        zip(results["without_nccl"]["train_loss"], results["on_host"]["train_loss"], strict=True)))
    throttled = check.json_of("throttled.json")
    want("what throttles a run is named",
         lambda: "synthetic" in max(throttled["towers"][0]["causes"].items(), key=lambda c: c[1])[0])
    if check.rehearsal:
        return limits  # speeds are a GPU's
    want("staged copies >= 0.97 of bare ones", lambda: min(c["ratio"] for c in staging["copies"]) >= 0.97)
    want("copies hidden >= 0.95", lambda: min(h["share"] for h in staging["hidden"]) >= 0.95)
    want("finishing kernels >= 0.8 of a copy", lambda: min(f["ratio"] for f in staging["finish"]) >= 0.8)
    want("of images' making <= 0.06 s a 1,000 on the host", lambda: results["reconstruct"]["host_cpu_s_per_1000"] <= 0.06)
    want("15,000 of them a second", lambda: results["reconstruct"]["images_per_s"] >= 15000)
    rates = (results.get("jpeg_peers") or {}).get("rates", [])
    for name in [name for name in results if name.startswith("jpegs_")]:
        ours, (source, threads) = results[name], name.split("_")[1:]
        theirs = [r["images_per_second"] for r in rates if r["folder"] == source and str(r["threads"]) == threads]
        if threads == "1":
            want(f"20,000 JPEGs a second from one thread of the host ({source})",
                 lambda o=ours: o["images_per_second"] >= 20000)
        if theirs:
            want(f"JPEGs >= 2 times the best peer, {threads} threads ({source})",
                 lambda o=ours, t=theirs: o["images_per_second"] >= 2 * max(t))
        if source == "made":
            want(f"the device decodes JPEGs, {threads} threads",
                 lambda o=ours: o["on_device"] > 20 * sum((o["on_host"] or {}).values()))
    cifar10, fed = results.get("cifar10"), [results.get(n) or {} for n in ("cifar10", "cifar10_on_device")]
    want("CIFAR-10 from JPEGs >= 0.9 of a batch that stays", lambda: max(f.get("images_per_second", 0) for f in fed) >=
         0.9 * cifar10["resident_images_per_second"])
    want("stalls <= 1 % at 7,000 images a second", lambda: results["trainer"]["stall_share"] <= 0.01 and
         results["trainer"]["images_per_second"] >= 0.97 * 7000)
    want("ResNet-50 with its input >= 0.97 of a batch that stays", lambda: resnet["ratio"] >= 0.97)
    want("the loss of ResNet-50 falls", lambda: resnet["last_loss"] < resnet["first_loss"])
    want("steps take as long as PyTorch's, within 10 %",
         lambda: abs(resnet["resident_images_per_second"] / torch["images_per_second"] - 1) <= 0.1)
    return limits


def summary_of(state):
    lines = [f"gpu_check of {state['commit'] or 'an unknown commit'}: {state['elapsed_s']} s of {state['budget_s']} s"]
    if state["environment"]:
        lines.append(state["environment"]["gpu"][-400:])
    for name, step in state["steps"].items():
        tests = f", {step['tests']} tests, {step['skipped']} skipped" if "tests" in step else ""
        lines.append(f"{step['status']:<10} {name}{tests}" + (f": {step['why']}" if "why" in step else ""))
    lines += [f"{'met' if met else 'MISSED':<10} {name}" for name, met in state["limits"].items()]
    for name, step in state["steps"].items():
        if step["status"] in ("failed", "timed out") and step.get("said"):
            lines += [f"-- {name}"] + step["said"].splitlines()[-6:]
    text = "\n".join(line[:300] for line in lines)
    return text if len(text) <= SUMMARY else text[:SUMMARY] + "\n… more in gpu_check.json"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("action", choices=["run", "rehearse"], nargs="?", default="run")
    parser.add_argument("bin", nargs="?", default=os.path.join(HERE, "bin"))
    parser.add_argument("--budget", type=float, default=540)
    parser.add_argument("--work", help="the folder of all files but gpu_check.json; default: $OUT")
    check, plan = Check(parser.parse_args()), []

    def cut(number, _frame):
        # The main thread may be inside of `wait` or `print`, and hold their locks: neither is used here.
        check.kill_running()
        check.state["cut"] = signal.Signals(number).name
        check.write()
        try:
            for step in (step for step in plan if check.state["steps"][step["name"]]["status"] == "running"):
                check.take_result(step)
            check.state["limits"] = limits_of(check)
            check.write()
        except Exception:  # it is whole without
            pass
        os.write(1, (summary_of(check.state) + "\n").encode())
        os._exit(1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, cut)
    plan += plan_of(check)
    check.run(plan)
    try:
        check.state["limits"] = limits_of(check)
    except Exception as error:  # what was measured is worth more than what is made of it
        check.state["limits"] = {f"limits could be worked out ({type(error).__name__}: {error})": False}
    steps = check.state["steps"].values()
    bad = [s for s in steps if s["status"] in ("failed", "timed out")]
    there = check.state["steps"]["device"]["status"] == "passed"
    check.state["passed"] = there and not bad and all(check.state["limits"].values())
    check.write()
    print(summary_of(check.state))
    return 0 if check.state["passed"] else 1


sys.exit(main())
