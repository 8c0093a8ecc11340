#!/usr/bin/env python3
"""JPEGs to 224x224 on a GPU by torchvision, libnvjpeg, nvImageCodec and DALI: images a second at 1, 4 and all CPU threads.

Usage: jpeg_on_device.py OUT.json NAME=FOLDER... [--threads 1,4,16] [--batch 256] [--seconds 1.5] [--budget 120] [--rehearse]

An image counts once the device has decoded it and resized it with torch.nn.functional.interpolate (DALI: by its own op). The
bytes are copied to the device each time, but neither read from files nor normalised, so the libraries do less than `penstock
profile`. Each thread has its own handle and two streams, one of which decodes while the other is resized. Every library and
every back end runs in a process of its own, with at most --child seconds: a crash ends that process only. OUT.json is written
anew after each measurement. Each decoder's pixels are compared with libjpeg-turbo's, as IDCT and upsampling differ.

--rehearse runs the same on the CPU with what can: torchvision, host back ends of nvImageCodec and DALI, and a libnvjpeg of
--nvjpeg that decodes to host memory. Needs jpeg_decoders.py and PyTorch; what else is missing is skipped by name and reason.
"""
import argparse
import contextlib
import glob
import json
import multiprocessing
import os
import sys
import threading
import time
import traceback
import warnings

from jpeg_decoders import DECODERS, ORDER, Missing, carried, frame_of, reference

COMPARED = 8  # images


class Host:
    """A stream of a device that has none."""
    cuda_stream = 0

    def synchronize(self):
        pass


class Machine:
    def __init__(self, args):
        import torch
        self.args, self.torch = args, torch
        if not args.rehearse and not torch.cuda.is_available():
            raise Missing("PyTorch finds no GPU")
        self.device = torch.device("cpu" if args.rehearse else "cuda:0")
        if args.rehearse:
            torch.set_num_threads(1)
        torch.zeros(1, device=self.device)  # makes the context

    def stream(self):
        return Host() if self.args.rehearse else self.torch.cuda.Stream(self.device)

    def using(self, stream):
        return contextlib.nullcontext() if self.args.rehearse else self.torch.cuda.stream(stream)

    def resized(self, images):
        """Images of one size are resized by the same kernels; 64 of them at most, which bounds memory."""
        sizes, made = {}, []
        for image in images:
            sizes.setdefault(tuple(image.shape), []).append(image)
        for same in sizes.values():
            for at in range(0, len(same), 64):
                values = self.torch.stack(same[at:at + 64]).float()
                made.append(self.torch.nn.functional.interpolate(values, (224, 224), mode="bilinear", antialias=True))
        return made


def read(path):
    with open(path, "rb") as file:
        return file.read()


def batch_of(files, at, count):
    return [files[(at + i) % len(files)] for i in range(count)]


def measured(machine, decoder, files, threads):
    """Images a second of `threads` CPU threads, and a lane with its last images."""
    args = machine.args
    workers, inside = (1, threads) if decoder.one_worker else (threads, 1)
    ready, lock = threading.Barrier(workers), threading.Lock()
    starts, ends, batches, errors, lanes_of = [], [], [], [], {}

    def work(number):
        try:
            opened = decoder.open(machine, inside)
            lanes = [decoder(machine, batch_of(files, (2 * number + k) * args.batch, args.batch), opened)
                     for k in range(decoder.lanes)]
            for lane in lanes * 2:
                lane.run()
                lane.wait()
            ready.wait(args.child)
            start = time.perf_counter()
            done = 0
            while time.perf_counter() - start < args.seconds or done < 2:
                lane = lanes[done % len(lanes)]
                lane.wait()
                lane.run()
                done += 1
            for lane in lanes:
                lane.wait()
            with lock:
                starts.append(start)
                ends.append(time.perf_counter())
                batches.append(done)
                lanes_of[number] = lanes
        except BaseException as error:
            with lock:
                errors.append(error)
            ready.abort()

    pool = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(workers)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    if errors:  # those of the barrier only follow from another
        raise next((e for e in errors if not isinstance(e, threading.BrokenBarrierError)), errors[0])
    for lane in (lane for lanes in lanes_of.values() for lane in lanes):
        lane.close()
    seconds = max(ends) - min(starts)
    return {"images_per_second": round(sum(batches) * args.batch / seconds, 1), "batches": sum(batches),
            "seconds": round(seconds, 3)}, lanes_of[0][0]


