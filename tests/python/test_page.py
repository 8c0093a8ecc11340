"""Each row of docs/python.md's tables, with the code of the row, against what the other library gives."""

import functools
import http.server
import inspect
import io
import itertools
import json
import pathlib
import re
import shlex
import struct
import subprocess
import tarfile
import threading
import time

import numpy as np
import pytest

import penstock as ps
from conftest import example, png, tfrecord

PAGE = pathlib.Path(__file__).parents[2] / "docs/python.md"


class Row:
    """The code of a row. Every piece of it must be run."""

    def __init__(self, cell: str):
        self.cell, self.codes = cell, re.findall(r"`([^`]+)`", cell)
        self.left = list(self.codes)

    def __call__(self, place: int = 0, **names):
        """The value of a piece of code; one that begins with a dot follows `data`."""
        code = self.codes[place]
        if code in self.left:
            self.left.remove(code)
        code = "data" + code if code.startswith(".") else code
        return eval(code, {"ps": ps, "np": np, **names})  # noqa: S307


def rows() -> dict[tuple[str, str], Row]:
    """The rows by library and by what is written there."""
    found = {}
    for heading, body in re.findall(r"^### From (.*?)\n(.*?)(?=^#|\Z)", PAGE.read_text(), re.M | re.S):
        for line in re.findall(r"^\|(.*)\|$", body, re.M)[2:]:
            theirs, ours, _ = (cell.strip() for cell in line.split("|"))
            key = (heading, theirs.replace("`", ""))
            assert key not in found, f"{key} is there twice"
            found[key] = Row(ours)
    return found


def of_row(library, name):
    """Says which row a test runs."""
    def add(test):
        assert (library, name) not in TESTS, f"{library}, {name}: two tests"
        TESTS[library, name] = test

    return add


ROWS, TESTS = rows(), {}
torch_row, tf_row, web_row, ffcv_row = (functools.partial(of_row, library) for library in (
    "DataLoader and torchvision", "tf.data", "WebDataset", "FFCV"))


@pytest.fixture
def torch():
    module = pytest.importorskip("torch")
    module.manual_seed(1)
    return module


@pytest.fixture
def Loader(torch):
    return pytest.importorskip("penstock.torch").Loader


@pytest.fixture
def vision(torch):
    return pytest.importorskip("torchvision")


def smooth(numbers, height, width):
    """Pixels that change slowly."""
    y, x, c = np.ogrid[:height, :width, :3]
    a, b = numbers.uniform(0.01, 0.03, 2)
    return (127 + 60 * np.sin(a * y + c) + 60 * np.sin(b * x + 2 * c)).astype(np.uint8)


@pytest.fixture
def images(tmp_path):
    """A folder of 12 PNGs in 3 classes."""
    numbers = np.random.default_rng(1)
    for i in range(12):
        path = tmp_path / "images" / f"class{i % 3}" / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(smooth(numbers, 280, 320 + i)))
    return tmp_path / "images"


def values(dataset, name="value", **options):
    """The values of all elements or batches."""
    return [element[name].tolist() for element in dataset.iterate(**options)]


def flat(batches):
    return [value for batch in batches for value in batch]


def vectors(count=20):
    return {"x": np.arange(2 * count, dtype=np.float32).reshape(count, 2), "y": np.arange(count)}


def sequences(lengths, name="x"):
    """Rows of these lengths, of the values 1, 2, …"""
    return ps.generate(lambda: [{name: np.arange(1, n + 1)} for n in lengths], {name: ("i64", [None])})


# PyTorch and torchvision.


class Squares:
    """A Dataset of maps, whose elements are dicts."""

    def __len__(self):
        return 10

    def __getitem__(self, i):
        return {"x": np.float32(i * i), "i": i}


@torch_row("Dataset.__getitem__")
def _(row, torch, Loader):
    ours = row(d=Squares(), spec={"x": ("f32", []), "i": ("i64", [])})
    theirs = torch.utils.data.DataLoader(Squares(), 4)
    for here, there in zip(Loader(ours, 4), theirs, strict=True):
        assert here.keys() == there.keys() and all(torch.equal(here[name], there[name]) for name in here)
        assert here["x"].dtype == there["x"].dtype


@torch_row("IterableDataset")
def _(row, torch, Loader):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return ({"x": i * i} for i in range(10))

    ours, theirs = Loader(row(d=Stream(), spec={"x": ("i64", [])}), 4), torch.utils.data.DataLoader(Stream(), 4)
    for _ in range(2):
        assert [b["x"].tolist() for b in ours] == [b["x"].tolist() for b in theirs] == [
            [0, 1, 4, 9], [16, 25, 36, 49], [64, 81]]


@torch_row("TensorDataset(x, y)")
def _(row, torch, Loader):
    x, y = torch.arange(40.0).reshape(20, 2), torch.arange(20)
    ours = row(x=x, y=y)
    for here, (there_x, there_y) in zip(Loader(ours, 8), torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(x, y), 8), strict=True):
        assert torch.equal(here["x"], there_x) and torch.equal(here["y"], there_y)


