"""From raw columns to events, held against an oracle that looks at one row at a time in plain Python."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.executor.columns import CheckedRows, Conversion, check, kind_of, type_fault
from sketches import Sample
from sketches.event_rules import MAX_TIME
from sketches.events import Events, Kind, Labels
from sketches.hashing import hash_one
from sketches.units import TimeUnit

RESOLUTIONS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
UNITS = [TimeUnit(1, 1), TimeUnit(1, 1_000), TimeUnit(1, 10**6), TimeUnit(1, 10**9), TimeUnit(60, 1), TimeUnit(3, 2)]
ROLES = ("source", "id", "time", "value", "weight")
LARGEST_WEIGHT = 1 << 40

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
DECIMALS = [pa.decimal128(38, 0), pa.decimal128(38, 20), pa.decimal128(7, 2), pa.decimal256(60, 5), pa.decimal64(15, 3)]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BYTES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)]
TIMESTAMPS = [pa.timestamp(unit, zone) for unit in RESOLUTIONS for zone in (None, "UTC", "Europe/Berlin", "No/Where")]
DATES = [pa.date32(), pa.date64()]


@dataclass(frozen=True)
class Column:
    """A column as Arrow holds it, and the same rows as Python objects: times and dates as whole numbers."""

    type: pa.DataType
    rows: Sequence[Any]
    array: pa.Array

    @classmethod
    def of(cls, rows: Sequence[Any], kind: pa.DataType) -> Column:
        return cls(kind, rows, pa.array(rows, kind))


class Rejected(Exception):  # noqa: N818 - not an error: the oracle's other answer
    """Why a row is not an event."""


def expected_source(kind: pa.DataType, raw: Any) -> str:
    if raw is None:
        raise Rejected("no source")
    text = str(raw).lower() if isinstance(raw, bool) else str(raw)
    if len(text.encode()) > 1000:
        raise Rejected("source is longer than 1,000 bytes")
    return text


def expected_id(kind: pa.DataType, raw: Any) -> int:
    if raw is None:
        raise Rejected("no id")
    return raw % 2**64 if isinstance(raw, int) else hash_one(raw)


def expected_time(kind: pa.DataType, raw: Any, conversion: Conversion) -> int:
    if raw is None:
        raise Rejected("no time")
    unit = Fraction(conversion.unit.numerator, conversion.unit.denominator)
    if pa.types.is_timestamp(kind):
        time = math.floor(Fraction(raw, RESOLUTIONS[kind.unit]) / unit)
    elif pa.types.is_date32(kind):
        time = math.floor(raw * 86_400 / unit)
    elif pa.types.is_date64(kind):
        time = math.floor(Fraction(raw, 1000) / unit)
    elif isinstance(raw, float) and math.isnan(raw):
        raise Rejected("time is not a number")
    elif isinstance(raw, float) and math.isinf(raw):
        raise Rejected("time is out of range")
    else:
        time = math.floor(raw)
    if abs(time) > MAX_TIME:
        raise Rejected("time is out of range")
    if time > conversion.latest:
        raise Rejected("time lies further in the future than max_future")
    if time < conversion.earliest:
        raise Rejected("time lies further back than max_age")
    return time


def expected_value(kind: pa.DataType, raw: Any, wanted: Kind) -> int | float | str:
    if raw is None:
        raise Rejected("no value")
    if wanted is Kind.KEY:
        return str(raw).lower() if isinstance(raw, bool) else str(raw)
    if isinstance(raw, str):
        number = raw.strip()
        shape = r"[+-]?[0-9]{1,18}" if wanted is Kind.INTEGER else r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?"
        if not re.fullmatch(shape, number, re.IGNORECASE):
            raise Rejected("value is text that is not a number of the stream's kind")
        raw = int(number) if wanted is Kind.INTEGER else float(number)
    if isinstance(raw, float):
        if not math.isfinite(raw):
            raise Rejected("value is not a finite number")
        if abs(raw) > 1e300:
            raise Rejected("value is larger than 1e+300")
    if wanted is Kind.FLOAT:
        return float(raw)
    if raw != math.floor(raw):
        raise Rejected("value is not a whole number, as the stream's values are")
    if not -(2**63) <= raw < 2**63:
        raise Rejected("value is larger than 2^63")
    return int(raw)


def expected_weight(kind: pa.DataType, raw: Any) -> int:
    if raw is None:
        raise Rejected("no weight")
    if isinstance(raw, float) and not math.isfinite(raw):
        raise Rejected("weight is not a finite number")
    if raw < 0:
        raise Rejected("weight is negative: a measure, not a weight")
    if raw != math.floor(raw):
        raise Rejected("weight is not a whole number (see weight_step)")
    if raw > LARGEST_WEIGHT:
        raise Rejected("weight is larger than 2^40")
    return int(raw)


Event = tuple[str, int, int, int | float | str, int]


def expected(columns: dict[str, Column], row: int, conversion: Conversion) -> Event | str:
    """The event in this row, or the reason why it is none."""
    raw = {role: (column.type, column.rows[row]) for role, column in columns.items()}
    try:
        return (
            expected_source(*raw["source"]),
            expected_id(*raw["id"]),
            expected_time(*raw["time"], conversion),
            expected_value(*raw["value"], conversion.kind),
            expected_weight(*raw["weight"]),
        )
    except Rejected as reason:
        return str(reason)


def outcomes(checked: CheckedRows, rows: int, kind: Kind) -> list[Event | str]:
    """For each row of the input what `check` made of it."""
    fault = np.zeros(rows, np.uint8) if checked.fault is None else checked.fault
    assert len(fault) == rows
    assert len(checked) == np.count_nonzero(fault == 0)
    names = [checked.source_names[code] for code in checked.sources]
    values = checked.values.tolist()
    if kind is Kind.KEY:
        values = [checked.labels[value] for value in values]
    fine = zip(names, checked.ids.tolist(), checked.times.tolist(), values, checked.weights.tolist(), strict=True)
    return [next(fine) if number == 0 else checked.reasons[number - 1] for number in fault.tolist()]


def raw_values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Rows of a type, with what is dangerous about it drawn often."""
    if pa.types.is_integer(kind):
        bits, signed = kind.bit_width, pa.types.is_signed_integer(kind)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        edges = [low, high, MAX_TIME, MAX_TIME + 1, -MAX_TIME - 1, 1 << 63, LARGEST_WEIGHT, LARGEST_WEIGHT + 1]
        whole = st.integers(-2, 5) | st.integers(low, high) | st.sampled_from(edges)
        return whole.filter(lambda number: low <= number <= high)
    if pa.types.is_floating(kind):
        edges = [0.5, -0.5, -0.0, 1e299, 1e301, -1e301, 2.0**62, 2.0**63, -(2.0**63), 2.0**40, 2.0**41, 65504.0]
        exact = {16: np.float16, 32: np.float32, 64: np.float64}[kind.bit_width]
        numbers = st.floats(width=kind.bit_width) | st.integers(-3, 9).map(float) | st.sampled_from(edges)
        with np.errstate(over="ignore"):
            return numbers.map(lambda number: _rounded(number, exact))
    if pa.types.is_decimal(kind):
        step = Decimal(1).scaleb(-kind.scale)
        most = 10**kind.precision - 1
        edges = [(1 << 63) * 10**kind.scale, (LARGEST_WEIGHT + 1) * 10**kind.scale, MAX_TIME * 10**kind.scale + 1]
        digits = st.integers(-most, most) | st.integers(-9, 9) | st.integers(-3, 5).map(lambda n: n * 10**kind.scale)
        near = st.builds(lambda edge, sign, off: sign * (edge + off), st.sampled_from(edges), SIGNS, st.integers(-2, 2))
        return (digits | near.filter(lambda n: abs(n) <= most)).map(lambda n: EXACT.multiply(Decimal(n), step))
    if pa.types.is_boolean(kind):
        return st.booleans()
    if kind in BYTES:
        size = 3 if kind == pa.binary(3) else None
        return st.binary(min_size=size or 0, max_size=size or 6)
    if kind in TEXTS:
        numbers = st.integers(-(10**19), 10**19).map(str) | st.floats().map(str)
        return numbers | st.text("0123456789+-.eE x\t\u00a0", max_size=8) | st.text(max_size=5) | st.just("y" * 1001)
    if pa.types.is_timestamp(kind):
        return st.integers(-(1 << 63) + 1, (1 << 63) - 1) | st.integers(-3_000_000_000, 3_000_000_000)
    if pa.types.is_date32(kind):
        return st.integers(-(1 << 31), (1 << 31) - 1)
    if pa.types.is_date64(kind):
        return st.integers(-100_000, 100_000).map(lambda days: days * 86_400_000)
    return st.none()


