#!/usr/bin/env python3
"""Measures the rate at rising memory budgets, and looks for cliffs.

    bench/budgets.py [PENSTOCK [PHOTOGRAPHS]]

Prints elements per second for each budget, "-" where the run fails. Exits with 1 if a budget has
less than half of the rate of a smaller one, in the best of three runs.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

BUDGETS_KIB = [64 << i for i in range(13)]
LEAST = 0.5


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
    return json.loads(report.read_text())["elements_per_second"] if run.returncode == 0 else None


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/penstock"
    cliffs = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_inputs(folder)
        for what, flags in situations(folder, sys.argv[2] if len(sys.argv) > 2 else None).items():
            best = 0
            print(what)
            for kib in BUDGETS_KIB:
                rates = [rate(program, flags, kib, folder / "report.json") for _ in range(3)]
                reached = max((each for each in rates if each is not None), default=None)
                text = "-" if reached is None else f"{reached:,.0f}"
                cliff = best > 0 and (reached or 0) < LEAST * best
                cliffs += cliff
                print(f"  {kib:>9,} KiB  {text:>12}" + ("  a cliff" if cliff else ""), flush=True)
                best = max(best, reached or 0)
    sys.exit(1 if cliffs else 0)


if __name__ == "__main__":
    main()
