#!/usr/bin/env python3
"""Writes resize_pillow.txt: what Pillow makes of made-up images, for tests/image/resize_test.cpp.

Needs pillow and numpy. A case is a line of numbers (input height, width, channels; box left, top,
right, bottom; output height, width) and a line of hex: the output, interleaved.
"""

import sys

import numpy
import PIL
from PIL import Image


def made_up(height, width, channels):
    """The test makes the same pixels: a multiplicative hash of the position, smoothed by blocks."""
    index = numpy.arange(height * width * channels, dtype=numpy.uint64)
    x = index // channels % width
    y = index // channels // width
    c = index % channels
    noise = (index * 2654435761 % 4294967296) >> 26
    wave = (x * 7 + y * 5 + c * 40) % 256
    step = (x // 3 + y // 4 + c) % 2 * 128
    pixels = ((wave + noise) // 2 + step) % 256
    return pixels.astype(numpy.uint8).reshape(height, width, channels)


CASES = [
    # height, width, channels, box, output height, output width
    (40, 50, 3, None, 20, 25),
    (40, 50, 3, None, 16, 16),
    (33, 47, 3, None, 20, 31),
    (33, 47, 3, None, 32, 46),
    (20, 24, 3, None, 29, 33),
    (9, 11, 3, None, 37, 30),
    (64, 64, 3, None, 9, 7),
    (150, 170, 3, None, 8, 9),
    (1, 1, 3, None, 5, 4),
    (2, 90, 3, None, 30, 20),
    (90, 2, 3, None, 20, 30),
    (300, 5, 3, None, 3, 40),
    (31, 37, 3, None, 31, 20),
    (31, 37, 3, None, 20, 37),
    (40, 50, 3, (0.5, 0.25, 49.5, 39.75), 18, 24),
    (40, 50, 3, (0.125, 0.875, 49.25, 39.5), 30, 41),
    (40, 50, 3, (0.75, 0.0, 50.0, 39.125), 20, 20),
    (60, 45, 1, None, 23, 31),
    (21, 17, 1, None, 40, 33),
    (700, 9, 1, None, 4, 4),
    (40, 400, 3, None, 12, 17),
]


def main(path):
    with open(path, "w", encoding="ascii") as out:
        out.write(f"# Pillow {PIL.__version__}, Image.resize(BILINEAR, box); see resize_pillow.py\n")
        for height, width, channels, box, out_height, out_width in CASES:
            pixels = made_up(height, width, channels)
            image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
            left, top, right, bottom = box or (0.0, 0.0, width, height)
            resized = image.resize(
                (out_width, out_height), Image.Resampling.BILINEAR, box=(left, top, right, bottom)
            )
            out.write(
                f"{height} {width} {channels} {left} {top} {right} {bottom} {out_height} {out_width}\n"
            )
            out.write(numpy.asarray(resized).tobytes().hex() + "\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else __file__.removesuffix(".py") + ".txt")