SIGNS = st.sampled_from([-1, 1])
EXACT = Context(prec=100)


def _rounded(number: float, exact: type[np.floating[Any]]) -> float:
    with np.errstate(over="ignore"):
        return float(exact(number))


TYPES = {
    "source": [*TEXTS, *INTEGERS, pa.bool_(), pa.null()],
    "id": [*TEXTS, *INTEGERS, *BYTES, pa.null()],
    "time": [*INTEGERS, *FLOATS, *DECIMALS, *TIMESTAMPS, *DATES, pa.null()],
    "value": [*TEXTS, *INTEGERS, *FLOATS, *DECIMALS, pa.bool_(), pa.null()],
    "weight": [*INTEGERS, *FLOATS, *DECIMALS, pa.null()],
}
AS_TEXT = [*TEXTS, *INTEGERS, pa.bool_(), pa.null()]  # whose text Python and Arrow write alike


@st.composite
def column(draw: st.DrawFn, kind: pa.DataType, size: int) -> Column:
    """A column, as it is, cut out of a longer one, or as a dictionary whose entries repeat and may be null."""
    values = raw_values(kind)
    rows = draw(st.lists(values | values | values | st.none(), min_size=size, max_size=size))
    shape = draw(st.sampled_from(["plain", "plain", "cut", "dictionary"]))
    if shape == "cut":
        return Column(kind, rows, pa.array([draw(values), *rows, None], kind).slice(1, size))
    if shape == "dictionary" and not pa.types.is_null(kind):
        absent = draw(st.lists(st.booleans(), min_size=size, max_size=size))
        codes = [None if row is None and gone else at for at, (row, gone) in enumerate(zip(rows, absent, strict=True))]
        return Column(kind, rows, pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(rows, kind)))
    return Column.of(rows, kind)


