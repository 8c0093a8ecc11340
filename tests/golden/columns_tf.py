"""What TensorFlow's feature columns make of random rows, for tests/towers/columns_golden_test.cpp.

Usage: python columns_tf.py [--rows N] [--crosses K] [--seed S] FOLDER      (TensorFlow 2.21)

Writes to FOLDER:

  columns.toml   the columns, as `penstock train --columns` reads them
  rows.hex       the rows as tf.Examples, one in hexadecimal digits on each line
  expected.txt   what TensorFlow makes of them

The folder `columns` beside this file was made with the defaults. More are compared by `--rows 10000 --crosses 200` and
another folder, which the test is then told by PENSTOCK_COLUMNS_GOLDEN. A line of expected.txt is a name, and values:

  ids COLUMN ROW          the ids of column number COLUMN of the part `ids`, as its sparse tensor has them
  dense COLUMN ROW        compat.v1.feature_column.input_layer of one column of the part `dense`
  layer                   how wide the input_layer of the part `layer` is
  linear ROW              compat.v1.feature_column.linear_model of the categorical and numeric columns
  steps ROW               SequenceFeatures: the number of steps
  sequence ROW            its values, step by step
  gradient NAME ID        the table's gradient of the sum of all values of input_layer times a wave; rows that are not zeros
  trained RULE NAME ID    rows of the table after 50 updates, by sparse Adam and by sparse momentum

Value i of a table is sin(0.7 i + 2), that of a weight of the linear model sin(0.7 i + 3); value i of what values are
multiplied by sin(0.7 i + 4).
"""
import argparse
import os
import pathlib
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

fc = tf.feature_column
v1 = tf.compat.v1
v1.disable_eager_execution()
v1.logging.set_verbosity(v1.logging.ERROR)

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=12)
parser.add_argument("--crosses", type=int, default=10)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("folder", type=pathlib.Path)
args = parser.parse_args()
rng = random.Random(args.seed)
args.folder.mkdir(exist_ok=True)

WORDS = ["", "a", "bob", "george", "Ärger", "水", "a much longer text that FarmHash takes by blocks of bytes, more than 64 of them"]
WORDS += ["w%d" % i for i in range(40)]


def wave(shape, phase):
    count = int(np.prod(shape))
    return np.sin(0.7 * np.arange(count, dtype=np.float64) + phase).astype(np.float32).reshape(shape)


def row():
    def some(make, most=4):
        return [make() for _ in range(rng.randrange(most + 1))]

    word = lambda: rng.choice(WORDS)
    tags = some(word)
    steps = rng.randrange(5)
    return {
        "age": [rng.choice([rng.uniform(-5, 100), 18.0, 65.0, 0.0])],
        "box": [rng.gauss(0, 10) for _ in range(4)],
        "count": [rng.randrange(-100, 10000)],
        "income": [] if rng.random() < 0.3 else [rng.lognormvariate(8, 2)],
        "word": some(word),
        "city": some(word, 2),
        "number": some(lambda: rng.choice([rng.randrange(-2**63, 2**63), rng.randrange(-50, 50)])),
        "day": some(lambda: rng.randrange(7)),
        "odd_day": some(lambda: rng.randrange(-3, 12)),
        "job": some(word),
        "grade": some(lambda: rng.randrange(-4, 12)),
        "tag": tags,
        "tag_weight": [rng.choice([0.0, -1.0, rng.uniform(0, 3), rng.uniform(0, 3)]) for _ in tags],
        "seen": some(lambda: rng.randrange(30)),
        "bought": some(lambda: rng.randrange(30)),
        "steps": [rng.randrange(12) for _ in range(steps)],
        "speed": [rng.gauss(0, 1) for _ in range(2 * steps)],
    }


FLOATS = ("age", "box", "income", "tag_weight", "speed")
TEXTS = ("word", "city", "job", "tag")


def example(values):
    def feature(key, value):
        if key in FLOATS:
            return tf.train.Feature(float_list=tf.train.FloatList(value=value))
        if key in TEXTS:
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[v.encode() for v in value]))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=value))

    # A feature without values is missing half of the time, and an empty list otherwise.
    kept = {k: feature(k, v) for k, v in values.items() if v or (k != "income" and rng.random() < 0.5)}
    return tf.train.Example(features=tf.train.Features(feature=kept)).SerializeToString(deterministic=True)


