"""Feeds a training loop with the images of a folder, and resumes where it was stopped.

    python images.py FOLDER [STATE]
"""

import pathlib
import sys

import numpy as np

import penstock as ps


def main(folder: str, state_file: str = "") -> int:
    dataset = (
        ps.images(folder)
        .shuffle()
        .map(ps.decode_image().random_resized_crop(64).random_flip().normalize(layout="hwc"))
        .batch(16)
    )
    saved = pathlib.Path(state_file)
    if state_file and saved.exists():
        batches = dataset.restore(saved.read_bytes(), epochs=2)
    else:
        batches = dataset.iterate(seed=1, epochs=2)
    images = 0
    with batches:
        for batch in batches:
            pixels: np.ndarray = np.asarray(batch["image"])  # a view of the engine's memory
            images += batch.valid_rows
            print(f"epoch {batches.epoch}: {pixels.shape} mean {pixels.mean():.3f} "
                  f"labels {batch['label'].tolist()}")
            if state_file:
                saved.write_bytes(batches.state())
        print(batches.report().verdict)
    return images


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except ps.Error as error:
        sys.exit(f"images.py: {error}")