@torch_row("DataLoader(d, 64)")
def _(row, torch, Loader):
    loader, theirs = row(data=ps.range(150), Loader=Loader), torch.utils.data.DataLoader(range(150), 64)
    assert len(loader) == len(theirs) == 3
    for _ in range(2):
        assert [b["value"].tolist() for b in loader] == [b.tolist() for b in theirs]
    kept, places = [], set()
    for batch in row(data=ps.range(64 * 200), Loader=Loader):
        places.add(batch["value"].data_ptr())
        kept.append(batch["value"].clone())
    assert len(places) < 100 and flat(map(torch.Tensor.tolist, kept)) == list(range(64 * 200))


@torch_row("batch_size=None")
def _(row, torch, Loader):
    theirs = torch.utils.data.DataLoader([torch.tensor([0, 1]), torch.tensor([2])], batch_size=None)
    loader = row(data=ps.range(3).batch(2), Loader=Loader)
    assert [b["value"].tolist() for b in loader] == [b.tolist() for b in theirs]


@torch_row("shuffle=True, generator=g")
def _(row, torch, Loader):
    def epochs(loader):
        return [flat(b["value"].tolist() for b in loader) for _ in range(2)]

    first, second = epochs(row(data=ps.range(150), Loader=Loader))
    assert first != second and sorted(first) == sorted(second) == list(range(150))
    assert epochs(row(data=ps.range(150), Loader=functools.partial(Loader, threads=1))) == [first, second]
    half = epochs(row(data=ps.range(150), Loader=functools.partial(Loader, rank=1, ranks=2)))
    assert half == [first[1::2], second[1::2]]
    theirs = torch.utils.data.DataLoader(range(150), 64, shuffle=True, generator=torch.Generator().manual_seed(1))
    assert sorted(flat(b.tolist() for b in theirs)) == sorted(first)


@torch_row("num_workers=8")
def _(row, Loader):
    """The first eight calls wait for each other, so eight threads make them."""
    together, calls = threading.Barrier(8), itertools.count()

    def meet(element):
        if next(calls) < 8:
            together.wait(20)
        return element

    loader = row(data=ps.range(150).map(meet), Loader=Loader)
    assert flat(b["value"].tolist() for b in loader) == list(range(150))


def made_ahead(loader, least):
    """The number of batches made while the first is held, once it is `least`."""
    made = []
    batches = iter(loader(ps.range(64 * 100).map(lambda e: made.append(1) or e)))
    batch, end = next(batches), time.monotonic() + 20
    while len(made) < 64 * (1 + least) and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.5)
    assert len(batch["value"]) == 64
    return len(made) // 64 - 1


@torch_row("prefetch_factor=4")
def _(row, Loader):
    single = functools.partial(Loader, threads=1)
    assert 3 <= made_ahead(lambda data: row(data=data, Loader=single), 3) <= 5
    assert made_ahead(lambda data: single(data, 64), 7) >= 7  # by default


@torch_row("worker_init_fn")
def _(row):
    def draw(element, number):
        return {"value": int(np.random.default_rng(number).integers(1 << 40))}

    first = values(row(data=ps.range(50), fn=draw), seed=1)
    assert first == values(row(data=ps.range(50), fn=draw), seed=1, threads=1) != values(
        row(data=ps.range(50), fn=draw), seed=2)
    assert len(set(first)) == 50


@torch_row("timeout, persistent_workers")
def _(row, Loader):
    assert row.cell == "nothing"
    for name in ("timeout", "persistent_workers"):
        with pytest.raises(TypeError, match=f"Loader has no {name}: "):
            Loader(ps.range(3), 2, **{name: 1})


@torch_row("DistributedSampler")
def _(row, torch, Loader):
    """Steps are equal as theirs are, and every element comes once, where they repeat some."""
    n, seen, again = 3, [[], []], []
    for r in range(n):
        loader = row(data=ps.range(400), Loader=Loader, r=r, n=n)
        theirs = torch.utils.data.DistributedSampler(range(400), n, r)
        steps = len(torch.utils.data.DataLoader(range(400), 64, sampler=theirs))
        again += list(theirs)
        epochs = []
        for epoch in (0, 1):
            batches = [b["value"][b["valid"]].tolist() for b in loader]
            assert len(batches) == len(loader) == steps == 3
            seen[epoch] += flat(batches)
            epochs.append(batches)
        loader.set_epoch(0)
        assert [b["value"][b["valid"]].tolist() for b in loader] == epochs[0] != epochs[1]
    assert sorted(seen[0]) == sorted(seen[1]) == list(range(400)) and seen[0] != seen[1]
    assert len(again) == 402 and set(again) == set(range(400))


@torch_row("drop_last=True")
def _(row, torch, Loader):
    for count in (383, 384, 385, 400):
        for r in range(3):
            sampler = torch.utils.data.DistributedSampler(range(count), 3, r, drop_last=True)
            theirs = torch.utils.data.DataLoader(range(count), 64, sampler=sampler, drop_last=True)
            loader = row(data=ps.range(count), Loader=Loader, r=r, n=3)
            assert [len(b["value"]) for b in loader] == [len(b) for b in theirs] == [64] * len(loader)