rows = [example(row()) for _ in range(args.rows)]
(args.folder / "rows.hex").write_text("\n".join(r.hex() for r in rows) + "\n")

toml = []
columns = {}


def define(name, column, **fields):
    """A column by its name in the TOML."""
    def text(value):
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            return '"' + value + '"'
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(text(v) for v in value) + "]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k} = {text(v)}" for k, v in value.items()) + "}"
        return repr(value)

    toml.append(f"[columns.{name}]\n" + "".join(f"{k} = {text(v)}\n" for k, v in fields.items()))
    columns[name] = column
    return column


age = define("age", fc.numeric_column("age"), kind="numeric")
box = define("box", fc.numeric_column("box", shape=(4,), normalizer_fn=lambda x: (x - 1.5) / 4), kind="numeric", shape=[4],
       subtract=1.5, divide=4.0)
define("count", fc.numeric_column("count", dtype=tf.int64), kind="numeric", dtype="i64")
define("income", fc.numeric_column("income", default_value=-1.0), kind="numeric", default=[-1.0])
BOUNDS = [0.0, 18.0, 25.5, 65.0]
ages = define("ages", fc.bucketized_column(age, BOUNDS), kind="bucketized", source="age", boundaries=BOUNDS)
boxes = define("boxes", fc.bucketized_column(box, [-1.0, 0.0, 2.0]),
               kind="bucketized", source="box", boundaries=[-1.0, 0.0, 2.0])
word = define("word", fc.categorical_column_with_hash_bucket("word", 1000), kind="hash_bucket", buckets=1000)
number = define("number", fc.categorical_column_with_hash_bucket("number", 997, dtype=tf.int64), kind="hash_bucket",
                buckets=997, dtype="i64")
day = define("day", fc.categorical_column_with_identity("day", 7), kind="identity", buckets=7)
odd_day = define("odd_day", fc.categorical_column_with_identity("odd_day", 7, default_value=3), kind="identity", buckets=7,
                 default=3)
JOBS = ["w1", "bob", "水", "w7", "", "w30"]
job = define("job", fc.categorical_column_with_vocabulary_list("job", JOBS, num_oov_buckets=3), kind="vocabulary_list",
             words=JOBS, oov_buckets=3)
grade = define("grade", fc.categorical_column_with_vocabulary_list("grade", [5, -4, 0, 11, 7], dtype=tf.int64),
               kind="vocabulary_list", words=[5, -4, 0, 11, 7], dtype="i64")
vocabulary = args.folder / "cities.txt"
CITIES = ["bob", "Ärger", "w2", "w3", "george"]
vocabulary.write_text("\n".join(CITIES) + "\n")
city = define("city", fc.categorical_column_with_vocabulary_file("city", str(vocabulary), 4, default_value=2),
              kind="vocabulary_file", file="cities.txt", size=4, default=2)
tag = define("tag", fc.categorical_column_with_hash_bucket("tag", 50), kind="hash_bucket", buckets=50)
weighted = define("weighted", fc.weighted_categorical_column(tag, "tag_weight"), kind="weighted", source="tag",
                  weights="tag_weight")
seen = define("seen", fc.categorical_column_with_identity("seen", 30), kind="identity", buckets=30)
bought = define("bought", fc.categorical_column_with_identity("bought", 30), kind="identity", buckets=30)
categorical = dict(ages=ages, boxes=boxes, word=word, number=number, day=day, odd_day=odd_day, job=job, grade=grade,
                   city=city, tag=tag, weighted=weighted, seen=seen, bought=bought)

# Features are crossed as texts: of i64 ones a column is.
PARTS = ["word", "tag", ("ages", ages), ("boxes", boxes), ("day", day), ("odd_day", odd_day), ("job", job), ("grade", grade),
         ("city", city)]
crosses = {}
for i in range(args.crosses):
    parts = rng.sample(PARTS, rng.choice([2, 2, 2, 3]))
    buckets = rng.choice([10, 100, 1000, 10**6, 2**40])
    key = rng.choice([None, None, 5, rng.randrange(2**62)])
    fields = dict(kind="crossed", keys=[p if isinstance(p, str) else {"column": p[0]} for p in parts], buckets=buckets)
    if key is not None:
        fields["hash_key"] = key
    name = f"cross{i}"
    crosses[name] = define(name, fc.crossed_column([p if isinstance(p, str) else p[1] for p in parts], buckets,
                                                   hash_key=key), **fields)
