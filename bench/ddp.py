#!/usr/bin/env python3
"""A step of the CIFAR-10 network on several processes of one tower and one thread, beside PyTorch's
DistributedDataParallel: images a second, and how much of the exchange is not hidden behind the backward pass (the step
less the same step without an exchange).

    tools/build.sh release penstock_peers_step_bench penstock_cluster_module
    python3 bench/ddp.py --peers build/peers/bin/python --rounds 21

All processes stay for the whole run; in each round each in turn makes the same number of steps. Ratios are the medians
of the rounds' ratios.
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
OURS = ROOT / "build" / "release" / "bin" / "penstock_peers_step_bench"
PEER = ROOT / "bench" / "peers" / "ddp_steps.py"


class Steps(Ranks):
    def seconds(self, how, steps):
        for one in self.inputs:
            print(how, steps, file=one, flush=True)
        return max(float(output.readline()) for output in self.outputs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", required=True, help="the Python that has torch")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        images = pathlib.Path(folder) / "images.bin"
        pixels = random.Random(1)
        images.write_bytes(b"".join(bytes([i % 10]) + pixels.randbytes(3072) for i in range(args.batch)))
        ordered, ring, theirs = free_address(), free_address(), free_address()

        def ours(address, exchange):
            return Steps(lambda rank: [OURS, address, rank, args.ranks, "cifar10", images, args.batch, exchange],
                         args.ranks)

        all_of = {
            "ordered": ours(ordered, "ordered"), "ring": ours(ring, "ring"),
            "torch": Steps(lambda rank: [args.peers, PEER, theirs, rank, args.ranks, args.batch], args.ranks)}
        for ranks in all_of.values():
            ranks.wait_ready()
        takes = {}
        for _ in range(args.rounds):
            for name, ranks in all_of.items():
                for how in ("exchanged", "alone"):
                    takes.setdefault((name, how), []).append(ranks.seconds(how, args.steps))
        for ranks in all_of.values():
            ranks.end()
    row = {"ranks": args.ranks, "batch": args.batch, "rounds": args.rounds, "load": os.getloadavg()[0]}
    for name in all_of:
        both = list(zip(takes[name, "exchanged"], takes[name, "alone"]))
        row[name] = {"images/s": round(args.ranks * args.batch / statistics.median(a for a, _ in both), 1),
                     "step ms": round(statistics.median(a for a, _ in both) * 1e3, 2),
                     "exposed ms": round(statistics.median(a - b for a, b in both) * 1e3, 2)}
    for name in ("ordered", "ring"):
        row[f"images/s, {name} / torch"] = round(
            statistics.median(b / a for a, b in zip(takes[name, "exchanged"], takes["torch", "exchanged"])), 3)
    print(json.dumps(row))


if __name__ == "__main__":
    main()
