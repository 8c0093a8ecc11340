#!/usr/bin/env python3
"""Runs benchmarks: ours, its limit and the peers in turns, each a process of its own, pinned to the same CPUs.

bench/run.sh builds what this needs and calls it. Prints one JSON line for each benchmark: medians over the rounds, and
ratios of what stood side by side in each round; at the end all of it as one table in Markdown.
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
PYTHON = ROOT / "build" / "peers" / "bin" / "python"  # bench/peers/setup.sh puts it there; --peers says otherwise
PEERS = ROOT / "bench" / "peers"


def profile(*flags):
    return [BIN / "penstock", "profile", "--quiet", "--seed", "7", "--json", "-", *flags]


def peer(program, name, *rest):
    return [PYTHON, PEERS / program, name, *rest]


def ffcv():
    """FFCV's interpreter: it has an environment of its own, because it wants an older Python."""
    venv = PYTHON.parent.parent
    return venv.with_name(venv.name + "-ffcv") / "bin" / "python"


def ffcv_images(folder, *rest):
    """Nothing where FFCV isn't installed."""
    if not ffcv().exists():
        return {}
    beton = DATA / "photographs.beton"
    if not beton.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        subprocess.run([ffcv(), PEERS / "write_beton.py", folder, beton], check=True, stderr=subprocess.DEVNULL)
    return {"FFCV": [ffcv(), PEERS / "images.py", "FFCV", beton, *rest]}


def photographs(args):
    """The folder given by --images, or one made here of a photograph's size."""
    if args.images:
        return args.images
    folder = DATA / "photographs"
    if not folder.exists():
        synth("--images", "300", "--size", "300x400..500x600", folder)
    return folder


def large_photographs(args):
    """Photographs enlarged to 2 to 12 megapixels by enlarge.py, where Pillow is installed; else made-up ones."""
    folder = DATA / "large"
    if not folder.exists():
        if PYTHON.exists() and args.images:
            subprocess.run([PYTHON, PEERS / "enlarge.py", args.images, folder, "48"], check=True)
        else:
            synth("--images", "48", "--size", "1200x1700..2800x4200", folder)
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
    """One TFRecord file of 512 MB, or 256 MB of small ones, of records of about so many bytes."""
    folder = DATA / f"records-{size}"
    if not folder.exists():
        folder.mkdir(parents=True)
        subprocess.run([sys.executable, PEERS / "make_records.py", folder / "records.tfrecord", str(size),
                        str((256 if size < 1000 else 512) << 20)], check=True)
    return folder / "records.tfrecord"


def image_crops(args, threads):
    folder, n = photographs(args), str(threads)
    steps = ["--shuffle", "--random-resized-crop", "224", "--flip"]
    ours = ["--images", folder, *steps, "--normalize", "--batch", "64", "--epochs", "3", "--threads", n]
    return {
        "limit": [BIN / "penstock_limits", "region", folder, n, "3"],
        "ours": profile(*ours),
        "peers": {name: peer("images.py", name, folder, "--threads", n, "--epochs", "3")
                  for name in ("tf.data", "torchvision", "DALI", "mlx-data", "SPDL")} |
                 ffcv_images(folder, "--threads", n, "--epochs", "3"),
    }


def full_frame(args):
    folder = large_photographs(args)
    return {
        "limit": [BIN / "penstock_limits", "whole", folder, "1", "2", "224"],
        "ours": profile("--images", folder, "--shuffle", "--resize", "224x224", "--batch", "16", "--epochs", "2",
                        "--threads", "1"),
        "peers": {name: peer("full_frame.py", name, folder, "--batch", "16", "--epochs", "2")
                  for name in ("tf.data", "torchvision", "DALI", "mlx-data", "SPDL")},
    }


def slow_consumer(args):
    """A training step of 120 ms a batch, which ours could feed twice: what matters is the CPU time."""
    plan = image_crops(args, 1)
    folder = photographs(args)
    plan["ours"] = [*plan["ours"], "--step-ms", "120"]
    plan["peers"] = {name: peer("images.py", name, folder, "--epochs", "3", "--step-ms", "120")
                     for name in ("tf.data", "DALI", "mlx-data")}
    del plan["limit"]
    return plan


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
        "ours": profile("--range", "20000000", "--identity", "--batch", "1024", "--threads", "1"),
        "peers": {name: peer("small.py", name, "200000" if "called" in name else "2000000",
                             "--batch", "1024") for name in ("tf.data", "tf.data, called", "mlx-data")},
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


