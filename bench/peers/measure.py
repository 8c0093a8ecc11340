"""What every peer's program reports, as one JSON line of the same names as `penstock profile --json`."""

import argparse
import glob
import json
import os
import resource
import sys
import time


def workers(pid="self"):
    """The processes that live below this one."""
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path) as file:
                children = file.read().split()
        except OSError:
            continue  # it has just ended
        for child in children:
            yield child
            yield from workers(child)


def lines_of(pid, name):
    try:
        with open(f"/proc/{pid}/{name}") as file:
            return file.read().splitlines()
    except OSError:
        return []


def cpu_seconds():
    """Of this process and of all below it: the kernel adds up those that were waited for, the rest live."""
    ended = sum(u.ru_utime + u.ru_stime
                for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
    ticks = 0
    for worker in workers():
        for line in lines_of(worker, "stat"):
            fields = line.rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))  # utime, stime, and both of its own children that ended
    return ended + ticks / os.sysconf("SC_CLK_TCK")


def rss_peak_bytes():
    """This process's peak, and those of all that live below it, or of the largest that ended if that is more. Pages
    that they share count in each."""
    live = sum(int(line.split()[1]) for worker in workers() for line in lines_of(worker, "status")
               if line.startswith("VmHWM:"))
    own, largest = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return 1024 * (own + max(live, largest))


def arguments(peers, **more):
    """PEER PATH [--threads N] [--epochs N] [--batch N], and what else a program takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=sorted(peers))
    parser.add_argument("path")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--step-ms", type=float, default=0)
    for name, default in more.items():
        parser.add_argument("--" + name, type=type(default), default=default)
    return parser.parse_args()


def report(peer, batches, step_ms=0, behind_first=False):
    """Runs `batches()`, a generator of how many elements each batch has; prints what that took. A consumer that takes
    its time sleeps for `step_ms` after each. `behind_first` leaves the first batch out of the rates, for a peer that
    compiles for seconds before it. Memory is looked at once a second, because workers may end with the last batch."""
    start, cpu = time.perf_counter(), cpu_seconds()
    first, elements, peak, looked = 0.0, 0, 0, 0.0
    for count in batches():
        if not first:
            first = time.perf_counter() - start
            if behind_first:
                start, cpu = time.perf_counter(), cpu_seconds()
                continue
        elements += int(count)
        if time.perf_counter() > looked + 1:
            peak, looked = max(peak, rss_peak_bytes()), time.perf_counter()
        if step_ms:
            time.sleep(step_ms / 1000)
    seconds = time.perf_counter() - start
    if elements == 0:
        sys.exit(f"{peer} delivered nothing")
    print(json.dumps({
        "name": peer,
        "elements": elements,
        "elements_per_second": elements / seconds,
        "cpu_seconds_per_1000": 1000 * (cpu_seconds() - cpu) / max(elements, 1),
        "first_batch_ms": 1000 * first,
        "rss_peak_bytes": max(peak, rss_peak_bytes()),
        "threads": len(os.sched_getaffinity(0)),
    }), flush=True)
