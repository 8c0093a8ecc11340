"""TFRecords, checked and batched as bytes: records.py PEER FILE [--batch N]."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import measure


def tf_data(args):
    import tensorflow as tf

    data = (tf.data.TFRecordDataset(args.path, buffer_size=8 << 20).batch(args.batch)
            .prefetch(tf.data.AUTOTUNE))

    def batches():
        for batch in data:
            yield batch.shape[0]

    return batches


PEERS = {"tf.data": tf_data}

if __name__ == "__main__":
    chosen = measure.arguments(PEERS)
    measure.report(chosen.peer, PEERS[chosen.peer](chosen))
