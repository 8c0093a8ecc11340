#!/usr/bin/env python3
"""Steps a second of the CIFAR-10 network with parameter servers and no order between workers, beside TensorFlow's
ParameterServerStrategy.

    tools/build.sh release penstock_served_step_bench penstock_cluster_module
    python3 bench/served.py --peers build/peers/bin/python --rounds 21

Both have as many workers that compute and as many parameter servers, each on one thread, over loopback and without TLS;
batches stay in memory. TensorFlow's chief hands steps out and computes none, ours computes as one of the workers. All
processes stay for the whole run; in each round each in turn makes the same number of steps. The ratio is the median of
the rounds' ratios.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import tempfile

from exchange import Ranks, free_address

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = ROOT / "build" / "release" / "bin" / "penstock_served_step_bench"
PEER = ROOT / "bench" / "peers" / "served_steps.py"


class Theirs(Ranks):
    def __init__(self, python, workers, servers, batch):
        cluster = {"chief": [free_address()], "worker": [free_address() for _ in range(workers)],
                   "ps": [free_address() for _ in range(servers)]}
        tasks = [(role, index) for role in ("ps", "worker", "chief") for index in range(len(cluster[role]))]
        super().__init__(lambda rank: [python, PEER, *tasks[rank], json.dumps(cluster), batch], len(tasks))

    def seconds(self, steps):
        print(steps, file=self.inputs[-1], flush=True)
        return float(self.outputs[-1].readline())

    def end(self):
        for one in reversed(self.inputs):  # the chief first
            one.close()
        for process in self.processes:
            process.kill()
            process.wait()


class Ours(Ranks):
    def __init__(self, workers, servers, batch, images):
        addresses = ",".join(free_address() for _ in range(servers))
        roles = [("ps", index) for index in range(servers)] + [("trainer", index) for index in range(workers)]
        super().__init__(lambda rank: [OURS, *roles[rank], workers, addresses, "cifar10", images, batch], len(roles))
        self.trainers = workers

    def seconds(self, steps):
        each = [steps // self.trainers + (index < steps % self.trainers) for index in range(self.trainers)]
        for one, share in zip(self.inputs[-self.trainers:], each):
            print(share, file=one, flush=True)
        return max(float(output.readline()) for output in self.outputs[-self.trainers:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", required=True, help="the Python that has tensorflow")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        images = pathlib.Path(folder) / "images.bin"
        pixels = random.Random(1)
        images.write_bytes(b"".join(bytes([i % 10]) + pixels.randbytes(3072) for i in range(args.batch)))
        both = {"ours": Ours(args.workers, args.servers, args.batch, images),
                "TensorFlow": Theirs(args.peers, args.workers, args.servers, args.batch)}
        for ranks in both.values():
            ranks.wait_ready()
        takes = {name: [] for name in both}
        for _ in range(args.rounds):
            for name, ranks in both.items():
                takes[name].append(ranks.seconds(args.steps))
        for ranks in both.values():
            ranks.end()
    row = {"workers": args.workers, "servers": args.servers, "batch": args.batch, "rounds": args.rounds,
           "load": os.getloadavg()[0]}
    for name in both:
        row[f"{name}, steps/s"] = round(args.steps / statistics.median(takes[name]), 2)
    row["ours / TensorFlow"] = round(
        statistics.median(theirs / ours for ours, theirs in zip(takes["ours"], takes["TensorFlow"])), 3)
    print(json.dumps(row))


if __name__ == "__main__":
    main()