@torch_row("pin_memory=True")
def _(row, torch, Loader):
    for batch in row(data=ps.range(100), Loader=Loader):
        assert batch["value"].is_pinned() == torch.cuda.is_available()


@torch_row("WeightedRandomSampler(w, n)")
def _(row, torch):
    w = np.array([1.0, 0, 3, 0, 4] * 20)
    drawn = values(row(data=ps.range(100), rng=np.random.default_rng(1), w=w, n=4000))
    theirs = list(torch.utils.data.WeightedRandomSampler(w, 4000, generator=torch.Generator().manual_seed(1)))
    for numbers in (drawn, theirs):
        shares = np.bincount(np.array(numbers) % 5, minlength=5) / 4000
        assert np.allclose(shares, [1 / 8, 0, 3 / 8, 0, 4 / 8], atol=0.04) and shares[1] == shares[3] == 0


@torch_row("Subset(d, i)")
def _(row, torch):
    assert values(row(data=ps.range(9), i=[7, 7, 2])) == list(torch.utils.data.Subset(range(9), [7, 7, 2])) == [7, 7, 2]


@torch_row("random_split(d, [0.8, 0.2])")
def _(row, torch):
    parts = [values(part) for part in row(data=ps.range(50))]
    assert sorted(flat(parts)) == list(range(50))
    assert [len(part) for part in parts] == [len(part) for part in torch.utils.data.random_split(
        range(50), [0.8, 0.2])] == [40, 10]


@torch_row("ConcatDataset([a, b])")
def _(row, torch):
    theirs = torch.utils.data.ConcatDataset([range(3), range(10, 14)])
    assert values(row(a=ps.range(3), b=ps.range(10, 14))) == [theirs[i] for i in range(len(theirs))]


@torch_row("collate_fn=pad_sequence")
def _(row, torch, Loader):
    lengths = [3, 1, 4, 1, 5, 9, 2, 6] * 10
    theirs = torch.utils.data.DataLoader(
        [torch.arange(1, n + 1) for n in lengths], 64,
        collate_fn=lambda rows: torch.nn.utils.rnn.pad_sequence(rows, batch_first=True))
    for here, there in zip(row(data=sequences(lengths), Loader=Loader), theirs, strict=True):
        assert torch.equal(here["x"], there)


@torch_row("collate_fn=fn")
def _(row, torch, Loader):
    loader = row(data=ps.range(100), Loader=Loader, spec={"mean": ("f64", [])},
                 fn=lambda batch: {"mean": np.asarray(batch["value"]).mean()})
    theirs = torch.utils.data.DataLoader(range(100), 64, collate_fn=np.mean)
    assert [float(b["mean"]) for b in loader] == list(theirs) == [31.5, 81.5]


@torch_row("StatefulDataLoader")
def _(row, Loader):
    def numbers(loader):
        return [b["value"].tolist() for b in loader]

    reads = []
    data = ps.range(40).shuffle().map(lambda e: reads.append(1) or e)
    whole = numbers(Loader(data, 4, seed=1))
    loader = Loader(data, 4, seed=1)
    for _ in zip(range(8), loader):
        pass
    state = row(loader=loader)
    loader.close()
    again = Loader(data, 4, epochs=1)
    again.load_state_dict(state)
    reads.clear()
    assert numbers(again) == whole[8:] and len(reads) == 8  # nothing that came before
    rest = []
    for rank in range(3):
        loader = Loader(ps.range(40).shuffle(), 4, rank=rank, ranks=3)
        row(1, loader=loader, states=[Loader(ps.range(40).shuffle(), 4, rank=k, ranks=2).state_dict() for k in range(2)])
        rest += flat(numbers(loader))
    assert sorted(rest) == list(range(40))


@torch_row("ImageFolder(folder)")
def _(row, vision, images):
    (images / "class0" / "notes.txt").write_text("no image")
    ours, theirs = row(folder=images), vision.datasets.ImageFolder(images)
    assert ours.class_names == theirs.classes == ["class0", "class1", "class2"]
    here = [(str(images / e["key"].item().decode()), e["label"].item()) for e in ours]
    assert here == theirs.samples and len(here) == 12
    for element, (image, _) in zip(ours.map(ps.decode_image()), theirs, strict=True):
        assert np.array_equal(np.asarray(element["image"]), np.asarray(image))
    assert list(ours.spec) == ["image", "label", "key"]


