"""Enlarges photographs to 2 to 12 megapixels, JPEG of quality 90: enlarge.py FROM TO COUNT. Needs Pillow.

The sizes are drawn evenly, and the same for the same names.
"""

import pathlib
import random
import sys

from PIL import Image


def main():
    source, target, count = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    target.mkdir(parents=True, exist_ok=True)
    names = sorted(path for path in source.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    rng = random.Random(7)
    for path in names[:: max(1, len(names) // count)][:count]:
        pixels = rng.uniform(2e6, 12e6)
        with Image.open(path) as image:
            scale = (pixels / (image.width * image.height)) ** 0.5
            size = (round(image.width * scale), round(image.height * scale))
            image.convert("RGB").resize(size, Image.Resampling.BICUBIC).save(target / (path.stem + ".jpg"), quality=90)


if __name__ == "__main__":
    main()
