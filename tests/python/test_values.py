"""Tensors and elements, and whom they are exchanged with."""

import concurrent.futures
import gc

import numpy as np
import pytest

import penstock as ps

NUMBERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16",
           "float32", "float64", "bool"]


def first(columns, rows=32):
    """The first batch of these columns."""
    return next(ps.tensors(columns).batch(rows).iterate())


@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_dtype(dtype):
    values = np.arange(64 * 30).reshape(64, 30).astype(dtype)
    batch = first({"x": values})
    for array in (np.asarray(batch["x"]), np.from_dlpack(batch["x"]), np.asarray(memoryview(batch["x"]))):
        assert array.dtype == dtype
        assert (array == values[:32]).all()
    assert batch["x"].tolist() == values[:32].tolist()
    assert ps.Tensor(values).tolist() == values.tolist()


def test_strided_arrays_are_copied_row_major():
    values = np.arange(40).reshape(5, 8)[:, ::2].T
    assert ps.Tensor(values).tolist() == values.tolist()
    assert [e["x"].tolist() for e in ps.tensors({"x": values}).iterate()] == values.tolist()


def test_one_memory_for_all():
    batch = first({"x": np.zeros((64, 100), np.float32)})
    tensor = batch["x"]
    addresses = {np.asarray(tensor).ctypes.data, np.from_dlpack(tensor).ctypes.data, tensor.data_ptr}
    torch = pytest.importorskip("torch")
    addresses |= {torch.from_dlpack(tensor).data_ptr(), torch.utils.dlpack.from_dlpack(tensor).data_ptr()}
    assert len(addresses) == 1


def test_jax_takes_the_same_memory():
    jax = pytest.importorskip("jax")
    tensor = first({"x": np.zeros((64, 128), np.float32)})["x"]
    assert jax.dlpack.from_dlpack(tensor).unsafe_buffer_pointer() == tensor.data_ptr


def test_views_are_read_only():
    tensor = first({"x": np.zeros((64, 100), np.float32)})["x"]
    assert not np.asarray(tensor).flags.writeable
    assert not np.from_dlpack(tensor).flags.writeable
    assert np.from_dlpack(tensor, copy=True).flags.writeable


def test_memory_outlives_batch_and_run():
    run = ps.tensors({"x": np.arange(6400.0).reshape(64, 100)}).batch(64).iterate()
    array = np.asarray(next(run)["x"])
    run.close()
    del run
    gc.collect()
    assert (array == np.arange(6400.0).reshape(64, 100)).all()


def test_source_keeps_its_arrays():
    values = np.arange(1000.0)
    dataset = ps.tensors({"x": values}).batch(1000)
    del values
    gc.collect()
    assert np.asarray(next(dataset.iterate())["x"]).sum() == 499500


def test_bfloat16_through_dlpack_alone():
    tensor = next(ps.tensors({"x": np.ones((4, 100), np.uint8)}).map(
        lambda e: {"x": np.asarray(e["x"]).view(np.uint8)}).batch(4).iterate())["x"]
    assert tensor.dtype == "u8"
    torch = pytest.importorskip("torch")
    bf16 = ps.Tensor(torch.arange(300, dtype=torch.bfloat16))
    assert bf16.dtype == "bf16"
    assert torch.equal(torch.from_dlpack(bf16), torch.arange(300, dtype=torch.bfloat16))
    assert bf16[3].item() == 3.0
    array = np.asarray(ps.Tensor(torch.arange(12, dtype=torch.bfloat16).reshape(3, 4))[1])
    assert str(array.dtype) == "bfloat16" and array.astype(np.float32).tolist() == [4, 5, 6, 7]
    with pytest.raises(BufferError):
        memoryview(bf16)


def test_texts():
    batch = first({"t": ["a", "bc", b"\xff\x00"]}, 3)
    assert batch["t"].tolist() == [b"a", b"bc", b"\xff\x00"]
    assert list(np.asarray(batch["t"])) == [b"a", b"bc", b"\xff\x00"]
    assert bytes(batch["t"][2]) == b"\xff\x00"
    with pytest.raises(BufferError, match="tolist"):
        batch["t"].__dlpack__()


def test_element_is_a_mapping():
    element = ps.Element({"a": 1, "b": 2.5, "c": "text"})
    assert list(element) == element.keys() == ["a", "b", "c"]
    assert {name: value.item() for name, value in element.items()} == {"a": 1, "b": 2.5, "c": b"text"}
    assert {**element}.keys() == {"a", "b", "c"}
    assert "a" in element and "d" not in element and element.get("d") is None
    with pytest.raises(KeyError, match="d: there are {a: i64"):
        element["d"]