small = define("small", fc.crossed_column(["word", ages], 20), kind="crossed", keys=["word", {"column": "ages"}], buckets=20)
categorical["small"] = small

COMBINERS = ["sum", "mean", "sqrtn"]
dense = {name: columns[name] for name in ("age", "box", "count", "income", "ages", "boxes")}
for name in ("word", "day", "job", "grade", "weighted", "small"):
    if categorical[name].num_buckets <= 60:
        column = fc.indicator_column(categorical[name])
        dense[f"{name}_indicator"] = define(f"{name}_indicator", column, kind="indicator", source=name)
embedded = {}
for i, name in enumerate(["ages", "boxes", "word", "number", "odd_day", "job", "grade", "city", "weighted", "small"]):
    for combiner in COMBINERS if name == "weighted" else [COMBINERS[i % 3]]:
        label = f"{name}_embedding" + (f"_{combiner}" if name == "weighted" else "")
        column = fc.embedding_column(categorical[name], 3, combiner=combiner)
        dense[label] = define(label, column, kind="embedding", source=name, dimension=3, combiner=combiner)
        embedded[label] = column
step = define("steps", fc.sequence_categorical_column_with_identity("steps", 12), kind="identity", buckets=12, sequence=True)
speed = define("speed", fc.sequence_numeric_column("speed", shape=(2,)), kind="numeric", shape=[2], sequence=True)
step_embedding = define("step_embedding", fc.embedding_column(step, 3), kind="embedding", source="steps", dimension=3)
step_counts = define("step_counts", fc.indicator_column(step), kind="indicator", source="steps")
toml.append('[columns.shared]\nkind = "shared_embedding"\nsources = ["seen", "bought"]\ndimension = 3\ncombiner = "sqrtn"\n')
shared = v1.feature_column.shared_embedding_columns([seen, bought], 3, combiner="sqrtn")

linear = {name: column for name, column in categorical.items() if name != "tag"}
del linear["seen"], linear["bought"]
linear.update({name: columns[name] for name in ("age", "box", "income")})
PART = lambda names: "[" + ", ".join(f'"{n}"' for n in names) + "]"
# One of the weighted column's embeddings is in the layer: they have one name.
layered = [n for n in dense if n not in ("weighted_embedding_sum", "weighted_embedding_mean")]
toml.append("[model]\n"
            f"ids = {PART(list(categorical) + list(crosses))}\n"
            f"dense = {PART(dense)}\n"
            f"layer = {PART(layered + ['shared'])}\n"
            f"linear = {PART(linear)}\n"
            f"sequence = {PART(['speed', 'step_counts', 'step_embedding'])}\n")
(args.folder / "columns.toml").write_text("\n".join(toml))

out = open(args.folder / "expected.txt", "w")
print("# made by columns_tf.py with TensorFlow", tf.__version__, file=out)


def show(name, values):
    values = np.asarray(values).flatten().tolist()
    print(name, " ".join(f"{v:.9g}" if isinstance(v, float) else str(v) for v in values), file=out)


everything = list(categorical.values()) + list(crosses.values()) + list(dense.values()) + [
    *shared, speed, step_embedding]
spec = fc.make_parse_example_spec([c for c in everything if c not in shared] + [seen, bought])
BATCH = 500


def features():
    return v1.io.parse_example(v1.placeholder(tf.string, [None], name="rows"), spec)


class Run:
    """A graph of its own, with rows to feed it with."""

    def __enter__(self):
        self.graph = tf.Graph()
        self.context = self.graph.as_default()
        self.context.__enter__()
        return self

    def __exit__(self, *_):
        self.context.__exit__(None, None, None)

    def start(self):
        self.session = v1.Session()
        self.session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        for variable in v1.trainable_variables():
            shape = variable.shape.as_list()
            if "embedding_weights" in variable.name:
                self.session.run(variable.assign(wave(shape, 2.0)))
            elif "linear_model" in variable.name:
                self.session.run(variable.assign(wave(shape, 3.0)))

    def batches(self, fetch):
        for first in range(0, len(rows), BATCH):
            yield first, self.session.run(fetch, {"rows:0": rows[first:first + BATCH]})