def difference(machine, lane, files):
    """Mean and largest absolute difference of pixels from libjpeg-turbo's, over a few whole images."""
    if lane.images is None:
        return None
    sums, values, largest = 0.0, 0, 0
    for ours, theirs in zip(lane.images, reference(machine, files[:COMPARED])):
        apart = (ours.cpu().int() - theirs.int()).abs()
        sums, values, largest = sums + apart.sum().item(), values + apart.numel(), max(largest, apart.max().item())
    return {"images": min(COMPARED, len(files)), "mean": round(sums / values, 4), "max": largest}


def child(pipe, args, name, files):
    """One decoder, in a process of its own: sends what it finds as soon as it has it."""
    warnings.simplefilter("ignore")
    decoder = DECODERS[name]
    try:
        machine = Machine(args)
        if hasattr(decoder, "facts"):
            pipe.send(("facts", decoder.facts(machine)))
        for place, threads in enumerate(args.threads):
            rate, lane = measured(machine, decoder, files, threads)
            pipe.send(("rate", dict(rate, threads=threads)))
            if place == 0:
                pipe.send(("difference", difference(machine, lane, batch_of(files, 0, args.batch))))
    except Missing as why:
        pipe.send(("skipped", str(why)))
    except BaseException as error:
        traceback.print_exc()
        pipe.send(("error", f"{type(error).__name__}: {error}"[:500]))
    pipe.close()
    os._exit(0)  # destructors of others' libraries may hang


class Results:
    def __init__(self, args, cpus):
        self.path, self.began = args.out, time.monotonic()
        self.state = {"complete": False, "rehearsal": args.rehearse, "cpus": cpus, "batch": args.batch, "size": 224,
                      "folders": {}, "rates": [], "differences": {}, "facts": {}, "skipped": {}, "errors": {}}

    def left(self, budget):
        return budget - (time.monotonic() - self.began)

    def write(self):
        with open(self.path + ".new", "w") as file:
            json.dump(self.state, file, indent=1)
        os.replace(self.path + ".new", self.path)

    def take(self, name, folder, kind, what):
        if kind == "rate":
            self.state["rates"].append(dict(decoder=name, folder=folder, **what))
        elif kind == "facts":
            self.state["facts"][name] = what
        elif what is not None:
            self.state[{"difference": "differences", "skipped": "skipped", "error": "errors"}[kind]][f"{name}, {folder}"] = what
        self.write()


def run_child(results, args, name, folder, files):
    limit = min(args.child, results.left(args.budget))
    if limit < 4 * args.seconds:
        return results.take(name, folder, "skipped", f"{limit:.0f} s are left")
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=child, args=(there, args, name, files), daemon=True)
    process.start()
    there.close()
    until, said = time.monotonic() + limit, False
    try:
        while True:
            if not here.poll(max(0, until - time.monotonic())):
                process.kill()
                return results.take(name, folder, "error", f"was not done after {limit:.0f} s")
            kind, what = here.recv()
            said = said or kind in ("skipped", "error")
            results.take(name, folder, kind, what)
    except EOFError:  # its end
        process.join(5)
    if process.exitcode != 0 and not said:
        results.take(name, folder, "error", f"its process ended with {process.exitcode}")
    return None


def main():
    cpus = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--threads", type=lambda text: sorted({int(n) for n in text.split(",")}), default=[1, 4, cpus])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--budget", type=float, default=120)
    parser.add_argument("--child", type=float, default=40)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(dict.fromkeys(ORDER)))
    parser.add_argument("--nvjpeg")
    parser.add_argument("--rehearse", action="store_true")
    args = parser.parse_args()
    results = Results(args, cpus)
    results.write()
    sys.path[:0] = carried()
    try:
        import torch  # once, before processes are forked; nothing touches CUDA here
        results.state["torch"] = torch.__version__
    except ImportError as error:
        results.state["skipped"]["all"] = f"no PyTorch: {error}"
        args.folders = []
    work = []
    for folder in args.folders:
        name, _, path = folder.rpartition("=")
        paths = sorted(glob.glob(f"{glob.escape(path)}/**/*", recursive=True))
        data = [read(f) for f in paths if f.lower().endswith((".jpg", ".jpeg"))]
        files = [d for d in data if frame_of(d)]
        results.state["folders"][name or path] = {"files": len(files), "bytes": sum(map(len, files)),
                                                  "of_another_kind": len(data) - len(files)}
        work.append((name or path, files))
    for folder, files in work:
        for name in args.only if files else []:
            run_child(results, args, name, folder, files)
    results.state["complete"] = True
    results.write()
    if not (args.rehearse or results.state["rates"]):
        sys.exit(f"no rate was measured: {results.state['skipped'] or results.state['errors']}")


if __name__ == "__main__":
    main()