@st.composite
def batches(draw: st.DrawFn, kind: Kind) -> dict[str, Column]:
    size = draw(st.integers(0, 8))
    found = {}
    for role, types in TYPES.items():
        admitted = AS_TEXT if role == "value" and kind is Kind.KEY else types
        found[role] = draw(column(draw(st.sampled_from(admitted)), size))
    return found


def sound(size: int) -> dict[str, Column]:
    """Columns with nothing wrong in them."""
    return {
        "source": Column.of(["s"] * size, pa.string()),
        "id": Column.of(list(range(size)), pa.int64()),
        "time": Column.of([7] * size, pa.int64()),
        "value": Column.of([1] * size, pa.int64()),
        "weight": Column.of([1] * size, pa.int64()),
    }


def assert_as_expected(columns: dict[str, Column], conversion: Conversion) -> None:
    size = len(columns["id"].rows)
    checked = check({role: column.array for role, column in columns.items()}, conversion)
    found = outcomes(checked, size, conversion.kind)
    wanted = [expected(columns, row, conversion) for row in range(size)]
    if conversion.kind is Kind.FLOAT and pa.types.is_decimal(columns["value"].type):
        # Arrow's way from a decimal to a float may end in the neighbour of the nearest one
        for row, (one, other) in enumerate(zip(found, wanted, strict=True)):
            if isinstance(one, tuple) and isinstance(other, tuple):
                assert one[3] == pytest.approx(other[3], rel=5e-16, abs=0)
                wanted[row] = (*other[:3], one[3], other[4])
    assert found == wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "kind"),
    [*((role, Kind.INTEGER) for role in ROLES if role != "value"), *(("value", kind) for kind in Kind)],
)
def test_every_type_gives_what_the_oracle_says(role: str, kind: Kind) -> None:
    """For each role and each type it admits, every row is the event or has the reason that the oracle says."""
    types = AS_TEXT if kind is Kind.KEY else TYPES[role]
    for one in types:
        assert type_fault(role, one) is None, one

    @settings(max_examples=5 * len(types))
    @given(st.sampled_from(types).flatmap(lambda one: column(one, 6)), st.sampled_from(UNITS[:5]))
    def agree(drawn: Column, unit: TimeUnit) -> None:
        assert_as_expected(sound(6) | {role: drawn}, Conversion(kind, unit))

    agree()


