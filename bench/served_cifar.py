#!/usr/bin/env python3
"""Trains the CIFAR-10 network as a job of a chief, workers, parameter servers and an evaluator, all told who they are by
TF_CONFIG, once for each strategy, and says how well the evaluator found the last checkpoint.

    tools/build.sh release penstock_tool penstock_cluster_module
    python3 bench/served_cifar.py --data cifar10-train.tar --eval-data cifar10-test.tar

All processes are on this machine, each tower on one thread. Exits with 1 if a process did not end with 0, if an accuracy is
less than --least, if a checkpoint was evaluated twice, or if sync_replicas of all replicas has another digest than
replicated. All train by the model's defaults.
"""

import argparse
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def free_addresses(count):
    """Below the ports that the system gives to who connects: one of those might take a port before its server does."""
    sockets = []
    while len(sockets) < count:
        one = socket.socket()
        try:
            one.bind(("127.0.0.1", random.randint(10000, 31999)))
            sockets.append(one)
        except OSError:
            one.close()
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


def words(args, strategy, folder):
    return [args.program, "train", "--model", "cifar10", "--data", args.data, "--eval-data", args.eval_data,
            "--epochs", args.epochs, "--batch", args.batch, "--strategy", strategy,
            "--seed", args.seed, "--tower-threads", 1, "--device", "host:0", "--checkpoint", f"{folder}/kept",
            "--keep", args.epochs + 1, "--join-timeout", 120, "--peer-timeout", args.peer_timeout, "--quiet"]


def job(args, strategy):
    """Starts all, waits for all, and says what came of it."""
    tasks = [("ps", args.servers), ("chief", 1), ("worker", args.workers), ("evaluator", 1)]
    with tempfile.TemporaryDirectory() as folder:
        cluster = {role: free_addresses(count) for role, count in tasks}
        processes = {}
        began = time.monotonic()
        for role, count in tasks:
            for index in range(count):
                name = f"{role}{index}"
                more = ["--json", f"{folder}/{name}.json"] if role in ("chief", "evaluator") else []
                config = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
                with open(f"{folder}/{name}.err", "wb") as err:
                    processes[name] = subprocess.Popen(
                        [str(word) for word in words(args, strategy, folder) + more], stdout=subprocess.DEVNULL,
                        stderr=err, env={**os.environ, "TF_CONFIG": config})
        bad = []
        for name, process in processes.items():
            try:
                code = process.wait(args.timeout)
            except subprocess.TimeoutExpired:
                code = "no end"
                for one in processes.values():
                    one.kill()
            if code != 0:
                said = pathlib.Path(folder, f"{name}.err").read_text(errors="replace").strip()[-500:]
                bad.append(f"{strategy}, {name}: ended with {code}: {said}")
        seconds = time.monotonic() - began
        if bad:
            return None, bad
        chief = json.loads(pathlib.Path(folder, "chief0.json").read_text())
        found = json.loads(pathlib.Path(folder, "evaluator0.json").read_text())
        evaluated = [one["step"] for one in found["evaluations"]]
        if len(set(evaluated)) != len(evaluated) or chief["steps"] not in evaluated:
            bad.append(f"{strategy}: of {chief['steps']} steps these were evaluated: {evaluated}")
        last = max(found["evaluations"], key=lambda one: one["step"], default={"accuracy": 0})
        if last["accuracy"] < args.least:
            bad.append(f"{strategy}: an accuracy of {last['accuracy']}, not {args.least}")
        return {"strategy": strategy, "accuracy": round(last["accuracy"], 4), "steps": chief["steps"],
                "applied": chief["gradients_applied"], "dropped": chief["gradients_dropped"],
                "oldest": len(chief["staleness"] or [0]) - 1, "evaluations": len(evaluated), "seconds": round(seconds),
                "digest": chief["variables_digest"], "load": round(os.getloadavg()[0], 1)}, bad


def run(args):
    digests, bad = {}, []
    for strategy in args.strategies:
        row, wrong = job(args, strategy)
        bad += wrong
        if row:
            digests[strategy] = row["digest"]
            print(json.dumps(row), flush=True)
    if len({digests[one] for one in ("sync_replicas", "replicated") if one in digests}) > 1:
        bad.append("sync_replicas and replicated have other digests")
    for one in bad:
        print(one, file=sys.stderr)
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "penstock")
    parser.add_argument("--data", help="default: made-up images, with --eval-data")
    parser.add_argument("--eval-data")
    parser.add_argument("--images", type=int, default=200, help="made up")
    parser.add_argument("--strategies", nargs="+", default=["async", "sync_replicas", "replicated"])
    parser.add_argument("--workers", type=int, default=3, help="beside the chief")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32, help="of each tower")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=float, default=0.7, help="accuracy")
    parser.add_argument("--peer-timeout", type=int, default=60, help="s; machines that are busy are slow, not lost")
    parser.add_argument("--timeout", type=int, default=7200, help="of each job, s")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.data is None:
            subprocess.run([args.program, "synth", folder, "--format", "cifar10", "--images", str(args.images), "--size",
                            "32x32"], check=True, stdout=subprocess.DEVNULL)
            args.data = args.eval_data = next(pathlib.Path(folder).glob("*.bin"))
        sys.exit(run(args))


if __name__ == "__main__":
    main()
