"""One task of TensorFlow's ParameterServerStrategy on the CIFAR-10 network, whose batch stays in memory;
bench/served.py starts them.

    served_steps.py ROLE INDEX CLUSTER BATCH < commands

ROLE is chief, worker or ps, CLUSTER is TF_CONFIG's in JSON. The chief's command is a number of steps of all workers;
it answers the seconds that they took. Each task computes on one thread.
"""

import json
import os
import sys
import time

ROLE, INDEX, CLUSTER, BATCH = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4])
os.environ["TF_CONFIG"] = json.dumps({"cluster": CLUSTER, "task": {"type": ROLE, "index": INDEX}})
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["GRPC_VERBOSITY"] = "NONE"

import tensorflow as tf  # noqa: E402  (reads the variables above)

DECAY = 0.002


def made_variables():
    shapes = [(5, 5, 3, 64), (64,), (5, 5, 64, 64), (64,), (2304, 384), (384,), (384, 192), (192,), (192, 10), (10,)]
    return [tf.Variable(tf.random.truncated_normal(shape, stddev=0.05) if len(shape) > 1 else tf.zeros(shape))
            for shape in shapes]


def loss_of(variables, images, labels):
    conv1, bias1, conv2, bias2, local3, bias3, local4, bias4, softmax, bias5 = variables
    y = tf.nn.relu(tf.nn.conv2d(images, conv1, 1, "SAME") + bias1)
    y = tf.nn.lrn(tf.nn.max_pool2d(y, 3, 2, "SAME"), 4, bias=1.0, alpha=0.001 / 9, beta=0.75)
    y = tf.nn.relu(tf.nn.conv2d(y, conv2, 1, "SAME") + bias2)
    y = tf.nn.max_pool2d(tf.nn.lrn(y, 4, bias=1.0, alpha=0.001 / 9, beta=0.75), 3, 2, "SAME")
    y = tf.nn.relu(tf.reshape(y, [-1, 2304]) @ local3 + bias3)
    y = tf.nn.relu(y @ local4 + bias4) @ softmax + bias5
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, y))
    return loss + DECAY * (tf.nn.l2_loss(local3) + tf.nn.l2_loss(local4))


def main():
    tf.config.threading.set_intra_op_parallelism_threads(1)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if ROLE != "chief":
        tf.distribute.Server(resolver.cluster_spec(), job_name=ROLE, task_index=INDEX, protocol="grpc", start=True)
        print("ready", flush=True)
        sys.stdin.read()
        os._exit(0)  # the server has no end
    strategy = tf.distribute.ParameterServerStrategy(
        resolver, variable_partitioner=None)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        variables = made_variables()
        count = tf.Variable(0, dtype=tf.int64)

    def data():
        images = tf.random.normal([BATCH, 24, 24, 3], seed=1)
        labels = tf.random.uniform([BATCH], 0, 10, tf.int64, seed=1)
        return tf.data.Dataset.from_tensors((images, labels)).cache().repeat()

    batches = iter(coordinator.create_per_worker_dataset(data))

    @tf.function
    def step(iterator):
        def one(images, labels):
            with tf.GradientTape() as tape:
                loss = loss_of(variables, images, labels)
            for variable, gradient in zip(variables, tape.gradient(loss, variables)):
                variable.assign_sub(0.001 * gradient)
            count.assign_add(1)

        strategy.run(one, args=next(iterator))

    for _ in range(2 * len(CLUSTER["worker"])):
        coordinator.schedule(step, args=(batches,))
    coordinator.join()
    print("ready", flush=True)
    for command in sys.stdin:
        before, start = int(count.numpy()), time.perf_counter()
        for _ in range(int(command)):
            coordinator.schedule(step, args=(batches,))
        coordinator.join()
        took = time.perf_counter() - start
        assert int(count.numpy()) == before + int(command)
        print(took, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
