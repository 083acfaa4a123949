"""From raw columns to fields: converts Arrow columns to what `sketches.fields` holds. No loop by row.

A field has one kind in all rows of a run, and of all runs. A row whose field cannot be converted to it stays an event;
the field is missing there, and the reason is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ingest.executor.arrow_columns import as_text, as_utf8, is_text, plain_type, rounded_down, simplified, to_numpy
from sketches.arrays import Flags, Rows, Words
from sketches.event_rules import LONGEST_FIELD_TEXT, MAX_VALUE, NUMBER, WHOLE_NUMBER
from sketches.fields import FieldColumn, FieldKind, Fields
from sketches.hashing import finalise, hash_each

FieldFaults = dict[str, dict[str, int]]  # field → why it is missing in a row that has something there → rows

_WIDEST: Final = (FieldKind.BOOLEAN, FieldKind.INTEGER, FieldKind.FLOAT, FieldKind.TEXT)
_WORDS: Final = {
    FieldKind.BOOLEAN: "true or false",
    FieldKind.INTEGER: "a whole number",
    FieldKind.FLOAT: "a number",
}
_NOT_FINITE: Final = "it is not a finite number"
_TOO_LARGE: Final = "it is 2^63 or larger"
_TOO_LONG: Final = f"it is longer than {LONGEST_FIELD_TEXT:,} bytes"
_NOT_UTF8: Final = "it is not UTF-8 text"
_PREFIX: Final = "field "
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_NO_TEXTS: Final = pa.nulls(0, pa.large_string())  # `pa.array` would import pandas


def column_name(name: str) -> str:
    """What the column of a field is called among those of an event's parts; no part is called so."""
    return _PREFIX + name


def field_kind_of(types: Iterable[pa.DataType]) -> FieldKind | None:
    """The narrowest kind that holds columns of all these types; None where they hold nothing but nulls."""
    kinds = [kind for column in types if (kind := _kind_of(plain_type(column))) is not None]
    return max(kinds, key=_WIDEST.index, default=None)


def field_type_fault(column: pa.DataType) -> str | None:
    """Why a column of this type cannot be a field, and what would help; None where it can."""
    column = plain_type(column)
    if pa.types.is_null(column) or _kind_of(column) is not None:
        return None
    if pa.types.is_nested(column):
        return "it must be a number, text, true and false, or a time; a part of it is written with a dot: request.path"
    return "it must be a number, text, true and false, or a time; other types become text with string(...) or hex(...)"


def _kind_of(column: pa.DataType) -> FieldKind | None:
    if pa.types.is_boolean(column):
        return FieldKind.BOOLEAN
    if pa.types.is_integer(column):
        return FieldKind.INTEGER
    if pa.types.is_floating(column) or pa.types.is_decimal(column):
        return FieldKind.FLOAT
    return FieldKind.TEXT if is_text(column) or _is_moment(column) else None


def _is_moment(column: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(column) or pa.types.is_date(column) or pa.types.is_time(column))


@dataclass(frozen=True, slots=True)
class FieldRows:
    """One field of the rows of a batch: numbers, or for text the numbers of rows in a list of texts in any order."""

    values: NDArray[Any]
    missing: Flags | None = None
    texts: pa.Array | None = None

    def take(self, which: Flags) -> FieldRows:
        return FieldRows(self.values[which], None if self.missing is None else self.missing[which], self.texts)

    @property
    def nbytes(self) -> int:
        marks = 0 if self.missing is None else self.missing.nbytes
        return self.values.nbytes + marks + (0 if self.texts is None else int(self.texts.nbytes))


def check_fields(
    columns: Mapping[str, pa.Array], kinds: Mapping[str, FieldKind], keep: Flags | None
) -> tuple[dict[str, FieldRows], FieldFaults]:
    """The fields of a batch in the rows to keep (None: in all), and why some of these rows lack them."""
    found: dict[str, FieldRows] = {}
    counts: FieldFaults = {}
    for name, kind in kinds.items():
        part = _converted(simplified(columns[column_name(name)]), kind)
        missing = part.missing
        for mask, reason in part.faults:
            new = mask & ~missing
            rows = int(np.count_nonzero(new if keep is None else new & keep))
            if rows:
                counts.setdefault(name, {})[reason] = rows
            missing = missing | mask
        made = FieldRows(part.values, None, part.texts)
        if missing.any():
            made = FieldRows(np.where(missing, part.values.dtype.type(0), part.values), missing, part.texts)
        found[name] = made if keep is None else made.take(keep)
    return found, counts


