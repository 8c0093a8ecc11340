#!/usr/bin/env python3
"""Writes cmyk_pillow.txt: a CMYK JPEG and what Pillow makes of it, for tests/image/jpeg_test.cpp.

Needs pillow and numpy. One line of hex each: the file, its pixels as RGB, its pixels as gray.
"""

import io
import sys

import numpy
import PIL
from PIL import Image

HEIGHT, WIDTH = 24, 40


def main(path):
    y, x, c = numpy.indices((HEIGHT, WIDTH, 4))
    pixels = ((x * 6 * (c + 1) + y * 9 + c * 60) % 256).astype(numpy.uint8)
    file = io.BytesIO()
    Image.frombytes("CMYK", (WIDTH, HEIGHT), pixels.tobytes()).save(file, "JPEG", quality=92)
    rgb = Image.open(io.BytesIO(file.getvalue())).convert("RGB")
    with open(path, "w", encoding="ascii") as out:
        out.write(f"# Pillow {PIL.__version__}; see cmyk_pillow.py\n")
        out.write(file.getvalue().hex() + "\n")
        out.write(rgb.tobytes().hex() + "\n")
        out.write(rgb.convert("L").tobytes().hex() + "\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else __file__.removesuffix(".py") + ".txt")
