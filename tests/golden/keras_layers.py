"""What Keras's preprocessing layers make of words and numbers, for tests/towers/keras_layers_test.cpp.

Usage: python keras_layers.py > keras_layers.txt      (the wheel of TensorFlow 2.21, which brings Keras)

A line is a name, and what belongs to it. `words` are in hexadecimal digits, all rows of an input in one line, or of what a
layer makes of it; a layer's name is followed by its settings, and by what comes out behind a colon.
"""
import os
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

layers = tf.keras.layers
rng = random.Random(21)

VOCABULARY = ["bob", "george", "Ärger", "水", "w3"]
KNOWN_NUMBERS = [30, -7, 12345678901, 0]
WORDS = [rng.choice(VOCABULARY + [f"w{i}" for i in range(12)] + ["a text of more than sixteen bytes", "x" * 70]) for _ in range(40)]
NUMBERS = [rng.choice(KNOWN_NUMBERS + [rng.randrange(-2**63, 2**63), rng.randrange(-9, 9)]) for _ in range(40)]
# Some are boundaries of buckets.
VALUES = np.array([rng.gauss(3, 10) for _ in range(34)] + [-2, 0, 1, 3, 8, 1000], np.float32)
IDS = np.array([[rng.randrange(6) for _ in range(3)] for _ in range(12)], np.int64)


def put(name, *settings, of=None):
    text = " ".join([name, *map(str, settings)])
    print(text + (" : " + " ".join(repr(v.item() if hasattr(v, "item") else v) for v in np.reshape(of, -1)) if of is not None else ""))


print(f"# TensorFlow {tf.__version__}, Keras {tf.keras.__version__}")
put("words", *[w.encode().hex() for w in WORDS])
put("numbers", *NUMBERS)
put("values", *[repr(v.item()) for v in VALUES])
put("ids", *IDS.reshape(-1).tolist())
put("vocabulary", *[w.encode().hex() for w in VOCABULARY])
put("known_numbers", *KNOWN_NUMBERS)

words, numbers = tf.constant(WORDS), tf.constant(NUMBERS, tf.int64)
for bins in (2, 7, 1000):
    put("hashing_words", bins, of=layers.Hashing(num_bins=bins)(words).numpy())
    put("hashing_numbers", bins, of=layers.Hashing(num_bins=bins)(numbers).numpy())
    put("crossing", bins, of=layers.HashedCrossing(num_bins=bins)((words, numbers)).numpy())
for indices in (1, 3):
    lookup = layers.StringLookup(vocabulary=VOCABULARY, num_oov_indices=indices)
    put("string_lookup", indices, of=lookup(words).numpy())
put("integer_lookup", 1, of=layers.IntegerLookup(vocabulary=KNOWN_NUMBERS, num_oov_indices=1)(numbers).numpy())
for mode in ("multi_hot", "count"):
    put(mode, 6, of=layers.CategoryEncoding(num_tokens=6, output_mode=mode)(IDS).numpy())
put("one_hot", 6, of=layers.CategoryEncoding(num_tokens=6, output_mode="one_hot")(IDS[:, :1]).numpy())
weights = np.array([[0.5, 2, 1.25]] * len(IDS), np.float32)
put("weighted_count", 6, of=layers.CategoryEncoding(num_tokens=6, output_mode="count")(IDS, count_weights=weights).numpy())
for mean, variance in ((3.5, 2.25), (-0.125, 100.0)):
    put("normalization", mean, variance, of=layers.Normalization(axis=None, mean=mean, variance=variance)(VALUES).numpy())
adapted = layers.Normalization(axis=None)
adapted.adapt(VALUES)
mean, variance = np.float32(adapted.mean).item(), np.float32(adapted.variance).item()
put("normalization", repr(mean), repr(variance), of=np.asarray(adapted(VALUES)))
BOUNDS = [-2.0, 0.0, 1.0, 3.0, 8.0]
put("discretization", *BOUNDS, of=np.asarray(layers.Discretization(bin_boundaries=BOUNDS)(VALUES)))
adapted = layers.Discretization(num_bins=4)
adapted.adapt(VALUES)
put("discretization", *[repr(float(np.float32(b))) for b in adapted.bin_boundaries], of=np.asarray(adapted(VALUES)))
