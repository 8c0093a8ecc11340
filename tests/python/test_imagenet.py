"""The example examples/python/imagenet.py on the CPU: one digest for any number of processes, and after a kill."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tarfile
import threading

import pytest

import penstock as ps
from conftest import example, tfrecord

pytest.importorskip("torch")
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/python/imagenet.py"
COUNT, BATCH = 200, 8


@pytest.fixture(scope="module")
def photographs(tmp_path_factory) -> pathlib.Path:
    """200 small JPEGs of 7 classes."""
    folder = tmp_path_factory.mktemp("photographs")
    for i, element in enumerate(ps.synthetic(f"count={COUNT},image=48x40")):
        path = folder / f"class{i % 7}" / f"{i:03}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(element["image"]))
    return folder


class Job:
    """One process of the example for each rank, as torchrun starts them."""

    def __init__(self, ranks: int, *words: object):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, str(EXAMPLE), *map(str, words), "--model", "tiny", "--cpu", "--digest", "--size", "24",
                   "--batch", str(BATCH), "--classes", "7", "--lr", "0.01", "--epochs", "2", "--threads", "2"]
        self.processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={
            **os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}) for rank in range(ranks)]
        self.watchdog = threading.Timer(150, self.kill)
        self.watchdog.start()

    def kill(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGKILL)

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *raised: object) -> None:
        self.watchdog.cancel()
        self.kill()
        for process in self.processes:
            process.wait(30)
            process.stdout.close()

    def result(self) -> str:
        """What the first rank printed, once all have ended well."""
        printed = [process.stdout.read() for process in self.processes]
        assert [process.wait(30) for process in self.processes] == [0] * len(printed), "\n".join(printed)
        return printed[0]


def lines(printed: str) -> dict[str, tuple[str, ...]]:
    """By name, the number of images, the digest and the value behind it."""
    return {name: numbers for name, *numbers in
            re.findall(r"^(epoch \d+|test): (\d+) images, digest ([0-9a-f]+), (\d+\.\d+) ", printed, re.M)}


@pytest.fixture(scope="module")
def whole(photographs) -> dict[str, tuple[str, ...]]:
    with Job(1, photographs, photographs) as job:
        return lines(job.result())


def test_epochs_of_one_process(whole):
    assert list(whole) == ["epoch 0", "test", "epoch 1"]
    assert [int(count) for count, *_ in whole.values()] == [COUNT] * 3
    assert len({digest for _, digest, _ in whole.values()}) == 3  # two random epochs, and the test's crops
    assert all(0 < float(value) < 10 for _, _, value in whole.values())


@pytest.mark.parametrize("ranks", [2, 3])
def test_digest_for_any_number_of_processes(photographs, whole, ranks):
    with Job(ranks, photographs, photographs) as job:
        printed = job.result()
    assert {name: numbers[:2] for name, numbers in lines(printed).items()} == {
        name: numbers[:2] for name, numbers in whole.items()}
    assert all(0 < float(numbers[2]) < 10 for numbers in lines(printed).values())
    assert re.search(r" loss, [1-9]\d* images/s\. \w+", printed)


@pytest.mark.parametrize("ranks", [1, 2])
def test_kill_and_resume(photographs, whole, tmp_path, ranks):
    """The rest of the epoch, added to what the checkpoint counts, has the digest of the whole epoch."""
    steps = -(-COUNT // (ranks * BATCH))
    words = [photographs, "--checkpoint", tmp_path / "last.pt", "--every", steps // 2 + steps]  # within the second epoch
    with Job(ranks, *words) as job:
        for line in job.processes[0].stdout:
            if line.startswith("checkpoint at step"):
                job.kill()
                break
        assert [process.wait(30) for process in job.processes] == [-signal.SIGKILL] * ranks
    assert os.listdir(tmp_path) == ["last.pt"]
    with Job(ranks, *words, "--resume") as job:
        resumed = lines(job.result())
    assert {name: numbers[:2] for name, numbers in resumed.items()} == {"epoch 1": whole["epoch 1"][:2]}
    with Job(3 - ranks, *words, "--resume") as job:
        printed = [process.stdout.read() for process in job.processes]
        assert all(f"is of {ranks} ranks, not {3 - ranks}" in text for text in printed), printed
        assert all(process.wait(30) == 1 for process in job.processes)


@pytest.mark.parametrize("kind", ["tar", "tfrecord"])
def test_sources_of_records(photographs, tmp_path, whole, kind):
    """The same photographs in a shard have the digest of the folder."""
    shard = tmp_path / f"train.{kind}"
    files = sorted(photographs.rglob("*.jpg"))
    if kind == "tar":
        with tarfile.open(shard, "w") as tar:
            for path in files:
                tar.add(path, f"{path.parent.name}/{path.name}")
    else:
        with shard.open("wb") as records:
            for path in files:
                records.write(tfrecord(example(**{"image/encoded": path.read_bytes(),
                                                  "image/class/label": [int(path.parent.name[-1])]})))
    with Job(1, shard) as job:
        result = lines(job.result())
    assert [result[name][:2] for name in ("epoch 0", "epoch 1")] == [whole[name][:2] for name in ("epoch 0", "epoch 1")]
