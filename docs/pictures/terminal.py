#!/usr/bin/env python3
"""Makes a picture of a terminal: an SVG of what `tmux capture-pane -e -p` prints, from standard input to standard output.

    tmux new-session -d -x 110 -y 36 -s demo
    tmux send-keys -t demo 'penstock profile --images photos …' Enter; sleep 10
    tmux capture-pane -t demo -e -p | docs/pictures/terminal.py 'penstock profile --images photos …' > docs/pictures/profile.svg

The argument is the command, which stands above it. Lines that are empty at the end are left out.
"""

import re
import sys
from xml.sax.saxutils import escape

COLUMN, LINE, EDGE = 7.23, 17, 14
COLOURS = {"31": "#ff7b72", "32": "#3fb950", "33": "#d29922", "34": "#58a6ff", "35": "#bc8cff", "36": "#39c5cf"}
PLAIN, PAGE, DIM = "#e6edf3", "#0d1117", "#8b949e"


class Pen:
    def __init__(self):
        self.colour, self.bold, self.dim = PLAIN, False, False

    def take(self, codes):
        for code in codes.split(";"):
            if code in ("", "0"):
                self.__init__()
            elif code == "39":
                self.colour = PLAIN
            elif code == "1":
                self.bold = True
            elif code == "2":
                self.dim = True
            elif code == "22":
                self.bold = self.dim = False
            elif code in COLOURS:
                self.colour = COLOURS[code]

    def style(self):
        colour = DIM if self.dim else self.colour
        return f'fill="{colour}"' + (' font-weight="bold"' if self.bold else "")


def runs(line, pen):
    """Pieces of one style with their columns."""
    column = 0
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if piece.startswith("\x1b"):
            pen.take(piece[2:-1])
            continue
        for text in re.findall(r"\S+(?: \S+)*", piece):
            yield column + piece.index(text), text, pen.style()
        column += len(piece)


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    lines = sys.stdin.read().rstrip("\n \t").split("\n")
    while lines and not re.sub(r"\x1b\[[0-9;]*m", "", lines[-1]).strip():
        lines.pop()
    if command:
        lines = ["\x1b[2m$\x1b[0m " + command, ""] + lines
    shown = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in lines]
    width = max(map(len, shown), default=0) * COLUMN + 2 * EDGE
    height = len(lines) * LINE + 2 * EDGE
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" '
          f'role="img" aria-label="{escape(command, {chr(34): "&quot;"})}">')
    print(f'  <rect width="100%" height="100%" rx="8" fill="{PAGE}"/>')
    print("  <g font-family=\"ui-monospace, 'SF Mono', 'DejaVu Sans Mono', monospace\" font-size=\"12\" xml:space=\"preserve\">")
    pen = Pen()
    for number, line in enumerate(lines):
        y = EDGE + LINE * number + 12
        for column, text, style in runs(line, pen):
            print(f'    <text x="{EDGE + column * COLUMN:.1f}" y="{y}" textLength="{len(text) * COLUMN:.1f}" '
                  f'lengthAdjust="spacingAndGlyphs" {style}>{escape(text)}</text>')
    print("  </g>\n</svg>")


if __name__ == "__main__":
    main()
