#!/usr/bin/env python3
"""Draws docs/pictures/rates.svg, the chart of the README, from bench/results/rates.csv: the newest rates of `images` that
one machine measured in one run.

    bench/chart.py          writes the picture
    bench/chart.py --check  exits with 1 if the picture is not what the table says, or a rate is not in the file that the
                            table names for it
"""

import csv
import pathlib
import re
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
PICTURE = ROOT / "docs" / "pictures" / "rates.svg"
WIDTH, LEFT, RIGHT, TOP, ROW, BAR = 720, 110, 70, 52, 30, 20
# Readable on a light page and on a dark one.
STYLE = """
    text { font: 14px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2328; }
    .small { font-size: 12px; fill: #59636e; }
    .title { font-weight: 600; }
    .ours { fill: #0969da; }
    .theirs { fill: #afb8c1; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .small { fill: #9198a1; }
      .ours { fill: #4493f8; }
      .theirs { fill: #57606a; }
    }"""


def rows():
    """Of the newest run, the fastest first."""
    with open(RESULTS / "rates.csv", newline="") as file:
        table = [row for row in csv.DictReader(file) if row["work"] == "images"]
    newest = max((row["date"], row["source"]) for row in table)
    chosen = [row for row in table if (row["date"], row["source"]) == newest]
    return sorted(chosen, key=lambda row: -float(row["images_per_s"]))


def picture(table):
    first = table[0]
    most = float(first["images_per_s"])
    height = TOP + ROW * len(table) + 30
    said = ", ".join(f"{row['loader']} {row['images_per_s']}" for row in table)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-labelledby="title detail">',
        '  <title id="title">Images a second on one CPU</title>',
        f'  <desc id="detail">{escape(said)} images a second</desc>',
        f"  <style>{STYLE}\n  </style>",
        '  <text class="title" x="0" y="18">Images a second on one CPU</text>',
        '  <text class="small" x="0" y="38">photographs: shuffle, random-resized crop to 224, flip, normalise, batches of 64</text>'
    ]
    for number, row in enumerate(table):
        y = TOP + number * ROW
        rate = float(row["images_per_s"])
        length = (WIDTH - LEFT - RIGHT) * rate / most
        kind = "ours" if row["loader"] == "Penstock" else "theirs"
        lines += [
            f'  <text x="{LEFT - 10}" y="{y + 15}" text-anchor="end">{escape(row["loader"])}</text>',
            f'  <rect class="{kind}" x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2"/>',
            f'  <text x="{LEFT + length + 8:.1f}" y="{y + 15}">{rate:,.0f}</text>'
        ]
    lines += [
        f'  <text class="small" x="0" y="{height - 8}">{escape(first["machine"])}, {first["simd"]}, {first["date"]}; '
        f'bench/results/{escape(first["source"])}</text>', "</svg>"
    ]
    return "\n".join(lines) + "\n"


def unfounded(table):
    """Rates that the file of results does not have."""
    wrong = []
    for row in table:
        text = (RESULTS / row["source"]).read_text()
        rate = re.escape(f"{int(row['images_per_s']):,}")
        name = row["loader"]
        where = r"\| images \| " if name == "Penstock" else rf"{re.escape(name)} "
        if not re.search(where + rate + r"\b", text):
            wrong.append(f"{row['source']} does not say that {name} made {row['images_per_s']} images a second")
    return wrong


def main():
    table = rows()
    wrong = unfounded(table)
    drawn = picture(table)
    if sys.argv[1:] == ["--check"]:
        if not PICTURE.exists() or PICTURE.read_text() != drawn:
            wrong.append("docs/pictures/rates.svg is not what bench/results/rates.csv says: run bench/chart.py")
    elif not wrong:
        PICTURE.write_text(drawn)
    for one in wrong:
        print(f"chart: {one}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
