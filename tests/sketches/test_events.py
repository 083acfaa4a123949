"""Columns become events or are refused with the column, the row and the value at fault."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketches import Events, Sample
from sketches.errors import EventError
from sketches.event_rules import MAX_TIME, MAX_WEIGHT
from sketches.events import Kind, Labels
from sketches.hashing import hash_text

GOOD = {"ids": [1, 2, 3], "times": [10, 11, 12], "values": [5, 6, 7], "weights": [1, 2, 3]}


def built(**changed: Any) -> bytes:
    return Sample.build(Events.of(**{**GOOD, **changed})).to_bytes()


@pytest.mark.parametrize(
    ("column", "bad", "message"),
    [
        ("times", [10, float("nan"), 12], r"times\[1\] is nan"),
        ("times", [10, 11, float("inf")], r"times\[2\] is inf"),
        ("times", [10.5, 11, 12], r"times\[0\] is 10.5; it must be a whole number"),
        ("times", [10, MAX_TIME + 1, 12], rf"times\[1\] is {MAX_TIME + 1}; it must lie between"),
        ("times", [10, 11, -MAX_TIME - 1], rf"times\[2\] is {-MAX_TIME - 1}; it must lie between"),
        ("times", np.array([10, 2**64 - 1, 12], np.uint64), r"times\[1\] is 18446744073709551615; it must lie between"),
        ("times", [1e30, 11, 12], r"times\[0\] is 1e\+30"),
        ("times", ["10", "11", "12"], "times are of type"),
        ("times", np.array([1, 2, 3], "datetime64[s]"), r"times are of type datetime64\[s\]"),
        ("times", [10, None, 12], "times are of type object"),
        ("times", [[10, 11, 12]], "times has 2 dimensions"),
        ("weights", [1, -1, 3], r"weights\[1\] is -1; it must lie between 0 and"),
        ("weights", [1, 2, -3], r"weights\[2\] is -3; it must lie between 0 and"),
        ("weights", [1, 2.5, 3], r"weights\[1\] is 2.5; it must be a whole number"),
        ("weights", [float("nan"), 2, 3], r"weights\[0\] is nan"),
        ("weights", [1, MAX_WEIGHT + 1, 3], rf"weights\[1\] is {MAX_WEIGHT + 1}"),
        ("weights", [[1], [2], [3]], "weights has 2 dimensions"),
        ("weights", [1, None, 3], "weights are of type object"),
        ("values", [5, float("nan"), 7], r"values\[1\] is nan"),
        ("values", [5, 6, float("-inf")], r"values\[2\] is -inf"),
        ("values", np.array([5, 2**63, 7], np.uint64), r"values\[1\] is 9223372036854775808.*below 2\^63"),
        ("values", ["a", None, "c"], "values: .*row 1"),
        ("values", np.array(["a", 5, "c"], object), "values: texts cannot be hashed"),
        ("values", [1j, 2j, 3j], "values are of type complex128"),
        ("values", [[5, 6, 7]], "values has 2 dimensions"),
        ("ids", [1.0, 2.0, 3.0], "ids are of type float64; they must be integers or text"),
        ("ids", ["a", None, "c"], "ids: .*row 1"),
        ("ids", [[1, 2, 3]], "ids has 2 dimensions"),
        ("ids", [1, 2], "columns differ in length: ids 2, times 3"),
        ("times", [10, 11], "columns differ in length: ids 3, times 2"),
        ("values", [5], "columns differ in length: .*values 1"),
        ("weights", [1, 1], "columns differ in length: .*weights 2"),
        ("weights", [], "columns differ in length: .*weights 0"),
    ],
)
def test_bad_columns_are_named(column: str, bad: Any, message: str) -> None:
    """Each thing that cannot be an event is refused by one sentence with its column, its row and its value."""
    with pytest.raises(EventError, match=message):
        Events.of(**{**GOOD, column: bad})


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("column", ["ids", "times", "values", "weights"])
def test_any_integer_type_gives_the_same_sketch(column: str, kind: str) -> None:
    """The width of a column's type leaves no trace in the bytes."""
    assert built(**{column: np.array(GOOD[column], kind)}) == built()


