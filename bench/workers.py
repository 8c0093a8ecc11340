#!/usr/bin/env python3
"""Images from an input worker beside images made here, and both beside tf.data service.

    tools/build.sh release
    python3 bench/workers.py FOLDER --peers build/peers/bin/python --rounds 5
    python3 bench/workers.py FOLDER --before OTHER/bin/penstock
    python3 bench/workers.py FOLDER --peers build/peers/bin/python --kill

Decode, random-resized-crop 224, flip, in batches of 64, of one process; then of a worker process on the same cores,
which a trainer process asks for everything, by shared memory and over TCP. All of it once as u8 and once normalised to
f32. In each round each takes its turn. Given are the medians of the rounds' ratios to the same engine's local rate, and
to its CPU time for an image, that of all processes together. With --before another build of the program, which has to
know the same flags, takes its turns too. The CPU time that the kernel alone takes for the bytes of an image over TCP
is given as well: no program can take less. With --kill two workers serve, one is killed in the middle, and what arrives
is counted; ours is held against the digest of a run without workers.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "release" / "bin" / "penstock"
PEER = ROOT / "bench" / "peers" / "served_images.py"
BATCH = 64


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

    def cpu_s(self):
        """User and system time so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def our_worker(folder, program=PROGRAM):
    server = Server(program, "serve", "--root", folder)
    server.address = server.line.rpartition(" ")[2]
    return server


def our_command(folder, epochs, *more, program=PROGRAM, work=()):
    return [program, "profile", "--images", folder, "--shuffle", "--decode", "--random-resized-crop", 224, "--flip",
            *work, "--batch", BATCH, "--epochs", epochs, "--seed", 1, "--quiet", "--json", "-", *more]


def json_of(command):
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    if ran.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {ran.stderr[-2000:]}")
    return json.loads(ran.stdout[ran.stdout.index("{"):])


def ours(folder, epochs, *more, **how):
    report = json_of(our_command(folder, epochs, *more, **how))
    return report["elements_per_second"], 1000 * report["cpu_s"] / report["elements"], report["elements"]


def theirs(python, what, folder, epochs, *more):
    found = json_of([python, PEER, what, folder, BATCH, epochs, *more])
    every = found["images"] * (epochs + 1) / epochs  # with those of an epoch that is not measured, but made by servers
    return found["images"] / found["seconds"], 1000 * found["cpu"] / found["images"], every


def measured(way, servers):
    """The rate, and milliseconds of CPU time for an image: of the trainer's process, and of all."""
    before = sum(server.cpu_s() for server in servers)
    rate, trainer, images = way()
    return rate, trainer, trainer + 1000 * (sum(server.cpu_s() for server in servers) - before) / images


def our_ways(args, program, name, work):
    worker = our_worker(args.folder, program)
    how = {"program": program, "work": work}
    alone = ("--workers", worker.address, "--local-threads", 0)
    ways = {f"{name}, local": (lambda: ours(args.folder, args.epochs, **how), ()),
            f"{name}, worker": (lambda: ours(args.folder, args.epochs, *alone, **how), (worker,))}
    if program == PROGRAM:
        ways[f"{name}, worker, TCP"] = (
            lambda: ours(args.folder, args.epochs, *alone, "--wire", "tcp", **how), (worker,))
        ways[f"{name}, worker and local"] = (
            lambda: ours(args.folder, args.epochs, "--workers", worker.address, **how), (worker,))
    return ways, [worker]


def their_ways(args, work):
    dispatcher = Server(args.peers, PEER, "dispatch")
    worker = Server(args.peers, PEER, "work", dispatcher.line)
    more = ("normalize",) if work else ()
    return {"tf.data, local": (lambda: theirs(args.peers, "local", args.folder, args.epochs, *more), ()),
            "tf.data, service": (lambda: theirs(args.peers, "train", args.folder, args.epochs, dispatcher.line, *more),
                                 (dispatcher, worker))}, [dispatcher, worker]


def kernel_us(images=4000):
    """CPU time of both sides for the pixels of an image over TCP on this machine, in messages of an image."""
    listener = socket.create_server(("127.0.0.1", 0))
    pixels = memoryview(os.urandom(224 * 224 * 3))
    sender = os.fork()
    if sender == 0:
        with socket.create_connection(listener.getsockname()) as to:
            for _ in range(images):
                to.sendall(pixels)
        os._exit(0)
    connection, _ = listener.accept()
    taken = memoryview(bytearray(1 << 20))
    before = os.times()
    while connection.recv_into(taken):
        pass
    os.waitpid(sender, 0)
    after = os.times()
    return sum(after[i] - before[i] for i in range(4)) / images * 1e6


def rates(args):
    for work in ((), ("--normalize",)):
        ways, servers = our_ways(args, PROGRAM, "ours", work)
        for program in args.before:
            others, more = our_ways(args, pathlib.Path(program).resolve(), "before", work)
            ways |= others
            servers += more
        if args.peers:
            others, more = their_ways(args, work)
            ways |= others
            servers += more
        try:
            found = {name: [] for name in ways}
            for _ in range(args.rounds):
                for name, (way, asked) in ways.items():
                    found[name].append(measured(way, asked))
        finally:
            for server in servers:
                server.kill()
        print("f32, normalised" if work else "u8")
        for name, each in found.items():
            local = found[name.partition(",")[0] + ", local"]
            median = [statistics.median(one[i] for one in each) for i in range(3)]
            rate = statistics.median(one[0] / base[0] for one, base in zip(each, local))
            cpu = statistics.median(one[2] / base[2] for one, base in zip(each, local))
            print(f"  {name:24} {median[0]:7.0f} images/s  {rate:.2f} of its local rate  CPU ms an image: "
                  f"{median[2]:.3f} ({cpu:.2f} of local), {median[1]:.3f} of them the trainer's")
    kernel = statistics.median(kernel_us() for _ in range(args.rounds))
    print(f"the kernel alone, over TCP: CPU {kernel:.0f} us for the 150,528 bytes of an image")


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
parser.add_argument("--before", action="append", default=[], help="another build of the program")
parser.add_argument("--kill", action="store_true")
arguments = parser.parse_args()
arguments.folder = str(pathlib.Path(arguments.folder).resolve())
(kill if arguments.kill else rates)(arguments)
