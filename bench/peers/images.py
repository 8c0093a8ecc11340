"""Shuffle, decode, random-resized-crop 224, flip, normalise to f32 CHW, batch: images.py PEER FOLDER [--threads N].

Each as its own documentation advises for a machine of so many cores. mlx-data and SPDL deliver u8 HWC, because they have
no normalisation of their own on the CPU: so they do less. FFCV reads a file of its own format (write_beton.py) instead of
a folder; its rates count from the second batch on, because it compiles for seconds before the first.
"""

import os
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import measure

SIZE = 224
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)


def files(folder):
    found = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names
             if name.lower().endswith((".jpg", ".jpeg"))]
    return sorted(found)


def choose_crop(height, width, rng):
    """Torchvision's distribution: scale 0.08 to 1, ratio 3/4 to 4/3, ten tries, then a centre crop."""
    for _ in range(10):
        area = height * width * rng.uniform(0.08, 1.0)
        ratio = 2.718281828459045 ** rng.uniform(-0.2876820724, 0.2876820724)
        w, h = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            return rng.randint(0, height - h), rng.randint(0, width - w), h, w
    side = min(height, width)
    return (height - side) // 2, (width - side) // 2, side, side


def tf_data(args):
    import tensorflow as tf
    mean = tf.constant(MEAN) * 255
    deviation = tf.constant(DEVIATION) * 255
    names = files(args.path)

    def load(path):
        data = tf.io.read_file(path)
        shape = tf.image.extract_jpeg_shape(data)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            shape, tf.zeros([1, 0, 4]), min_object_covered=0, aspect_ratio_range=(3 / 4, 4 / 3),
            area_range=(0.08, 1.0), max_attempts=10, use_image_if_no_bounding_boxes=True)
        image = tf.image.decode_and_crop_jpeg(
            data, tf.stack([begin[0], begin[1], size[0], size[1]]), channels=3)
        image = tf.image.random_flip_left_right(tf.image.resize(image, (SIZE, SIZE)))
        return tf.transpose((image - mean) / deviation, (2, 0, 1))

    options = tf.data.Options()
    options.threading.private_threadpool_size = args.threads
    options.deterministic = True
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
    transform = v2.Compose([
        v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)])

    class Images(torch.utils.data.Dataset):
        def __init__(self):
            self.names = files(args.path)

        def __len__(self):
            return len(self.names)

        def __getitem__(self, i):
            return transform(decode_jpeg(read_file(self.names[i]), mode=ImageReadMode.RGB))

    workers = 0 if args.threads == 1 else args.threads
    loader = torch.utils.data.DataLoader(Images(), args.batch, shuffle=True, num_workers=workers,
                                         persistent_workers=workers > 0)

    def batches():
        for _ in range(args.epochs):
            for batch in loader:
                yield batch.shape[0]

    return batches


def dali(args):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=args.batch, num_threads=args.threads, device_id=None, seed=7)
    def pipeline():
        data, _ = fn.readers.file(files=files(args.path), random_shuffle=True, name="files",
                                  pad_last_batch=False)
        image = fn.decoders.image_random_crop(data, device="cpu", output_type=types.RGB,
                                              random_aspect_ratio=[3 / 4, 4 / 3],
                                              random_area=[0.08, 1.0])
        image = fn.resize(image, size=[SIZE, SIZE], antialias=True)
        return fn.crop_mirror_normalize(
            image, dtype=types.FLOAT, output_layout="CHW", mean=[255 * m for m in MEAN],
            std=[255 * d for d in DEVIATION], mirror=fn.random.coin_flip())

    def batches():
        pipe = pipeline()
        pipe.build()
        left = len(files(args.path)) * args.epochs
        while left > 0:
            (out,) = pipe.run()
            count = min(left, len(out))
            left -= count
            yield count

    return batches


def mlx_data(args):
    import mlx.data as dx

    names = files(args.path)

    def batches():
        for _ in range(args.epochs):
            stream = (dx.buffer_from_vector([{"file": name.encode()} for name in names]).shuffle()
                      .to_stream().load_image("file", output_key="image")
                      .image_random_area_crop("image", (0.08, 1.0), (3 / 4, 4 / 3))
                      .image_resize("image", SIZE, SIZE).image_random_h_flip("image", 0.5)
                      .batch(args.batch).prefetch(4, args.threads))
            for batch in stream:
                yield batch["image"].shape[0]

    return batches


def spdl(args):
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    names = files(args.path)
    rng = random.Random(7)

    def decode(paths):
        frames = []
        for path in paths:
            packets = spdl.io.demux_image(path)
            codec = packets.codec
            top, left, height, width = choose_crop(codec.height, codec.width, rng)
            flip = ",hflip" if rng.random() < 0.5 else ""
            frames.append(spdl.io.decode_packets(
                packets, filter_desc=f"crop={width}:{height}:{left}:{top},scale={SIZE}:{SIZE}"
                                     f"{flip},format=pix_fmts=rgb24"))
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    def batches():
        for _ in range(args.epochs):
            order = rng.sample(names, len(names))
            pipeline = (PipelineBuilder().add_source(order).aggregate(args.batch)
                        .pipe(decode, concurrency=args.threads).add_sink(3)
                        .build(num_threads=args.threads))
            with pipeline.auto_stop():
                for batch in pipeline:
                    yield batch.shape[0]

    return batches


def ffcv(args):
    import numpy
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage

    mean, deviation = (255 * numpy.array(values) for values in (MEAN, DEVIATION))
    loader = Loader(args.path, batch_size=args.batch, num_workers=args.threads, order=OrderOption.RANDOM, seed=7,
                    os_cache=True, drop_last=False, pipelines={
                        "label": None,
                        "image": [RandomResizedCropRGBImageDecoder((SIZE, SIZE)), RandomHorizontalFlip(),
                                  NormalizeImage(mean, deviation, numpy.float32), ToTensor(), ToTorchImage()]})

    def batches():
        for _ in range(args.epochs):
            for (batch,) in loader:
                yield batch.shape[0]

    return batches


def penstock(args):
    """Ours, from Python: what the module costs beside the program. `--simd AVX2` limits its instructions."""
    import penstock as ps
    import penstock.torch

    if args.simd:  # the setting of a pipeline's [run] holds for the process
        ps.parse_pipeline(f'[source]\nkind = "range"\nstop = 1\n[run]\nsimd = "{args.simd}"')
    chain = ps.decode_image().random_resized_crop(SIZE).random_flip().normalize()
    dataset = ps.images(args.path).shuffle().map(chain).batch(args.batch)

    def batches():
        for batch in dataset.iterate(epochs=args.epochs, threads=args.threads):
            yield len(penstock.torch.tensor(batch["image"]))

    return batches


PEERS = {"tf.data": tf_data, "torchvision": torch_vision, "DALI": dali, "mlx-data": mlx_data,
         "SPDL": spdl, "FFCV": ffcv, "Penstock": penstock}

if __name__ == "__main__":
    chosen = measure.arguments(PEERS, simd="")
    measure.report(chosen.peer, PEERS[chosen.peer](chosen), chosen.step_ms, chosen.peer == "FFCV")