@pytest.mark.slow
@pytest.mark.parametrize("kind", Kind)
def test_batches_give_what_the_oracle_says(kind: Kind) -> None:
    """Faults in several columns at once: the first one counts, and no row vanishes or is counted twice."""

    @settings(max_examples=40)
    @given(batches(kind), st.sampled_from(UNITS[:5]), st.integers(-(10**10), 0), st.integers(0, 10**10))
    def agree(columns: dict[str, Column], unit: TimeUnit, earliest: int, latest: int) -> None:
        assert_as_expected(columns, Conversion(kind, unit, earliest, latest))

    agree()


@pytest.mark.parametrize("resolution", RESOLUTIONS)
@pytest.mark.parametrize("unit", UNITS[:5], ids=lambda unit: f"{unit.numerator}/{unit.denominator}")
def test_times_convert_exactly(resolution: str, unit: TimeUnit) -> None:
    """From every resolution to every unit, before 1970 as after, near the limits of 64 bits and of the clock."""
    edge = Fraction(MAX_TIME * unit.numerator, unit.denominator) * RESOLUTIONS[resolution]
    stamps = {0, 1, -1, 59, 60, -60, -61, 999, -999, 1000, -1001, 10**9, -(10**9) - 1, 86_399_999_999_999}
    limits = [(1 << 63) - 1, -(1 << 63) + 1, MAX_TIME, *(math.floor(edge * n) for n in (-4, -2, -1, 1, 2, 3, 4))]
    stamps |= {near + off for near in limits for off in (-1, 0, 1)}
    rows = [stamp for stamp in sorted(stamps) if -(1 << 63) < stamp < 1 << 63]
    for some in (rows, *([row] for row in rows)):  # a batch without the worst of them goes other ways
        time = Column.of(some, pa.timestamp(resolution))
        assert_as_expected(sound(len(some)) | {"time": time}, Conversion(Kind.INTEGER, unit))


def test_odd_units_convert_exactly() -> None:
    """A unit that is no part of a second rounds down as well, for all times of a thousand years."""
    rows = [-3, -2, -1, 0, 1, 2, 3, 4, 10**10, -(10**10), 31_556_952_000]
    for resolution in ("s", "ms"):
        time = Column.of(rows, pa.timestamp(resolution))
        assert_as_expected(sound(len(rows)) | {"time": time}, Conversion(Kind.INTEGER, TimeUnit(3, 2)))


def test_times_before_1970_are_rounded_down() -> None:
    """Half a second before 1970 is second -1, from a timestamp, a float and a decimal alike."""
    for column_of_time in (
        pa.array([-500, -1500, 500], pa.timestamp("ms")),
        pa.array([-0.5, -1.5, 0.5]),
        pa.array([Decimal("-0.5"), Decimal("-1.5"), Decimal("0.5")]),
    ):
        columns = {role: one.array for role, one in sound(3).items()} | {"time": column_of_time}
        assert check(columns, Conversion(Kind.INTEGER, TimeUnit())).times.tolist() == [-1, -2, 0]


