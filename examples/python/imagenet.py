"""Trains an image classifier on one device or several, and resumes where it was stopped.

    python imagenet.py TRAIN [TEST] --model resnet18 --epochs 90 --checkpoint last.pt --resume
    torchrun --nproc-per-node 8 imagenet.py TRAIN [TEST] ...

TRAIN and TEST are folders of class folders, or patterns of tar shards (WebDataset), of TFRecords
(image/encoded, image/class/label), or of records of `penstock pack`. --batch is that of a rank.
--classes is above every label: 1001 for TFRecords that count from 1.
"""

import argparse
import math
import os
import sys
import time
import zlib
from typing import Any

import torch
from torch import distributed as dist, nn

import penstock as ps
from penstock.torch import Loader

RANK, RANKS, LOCAL_RANK = (int(os.environ.get(*each)) for each in (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0)))


def source(path: str) -> ps.Dataset:
    """Returns encoded images, labels, and the numbers of the records."""
    if not os.path.isdir(path) and not path.endswith((".tar", ".pnr")):
        features: dict[str, tuple[Any, ...]] = {"image": ("image/encoded", "bytes", []),
                                                "label": ("image/class/label", "i64", [])}
        return ps.tfrecord(path).map_op(ps.parse_example(features)).enumerate()
    read = ps.images if os.path.isdir(path) else ps.tar if path.endswith(".tar") else ps.image_records
    return read(path).keep(["image", "label"]).enumerate()


def build(name: str, classes: int) -> Any:
    if name == "tiny":  # for tests
        return nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, classes))
    import torchvision
    return torchvision.models.get_model(name, num_classes=classes)


def digest(images: Any, labels: Any, indices: Any) -> int:
    """Adds up checksums of samples, in any order. `shard` gives each element of an epoch to one rank; its pixels
    depend on seed, epoch and element alone. So the sums of all ranks add up to one number for any number of ranks."""
    return sum(zlib.crc32(image.numpy(), zlib.crc32(f"{index} {label}".encode()))
               for image, label, index in zip(images, labels.tolist(), indices.tolist()))


def save(path: str, step: int, shared: dict[str, Any], own: dict[str, Any]) -> None:
    """Writes a checkpoint with what each rank has of its own; a crash leaves the old one or the new one."""
    ranks: list[Any] = [own] * RANKS
    if RANKS > 1:
        dist.all_gather_object(ranks, own)
    if RANK == 0:
        with open(path + ".part", "wb") as file:
            torch.save({**shared, "ranks": ranks}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".part", path)
        print(f"checkpoint at step {step}", flush=True)


def show(name: str, sums: list[Any], device: Any, rest: str) -> None:
    """Prints sums over all ranks: images, their digest, and a value."""
    whole, value = torch.tensor(sums[:2], device=device), torch.tensor(float(sums[2]), device=device)
    for numbers in (whole, value) if RANKS > 1 else ():
        dist.all_reduce(numbers)
    if RANK == 0:
        print(f"{name}: {whole[0]} images, digest {int(whole[1]):x}, {value / whole[0]:.4f} {rest}", flush=True)


def main(args: argparse.Namespace) -> None:
    cuda = torch.cuda.is_available() and not args.cpu
    device = torch.device("cuda", LOCAL_RANK) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    if RANKS > 1:
        dist.init_process_group("nccl" if cuda else "gloo")
    options = dict(batch_size=args.batch, rank=RANK, ranks=RANKS, pin_memory=cuda, seed=args.seed, threads=args.threads)
    images = source(args.train)
    crop = ps.decode_image().random_resized_crop(args.size).random_flip().normalize()
    # All ranks must take equally many steps: `pad` fills the last batches up. Its rows of zeros would spoil
    # BatchNorm's statistics, so valid rows come again in their place, without weight.
    train = Loader(images.shuffle().map(crop), pad=True, **options)
    middle = ps.decode_image().resize_short(args.size * 8 // 7).center_crop(args.size).normalize()
    test = Loader(source(args.test).map(middle), **options) if args.test else None
    torch.manual_seed(args.seed)
    plain = build(args.model, args.classes).to(device)
    model = nn.parallel.DistributedDataParallel(plain) if RANKS > 1 else plain
    optimizer = torch.optim.SGD(plain.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    epoch = step = count = fed = 0
    loss_sum: Any = 0.0
    if args.resume and os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint, map_location=device)
        if len(saved["ranks"]) != RANKS:
            sys.exit(f"imagenet.py: {args.checkpoint} is of {len(saved['ranks'])} ranks, not {RANKS}")
        plain.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        own = saved["ranks"][RANK]
        epoch, step, count, fed, loss_sum = own["numbers"]
        train.load_state_dict(own["loader"])
    def keep(numbers: Any) -> None:
        save(args.checkpoint, step, {"model": plain.state_dict(), "optimizer": optimizer.state_dict()},
             {"loader": train.state_dict(), "numbers": numbers})

    for epoch in range(epoch, args.epochs):
        model.train()
        begin, before = time.perf_counter(), count
        for batch in train:
            rows = int(batch["valid"].sum())
            if rows > 0:  # otherwise the images before, which are on the device
                again = slice(None) if rows == args.batch else torch.arange(args.batch) % rows
                pixels = batch["image"][again].to(device, non_blocking=True)
            labels = batch["label"].to(device, non_blocking=True)
            with torch.autocast(device.type, torch.bfloat16, enabled=cuda):
                losses = nn.functional.cross_entropy(model(pixels), labels, reduction="none")[:rows]
            optimizer.param_groups[0]["lr"] = args.lr * (1 + math.cos(math.pi * step / len(train) / args.epochs)) / 2
            optimizer.zero_grad()
            (losses.sum() / args.batch).backward()
            optimizer.step()
            step, count, loss_sum = step + 1, count + rows, loss_sum + losses.detach().sum()
            if args.digest:
                fed += digest(batch["image"][:rows], batch["label"][:rows], batch["index"][:rows])
            if args.checkpoint and step % args.every == 0:
                keep((epoch, step, count, fed, float(loss_sum)))
        rate = RANKS * (count - before) / (time.perf_counter() - begin)
        show(f"epoch {epoch}", [count, fed, loss_sum], device, f"loss, {rate:.0f} images/s. {train.report().verdict}")
        model.eval()
        loss_sum = count = fed = tested = checked = right = 0
        if args.checkpoint:
            keep((epoch + 1, step, 0, 0, 0.0))
        with torch.inference_mode():  # each image once, so ranks may differ in their steps: not by `model`
            for batch in test or ():
                right += int((plain(batch["image"].to(device)).argmax(1).cpu() == batch["label"]).sum())
                tested += len(batch["label"])
                checked += digest(batch["image"], batch["label"], batch["index"]) if args.digest else 0
        if test:
            show("test", [tested, checked, right], device, "right")
    if RANKS > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("train")
    parser.add_argument("test", nargs="?")
    for name, value in (("epochs", 90), ("batch", 64), ("size", 224), ("classes", 1000), ("threads", 0),
                        ("seed", 0), ("every", 1000), ("lr", 0.1), ("model", "resnet18"), ("checkpoint", "")):
        parser.add_argument(f"--{name}", type=type(value), default=value)
    for name in ("resume", "digest", "cpu"):
        parser.add_argument(f"--{name}", action="store_true")
    try:
        main(parser.parse_args())
    except ps.Error as error:
        sys.exit(f"imagenet.py: {error}")
