"""Wide and deep on a table whose answer is known, and what the input of one costs, with TensorFlow 2.21.

  columns.py make FOLDER [--rows N] [--seed S]    the table: train and test as .csv and .tfrecord, the columns of each as
                                                  csv.toml (which has no tags) and tfrecord.toml, and best.txt
  columns.py train FOLDER [--seed S]              TensorFlow's columns and the same network; prints its AUC of test.csv
  columns.py auc FOLDER VARIABLES                 the AUC of what `penstock train --export` wrote, computed with numpy
                                                  by way of TensorFlow's columns
  columns.py read csv|tfrecord FOLDER             rows/s of TensorFlow's input on one core: make_csv_dataset, or
                                                  parse_example, and the ids and numbers of all columns; ours:
                                                  penstock_columns_bench FOLDER/csv.toml FOLDER/train.csv

The table: age, hours (numbers, of which 5 % are missing), job (30 words, skewed), city (200), day (0 to 6), tags (up to 4
of 40 words). A row is yes with the probability 1 / (1 + exp(-logit)), and the logit is a function of the age, of job and
day together, and of the tags; so the best AUC that anybody can have of the test rows is known, and in best.txt.
"""
import argparse
import json
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("what", choices=["make", "train", "auc", "read"])
parser.add_argument("arguments", nargs="+")
parser.add_argument("--rows", type=int, default=200_000)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--batch", type=int, default=500)
parser.add_argument("--seconds", type=float, default=5)
args = parser.parse_args()

JOBS = [f"job{i}" for i in range(30)]
BOUNDS = [18, 25, 30, 35, 40, 45, 50, 55, 60, 65]


def auc(labels, scores):
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    # Equal scores share their ranks.
    _, which, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.bincount(which, ranks)[which] / counts[which]
    positive = labels == 1
    count = positive.sum()
    return (ranks[positive].sum() - count * (count + 1) / 2) / (count * (len(labels) - count))


def table(count, rng):
    age = rng.uniform(16, 90, count)
    hours = rng.normal(38, 9, count)
    job = np.minimum(rng.geometric(0.12, count) - 1, 29)
    city = rng.integers(0, 200, count)
    day = rng.integers(0, 7, count)
    tags = [rng.integers(0, 40, n) for n in rng.integers(0, 5, count)]
    fixed = np.random.default_rng(1234)  # the answer is one of all tables
    together = fixed.normal(0, 1.2, (30, 7))
    of_tag = fixed.normal(0, 0.6, 40)
    of_city = fixed.normal(0, 0.3, 200)
    logit = 1.5 * np.sin(age / 9) + 0.03 * (hours - 38) + together[job, day] + of_city[city]
    logit += np.array([of_tag[t].sum() for t in tags])
    label = (rng.uniform(size=count) < 1 / (1 + np.exp(-logit))).astype(int)
    missing = rng.uniform(size=count) < 0.05
    return dict(age=age, hours=np.where(missing, np.nan, hours), job=job, city=city, day=day, tags=tags, label=label,
                logit=logit)


COLUMNS = """
[label]
key = "label"

[columns.age]
kind = "numeric"
subtract = 50.0
divide = 20.0
[columns.age_buckets]
kind = "bucketized"
source = "raw_age"
boundaries = [18, 25, 30, 35, 40, 45, 50, 55, 60, 65]
[columns.raw_age]
kind = "numeric"
key = "age"
[columns.hours]
kind = "numeric"
default = 38.0
subtract = 38.0
divide = 9.0
[columns.job]
kind = "vocabulary_list"
words = [WORDS]
VALUES
[columns.city]
kind = "hash_bucket"
buckets = 1000
VALUES
[columns.day]
kind = "identity"
buckets = 7
VALUES
[columns.job_x_day]
kind = "crossed"
keys = [{column = "job"}, {column = "day"}]
buckets = 1000
[columns.job_embedding]
kind = "embedding"
source = "job"
dimension = 8
[columns.city_embedding]
kind = "embedding"
source = "city"
dimension = 8
[columns.day_indicator]
kind = "indicator"
source = "day"
TAGS
[model]
wide = ["age_buckets", "job", "city", "day", "job_x_day"TAG]
deep = ["age", "hours", "job_embedding", "city_embedding", "day_indicator"TAG_EMBEDDING]
hidden = [64, 32]
"""
TAGS = """[columns.tags]
kind = "hash_bucket"
buckets = 100
[columns.tags_embedding]
kind = "embedding"
source = "tags"
dimension = 8
combiner = "sqrtn"
"""


