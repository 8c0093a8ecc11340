"""tf.data service: decode, random-resized-crop 224, flip to u8 HWC, in batches, made by worker processes.

    served_images.py dispatch                       prints its address
    served_images.py work DISPATCHER                says when it is ready
    served_images.py local FOLDER BATCH EPOCHS [normalize]      no service: the rate to hold it against
    served_images.py train FOLDER BATCH EPOCHS DISPATCHER [normalize]
    served_images.py count FOLDER BATCH DISPATCHER  numbers of images, each handed to one worker, once

`local` and `train` print a JSON line: images, seconds from the first batch to the last, CPU seconds of this process.
`count` prints after each batch how many different ones have come, then a JSON line of what was missing and what came twice.
Servers end with their standard input.
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

from images import files

SIZE = 224


def load(path):
    data = tf.io.read_file(path)
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.image.extract_jpeg_shape(data), tf.zeros([1, 0, 4]), min_object_covered=0, aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(0.08, 1.0), max_attempts=10, use_image_if_no_bounding_boxes=True)
    image = tf.image.decode_and_crop_jpeg(data, tf.stack([begin[0], begin[1], size[0], size[1]]), channels=3)
    image = tf.image.random_flip_left_right(tf.image.resize(image, (SIZE, SIZE)))
    return tf.cast(tf.clip_by_value(tf.round(image), 0, 255), tf.uint8)


def normalized(image):
    return (tf.cast(image, tf.float32) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]


def distributed(data, dispatcher, policy):
    return data.apply(tf.data.experimental.service.distribute(processing_mode=policy,
                                                              service="grpc://" + dispatcher))


def train(folder, batch, epochs, dispatcher=None, floats=False):
    names = files(folder)
    data = (tf.data.Dataset.from_tensor_slices(names).shuffle(len(names), seed=7)
            .map((lambda path: normalized(load(path))) if floats else load, num_parallel_calls=tf.data.AUTOTUNE)
            .batch(batch))
    if dispatcher:
        data = distributed(data, dispatcher, tf.data.experimental.service.ShardingPolicy.OFF)
    data = data.prefetch(tf.data.AUTOTUNE)
    images, begin, cpu = 0, 0.0, 0.0
    for epoch in range(epochs + 1):
        if epoch == 1:  # the first one finds files in the page cache, and threads that run
            begin, cpu = time.perf_counter(), time.process_time()
        for one in data:
            images += one.shape[0] if epoch else 0
    print(json.dumps({"images": images, "seconds": time.perf_counter() - begin, "cpu": time.process_time() - cpu}))


def count(folder, batch, dispatcher):
    names = tf.constant(files(folder))
    total = 10 * len(names)

    def number(x):
        return x + tf.cast(load(names[x % len(names)])[0, 0, 0] // 255, tf.int64) * 0

    data = tf.data.Dataset.range(total).map(number, num_parallel_calls=tf.data.AUTOTUNE).batch(batch)
    data = distributed(data, dispatcher, tf.data.experimental.service.ShardingPolicy.DYNAMIC)
    seen = [0] * total
    for one in data:
        for x in one.numpy():
            seen[x] += 1
        print(total - seen.count(0), flush=True)
    print(json.dumps({"of": total, "missing": seen.count(0), "repeated": sum(n > 1 for n in seen)}))


def main(what, *rest):
    service = tf.data.experimental.service
    if what == "dispatch":
        server = service.DispatchServer(service.DispatcherConfig(port=0, fault_tolerant_mode=False))
        print(server.target.split("//")[1], flush=True)
        sys.stdin.read()
    elif what == "work":
        worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=rest[0], port=0, heartbeat_interval_ms=100,
                                                           dispatcher_timeout_ms=10_000))
        print("ready", flush=True)
        sys.stdin.read()
        del worker
    elif what == "local":
        train(rest[0], int(rest[1]), int(rest[2]), floats=rest[3:] == ("normalize",))
    elif what == "train":
        train(rest[0], int(rest[1]), int(rest[2]), rest[3], rest[4:] == ("normalize",))
    else:
        count(rest[0], int(rest[1]), rest[2])


main(*sys.argv[1:])
