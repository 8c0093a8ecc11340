"""torchdata's own tests of state_dict, with penstock.torch.Loader in the place of its StatefulDataLoader:
torchdata_states.py FILE [NAME...]

FILE is test/stateful_dataloader/test_state_dict.py of github.com/pytorch/data, which is no part of this repository; NAME is
a class of it or Class.test. Needs torch, parameterized and expecttest. Prints a line for each test that did not pass, and
figures for tools/reliability.sh. Exits with 1 if a test failed.

The adapter translates arguments, and makes a Dataset of the test's own, whose items it pickles. All that is saved and
restored is what Loader saves. It makes two changes to states: bytes become text, because a test writes JSON, and whoever
reads the snapshot of a worker process in one learns that there is none, which skips that test.
"""

import base64
import copy
import pathlib
import pickle
import re
import sys
import threading
import types
import typing
import unittest

import numpy as np
import torch
from torch.utils import data

import penstock as ps
import penstock.torch

ITEM = {"item": ("bytes", [])}

NOT_APPLICABLE = {
    "TestNumWorkersMismatch_shard3": "wants a state refused for another number of workers: ours resumes with any number of threads",
    "TestMultiEpochState_shard0": "counts epochs in a state of the user's dataset: ours counts them in the run",
}
# The rest of these tests applies.
SNAPSHOTS_COUNTED = re.compile(r'self\.assertEqual\(len\(state0?\["_snapshot"\]\["_worker_snapshots"\]\), num_workers\)')


class Stateful(typing.Protocol):
    """As torchdata has it: the file's datasets are derived from it."""

    def state_dict(self): ...

    def load_state_dict(self, state): ...


class State(dict):
    """A state, of which a test asks for what a worker process saved."""

    def __missing__(self, key):
        raise unittest.SkipTest(f'reads "{key}" in a state: there are no worker processes, and no states of the user\'s objects')


class Randomness:
    """torch's global generator for one stream of items: seeded by the run, and apart from all others."""

    _one_at_a_time = threading.Lock()

    def __init__(self, seed):
        self._state = torch.Generator().manual_seed(seed).get_state()

    def call(self, function, *arguments):
        with self._one_at_a_time, torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._state)
            try:
                return function(*arguments)
            finally:
                self._state = torch.get_rng_state()


def packed(item):
    return {"item": pickle.dumps(item)}


def indexed(dataset, sampler, shuffle):
    """The items at the sampler's indices. A RandomSampler becomes shuffle()."""
    indices = ps.range(len(dataset))
    if shuffle or isinstance(sampler, data.RandomSampler):
        indices = indices.shuffle()
    elif sampler is not None:
        indices = ps.tensors({"value": np.array(list(copy.deepcopy(sampler)))})

    def item(element, seed):
        return packed(Randomness(seed).call(dataset.__getitem__, element["value"].item()))

    return indices.map(item, output=ITEM, random=True)


def streamed(dataset):
    """The items of a copy of the dataset, as a worker process has one. A stream is read from its begin on restore, so its
    randomness must depend on the run alone: the seed is an element, of which the stream is made."""

    def stream(element):
        def items():
            source = Randomness(element["seed"].item())
            iterator = source.call(iter, copy.deepcopy(dataset))
            end = object()
            while (item := source.call(next, iterator, end)) is not end:
                yield packed(item)

        return ps.generate(items, ITEM)

    seeds = ps.range(1).map(lambda element, seed: {"seed": np.array(seed, np.uint64)}, output={"seed": ("u64", [])}, random=True)
    return seeds.flat_map(stream, ITEM)


class StatefulDataLoader:
    """torchdata's arguments for a Loader."""

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, num_workers=0, collate_fn=None, pin_memory=False,
                 drop_last=False, worker_init_fn=None, generator=None, prefetch_factor=None, persistent_workers=False,
                 multiprocessing_context=None, in_order=True, snapshot_every_n_steps=1):
        # Not translated: there are no processes to keep or to start, and a state is never older than the last batch.
        del prefetch_factor, persistent_workers, multiprocessing_context, snapshot_every_n_steps
        if worker_init_fn is not None:
            raise unittest.SkipTest("sets a worker_init_fn: there are no worker processes")
        if not in_order:
            raise unittest.SkipTest("asks for batches out of order: the order never depends on speed")
        generator = generator or getattr(sampler, "generator", None)
        # As in a DataLoader: two without a generator have different orders.
        seed = generator.initial_seed() if generator else torch.empty((), dtype=torch.int64).random_().item()
        stream = isinstance(dataset, data.IterableDataset)
        items = streamed(dataset) if stream else indexed(dataset, sampler, shuffle)
        self._batch_size = batch_size
        self._collate = collate_fn or (data.default_convert if batch_size is None else data.default_collate)
        # Two tests compare states, not only what they resume: only exact ones have the same bytes in every run.
        self._loader = penstock.torch.Loader(items, batch_size, drop_last=drop_last, pin_memory=pin_memory, seed=seed,
                                             threads=max(num_workers, 1), exact_state=True)

    def __len__(self):
        return len(self._loader)

    def __iter__(self):
        try:
            for batch in self._loader:
                items = batch["item"]
                yield self._collate(pickle.loads(items) if self._batch_size is None else [pickle.loads(item) for item in items])
        except ps.UserError as error:
            raise error.__cause__ or error  # a DataLoader raises that of the dataset

    def state_dict(self):
        state = self._loader.state_dict()
        return State(state, penstock=base64.b64encode(state["penstock"]).decode())

    def load_state_dict(self, state):
        self._loader.load_state_dict({**state, "penstock": base64.b64decode(state["penstock"])})


def read(path):
    """The tests of the file, as a module."""
    library = types.ModuleType("torchdata.stateful_dataloader")
    library.Stateful, library.StatefulDataLoader = Stateful, StatefulDataLoader
    sys.modules["torchdata"], sys.modules[library.__name__] = types.ModuleType("torchdata"), library
    module = types.ModuleType("test_state_dict")
    sys.modules[module.__name__] = module
    text, changes = SNAPSHOTS_COUNTED.subn("pass", pathlib.Path(path).read_text(encoding="utf-8"))
    if changes != 2:
        sys.exit(f"{path} is of another version: it counts the snapshots of workers {changes} times, not 2")
    exec(compile(text, path, "exec"), module.__dict__)  # pylint: disable=exec-used
    for name, reason in NOT_APPLICABLE.items():
        setattr(module, name, unittest.skip(reason)(getattr(module, name)))
    return module


def main(path, names):
    module = read(path)
    loader = unittest.TestLoader()
    tests = loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(verbosity=1).run(tests)
    skipped = {}
    for test, reason in result.skipped:
        skipped.setdefault(reason, set()).add(getattr(test, "test_case", test).id())
    failed = {getattr(test, "test_case", test).id() for test, _ in result.failures + result.errors}
    left_out = set().union(*skipped.values()) - failed
    print(f"figure: torchdata's tests of state_dict: {result.testsRun} tests: {result.testsRun - len(failed) - len(left_out)} "
          f"passed, {len(failed)} failed, {len(left_out)} do not apply")
    for reason, those in skipped.items():
        print(f"figure: does not apply, because it {reason}: " + ", ".join(sorted(name.split(".", 1)[1] for name in those)))
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
