"""A rank of a small training, for test_kills.py: training.py FOLDER CHECKPOINTS STORE RANK RANKS EPOCHS.

Tells its parent of each batch, and trains on it only when the parent has read that: so the parent knows all that a process
has seen which it kills. Lines are `resumed PLACE`, `batch PLACE DIGEST…` (one for each image), `saved PLACE`, `model DIGEST`;
a place is the number of images that all ranks had before.
"""

import hashlib
import os
import pathlib
import sys

import torch
import torch.distributed

import penstock as ps
import penstock.torch

BATCH = 8


def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def digest(*tensors):
    sums = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        sums.update(tensor.detach().contiguous().numpy().tobytes())
    return sums.hexdigest()


def newest(folder):
    """The checkpoints of all ranks at the last place that all of them saved."""
    places = {}
    for file in folder.glob("*.pt"):
        place, _, ranks = map(int, file.stem.split("-"))
        places.setdefault((place, ranks), []).append(file)
    whole = [(place, sorted(files)) for (place, ranks), files in places.items() if len(files) == ranks]
    return [torch.load(file) for file in max(whole, default=(0, []))[1]]


def save(file, checkpoint):
    """Under its name there is a whole checkpoint or none, whenever the process dies."""
    with open(file.with_suffix(".new"), "wb") as new:
        torch.save(checkpoint, new)
        new.flush()
        os.fsync(new.fileno())
    os.replace(new.name, file)


def main(folder, checkpoints, store, rank, ranks, epochs):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if ranks > 1:
        torch.distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=ranks)
    dataset = ps.images(folder).shuffle().map(ps.decode_image().random_resized_crop(24).random_flip().normalize())
    loader = penstock.torch.Loader(dataset, BATCH, rank=rank, ranks=ranks, seed=7, threads=2)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(8 * 11 * 11, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    place = epoch = 0
    if saved := newest(checkpoints):
        place, epoch = saved[0]["place"], saved[0]["epoch"]
        model.load_state_dict(saved[0]["model"])
        optimizer.load_state_dict(saved[0]["optimizer"])
        states = [checkpoint["loader"] for checkpoint in saved]
        loader.load_state_dict(states[rank] if len(states) == ranks else states)
    tell("resumed", place)

    for epoch in range(epoch, epochs):
        for batch in loader:
            tell("batch", place, *(digest(*image) for image in zip(batch["image"], batch["label"])))
            os.read(0, 1)
            loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            if ranks > 1:
                for parameter in model.parameters():
                    torch.distributed.all_reduce(parameter.grad)
                    parameter.grad /= ranks
            optimizer.step()
            place += ranks * len(batch["image"])
            if place % (3 * BATCH) == 0:
                save(checkpoints / f"{place:06}-{rank}-{ranks}.pt",
                     {"place": place, "epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict(),
                      "loader": loader.state_dict()})
                tell("saved", place)
    tell("model", digest(*model.parameters()))


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))
