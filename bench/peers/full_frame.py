"""Whole photographs of several megapixels resized to 224x224 u8: full_frame.py PEER FOLDER [--batch N] [--epochs N].

Each decodes at a smaller scale where it can: tf.data's `ratio` must be chosen before the size is known, so its sizes are
read first, as its documentation has it.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import images
import measure

SIZE = images.SIZE


def tf_data(args):
    import tensorflow as tf

    def decode(data, ratio):
        return tf.cast(tf.io.decode_jpeg(data, channels=3, ratio=ratio), tf.float32)

    def load(path):
        data = tf.io.read_file(path)
        shape = tf.image.extract_jpeg_shape(data)
        room = tf.minimum(shape[0], shape[1]) // SIZE
        image = tf.case([(room >= 8, lambda: decode(data, 8)), (room >= 4, lambda: decode(data, 4)),
                         (room >= 2, lambda: decode(data, 2))], default=lambda: decode(data, 1))
        image.set_shape([None, None, 3])
        return tf.cast(tf.image.resize(image, (SIZE, SIZE), antialias=True), tf.uint8)

    options = tf.data.Options()
    options.threading.private_threadpool_size = args.threads
    names = images.files(args.path)
    data = (tf.data.Dataset.from_tensor_slices(names).shuffle(len(names), seed=7)
            .map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(args.batch)
            .prefetch(tf.data.AUTOTUNE).with_options(options))

    def batches():
        for _ in range(args.epochs):
            for batch in data:
                yield batch.shape[0]

    return batches


def torch_vision(args):
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg, read_file
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    names = images.files(args.path)
    resize = v2.Resize((SIZE, SIZE), antialias=True)

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return len(names)

        def __getitem__(self, i):
            return resize(decode_jpeg(read_file(names[i]), mode=ImageReadMode.RGB))

    loader = torch.utils.data.DataLoader(Images(), args.batch, shuffle=True,
                                         num_workers=0 if args.threads == 1 else args.threads)

    def batches():
        for _ in range(args.epochs):
            for batch in loader:
                yield batch.shape[0]

    return batches


def dali(args):
    from nvidia.dali import fn, pipeline_def, types

    names = images.files(args.path)

    @pipeline_def(batch_size=args.batch, num_threads=args.threads, device_id=None, seed=7)
    def pipeline():
        data, _ = fn.readers.file(files=names, random_shuffle=True, pad_last_batch=False)
        return fn.resize(fn.decoders.image(data, device="cpu", output_type=types.RGB), size=[SIZE, SIZE],
                         antialias=True)

    def batches():
        pipe = pipeline()
        pipe.build()
        left = len(names) * args.epochs
        while left > 0:
            (out,) = pipe.run()
            count = min(left, len(out))
            left -= count
            yield count

    return batches


def mlx_data(args):
    import mlx.data as dx

    names = images.files(args.path)

    def batches():
        for _ in range(args.epochs):
            stream = (dx.buffer_from_vector([{"file": name.encode()} for name in names]).shuffle().to_stream()
                      .load_image("file", output_key="image").image_resize("image", SIZE, SIZE).batch(args.batch)
                      .prefetch(2, args.threads))
            for batch in stream:
                yield batch["image"].shape[0]

    return batches


def spdl(args):
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    names = images.files(args.path)

    def decode(paths):
        frames = [spdl.io.decode_packets(spdl.io.demux_image(path),
                                         filter_desc=f"scale={SIZE}:{SIZE},format=pix_fmts=rgb24") for path in paths]
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    def batches():
        for _ in range(args.epochs):
            pipeline = (PipelineBuilder().add_source(names).aggregate(args.batch)
                        .pipe(decode, concurrency=args.threads).add_sink(3).build(num_threads=args.threads))
            with pipeline.auto_stop():
                for batch in pipeline:
                    yield batch.shape[0]

    return batches


PEERS = {"tf.data": tf_data, "torchvision": torch_vision, "DALI": dali, "mlx-data": mlx_data, "SPDL": spdl}

if __name__ == "__main__":
    chosen = measure.arguments(PEERS)
    measure.report(chosen.peer, PEERS[chosen.peer](chosen))
