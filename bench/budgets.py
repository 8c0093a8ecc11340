#!/usr/bin/env python3
"""Measures the rate at rising memory budgets, and looks for cliffs.

    bench/budgets.py [PENSTOCK [PHOTOGRAPHS]]

Prints elements per second for each budget, "-" where the run fails, and the share of elements that
were made twice. Exits with 1 if a budget has less than half of the rate of a smaller one, in the
best of three runs, or if one of twice the least makes more than 5 % twice in each of them.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

BUDGETS_KIB = [32 << i for i in range(14)]
LEAST = 0.5
MOST_TWICE = 0.05


def write_inputs(folder):
    rng = random.Random(1)
    with open(folder / "rows.csv", "w") as file:
        file.write("a,b,c,d\n")
        file.writelines(f"{i},{rng.random():.6f},{i % 7},w{i % 1000}\n" for i in range(200_000))
    with open(folder / "lines.txt", "w") as file:
        file.writelines("x" * rng.randint(20, 150) + "\n" for i in range(200_000))


def situations(folder, photographs):
    rows = ["--csv", str(folder / "rows.csv")]
    lines = ["--lines", str(folder / "lines.txt")]
    found = {
        "rows in batches": rows + ["--batch", "100"],
        "lines in padded batches": lines + ["--padded-batch", "64"],
        "lines, shuffled": lines + ["--identity", "--shuffle", "1000", "--batch", "64"],
        "lines as values": lines + ["--identity"],
    }
    if photographs:
        images = ["--images", photographs, "--resize", "224x224"]
        found["images in batches"] = images + ["--batch", "16"]
        found["images as values"] = images
    return found


def rate(program, flags, kib, report):
    report.unlink(missing_ok=True)
    run = subprocess.run([program, "profile", *flags, "--threads", "2", "--memory", f"{kib}KiB", "--quiet",
                          "--json", str(report)], capture_output=True, check=False, timeout=300)
    if run.returncode != 0:
        return None
    found = json.loads(report.read_text())
    return found["elements_per_second"], found["stages"][0]["items"] / found["elements"] - 1


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/penstock"
    faults = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_inputs(folder)
        for what, flags in situations(folder, sys.argv[2] if len(sys.argv) > 2 else None).items():
            best = least = 0
            print(what)
            for kib in BUDGETS_KIB:
                runs = [rate(program, flags, kib, folder / "report.json") for _ in range(3)]
                runs = [run for run in runs if run is not None]
                reached = max((run[0] for run in runs), default=0)
                twice = min((run[1] for run in runs), default=0)
                least = least or (kib if runs else 0)
                said = []
                if reached < LEAST * best:
                    said.append("a cliff")
                if twice > MOST_TWICE and kib >= 2 * least:
                    said.append("too many made twice")
                faults += len(said)
                text = f"{reached:>12,.0f}  {twice:6.1%} twice" if runs else f"{'-':>12}"
                print(f"  {kib:>9,} KiB  {text}  {', '.join(said)}", flush=True)
                best = max(best, reached)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
