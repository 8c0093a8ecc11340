"""What scikit-learn and Keras find of classifiers: writes metrics_sklearn.txt, which tests/towers/class_metrics_test.cpp reads.

Usage: python metrics_sklearn.py > metrics_sklearn.txt   (with scikit-learn and TensorFlow)

A line is a name and values. Each case has scores (probabilities row by row), labels and weights, and what was found.
Keras's AUC gets a threshold between each two scores that differ, so that it is exact, too; where it is not within 1e-5 of
scikit-learn's this script fails. Areas are one class against the rest.
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import sklearn
import tensorflow as tf
from sklearn.metrics import accuracy_score, precision_recall_fscore_support, roc_auc_score


def show(name, values):
    print(name, " ".join(f"{value:.9g}" for value in np.asarray(values, dtype=np.float64).flatten()))


def keras_auc(labels, scores, weights):
    cuts = np.unique(scores)
    between = ((cuts[1:].astype(np.float64) + cuts[:-1]) / 2).tolist()
    metric = keras.metrics.AUC(thresholds=[cut for cut in between if 0 < cut < 1])
    metric.update_state(labels, scores, sample_weight=weights)
    return float(metric.result())


def area(labels, scores, weights):
    exact = roc_auc_score(labels, scores, sample_weight=weights)
    assert abs(exact - keras_auc(labels, scores, weights)) < 1e-5, (exact, keras_auc(labels, scores, weights))
    return exact


def case(name, scores, labels, weights):
    weights = None if weights is None else weights.astype(np.float32)
    count = scores.shape[1]
    predicted = scores.argmax(axis=1)
    show(name + ".scores", scores)
    show(name + ".labels", labels)
    show(name + ".weights", [] if weights is None else weights)
    show(name + ".accuracy", [accuracy_score(labels, predicted, sample_weight=weights)])
    one_hot = np.eye(count)[labels]
    areas = [area(one_hot[:, c], scores[:, c], weights) for c in range(count) if 0 < one_hot[:, c].sum() < len(labels)]
    average = "binary" if count == 2 else "macro"
    precision, recall, _, _ = precision_recall_fscore_support(
        labels, predicted, average=average, sample_weight=weights, zero_division=0)
    show(name + ".precision", [precision])
    show(name + ".recall", [recall])
    if count == 2:
        for kind, value in ((keras.metrics.Precision(), precision), (keras.metrics.Recall(), recall)):
            kind.update_state(labels, scores[:, 1], sample_weight=weights)
            assert abs(float(kind.result()) - value) < 1e-6
        show(name + ".auc", [areas[1]])
    else:
        show(name + ".auc", [np.mean(areas)])
        each = None if weights is None else np.repeat(weights, count)
        show(name + ".auc_micro", [area(one_hot.flatten(), scores.flatten(), each)])


def probabilities(rng, rows, count, digits):
    logits = np.round(rng.normal(size=(rows, count)) * 2, digits)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return shares.astype(np.float32)


def loss(rng):
    logits = rng.normal(size=(5, 3)).astype(np.float32)
    labels = np.array([0, 2, 1, 1, 2])
    weights = np.array([1, 0, 2.5, 0.5, 3], dtype=np.float32)
    x = tf.Variable(logits)
    with tf.GradientTape() as tape:
        value = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, x, sample_weight=weights)
    show("loss.logits", logits)
    show("loss.labels", labels)
    show("loss.weights", weights)
    show("loss.value", [float(value)])
    show("loss.gradient", tape.gradient(value, x).numpy())


rng = np.random.default_rng(21)
print("# made by metrics_sklearn.py with scikit-learn", sklearn.__version__, "TensorFlow", tf.__version__, "Keras",
      keras.__version__)
case("two", probabilities(rng, 40, 2, 3), rng.integers(0, 2, 40), None)
case("two_tied", probabilities(rng, 60, 2, 0), rng.integers(0, 2, 60), None)
case("two_weighted", probabilities(rng, 60, 2, 0), rng.integers(0, 2, 60), np.round(rng.uniform(0, 3, 60), 1))
case("four", probabilities(rng, 50, 4, 2), rng.integers(0, 4, 50), None)
case("four_lacking", probabilities(rng, 30, 4, 1), rng.integers(0, 3, 30), None)
case("four_weighted", probabilities(rng, 50, 4, 0), rng.integers(0, 4, 50), np.round(rng.uniform(0, 3, 50), 1))
loss(rng)