@torch_row("MNIST, CIFAR10")
def _(row, vision, tmp_path):
    numbers = np.random.default_rng(1)
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    pixels, labels = numbers.integers(0, 255, (5, 28, 28), dtype=np.uint8), np.arange(5, dtype=np.uint8)
    for part in ("train", "t10k"):
        (raw / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 2051, 5, 28, 28) + pixels.tobytes())
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 2049, 5) + labels.tobytes())
    ours = row(0, images=raw / "train-images-idx3-ubyte", labels=raw / "train-labels-idx1-ubyte")
    theirs = vision.datasets.MNIST(tmp_path)
    for element, (image, label) in zip(ours, theirs, strict=True):
        assert np.array_equal(np.asarray(element["image"]).squeeze(), np.asarray(image))
        assert element["label"].item() == label
    planes = numbers.integers(0, 255, (4, 3, 32, 32), dtype=np.uint8)
    (tmp_path / "data.bin").write_bytes(b"".join(bytes([i]) + p.tobytes() for i, p in enumerate(planes)))
    batch = next(row(1, files=tmp_path / "data.bin").batch(4).iterate())
    assert np.array_equal(np.asarray(batch["image"]), planes.transpose(0, 2, 3, 1))  # as their array `data`
    assert batch["label"].tolist() == [0, 1, 2, 3]


def decoded(images, chain, **options):
    """All images of a folder after a chain of ops."""
    return [np.asarray(e["image"]) for e in ps.images(images).map(chain).iterate(**options)]


@torch_row("RandomResizedCrop(224)")
def _(row, vision, images):
    """Where a pixel's value is its place, the crop's corners show the place and size of the crop."""
    height, width, n = 256, 256, 300
    grid = np.zeros((height, width, 3), np.uint8)
    grid[..., 0], grid[..., 1] = np.arange(width)[None], np.arange(height)[:, None]
    data = ps.tensors({"image": [png(grid)] * n})
    ours = [np.asarray(e["image"]).astype(float) for e in data.map(row(data=ps.decode_image())).iterate(seed=1)]
    crop = vision.transforms.RandomResizedCrop(224)
    picture = vision.transforms.functional.to_pil_image(grid)
    theirs = [np.asarray(crop(picture)).astype(float) for _ in range(n)]

    def sizes(crops):
        return np.array([[np.ptp(c[..., 0]), np.ptp(c[..., 1])] for c in crops])

    assert ours[0].shape == theirs[0].shape == (224, 224, 3)
    here, there = sizes(ours), sizes(theirs)
    assert np.abs(here.mean(0) - there.mean(0)).max() < 15  # of 256: 4 standard errors
    ratio = np.log(here[:, 0] / here[:, 1])
    assert np.exp(np.abs(ratio)).max() < 4 / 3 * 1.08 and ratio.std() > 0.1
    share = here.prod(1) / 256**2
    assert share.min() > 0.06 and share.max() < 1 and abs(share.mean() - 0.53) < 0.08


@torch_row("RandomHorizontalFlip()")
def _(row, vision, images):
    plain, flipped = decoded(images, ps.decode_image()), decoded(images, row(data=ps.decode_image()), seed=3)
    flips = [np.array_equal(f, p[:, ::-1]) for p, f in zip(plain, flipped, strict=True)]
    assert all(flip or np.array_equal(f, p) for flip, p, f in zip(flips, plain, flipped)) and 0 < sum(flips) < 12
    flip = vision.transforms.RandomHorizontalFlip(1)
    both = decoded(images, ps.decode_image().random_flip(1))
    for here, (there, _) in zip(both, vision.datasets.ImageFolder(images, flip), strict=True):
        assert np.array_equal(here, np.asarray(there))


@torch_row("Resize(256), CenterCrop(224)")
def _(row, vision, images):
    transforms = vision.transforms
    theirs = vision.datasets.ImageFolder(images, transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224)]))
    for here, (there, _) in zip(decoded(images, row(data=ps.decode_image())), theirs, strict=True):
        assert here.shape == (224, 224, 3) == np.asarray(there).shape
        assert np.abs(here.astype(int) - np.asarray(there)).max() <= 3


@torch_row("ToTensor(), Normalize(m, s)")
def _(row, vision, images):
    transforms, m, s = vision.transforms, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    for m, s, chain in ((m, s, ps.decode_image().normalize()), ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6], None)):
        theirs = vision.datasets.ImageFolder(images, transforms.Compose([transforms.ToTensor(), transforms.Normalize(m, s)]))
        ours = chain or row(data=ps.decode_image(), m=m, s=s)
        for here, (there, _) in zip(decoded(images, ours), theirs, strict=True):
            assert here.shape == tuple(there.shape) and np.abs(here - there.numpy()).max() < 1e-5


@torch_row("ColorJitter(0.4, 0.3, 0.2, 0.1)")
def _(row, torch, vision):
    """Colours of 2,000 draws have torchvision's means, deviations and ranges."""
    colour = np.full((1, 1, 3), (180, 110, 60), np.uint8)
    data = ps.tensors({"image": [png(colour)] * 2000}).map(row(data=ps.decode_image()))
    here = np.array([np.asarray(e["image"])[0, 0] for e in data.iterate(seed=1)]).astype(float)
    jitter, picture = vision.transforms.ColorJitter(0.4, 0.3, 0.2, 0.1), torch.from_numpy(colour.transpose(2, 0, 1))
    there = np.array([jitter(picture)[:, 0, 0].numpy() for _ in range(2000)]).astype(float)
    assert np.abs(here.mean(0) - there.mean(0)).max() < 6 and np.abs(here.std(0) / there.std(0) - 1).max() < 0.1
    low, high = (np.percentile(here, p, 0) - np.percentile(there, p, 0) for p in (5, 95))
    assert here.std(0).min() > 15 and np.abs([low, high]).max() < 12