def test_rows_by_index():
    tensor = ps.Tensor(np.arange(12).reshape(3, 4))
    assert len(tensor) == 3
    assert tensor[-1].tolist() == [8, 9, 10, 11]
    assert [row.tolist() for row in tensor][1] == [4, 5, 6, 7]
    for index in (3, -4):
        with pytest.raises(IndexError):
            tensor[index]
    with pytest.raises(TypeError):
        len(ps.Tensor(3))


@pytest.mark.parametrize("value", [
    object(), np.zeros(3, np.complex64), None, ["a", 1], np.array(["a"]), np.datetime64("2020-01-01"),
    np.zeros(3, ">i4"), np.array([object()])])
def test_values_that_no_tensor_holds(value):
    with pytest.raises(TypeError):
        ps.Tensor(value)


def test_numbers_that_do_not_fit():
    assert ps.Tensor(2**63 - 1).item() == 2**63 - 1
    with pytest.raises(ValueError, match="64 bits"):
        ps.Tensor(2**63)
    assert ps.Tensor(np.array([2**63], np.uint64)).tolist() == [2**63]


@pytest.mark.parametrize("scalar, dtype", [
    (np.float32(1.5), "f32"), (np.int8(-3), "i8"), (np.bool_(True), "bool"), (True, "bool"), (2, "i64"),
    (1.5, "f64"), (np.array(7, np.uint16), "u16")])
def test_scalars(scalar, dtype):
    tensor = ps.Tensor(scalar)
    assert (tensor.dtype, tensor.shape) == (dtype, ()) and tensor == scalar and tensor.item() == scalar
    assert float(tensor) == float(scalar) and bool(tensor) == bool(scalar) and int(tensor) == int(scalar)


def test_comparisons_of_several_values_are_refused():
    tensor = ps.Tensor(np.arange(3))
    for compare in (lambda: tensor == 3, lambda: bool(tensor), lambda: int(tensor)):
        with pytest.raises(ValueError, match="not one value"):
            compare()
    assert ps.Tensor("a") == b"a" and ps.Tensor(3) != 4


def test_strided_views():
    tensor = ps.Tensor(np.arange(24, dtype=np.float16).reshape(2, 3, 4))
    rows = next(ps.tensors({"x": np.arange(12).reshape(3, 4).T}).batch(4).iterate())["x"]
    for each in (tensor[1], rows[2], rows):
        assert np.asarray(each).tolist() == each.tolist()
    with pytest.raises(BufferError, match="host memory"):
        tensor.__dlpack__(dl_device=(2, 0))


def test_ragged_values_and_offsets():
    rows = [np.arange(n) for n in (3, 0, 2)]
    dataset = ps.generate(lambda: ({"x": row} for row in rows), {"x": ("i64", [None])})
    batch = next(dataset.ragged_batch(3).iterate())
    assert batch["x"].tolist() == [0, 1, 2, 0, 1]
    assert batch["x.row_splits"].tolist() == [0, 3, 3, 5]