def columns_toml(with_tags):
    text = COLUMNS.replace("WORDS", ", ".join(f'"{j}"' for j in JOBS))
    text = text.replace("VALUES", "" if with_tags else "values = 1")
    text = text.replace("TAGS", TAGS if with_tags else "").replace("TAG_EMBEDDING", ', "tags_embedding"' if with_tags else "")
    return text.replace("TAG", ', "tags"' if with_tags else "")


def make(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(100 + args.seed)
    import tensorflow as tf
    for name, count in (("train", args.rows), ("test", args.rows // 4)):
        rows = table(count, rng)
        if name == "test":
            (folder / "best.txt").write_text(f"{auc(rows['label'], rows['logit'])}\n")
        with open(folder / f"{name}.csv", "w") as out, tf.io.TFRecordWriter(str(folder / f"{name}.tfrecord")) as records:
            print("age,hours,job,city,day,label", file=out)
            for i in range(count):
                age, hours, day = rows["age"][i], rows["hours"][i], int(rows["day"][i])
                job, city, label = JOBS[rows["job"][i]], f"city{rows['city'][i]}", int(rows["label"][i])
                shown = "" if np.isnan(hours) else f"{hours:.2f}"
                print(f"{age:.2f},{shown},{job},{city},{day},{label}", file=out)
                feature = {
                    "age": tf.train.Feature(float_list=tf.train.FloatList(value=[age])),
                    "job": tf.train.Feature(bytes_list=tf.train.BytesList(value=[job.encode()])),
                    "city": tf.train.Feature(bytes_list=tf.train.BytesList(value=[city.encode()])),
                    "day": tf.train.Feature(int64_list=tf.train.Int64List(value=[day])),
                    "tags": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"tag%d" % t for t in rows["tags"][i]])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                if not np.isnan(hours):
                    feature["hours"] = tf.train.Feature(float_list=tf.train.FloatList(value=[hours]))
                records.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    (folder / "csv.toml").write_text(columns_toml(False))
    (folder / "tfrecord.toml").write_text(columns_toml(True))


def tf_columns(with_tags):
    import tensorflow as tf
    fc = tf.feature_column
    age = fc.numeric_column("age", normalizer_fn=lambda x: (x - 50) / 20)
    buckets = fc.bucketized_column(fc.numeric_column("age"), BOUNDS)
    hours = fc.numeric_column("hours", default_value=38.0, normalizer_fn=lambda x: (x - 38) / 9)
    job = fc.categorical_column_with_vocabulary_list("job", JOBS)
    city = fc.categorical_column_with_hash_bucket("city", 1000)
    day = fc.categorical_column_with_identity("day", 7)
    cross = fc.crossed_column([job, day], 1000)
    wide = [buckets, job, city, day, cross]
    deep = [age, hours, fc.embedding_column(job, 8), fc.embedding_column(city, 8), fc.indicator_column(day)]
    if with_tags:
        tags = fc.categorical_column_with_hash_bucket("tags", 100)
        wide.append(tags)
        deep.append(fc.embedding_column(tags, 8, combiner="sqrtn"))
    return wide, deep


def spec_of(wide, deep):
    import tensorflow as tf
    spec = tf.feature_column.make_parse_example_spec(wide + deep)
    return {**spec, "label": tf.io.FixedLenFeature([], tf.int64)}


def one_core():
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def network(wide, deep, features):
    import tensorflow as tf
    v1 = tf.compat.v1
    layer = v1.feature_column.input_layer(features, deep)

    def dense(x, units, initializer):
        weights = tf.Variable(initializer([int(x.shape[1]), units]))
        return x @ weights + tf.Variable(tf.zeros([units]))

    for units in (64, 32):
        layer = tf.nn.relu(dense(layer, units, tf.keras.initializers.HeNormal()))
    logits = dense(layer, 1, tf.keras.initializers.GlorotUniform())
    return tf.squeeze(logits + v1.feature_column.linear_model(features, wide), 1)


def train(folder):
    """Prints the AUC of the test rows, and how long an epoch took."""
    import tensorflow as tf
    one_core()
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    v1.set_random_seed(args.seed)
    wide, deep = tf_columns(True)
    def read(name):
        return [record for record in v1.io.tf_record_iterator(str(pathlib.Path(folder) / f"{name}.tfrecord"))]

    serialized = v1.placeholder(tf.string, [None])
    features = v1.io.parse_example(serialized, spec_of(wide, deep))
    labels = features.pop("label")
    logits = network(wide, deep, features)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.cast(labels, tf.float32), logits=logits))
    update = v1.train.AdamOptimizer(0.001).minimize(loss)
    rows, test = read("train"), read("test")
    rng = np.random.default_rng(args.seed)
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        began = time.perf_counter()
        for _ in range(args.epochs):
            order = rng.permutation(len(rows))
            for first in range(0, len(rows) - args.batch + 1, args.batch):
                session.run(update, {serialized: [rows[i] for i in order[first:first + args.batch]]})
        seconds = time.perf_counter() - began
        found = [session.run([labels, logits], {serialized: test[first:first + 5000]}) for first in range(0, len(test), 5000)]
    answer = np.concatenate([f[0] for f in found])
    scores = np.concatenate([f[1] for f in found])
    print(json.dumps({"auc": auc(answer, scores), "rows_per_second": args.epochs * len(rows) / seconds}))


