#!/usr/bin/env python3
"""All-reduce beside torch's Gloo and Open MPI: bus bandwidth, medians of interleaved rounds.

    tools/build.sh release penstock_exchange_bench penstock_cluster_module
    python3 bench/exchange.py --peers build/peers/bin/python --rounds 21

All ranks are processes on this machine that stay for the whole run; in each round every implementation in turn is asked
for the same sums. The bus bandwidth is bytes x 2 (N - 1) / N a second; CPU ms are those of all ranks for one time. A
ratio is of bandwidths, the median of the rounds' ratios.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = ROOT / "build" / "release" / "bin" / "penstock_exchange_bench"
PEER = ROOT / "bench" / "peers" / "all_reduce.py"
KIB, MIB = 1 << 10, 1 << 20
# What is summed: a name, calls, bytes of each, how often.
SHAPES = [("64 KiB", 1, 64 * KIB, 40), ("1 MiB", 1, MIB, 20), ("25 MiB", 1, 25 * MIB, 3), ("100 MiB", 1, 100 * MIB, 1),
          ("60 x 64 KiB", 60, 64 * KIB, 4)]


def free_address():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"


class Ranks:
    """The processes of one implementation."""

    def __init__(self, command, world):
        self.processes = [subprocess.Popen([*map(str, command(rank))], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                           text=True, bufsize=1) for rank in range(world)]
        self.inputs = [one.stdin for one in self.processes]
        self.outputs = [one.stdout for one in self.processes]

    def wait_ready(self):
        for output in self.outputs:
            if output.readline() != "ready\n":
                sys.exit("a rank did not come up")

    def seconds(self, how, calls, floats, times):
        for one in self.inputs:
            print(how, calls, floats, times, file=one, flush=True)
        answers = [[float(word) for word in output.readline().split()] for output in self.outputs]
        return max(wall for wall, _ in answers), sum(cpu for _, cpu in answers)

    def end(self):
        for one in self.inputs:
            one.close()
        for process in self.processes:
            process.wait(timeout=60)


class MpiRanks(Ranks):
    def __init__(self, python, world):
        self.folder = tempfile.TemporaryDirectory()
        for rank in range(world):
            os.mkfifo(os.path.join(self.folder.name, str(rank)))
            os.mkfifo(os.path.join(self.folder.name, f"{rank}.said"))
        # TCP, as between machines; shared memory would be no exchange.
        self.processes = [subprocess.Popen(
            ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,tcp",
             "--mca", "btl_tcp_if_include", "lo", "--mca", "mpi_yield_when_idle", "1", "-n", str(world), python, PEER,
             "mpi", self.folder.name])]
        self.inputs = [open(os.path.join(self.folder.name, str(rank)), "w") for rank in range(world)]
        self.outputs = [open(os.path.join(self.folder.name, f"{rank}.said")) for rank in range(world)]


def started(world, python, mpi):
    address, other = free_address(), free_address()
    all_of = {"ours": Ranks(lambda rank: [OURS, address, rank, world], world)}
    if python:
        all_of["torch"] = Ranks(lambda rank: [python, PEER, "torch", other, rank, world], world)
    if python and mpi:
        all_of["Open MPI"] = MpiRanks(python, world)
    for ranks in all_of.values():
        ranks.wait_ready()
    return all_of


def measured(world, args):
    all_of = started(world, args.peers, args.mpi)
    for name, calls, size, times in SHAPES:
        takes = {}
        for _ in range(args.rounds):
            for how in ["ring", "ordered", "grpc"] + (["small"] if calls > 1 else []):
                takes.setdefault(how, []).append(all_of["ours"].seconds(how, calls, size // 4, times))
            for peer in all_of:
                if peer != "ours":
                    takes.setdefault(peer, []).append(all_of[peer].seconds("sum", calls, size // 4, times))
        bus = calls * size * 2 * (world - 1) / world
        row = {"ranks": world, "of": name, "rounds": args.rounds, "load": os.getloadavg()[0]}
        for how, seconds in takes.items():
            row[how + " GB/s"] = round(bus / statistics.median(wall for wall, _ in seconds) / 1e9, 3)
            row[how + " CPU ms"] = round(statistics.median(cpu for _, cpu in seconds) * 1e3, 3)
        best = "small" if calls > 1 else "ring"
        for one, other in [(best, other) for other in takes if other != best] + [("ordered", "ring")]:
            row[f"{one} / {other}"] = round(
                statistics.median(b[0] / a[0] for a, b in zip(takes[one], takes[other])), 3)
        print(json.dumps(row), flush=True)
    for ranks in all_of.values():
        ranks.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="the Python that has torch, and mpi4py for --mpi")
    parser.add_argument("--mpi", action="store_true", help="Open MPI, too")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4])
    args = parser.parse_args()
    for world in args.ranks:
        measured(world, args)


if __name__ == "__main__":
    main()