@dataclass(slots=True)
class _Part:
    """A column on its way to a field: what is missing in it, and where and why it cannot be converted."""

    values: NDArray[Any]
    missing: Flags
    texts: pa.Array | None = None
    faults: list[tuple[Flags, str]] = field(default_factory=list)

    def refuse(self, mask: Flags, reason: str) -> None:
        if mask.any():
            self.faults.append((mask, reason))

    def placed(self, codes: NDArray[Any], missing: Flags) -> _Part:
        """The column of rows that are numbers in this one."""
        faults = [(mask[codes], reason) for mask, reason in self.faults]
        return _Part(self.values[codes], missing | self.missing[codes], self.texts, faults)


def _converted(array: pa.Array, kind: FieldKind) -> _Part:
    if pa.types.is_null(array.type):
        nothing = _NO_TEXTS if kind is FieldKind.TEXT else None
        return _Part(np.zeros(len(array), kind.dtype), np.ones(len(array), bool), nothing)
    if kind is FieldKind.TEXT:
        return _texts(array)
    if not pa.types.is_dictionary(array.type):
        return _numbers(array, kind)
    missing = to_numpy(array.is_null())
    if len(array.dictionary) == 0:
        return _Part(np.zeros(len(array), kind.dtype), missing)
    return _numbers(array.dictionary, kind).placed(to_numpy(array.indices.fill_null(0)), missing)


def _numbers(array: pa.Array, kind: FieldKind) -> _Part:
    """Numbers, and true and false."""
    part = _Part(np.zeros(len(array), kind.dtype), to_numpy(array.is_null()))
    wrong = f"it is not {_WORDS[kind]}, as the field is"
    if is_text(array.type):
        array = _parsed(array, kind, part, wrong)
    elif pa.types.is_boolean(array.type) and kind is not FieldKind.BOOLEAN:
        array = array.cast(pa.int64())
    if (kind is FieldKind.BOOLEAN) != pa.types.is_boolean(array.type) or _is_moment(array.type):
        if pa.types.is_floating(array.type):
            part.missing = part.missing | to_numpy(pc.is_nan(array).fill_null(True))
        part.refuse(~part.missing, wrong)
        return part
    array = array.fill_null(False if kind is FieldKind.BOOLEAN else 0) if array.null_count else array
    if pa.types.is_decimal(array.type):
        if kind is FieldKind.INTEGER:
            part.values, whole, fits = rounded_down(array)
            part.refuse(~whole, wrong)
            part.refuse(~fits, _TOO_LARGE)
            return part
        array = array.cast(pa.string()).cast(pa.float64())  # by its digits: the direct cast is off in the last one
    numbers = to_numpy(array)
    if numbers.dtype.kind == "f":
        numbers = _finite(numbers, part)
        if kind is FieldKind.INTEGER:
            part.refuse(numbers != np.rint(numbers), wrong)
            fits = (numbers >= -(2.0**63)) & (numbers < 2.0**63)
            part.refuse(~fits, _TOO_LARGE)
            numbers = np.where(fits, numbers, 0).astype(np.int64)
    elif numbers.dtype == np.uint64 and kind is FieldKind.INTEGER:
        part.refuse(numbers >= 1 << 63, _TOO_LARGE)
        numbers = numbers.astype(np.int64)
    part.values = numbers
    return part


def _finite(numbers: NDArray[Any], part: _Part) -> NDArray[Any]:
    """The numbers, with 0 where there is none; NaN is missing, and others are refused."""
    fine = np.isfinite(numbers)
    if numbers.dtype.itemsize == 8:  # a float of 32 bits is never too large
        fine &= np.abs(numbers) <= MAX_VALUE
    if fine.all():
        return numbers
    part.missing = part.missing | np.isnan(numbers)
    part.refuse(np.isinf(numbers), _NOT_FINITE)
    part.refuse(~fine & np.isfinite(numbers), f"it is larger than {MAX_VALUE:g}")
    return np.where(fine, numbers, numbers.dtype.type(0))


def _parsed(array: pa.Array, kind: FieldKind, part: _Part, wrong: str) -> pa.Array:
    """Numbers, or true and false, that are written as text."""
    trimmed = pc.utf8_trim_whitespace(as_utf8(array))
    if kind is FieldKind.BOOLEAN:
        lower = pc.ascii_lower(trimmed)
        true = pc.equal(lower, "true")
        part.refuse(to_numpy(pc.invert(pc.or_(true, pc.equal(lower, "false"))).fill_null(False)), wrong)
        return true
    reads = pc.match_substring_regex(trimmed, f"^{WHOLE_NUMBER if kind is FieldKind.INTEGER else NUMBER}$")
    part.refuse(~to_numpy(reads.fill_null(True)), wrong)
    numbers = pc.ascii_ltrim(pc.if_else(reads, trimmed, "0"), "+")
    return numbers.cast(pa.int64() if kind is FieldKind.INTEGER else pa.float64())


