"""What TensorFlow reads from the feature lists of SequenceExamples: writes sequences_tf.txt, which
tests/sources/sequence_example_test.cpp reads.

    pip install tensorflow==2.21.0 && python3 tests/golden/sequences_tf.py

Each line has the dtype, the shape of a step ("-": any number of values), whether the list may be missing, and the record
in hexadecimal. Then come "error", or the shape, the values (texts in hexadecimal) and the row splits of the list "x".
"""

import os

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"i64": tf.int64, "f32": tf.float32, "bytes": tf.string}
STEPS = {
    "i64": [[], [[1], [2], [3]], [[1, -2], [], [3, 4, 5]], [[7, 8], [9, 10]], [[]], [[2**62], [-1], [0]]],
    "f32": [[], [[0.5]], [[1, 2, 3, 4], [5, 6, 7, 8]], [[1.5], [], [-2.5, 3e38]]],
    "bytes": [[], [[b"the"], [b""], [b"end"]], [[b"a", b"bc"], [], [b"\x00\xff" * 40]], [[b"x"] * 4]],
}
SHAPES = ["-", "[]", "[2]", "[1]", "[2x2]"]


def feature(dtype, values):
    if dtype == "i64":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    if dtype == "f32":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def record(lists):
    context = tf.train.Features(feature={"id": feature("i64", [5]), "x": feature("bytes", [b"not this"])})
    return tf.train.SequenceExample(
        context=context,
        feature_lists=tf.train.FeatureLists(
            feature_list={name: tf.train.FeatureList(feature=steps) for name, steps in lists.items()})
    ).SerializeToString(deterministic=True)


def records():
    for dtype, lists in STEPS.items():
        for steps in lists:
            yield dtype, record({"x": [feature(dtype, step) for step in steps], "y": [feature("i64", [1])]})
    none = tf.train.Feature()
    yield "i64", record({"x": [feature("i64", [1]), none, feature("i64", [2])]})
    yield "i64", record({"x": [feature("i64", [1]), feature("f32", [2])]})
    yield "f32", record({"x": [feature("i64", [1])]})
    yield "bytes", record({"y": [feature("bytes", [b"z"])]})
    yield "i64", record({})


def text(values):
    return ",".join(value.hex() if isinstance(value, bytes) else repr(float(value)) if isinstance(value, np.float32)
                    else str(value) for value in values) or "none"


def outcome(dtype, shape, missing, data):
    if shape == "-":
        spec = tf.io.RaggedFeature(DTYPES[dtype], row_splits_dtype=tf.int64)
    else:
        dims = [int(dim) for dim in shape[1:-1].split("x") if dim]
        spec = tf.io.FixedLenSequenceFeature(dims, DTYPES[dtype], allow_missing=missing)
    try:
        _, lists = tf.io.parse_single_sequence_example(data, sequence_features={"x": spec})
    except tf.errors.InvalidArgumentError:
        return "error"
    value = lists["x"]
    if shape == "-":
        flat, splits = value.flat_values.numpy(), value.row_splits.numpy()
        return f"{len(flat)} {text(flat)} {text(splits)}"
    array = value.numpy()
    return f"{'x'.join(map(str, array.shape))} {text(array.reshape(-1))} none"


with open(os.path.join(HERE, "sequences_tf.txt"), "w") as out:
    for dtype, data in records():
        for shape in SHAPES:
            for missing in [False] if shape == "-" else [False, True]:
                print(dtype, shape, "missing" if missing else "present", data.hex(),
                      outcome(dtype, shape, missing, data), file=out)
