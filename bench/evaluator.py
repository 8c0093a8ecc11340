#!/usr/bin/env python3
"""What an evaluator beside training costs that: medians of interleaved rounds, training on one core, the evaluator on
another.

    tools/build.sh release penstock_tool
    python3 bench/evaluator.py --rounds 11

A round trains once alone and once with an evaluator beside it, in turn first; both write the same checkpoints. The ratio
is of images a second in steps, the median of the rounds' ratios; CPU seconds are those of each process for all it did.
What two cores of one machine share, caches and memory, is in the ratio.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def started(core, words):
    return subprocess.Popen(["taskset", "-c", str(core), *map(str, words)], stdout=subprocess.DEVNULL)


def ended(process):
    """CPU seconds."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(process.args)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def trained(args, data, beside):
    with tempfile.TemporaryDirectory() as folder:
        kept = f"{folder}/kept"
        common = [args.program, "train", "--model", args.model, "--checkpoint", kept, "--batch", args.batch, "--epochs", 1000,
                  "--max-steps", args.steps, "--tower-threads", 1, "--quiet"]
        evaluator = None
        if beside:
            evaluator = started(args.cores[1], common + ["--role", "evaluator", "--eval-data", data, "--json",
                                                         f"{folder}/evaluated.json"])
        chief = started(args.cores[0], common + ["--data", data, "--checkpoint-every", args.every, "--keep", 1000,
                                                 "--schedule", "constant:0.001", "--json", f"{folder}/trained.json"])
        row = {"cpu": ended(chief)}
        row["rate"] = json.loads(pathlib.Path(folder, "trained.json").read_text())["images_per_second"]
        if beside:
            row["evaluator_cpu"] = ended(evaluator)
            found = json.loads(pathlib.Path(folder, "evaluated.json").read_text())
            row["evaluations"] = [one["step"] for one in found["evaluations"]]
            # Each once; the file says so, too.
            if row["evaluations"] != list(range(args.every, args.steps + 1, args.every)):
                sys.exit(f"evaluated were {row['evaluations']}")
        return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "penstock")
    parser.add_argument("--model", default="cifar10")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--every", type=int, default=20, help="updates between two checkpoints")
    parser.add_argument("--cores", type=int, nargs=2, default=[0, 1], help="of training, of the evaluator")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([args.program, "synth", f"{folder}/cifar", "--format", "cifar10", "--images", str(args.images),
                        "--size", "32x32"], check=True, stdout=subprocess.DEVNULL)
        data = next(pathlib.Path(folder, "cifar").glob("*.bin"))
        rounds = []
        for number in range(args.rounds):
            order = [False, True] if number % 2 == 0 else [True, False]
            rounds.append({beside: trained(args, data, beside) for beside in order})
    ratio = [one[True]["rate"] / one[False]["rate"] for one in rounds]
    cpu = [one[True]["cpu"] / one[False]["cpu"] for one in rounds]

    def median(beside, key):
        return statistics.median(one[beside][key] for one in rounds)

    print(json.dumps({
        "rounds": args.rounds, "load": round(os.getloadavg()[0], 1),
        "alone images/s": round(median(False, "rate"), 1), "beside images/s": round(median(True, "rate"), 1),
        "beside / alone": round(statistics.median(ratio), 4),
        "quartiles": [round(one, 4) for one in statistics.quantiles(ratio, n=4)] if len(ratio) > 1 else None,
        "training CPU s": [round(median(False, "cpu"), 2), round(median(True, "cpu"), 2)],
        "training CPU, beside / alone": round(statistics.median(cpu), 4),
        "evaluator CPU s": round(median(True, "evaluator_cpu"), 2),
        "evaluations": len(rounds[0][True]["evaluations"])}))


if __name__ == "__main__":
    main()