@pytest.mark.parametrize("column", ["ids", "times", "values"])
def test_negative_numbers_of_any_width(column: str) -> None:
    """Negative numbers in narrow columns are the numbers they are in wide ones."""
    numbers = [-1, -2, 3]
    for kind in ("int8", "int16", "int32"):
        assert built(**{column: np.array(numbers, kind)}) == built(**{column: np.array(numbers, np.int64)})


@pytest.mark.parametrize("column", ["ids", "times", "values", "weights"])
def test_other_containers_give_the_same_sketch(column: str) -> None:
    """Lists, tuples, ranges, Arrow arrays and chunked ones, strided and read-only arrays are all columns."""
    array = np.array(GOOD[column])
    frozen = array.copy()
    frozen.flags.writeable = False
    strided = np.repeat(array, 2)[::2]
    swapped = array.astype(array.dtype.newbyteorder())
    chunked = pa.chunked_array([array[:1], array[1:]])
    for container in (tuple(GOOD[column]), array, frozen, strided, swapped, pa.array(array), chunked):
        assert built(**{column: container}) == built(), type(container)


def test_whole_floats_are_whole_numbers() -> None:
    """Times and weights that went through a float column (as columns with gaps do) are accepted while whole."""
    assert built(times=[10.0, 11.0, 12.0], weights=[1.0, 2.0, 3.0]) == built()


@pytest.mark.parametrize("column", ["ids", "values"])
def test_text_columns(column: str) -> None:
    """Text as a list, as a numpy column of either kind, or from Arrow gives the same bytes."""
    texts = ["a", "ü", "日本"]
    expected = built(**{column: texts})
    strings = np.array(texts, np.dtypes.StringDType())
    for container in (np.array(texts), np.array(texts, object), strings, pa.array(texts), pa.chunked_array([texts])):
        assert built(**{column: container}) == expected


def test_text_with_nul_survives() -> None:
    """Keys that end in or contain a NUL keep their own identity and label."""
    texts = ["a", "a\0", "a\0b"]
    events = Events.of([1, 2, 3], [1, 1, 1], np.array(texts, object))
    assert sorted(events.labels.texts) == sorted(texts)
    loaded = Sample.from_bytes(Sample.build(events).to_bytes())
    assert sorted(loaded.labels.texts) == sorted(texts)


@pytest.mark.parametrize("container", [np.array, lambda keys: np.array(keys, object), list])
def test_bytes_as_keys(container: Any) -> None:
    """Keys given as bytes are labelled with the text they spell, and their sketch loads again."""
    events = Events.of([1, 2], [1, 1], container([b"foo", b"bar"]))
    assert sorted(events.labels.texts) == ["bar", "foo"]
    data = Sample.build(events).to_bytes()
    assert Sample.from_bytes(data).to_bytes() == data


def test_bytes_that_spell_no_text() -> None:
    """Bytes that are not UTF-8 have no label, so they are refused as keys."""
    with pytest.raises(EventError, match="values"):
        Events.of([1], [1], np.array([b"\xff\xfe"], object))


def test_minus_zero_is_zero() -> None:
    """-0.0 equals 0.0 for whoever looks at values, so it is the same event."""
    both = Events.of([1, 1], [5, 5], [0.0, -0.0])
    assert Sample.build(both).kept == 1
    assert built(values=[-0.0, 1.5, 2.5]) == built(values=[0.0, 1.5, 2.5])


def test_whole_and_fractional_values_are_different_kinds() -> None:
    """5 and 5.0 are kept as the kinds they came in."""
    assert Events.of([1], [1], [5]).kind is Kind.INTEGER
    assert Events.of([1], [1], [5.0]).kind is Kind.FLOAT
    assert Events.of([1], [1], ["5"]).kind is Kind.KEY
    assert Events.of([1], [1], [True]).kind is Kind.INTEGER