@torch_row("RandomCrop(32, padding=4)")
def _(row, vision):
    """The crop is one of the 81 that torchvision draws from, and most of them occur."""
    pixels, functional = np.random.default_rng(1).integers(1, 255, (32, 32, 3), dtype=np.uint8), vision.transforms.functional
    data = ps.tensors({"image": [png(pixels)] * 400}).map(row(data=ps.decode_image()))
    ours = {np.asarray(e["image"]).tobytes() for e in data.iterate(seed=1)}
    padded = functional.pad(functional.to_pil_image(pixels), 4)
    theirs = {np.asarray(functional.crop(padded, y, x, 32, 32)).tobytes() for y in range(9) for x in range(9)}
    assert ours <= theirs and len(ours) > 70


@torch_row("RandAugment, RandomErasing")
def _(row, torch, images, Loader):
    assert row.cell == "nothing"
    assert not {"rand_augment", "random_erasing", "erase", "rotate"} & set(dir(ps.ImageOps))
    transforms = pytest.importorskip("torchvision.transforms.v2")
    erase = transforms.Compose([transforms.RandAugment(), transforms.RandomErasing(1)])
    data = ps.images(images).map(ps.decode_image().resize(32).cast("u8", "chw"))
    batch = next(iter(Loader(data, 12)))["image"]
    changed = erase(batch.clone())
    assert changed.shape == batch.shape and changed.dtype == batch.dtype and not torch.equal(changed, batch)


# tf.data: docs/from-tensorflow.md and tests/golden have what TensorFlow gives.


@tf_row("from_tensor_slices({\"x\": x})")
def _(row):
    assert values(row(x=np.arange(6).reshape(3, 2)), "x") == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(TypeError):
        ps.tensors(np.arange(3))


@tf_row("from_generator(g, signature)")
def _(row):
    data = row(g=lambda: ({"x": np.arange(n)} for n in (2, 0, 1)))
    assert values(data, "x", epochs=2) == [[0, 1], [], [0]] * 2
    with pytest.raises(ps.UserError, match="not a dict"):
        next(row(g=lambda: [(1, 2)]).iterate())


@tf_row("TFRecordDataset(files).map(parse)")
def _(row, tmp_path):
    for k in range(2):
        (tmp_path / f"{k}.tfrecord").write_bytes(b"".join(tfrecord(example(x=[k, i])) for i in range(3)))
    expected = [[k, i] for k in range(2) for i in range(3)]
    assert values(row(files=[tmp_path / "0.tfrecord", tmp_path / "1.tfrecord"]), "x") == expected
    assert values(row(files=str(tmp_path / "*.tfrecord")), "x") == expected


@tf_row("interleave(f, cycle_length=2)")
def _(row):
    data = row(data=ps.tensors({"value": [4, 5, 6]}), spec={"value": ("i64", [])},
               f=lambda e: ps.tensors({"value": [e["value"].item()] * e["value"].item()}))
    assert "".join(map(str, values(data))) == "454545455666666"


@tf_row("shuffle(100)")
def _(row):
    order = values(row(data=ps.range(1000)), seed=1)
    assert sorted(order) == list(range(1000)) and order != list(range(1000))
    assert min(place - value for place, value in enumerate(order)) >= -99  # no element comes 100 places early
    whole = values(ps.range(1000).shuffle(), seed=1)
    assert sorted(whole) == list(range(1000)) and min(place - value for place, value in enumerate(whole)) < -500


@tf_row("map(f, AUTOTUNE)")
def _(row):
    together, calls = threading.Barrier(4), itertools.count()

    def square(element):
        if next(calls) < 4:  # four calls run at a time
            together.wait(20)
        return {"value": element["value"].item() ** 2}

    assert values(row(data=ps.range(500), f=square), threads=4) == [i * i for i in range(500)]


@tf_row("deterministic=False")
def _(row):
    data = row(data=ps.range(500), f=lambda e: e)
    assert sorted(values(data, threads=4)) == list(range(500))
    with pytest.raises(ps.InvalidArgument):
        data.shuffle()  # it has no index any more


@tf_row("batch(4).prefetch(AUTOTUNE)")
def _(row):
    made = threading.Event()

    def note(element):
        if element["value"].item() == 5:
            made.set()
        return element

    run = row(data=ps.range(10).map(note)).iterate()
    assert run.next()["value"].tolist() == [0, 1, 2, 3]
    assert made.wait(20)  # an element of the next batch, before that is asked for
    assert [b["value"].tolist() for b in run] == [[4, 5, 6, 7], [8, 9]]


@tf_row("padded_batch(2, padding_values=-1)")
def _(row):
    assert values(row(data=sequences([1, 2, 3, 4])), "x") == [[[1, -1], [1, 2]], [[1, 2, 3, -1], [1, 2, 3, 4]]]


