#!/usr/bin/env python3
"""Holds the machine code of our kernels against bench/kernels.txt: registers, shared memory, stack and local accesses
(spills) of each kernel on every architecture, and the instructions of its hot loop for each value, or for each symbol.

`bench/kernel_budgets.py [MODULE...]` reads the modules of build/release with cuobjdump and fails where a kernel takes more
than its row says, lies outside of the rules below, or has no row. `--update` writes the rows down as they are now;
`--estimate` prints what share of an H100's bandwidth each kernel can reach by its instructions. cuobjdump is in the CUDA
toolkit; where it is not, this takes it from PyPI, into build/cuda-tools.
"""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "bench/kernels.txt"
TOOLS = ROOT / "build/cuda-tools"
WHEELS = ["nvidia-cuda-cuobjdump>=13,<14", "nvidia-cuda-nvdisasm>=13,<14"]
MODULES = [ROOT / "build/release/bin/libpenstock_cuda.so", ROOT / "build/release/bin/libpenstock_towers_cuda.so"]
COLUMNS = ["registers", "shared", "stack", "local", "hot"]
# The rules, whatever the table says. Nothing lies on a stack but what one thread an image does once, and the few words that
# nvcc 13.0 keeps there, on one architecture or another, while kernels over few rows divide doubles or take their
# logarithm, or for bounds outside of a loop.
STACK = {"LayOut": 560, "InBatch<Bf16>": 32, "InBatch<float>": 32, "Softmax<Bf16>": 16, "Softmax<float>": 16,
         "Triplet<Bf16>": 16, "Triplet<float>": 16, "Clip": 8, "Norm<Bf16>": 8, "NormGradients": 8, "MaxPoolBack<Bf16>": 8,
         "Sums<float, gradients>": 8}
# Finishing a value of a photograph takes at most 17 instructions, those of all paths together; where a pixel has one value
# they are more for each. With channels last, the loop that stores only copies.
HOT = (re.compile(r"Finish<\w+, first, [34]>"), 17)
# An H100 SXM: bytes and thread-instructions a second.
BANDWIDTH = 3.35e12
ISSUE = 132 * 4 * 32 * 1.755e9
# The symbols of a photograph of 500 x 375 for which a warp takes turns, those of the sample's mean: the threads of a warp
# wait for the longest chunk, and chunks are decoded until they are synchronised, then once more.
WARP_SYMBOLS = 19454
# Bytes that a value of these moves.
MOVES = {"Fill": 4, "Scale": 8, "Add": 12, "ToBf16": 6, "SumOfTwo<float>": 12, "SumOfTwo<Bf16>": 6, "Sgd": 12,
         "Momentum": 20, "Adam": 28, "Norm<float>": 8, "Norm<Bf16>": 4, "NormBack<float>": 12, "NormBack<Bf16>": 6,
         "GatedSum<float>": 12, "GatedSum<Bf16>": 6}


def tool():
    """cuobjdump and the folder of nvdisasm, which it calls."""
    found = shutil.which("cuobjdump")
    if found and shutil.which("nvdisasm"):
        return found
    if not list(TOOLS.glob("lib/python*/site-packages/nvidia/*/bin/cuobjdump")):
        try:
            subprocess.run([sys.executable, "-m", "venv", TOOLS], check=True)
            subprocess.run([TOOLS / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *WHEELS], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"kernel_budgets: cuobjdump is not here and could not be downloaded: {error}")
            sys.exit(75)
    return str(next(TOOLS.glob("lib/python*/site-packages/nvidia/*/bin/cuobjdump")))