@pytest.mark.parametrize("role", ["time", "value", "weight"])
@pytest.mark.parametrize("kind", [pa.decimal128(38, 0), pa.decimal128(38, 10), pa.decimal256(50, 2)], ids=str)
def test_decimals_are_exact_where_floats_are_not(role: str, kind: pa.DataType) -> None:
    """At the limits of 64 bits and of the clock, beyond the digits of a float and a little beside whole numbers."""
    edges = [0, 1, 2**53 + 1, LARGEST_WEIGHT, MAX_TIME, MAX_TIME + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 + 1, 10**25]
    least = Decimal(1).scaleb(-kind.scale)
    rows = [EXACT.multiply(Decimal(sign), Decimal(edge)) for edge in edges for sign in (1, -1)]
    if kind.scale:
        rows += [EXACT.add(Decimal(row), off) for row in (0, 1, -1, 2**53, -(2**53)) for off in (least, -least)]
    assert_as_expected(sound(len(rows)) | {role: Column.of(rows, kind)}, Conversion(Kind.INTEGER, TimeUnit()))


def weighed(weights: pa.Array, step: Fraction) -> list[int | str]:
    """What becomes of rows with these weights: the whole number of steps, or the reason."""
    columns = {role: one.array for role, one in sound(len(weights)).items()} | {"weight": weights}
    checked = check(columns, Conversion(Kind.INTEGER, TimeUnit(), weight_step=step))
    found = outcomes(checked, len(weights), Kind.INTEGER)
    return [one if isinstance(one, str) else one[-1] for one in found]


def test_weight_0_is_an_event() -> None:
    """Calls without loss, sensors at 0 degrees: no row of weight 0 is rejected, whatever the column's type."""
    for kind in (pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(9, 2)):
        assert weighed(pa.array([0, 1, 0], kind), Fraction(1)) == [0, 1, 0]
    assert weighed(pa.array([-0.0]), Fraction(1)) == [0]


def test_negative_weights_are_rejected_by_that_name() -> None:
    """A measure below 0 is no weight, whether it is whole or not, and the reason says where it belongs."""
    for kind in (pa.int16(), pa.float64(), pa.decimal128(9, 2)):
        for step in (Fraction(1), Fraction(1, 100)):
            (reason,) = weighed(pa.array([-3], kind), step)
            assert str(reason).startswith("weight is negative: ")
            assert "a measure" in str(reason)
    (reason,) = weighed(pa.array([-0.5]), Fraction(1))
    assert str(reason).startswith("weight is negative: ")


@pytest.mark.parametrize("text", ["0.01", "0.05", "0.3", "2.5", "1000", "0.000001", "7"])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.decimal128(38, 9), pa.decimal256(60, 6)], ids=str)
def test_weights_are_multiples_of_the_step(text: str, kind: pa.DataType) -> None:
    """Every multiple, as its type spells it, becomes its number of steps, up to 2^40 of them; one more is too many."""
    step = Fraction(text)
    rng = np.random.default_rng(3)
    digits = 22 if kind == pa.float32() else 40
    numbers = [0, 1, 2, 3, 99, *(int(2.0**bits) for bits in rng.uniform(0, digits, 300))]
    spelled = [Decimal(number) * Decimal(text) for number in numbers]
    as_written = (
        pa.array([float(one) for one in spelled], kind) if pa.types.is_floating(kind) else pa.array(spelled, kind)
    )
    assert weighed(as_written, step) == numbers
    most = [float(LARGEST_WEIGHT * step), float((LARGEST_WEIGHT + 1) * step)]
    assert weighed(pa.array(most), step) == [LARGEST_WEIGHT, "weight is larger than 2^40 steps of weight_step"]


def test_whole_columns_take_a_step_too() -> None:
    """A column of whole numbers with a step that is not 1: multiples are counted, others rejected."""
    for kind in (pa.int64(), pa.uint16()):
        assert weighed(pa.array([0, 5, 10, 7], kind), Fraction(5)) == [
            0,
            1,
            2,
            "weight is not a multiple of weight_step",
        ]
    assert weighed(pa.array([3]), Fraction(1, 4)) == [12]