@tf_row("bucket_by_sequence_length(f, [3, 5], [2, 2, 2])")
def _(row):
    rows = [[0], [1, 2, 3, 4], [5, 6, 7], [7, 8, 9, 10, 11], [13, 14, 15, 16, 19, 20], [21, 22]]
    data = ps.generate(lambda: [{"x": np.array(r)} for r in rows], {"x": ("i64", [None])})
    assert values(row(data=data), "x") == [
        [[1, 2, 3, 4], [5, 6, 7, 0]], [[7, 8, 9, 10, 11, 0], [13, 14, 15, 16, 19, 20]], [[0, 0], [21, 22]]]
    assert values(data.bucket_by_length(tokens=8), "x")[0] == [[0, 0, 0, 0], [1, 2, 3, 4]]


@tf_row("ragged_batch(2)")
def _(row):
    batches = list(row(data=sequences([0, 1, 2, 3])).iterate())
    assert [b["x"].tolist() for b in batches] == [[1], [1, 2, 1, 2, 3]]
    assert [b["x.row_splits"].tolist() for b in batches] == [[0, 0, 1], [0, 2, 5]]


@tf_row("cache(file)")
def _(row, tmp_path):
    (tmp_path / "a.txt").write_text("1\n2\n")
    calls = []

    def data():
        lines = ps.text_lines(tmp_path / "a.txt").map(lambda e: calls.append(1) or e, name="noted")
        return row(data=lines, file=tmp_path / "cache")

    assert values(data(), "line") == values(data(), "line") == [b"1", b"2"] and len(calls) == 2
    (tmp_path / "a.txt").write_text("3\n4\n5\n")
    assert values(data(), "line") == [b"3", b"4", b"5"] and len(calls) == 5


@tf_row("snapshot(folder)")
def _(row, tmp_path):
    calls = []
    for _ in range(2):
        data = row(data=ps.range(5).map(lambda e: calls.append(1) or e), folder=tmp_path / "snapshots")
        assert values(data) == list(range(5))
    assert len(calls) == 5 and len(list((tmp_path / "snapshots").iterdir())) >= 1


@tf_row("shard(3, 1)")
def _(row):
    def bad(element):
        if element["value"].item() == 0:
            raise ValueError
        return element

    assert values(row(data=ps.range(10))) == [1, 4, 7]
    assert values(row(data=ps.range(10).map(bad))) == [1, 4, 7]  # in TensorFlow: 2, 5, 8


@tf_row("repeat(2)")
def _(row):
    batches = [b["value"].tolist() for b in row(data=ps.range(3).batch(2))]
    assert batches == [[0, 1], [2], [0, 1], [2]]
    assert values(ps.range(3).repeat(2).batch(2)) == [[0, 1], [2, 0], [1, 2]]


@tf_row("sample_from_datasets([a, b], [0.9, 0.1])")
def _(row):
    mixed = values(row(a=ps.range(1000), b=ps.range(1000, 2000)), seed=1)
    assert sorted(mixed) == list(range(2000))  # one that has ended is left out
    assert 0.85 < sum(value < 1000 for value in mixed[:500]) / 500 < 0.95


def failing(element):
    if element["value"].item() in (1, 4):
        raise ValueError("bad")
    return element


@tf_row("ignore_errors()")
def _(row):
    assert values(row(data=ps.range(6).map(failing))) == [0, 2, 3, 5]


@tf_row("train.Checkpoint(iterator)")
def _(row):
    data = ps.tensors({"value": np.arange(20_000)}).shuffle(buffer=10_000).batch(10)
    run = data.iterate(seed=1, exact_state=True)
    for _ in range(30):
        next(run)
    state = row(run=run)
    assert len(state) < 1000 < 8 * 10_000  # without the 10,000 values
    rest = [b["value"].tolist() for b in run]
    assert [b["value"].tolist() for b in data.restore(state)] == rest and len(rest) == 1970


# WebDataset.


