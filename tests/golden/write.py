#!/usr/bin/env python3
"""Writes the golden files of this folder with TensorFlow and webdataset themselves.

    python3 -m venv /path/to/venv && /path/to/venv/bin/pip install tensorflow-cpu webdataset
    /path/to/venv/bin/python tests/golden/write.py

Each file is text: lines of hexadecimal bytes, or "*N" for N zero bytes.
"""

import io
import pathlib

import tensorflow as tf
import webdataset as wds

HERE = pathlib.Path(__file__).parent


def save(name, data):
    lines, at = [], 0
    while at < len(data):
        zeros = len(data) - at - len(data[at:].lstrip(b"\0"))
        if zeros >= 32:
            lines.append(f"*{zeros}")
            at += zeros
            continue
        stop = data.find(bytes(32), at, at + 64)
        stop = min(at + 32, len(data)) if stop < 0 else min(stop, at + 32)
        lines.append(data[at:stop].hex())
        at = stop
    (HERE / name).write_text("\n".join(lines) + "\n")


def examples():
    """Records 0, 1, 2: an image, its label, a box, words; record 3 lacks all but the image."""

    def feature(values):
        if isinstance(values[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if isinstance(values[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    for i in range(4):
        features = {"image/encoded": feature([bytes(range(i, i + 20))])}
        if i < 3:
            features["image/class/label"] = feature([(-1) ** i * 10 ** (6 * i)])
            features["box"] = feature([float(i), 0.5, -1e-30, 3e38])
            features["words"] = feature([b"w%d" % k for k in range(i + 1)])
            features["none"] = tf.train.Feature()
            features["empty"] = tf.train.Feature(int64_list=tf.train.Int64List())
        message = tf.train.Example(features=tf.train.Features(feature=features))
        yield message.SerializeToString(deterministic=True)


def tfrecord(kind):
    path = str(HERE / "tmp.tfrecord")
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression_type=kind)) as writer:
        for example in examples():
            writer.write(example)
    data = pathlib.Path(path).read_bytes()
    pathlib.Path(path).unlink()
    return data


def tar():
    stream = io.BytesIO()
    with wds.TarWriter(stream, mtime=0) as writer:
        for i in range(3):
            writer.write({"__key__": f"some/folder/{i:04}", "jpg": b"\xff\xd8 image %d" % i,
                          "cls": 10 - i, "json": {"id": i}})
        long_key = "deep/" * 40 + "last"
        writer.write({"__key__": long_key, "jpg": b"image 3", "cls": 0, "json": {}})
    return stream.getvalue()


save("tensorflow-plain.hex", tfrecord(""))
save("tensorflow-gzip.hex", tfrecord("GZIP"))
save("tensorflow-zlib.hex", tfrecord("ZLIB"))
save("webdataset.hex", tar())
