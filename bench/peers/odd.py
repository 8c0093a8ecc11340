"""Decodes images of which decoders warn with each peer, and compares their pixels with ours: odd.py FOLDER.

    PENSTOCK_ODD_IMAGES=FOLDER build/release/bin/image_tests --gtest_filter='Warnings.Of*'

writes the folder: each image, and our pixels of it as NAME.pnm. The peers are Pillow, TensorFlow, torchvision and, of
JPEGs, djpeg, as far as they are here. An image that three of them read to our pixels is counted as agreed. Exits with 1
if three read an image to the same pixels, which are not ours.
"""

import json
import os
import shutil
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np


def pnm(data):
    """The pixels of a binary PGM or PPM, as height x width x channels."""
    fields = data.split(None, 4)[:4]
    width, height = int(fields[1]), int(fields[2])
    channels = 1 if fields[0] == b"P5" else 3
    return np.frombuffer(data[-width * height * channels:], np.uint8).reshape(height, width, channels)


def pillow():
    from PIL import Image

    def decode(path, channels):
        image = Image.open(path)
        image.load()
        if image.mode in ("RGBA", "LA"):  # alpha is dropped, not applied
            return np.asarray(image)[..., :channels]
        return np.asarray(image.convert("L" if channels == 1 else "RGB"))

    return decode


def tensorflow():
    import tensorflow as tf

    def decode(path, channels):
        data = tf.io.read_file(path)
        if path.endswith(".png"):
            return tf.io.decode_png(data, channels=channels).numpy()
        # Its default transform is less exact than that of the other peers.
        return tf.io.decode_jpeg(data, channels=channels, dct_method="INTEGER_ACCURATE").numpy()

    return decode


def torchvision():
    from torchvision.io import ImageReadMode, decode_image, read_file
    modes = {1: ImageReadMode.GRAY, 3: ImageReadMode.RGB}
    return lambda path, channels: decode_image(read_file(path), modes[channels]).permute(1, 2, 0).numpy()


def djpeg():
    program = os.environ.get("DJPEG", "djpeg")
    if shutil.which(program) is None:
        raise ImportError("no djpeg")

    def decode(path, channels):
        # Its exit code is 2 after a warning, with all rows written.
        done = subprocess.run([program, path], capture_output=True, check=False)
        if not path.endswith(".jpg") or done.returncode not in (0, 2):
            raise ValueError(done.stderr.decode())
        return pnm(done.stdout)

    return decode


def answers_of(peer, folder):
    """What the peer makes of each image: same pixels as ours, other pixels, or refused."""
    decode = PEERS[peer]()
    answers = {}
    for name in images(folder):
        path = os.path.join(folder, name)
        with open(path + ".pnm", "rb") as file:
            ours = pnm(file.read())
        try:
            pixels = decode(path, ours.shape[2]).reshape(ours.shape)
            answers[name] = "same" if np.array_equal(pixels, ours) else "other"
        except Exception:  # each peer has its own
            answers[name] = "refused"
    return answers


def images(folder):
    return sorted(name for name in os.listdir(folder) if not name.endswith(".pnm"))


def main(folder):
    answers = {}
    for peer in PEERS:  # in a process of its own: two of them bring an LLVM each
        done = subprocess.run([sys.executable, __file__, folder, peer], stdout=subprocess.PIPE, check=False)
        if done.returncode == 0:
            answers[peer] = json.loads(done.stdout)
        else:
            print(f"odd: no {peer}", file=sys.stderr)
    agreed = contradicted = 0
    for name in images(folder):
        row = {peer: answers[peer][name] for peer in answers}
        agreed += list(row.values()).count("same") >= 3
        contradicted += list(row.values()).count("other") >= 3
        if set(row.values()) != {"same"}:
            print(name, " ".join(f"{peer}={answer}" for peer, answer in row.items()))
    for peer, row in answers.items():
        counts = [list(row.values()).count(answer) for answer in ("same", "other", "refused")]
        print("{}: {} to the same pixels, {} to others, {} refused".format(peer, *counts))
    print(f"odd: {len(images(folder))} images, {agreed} read to our pixels by three peers, {contradicted} to others")
    return contradicted > 0


PEERS = {"Pillow": pillow, "TensorFlow": tensorflow, "torchvision": torchvision, "djpeg": djpeg}

if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(answers_of(sys.argv[2], sys.argv[1])))
    else:
        sys.exit(main(sys.argv[1]))
