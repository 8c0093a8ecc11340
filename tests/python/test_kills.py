"""A training in PyTorch whose processes are killed and resume, with the same batches and the same model.

PENSTOCK_KILLS is their number in each test.
"""

import os
import pathlib
import random
import struct
import subprocess
import sys
import time
import zlib

import pytest

pytest.importorskip("torch")

KILLS = int(os.environ.get("PENSTOCK_KILLS", "3"))
EPOCHS = max(3, KILLS // 3)
IMAGES = 96 * EPOCHS
RANDOM = random.Random(58)


def png(width, height):
    """A picture of random colors."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + RANDOM.randbytes(3 * width) for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(96):
        file = folder / f"class{number % 4}" / f"{number}.png"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(png(RANDOM.randint(30, 70), RANDOM.randint(30, 70)))
    return folder


class Job:
    """The ranks of a training, from one start to its end."""

    def __init__(self, pictures, checkpoints, ranks):
        store = checkpoints / f"store{time.monotonic_ns()}"
        words = [pathlib.Path(__file__).with_name("training.py"), pictures, checkpoints, store]
        self.ranks = [
            subprocess.Popen([sys.executable, *map(str, words), str(rank), str(ranks), str(EPOCHS)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            for rank in range(ranks)]
        self.resumed, self.saved, self.models = None, 0, []

    def batch(self):
        """The place of the next batches and their images, in the order of the whole dataset, or None at the end."""
        told = [self._listen(rank) for rank in self.ranks]
        if told == [None] * len(told):
            return None
        places, images = zip(*told)
        assert len(set(places)) == 1
        return places[0], [image for row in zip(*images, strict=True) for image in row]

    def proceed(self):
        """Lets the ranks train on the batch that they told of."""
        for rank in self.ranks:
            rank.stdin.write("\n")
            rank.stdin.flush()

    def kill(self):
        """Kills the ranks, one of them first; returns the place of the last checkpoint that all had told of."""
        RANDOM.shuffle(self.ranks)
        for rank in self.ranks:
            rank.kill()
        saved = []
        for rank in self.ranks:
            rest = [int(line.split()[1]) for line in rank.communicate()[0].splitlines() if line.startswith("saved")]
            saved.append(max(rest, default=self.saved))
            assert rank.returncode == -9
        return min(saved)

    def _listen(self, rank):
        for line in rank.stdout:
            word, *rest = line.split()
            if word == "batch":
                return int(rest[0]), rest[1:]
            if word == "saved":
                self.saved = int(rest[0])
            elif word == "model":
                self.models += rest
            else:
                assert self.resumed in (None, int(rest[0]))
                self.resumed = int(rest[0])
        assert rank.wait() == 0
        return None


def train(pictures, checkpoints, ranks_of_start, kills):
    """Trains to the end with kills at random batches; returns the images in their order, and the model of each rank."""
    checkpoints.mkdir()
    seen, saved = [], 0
    targets = sorted(RANDOM.sample(range(0, IMAGES - 16, 8), kills))
    for start in range(kills + 1):
        job = Job(pictures, checkpoints, ranks_of_start(start))
        next_place = None
        while (told := job.batch()) is not None:
            place, images = told
            assert place == (job.resumed if next_place is None else next_place), "a batch is missing"
            next_place = place + len(images)
            assert seen[place:next_place] == images[:len(seen) - place], f"other images than before the kill at {place}"
            seen[place:next_place] = images
            job.proceed()
            if start < kills and place >= targets[start]:
                time.sleep(RANDOM.choice([0, 0.01, 0.05]) * RANDOM.random())  # amid training, saving, or the wait behind it
                break
        assert job.resumed >= saved, "a checkpoint is lost"
        if start == kills:
            return seen, job.models
        saved = job.kill()
    raise AssertionError


@pytest.fixture(scope="module")
def undisturbed(pictures, tmp_path_factory):
    seen, models = train(pictures, tmp_path_factory.mktemp("undisturbed") / "checkpoints", lambda start: 1, 0)
    assert len(models) == 1
    for epoch in range(EPOCHS):  # each has each picture once, and crops of its own
        assert len(set(seen[96 * epoch:96 * epoch + 96])) == 96
    assert len(set(seen)) == len(seen) == IMAGES
    return seen, models


def figure(what):
    """A line of tools/reliability.sh, which comes here only if all was right."""
    print(f"\nfigure: {KILLS} kills of {what}: of {IMAGES} images missing 0, with other bytes or in another place 0")


def test_kills_of_a_training(pictures, undisturbed, tmp_path):
    assert train(pictures, tmp_path / "checkpoints", lambda start: 1, KILLS) == undisturbed
    figure("a training in PyTorch (its final model has the bits of an undisturbed one)")


def test_kills_of_two_ranks(pictures, undisturbed, tmp_path):
    seen, models = train(pictures, tmp_path / "checkpoints", lambda start: 2, KILLS)
    assert seen == undisturbed[0] and len(models) == 2 and models[0] == models[1]
    figure("two ranks (their final models are the same)")


def test_kills_with_a_change_to_one_rank(pictures, undisturbed, tmp_path):
    assert train(pictures, tmp_path / "checkpoints", lambda start: 2 if start <= KILLS // 2 else 1, KILLS)[0] == undisturbed[0]
    figure("two ranks, later one")