@pytest.fixture
def shards(tmp_path, monkeypatch):
    """Two tar shards of 6 samples, each a PNG and a class."""
    monkeypatch.chdir(tmp_path)
    for k in range(2):
        with tarfile.open(f"a-{k:03}.tar", "w") as tar:
            for i in range(6):
                pixels = np.full((3, 4, 3), (20 * i, 90 * k, 7), np.uint8)
                for extension, data in (("png", png(pixels)), ("cls", b"%d" % i)):
                    info = tarfile.TarInfo(f"{k}{i}.{extension}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return tmp_path


def keys(dataset, **options):
    return [e["key"].item().decode() for e in dataset.iterate(**options)]


KEYS = [f"{k}{i}" for k in range(2) for i in range(6)]


@web_row('WebDataset("a-{000..001}.tar")')
def _(row, shards):
    assert keys(row()) == keys(ps.tar("a-*.tar")) == KEYS
    assert values(row(), "label") == [0, 1, 2, 3, 4, 5] * 2


@web_row("shuffle(1000)")
def _(row, shards):
    order = keys(row(data=ps.tar("a-*.tar")), seed=1)
    assert order != KEYS and sorted(order) == KEYS and {key[0] for key in order[:6]} == {"0", "1"}


@web_row('decode("rgb8")')
def _(row, shards):
    element = next(row(data=ps.tar("a-001.tar").skip(3)).iterate())
    image = np.asarray(element["image"])
    assert image.dtype == np.uint8 and image.shape == (3, 4, 3) and image[0, 0].tolist() == [60, 90, 7]


@web_row('to_tuple("jpg", "cls")')
def _(row, shards):
    data = row(data=ps.tar("a-*.tar"))
    assert list(data.spec) == ["image", "label"] and values(data, "label") == [0, 1, 2, 3, 4, 5] * 2


@web_row("map_dict(json=f)")
def _(row):
    data = ps.tensors({"json": ['{"n": 4}', '{"n": 5}']})
    parsed = row(data=data, f=lambda e: {"n": json.loads(bytes(e["json"]))["n"]})
    assert list(parsed.spec) == ["json", "n"] and values(parsed, "n") == [4, 5]


@web_row("select(f)")
def _(row):
    assert values(row(data=ps.range(6), f=lambda e: e["value"].item() % 2 == 1)) == [1, 3, 5]


@web_row("batched(64, partial=False)")
def _(row):
    assert [len(batch) for batch in values(row(data=ps.range(150)))] == [64, 64]


@web_row("split_by_node, split_by_worker")
def _(row, shards):
    """Five ranks of two shards: each has its samples, and as many as the others or one more."""
    parts = [keys(row(data=ps.tar("a-*.tar"), n=5, r=r)) for r in range(5)]
    assert sorted(flat(parts)) == KEYS and [len(part) for part in parts] == [3, 3, 2, 2, 2]


@web_row("resampled=True, with_epoch(10)")
def _(row):
    epochs = row(data=ps.range(6)).iterate(seed=1, epochs=3)
    for epoch in range(3):
        values_of_epoch = [e["value"].item() for e in iter(epochs.next, None)]
        assert len(values_of_epoch) == 10 and sorted(values_of_epoch[:6]) == list(range(6))
        assert len(set(values_of_epoch[6:])) == 4
        assert epochs.next_epoch() == (epoch < 2)


@web_row("RandomMix([a, b], [0.9, 0.1])")
def _(row):
    mixed = values(row(a=ps.range(1000), b=ps.range(1000, 2000)).take(500), seed=2)
    assert 0.85 < sum(value < 1000 for value in mixed) / 500 < 0.95


@web_row("handler=warn_and_continue")
def _(row, tmp_path):
    run = row(data=ps.range(6).map(failing), file=str(tmp_path / "bad.jsonl"))
    assert [e["value"].item() for e in run] == [0, 2, 3, 5]
    run.close()
    bad = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert len(bad) == 2 and all("bad" in str(line) for line in bad)
    with pytest.raises(ps.UserError, match="27 of 40 elements are bad and were skipped, more than half"):
        list(row(data=ps.range(40).map(lambda e: 1 // (e["value"].item() % 3 // 2) and e), file=""))


@web_row("pipe:curl URL")
def _(row, shards):
    class Handler(http.server.BaseHTTPRequestHandler):
        """Serves ranges of files, as object stores do."""

        protocol_version = "HTTP/1.1"

        def do_HEAD(self):
            self.do_GET()

        def do_GET(self):
            data = (shards / self.path[1:]).read_bytes()
            part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            begin, last = (int(part[1]), min(int(part[2] or len(data)), len(data) - 1)) if part else (0, len(data) - 1)
            self.send_response(206 if part else 200)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", '"1"')
            if part:
                self.send_header("Content-Range", f"bytes {begin}-{last}/{len(data)}")
            self.send_header("Content-Length", str(last + 1 - begin))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data[begin:last + 1])

        def log_message(self, *words):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            assert keys(row(url=f"http://127.0.0.1:{server.server_port}/a-001.tar")) == KEYS[6:]
        except ps.InvalidArgument as error:
            assert "not supported by this build" in str(error)
            pytest.skip(str(error))
        finally:
            server.shutdown()
    with pytest.raises(ps.NotFound, match="pipe:cat"):
        ps.tar("pipe:cat a-000.tar")


@web_row("ShardWriter")
def _(row, shards):
    """What tarfile writes is read: `shards` is made by it. The module writes none."""
    assert row.cell == "nothing" and not [name for name in dir(ps) if re.match("(?i)[a-z]*(write|pack)", name)]
    assert len(keys(ps.tar("a-*.tar"))) == 12


# FFCV.


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder of 10 JPEGs in 2 classes, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for i, element in enumerate(ps.synthetic("count=10,image=320x300")):
        path = tmp_path / "photos" / f"c{i % 2}" / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(element["image"]))
    return tmp_path / "photos"


def pack(row, program):
    """Runs the row's command with the program of this module."""
    command = row.codes[0]
    row.left.remove(command)
    words = shlex.split(command)
    assert words[0] == "penstock"
    subprocess.run([program, *words[1:], "--quiet"], check=True, timeout=60, capture_output=True)


@ffcv_row("DatasetWriter")
def _(row, photos, program):
    pack(row, program)
    records, files = ps.image_records("photos.pnr"), ps.images("photos")
    assert keys(records) == keys(files) and values(records, "label") == values(files, "label")
    for here, there in zip(records.map(ps.decode_image()), files.map(ps.decode_image()), strict=True):
        assert np.array_equal(np.asarray(here["image"]), np.asarray(there["image"]))


@ffcv_row("OrderOption.RANDOM")
def _(row, photos, program, Loader):
    pack(Row("`penstock pack --images photos --jpeg coefficients --out photos.pnr`"), program)
    loader = row(file="photos.pnr", ops=ps.decode_image().resize(8),
                 Loader=lambda data, size, **options: Loader(data, size // 16, **options))
    orders = [[label for b in loader for label in b["key"]] for _ in range(2)]
    assert [len(order) for order in orders] == [8, 8] and orders[0] != orders[1]
    assert all(len(set(order)) == 8 and set(order) <= {k.encode() for k in keys(ps.images("photos"))} for order in orders)


@ffcv_row("OrderOption.QUASI_RANDOM")
def _(row):
    """A permutation of everything, before any element was read."""
    data = row(data=ps.range(1 << 40))
    run = data.iterate(seed=1)
    first = [next(run)["value"].item() for _ in range(5)]
    assert len(set(first)) == 5 and max(first) > 1 << 36
    assert sorted(values(row(data=ps.range(100)), seed=1)) == list(range(100))


@ffcv_row("RandomResizedCropRGBImageDecoder((224, 224))")
def _(row, photos):
    crops = [np.asarray(e["image"]) for e in ps.images("photos").map(row()).iterate(seed=1)]
    assert {crop.shape for crop in crops} == {(224, 224, 3)} and crops[0].dtype == np.uint8
    again = [np.asarray(e["image"]) for e in ps.images("photos").map(row()).iterate(seed=2)]
    assert not any(np.array_equal(here, there) for here, there in zip(crops, again))


@ffcv_row("CenterCropRGBImageDecoder((224, 224), 224/256)")
def _(row):
    """The middle 7/8 of the short side: of a ramp over 512 columns and rows those from 32 to 479."""
    ramp = np.arange(512) // 2
    grid = np.stack(np.broadcast_arrays(ramp[None], ramp[:, None], 0), -1).astype(np.uint8)
    crop = np.asarray(next(ps.tensors({"image": [png(grid)]}).map(row(data=ps.decode_image())).iterate())["image"])
    assert crop.shape == (224, 224, 3)
    assert np.abs(crop[112, :, 0].astype(int) - (16 + np.arange(224))).max() <= 1
    assert np.abs(crop[:, 112, 1].astype(int) - (16 + np.arange(224))).max() <= 1


@ffcv_row("NormalizeImage(m, s, np.float16), ToTorchImage()")
def _(row, photos):
    m, s = np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])  # of FFCV's example
    plain = np.stack([np.asarray(e["image"]) for e in ps.images("photos").map(ps.decode_image())])
    ours = np.stack([np.asarray(e["image"]) for e in ps.images("photos").map(row(data=ps.decode_image(), m=m, s=s))])
    assert ours.dtype == np.float16
    assert np.abs(ours.astype(np.float64) - ((plain - m) / s).transpose(0, 3, 1, 2)).max() < 2e-3


@ffcv_row("ToDevice(device)")
def _(row):
    feed = row(data=ps.range(130), device="host:0")
    rows = []
    while not feed.ended():
        batch = feed.next()
        if batch is not None:
            assert batch.device == "host:0"
            rows.append((batch.valid_rows, np.from_dlpack(batch["value"]).tolist()[:batch.valid_rows]))
            del batch
    assert rows[:2] == [(64, list(range(64))), (64, list(range(64, 128)))]
    feed.close()


@ffcv_row("indices=i")
def _(row):
    assert values(row(data=ps.range(9), i=[4, 0])) == [4, 0]


@ffcv_row("distributed=True")
def _(row, Loader):
    parts = [[b["value"].tolist() for b in row(data=ps.range(129), Loader=Loader, r=r, n=2)] for r in range(2)]
    assert [len(part) for part in parts] == [1, 1] and len(set(flat(flat(parts)))) == 128


@ffcv_row("os_cache=True")
def _(row):
    assert row.cell == "nothing"
    with pytest.raises(TypeError):
        ps.range(3).iterate(os_cache=True)


@pytest.mark.parametrize("key", sorted(ROWS.keys() | TESTS.keys()), ids=" ".join)
def test_rows_of_the_page(key, request):
    assert key in TESTS, "a row of docs/python.md without a test"
    assert key in ROWS, "a test without a row in docs/python.md"
    test, row = TESTS[key], ROWS[key]
    arguments = {name: request.getfixturevalue(name) for name in inspect.signature(test).parameters if name != "row"}
    test(row, **arguments)
    assert row.left == [], "code of the row that the test doesn't run"