def test_a_millionth_of_a_step_is_forgiven() -> None:
    """A weight that was computed is its nearest multiple; one further beside it is rejected by that name."""
    step = Fraction(1, 100)
    near = [0.29 * 1.0 + 9e-9, 0.1 + 0.2, 1.15 - 9e-9, -9e-9]
    assert weighed(pa.array(near), step) == [29, 30, 115, 0]
    far = [0.29 + 2e-8, 0.295, 0.001, 1e-7]
    assert weighed(pa.array(far), step) == ["weight is not a multiple of weight_step"] * 4
    assert weighed(pa.array([math.nan, math.inf, None, -0.295]), step) == [
        "weight is not a finite number",
        "weight is not a finite number",
        "no weight",
        "weight is negative: a measure, not a weight",
    ]


@pytest.mark.parametrize("kind", [Kind.INTEGER, Kind.FLOAT])
@pytest.mark.parametrize("text", TEXTS, ids=str)
def test_numbers_written_as_text(kind: Kind, text: pa.DataType) -> None:
    """Signs, blanks, points and exponents are read as the oracle reads them, and what is no number is rejected."""
    rows = [
        "+5",
        "-5",
        " 7\t",
        "\u00a07",
        "007",
        "-0",
        "++5",
        "+",
        "-",
        "",
        " ",
        "5.",
        ".5",
        ".",
        "1e3",
        "1E-3",
        "1e",
        "e3",
    ]
    rows += [
        "1_0",
        "1,5",
        "0x10",
        "nan",
        "inf",
        "٣",
        "9" * 18,
        "9" * 19,
        "-" + "9" * 18,
        "1e400",
        "-1e301",
        "1e-400",
        None,
    ]
    assert_as_expected(sound(len(rows)) | {"value": Column.of(rows, text)}, Conversion(kind, TimeUnit()))


@pytest.mark.parametrize("kind", FLOATS, ids=str)
def test_minus_zero_is_zero(kind: pa.DataType) -> None:
    """The two zeros are one value, so an event with either is the same event."""
    columns = {role: one.array for role, one in sound(2).items()} | {"value": pa.array([-0.0, 0.0], kind)}
    values = check(columns, Conversion(Kind.FLOAT, TimeUnit())).values
    assert values.tobytes() == np.zeros(2).tobytes()


def test_the_future_has_a_limit_and_the_past_too() -> None:
    """The limits themselves still count."""
    time = Column.of([99, 100, 200, 201], pa.int32())
    checked = check(
        {role: one.array for role, one in (sound(4) | {"time": time}).items()},
        Conversion(Kind.INTEGER, TimeUnit(), earliest=100, latest=200),
    )
    assert checked.times.tolist() == [100, 200]
    assert outcomes(checked, 4, Kind.INTEGER)[0] == "time lies further back than max_age"
    assert outcomes(checked, 4, Kind.INTEGER)[3] == "time lies further in the future than max_future"


def ids_of(array: pa.Array) -> list[int]:
    columns = {role: one.array for role, one in sound(len(array)).items()} | {"id": array}
    return check(columns, Conversion(Kind.INTEGER, TimeUnit())).ids.tolist()


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_integer_ids_are_those_of_events(kind: pa.DataType) -> None:
    """Whatever the width, and in a dictionary too, an id is the number that `Events.of` takes."""
    signed, bits = pa.types.is_signed_integer(kind), kind.bit_width
    ids = [0, 1, 127, (1 << bits - 1) - 1, *([-1, -(1 << bits - 1)] if signed else [(1 << bits) - 1])]
    known = Events.of(np.array(ids, kind.to_pandas_dtype()), [0] * len(ids)).ids.tolist()
    assert ids_of(pa.array(ids, kind)) == known
    assert ids_of(pa.array(ids, kind).dictionary_encode()) == known


