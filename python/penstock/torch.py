"""In the place of torch.utils.data.DataLoader: batches of tensors without a copy."""

from __future__ import annotations

from typing import Any, Iterator, Optional, Union

import torch

from . import Dataset, Element, InvalidArgument, Tensor
from . import Iterator as Run

Value = Union[torch.Tensor, "list[bytes]"]


def tensor(value: Tensor) -> Value:
    """Returns the values as a tensor of PyTorch that shares their memory; texts as a list."""
    return value.tolist() if value.dtype == "bytes" else torch.from_dlpack(value)


def tensors(batch: Element) -> dict[str, Value]:
    """Returns the components of a batch by name, as `tensor` does."""
    return {name: tensor(value) for name, value in batch.items()}


class Loader:
    """Gives an epoch of batches each time that it is iterated over, as a DataLoader does.

    A batch is a dict of tensors that share the engine's memory. Keep few of them at a time, and
    `clone()` what is kept for long. The order depends on `seed` and the epoch alone, not on
    threads, ranks or restarts. `options` are those of `Dataset.iterate`.

    With a `batch_size`, the loader shards (`rank` of `ranks`) and batches the dataset; without one
    the dataset makes batches. `pin_memory` copies tensors to pinned memory where CUDA is.
    """

    def __init__(self, dataset: Dataset, batch_size: Optional[int] = None, *, drop_last: bool = False,
                 pin_memory: bool = False, rank: int = 0, ranks: int = 1, seed: int = 0,
                 **options: Any) -> None:
        if batch_size is not None:
            if ranks > 1:
                dataset = dataset.shard(ranks, rank)
            dataset = dataset.batch(batch_size, drop_remainder=drop_last)
        elif ranks > 1 or drop_last:
            raise InvalidArgument("rank, ranks and drop_last need a batch_size")
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self._pin = pin_memory and torch.cuda.is_available()
        self._options = {"seed": seed, "epochs": 1 << 40, **options}
        self._run: Optional[Run] = None
        self._begun = False  # the current epoch has delivered something, or was restored within
        self._epoch: Optional[int] = None

    def __len__(self) -> int:
        """The number of batches of an epoch."""
        count = self.dataset.cardinality()
        if count < 0:
            raise TypeError("the number of batches is " + ("infinite" if count == -1 else "not known"))
        return count

    def __iter__(self) -> Iterator[dict[str, Value]]:
        run = self._open()
        if self._begun and self._epoch is None:
            run.next_epoch()
        while self._epoch is not None and run.epoch < self._epoch:
            run.next_epoch()
        self._epoch = None
        self._begun = True
        while (batch := run.next()) is not None:
            values = tensors(batch)
            if self._pin:
                values = {name: value if isinstance(value, list) else value.pin_memory()
                          for name, value in values.items()}
            del batch
            yield values
            del values

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next iteration, as DistributedSampler does. Without it epochs
        follow each other."""
        run = self._open()
        if epoch < run.epoch or (epoch == run.epoch and self._begun):
            self.close()
        self._epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Returns the position behind the batches that were delivered."""
        return {**self._open().state_dict(), "within": self._begun}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues there: the next iteration gives the rest of that epoch. The state may come
        from one rank of this number; `Dataset.restore` takes those of another number."""
        self.close()
        self._run = self.dataset.restore(state["penstock"], **self._options)
        self._epoch = self._run.epoch if state["within"] else None

    def report(self) -> Any:
        """Returns the report of the run."""
        return self._open().report()

    def close(self) -> None:
        """Ends the run and its threads."""
        if self._run is not None:
            self._run.close()
        self._run, self._begun, self._epoch = None, False, None

    def _open(self) -> Run:
        if self._run is None:
            self._run = self.dataset.iterate(**self._options)
        return self._run
