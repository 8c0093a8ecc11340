"""Every stage and source, under the names of the C++ interface."""

import csv
import inspect
import io
import pathlib
import re
import struct
import subprocess
import sys
import tarfile
import threading

import numpy as np
import pytest

import penstock as ps

ROOT = pathlib.Path(__file__).parents[2]


def flat(dataset, name="value", **options):
    """The numbers of a dataset of elements."""
    return [element[name].item() for element in dataset.iterate(**options)]


class TestFunctions:
    """Functions of users, in each stage that takes one."""

    def test_map_of_each(self):
        double = ps.range(5).map(lambda e: {"value": 2 * e["value"].item()})
        assert flat(double) == [0, 2, 4, 6, 8]

    def test_map_with_output(self):
        dataset = ps.range(3).map(lambda e: {"x": np.full((2, 3), e["value"].item(), np.float32)},
                                  output={"x": ("float32", [2, 3])})
        assert dataset.spec == {"x": ("f32", (2, 3))}
        assert np.asarray(next(dataset.batch(3).iterate())["x"])[:, 0, 0].tolist() == [0, 1, 2]

    def test_map_that_adds(self):
        dataset = ps.range(3).map(lambda e: {"square": e["value"].item() ** 2}, adds={"square": ("i64", [])})
        assert list(dataset.spec) == ["value", "square"]
        assert [(e["value"].item(), e["square"].item()) for e in dataset.iterate()] == [(0, 0), (1, 1), (2, 4)]

    def test_map_of_many(self):
        calls = []

        def add(batch):
            calls.append(len(batch["value"]))
            return {"value": np.asarray(batch["value"]) + 1}

        assert flat(ps.range(1000).map(add, batched=True)) == list(range(1, 1001))
        assert len(calls) < 1000 and sum(calls) == 1000

    @pytest.mark.parametrize("indices", [[3, 0, 3], (3, 0, 3), np.array([3, 0, 3]), np.array([3, 0, 3], np.uint64),
                                         np.array([3, 0, 3], np.int32), ps.Tensor(np.array([3, 0, 3])),
                                         (np.int64(i) for i in (3, 0, 3))], ids=range(7))
    def test_selections(self, indices):
        assert flat(ps.range(0, 50, 10).select(indices)) == [30, 0, 30]

    @pytest.mark.parametrize("indices", [[], (), np.array([])])
    def test_empty_selection(self, indices):
        assert flat(ps.range(5).select(indices)) == []

    @pytest.mark.parametrize("indices, error", [([-1], IndexError), (np.array([-1]), IndexError), ([True, False], TypeError),
                                                (np.array([True]), TypeError), ([1.5], TypeError), (["1"], TypeError),
                                                (np.array([1.5]), TypeError), (3, TypeError), ([5], ps.InvalidArgument)])
    def test_wrong_selections(self, indices, error):
        with pytest.raises(error):
            ps.range(5).select(indices)

    def test_length(self):
        assert len(ps.range(10).batch(3)) == 4 and len(ps.range(0)) == 0 and bool(ps.range(0))
        for dataset, says in ((ps.range(3).repeat(), "infinite"), (ps.range(3).filter(lambda e: True), "not known")):
            assert dataset
            with pytest.raises(TypeError, match=says):
                len(dataset)

    def test_local_values_of_threads(self):
        local, made, dropped = threading.local(), [], []

        class Value:
            def __del__(self):
                dropped.append(1)

        def add(element):
            if not hasattr(local, "value"):
                local.value = Value()
                made.append(1)
            return {"value": element["value"].item() + 1}

        with ps.range(1000).map(add).iterate(threads=2) as run:
            assert [e["value"].item() for e in run] == list(range(1, 1001))
        assert 1 <= len(made) <= 3
        assert len(dropped) == len(made)  # with their threads

    @pytest.mark.parametrize("dtype", ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64"])
    def test_numbers_as_values_of_the_declared_dtype(self, dtype):
        made = {"x": 3} if dtype == "bf16" else {"x": 3, "l": [1, 2]}  # numpy has no bf16
        output = {name: (dtype, [2] if name == "l" else []) for name in made}
        for row in ps.range(1).map(lambda e: made, output=output), ps.generate(lambda: [made], output):
            for name, value in next(row.iterate()).items():
                assert value.dtype == dtype and value.tolist() == made[name]

    @pytest.mark.parametrize("dtype, value", [("u8", 256), ("u8", -1), ("i8", 200), ("i32", 1 << 31), ("i32", 1.0), ("i64", [1.5, 2.0]),
                                              ("f32", True), ("u8", [1, 300])])
    def test_numbers_that_a_dtype_does_not_hold(self, dtype, value):
        shape = [2] if isinstance(value, list) else []
        with pytest.raises(ps.UserError, match="does not fit|out of bounds"):
            list(ps.range(1).map(lambda e: {"x": value}, output={"x": (dtype, shape)}))

    @pytest.mark.parametrize("dtype", ["i64", "f32", "bf16", "bytes"])
    def test_empty_lists(self, dtype):
        lists = ps.range(1).map(lambda e: {"x": []}, output={"x": (dtype, [None])})
        assert [(e["x"].dtype, e["x"].shape) for e in lists.iterate()] == [(dtype, (0,))]

    def test_component_that_a_batched_function_forgets(self):
        run = ps.range(100).map(lambda b: {}, batched=True, adds={"b": ("i64", [])}).batch(10).iterate()
        with pytest.raises(ps.UserError, match="returned no component b"):
            next(run)
        added = ps.range(100).map(lambda b: {"b": np.asarray(b["value"]) * 2}, batched=True, adds={"b": ("i64", [])})
        assert [(e["value"].item(), e["b"].item()) for e in added] == [(i, 2 * i) for i in range(100)]

    def test_dtypes_of_other_libraries(self):
        for dtype in ("f32", "float32", np.float32, np.dtype("float32"), "torch.float32"):
            assert ps.range(3).map(lambda e: e, output={"x": (dtype, [3])}).spec == {"x": ("f32", (3,))}
        for spec in ({"x": "f32"}, {"x": ("f32", "i64")}, {"x": ("f32", 3)}, {"x": ("f32", [3], 1)}):
            with pytest.raises(TypeError, match="such as"):
                ps.range(3).map(lambda e: e, output=spec)

    def test_truth_of_a_tensor(self):
        odd = ps.range(6).map(lambda e: {"odd": e["value"].item() % 2 == 1}, adds={"odd": ("bool", [])})
        assert flat(odd.filter(lambda e: e["odd"])) == flat(odd.filter(lambda e: e["odd"] == True)) == [1, 3, 5]

    def test_map_of_a_batch(self):
        dataset = ps.range(10).batch(5).map(lambda b: {"value": np.asarray(b["value"]) * 2})
        assert [b["value"].tolist() for b in dataset.iterate()] == [[0, 2, 4, 6, 8], [10, 12, 14, 16, 18]]

    def test_random_numbers_depend_on_the_seed_alone(self):
        def draw(element, number):
            return {"value": int(np.random.default_rng(number).integers(1 << 40))}

        dataset = ps.range(50).map(draw, random=True)
        first = flat(dataset, seed=1)
        assert first == flat(dataset, seed=1, threads=1) != flat(dataset, seed=2)
        assert len(set(first)) == 50

    def test_predicates(self):
        assert flat(ps.range(10).filter(lambda e: e["value"].item() % 3 == 0)) == [0, 3, 6, 9]
        assert flat(ps.range(10).take_while(lambda e: e["value"].item() < 4)) == [0, 1, 2, 3]

    def test_datasets_of_elements(self):
        spec = {"value": ("i64", [])}
        repeat = ps.range(3).flat_map(lambda e: ps.range(e["value"].item()), spec)
        assert flat(repeat) == [0, 0, 1]
        mixed = ps.range(0, 30, 10).interleave(
            lambda e: ps.range(e["value"].item(), e["value"].item() + 2), spec, cycle=2)
        assert flat(mixed) == [0, 10, 1, 11, 20, 21]

    def test_scan(self):
        def add(state, element):
            total = state["sum"].item() + element["value"].item()
            return {"sum": total}, {"value": total}

        assert flat(ps.range(5).scan({"sum": 0}, add)) == [0, 1, 3, 6, 10]

    def test_groups_and_buckets(self):
        groups = ps.range(8).group_by_window(lambda e: e["value"].item() % 2, size=4)
        assert [b["value"].tolist() for b in groups.iterate()] == [[0, 2, 4, 6], [1, 3, 5, 7]]
        reduced = ps.range(8).group_by_window(lambda e: e["value"].item() % 2, size=4,
                                              reduce=lambda key, window: window.take(1 + key))
        assert flat(reduced) == [0, 1, 3]
        rows = [np.ones(n, np.int32) for n in (1, 7, 2, 8, 3)]
        buckets = ps.generate(lambda: [{"x": r} for r in rows], {"x": ("i32", [None])}).bucket_by_length(
            bounds=[5], sizes=[3, 2], length=lambda e: len(e["x"]))
        assert [b["x"].shape for b in buckets.iterate()] == [(2, 8), (3, 3)]

    def test_windows(self):
        windows = ps.range(6).window(2, shift=3)
        assert [b["value"].tolist() for b in windows.iterate()] == [[0, 1], [3, 4]]
        assert flat(ps.range(6).window(3, lambda window: window.skip(1))) == [1, 2, 4, 5]

    def test_resampling(self):
        dataset = ps.range(400).rejection_resample(lambda e: int(e["value"].item() % 4 == 0), [1, 1],
                                                   initial=[3, 1])
        classes = flat(dataset, "class", seed=1)
        assert 140 < len(classes) < 260 and 0.3 < sum(classes) / len(classes) < 0.7

    def test_generator_for_each_epoch(self):
        begun = []

        def numbers():
            begun.append(1)
            for i in range(3):
                yield {"value": i, "name": f"n{i}"}

        dataset = ps.generate(numbers, {"value": ("i64", []), "name": ("bytes", [])})
        assert flat(dataset, epochs=2) == [0, 1, 2, 0, 1, 2] and len(begun) == 2

    def test_error_of_a_generator(self):
        def numbers():
            yield {"value": 1}
            raise OSError("gone")

        run = ps.generate(numbers, {"value": ("i64", [])}).iterate()
        assert next(run)["value"].item() == 1
        with pytest.raises(ps.UserError, match="OSError: gone"):
            next(run)

    def test_generator_of_none(self):
        run = ps.generate(lambda: [{"value": 1}, None, {"value": 2}], {"value": ("i64", [])}).iterate()
        assert next(run)["value"].item() == 1
        with pytest.raises(ps.UserError, match="NoneType"):
            next(run)
        assert next(run)["value"].item() == 2

    @pytest.mark.parametrize("returned, says", [
        (3, "type int, not a dict"), ({"value": object()}, "of type object"),
        ({"value": 1.5}, "expected i64 .*, got f64"), ({"other": 1}, "component other")])
    def test_results_that_do_not_fit(self, returned, says):
        with pytest.raises(ps.UserError, match=says):
            next(ps.range(3).map(lambda e: returned).iterate())


class TestOrderStages:
    """Stages without functions."""

    @pytest.mark.parametrize("dataset, expected", [
        (ps.range(10).shard(3, 1), [1, 4, 7]), (ps.range(9).shard(3, 1, contiguous=True), [3, 4, 5]),
        (ps.range(3).repeat(2), [0, 1, 2] * 2), (ps.range(9).skip(2).take(3), [2, 3, 4]),
        (ps.range(2).concatenate(ps.range(2)), [0, 1, 0, 1]), (ps.range(9, 0, -4), [9, 5, 1]),
        (ps.range(3).concatenate(ps.range(3)).unique(), [0, 1, 2]), (ps.range(9).select([7, 7, 2]), [7, 7, 2]),
        (ps.range(6).batch(4).unbatch(), list(range(6))), (ps.range(4).cache().repeat(2), [0, 1, 2, 3] * 2),
        (ps.range(5).prefetch(2).ignore_errors(), list(range(5))),
        (ps.range(5).apply(lambda d: d.take(2)), [0, 1])])
    def test_output(self, dataset, expected):
        assert flat(dataset) == expected

    def test_batches(self):
        def batches(dataset):
            return [b["value"].tolist() for b in dataset.iterate()]

        assert batches(ps.range(5).batch(2, drop_remainder=True)) == [[0, 1], [2, 3]]
        assert batches(ps.range(6).batch(2).rebatch(4)) == [[0, 1, 2, 3], [4, 5]]
        assert batches(ps.range(6).batch(6).rebatch([1, 2])) == [[0], [1, 2], [3], [4, 5]]
        padded = next(ps.range(5).shard(2, 1).batch(3).pad_batches().iterate())
        assert padded["value"].tolist() == [1, 3, 0] and padded.valid_rows == 2

    def test_padding_and_packing(self):
        rows = ps.generate(lambda: [{"x": np.arange(1, n + 1)} for n in (2, 3)], {"x": ("i64", [None])})
        padded = next(rows.padded_batch(2, shapes=[[4]], values=[-1]).iterate())
        assert padded["x"].tolist() == [[1, 2, -1, -1], [1, 2, 3, -1]]
        packed = next(rows.pack(length=5).iterate())
        assert packed["x"].tolist() == [1, 2, 1, 2, 3] and packed["segment"].tolist() == [1, 1, 2, 2, 2]

    def test_components(self):
        dataset = ps.range(3).enumerate(start=5)
        assert list(dataset.keep("index").spec) == ["index"]
        assert list(dataset.keep(["index", "value"]).spec) == ["index", "value"]
        assert list(dataset.drop(["index"]).spec) == ["value"]

    def test_mixtures(self):
        a, b = ps.range(4), ps.range(100, 104)
        assert sorted(flat(ps.sample_from([a, b], [1, 1]))) == [0, 1, 2, 3, 100, 101, 102, 103]
        weights = ps.MixWeights([0, 1])
        assert next(ps.sample_from([a, b], weights).iterate())["value"].item() == 100
        assert flat(ps.choose_from([a, b], ps.tensors({"c": np.array([1, 0, 0])}))) == [100, 0, 1]
        both = ps.zip([a, b.enumerate().keep(["index"])])
        assert list(both.spec) == ["value", "index"]
        train, rest = ps.range(10).split_at(0.8, 1)
        assert sorted(flat(train) + flat(rest)) == list(range(10)) and train.cardinality() == 8

    def test_cache_in_a_file(self, tmp_path):
        dataset = ps.range(10).cache(tmp_path / "cache")
        assert flat(dataset) == flat(dataset) and (tmp_path / "cache").exists()
        assert flat(ps.range(10).snapshot(tmp_path / "folder")) == list(range(10))

    def test_explanation(self):
        assert "shuffle" in ps.range(10).shuffle().batch(2).explain(memory_bytes=1 << 20)
        assert ps.range(10).guarantee() == "EXACT"


class TestSources:
    """Sources of files."""

    def test_text_and_csv(self, tmp_path):
        (tmp_path / "a.txt").write_text("one\ntwo\n")
        assert flat(ps.text_lines(tmp_path / "a.txt"), "line") == [b"one", b"two"]
        table = io.StringIO()
        csv.writer(table).writerows([["n", "s"], [1, "x"], ["", "y"]])
        (tmp_path / "a.csv").write_text(table.getvalue())
        dataset = ps.csv([str(tmp_path / "a.csv")], columns=[("n", "i64", "-1"), "s"])
        assert [(e["n"].item(), e["s"].item()) for e in dataset.iterate()] == [(1, b"x"), (-1, b"y")]

    def test_arrays(self, tmp_path):
        values = np.arange(24, dtype=np.uint16).reshape(4, 6)
        np.save(tmp_path / "a.npy", values)
        values.tofile(tmp_path / "a.bin")
        assert [e["value"].tolist() for e in ps.npy(tmp_path / "a.npy").iterate()] == values.tolist()
        records = ps.fixed_records(str(tmp_path / "a.bin"), 12)
        assert np.asarray(next(records.batch(4).iterate())["record"]).view(np.uint16).tolist() == values.tolist()
        tokens = ps.token_shards(tmp_path / "a.bin", 5, dtype="int64")
        assert tokens.spec == {"tokens": ("i64", (6,))} and next(tokens.iterate())["tokens"].tolist() == list(range(6))

    def test_tar_and_tfrecord(self, tmp_path):
        with tarfile.open(tmp_path / "a.tar", "w") as tar:
            for i in range(3):
                for extension, data in (("cls", str(i).encode()), ("txt", b"text")):
                    info = tarfile.TarInfo(f"{i}.{extension}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        assert [(e["label"].item(), e["txt"].item()) for e in ps.tar([tmp_path / "a.tar"]).iterate()] == [
            (i, b"text") for i in range(3)]
        example = b"\n\x0f\n\r\n\x01x\x12\x08\x1a\x06\n\x04\x01\x02\x03\x04"
        record = struct.pack("<QI", len(example), 0) + example + struct.pack("<I", 0)
        (tmp_path / "a.tfrecord").write_bytes(record)
        with pytest.raises(ps.DataLoss):
            next(ps.tfrecord(tmp_path / "a.tfrecord").iterate())

    def test_examples(self):
        example = b"\n\x0f\n\r\n\x01x\x12\x08\x1a\x06\n\x04\x01\x02\x03\x04"
        records = ps.tensors({"record": [example, b""]})
        parsed = records.map_op(ps.parse_example([("x", "i64", [4], [9, 9, 9, 9])]))
        assert [e["x"].tolist() for e in parsed.iterate()] == [[1, 2, 3, 4], [9, 9, 9, 9]]
        renamed = records.map_op(ps.parse_example({"counts": ["x", "i64", [4], [9, 9, 9, 9]]}))
        zero = records.map_op(ps.parse_example([("y", "f32", [], 0)]))
        assert [e["y"].item() for e in zero.iterate()] == [0, 0]
        assert [e["counts"].tolist() for e in renamed.iterate()] == [[1, 2, 3, 4], [9, 9, 9, 9]]

    @pytest.mark.parametrize("read", [ps.tfrecord, ps.tar, ps.text_lines, ps.csv])
    def test_folder_in_the_place_of_files(self, read, tmp_path):
        with pytest.raises(ps.NotFound, match=f"name the files in it, such as {re.escape(str(tmp_path))}/[*]"):
            read(tmp_path)

    def test_synthetic_images(self):
        dataset = ps.synthetic("count=20,image=40x30").map(
            ps.decode_image().random_resized_crop(16).random_flip().normalize(dtype="bf16", layout="hwc")).batch(4)
        assert dataset.spec["image"] == ("bf16", (None, 16, 16, 3))
        assert sum(batch.valid_rows for batch in dataset.iterate(seed=1)) == 20
        pytest.importorskip("ml_dtypes")
        image = next(dataset.iterate(seed=1))["image"]
        assert np.asarray(image).shape == (4, 16, 16, 3) and str(np.asarray(image).dtype) == "bfloat16"
        assert np.asarray(image[0][0][0]).astype(np.float64).tolist() == image[0][0][0].tolist()  # within the object

    def test_missing_files(self):
        for source in (ps.tar, ps.tfrecord, ps.text_lines, ps.npy, ps.csv, ps.cifar10, ps.image_records, ps.idx):
            with pytest.raises(ps.NotFound, match="nowhere"):
                source("nowhere")


def public():
    """Every documented class, method and function of the module."""
    for name, value in vars(ps).items():
        if name.startswith("_") or inspect.ismodule(value):
            continue
        yield name, value
        if inspect.isclass(value) and value.__module__ == "penstock._core":
            yield from ((f"{name}::{member}", each) for member, each in vars(value).items()
                        if not member.startswith("_"))


def test_docstrings_are_the_comments_of_the_headers(tmp_path):
    table = tmp_path / "docstrings.inc"
    subprocess.run([sys.executable, ROOT / "python/docstrings.py", *(ROOT / "include/penstock").glob("*.h"),
                    "-o", table], check=True)
    comments = dict(re.findall(r'\{"(.*?)", R"doc\((.*?)\)doc"\},', table.read_text(), re.DOTALL))
    own = {"Iterator::" + name for name in (
        "restore", "set_state", "get_state", "state_dict", "load_state_dict", "close")}
    own |= {"StagedBatch::keys", "StagedBatch::device", "Tensor::tolist", "Report::lock", "Pipeline::iterate", "from_arrow", "Element::get",
            "Element::keys", "Element::values", "Element::items", "Feed::close"}
    missing = []
    texts = set(comments.values())
    for name, value in public():
        doc = inspect.getdoc(value) or ""
        if name in own or "::" not in name and issubclass(type(value), type) and issubclass(value, Exception):
            continue
        if not any(text and inspect.cleandoc(text) in doc for text in texts):
            missing.append(name)
    assert missing == []
    assert comments["Dataset::shuffle"].splitlines()[0] in ps.Dataset.shuffle.__doc__
    assert "reshuffle: True: a new order" in ps.Dataset.shuffle.__doc__
    assert "deviation: of the same values" in ps.ImageOps.normalize.__doc__
    assert "max_scale: share of the area" in ps.ImageOps.random_resized_crop.__doc__
    assert "written when" not in ps.Dataset.cache.__doc__ and "`file`.partial" in ps.Dataset.cache.__doc__
    assert "`batched` it takes many" in ps.Dataset.map.__doc__


def test_every_stage_of_the_header_is_there():
    header = (ROOT / "include/penstock/dataset.h").read_text()
    declared = set(re.findall(r"^  (?:Dataset|auto|std::pair<Dataset, Dataset>) (\w+)\(", header, re.M))
    declared |= set(re.findall(r"^Dataset (\w+)\(", header, re.M))
    names = set(dir(ps.Dataset)) | set(dir(ps))
    assert declared - names == {"map_batchwise"}  # map(batched=True)
    sources = set(re.findall(r"^(?:inline )?Dataset (\w+)\(", (ROOT / "include/penstock/sources.h").read_text(), re.M))
    assert sources - names == set() and len(sources) >= 12