def unverified_records(_):
    plan = tfrecords(_, 110_000, 16)
    plan["ours"].append("--no-verify")
    del plan["peers"]
    return plan


def random_records(_):
    """In another order each epoch; the limit jumps about in the file likewise."""
    path = records(110_000)
    return {
        "limit": [BIN / "penstock_limits", "jumps", "1", "110000", path],
        "ours": profile("--tfrecord", path, "--shuffle", "--batch", "16", "--threads", "1"),
        "of": "bytes",
        "bytes": path.stat().st_size,
    }


def cold_records(_):
    """Nothing of the file is in the page cache; the limit goes past it, with eight reads at a time."""
    plan = tfrecords(_, 110_000, 16)
    path = records(110_000)
    plan["limit"] = [BIN / "penstock_limits", "direct", "1", str(1 << 20), path]
    plan["ours"] += ["--io", "io_uring"]
    plan["cold"] = path
    return plan


def tar(_):
    path = DATA / "tar" / "samples.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, PEERS / "make_tar.py", path, "110000", str(512 << 20)], check=True)
    return {
        "limit": [BIN / "penstock_limits", "pread", "1", str(1 << 20), path],
        "ours": profile("--tar", path, "--batch", "16", "--threads", "1"),
        "peers": {"mlx-data": peer("records.py", "mlx-data, tar", path, "--batch", "16")},
        "of": "bytes",
        "bytes": path.stat().st_size,
    }


def own(program, *args):
    """One program that interleaves both sides itself, and prints a JSON line."""
    return {"own": [BIN / program, *args]}


def tiny_records():
    """1.28 million TFRecords of about 40 bytes each, framing included."""
    path = DATA / "records-24" / "records.tfrecord"
    if not path.exists():
        path.parent.mkdir(parents=True)
        subprocess.run([sys.executable, PEERS / "make_records.py", path, "24", str(1_280_000 * 40)], check=True)
    return path


BENCHMARKS = {
    "images": lambda args: image_crops(args, 1),
    "images-2": lambda args: image_crops(args, 2),
    "images-u8": image_u8,
    "full-frame": full_frame,
    "slow-consumer": slow_consumer,
    "tiny-jpegs": tiny,
    "small-work": small_work,
    "tfrecord-110kB": lambda args: tfrecords(args, 110_000, 16),
    "tfrecord-110kB-unverified": unverified_records,
    "tfrecord-110kB-random": random_records,
    "tfrecord-110kB-cold": cold_records,
    "tfrecord-200B": lambda args: tfrecords(args, 200, 1024),
    "tar-110kB": tar,
    "slow-io": lambda args: own("penstock_slow_io_bench", "images", photographs(args), "1", "20", "3", "3"),
    "slow-io-2": lambda args: own("penstock_slow_io_bench", "images", photographs(args), "2", "20", "3", "3"),
    "slow-io-tfrecord": lambda _: own("penstock_slow_io_bench", "tfrecord", records(110_000), "1", "20", "3", "3"),
    "tuning-2": lambda args: own("penstock_tuning_bench", photographs(args), "2", "3"),
    "first-batch": lambda args: own("penstock_start_bench", "first", photographs(args), "1", "5"),
    "index-110kB": lambda _: own("penstock_start_bench", "index", records(110_000)),
    "index-200B": lambda _: own("penstock_start_bench", "index", records(200)),
    "ready": lambda _: own("penstock_start_bench", "ready", tiny_records()),
    "uneven": lambda _: own("penstock_uneven_bench", "2", "3"),
    "growth": lambda _: own("penstock_growth_bench", "10000"),
}