def said(*command):
    folder = str(pathlib.Path(command[0]).parent)
    environment = dict(os.environ, PATH=folder + os.pathsep + os.environ["PATH"])
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def short(name):
    """"Finish<bf16, last, 3>" for a kernel of staging, "Row Softmax<float>" for one of the trainer."""
    for number, kind in enumerate(["f32", "f16", "bf16"]):
        name = name.replace(f"(penstock::FinishType){number}", kind)
    for number, kind in enumerate(["moments", "squares", "gradients"]):
        name = name.replace(f"(penstock::towers::Sums){number}", kind)
    inner = re.search(r"kernel<(.*)>\(", name).group(1).strip()
    name = re.sub(r"penstock::(kernels|towers)::", "", inner).replace(" >", ">")
    name = re.sub(r"\b(Value|Row)Body<(.*)>$", r"\2", name)
    name = re.sub(r"(Body|Plan)\b", "", name)
    return re.sub(r"(<\w+), (true|false)", lambda m: f"{m[1]}, {'first' if m[2] == 'true' else 'last'}", name)


def loops_of(code):
    """The innermost loops, as the addresses of their first and last instructions."""
    loops = []
    for address, text in code:
        jump = re.search(r"\bBRA(?:\.\w+)* (?:\w+, )*`?\(?0x([0-9a-f]+)", text) or re.search(r"\bBRA\S* .*?0x([0-9a-f]+)", text)
        if jump and int(jump.group(1), 16) < address:
            loops.append((int(jump.group(1), 16), address))
    return [(begin, end) for begin, end in loops
            if not any(begin <= b and e <= end and (b, e) != (begin, end) for b, e in loops)]


def hot_loop(code, wide):
    """Instructions of the innermost loop that stores most, for each value that it stores; None: there is none.

    `code` is (address, text). A store of 16 bytes has `wide` values, one of 8 bytes four, others one.
    """
    best = None
    for begin, end in loops_of(code):
        body = [text for address, text in code if begin <= address <= end]
        stores = [text for text in body if re.search(r"\bSTG", text)]
        values = sum(wide if re.search(r"STG\S*\.128\b", text) else 4 if re.search(r"STG\S*\.64\b", text) else 1
                     for text in stores)
        if values and (best is None or values > best[1]):
            best = (len(body), values)
    return round(best[0] / best[1], 1) if best else None


def split(code):
    """Whether an innermost loop writes some vectors of a plan whole, and others value by value."""
    for begin, end in loops_of(code):
        stores = [text for address, text in code if begin <= address <= end and re.search(r"\bSTG", text)]
        if any(".128" in text for text in stores) and any(re.search(r"STG\.E(\.U16)? ", text) for text in stores):
            return True
    return False


def symbol_loop(code):
    """Instructions of the longest loop around a look-up of a code: those of all paths for one symbol of a JPEG."""
    loops = []
    for address, text in code:
        jump = re.search(r"\bBRA\S*.*?0x([0-9a-f]+)", text)
        if jump and int(jump.group(1), 16) < address:
            loops.append((int(jump.group(1), 16), address))
    around = [min((end - begin for begin, end in loops if begin <= at <= end), default=0)
              for at, text in code if "LDS.U16" in text]
    size = code[1][0] - code[0][0]
    return max(around, default=0) // size + 1


