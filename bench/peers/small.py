"""An element of almost no work: small.py PEER COUNT [--batch N]: range, identity, batch."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import measure


def tf_data(args, called=False):
    """Its optimiser knows an identity and removes it, so it does less; unless `called`, when its executor runs the
    compiled function for each element."""
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.experimental_optimization.noop_elimination = not called
    data = tf.data.Dataset.range(int(args.path)).map(lambda x: x).batch(args.batch).with_options(options)

    def batches():
        for batch in data:
            yield batch.shape[0]

    return batches


def mlx_data(args):
    import mlx.data as dx
    import numpy

    # Samples are made beforehand and no function is called on them, so it does less.
    buffer = dx.buffer_from_vector([{"x": numpy.int64(i)} for i in range(min(int(args.path), 1_000_000))])

    def batches():
        for batch in buffer.to_stream().batch(args.batch):
            yield batch["x"].shape[0]

    return batches


PEERS = {"tf.data": tf_data, "tf.data, called": lambda args: tf_data(args, called=True), "mlx-data": mlx_data}

if __name__ == "__main__":
    chosen = measure.arguments(PEERS)
    measure.report(chosen.peer, PEERS[chosen.peer](chosen))
