"""What every peer's program reports, as one JSON line of the same names as `penstock profile --json`."""

import argparse
import json
import os
import resource
import sys
import time


def cpu_seconds():
    return sum(u.ru_utime + u.ru_stime
               for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def rss_peak_bytes():
    """Of this process and of its largest child, which ended or not is counted by the kernel."""
    return 1024 * sum(resource.getrusage(who).ru_maxrss
                      for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


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
    compiles for seconds before it."""
    start, cpu = time.perf_counter(), cpu_seconds()
    first, elements = 0.0, 0
    for count in batches():
        if not first:
            first = time.perf_counter() - start
            if behind_first:
                start, cpu = time.perf_counter(), cpu_seconds()
                continue
        elements += int(count)
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
        "rss_peak_bytes": rss_peak_bytes(),
        "threads": len(os.sched_getaffinity(0)),
    }), flush=True)
