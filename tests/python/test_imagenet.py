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

torch = pytest.importorskip("torch")
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/python/imagenet.py"
COUNT, BATCH, EPOCHS = 200, 8, 4


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
                   "--batch", str(BATCH), "--classes", "7", "--lr", "0.01", "--threads", "2"]
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
    return {name: tuple(numbers) for name, *numbers in
            re.findall(r"^(epoch \d+|test): (\d+) images, digest ([0-9a-f]+), (\d+\.\d+) ", printed, re.M)}


@pytest.fixture(scope="module")
def whole(photographs) -> dict[str, tuple[str, ...]]:
    with Job(1, photographs, photographs, "--epochs", EPOCHS) as job:
        return lines(job.result())


def fed(numbers: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """How many images there were, and their digest."""
    return {name: (count, digest) for name, (count, digest, _) in numbers.items()}


def test_epochs_of_one_process(whole):
    assert sorted(whole) == [*(f"epoch {k}" for k in range(EPOCHS)), "test"]
    assert [int(count) for count, *_ in whole.values()] == [COUNT] * (EPOCHS + 1)
    assert len(set(fed(whole).values())) == EPOCHS + 1  # other crops and flips in each epoch
    assert all(0 < float(value) < 10 for _, _, value in whole.values())


@pytest.mark.parametrize("ranks", [2, 3])
def test_digest_for_any_number_of_processes(photographs, whole, ranks):
    with Job(ranks, photographs, photographs, "--epochs", 2) as job:
        printed = job.result()
    result = lines(printed)
    assert fed(result) == {name: each for name, each in fed(whole).items() if name in ("epoch 0", "epoch 1", "test")}
    assert all(0 < float(value) < 10 for _, _, value in result.values())
    assert re.search(r" loss, [1-9]\d* images/s\. \w+", printed)


@pytest.mark.parametrize("ranks", [1, 2])
def test_kill_and_resume(photographs, whole, tmp_path, ranks):
    """The rest of an epoch, with what the checkpoint counts, has the digest of the whole epoch."""
    steps = -(-COUNT // (ranks * BATCH))
    words = [photographs, "--checkpoint", tmp_path / "last.pt", "--every", steps + steps // 2]
    with Job(ranks, *words, "--epochs", 1000) as job:
        for line in job.processes[0].stdout:
            if line == f"checkpoint at step {steps + steps // 2}\n":  # within the second epoch, unless it ends before the kill
                job.kill()
                break
        assert [process.wait(30) for process in job.processes] == [-signal.SIGKILL] * ranks
    epochs = torch.load(tmp_path / "last.pt")["ranks"][0]["numbers"][0] + 2
    if epochs > EPOCHS:
        with Job(1, photographs, "--epochs", epochs) as job:
            whole = lines(job.result())
    words += ["--epochs", epochs]
    with Job(3 - ranks, *words, "--resume") as job:
        printed = [process.stdout.read() for process in job.processes]
        assert all(f"is of {ranks} ranks, not {3 - ranks}" in text for text in printed), printed
        assert all(process.wait(30) == 1 for process in job.processes)
    with Job(ranks, *words, "--resume") as job:
        resumed = fed(lines(job.result()))
    assert list(resumed) == [f"epoch {k}" for k in range(epochs - 2, epochs)]
    assert resumed == {name: fed(whole)[name] for name in resumed}


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
    with Job(1, shard, "--epochs", 1) as job:
        assert fed(lines(job.result())) == {"epoch 0": fed(whole)["epoch 0"]}