def test_no_values_and_no_weights() -> None:
    """Values left out are 0 and weights left out are 1."""
    assert built(values=None) == built(values=[0, 0, 0])
    assert built(weights=None) == built(weights=[1, 1, 1])


def test_no_rows() -> None:
    """Empty columns of any type are no events; an empty list is one too."""
    for empty in ([], np.array([], np.float64), np.array([], object), pa.array([], pa.string())):
        assert len(Events.of(empty, empty, empty, empty)) == 0


def test_the_edges_of_the_ranges_are_inside() -> None:
    """The least and the greatest time, weight and value go through bytes and back."""
    limits = np.iinfo(np.int64)
    events = Events.of([limits.min, limits.max], [-MAX_TIME, MAX_TIME], [limits.min, limits.max], [1, MAX_WEIGHT])
    data = Sample.build(events).to_bytes()
    loaded = Sample.from_bytes(data)
    assert loaded.to_bytes() == data
    assert loaded.rows.times.tolist() == [-MAX_TIME, MAX_TIME]
    assert sorted(loaded.rows.values.tolist()) == [limits.min, limits.max]


def test_labels_keep_the_smaller_of_two_texts() -> None:
    """Labels of wanted hashes come from any part; where parts disagree, the same one wins in every order."""
    code = hash_text(["x"])
    one, other = Labels(code, ("b",)), Labels(code, ("a",))
    assert Labels.merged([one, other], code).texts == Labels.merged([other, one], code).texts == ("a",)
    assert Labels.merged([one], code).text_of(int(code[0])) == "b"


class OnlyLookedUp(tuple[str, ...]):
    """Texts that may be looked up one by one, and never gone through."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("all texts were gone through")


@given(
    st.lists(st.dictionaries(st.integers(0, 12), st.sampled_from("abc"), max_size=12), min_size=1, max_size=4),
    st.data(),
)
def test_labels_are_those_of_the_wanted_hashes(parts: list[dict[int, str]], data: st.DataObject) -> None:
    """Of several parts, some larger and some smaller than what is wanted, each wanted hash has its smallest text."""
    known = sorted(set().union(*parts))
    wanted = data.draw(st.lists(st.sampled_from(known), max_size=20)) if known else []
    labels = [
        Labels(np.array(sorted(part), np.uint64), OnlyLookedUp(part[code] for code in sorted(part))) for part in parts
    ]
    merged = Labels.merged(labels, np.array(wanted, np.uint64))
    assert merged.hashes.tolist() == sorted(set(wanted))
    assert merged.texts == tuple(min(part[code] for part in parts if code in part) for code in sorted(set(wanted)))


def test_a_wanted_label_that_no_part_has() -> None:
    """A hash without a text is an error, not a label left out."""
    with pytest.raises(KeyError):
        Labels.merged([Labels(np.array([1, 3], np.uint64), ("a", "c"))], np.array([1, 2], np.uint64))
    with pytest.raises(KeyError):
        Labels.merged([Labels.none()], np.array([2], np.uint64))


@pytest.mark.parametrize("values", [[5, 6, 7, 8], [0.5, 0.25, 2.0, 1.0], ["a", "b", "c", "d"]])
@pytest.mark.parametrize("weights", [None, [1, 1, 1, 9]])
def test_rows_of_events_are_events(values: list[Any], weights: list[int] | None) -> None:
    """A range of rows is built to the bytes of the same rows given alone; none are those of no events."""
    ids, times = [1, 2, 3, 4], [40, 30, 20, 10]
    events = Events.of(ids, times, values, weights)
    for start, stop in ((0, 4), (1, 3), (3, 4), (2, 2), (4, 4)):
        part = slice(start, stop)
        alone = Events.of(ids[part], times[part], values[part], None if weights is None else weights[part])
        assert Sample.build(events.rows(start, stop)).to_bytes() == Sample.build(alone).to_bytes()
    assert np.shares_memory(events.rows(1, 3).times, events.times), "rows are views"
    assert events.rows(1, 3).labels is events.labels
