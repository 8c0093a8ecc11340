#!/usr/bin/env python3
"""Images from an input worker beside images made here, and both beside tf.data service.

    tools/build.sh release
    python3 bench/workers.py FOLDER --peers build/peers/bin/python --rounds 5
    python3 bench/workers.py FOLDER --peers build/peers/bin/python --kill

Decode, random-resized-crop 224, flip, u8 in batches, of one process; then of a worker process on the same cores, which
a trainer process asks for everything; then, ours alone, of both. In each round each takes its turn. Given are the
medians of the rounds' ratios to the same engine's local rate, and the CPU time that the trainer's process takes for an
image. With --kill two workers serve, one is killed in the middle, and what arrives is counted; ours is held against the
digest of a run without workers.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "release" / "bin" / "penstock"
PEER = ROOT / "bench" / "peers" / "served_images.py"
BATCH = 32


class Server:
    """A process that prints a line once it can be asked, and ends with its standard input or by being killed."""

    def __init__(self, *command):
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.line = self.process.stdout.readline().strip()
        if not self.line:
            raise SystemExit(f"{command[0]} did not start")

    def kill(self):
        self.process.kill()
        self.process.wait()


def our_worker(folder):
    server = Server(PROGRAM, "serve", "--root", folder)
    server.address = server.line.rpartition(" ")[2]
    return server


def our_command(folder, epochs, *more):
    return [PROGRAM, "profile", "--images", folder, "--shuffle", "--decode", "--random-resized-crop", 224, "--flip",
            "--batch", BATCH, "--epochs", epochs, "--seed", 1, "--quiet", "--json", "-", *more]


def json_of(command):
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    if ran.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {ran.stderr[-2000:]}")
    return json.loads(ran.stdout[ran.stdout.index("{"):])


def ours(folder, epochs, *more):
    report = json_of(our_command(folder, epochs, *more))
    return report["elements_per_second"], 1000 * report["cpu_s"] / report["elements"]


def theirs(python, what, folder, epochs, *more):
    found = json_of([python, PEER, what, folder, BATCH, epochs, *more])
    return found["images"] / found["seconds"], 1000 * found["cpu"] / found["images"]


def rates(args):
    worker = our_worker(args.folder)
    remote = ("--workers", worker.address)
    ways = {"ours, local": lambda: ours(args.folder, args.epochs),
            "ours, worker alone": lambda: ours(args.folder, args.epochs, *remote, "--local-threads", 0),
            "ours, worker and local": lambda: ours(args.folder, args.epochs, *remote)}
    servers = [worker]
    if args.peers:
        dispatcher = Server(args.peers, PEER, "dispatch")
        servers += [dispatcher, Server(args.peers, PEER, "work", dispatcher.line)]
        ways["tf.data, local"] = lambda: theirs(args.peers, "local", args.folder, args.epochs)
        ways["tf.data service"] = lambda: theirs(args.peers, "train", args.folder, args.epochs, dispatcher.line)
    try:
        found = {name: [] for name in ways}
        for _ in range(args.rounds):
            for name, way in ways.items():
                found[name].append(way())
    finally:
        for server in servers:
            server.kill()
    for name, each in found.items():
        local = found["ours, local" if name.startswith("ours") else "tf.data, local"]
        ratio = statistics.median(one[0] / base[0] for one, base in zip(each, local))
        print(f"{name:24} {statistics.median(one[0] for one in each):7.0f} images/s  {ratio:.2f} of its local rate  "
              f"trainer {statistics.median(one[1] for one in each):.3f} CPU ms an image")


def kill(args):
    want = json_of(our_command(args.folder, 40, "--digest"))
    workers = [our_worker(args.folder) for _ in range(2)]
    run = subprocess.Popen(list(map(str, our_command(args.folder, 40, "--workers", ",".join(
        worker.address for worker in workers), "--local-threads", 0, "--digest"))), stdout=subprocess.PIPE, text=True)
    time.sleep(3)  # of some fifteen
    workers[0].kill()
    got = json.loads(run.communicate(timeout=600)[0])
    workers[1].kill()
    lost = sum(worker["lost"] for worker in got["workers"])
    print(f"ours: {got['elements']} of {want['elements']} elements, {lost} groups were with the killed worker, digest "
          f"{'equal' if got['digest'] == want['digest'] else 'DIFFERENT'}")
    if not args.peers:
        return
    dispatcher = Server(args.peers, PEER, "dispatch")
    servers = [Server(args.peers, PEER, "work", dispatcher.line) for _ in range(2)]
    run = subprocess.Popen([args.peers, str(PEER), "count", args.folder, str(BATCH), dispatcher.line],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    bound = threading.Timer(90, run.kill)
    bound.start()
    batches, elements, found = 0, 0, None
    for line in run.stdout:
        if line.startswith("{"):
            found = line.strip()
            break
        batches, elements = batches + 1, int(line)
        if batches == 8:
            servers[0].kill()
    print("tf.data service:", found or f"not at its end 90 s after its begin; {elements} different elements had come")
    bound.cancel()
    run.kill()
    run.wait()
    servers[1].kill()
    dispatcher.kill()


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder")
parser.add_argument("--peers", help="python with what bench/peers/requirements.txt names; none: ours alone")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--epochs", type=int, default=7)
parser.add_argument("--kill", action="store_true")
arguments = parser.parse_args()
arguments.folder = str(pathlib.Path(arguments.folder).resolve())
(kill if arguments.kill else rates)(arguments)
