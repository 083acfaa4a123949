"""What a worker counts besides sketching: rows by file, rejected rows with examples, ids that several events share,
repeated rows, rows ahead of the clock.

The tallies of parts of the data merge, in any order, to the tally of all of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ingest.executor.arrow_columns import as_text, as_utf8, simplified
from ingest.executor.field_columns import FieldFaults, field_hashes
from sketches.arrays import Words
from sketches.fields import Fields
from sketches.hashing import event_hashes, finalise

EXAMPLES: Final = 10  # of rejected rows, for each reason
_LONGEST_EXAMPLE: Final = 200  # characters of one column
_IDS_KEPT: Final = 8192
_ALL: Final = (1 << 64) - 1

Example = tuple[tuple[bool, str], ...]


@dataclass
class FileTally:
    """Rows read of a file, rejected ones included, and the times of its events."""

    rows: int = 0
    oldest: int | None = None
    newest: int | None = None

    def add(self, rows: int, oldest: int | None, newest: int | None) -> None:
        self.rows += rows
        if oldest is not None and newest is not None:
            self.oldest = oldest if self.oldest is None else min(self.oldest, oldest)
            self.newest = newest if self.newest is None else max(self.newest, newest)


@dataclass
class RejectTally:
    """The rows rejected for one reason. Its examples are the first in the order of their texts, on any worker."""

    rows: int = 0
    examples: list[Example] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)  # how many of the rows are of which file

    def add(self, rows: int, examples: list[Example], files: Mapping[str, int]) -> None:
        self.rows += rows
        self.examples = sorted({*self.examples, *examples})[:EXAMPLES]
        for name, count in files.items():
            self.files[name] = self.files.get(name, 0) + count


class SharedIds:
    """Finds ids that several different events share, rows that repeat an event, and events whose copies differ in a
    field, from the ids with the smallest hashes.

    The counts are exact for up to 8,192 different ids. Beyond that they are estimates from so many of them. Of each id
    two different events are kept, which is enough to know that it is shared; copies of its further events are not seen.
    """

    def __init__(self) -> None:
        self._ids: Words = np.empty(0, np.uint64)
        self._events: Words = np.empty(0, np.uint64)
        self._rows: Words = np.empty(0, np.uint64)  # how often each event came
        self._least: Words = np.empty(0, np.uint64)  # of the hashes of each event's fields
        self._greatest: Words = np.empty(0, np.uint64)
        self._limit = _ALL

    def add(
        self,
        ids: Words,
        times: NDArray[np.int64],
        values: NDArray[Any],
        weights: NDArray[np.int64],
        fields: Fields | None = None,
    ) -> None:
        start, step = 0, 4 * _IDS_KEPT
        while start < len(ids):  # the first rows set a limit by which most of the others are left out at once
            part = slice(start, start + step)
            hashes = finalise(ids[part])
            low = np.flatnonzero(hashes <= np.uint64(self._limit))
            columns = (column[part][low].view(np.uint64) for column in (ids, times, values, weights))
            events = np.asarray(event_hashes(*columns, np.uint64(0)))
            further = field_hashes(fields, start + low) if fields else np.zeros(len(low), np.uint64)
            self._join(hashes[low], events, np.ones(len(low), np.uint64), further, further)
            start, step = start + step, 2 * step

    def _join(self, ids: Words, events: Words, rows: Words, least: Words, greatest: Words) -> None:
        ids, events = np.concatenate([self._ids, ids]), np.concatenate([self._events, events])
        rows = np.concatenate([self._rows, rows])
        least, greatest = np.concatenate([self._least, least]), np.concatenate([self._greatest, greatest])
        if len(ids) == 0:
            return
        order = np.lexsort((events, ids))
        ids, events = ids[order], events[order]
        another = np.ones(len(ids), np.bool_)
        another[1:] = ids[1:] != ids[:-1]
        fresh = another.copy()
        fresh[1:] |= events[1:] != events[:-1]
        distinct = ids[another]
        if len(distinct) > _IDS_KEPT:
            self._limit = min(self._limit, int(distinct[_IDS_KEPT - 1]))
        begins = np.flatnonzero(fresh)
        rows = np.add.reduceat(rows[order], begins)
        least, greatest = np.minimum.reduceat(least[order], begins), np.maximum.reduceat(greatest[order], begins)
        ids, events = ids[fresh], events[fresh]
        few = np.ones(len(ids), np.bool_)
        few[2:] = ids[2:] != ids[:-2]
        few &= ids <= np.uint64(self._limit)
        self._ids, self._events, self._rows = ids[few], events[few], rows[few]
        self._least, self._greatest = least[few], greatest[few]

    @property
    def conflicts(self) -> int:
        """About how many ids are shared by different events."""
        return self._scaled(int(np.count_nonzero(self._ids[1:] == self._ids[:-1])))

    @property
    def repeats(self) -> int:
        """About how many rows repeat an event that came before; 0 only where none was seen."""
        return self._scaled(int(self._rows.sum()) - len(self._rows))

    @property
    def field_conflicts(self) -> int:
        """About how many events came in copies that differ in a field."""
        return self._scaled(int(np.count_nonzero(self._least != self._greatest)))

    def _scaled(self, seen: int) -> int:
        return seen if self._limit == _ALL else round(seen * (_ALL / self._limit))

    @property
    def exact(self) -> bool:
        return self._limit == _ALL

    def to_bytes(self) -> bytes:
        limit = np.array([self._limit], np.uint64)
        columns = [self._ids, self._events, self._rows, self._least, self._greatest]
        if not self._greatest.any():  # there are no fields
            columns = columns[:3]
        return np.concatenate([limit, np.array([len(columns)], np.uint64), *columns]).astype("<u8").tobytes()

    def merge_bytes(self, data: bytes) -> None:
        words = np.frombuffer(data, "<u8").astype(np.uint64)
        self._limit = min(self._limit, int(words[0]))
        ids, events, rows, *fields = np.split(words[2:], int(words[1]))
        least, greatest = fields or [np.zeros(len(ids), np.uint64)] * 2
        self._join(ids, events, rows, least, greatest)


@dataclass
class Ahead:
    """Rows whose time is later than the clock of the run, and the latest of these times."""

    rows: int = 0
    latest: int | None = None

    def add(self, rows: int, latest: int | None) -> None:
        self.rows += rows
        if latest is not None:
            self.latest = latest if self.latest is None else max(self.latest, latest)


@dataclass
class Tally:
    """What was counted in some part of the data."""

    files: dict[str, FileTally] = field(default_factory=dict)
    rejects: dict[str, RejectTally] = field(default_factory=dict)
    shared_ids: SharedIds = field(default_factory=SharedIds)
    ahead: Ahead = field(default_factory=Ahead)
    field_faults: FieldFaults = field(default_factory=dict)
    missing: dict[str, dict[str, int]] = field(default_factory=dict)  # field → file → events without it; "": all events
    first_row: float | None = None  # when the first row was read, by the worker's clock

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files.values())

    def reject(self, columns: Mapping[str, pa.Array], fault: NDArray[np.uint8], reasons: tuple[str, ...]) -> None:
        """Count the rejected rows of a batch by reason, and keep some of them as they were found."""
        for number, reason in enumerate(reasons, start=1):
            rows = np.flatnonzero(fault == number)
            if len(rows):
                files = pc.value_counts(columns["file"].take(pa.array(rows)))
                by_file = {str(one["values"]): int(one["counts"]) for one in files.to_pylist()}
                self.rejects.setdefault(reason, RejectTally()).add(len(rows), _examples(columns, rows), by_file)

    def miss_fields(self, faults: FieldFaults) -> None:
        """Count the rows in which a field is missing because it could not be converted."""
        for name, reasons in faults.items():
            counts = self.field_faults.setdefault(name, {})
            for reason, rows in reasons.items():
                counts[reason] = counts.get(reason, 0) + rows

    def miss(self, name: str, by_file: Mapping[str, int]) -> None:
        """Count the events of each file that came without a field."""
        counts = self.missing.setdefault(name, {})
        for file, rows in by_file.items():
            if rows:
                counts[file] = counts.get(file, 0) + rows

    def without(self, name: str) -> tuple[int, list[str]]:
        """How many events came from files that have a field in none of their rows, and which files these are."""
        events, missing = self.missing.get("", {}), self.missing.get(name, {})
        files = sorted(file for file, rows in missing.items() if rows == events.get(file))
        return sum(events[file] for file in files), files

    def to_bytes(self) -> bytes:
        shape = {
            "files": {name: [file.rows, file.oldest, file.newest] for name, file in self.files.items()},
            "rejects": {reason: [tally.rows, tally.examples, tally.files] for reason, tally in self.rejects.items()},
            "ahead": [self.ahead.rows, self.ahead.latest],
            "first_row": self.first_row,
            "fields": self.field_faults,
            "missing": self.missing,
        }
        head = json.dumps(shape).encode()
        return len(head).to_bytes(8, "little") + head + self.shared_ids.to_bytes()

    def merge_bytes(self, data: bytes) -> None:
        end = 8 + int.from_bytes(data[:8], "little")
        shape = json.loads(data[8:end])
        for name, numbers in shape["files"].items():
            self.files.setdefault(name, FileTally()).add(*numbers)
        for reason, (rows, examples, files) in shape["rejects"].items():
            found = [tuple((missing, text) for missing, text in example) for example in examples]
            self.rejects.setdefault(reason, RejectTally()).add(rows, found, files)
        self.ahead.add(*shape["ahead"])
        self.first_row = min((at for at in (self.first_row, shape["first_row"]) if at is not None), default=None)
        self.miss_fields(shape["fields"])
        for name, by_file in shape["missing"].items():
            self.miss(name, by_file)
        self.shared_ids.merge_bytes(data[end:])


EXAMPLE_COLUMNS: Final = ("file", "time", "source", "id", "value", "weight")


def example_as_dict(example: Example) -> dict[str, str | None]:
    """An example by column name; None where the column had no value."""
    return {name: None if missing else text for name, (missing, text) in zip(EXAMPLE_COLUMNS, example, strict=True)}


def _examples(columns: Mapping[str, pa.Array], rows: NDArray[np.intp]) -> list[Example]:
    picked = pa.table({name: _as_text(simplified(columns[name]).take(pa.array(rows))) for name in EXAMPLE_COLUMNS})
    if len(rows) > EXAMPLES:
        # equal ones are one example, however many of them there are in this batch
        picked = picked.group_by(list(EXAMPLE_COLUMNS)).aggregate([])
        keys = [(name, "ascending") for name in EXAMPLE_COLUMNS]
        picked = picked.take(pc.select_k_unstable(picked, EXAMPLES, keys))
    return [tuple((text is None, text or "") for text in row.values()) for row in picked.to_pylist()]


def _as_text(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        array = pa.array([None if item is None else item.hex() for item in array.to_pylist()], pa.string())
    return pc.utf8_slice_codeunits(as_utf8(as_text(array)), 0, _LONGEST_EXAMPLE)