@pytest.mark.parametrize("kind", [*TEXTS, *BYTES[:3]], ids=str)
def test_text_ids_are_those_of_events(kind: pa.DataType) -> None:
    """The hash of a text does not depend on how Arrow holds it."""
    ids = ["a", "", "äöü", "a\0b", "a", "x" * 5000]
    known = Events.of(ids, [0] * len(ids)).ids.tolist()
    array = pa.array([text.encode() for text in ids] if kind in BYTES else ids, kind)
    assert ids_of(array) == known


def test_ids_of_fixed_length_are_their_bytes() -> None:
    """UUIDs lie in Parquet as 16 bytes, which need not be text."""
    raw = [bytes(range(16)), b"\xff" * 16]
    known = [hash_one(one) for one in raw]
    assert ids_of(pa.array(raw, pa.binary(16))) == known
    assert ids_of(pa.array(raw, pa.uuid())) == known


def test_a_null_in_a_dictionary_is_no_id() -> None:
    """A dictionary of a file may hold a null among its entries; it is not the id of the empty text."""
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None]), pa.array(["a", None, ""]))
    columns = {role: one.array for role, one in sound(4).items()} | {"id": array}
    checked = check(columns, Conversion(Kind.INTEGER, TimeUnit()))
    assert checked.ids.tolist() == [hash_one("a"), hash_one("")]
    found = outcomes(checked, 4, Kind.INTEGER)
    assert found[1] == found[3] == "no id"


BROKEN = pa.Array.from_buffers(
    pa.string(), 3, [None, pa.py_buffer(np.array([0, 1, 3, 4], np.int32)), pa.py_buffer(b"7\xff\xfe8")]
)


def test_text_that_is_not_text_stops_nothing() -> None:
    """Bytes that are not UTF-8 come in text columns: an id is its bytes, a source or value is rejected."""
    with pytest.raises(UnicodeDecodeError):
        BROKEN.to_pylist()
    plain = {role: one.array for role, one in sound(3).items()}
    assert ids_of(BROKEN) == [hash_one(one) for one in (b"7", b"\xff\xfe", b"8")]
    source = check(plain | {"source": BROKEN}, Conversion(Kind.INTEGER, TimeUnit()))
    assert outcomes(source, 3, Kind.INTEGER)[1] == "source is not UTF-8 text"
    assert [source.source_names[code] for code in source.sources] == ["7", "8"]
    source = check(plain | {"source": BROKEN.cast(pa.binary())}, Conversion(Kind.INTEGER, TimeUnit()))
    assert outcomes(source, 3, Kind.INTEGER)[1] == "source is not UTF-8 text"
    key = check(plain | {"value": BROKEN}, Conversion(Kind.KEY, TimeUnit()))
    assert [one if isinstance(one, str) else one[3] for one in outcomes(key, 3, Kind.KEY)] == [
        "7",
        "value is not UTF-8 text",
        "8",
    ]
    for kind in (Kind.INTEGER, Kind.FLOAT):
        number = outcomes(check(plain | {"value": BROKEN}, Conversion(kind, TimeUnit())), 3, kind)
        assert [one if isinstance(one, str) else one[3] for one in number] == [
            7,
            "value is text that is not a number of the stream's kind",
            8,
        ]


def test_long_keys_are_rejected() -> None:
    """A key of a megabyte is no key."""
    rows = ["k", "x" * (1 << 20), "x" * ((1 << 20) + 1)]
    columns = {role: one.array for role, one in (sound(3) | {"value": Column.of(rows, pa.string())}).items()}
    found = outcomes(check(columns, Conversion(Kind.KEY, TimeUnit())), 3, Kind.KEY)
    assert found[2] == "value is longer than 1,048,576 bytes"
    assert not isinstance(found[1], str)


def test_floats_are_sources_and_keys_as_text() -> None:
    """A column of another type becomes the text that Arrow writes, and times are written in UTC."""
    source = pa.array([0, 1], pa.timestamp("s", "No/Where"))
    columns = {role: one.array for role, one in sound(2).items()} | {"source": source, "value": pa.array([1.5, 2.0])}
    checked = check(columns, Conversion(Kind.KEY, TimeUnit()))
    assert checked.source_names == ["1970-01-01 00:00:00Z", "1970-01-01 00:00:01Z"]
    assert list(checked.labels.values()) == ["1.5", "2"]