def of_variables(folder, path):
    """The AUC of variables that Penstock wrote, of the columns and the network that TensorFlow has."""
    import struct
    import tensorflow as tf
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    data = pathlib.Path(path).read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    values = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            values[name] = np.frombuffer(data[8 + size + begin:8 + size + end], np.float32).reshape(entry["shape"])
    wide, deep = tf_columns(True)
    serialized = v1.placeholder(tf.string, [None])
    features = v1.io.parse_example(serialized, spec_of(wide, deep))
    labels = features.pop("label")
    layer = v1.feature_column.input_layer(features, deep)
    for name in ("hidden1", "hidden2", "logits"):
        layer = layer @ values[f"dnn/{name}/weights"].T + values[f"dnn/{name}/biases"]
        layer = layer if name == "logits" else tf.nn.relu(layer)
    logits = tf.squeeze(layer + v1.feature_column.linear_model(features, wide), 1)
    test = list(v1.io.tf_record_iterator(str(pathlib.Path(folder) / "test.tfrecord")))
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        for variable in v1.trainable_variables():
            variable.load(values[variable.name.split(":")[0]], session)
        found = [session.run([labels, logits], {serialized: test[first:first + 5000]}) for first in range(0, len(test), 5000)]
    print(json.dumps({"auc": auc(np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found]))}))


def read_rate(kind, folder):
    """Rows/s, of one core, of features read, parsed and made ids and numbers; nothing is looked up or computed."""
    import tensorflow as tf
    from tensorflow.python.feature_column import feature_column_v2
    one_core()
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    wide, deep = tf_columns(kind == "tfrecord")
    path = str(pathlib.Path(folder) / f"train.{kind}")
    if kind == "csv":
        data = tf.data.experimental.make_csv_dataset(
            path, args.batch, label_name="label", num_epochs=None, shuffle=False, num_parallel_reads=1, prefetch_buffer_size=1,
            column_defaults=[tf.float32, tf.constant([38.0]), tf.string, tf.string, tf.int64, tf.int64])
    else:
        spec = spec_of(wide, deep)
        data = tf.data.TFRecordDataset(path).repeat().batch(args.batch).map(lambda r: tf.io.parse_example(r, spec)).prefetch(1)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    features = v1.data.make_one_shot_iterator(data.with_options(options)).get_next()
    features = dict(features[0] if kind == "csv" else features)
    label = features.pop("label", None)
    cache = feature_column_v2.FeatureTransformationCache(features)
    manager = feature_column_v2._StateManagerImpl(tf.keras.layers.Layer(), True)
    fetched = [label] if label is not None else []
    for column in wide + deep:
        if hasattr(column, "get_sparse_tensors"):
            fetched.append(column.get_sparse_tensors(cache, manager).id_tensor)
        elif hasattr(column, "categorical_column"):
            fetched.append(column.categorical_column.get_sparse_tensors(cache, manager).id_tensor)
        else:
            fetched.append(cache.get(column, manager))
    fetched = [tf.group(*[t.op if isinstance(t, tf.Tensor) else t.values.op for t in fetched])]
    with v1.Session(config=v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)) as session:
        session.run(v1.tables_initializer())
        for _ in range(5):
            session.run(fetched)
        began, used, batches = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - began < args.seconds:
            session.run(fetched)
            batches += 1
        seconds = time.perf_counter() - began
        cpu = time.process_time() - used
    print(json.dumps({"rows_per_second": batches * args.batch / seconds, "rows_per_cpu_second": batches * args.batch / cpu}))


if args.what == "make":
    make(*args.arguments)
elif args.what == "train":
    train(*args.arguments)
elif args.what == "auc":
    of_variables(*args.arguments)
else:
    read_rate(*args.arguments)