class TestArrow:
    """Exchange with pyarrow through capsules."""

    pa = pytest.importorskip("pyarrow")

    def test_batch_as_record_batch(self):
        pa = self.pa
        batch = pa.record_batch(first({"x": np.arange(6, dtype=np.int32).reshape(3, 2), "t": ["a", "b", ""]}, 3))
        assert batch.to_pydict() == {"x": [[0, 1], [2, 3], [4, 5]], "t": [b"a", b"b", b""]}
        assert batch.schema.field("t").type == pa.large_binary()

    def test_texts_as_large_binary(self):
        assert self.pa.array(first({"t": ["a", "bc"]}, 2)["t"]).to_pylist() == [b"a", b"bc"]

    def test_table_as_source(self):
        pa = self.pa
        chunks = [pa.table({"n": pa.array(range(k, k + 5), pa.int32()), "s": [f"{i}" for i in range(k, k + 5)],
                            "b": [i % 3 == 0 for i in range(k, k + 5)],
                            "st": [{"x": i * 1.5} for i in range(k, k + 5)]}) for k in (0, 5)]
        dataset = ps.from_arrow(pa.concat_tables(chunks))
        assert dataset.cardinality() == 10
        rows = [(e["n"].item(), e["s"].item(), e["b"].item(), e["st.x"].item()) for e in dataset.iterate()]
        assert rows == [(i, str(i).encode(), i % 3 == 0, i * 1.5) for i in range(10)]
        assert sorted(n for b in dataset.shuffle().batch(3).iterate(seed=2) for n in b["n"].tolist()) == list(range(10))

    def test_numbers_are_viewed(self):
        table = self.pa.table({"x": np.arange(1000.0)})
        address = table["x"].chunk(0).buffers()[1].address
        elements = ps.from_arrow(table)
        batch = next(elements.batch(1000).iterate())
        assert np.asarray(batch["x"]).sum() == 499500
        assert address  # the batch is a copy of rows; the source keeps the table's memory:
        del table
        gc.collect()
        assert np.asarray(next(elements.batch(1000).iterate())["x"]).sum() == 499500

    def test_slices(self):
        table = self.pa.table({"x": range(100), "s": [str(i) for i in range(100)], "b": [i % 7 == 0 for i in range(100)]})
        rows = [(e["x"].item(), int(e["s"].item()), e["b"].item()) for e in ps.from_arrow(table.slice(13, 50)).iterate()]
        assert rows == [(i, i, i % 7 == 0) for i in range(13, 63)]

    def test_fixed_size_lists(self):
        pa = self.pa
        values = pa.FixedSizeListArray.from_arrays(pa.array(range(12), pa.int16()), 3)
        dataset = ps.from_arrow(pa.table({"x": values}).slice(1))
        assert dataset.spec == {"x": ("i16", (3,))}
        assert [e["x"].tolist() for e in dataset.iterate()] == [[3, 4, 5], [6, 7, 8], [9, 10, 11]]

    @pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
    def test_lists_of_one_length(self, kind):
        table = self.pa.table({"x": self.pa.array([[i, i + 1] for i in range(9)], kind(self.pa.int32()))}).slice(3)
        dataset = ps.from_arrow(table)
        assert dataset.spec == {"x": ("i32", (2,))}
        assert [e["x"].tolist() for e in dataset.iterate()] == [[i, i + 1] for i in range(3, 9)]

    def test_string_views(self):
        texts = ["short", "", "a text of more than twelve bytes", "twelve bytes", "thirteen byte"]
        column = self.pa.array(texts, self.pa.string_view())
        dataset = ps.from_arrow(self.pa.table({"s": column}).slice(1))
        assert [e["s"].item().decode() for e in dataset.iterate()] == texts[1:]

    def test_table_of_many_chunks(self):
        table = self.pa.concat_tables([self.pa.table({"x": [k]}) for k in range(2500)])
        assert sum(e["x"].item() for e in ps.from_arrow(table).iterate()) == 2499 * 1250

    def test_data_set_of_hugging_face(self):
        table = self.pa.table({"x": range(10)})

        class Dataset:
            def with_format(self, name):
                assert name == "arrow"
                return table

        Dataset.__getitem__ = lambda self, rows: table[rows]
        with pytest.raises(TypeError, match="__arrow_c_stream__"):
            ps.from_arrow([1, 2])
        assert len(list(ps.from_arrow(Dataset()))) == 10

    def test_columns_of_one_name_are_refused(self):
        with pytest.raises(ps.InvalidArgument, match="there twice"):
            ps.from_arrow(self.pa.table([[1], [2]], names=["x", "x"]))

    @pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
    def test_lists_of_any_length(self, kind):
        pa, rows = self.pa, [[1, 2], [], [3], [4, 5, 6], [7], [8], []]
        # The second chunk has lists of one length, and the third no values.
        table = pa.concat_tables([pa.table({"x": pa.array(part, kind(pa.int32()))}) for part in (rows[:4], rows[4:6], rows[6:])])
        dataset = ps.from_arrow(table.slice(1))
        assert dataset.spec == {"x": ("i32", (None,))}
        assert [e["x"].tolist() for e in dataset.iterate()] == rows[1:]
        padded = next(dataset.padded_batch(6).iterate())["x"]
        assert padded.tolist() == [row + [0] * (3 - len(row)) for row in rows[1:]]

    def test_lists_of_texts_and_of_rows(self):
        pa = self.pa
        table = pa.table({"t": [["a", "bc"], [], ["d"]], "r": [[[1, 2]], [], [[3, 4], [5, 6]]]})
        dataset = ps.from_arrow(table)
        assert dataset.spec == {"t": ("bytes", (None,)), "r": ("i64", (None, 2))}
        assert [(e["t"].tolist(), e["r"].tolist()) for e in dataset.iterate()] == [
            ([b"a", b"bc"], [[1, 2]]), ([], []), ([b"d"], [[3, 4], [5, 6]])]

    def test_lists_of_empty_lists(self):
        kind = self.pa.list_(self.pa.list_(self.pa.int64()))
        dataset = ps.from_arrow(self.pa.table({"x": self.pa.array([[[]], [[], []], []], kind)}))
        assert dataset.spec == {"x": ("i64", (None, 0))}
        assert [e["x"].shape for e in dataset.iterate()] == [(1, 0), (2, 0), (0, 0)]
        chunks = [self.pa.table({"x": self.pa.array(rows, kind)}) for rows in ([[[]]], [[[1, 2]]])]
        with pytest.raises(ps.InvalidArgument, match="within lists"):
            ps.from_arrow(self.pa.concat_tables(chunks))

    def test_chosen_columns(self):
        table = self.pa.table({"a": [1, 2], "image": [{"bytes": b"x", "path": None}, {"bytes": b"y", "path": None}],
                               "t": ["u", None]})
        assert list(ps.from_arrow(table, columns=["image.bytes", "a"]).spec) == ["a", "image.bytes"]
        assert [e["image.bytes"].item() for e in ps.from_arrow(table, ["image.bytes"]).iterate()] == [b"x", b"y"]
        assert list(ps.from_arrow(self.pa.table({"image": [{"b": 1}], "i": [1]}), ["image"]).spec) == ["image.b"]
        with pytest.raises(ps.InvalidArgument, match="column b is not there"):
            ps.from_arrow(table, columns=["a", "b"])

    def test_reader_whose_threads_need_the_lock(self):
        class Batches:
            """Gives batches that another thread of Python makes."""

            def __init__(self, pa):
                self.pa = pa

            def __iter__(self):
                with concurrent.futures.ThreadPoolExecutor(1) as others:
                    yield others.submit(lambda: self.pa.record_batch({"x": [1, 2]})).result()

        reader = self.pa.RecordBatchReader.from_batches(self.pa.schema({"x": self.pa.int64()}), Batches(self.pa))
        assert ps.from_arrow(reader).cardinality() == 2

    def test_stream_that_was_read(self):
        class Stream:
            def __init__(self, capsule):
                self.capsule = capsule

            def __arrow_c_stream__(self, requested_schema=None):
                return self.capsule

        stream = Stream(self.pa.table({"x": [1]}).__arrow_c_stream__())
        assert ps.from_arrow(stream).cardinality() == 1
        with pytest.raises(ValueError, match="read before"):
            ps.from_arrow(stream)

    def test_chunks_of_lists_of_different_lengths(self):
        pa = self.pa
        table = pa.concat_tables([pa.table({"x": [[1, 2], [3, 4]]}), pa.table({"x": [[5], [6]]})])
        assert [e["x"].tolist() for e in ps.from_arrow(table).iterate()] == [[1, 2], [3, 4], [5], [6]]

    @pytest.mark.parametrize("dtype", [pa.float16(), pa.float32(), pa.float64()])
    def test_nulls_of_floats_as_nan(self, dtype):
        values = self.pa.array([None, 1.5, None, -2.0] * 5, dtype).slice(1)
        table = self.pa.table({"x": values})
        got = np.asarray(next(ps.from_arrow(table).batch(19).iterate())["x"])
        np.testing.assert_array_equal(got, values.to_numpy(zero_copy_only=False).astype(got.dtype))

    @pytest.mark.parametrize("values", [["a", "b", "a", "", "a"], [7, 8, 7, 7, 9], [0.5, 1.5, 0.5, 0.5, 2.5]])
    @pytest.mark.parametrize("index", [pa.int8(), pa.uint16(), pa.int32(), pa.int64()])
    def test_dictionaries(self, values, index):
        pa = self.pa
        column = pa.array(values).dictionary_encode().cast(pa.dictionary(index, pa.array(values).type))
        table = pa.concat_tables([pa.table({"x": column}).slice(1), pa.table({"x": column})])
        got = [e["x"].item() for e in ps.from_arrow(table).iterate()]
        assert [x.decode() if isinstance(x, bytes) else x for x in got] == values[1:] + values

    def test_fingerprint_of_values_and_not_of_chunks(self):
        pa = self.pa
        rows = {"x": list(range(6)), "t": ["a", "bc", "", "d", "e", "f"], "l": [[1], [], [2, 3], [4], [5], [6]]}
        whole = pa.table(rows)
        cut = pa.concat_tables([whole.slice(0, 2), whole.slice(2, 3), whole.slice(5)])
        run = ps.from_arrow(whole).iterate()
        next(run), next(run)
        state = run.state()
        assert next(ps.from_arrow(cut).restore(state))["x"].item() == 2
        other = pa.table({**rows, "t": ["a", "b", "c", "d", "e", "f"]})
        with pytest.raises(ps.Error, match="t"):
            ps.from_arrow(other).restore(state)

    @pytest.mark.parametrize("column, says", [
        ([1, None], "null"), (["a", None], "null"), ([{"y": 1}, None], "null"), ([[1], None], "null"),
        ([[[1], [2, 3]], [[4], [5]]], "within lists"), ([[1, None]], "null"),
        (pa.array(["a", None]).dictionary_encode(), "null"),
        (pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array([[1, 2], [3, 4]])), "dictionary of lists"),
        (pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array([["a"], ["b"]])), "dictionary of lists")])
    def test_columns_that_are_refused(self, column, says):
        with pytest.raises(ps.InvalidArgument, match=f"column x .*({says})"):
            ps.from_arrow(self.pa.table({"x": column}))

    def test_empty_table_is_refused(self):
        with pytest.raises(ps.InvalidArgument, match="no rows"):
            ps.from_arrow(self.pa.table({"x": []}))