@pytest.mark.parametrize("kind", Kind)
def test_no_rows_give_no_events(kind: Kind) -> None:
    """An empty batch of any type is no fault."""
    for texts in TEXTS:
        columns = {role: one.array for role, one in sound(0).items()} | {
            role: pa.array([], texts) for role in ("source", "id", "value")
        }
        checked = check(columns, Conversion(kind, TimeUnit()))
        assert (len(checked), checked.fault, checked.reasons) == (0, None, ())


def as_events(checked: CheckedRows, kind: Kind) -> Events:
    found = sorted(checked.labels.items())
    labels = Labels(np.array([code for code, _ in found], np.uint64), tuple(text for _, text in found))
    return Events(checked.ids, checked.times, checked.values, checked.weights, labels, kind)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("text_ids", [False, True])
def test_sketches_are_those_of_the_good_rows(kind: Kind, text_ids: bool) -> None:
    """A sketch of what is left of a batch has the bytes of one of the good rows alone."""
    rng = np.random.default_rng(5)
    size = 6000
    ids: list[Any] = [f"id {n}" for n in range(size)] if text_ids else rng.integers(-(1 << 62), 1 << 62, size).tolist()
    times = rng.integers(-(10**6), 10**6, size).tolist()
    numbers = rng.integers(-500, 500, size)
    values = {Kind.INTEGER: numbers, Kind.FLOAT: numbers / 7, Kind.KEY: numbers.astype(str)}[kind].tolist()
    weights = rng.integers(1, 100, size).tolist()
    bad = set(rng.choice(size, 500, replace=False).tolist())
    columns = {
        "source": pa.array(["s"] * size),
        "id": pa.array(ids),
        "time": pa.array([None if row in bad and row % 2 else time for row, time in enumerate(times)]),
        "value": pa.array(values).dictionary_encode(),
        "weight": pa.array([-1 if row in bad and row % 2 == 0 else weight for row, weight in enumerate(weights)]),
    }
    checked = check(columns, Conversion(kind, TimeUnit()))
    good = [row for row in range(size) if row not in bad]
    assert len(checked) == len(good)
    direct = Events.of(*([column[row] for row in good] for column in (ids, times, values, weights)))
    settings_of = {"epsilon": 0.2, "seed": 3}
    assert Sample.build(as_events(checked, kind), **settings_of).to_bytes() == (
        Sample.build(direct, **settings_of).to_bytes()
    )


@pytest.mark.parametrize(
    ("role", "column_type"),
    [
        ("time", pa.string()),
        ("time", pa.bool_()),
        ("time", pa.list_(pa.int64())),
        ("weight", pa.string()),
        ("weight", pa.bool_()),
        ("weight", pa.timestamp("s")),
        ("id", pa.float64()),
        ("id", pa.bool_()),
        ("id", pa.struct([("a", pa.int64())])),
        ("value", pa.timestamp("s")),
        ("value", pa.binary()),
        ("source", pa.list_(pa.string())),
    ],
)
def test_types_that_cannot_play_a_role(role: str, column_type: pa.DataType) -> None:
    """They are told beforehand, in a dictionary too, with what would do."""
    told = type_fault(role, column_type)
    assert told is not None
    assert told.startswith("it must be ")
    assert type_fault(role, pa.dictionary(pa.int32(), column_type)) == told


def test_the_kind_follows_the_type() -> None:
    """Whole numbers, numbers or keys, as the type of a column says."""
    assert {kind_of(one) for one in [*INTEGERS, pa.bool_(), pa.null()]} == {Kind.INTEGER}
    assert {kind_of(one) for one in [*FLOATS, *DECIMALS]} == {Kind.FLOAT}
    assert {kind_of(one) for one in [*TEXTS, pa.dictionary(pa.int32(), pa.string())]} == {Kind.KEY}
    assert {kind_of(one) for one in [*TIMESTAMPS, *DATES, *BYTES]} == {None}