with Run() as run:
    from tensorflow.python.feature_column import feature_column_v2
    cache = feature_column_v2.FeatureTransformationCache(features())
    manager = feature_column_v2._StateManagerImpl(tf.keras.layers.Layer(), True)
    sparse = {}
    for name, column in {**categorical, **crosses}.items():
        column.create_state(manager)
        sparse[name] = column.get_sparse_tensors(cache, manager).id_tensor
    run.start()
    for first, found in run.batches(sparse):
        for number, tensor in enumerate(found.values()):
            of_row = {}
            for (at, *_), value in zip(tensor.indices.tolist(), tensor.values.tolist()):
                of_row.setdefault(at, []).append(value)
            for at in range(int(tensor.dense_shape[0])):
                show(f"ids {number} {first + at}", of_row.get(at, []))

for number, column in enumerate(dense.values()):
    with Run() as run:
        layer = v1.feature_column.input_layer(features(), [column])
        run.start()
        for first, found in run.batches(layer):
            for at, values in enumerate(found):
                show(f"dense {number} {first + at}", values)

with Run() as run:
    model = v1.feature_column.linear_model(features(), list(linear.values()), units=2)
    run.start()
    for first, found in run.batches(model):
        for at, values in enumerate(found):
            show(f"linear {first + at}", values)

with Run() as run:
    from tensorflow.python.feature_column import sequence_feature_column
    parsed = features()
    cache = feature_column_v2.FeatureTransformationCache(parsed)
    from tensorflow.python.keras.engine import base_layer_v1
    holder = base_layer_v1.Layer()
    manager = feature_column_v2._StateManagerImpl(holder, True)
    pairs = []
    for column in (speed, step_embedding, step_counts):
        if hasattr(column, "create_state"):
            column.create_state(manager)
        pairs.append(column.get_sequence_dense_tensor(cache, manager))
    # Sorted by name: speed, steps_embedding, steps_indicator.
    run.start()
    for first, found in run.batches([[p.dense_tensor, p.sequence_length] for p in pairs]):
        for at in range(len(found[0][1])):
            length = int(found[0][1][at])
            show(f"steps {first + at}", [length])
            values = np.concatenate([f[0][at, :length].reshape(length, f[0].shape[-1]) for f in found], axis=1)
            show(f"sequence {first + at}", values)

LAYERED = [dense[n] for n in layered] + list(shared)
# Rates are such that rounding does not grow. TensorFlow's epsilon is not Kingma and Ba's, but that by sqrt(1 - 0.999^t): one that counts for nothing is the same.
RULES = {"adam": lambda: v1.train.AdamOptimizer(0.01, epsilon=1e-15), "momentum": lambda: v1.train.MomentumOptimizer(0.001, 0.9)}
few = rows[:64]
for rule, make in RULES.items():
    with Run() as run:
        layer = v1.feature_column.input_layer(features(), LAYERED)
        factors = v1.placeholder(tf.float32, [None, None], name="factors")
        # Not linear, so that a step depends on those before it.
        loss = tf.reduce_sum(tf.sin(layer) * factors) / tf.cast(tf.shape(layer)[0], tf.float32)
        tables = v1.trainable_variables()
        gradients = tf.gradients(tf.reduce_sum(layer * factors), tables)
        update = make().minimize(loss)
        run.start()
        feed = {"rows:0": few, "factors:0": wave((len(few), int(layer.shape[1])), 4.0)}
        if rule == "adam":
            show("layer", [int(layer.shape[1])])
            for variable, gradient in zip(tables, gradients):
                name = variable.name.split("/")[-2]
                whole = run.session.run(tf.convert_to_tensor(gradient), feed)
                for at in np.nonzero(np.any(whole != 0, axis=1))[0]:
                    show(f"gradient {name} {at}", whole[at])
        for i in range(50):
            part = [few[(8 * i + k) % len(few)] for k in range(8)]
            run.session.run(update, {"rows:0": part, "factors:0": wave((8, int(layer.shape[1])), 4.0 + i)})
        for variable in tables:
            name = variable.name.split("/")[-2]
            for at, values in enumerate(run.session.run(variable)):
                # An example without ids has TensorFlow look up row 0, and forget that: its momentum continues then.
                if rule == "momentum" and at == 0:
                    continue
                if len(variable.shape) == 2 and (variable.shape[0] <= 60 or at % 97 == 0):
                    show(f"trained {rule} {name} {at}", values)
out.close()