def measure(modules):
    """{kernel: {architecture: {column: value}}}."""
    cuobjdump = tool()
    found = collections.defaultdict(dict)
    for module in modules:
        text = said(cuobjdump, "-res-usage", str(module))
        names = {}
        architecture = None
        for line in text.splitlines():
            if m := re.match(r"arch = (sm_\w+)", line):
                architecture = m.group(1)
            elif m := re.match(r"\s*Function (\S+):", line):
                name = m.group(1)
            elif m := re.match(r"\s*REG:(\d+) STACK:(\d+) SHARED:(\d+)", line):
                registers, stack, shared = map(int, m.groups())
                names.setdefault(name, {})[architecture] = dict(registers=registers, stack=stack, shared=shared)
        readable = dict(zip(names, said(shutil.which("c++filt"), *names).splitlines()))
        code = collections.defaultdict(list)
        for line in said(cuobjdump, "-sass", str(module)).splitlines():
            if m := re.match(r"arch = (sm_\w+)", line):
                architecture = m.group(1)
            elif m := re.match(r"\s*Function : (\S+)", line):
                name = m.group(1)
            elif m := re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?);", line):
                code[name, architecture].append((int(m.group(1), 16), m.group(2)))
        for name, of in names.items():
            for architecture, row in of.items():
                here = code[name, architecture]
                row["local"] = sum(bool(re.search(r"\b(LDL|STL)\b", text)) for _, text in here)
                kernel = short(readable[name])
                row["split"] = split(here)
                row["hot"] = symbol_loop(here) if kernel == "Entropy" else hot_loop(here, 8 if "Bf16" in kernel else 4) or 0
                found[kernel][architecture] = row
    return found


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    found = measure([pathlib.Path(a) for a in arguments] or MODULES)
    if not found:
        sys.exit("kernel_budgets: there is no machine code in these modules")
    most = {k: {c: max(row[c] for row in of.values()) for c in COLUMNS} for k, of in found.items()}
    if "--update" in sys.argv:
        lines = [f"# {'kernel':<30}" + "".join(f"{c:>11}" for c in COLUMNS)]
        lines += [f"{k:<32}" + "".join(f"{row[c]:>11}" for c in COLUMNS) for k, row in sorted(most.items())]
        TABLE.write_text("\n".join(lines) + "\n")
    if "--estimate" in sys.argv:
        print(f"{'kernel':<32}{'instructions':>14}{'bytes':>7}{'issue slots':>13}{'bandwidth':>11}   (a value; sm_90)")
        for kernel, of in sorted(found.items()):
            moves = MOVES.get(kernel) or (5 if kernel.startswith("Finish<f32") else 3 if kernel.startswith("Finish<") else 0)
            row = of.get("sm_90")
            if moves and row and row["hot"]:
                slots = row["hot"] / ISSUE / (moves / BANDWIDTH)
                print(f"{kernel:<32}{row['hot']:>14}{moves:>7}{slots:>13.2f}{min(1, 1 / slots):>11.2f}")
        if row := found.get("Entropy", {}).get("sm_90"):
            print(f"Entropy: at least {ISSUE / 32 / (WARP_SYMBOLS * row['hot']):,.0f} photographs a second by issue slots")
    limits = {}
    for line in TABLE.read_text().splitlines():
        if not line.startswith("#"):
            *name, registers, shared, stack, local, hot = line.split()
            limits[" ".join(name)] = dict(zip(COLUMNS, [float(v) for v in (registers, shared, stack, local, hot)]))
    wrong = []
    for kernel, of in sorted(found.items()):
        if kernel not in limits:
            wrong.append(f"{kernel} is not in {TABLE.name}: bench/kernel_budgets.py --update")
            continue
        for architecture, row in sorted(of.items()):
            for column in COLUMNS:
                if row[column] > limits[kernel][column]:
                    wrong.append(f"{kernel} on {architecture}: {column} {row[column]}, and {limits[kernel][column]:g} is its limit")
            if row["stack"] > STACK.get(kernel, 0):
                wrong.append(f"{kernel} on {architecture}: {row['stack']} bytes of stack, and the rule is {STACK.get(kernel, 0)}")
            if row["split"] and not kernel.startswith("Finish"):
                wrong.append(f"{kernel} on {architecture}: a loop writes vectors of 16 bytes, and others value by value")
            if HOT[0].match(kernel) and not 0 < row["hot"] <= HOT[1]:
                wrong.append(f"{kernel} on {architecture}: {row['hot']} instructions a value, and the rule is {HOT[1]}")
    for kernel in sorted(set(limits) - set(found)):
        if len(arguments) == 0:
            wrong.append(f"{kernel} is in {TABLE.name}, and there is no such kernel")
    if wrong:
        sys.exit("\n".join("kernel_budgets: " + line for line in wrong))
    architectures = sorted({a for of in found.values() for a in of})
    print(f"kernel_budgets: {len(found)} kernels for {', '.join(architectures)} are within {TABLE.name}")


main()