def _texts(array: pa.Array) -> _Part:
    """Each row as a number in the distinct texts."""
    part = _Part(np.zeros(len(array), np.int32), to_numpy(array.is_null()), _NO_TEXTS)
    if pa.types.is_floating(array.type):
        numbers = to_numpy(array.fill_null(0) if array.null_count else array)
        array = pa.array(_finite(numbers, part) + numbers.dtype.type(0))  # minus zero is zero
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    entries = _spelled(encoded.dictionary)
    if len(entries) == 0:
        return part
    codes = to_numpy(encoded.indices.fill_null(0) if encoded.indices.null_count else encoded.indices)
    part.values = codes.astype(np.int32, copy=False)
    if entries.null_count:  # the dictionary of a file may itself hold a null
        part.missing = part.missing | to_numpy(entries.is_null())[codes]
        entries = entries.fill_null("")
    readable = as_utf8(entries)
    bad = to_numpy(pc.binary_length(entries)) > LONGEST_FIELD_TEXT
    if bad.any():
        part.refuse(bad[codes], _TOO_LONG)
    if readable is not entries:
        broken = to_numpy(pc.not_equal(readable.cast(pa.large_binary()), entries.cast(pa.large_binary())))
        part.refuse(broken[codes], _NOT_UTF8)
        bad = bad | broken
    part.texts = (pc.if_else(bad, "", readable) if bad.any() else readable).cast(pa.large_string())
    return part


def _spelled(entries: pa.Array) -> pa.Array:
    """Distinct values as text; times as ISO writes them, the same whatever their resolution."""
    if not _is_moment(entries.type):
        return as_text(entries)
    if pa.types.is_date(entries.type):
        return entries.cast(pa.date32()).cast(pa.string())
    text = pc.replace_substring(as_text(entries), " ", "T", max_replacements=1)
    text = pc.replace_substring_regex(text, r"(\.[0-9]*[1-9])0+(Z?)$", r"\1\2")
    return pc.replace_substring_regex(text, r"\.0+(Z?)$", r"\1")


def fields_of(rows: int, kinds: Mapping[str, FieldKind], parts: Mapping[str, Sequence[FieldRows]]) -> Fields:
    """The fields of the rows of many batches, one after the other, each made when it is first asked for."""
    return Fields(rows, {name: partial(_together, kinds[name], parts[name]) for name in sorted(kinds)})


def _together(kind: FieldKind, parts: Sequence[FieldRows]) -> FieldColumn:
    missing = None
    if any(part.missing is not None for part in parts):
        nowhere = (np.zeros(len(part.values), bool) if part.missing is None else part.missing for part in parts)
        missing = np.concatenate(list(nowhere))
    if kind is FieldKind.TEXT:
        return _texts_together(parts, missing)
    values = np.concatenate([part.values.astype(kind.dtype, copy=False) for part in parts])
    return FieldColumn(kind, values + 0.0 if kind is FieldKind.FLOAT else values, missing)  # minus zero is zero


def _texts_together(parts: Sequence[FieldRows], missing: Flags | None) -> FieldColumn:
    """The texts of all parts in order, each once, and the rows as numbers in them."""
    encoded = pa.concat_arrays([part.texts for part in parts if part.texts is not None]).dictionary_encode()
    numbers, distinct = to_numpy(encoded.indices), encoded.dictionary
    codes, start = [], 0
    for part in parts:
        length = 0 if part.texts is None else len(part.texts)
        here = numbers[start : start + length]
        codes.append(here[part.values] if length else np.zeros(len(part.values), np.int32))
        start += length
    values = np.concatenate(codes)
    used = np.zeros(max(len(distinct), 1), bool)
    used[values if missing is None else values[~missing]] = True
    places = np.flatnonzero(used)
    kept = distinct.take(pa.array(places[: len(distinct)]))
    order = to_numpy(pc.sort_indices(kept))  # by bytes of UTF-8, which is the order of Python's texts
    rank = np.zeros(len(used), np.int32)
    rank[places[order]] = np.arange(len(order), dtype=np.int32)
    values = rank[values]
    if missing is not None:
        values = np.where(missing, np.int32(0), values)
    return FieldColumn(FieldKind.TEXT, values, missing, tuple(kept.take(pa.array(order)).to_pylist()))


def field_hashes(fields: Fields, which: Rows) -> Words:
    """A hash of the fields of some rows, the same on every worker: that of rows that agree in all fields."""
    mixed = np.zeros(len(which), np.uint64)
    for name in fields:
        column = fields[name].take(which).tight()
        if column.kind is FieldKind.TEXT:
            known = hash_each(text.encode() for text in column.texts) if column.texts else np.zeros(1, np.uint64)
            words = known[column.values]
        else:
            words = column.values.view(np.uint64) if column.kind.is_number else column.values.astype(np.uint64)
        gone = ~column.known
        mixed = finalise(finalise(mixed + _STEP + gone.astype(np.uint64)) ^ np.where(gone, np.uint64(0), words))
    return mixed
