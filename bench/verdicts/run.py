#!/usr/bin/env python3
"""Makes seventeen situations for real and asks for the verdict; then does what it advises, and compares what that brought
with what was promised.

    bench/verdicts/run.py [--rounds 5] [--only NAME...] [--favoured]

Needs build/release/bin/penstock{,_verdict_bench,_slow_mount}, /dev/fuse, and for the quota a control group that may be
written (version 1 or 2). On a machine that others use too, `--favoured` puts
the runs, and the neighbours that are made, in a control group with 256 times the share of the CPUs. Runs of a situation and of its remedy take turns. Prints a table in
Markdown; exit code 1 if a verdict was wrong in any round, or a promise off by more than a fifth and outside of what the
rounds brought.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("PENSTOCK_BIN", ROOT / "build" / "release" / "bin"))
OLD_GROUPS = pathlib.Path("/sys/fs/cgroup/cpu")  # version 1
GROUPS = OLD_GROUPS if OLD_GROUPS.exists() else pathlib.Path("/sys/fs/cgroup")


def wait_until(what, seconds=10):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise SystemExit("what was waited for did not happen")
        time.sleep(0.01)


@contextlib.contextmanager
def mounted(folder, **options):
    """The folder behind a slow device."""
    with tempfile.TemporaryDirectory() as place:
        server = subprocess.Popen([BIN / "penstock_slow_mount", folder, place,
                                   *(f"{name}={value}" for name, value in options.items())])
        try:
            wait_until(lambda: os.path.ismount(place) or server.poll() is not None)
            if server.poll() is not None:
                raise SystemExit("FUSE is not to be had here")
            yield place
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(10)


@contextlib.contextmanager
def neighbours(count):
    """Processes that want a CPU all the time."""
    burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


@contextlib.contextmanager
def group(name, **settings):
    """A control group, below the one of this process if that is favoured; processes are put there by `enter`."""
    place = (favoured or GROUPS) / f"penstock-{name}-{os.getpid()}"
    place.mkdir()
    try:
        for setting, value in settings.items():
            (place / setting.replace("__", ".")).write_text(str(value))
        yield place
    finally:
        wait_until(lambda: not (place / "cgroup.procs").read_text().strip())
        place.rmdir()


def enter(place):
    """For Popen's preexec_fn."""
    return lambda: (place / "cgroup.procs").write_text(str(os.getpid()))


def quota(share):
    """A control group that has so much of one CPU."""
    micros = int(100000 * share)
    if OLD_GROUPS.exists():
        return group("quota", cpu__cfs_period_us=100000, cpu__cfs_quota_us=micros)
    return group("quota", cpu__max=f"{micros} 100000")


favoured = None


@contextlib.contextmanager
def favour():
    """This process and those that it starts."""
    global favoured
    settings = {"cpu__shares": 262144} if OLD_GROUPS.exists() else {"cpu__weight": 10000}
    with group("favoured", **settings) as place:
        enter(place)()
        favoured = place
        try:
            yield
        finally:
            favoured = None
            enter(GROUPS)()


def run(name, how, files="", memory=0, before=None):
    words = [str(BIN / "penstock_verdict_bench"), name, how, str(files), str(memory)]
    environment = os.environ | {"PENSTOCK_INDEX_DIR": "-"}
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, preexec_fn=before, timeout=120, env=environment)
    return json.loads(done.stdout)


def plain(name, how, data):
    return run(name, how)


def on_mount(made, done):
    """Of images below a mount with these options."""
    def go(name, how, data):
        with mounted(data / "images", **(made if how == "made" else done)) as place:
            return run(name, how, place)
    return go


def of_shards(made, done):
    def go(name, how, data):
        with mounted(data / "shards", **(made if how == "made" else done)) as place:
            return run(name, how, f"{place}/*.tar")
    return go


def of_records(name, how, data):
    return run(name, how, data / ("records" if how == "made" else "small-records") / "*")


advised = {}


def with_memory(name, how, data):
    if how == "made":
        report = run(name, how)
        found = re.search(r"memory_bytes = (\d+) << 20", report["verdict"]["remedy"] or "")
        advised[name] = int(found.group(1)) << 20 if found else 2 * report["memory"]["budget_bytes"]
        return report
    return run(name, how, memory=advised[name])


def beside_others(name, how, data):
    with neighbours(4 if how == "made" else 0):
        return run(name, how)


def under_quota(name, how, data):
    if how == "done":
        return run(name, how)
    with quota(0.5) as place:
        return run(name, how, before=enter(place))


HALF, WITHOUT, NOTHING = "rate_half", "rate_then", None

