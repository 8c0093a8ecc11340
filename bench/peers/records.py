"""Records batched as bytes, those of TFRecords checked: records.py PEER FILE [--batch N]."""

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


def mlx_tar(args):
    import mlx.data as dx

    # It pads what it batches, so it delivers single files.
    names = dx.files_from_tar(args.path)
    stream = names.to_stream().read_from_tar(args.path, "file", "data").prefetch(4, args.threads)

    def batches():
        for _ in stream:
            yield 1

    return batches


PEERS = {"tf.data": tf_data, "mlx-data, tar": mlx_tar}

if __name__ == "__main__":
    chosen = measure.arguments(PEERS)
    measure.report(chosen.peer, PEERS[chosen.peer](chosen))
