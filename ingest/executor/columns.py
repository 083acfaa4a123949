"""From raw columns to events: converts Arrow columns to numpy columns, and says why a row is rejected. No loop by row.

All values of a stream have one kind: whole numbers, numbers or keys. Columns of other types are converted to it, and a
row whose value cannot be converted is rejected. The limits of an event are in `sketches.event_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ingest.executor.arrow_columns import (
    as_text,
    as_utf8,
    is_bytes,
    is_text,
    plain_type,
    rounded_down,
    simplified,
    to_numpy,
)
from ingest.executor.field_columns import FieldFaults, FieldRows, check_fields
from ingest.executor.sketches_of_others import Families, sketches_of
from sketches.arrays import Flags
from sketches.event_rules import (
    LONGEST_KEY,
    LONGEST_SOURCE,
    MAX_TIME,
    MAX_VALUE,
    MAX_WEIGHT,
    MIN_WEIGHT,
    NUMBER,
    RETRACT,
    ROLES,
    WHOLE_NUMBER,
)
from sketches.events import Kind
from sketches.fields import FieldKind
from sketches.hashing import hash_each
from sketches.units import TimeUnit

Faults = list[tuple[Flags, str]]

_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

# Reasons are stored with the rejected rows: another wording would count as another reason.
TOO_OLD: Final = "time lies further back than max_age"
_NOT_WHOLE: Final = "value is not a whole number, as the stream's values are"
_TOO_LARGE: Final = "value is larger than 2^63"
_NEGATIVE: Final = "weight is negative: a measure, not a weight"
_FRACTION: Final = "weight is not a whole number (see weight_step)"
_NO_MULTIPLE: Final = "weight is not a multiple of weight_step"

_TOLERANCE: Final = 1e-6  # of a step, for weights that were computed or rounded
_LAST_DIGITS: Final = 2.0**-50  # of a 64-bit float: what a cast from decimals and a division may lose


@dataclass(frozen=True, slots=True)
class Conversion:
    """What rows are converted to: the kind of values, the unit of time and of weights, and which times are accepted."""

    kind: Kind
    unit: TimeUnit
    earliest: int = -MAX_TIME
    latest: int = MAX_TIME
    clock: int = MAX_TIME  # when the run started; later times are accepted up to `latest`, and counted
    weight_step: Fraction = Fraction(1)  # weights become whole numbers of it
    fields: Mapping[str, FieldKind] = field(default_factory=dict)
    retracts: bool = False  # rows may take an event back
    sketches: Families = ()  # values are sketches that others have made, which these families take in


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """The rows that are events. For each row of the input, `fault` is the number of its reason in `reasons`, or 0 where
    the row is an event; it is None where all of them are."""

    sources: NDArray[np.int32]  # numbers in source_names
    source_names: list[str]
    ids: NDArray[np.uint64]
    times: NDArray[np.int64]
    values: NDArray[Any]
    weights: NDArray[np.int64]
    labels: dict[int, str]
    fault: NDArray[np.uint8] | None
    reasons: tuple[str, ...] = ()
    fields: Mapping[str, FieldRows] = field(default_factory=dict)
    gone: Flags | None = None  # which rows take an event back, where the stream has such
    field_faults: FieldFaults = field(default_factory=dict)  # why fields are missing in rows that are events

    def __len__(self) -> int:
        return len(self.times)


def kind_of(column: pa.DataType) -> Kind | None:
    """The kind of values of this type; None where they are neither numbers nor text."""
    column = plain_type(column)
    if pa.types.is_integer(column) or pa.types.is_boolean(column) or pa.types.is_null(column):
        return Kind.INTEGER
    if pa.types.is_floating(column) or pa.types.is_decimal(column):
        return Kind.FLOAT
    return Kind.KEY if is_text(column) else None


def type_fault(role: str, column: pa.DataType, of_sketches: bool = False) -> str | None:
    """Why a column of this type cannot be this part of an event, and what would help; None where it can."""
    column = plain_type(column)
    if of_sketches:
        return None if is_bytes(column) else "it must be binary, the sketches as their library writes them"
    whole = pa.types.is_integer(column) or pa.types.is_null(column)
    number = whole or pa.types.is_floating(column) or pa.types.is_decimal(column)
    if role == "time" and not (number or pa.types.is_timestamp(column) or pa.types.is_date(column)):
        return "it must be a timestamp or a number of time units; text becomes one with to_timestamp(...)"
    if role == "weight" and not number:
        return "it must be a number; text becomes one with int(...) or double(...)"
    if role == "id" and (pa.types.is_floating(column) or pa.types.is_nested(column) or pa.types.is_boolean(column)):
        return "it must be whole numbers or text; several columns make one id with concat_ws('/', a, b)"
    if role == "value" and kind_of(column) is None:
        return "it must be a number or text; other types become one with double(...) or string(...)"
    if role == "source" and pa.types.is_nested(column):
        return "it must be text or a number"
    return None


def check(columns: Mapping[str, pa.Array], conversion: Conversion) -> CheckedRows:
    """Convert the columns of a batch, and leave out the rows that are not events."""
    fields = conversion.fields
    roles = (*ROLES, RETRACT) if conversion.retracts else ROLES
    raw, columns = columns, {role: simplified(columns[role]) for role in roles}
    faults: Faults = []
    sources, names = _texts(columns["source"], "source", LONGEST_SOURCE, faults)
    ids = _ids(columns["id"], faults)
    times = _times(columns["time"], conversion, faults)
    if conversion.sketches:
        labels: dict[int, str] = {}
        values, weights, refused = sketches_of(columns["value"], conversion.sketches)
        faults += refused
    else:
        values, labels = _values(columns["value"], conversion.kind, faults)
        weights = _weights(columns["weight"], conversion.weight_step, faults)
    gone = _gone(columns[RETRACT], faults) if conversion.retracts else None
    if not faults:
        further, missed = check_fields(raw, fields, None)
        return CheckedRows(sources, names, ids, times, values, weights, labels, None, (), further, gone, missed)
    fault = np.zeros(len(times), np.uint8)
    for number, (mask, _) in enumerate(faults, start=1):
        fault[mask & (fault == 0)] = number
    keep = fault == 0
    further, missed = check_fields(raw, fields, keep)
    return CheckedRows(
        sources[keep],
        names,
        ids[keep],
        times[keep],
        values[keep],
        weights[keep],
        labels,
        fault,
        tuple(reason for _, reason in faults),
        further,
        None if gone is None else gone[keep],
        missed,
    )


def _gone(array: pa.Array, faults: Faults) -> Flags:
    """Which rows take an event back."""
    if pa.types.is_null(array.type):
        array = array.cast(pa.bool_())
    return to_numpy(_filled(array, False, faults, "nothing says whether it takes an event back")).astype(bool)


def _reject(faults: Faults, mask: Flags, reason: str) -> None:
    if mask.any():
        faults.append((mask, reason))


def _filled(array: pa.Array, filler: Any, faults: Faults, reason: str) -> pa.Array:
    """The array with nulls replaced by the filler; their rows are rejected."""
    if array.null_count == 0:
        return array
    _reject(faults, array.is_null().to_numpy(zero_copy_only=False), reason)
    return array.fill_null(filler)


def _encoded(array: pa.Array, faults: Faults, reason: str) -> tuple[NDArray[np.int32], pa.Array]:
    """Each row as a number into the distinct texts, and these texts. Rows without a text are rejected."""
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = to_numpy(_filled(array.indices, 0, faults, reason)).astype(np.int32, copy=False)
    distinct = array.dictionary
    if len(distinct) == 0:
        distinct = pa.array([""], distinct.type)
    if distinct.null_count:  # the dictionary of a file may itself hold a null
        _reject(faults, to_numpy(distinct.is_null())[codes], reason)
        distinct = distinct.fill_null("")
    return codes, distinct


def _texts(array: pa.Array, role: str, longest: int, faults: Faults) -> tuple[NDArray[np.int32], list[str]]:
    """Each row of a source or a key as a number into the distinct texts, and these texts."""
    if not pa.types.is_dictionary(array.type):
        array = as_text(array)
    elif not is_text(array.type.value_type):
        array = pa.DictionaryArray.from_arrays(array.indices, as_text(array.dictionary))
    codes, distinct = _encoded(array, faults, f"no {role}")
    readable = as_utf8(distinct)
    if readable is not distinct:
        broken = pc.not_equal(readable.cast(pa.large_binary()), distinct.cast(pa.large_binary()))
        _reject(faults, to_numpy(broken)[codes], f"{role} is not UTF-8 text")
    lengths = to_numpy(pc.binary_length(distinct))
    if lengths.max() > longest:
        _reject(faults, (lengths > longest)[codes], f"{role} is longer than {longest:,} bytes")
    return codes, readable.to_pylist()


def _ids(array: pa.Array, faults: Faults) -> NDArray[np.uint64]:
    if pa.types.is_null(array.type):
        array = array.cast(pa.int64())
    if pa.types.is_integer(array.type):
        whole = to_numpy(_filled(array, 0, faults, "no id"))
        return whole.view(np.uint64) if whole.dtype.itemsize == 8 else whole.astype(np.int64).view(np.uint64)
    plain = plain_type(array.type)
    codes, distinct = _encoded(array if is_text(plain) or is_bytes(plain) else as_text(array), faults, "no id")
    return hash_each(distinct.cast(pa.large_binary()).to_pylist())[codes]


def _times(array: pa.Array, conversion: Conversion, faults: Faults) -> NDArray[np.int64]:
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("s" if pa.types.is_date32(array.type) else "ms"))
    if pa.types.is_timestamp(array.type):
        resolution = _PER_SECOND[array.type.unit]
        array = _filled(array.cast(pa.int64()), 0, faults, "no time")
        times = _in_units(
            to_numpy(array), Fraction(conversion.unit.denominator, conversion.unit.numerator * resolution), faults
        )
    else:
        times = _floored(array, faults)
    if len(times) and (times.min() < conversion.earliest or times.max() > conversion.latest):
        _reject(faults, (times < -MAX_TIME) | (times > MAX_TIME), "time is out of range")
        _reject(faults, times > conversion.latest, "time lies further in the future than max_future")
        _reject(faults, times < conversion.earliest, TOO_OLD)
    return times


def _in_units(stamps: NDArray[np.int64], per_stamp: Fraction, faults: Faults) -> NDArray[np.int64]:
    """floor(stamp · units per stamp), exactly."""
    top, bottom = per_stamp.numerator, per_stamp.denominator
    if top > 1 and len(stamps) and np.abs(stamps.astype(np.float64)).max() > MAX_TIME / top:
        far = np.abs(stamps.astype(np.float64)) > MAX_TIME / top
        _reject(faults, far, "time is out of range")
        stamps = np.where(far, 0, stamps)
    scaled = stamps * top if top > 1 else stamps
    return scaled // bottom if bottom > 1 else scaled


def _floored(array: pa.Array, faults: Faults) -> NDArray[np.int64]:
    """Numbers of time units, rounded down to whole numbers."""
    if pa.types.is_null(array.type):
        array = array.cast(pa.int64())
    array = _filled(array, 0, faults, "no time")
    if pa.types.is_decimal(array.type):
        return rounded_down(array)[0]
    numbers = to_numpy(array)
    if numbers.dtype.kind == "f":
        fine = np.abs(numbers) <= MAX_TIME
        _reject(faults, np.isnan(numbers), "time is not a number")
        _reject(faults, ~fine, "time is out of range")
        return np.floor(np.where(fine, numbers, 0.0)).astype(np.int64)
    if numbers.dtype == np.uint64:
        _reject(faults, numbers > MAX_TIME, "time is out of range")
        numbers = np.minimum(numbers, MAX_TIME)
    return numbers.astype(np.int64, copy=False)


def _values(array: pa.Array, kind: Kind, faults: Faults) -> tuple[NDArray[Any], dict[int, str]]:
    if kind is Kind.KEY:
        return _keys(array, faults)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if is_text(array.type):
        array = _parsed(array, kind, faults)
    elif pa.types.is_boolean(array.type) or pa.types.is_null(array.type):
        array = array.cast(pa.int64())
    array = _filled(array, 0, faults, "no value")
    if pa.types.is_decimal(array.type):
        if kind is Kind.INTEGER:
            numbers, whole, fits = rounded_down(array)
            _reject(faults, ~whole, _NOT_WHOLE)
            _reject(faults, ~fits, _TOO_LARGE)
            return numbers, {}
        array = array.cast(pa.float64(), safe=False)
    numbers = to_numpy(array)
    if numbers.dtype.kind == "f":
        numbers = numbers.astype(np.float64, copy=False)  # in 32 bits the largest value would round to infinity
        fine = np.abs(numbers) <= MAX_VALUE  # NaN is not, either
        if not fine.all():
            _reject(faults, ~np.isfinite(numbers), "value is not a finite number")
            _reject(faults, ~fine, f"value is larger than {MAX_VALUE:g}")
            numbers = np.where(fine, numbers, 0)
        if kind is Kind.FLOAT:
            return numbers + 0.0, {}  # + 0.0: minus zero is zero
        _reject(faults, numbers != np.rint(numbers), _NOT_WHOLE)
        fits = (numbers >= -(2.0**63)) & (numbers < 2.0**63)
        _reject(faults, ~fits, _TOO_LARGE)
        return np.where(fits, numbers, 0).astype(np.int64), {}
    if kind is Kind.FLOAT:
        return numbers.astype(np.float64), {}
    if numbers.dtype == np.uint64:
        _reject(faults, numbers >= 1 << 63, _TOO_LARGE)
    return numbers.astype(np.int64, copy=False), {}


def _keys(array: pa.Array, faults: Faults) -> tuple[NDArray[np.uint64], dict[int, str]]:
    codes, texts = _texts(array, "value", LONGEST_KEY, faults)
    hashes = hash_each(text.encode() for text in texts)
    return hashes[codes], dict(zip(hashes.tolist(), texts, strict=True))


def _parsed(array: pa.Array, kind: Kind, faults: Faults) -> pa.Array:
    """Numbers that are written as text. Rows with other text are rejected; null stays null."""
    trimmed = pc.utf8_trim_whitespace(as_utf8(array))
    reads = pc.match_substring_regex(trimmed, f"^{WHOLE_NUMBER if kind is Kind.INTEGER else NUMBER}$")
    _reject(faults, ~to_numpy(reads.fill_null(True)), "value is text that is not a number of the stream's kind")
    numbers = pc.ascii_ltrim(pc.if_else(reads, trimmed, "0"), "+")
    return pc.if_else(array.is_valid(), numbers, None).cast(pa.int64() if kind is Kind.INTEGER else pa.float64())


def _weights(array: pa.Array, step: Fraction, faults: Faults) -> NDArray[np.int64]:
    """Weights as whole numbers of steps."""
    if pa.types.is_null(array.type):
        array = array.cast(pa.int64())
    array = _filled(array, 1, faults, "no weight")
    numbers: NDArray[Any]
    whole: Flags | None
    if step != 1:
        numbers, whole = _multiples(array, step, faults)
    elif pa.types.is_decimal(array.type):
        numbers, whole, _ = rounded_down(array)
    else:
        numbers = to_numpy(array)
        whole = np.isfinite(numbers) & (numbers == np.rint(numbers)) if numbers.dtype.kind == "f" else None
    if numbers.dtype.kind == "f":
        _reject(faults, ~np.isfinite(numbers), "weight is not a finite number")
        numbers = np.where(np.isfinite(numbers), np.clip(np.floor(numbers), -1.0, 2.0 * MAX_WEIGHT), 1).astype(np.int64)
    if len(numbers) and numbers.min() < MIN_WEIGHT:
        _reject(faults, numbers < MIN_WEIGHT, _NEGATIVE)
    if whole is not None:
        _reject(faults, ~whole, _FRACTION if step == 1 else _NO_MULTIPLE)
    if len(numbers) and numbers.max() > MAX_WEIGHT:
        steps = "" if step == 1 else " steps of weight_step"
        _reject(faults, numbers > MAX_WEIGHT, f"weight is larger than 2^{MAX_WEIGHT.bit_length() - 1}{steps}")
    return numbers.astype(np.int64, copy=False)


def _multiples(array: pa.Array, step: Fraction, faults: Faults) -> tuple[NDArray[np.float64], Flags]:
    """How many steps each weight is, and for which of them that is a whole number.

    It is one within a millionth of a step, or as near as a float can come: beyond 2^30 steps the last digits of a
    64-bit float are wider than that, and a 32-bit float must be the one nearest to the multiple.
    """
    raw = to_numpy(array.cast(pa.float64(), safe=False) if pa.types.is_decimal(array.type) else array)
    exact = raw.astype(np.float64)
    steps = exact * step.denominator / step.numerator
    nearest = np.rint(steps)
    with np.errstate(over="ignore", invalid="ignore"):
        spelled = nearest * step.numerator / step.denominator
        if raw.dtype.kind == "f":
            spelled = spelled.astype(raw.dtype)
        off = np.abs(steps - nearest)
        whole = (off <= _TOLERANCE) | (off <= np.abs(steps) * _LAST_DIGITS) | (spelled == raw)
    return np.where(whole, nearest, steps), whole
