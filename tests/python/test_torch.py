"""penstock.torch.Loader, in the place of a DataLoader."""

import pytest

import penstock as ps

torch = pytest.importorskip("torch")
loaders = pytest.importorskip("penstock.torch")


def epoch(loader):
    """One epoch of a loader, as lists of numbers."""
    return [batch["value"].tolist() for batch in loader]


@pytest.fixture
def dataset():
    return ps.range(20).shuffle()


def test_an_epoch_for_each_iteration(dataset):
    loader = loaders.Loader(dataset, 8, seed=4)
    assert len(loader) == 3
    first, second = epoch(loader), epoch(loader)
    assert [len(batch) for batch in first] == [8, 8, 4]
    assert sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(20)) and first != second
    run = dataset.batch(8).iterate(seed=4, epochs=2)
    assert first + second == [batch["value"].tolist() for batch in run]
    assert len(loaders.Loader(dataset, 8, drop_last=True)) == 2


def test_epoch_that_is_left_early(dataset):
    loader, whole = loaders.Loader(dataset, 8, seed=4), loaders.Loader(dataset, 8, seed=4)
    for _ in loader:
        break
    epoch(whole)
    assert epoch(loader) == epoch(whole)


def test_chosen_epochs(dataset):
    loader = loaders.Loader(dataset, 8, seed=4)
    epochs = [epoch(loader) for _ in range(4)]
    for number in (3, 1, 1, 2, 0):
        loader.set_epoch(number)
        assert epoch(loader) == epochs[number]
    assert epoch(loader) == epochs[1]


def test_ranks_share_an_epoch(dataset):
    parts = [epoch(loaders.Loader(dataset, 2, rank=rank, ranks=2, seed=1)) for rank in range(2)]
    assert sorted(sum(sum(parts, []), [])) == list(range(20))
    whole = epoch(loaders.Loader(dataset, 20, seed=1))[0]
    assert [value for pair in zip(sum(parts[0], []), sum(parts[1], [])) for value in pair] == whole


