"""Decode and batch, nothing else: decode.py PEER FOLDER [--batch N]. For images of one size."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import images
import measure


def tf_data(args):
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = args.threads
    data = (tf.data.Dataset.from_tensor_slices(images.files(args.path))
            .map(lambda path: tf.io.decode_jpeg(tf.io.read_file(path), channels=3),
                 num_parallel_calls=tf.data.AUTOTUNE)
            .batch(args.batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
            .with_options(options))

    def batches():
        for batch in data:
            yield batch.shape[0]

    return batches


def dali(args):
    from nvidia.dali import fn, pipeline_def, types

    names = images.files(args.path)

    @pipeline_def(batch_size=args.batch, num_threads=args.threads, device_id=None)
    def pipeline():
        data, _ = fn.readers.file(files=names, pad_last_batch=False)
        return fn.decoders.image(data, device="cpu", output_type=types.RGB)

    def batches():
        pipe = pipeline()
        pipe.build()
        left = len(names)
        while left > 0:
            (out,) = pipe.run()
            count = min(left, len(out))
            left -= count
            yield count

    return batches


def mlx_data(args):
    import mlx.data as dx

    def batches():
        stream = (dx.buffer_from_vector([{"file": name.encode()} for name in images.files(args.path)]).to_stream()
                  .load_image("file", output_key="image").batch(args.batch).prefetch(4, args.threads))
        for batch in stream:
            yield batch["image"].shape[0]

    return batches


PEERS = {"tf.data": tf_data, "DALI": dali, "mlx-data": mlx_data}

if __name__ == "__main__":
    chosen = measure.arguments(PEERS)
    measure.report(chosen.peer, PEERS[chosen.peer](chosen))
