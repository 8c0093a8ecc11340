"""Feeds of devices: host devices here, whose batches go the way of all others."""

import gc
import threading
import time

import numpy as np
import pytest

import penstock as ps


@pytest.fixture
def dataset():
    return ps.tensors({"x": np.arange(4000.0).reshape(40, 100), "y": np.arange(40)}).batch(4)


def taken(feed, tower=0):
    """The batches of an epoch, copied."""
    return [np.from_dlpack(batch["y"]).tolist() for batch in iter(lambda: feed.next(tower), None)]


def test_batches_of_a_device(dataset):
    feed = ps.Feed(dataset, "host:0", epochs=2)
    batch = feed.next()
    assert batch.device == "host:0" and batch.valid_rows == 4 and list(batch) == ["x", "y"]
    assert batch["x"].shape == (4, 100) and batch["x"].dtype == "f64"
    assert (np.from_dlpack(batch["x"]) == np.arange(400.0).reshape(4, 100)).all()
    with pytest.raises(KeyError, match="z: there are"):
        batch["z"]
    del batch
    gc.collect()
    assert len(taken(feed)) == 9 and len(taken(feed)) == 10 and feed.ended()
    assert "batches" in str(feed.report()) and feed.report().lock["calls"] == 0


def test_loop_over_a_feed(dataset):
    with ps.Feed(dataset, "host:0", epochs=2) as feed:
        assert [np.from_dlpack(batch["y"])[0] for batch in feed] == 2 * list(range(0, 40, 4))
    with pytest.raises(ps.InvalidArgument, match="closed"):
        next(feed)
    with pytest.raises(TypeError, match="several towers"):
        next(ps.Feed(dataset, "host:0,host:0"))


def test_towers_share_the_batches(dataset):
    feed = ps.Feed(dataset, "host:0,host:0", mode="per_tower")
    batches = []
    for _ in range(5):
        batches += [np.from_dlpack(feed.next(tower)["y"]).tolist() for tower in range(2)]
    assert batches == [list(range(k, k + 4)) for k in range(0, 40, 4)]
    assert feed.towers() == 2 and feed.next(0) is None


def test_state_of_a_feed(dataset):
    feed = ps.Feed(dataset.prefetch(2), "host:0")
    for _ in range(3):
        feed.next()
    again = ps.Feed(dataset.prefetch(2), "host:0", feed.state())
    assert taken(again) == taken(feed)


def test_memory_outlives_batch_and_feed(dataset):
    torch = pytest.importorskip("torch")
    feed = ps.Feed(dataset, "host:0")
    tensor = torch.from_dlpack(feed.next()["x"])
    del feed
    gc.collect()
    assert tensor.sum() == np.arange(400.0).sum()


def test_end_of_a_feed_whose_functions_run():
    feed = ps.Feed(ps.range(10**6).map(lambda e: e).batch(8), "host:0")
    feed.next()
    begin = time.monotonic()
    del feed
    assert time.monotonic() - begin < 8  # seconds; ten if it kept the lock from its functions


def test_one_export_for_all_threads(dataset):
    feed = ps.Feed(dataset, "host:0")
    for batch in iter(feed.next, None):
        sums = []
        threads = [threading.Thread(target=lambda: sums.append(np.from_dlpack(batch["x"]).sum())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(sums) == 4 and len(set(sums)) == 1
        sums.clear()


def test_slots_that_are_held(dataset):
    feed = ps.Feed(dataset, "host:0", slots=2, watchdog_s=0.2)
    held = [feed.next(), feed.next()]
    with pytest.raises(ps.NoProgress, match="all 2 slots are held.*release a batch"):
        feed.next()
    held.clear()
    assert feed.next() is not None


def test_wrong_feeds(dataset):
    with pytest.raises(ps.InvalidArgument, match="none of split, per_tower, sharded"):
        ps.Feed(dataset, "host:0", mode="both")
    with pytest.raises(ps.NotFound):
        ps.Feed(dataset, "cuda:77")
    with pytest.raises(ps.InvalidArgument):
        ps.Feed(dataset.unbatch(), "host:0")


def test_interrupt_within_a_wait(run_python):
    result = run_python("""
import os, signal, threading, time
import penstock as ps
gate = threading.Event()
dataset = ps.range(4).map(lambda e: e if gate.wait() else e).batch(2)
feed = ps.Feed(dataset, "host:0")
threading.Thread(target=lambda: (time.sleep(0.3), os.kill(os.getpid(), signal.SIGINT))).start()
try:
    feed.next()
except KeyboardInterrupt:
    gate.set()
import numpy
print([numpy.from_dlpack(feed.next()["value"]).tolist() for _ in range(2)], feed.next())
""")
    assert result.stdout == "[[0, 1], [2, 3]] None\n", result
