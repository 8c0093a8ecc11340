"""In the place of torch.utils.data.DataLoader: batches of tensors without a copy."""

from __future__ import annotations

import json
from typing import Any, Iterator, Optional, Union

import torch

from . import Dataset, Element, InvalidArgument, Report, Tensor
from . import Iterator as Run
from . import range as numbers


def tensor(value: Tensor) -> Any:
    """Returns the values as a tensor of PyTorch that shares their memory; texts as a list."""
    return value.tolist() if value.dtype == "bytes" else torch.from_dlpack(value)


def tensors(batch: Element) -> dict[str, Any]:
    """Returns the components of a batch by name, as `tensor` does."""
    return {name: tensor(value) for name, value in batch.items()}


class Loader:
    """Gives an epoch of batches each time that it is iterated over, as a DataLoader does.

    A batch is a dict of tensors that share the engine's memory. Keep few of them at a time, and
    `clone()` what is kept for long. The order depends on `seed` and the epoch alone, not on
    threads, ranks or restarts. `options` are those of `Dataset.iterate`.

    With a `batch_size`, the loader shards (`rank` of `ranks`) and batches the dataset; without one
    the dataset makes batches. With `drop_last` or `pad` all ranks have equally many batches, as a
    synchronous trainer needs; otherwise some may have one more. No element comes twice: `pad` fills
    up the last batches with rows of zeros, and adds `valid`, which is False for these. With
    `on_error="skip"` only `pad` keeps the ranks together.

    `pin_memory` copies tensors to pinned memory where CUDA is. A loop that is left early ends its
    epoch; a loader has one loop at a time.
    """

    _ELSEWHERE = {
        "shuffle": "call dataset.shuffle()", "sampler": "call dataset.select()",
        "batch_sampler": "call dataset.select()", "generator": "give a seed",
        "collate_fn": "call dataset.map() or padded_batch()", "num_workers": "give threads",
        "worker_init_fn": "call dataset.map(fn, random=True)", "prefetch_factor": "give slots",
        "persistent_workers": "there are no processes", "timeout": "see the report",
        "multiprocessing_context": "there are no processes"}

    def __init__(self, dataset: Dataset, batch_size: Optional[int] = None, *, drop_last: bool = False,
                 pad: bool = False, pin_memory: bool = False, rank: int = 0, ranks: int = 1,
                 seed: int = 0, **options: Any) -> None:
        for name in options:
            if name in self._ELSEWHERE:
                raise TypeError(f"Loader has no {name}: {self._ELSEWHERE[name]}")
        if not isinstance(dataset, Dataset):
            raise TypeError(f"dataset must be a penstock.Dataset, not {type(dataset).__name__}")
        if not 0 <= rank < ranks:
            raise InvalidArgument(f"rank must be in [0, {ranks}), not {rank}")
        if pad and (drop_last or "valid" in dataset.spec):
            raise InvalidArgument("pad adds a component valid, and goes without drop_last")
        if batch_size is not None:
            count = dataset.cardinality()
            if drop_last and ranks > 1 and count == -2:
                raise InvalidArgument("drop_last with ranks needs a dataset whose length is known; pad does not")
            # One rank, too: a state without a shard can't be resumed by more of them.
            dataset = dataset.shard(ranks, rank).batch(batch_size, drop_remainder=drop_last)
            least = count // ranks // batch_size
            if pad:
                dataset = dataset.pad_batches()
            elif drop_last and 0 <= least < -(-count // ranks) // batch_size:
                dataset = dataset.take(least)  # the other ranks have no more
        elif ranks > 1 or drop_last or pad:
            raise InvalidArgument("rank, ranks, drop_last and pad need a batch_size")
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self._pad, self._pin = pad, pin_memory and torch.cuda.is_available()
        self._options = {"seed": seed, "epochs": 1 << 40, **options}
        try:
            numbers(0).explain(**self._options)
        except TypeError as error:
            raise TypeError(f"not options of Dataset.iterate: {options}") from error
        self._run: Optional[Run] = None
        self._begun = False  # the current epoch is delivered, or was
        self._over = False  # to its end
        self._epoch: Optional[int] = None  # chosen for the next loop
        self._loaded = False  # a state, behind which no loop has begun
        self._loops = 0

    def __len__(self) -> int:
        """The number of batches of an epoch."""
        count = self.dataset.cardinality()
        if count < 0:
            raise TypeError("the number of batches is " + ("infinite" if count == -1 else "not known"))
        return count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self._loops += 1
        loop, run = self._loops, self._open()
        if self._begun and self._epoch is None:
            run.next_epoch()
        while self._epoch is not None and run.epoch < self._epoch:
            if not run.next_epoch():
                return  # there are not so many epochs
        self._epoch, self._begun, self._over, self._loaded = None, True, False, False
        while (batch := run.next()) is not None:
            values = tensors(batch)
            if self._pad:
                values["valid"] = torch.arange(self.batch_size or 0) < batch.valid_rows
            if self._pin:
                values = {name: value if isinstance(value, list) else value.pin_memory()
                          for name, value in values.items()}
            del batch
            yield values
            del values
            if loop != self._loops:
                raise RuntimeError("another loop over this loader has begun")
        self._over = True

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next loop, as DistributedSampler does. Without it epochs follow
        each other. The epoch of a state that was just loaded continues."""
        run = self._open()
        if self._loaded and epoch == self._epoch:
            return
        if epoch < run.epoch or (epoch == run.epoch and self._begun):
            self.close()
        self._epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Returns the position behind the batches that were delivered."""
        within = self._begun and not self._over
        return {**self._open().state_dict(), "begun": self._begun, "epoch":
                self._open().epoch if within and self._epoch is None else self._epoch}

    def load_state_dict(self, state: Union[dict[str, Any], list[dict[str, Any]]]) -> None:
        """Continues there: in the middle of an epoch, the next loop gives its rest. The state is
        that of this rank, or the list of those of all ranks if there was another number of them,
        with the same `batch_size` and without `pad`, or `drop_last` of uneven data. If the state
        does not fit, the loader stays where it is."""
        states = state if isinstance(state, list) else [state]
        if not states or not all({"penstock", "begun", "epoch"} <= each.keys() for each in states):
            raise InvalidArgument("this is no result of Loader.state_dict")
        begun, epoch = states[0]["begun"], states[0]["epoch"]
        if any((each["begun"], each["epoch"]) != (begun, epoch) for each in states):
            raise InvalidArgument("the ranks stopped in different places")
        saved = [each["penstock"] for each in states]
        run = self.dataset.restore(saved if isinstance(state, list) else saved[0], **self._options)
        self.close()
        self._run, self._loaded = run, True
        self._options["seed"] = json.loads(self._run.report().json)["seed"]  # for epochs before this one
        self._begun, self._epoch = begun, epoch

    def report(self) -> Report:
        """Returns the report of the run."""
        return self._open().report()

    def close(self) -> None:
        """Ends the run and its threads."""
        if self._run is not None:
            self._run.close()
        self._run, self._begun, self._over, self._epoch, self._loaded = None, False, False, None, False

    def _open(self) -> Run:
        if self._run is None:
            self._run = self.dataset.iterate(**self._options)
        return self._run
