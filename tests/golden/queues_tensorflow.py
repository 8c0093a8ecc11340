"""What TensorFlow's queues and its ways to update variables give: writes queues_tensorflow.txt, which
tests/towers/from_tensorflow_test.cpp reads.

    pip install tensorflow==2.21.0 && python3 tests/golden/queues_tensorflow.py

Each line is a name, a colon and numbers. Batches are those of tf.compat.v1.train; the variables are those of softmax
regression after 20 updates of two towers: the mean gradient applied to variables that towers share
(parameter_server), to a copy on each (replicated), and through SyncReplicasOptimizer.
"""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
HERE = os.path.dirname(os.path.abspath(__file__))
TOWERS, BATCH, STEPS, RATE = 2, 4, 20, 0.1


def batches(make, epochs):
    """Batches of the numbers below 10 that a queue gives until it ends."""
    with tf.Graph().as_default(), tf.Session() as session:
        numbers = tf.train.range_input_producer(10, num_epochs=epochs, shuffle=False).dequeue()
        batch = make(numbers)
        session.run(tf.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        taken = []
        try:
            while True:
                taken.append(session.run(batch).tolist())
        except tf.errors.OutOfRangeError:
            pass
        coordinator.request_stop()
        coordinator.join(threads)
        return taken


def points():
    """As from_tensorflow_test.cpp makes them."""
    at = np.arange(TOWERS * BATCH * STEPS, dtype=np.float32)
    features = np.stack([np.sin(at * np.float32(k)) for k in (0.3, 0.7, 1.1, 1.9)], 1).astype(np.float32)
    return features, np.argmax(features[:, :3], 1)


def loss_of(weights, biases, features, labels):
    logits = tf.matmul(features, weights, transpose_b=True) + biases
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def variables(name):
    return [tf.get_variable(name + "w", [3, 4], initializer=tf.zeros_initializer()),
            tf.get_variable(name + "b", [3], initializer=tf.zeros_initializer())]


def inputs():
    return ([tf.placeholder(tf.float32, [BATCH, 4]) for _ in range(TOWERS)],
            [tf.placeholder(tf.int64, [BATCH]) for _ in range(TOWERS)])


def fed(features, labels, step, tower):
    at = slice((step * TOWERS + tower) * BATCH, (step * TOWERS + tower + 1) * BATCH)
    return {features[tower]: points()[0][at], labels[tower]: points()[1][at]}


def averaged(replicated, optimizer):
    with tf.Graph().as_default(), tf.Session() as session:
        features, labels = inputs()
        copies = [variables(f"tower{t}") for t in range(TOWERS)] if replicated else [variables("shared")] * TOWERS
        gradients = [tf.gradients(loss_of(*copies[t], features[t], labels[t]), copies[t]) for t in range(TOWERS)]
        mean = [tf.add_n(list(of_towers)) / TOWERS for of_towers in zip(*gradients)]
        updates = [optimizer().apply_gradients(zip(mean, of_tower)) for of_tower in copies[:TOWERS if replicated else 1]]
        session.run(tf.global_variables_initializer())
        for step in range(STEPS):
            feed = {}
            for tower in range(TOWERS):
                feed |= fed(features, labels, step, tower)
            session.run(updates, feed)
        return session.run(copies[0])


def sync_replicas():
    with tf.Graph().as_default(), tf.Session() as session:
        features, labels = inputs()
        shared = variables("shared")
        step = tf.train.get_or_create_global_step()
        # One replica that gives both towers' gradients: with threads one may take the other's token, and make an
        # update out of two gradients of its own.
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(RATE), TOWERS, total_num_replicas=1)
        gradients = optimizer.compute_gradients(loss_of(*shared, features[0], labels[0]), shared)
        train = optimizer.apply_gradients(gradients, step)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(optimizer.local_step_init_op)
        coordinator = tf.train.Coordinator()
        optimizer.get_chief_queue_runner().create_threads(session, coordinator, True, True)
        # By default there are as many tokens more as make an update, with which replicas run ahead of it.
        session.run(optimizer.get_init_tokens_op(TOWERS - 1))
        for at in range(STEPS):
            for tower in range(TOWERS):
                feed = fed(features, labels, at, tower)
                session.run(train, {features[0]: feed[features[tower]], labels[0]: feed[labels[tower]]})
        coordinator.request_stop()
        return session.run(shared)


def main():
    lines = []

    def say(name, values):
        lines.append(f"{name}: " + " ".join(f"{value:.9g}" for value in np.asarray(values).ravel()))

    for name, smaller in (("batch", False), ("batch_smaller_final", True)):
        taken = batches(lambda n, s=smaller: tf.train.batch([n], 4, allow_smaller_final_batch=s), 1)
        say(name + ".sizes", [len(batch) for batch in taken])
        say(name, [value for batch in taken for value in batch])
    taken = batches(lambda n: tf.train.shuffle_batch([n], 4, 8, 4, seed=3), 2)
    say("shuffle_batch.sizes", [len(batch) for batch in taken])
    say("shuffle_batch.sorted", sorted(value for batch in taken for value in batch))
    momentum = lambda: tf.train.MomentumOptimizer(RATE, 0.9)
    for name, (weights, biases) in (("parameter_server", averaged(False, momentum)),
                                    ("replicated", averaged(True, momentum)),
                                    ("sync_replicas", sync_replicas())):
        say(name + ".weights", weights)
        say(name + ".biases", biases)
    with open(os.path.join(HERE, "queues_tensorflow.txt"), "w", encoding="ascii") as out:
        out.write("\n".join(lines) + "\n")


main()