# What runs it, the cause it is to name, what it promises (a field of the verdict or a change of `prizes`), and what was
# done about it.
SITUATIONS = {
    "slow-disk": (on_mount({"ms": 2, "one": 1}, {"ms": 1, "one": 1}), "source", HALF, "a disk twice as fast"),
    "few-io-threads": (on_mount({"ms": 5}, {"ms": 5}), "source", HALF, "two threads that read"),
    "one-thread": (plain, "stage map[1] work", HALF, "two threads"),
    "heavy-map": (plain, "stage map[1] work", HALF, "half the work"),
    "slow-consumer": (plain, "step", NOTHING, "half the work on the input"),
    "slow-step": (plain, "step", "steps twice as fast", "steps twice as fast"),
    "slow-copy": (plain, "copy", HALF, "copies twice as fast"),
    "little-memory": (with_memory, "budget", "twice the memory", "the memory it names"),
    "few-slots": (plain, "slots", HALF, "one slot more"),
    "noisy-neighbour": (beside_others, "cpu", WITHOUT, "no neighbours"),
    "cpu-quota": (under_quota, "cpu", WITHOUT, "no quota"),
    "cold-cache": (on_mount({"ms": 20, "cached": 1}, {"ms": 10, "cached": 1}), "source", HALF, "a disk twice as fast"),
    "tiny-elements": (plain, "hand-over", WITHOUT, "batched at once"),
    "straggling-shard": (of_shards({"ms": 5, "slow": "shard-00002.tar:100"}, {"ms": 2.5, "slow": "shard-00002.tar:50"}),
                         "source", HALF, "all reads twice as fast"),
    "zip-budget": (with_memory, "budget", "twice the memory", "the memory it names"),
    "lock-in-map": (plain, "stage map[1] locks", HALF, "no lock"),
    "page-cache": (of_records, "source", HALF, "records of half the size"),
}


def promised(report, field):
    """The least and the most that the verdict promises, as rates."""
    now = report["elements_per_second"]
    if report["verdict"]["cause"] == "hand-over":
        return report["verdict"][WITHOUT] or now, float("inf")  # at least
    if field is NOTHING:
        return now, now
    if field in (HALF, WITHOUT):
        rate = report["verdict"][field] or now
        return rate, rate
    for prize in report["verdict"]["prizes"]:
        if prize["change"] == field:
            return prize["low"], prize["high"]
    return now, now


def make_data(data):
    subprocess.run([BIN / "penstock", "synth", data / "images", "--images", "512", "--size", "64x64"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for folder, size in ("records", "500x700"), ("small-records", "500x350"):
        subprocess.run([BIN / "penstock", "synth", data / folder, "--images", "512", "--size", size, "--format",
                        "tfrecord"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (data / "shards").mkdir()
    images = sorted((data / "images").rglob("*.jpg"))
    for shard in range(8):
        with tarfile.open(data / "shards" / f"shard-{shard:05}.tar", "w") as archive:
            for image in images[64 * shard:64 * (shard + 1)]:
                archive.add(image, image.name)


def judge(name, rounds, data):
    go, cause, field, remedy = SITUATIONS[name]
    now, low, high, brought, causes = [], [], [], [], []
    for _ in range(rounds):
        made = go(name, "made", data)
        done = go(name, "done", data)
        rate = made["elements_per_second"]
        least, most = promised(made, field)
        now.append(rate)
        low.append(least / rate - 1)
        high.append(most / rate - 1)
        brought.append(done["elements_per_second"] / rate - 1)
        causes.append(made["verdict"]["cause"])
        print(f"{name}: {causes[-1]}: {rate:.0f}/s, promised {low[-1]:+.0%} to {high[-1]:+.0%}, brought "
              f"{brought[-1]:+.0%}: {made['verdict']['text']}", file=sys.stderr)
    right = sum(each == cause for each in causes)
    least, most, gain = (statistics.median(each) for each in (low, high, brought))
    fifth = 0.2 * abs(gain)
    # A promise of nothing holds where next to nothing was brought.
    kept = least - max(fifth, 0.02) <= gain <= most + max(fifth, 0.02) or (
        min(brought) <= most and least <= max(brought))
    said = f"{least:+.0%}" if most - least < 0.005 else f"{least:+.0%} to {most:+.0%}"
    if most == float("inf"):
        said = f"{least:+.0%} and more"
    row = (f"| {name} | {cause} | {right} of {rounds} | {statistics.median(now):.0f} | {remedy} | {said} | {gain:+.0%} "
           f"({min(brought):+.0%} to {max(brought):+.0%}) | {'yes' if kept else 'NO'} |")
    return row, right == rounds and kept


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=list(SITUATIONS), default=list(SITUATIONS))
    parser.add_argument("--favoured", action="store_true")
    args = parser.parse_args()
    rows, fine = [], True
    with favour() if args.favoured else contextlib.nullcontext(), tempfile.TemporaryDirectory() as place:
        data = pathlib.Path(place)
        make_data(data)
        for name in args.only:
            row, good = judge(name, args.rounds, data)
            rows.append(row)
            fine = fine and good
    print("| situation | cause to be named | named | elements/s | done about it | promised | brought | kept |")
    print("|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