def execute(command, cpus):
    done = subprocess.run(["taskset", "--cpu-list", cpus, *map(str, command)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr[-2000:]}")
    at = done.stdout.find("{\n")  # a document; else lines
    text = done.stdout[at:] if at >= 0 else done.stdout.strip().splitlines()[-1]
    return json.loads(text)


def evict(path):
    """Out of the page cache."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def run(command, cpus):
    found = execute(command, cpus)
    memory = found.get("memory", {})
    rss = memory.get("rss_peak_bytes") or found.get("rss_peak_bytes")
    return {
        "per_second": found["elements_per_second"],
        "bytes_per_second": found.get("bytes_per_second") or None,
        "elements": found["elements"],
        "cpu_seconds_per_1000": found["cpu_seconds_per_1000"],
        "per_cpu_second": 1000 / found["cpu_seconds_per_1000"] if found["cpu_seconds_per_1000"] else None,
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
    cpus = "0,1" if name.endswith("-2") else "0"
    if "own" in plan:
        result = {"benchmark": name, "cpus": cpus, "results": {"ours": execute(plan["own"], cpus)}, "ratios": {},
                  "machine": machine(), "commit": commit()}
        print(json.dumps(result), flush=True)
        return result
    commands = {"ours": plan["ours"]}
    if "limit" in plan:
        commands["limit"] = plan["limit"]
    if PYTHON.exists() and not args.no_peers:
        commands |= plan.get("peers", {})
    rounds, failed = [], {}
    for number in range(-1, args.rounds):  # the first warms up
        measured = {}
        for label in commands if number % 2 == 0 else reversed(commands):
            if label in failed:
                continue
            if "cold" in plan:
                evict(plan["cold"])
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
    result = {"benchmark": name, "rounds": len(rounds), "cpus": cpus, "results": results, "ratios": ratios,
              "failed": failed, "machine": machine(), "commit": commit()}
    print(json.dumps(result), flush=True)
    return result


def table(results):
    """What was measured, as Markdown: ours, the limit, and the fastest peer of each benchmark."""
    lines = ["| benchmark | ours, 1/s | of the limit | best peer, 1/s | ours/peer | per CPU second: ours, peer | first "
             "batch, ms: ours, peer | RSS, MB: ours, leanest |", "|" + "---|" * 8]
    others = []

    def number(value):
        return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

    for each in results:
        found, ratios = each["results"], each["ratios"]
        ours = found["ours"]
        if "per_second" not in ours:
            facts = ", ".join(f"{key} {value}" for key, value in ours.items() if key not in ("bench", "what"))
            others.append(f"| {each['benchmark']} | {facts} |")
            continue
        peers = {name: value for name, value in found.items() if name not in ("ours", "limit")}
        best = min(peers, key=lambda name: ratios["ours/" + name], default=None)
        peer_of = (lambda key: number(peers[best].get(key))) if best else (lambda key: "-")
        rss = [value["rss_peak_mb"] for value in peers.values() if "rss_peak_mb" in value]
        first = [value["first_batch_ms"] for value in peers.values() if "first_batch_ms" in value]
        lines.append(
            f"| {each['benchmark']} | {number(ours['per_second'])} | {ratios.get('ours/limit', '-')} | "
            f"{best + ' ' if best else ''}{peer_of('per_second')} | {ratios['ours/' + best] if best else '-'} | "
            f"{number(ours.get('per_cpu_second'))}, {peer_of('per_cpu_second')} | "
            f"{number(ours.get('first_batch_ms'))}, {number(min(first, default=None))} | "
            f"{number(ours.get('rss_peak_mb'))}, {number(min(rss, default=None))} |")
    text = "\n".join(lines)
    if others:
        text += "\n\n| benchmark | figures |\n|---|---|\n" + "\n".join(others)
    return f"{text}\n\n{machine()}, commit {commit()}"


def main():
    global PYTHON
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; all if none is given")
    parser.add_argument("--images", type=pathlib.Path, help="a folder of photographs; else some are made")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=pathlib.Path, help="the virtual environment of the peers; else build/peers")
    parser.add_argument("--no-peers", action="store_true", help="ours and the limits only")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in BENCHMARKS]
    if unknown or args.rounds < 1:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}" if unknown
                     else "--rounds must be at least 1")
    if shutil.which("taskset") is None:
        sys.exit("suite: taskset is missing (package util-linux)")
    if args.peers:
        PYTHON = args.peers / "bin" / "python"
    if not PYTHON.exists() and not args.no_peers:
        print("suite: no peers are installed (bench/peers/setup.sh); ours and the limits only", file=sys.stderr)
    results = []
    for name in args.names or BENCHMARKS:
        results.append(benchmark(name, args))
    print("\n" + table(results))


if __name__ == "__main__":
    main()
