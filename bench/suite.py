#!/usr/bin/env python3
"""Runs benchmarks: ours, its limit and the peers in turns, each a process of its own, pinned to the same CPUs.

bench/run.sh builds what this needs and calls it. Prints one JSON line for each benchmark: medians over the rounds, and
ratios of what stood side by side in each round.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "release" / "bin"
DATA = ROOT / "build" / "bench-data"
PYTHON = ROOT / "build" / "peers" / "bin" / "python"
PEERS = ROOT / "bench" / "peers"


def profile(*flags):
    return [BIN / "penstock", "profile", "--quiet", "--seed", "7", "--json", "-", *flags]


def peer(program, name, *rest):
    return [PYTHON, PEERS / program, name, *rest]


def photographs(args):
    """The folder given by --images, or one made here of a photograph's size."""
    if args.images:
        return args.images
    folder = DATA / "photographs"
    if not folder.exists():
        synth("--images", "300", "--size", "300x400..500x600", folder)
    return folder


def synth(*flags):
    subprocess.run([BIN / "penstock", "synth", *map(str, flags)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def tiny_jpegs():
    folder = DATA / "tiny"
    if not folder.exists():
        synth("--images", "50000", "--size", "32x32", folder)
    return folder


def records(size):
    """One TFRecord file of 512 MB, or 64 MB of small ones, of records of about so many bytes."""
    folder = DATA / f"records-{size}"
    if not folder.exists():
        folder.mkdir(parents=True)
        subprocess.run([sys.executable, PEERS / "make_records.py", folder / "records.tfrecord", str(size),
                        str((64 if size < 1000 else 512) << 20)], check=True)
    return folder / "records.tfrecord"


def image_crops(args, threads):
    folder, n = photographs(args), str(threads)
    steps = ["--shuffle", "--random-resized-crop", "224", "--flip"]
    ours = ["--images", folder, *steps, "--normalize", "--batch", "64", "--epochs", "3", "--threads", n]
    return {
        "limit": [BIN / "penstock_limits", "region", folder, n, "3"],
        "ours": profile(*ours),
        "peers": {name: peer("images.py", name, folder, "--threads", n, "--epochs", "3")
                  for name in ("tf.data", "torchvision", "DALI", "mlx-data", "SPDL")},
    }


def image_u8(args):
    """As the leanest peer delivers: u8, in a small budget."""
    folder = photographs(args)
    ours = ["--images", folder, "--shuffle", "--random-resized-crop", "224", "--flip", "--batch", "64",
            "--epochs", "3", "--threads", "1", "--memory", "64MiB"]
    return {"limit": [BIN / "penstock_limits", "region", folder, "1", "3"], "ours": profile(*ours),
            "peers": {"mlx-data": peer("images.py", "mlx-data", folder, "--epochs", "3")}}


def tiny(_):
    folder = tiny_jpegs()
    return {
        "limit": [BIN / "penstock_limits", "whole", folder, "1", "1"],
        "ours": profile("--images", folder, "--decode", "--batch", "128", "--threads", "1"),
        "peers": {name: peer("decode.py", name, folder, "--batch", "128")
                  for name in ("tf.data", "DALI", "mlx-data")},
    }


def small_work(_):
    return {
        "ours": profile("--range", "50000000", "--identity", "--batch", "1024", "--threads", "1"),
        "peers": {name: peer("small.py", name, "2000000", "--batch", "1024") for name in ("tf.data", "mlx-data")},
    }


def tfrecords(_, size, batch):
    path = records(size)
    return {
        "limit": [BIN / "penstock_limits", "pread", "1", str(1 << 20), path],
        "ours": profile("--tfrecord", path, "--batch", str(batch), "--threads", "1"),
        "peers": {"tf.data": peer("records.py", "tf.data", path, "--batch", str(batch))},
        "of": "bytes",
        "bytes": path.stat().st_size,
    }


BENCHMARKS = {
    "images": lambda args: image_crops(args, 1),
    "images-2": lambda args: image_crops(args, 2),
    "images-u8": image_u8,
    "tiny-jpegs": tiny,
    "small-work": small_work,
    "tfrecord-110kB": lambda args: tfrecords(args, 110_000, 16),
    "tfrecord-200B": lambda args: tfrecords(args, 200, 1024),
}


def run(command, cpus):
    done = subprocess.run(["taskset", "--cpu-list", cpus, *map(str, command)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr[-2000:]}")
    at = done.stdout.find("{\n")  # a document; else lines
    text = done.stdout[at:] if at >= 0 else done.stdout.strip().splitlines()[-1]
    found = json.loads(text)
    memory = found.get("memory", {})
    rss = memory.get("rss_peak_bytes") or found.get("rss_peak_bytes")
    return {
        "per_second": found["elements_per_second"],
        "bytes_per_second": found.get("bytes_per_second") or None,
        "elements": found["elements"],
        "cpu_seconds_per_1000": found["cpu_seconds_per_1000"],
        "first_batch_ms": found.get("first_batch_ms"),
        "rss_peak_mb": round(rss / 1e6, 1) if rss else None,
    }


def machine():
    with open("/proc/cpuinfo") as info:
        names = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} CPUs"


def commit():
    return subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True,
                          text=True).stdout.strip()


def median_of(rounds, label):
    seen = [r[label] for r in rounds]
    keys = [key for key, value in seen[0].items() if value is not None]
    return {key: float(f"{statistics.median(r[key] for r in seen):.6g}") for key in keys}


def benchmark(name, args):
    plan = BENCHMARKS[name](args)
    commands = {"ours": plan["ours"]}
    if "limit" in plan:
        commands["limit"] = plan["limit"]
    if PYTHON.exists() and not args.no_peers:
        commands |= plan["peers"]
    cpus = "0,1" if name.endswith("-2") else "0"
    rounds, failed = [], {}
    for number in range(-1, args.rounds):  # the first warms up
        measured = {}
        for label in commands if number % 2 == 0 else reversed(commands):
            if label in failed:
                continue
            try:
                measured[label] = run(commands[label], cpus)
            except (RuntimeError, OSError) as error:
                if label in ("ours", "limit"):
                    raise
                failed[label] = str(error).strip().splitlines()[-1]
        if number >= 0:
            rounds.append(measured)

    def rate(measured):  # in bytes, where the limit knows no records
        if plan.get("of") != "bytes":
            return measured["per_second"]
        return measured["bytes_per_second"] or measured["per_second"] * plan["bytes"] / measured["elements"]

    results = {label: median_of(rounds, label) for label in rounds[0] if label not in failed}
    ratios = {}
    for label in results:
        if label != "ours":
            ratios["ours/" + label] = round(
                statistics.median(rate(r["ours"]) / rate(r[label]) for r in rounds), 3)
    print(json.dumps({"benchmark": name, "rounds": len(rounds), "cpus": cpus, "results": results, "ratios": ratios,
                      "failed": failed, "machine": machine(), "commit": commit()}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; all if none is given")
    parser.add_argument("--images", type=pathlib.Path, help="a folder of photographs; else some are made")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-peers", action="store_true", help="ours and the limits only")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in BENCHMARKS]
    if unknown or args.rounds < 1:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}" if unknown
                     else "--rounds must be at least 1")
    if shutil.which("taskset") is None:
        sys.exit("suite: taskset is missing (package util-linux)")
    if not PYTHON.exists() and not args.no_peers:
        print("suite: no peers are installed (bench/peers/setup.sh); ours and the limits only", file=sys.stderr)
    for name in args.names or BENCHMARKS:
        benchmark(name, args)


if __name__ == "__main__":
    main()