@pytest.mark.parametrize("count", [0, 1, 11, 12, 13, 23, 24])
def test_equal_numbers_of_batches(count):
    """What DistributedDataParallel needs: another rank's missing step would hang all."""
    def batches(**options):
        return [list(loaders.Loader(ps.range(1, count + 1), 4, rank=rank, ranks=3, **options)) for rank in range(3)]

    whole = batches(drop_last=True)
    assert [len(rank) for rank in whole] == [count // 3 // 4] * 3
    assert all(len(batch["value"]) == 4 for rank in whole for batch in rank)
    padded = batches(pad=True)
    assert [len(rank) for rank in padded] == [-(-count // 12)] * 3
    for batch in sum(padded, []):
        assert batch["valid"].dtype == torch.bool and torch.equal(batch["valid"], batch["value"] > 0)
    assert sorted(value for rank in padded for batch in rank for value in batch["value"][batch["valid"]].tolist()
                  ) == list(range(1, count + 1))


@pytest.mark.parametrize("stop", range(8))
def test_state_within_and_between_epochs(dataset, stop):
    def stream(loader, epochs):
        for _ in range(epochs):
            for batch in loader:
                yield batch["value"].tolist()

    everything = list(stream(loaders.Loader(dataset, 8, seed=4), 4))
    loader = loaders.Loader(dataset, 8, seed=4)
    batches = stream(loader, 4)
    for _ in range(stop):
        next(batches)
    state = loader.state_dict()
    again = loaders.Loader(dataset, 8, seed=4)
    again.load_state_dict(state)
    rest = list(stream(again, 4))
    assert rest[:12 - stop] == everything[stop:]


def test_states_of_another_number_of_ranks():
    def ranks(count, **options):
        return [loaders.Loader(ps.range(240).shuffle(), 4, rank=rank, ranks=count, **options) for rank in range(count)]

    def numbers(loader):
        return [value for batch in loader for value in batch["value"].tolist()]

    stopped, seen = ranks(2, seed=7), []
    for loader in stopped:
        seen += [value for _, batch in zip(range(6), loader) for value in batch["value"].tolist()]
    states = [loader.state_dict() for loader in stopped]
    resumed = ranks(3)
    for loader in resumed:
        loader.load_state_dict(states)
    rest = sum(map(numbers, resumed), [])
    assert len(seen) == 48 and sorted(seen + rest) == list(range(240))
    whole = [numbers(loader) for loader in ranks(1, seed=7) for _ in range(2)]
    assert [value for row in zip(*map(numbers, resumed)) for value in row] == whole[1]  # the next epoch
    with pytest.raises(ps.InvalidArgument, match="pad_batches"):
        ranks(3, pad=True)[0].load_state_dict(states)
    with pytest.raises(ps.InvalidArgument, match="no result"):
        resumed[0].load_state_dict([])


def test_state_after_a_whole_epoch(dataset):
    loader = loaders.Loader(dataset, 8, seed=4)
    epochs = [epoch(loader) for _ in range(2)]
    loader = loaders.Loader(dataset, 8, seed=4)
    assert epoch(loader) == epochs[0]
    again = loaders.Loader(dataset, 8, seed=4)
    again.load_state_dict(loader.state_dict())
    assert epoch(again) == epochs[1]
    chosen = loaders.Loader(dataset, 8, seed=4)
    chosen.set_epoch(1)
    again.load_state_dict(chosen.state_dict())
    assert epoch(again) == epochs[1]


@pytest.mark.parametrize("stop", [1, 3, 6])
def test_states_of_two_ranks_for_one(dataset, stop):
    whole = sum(epoch(loaders.Loader(dataset, 2, seed=4)), [])
    ranks = [loaders.Loader(dataset, 2, rank=rank, ranks=2, seed=4) for rank in range(2)]
    for rank in ranks:
        for _ in zip(range(stop), rank):
            pass
    states = [rank.state_dict() for rank in ranks]
    one = loaders.Loader(dataset, 2, seed=4)
    one.load_state_dict(states)
    if stop < 6:  # else both have ended the epoch
        assert sum(epoch(one), []) == whole[4 * stop:]
    assert sorted(sum(epoch(one), [])) == list(range(20))
    next(iter(ranks[1]))
    with pytest.raises(ps.InvalidArgument, match="stopped in different places"):
        one.load_state_dict([states[0], ranks[1].state_dict()])
    with pytest.raises(ps.InvalidArgument, match="no result of"):
        one.load_state_dict([])


def test_seed_of_a_state(dataset):
    loader = loaders.Loader(dataset, 8, seed=4)
    epochs = [epoch(loader) for _ in range(3)]
    again = loaders.Loader(dataset, 8, seed=5)
    again.load_state_dict(loader.state_dict())
    for number in (1, 0, 2):
        again.set_epoch(number)
        assert epoch(again) == epochs[number]


def test_chosen_epoch_of_a_state(dataset):
    loader = loaders.Loader(dataset, 2, seed=4)
    whole = [epoch(loader) for _ in range(2)]
    loader.set_epoch(0)
    for _ in zip(range(4), loader):
        pass
    state = loader.state_dict()
    again = loaders.Loader(dataset, 2, seed=4)
    again.load_state_dict(state)
    again.set_epoch(0)  # as each turn of a usual loop does
    assert epoch(again) == whole[0][4:]
    again.set_epoch(0)
    assert epoch(again) == whole[0]


def test_state_that_does_not_fit(dataset):
    loader = loaders.Loader(dataset, 2, seed=4)
    whole = epoch(loaders.Loader(dataset, 2, seed=4))
    for _ in zip(range(4), loader):
        pass
    state = loader.state_dict()
    loader.load_state_dict(state)
    with pytest.raises(ps.InvalidArgument):
        loader.load_state_dict(loaders.Loader(dataset, 4, seed=4).state_dict())
    assert epoch(loader) == whole[4:]


def test_length_that_drop_last_needs(dataset):
    unknown = dataset.filter(lambda e: True)
    with pytest.raises(ps.InvalidArgument, match="length is known"):
        loaders.Loader(unknown, 2, drop_last=True, rank=0, ranks=2)
    assert len(epoch(loaders.Loader(unknown, 3, drop_last=True))) == 6


def test_misuse(dataset):
    loader = loaders.Loader(dataset, 8)
    with pytest.raises(RuntimeError, match="another loop"):
        list(zip(loader, loader))
    with pytest.raises(TypeError, match="no shuffle: call dataset.shuffle"):
        loaders.Loader(dataset, 8, shuffle=True)
    with pytest.raises(TypeError, match="not options of Dataset.iterate: {'device': 'cuda:0'}"):
        loaders.Loader(dataset, 8, device="cuda:0")
    with pytest.raises(ps.InvalidArgument, match=r"rank must be in \[0, 2\), not 2"):
        loaders.Loader(dataset, 8, rank=2, ranks=2)
    with pytest.raises(TypeError, match="must be a penstock.Dataset, not TensorDataset"):
        loaders.Loader(torch.utils.data.TensorDataset(torch.zeros(3)), 8)
    with pytest.raises(ps.InvalidArgument, match="without drop_last"):
        loaders.Loader(dataset, 8, pad=True, drop_last=True)
    with pytest.raises(ps.InvalidArgument, match="need a batch_size"):
        loaders.Loader(dataset.batch(8), pad=True)
    with pytest.raises(ps.InvalidArgument, match="no result of"):
        loader.load_state_dict({})
    short = loaders.Loader(dataset, 8, epochs=2)
    short.set_epoch(7)
    assert epoch(short) == []


def test_tensors_share_memory_and_texts_are_lists():
    dataset = ps.tensors({"x": torch.arange(8000, dtype=torch.float32).reshape(80, 100), "t": ["a"] * 80})
    batch = next(iter(loaders.Loader(dataset, 4)))
    assert batch["x"].dtype == torch.float32 and batch["x"].shape == (4, 100) and batch["t"] == [b"a"] * 4
    element = next(dataset.batch(4).iterate())
    assert loaders.tensor(element["x"]).data_ptr() == element["x"].data_ptr


def test_length_that_is_not_known(dataset):
    with pytest.raises(TypeError, match="not known"):
        len(loaders.Loader(dataset.filter(lambda e: True), 4))
    with pytest.raises(ps.InvalidArgument):
        loaders.Loader(dataset.batch(4), ranks=2)


def test_training_on_photographs(photographs):
    """One step for each batch of real images, on the CPU."""
    dataset = ps.images(photographs).take(64).map(
        ps.decode_image().random_resized_crop(32).random_flip().normalize())
    loader = loaders.Loader(dataset, 16, seed=1, drop_last=True)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(8 * 15 * 15, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for batch in loader:
        loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"] % 10)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert torch.isfinite(loss)
