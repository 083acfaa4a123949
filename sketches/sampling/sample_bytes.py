"""The bytes of a sample: a head that concerns the whole stream, and the segments of its rows.

The head has the kind of values, what is known of all events, the labels of keys, the names of sources, and the cuts.
Where events have fields, it also has what is known of each field of all events. Segments hold numbers of labels and
names; `docs/wire-format.md` has the layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Ints
from sketches.encoding.bodies import read_cuts, read_head, write_cuts, write_head
from sketches.encoding.byte_planes import read_block, read_planes, write_block, write_planes
from sketches.encoding.envelope import Envelope, Reader, Writer, body_of_beginning, seal, version_of
from sketches.errors import CorruptError
from sketches.event_rules import MAX_TIME, MAX_VALUE, MOST_FIELDS
from sketches.events import Extremes, Kind, Labels
from sketches.fields import FieldKind, Known, KnownField, name_fault
from sketches.records import dataclass
from sketches.sampling.askable_sample import FAMILY
from sketches.sampling.inclusion.ladder import LEVELS, NO_CUT, Counts, Cuts, LadderRows, seen_once
from sketches.sampling.inclusion.ladder_parameters import LadderParameters
from sketches.sampling.totals.row_totals import RowTotals
from sketches.units import TimeUnit

SAMPLE_FORMAT: Final = 3  # sketches of formats 1 and 2 are of a source's epoch
COUNTED_FORMAT: Final = 4  # of a sample that has counted all rows by the hour
TOTALS_FORMAT: Final = 5  # and by source and class of value
FIELDS_FORMAT: Final = 6  # and whose events have fields
UNKNOWN_FORMAT: Final = 9  # and which was not counted at some time: that is said before all else
FIELD_TOTALS_FORMAT: Final = 10  # and whose rows were counted by the values of fields, too; begins likewise
_MOST_HEAD: Final = 1 << 30  # bytes of names, labels and cuts
_MOST_ROWS: Final = 1 << 28
_MOST_COUNT: Final = int(np.iinfo(np.int32).max)


class Uncounted(NamedTuple):
    """The times up to which nothing is known of rows by hour, of those by source, and of those by class of value."""

    by_hour: int = NO_CUT
    by_source: int = NO_CUT
    by_class: int = NO_CUT

    @classmethod
    def of(cls, seen: Seen | None) -> Uncounted:
        if seen is None:
            return cls()
        totals = seen.totals
        return cls(*(table.unknown_up_to for table in (totals.hourly, totals.by_source, totals.by_class)))

    @classmethod
    def stated(cls, beginning: bytes) -> Uncounted | None:
        """What the first bytes of a sample say, which `BEGINNING` are enough for; None: its rows were not counted."""
        version = version_of(beginning)
        if version < UNKNOWN_FORMAT:
            return cls() if version >= COUNTED_FORMAT else None
        return cls.read(Reader(body_of_beginning(beginning)[1:]))

    def write(self, writer: Writer) -> None:
        for time in self:
            writer.i64(time)

    @classmethod
    def read(cls, reader: Reader) -> Uncounted:
        return cls(reader.i64(), reader.i64(), reader.i64())


class Seen(NamedTuple):
    """What was counted of all rows: the totals of hours, and how often rows came that came more than once.

    `repeated` are the numbers of such rows in the order of all, `times` how often each came.
    """

    totals: RowTotals
    repeated: Ints
    times: Ints

    @classmethod
    def of(cls, totals: RowTotals, rows: LadderRows) -> Seen:
        counts = rows.counted
        repeated = np.flatnonzero(counts > 1)
        return cls(totals, repeated, counts[repeated].astype(np.int64))

    def counts(self, rows: int) -> Counts:
        """How often each of so many rows came."""
        if len(self.repeated) and int(self.repeated[-1]) >= rows:
            raise CorruptError(f"row {self.repeated[-1]} of a sample is said to have come twice; it has {rows} rows")
        if not len(self.repeated):
            return seen_once(rows)
        found = np.ones(rows, np.int32)
        found[self.repeated] = self.times
        return found

    def write(self, writer: Writer) -> None:
        self.totals.write(writer)
        writer.varint(len(self.repeated))
        writer.blob(write_planes(np.diff(self.repeated, prepend=0).view(np.uint64)))
        writer.blob(write_planes(self.times.view(np.uint64)))

    @classmethod
    def read(cls, reader: Reader, unit: TimeUnit) -> Seen:
        read = RowTotals.read if reader.version >= TOTALS_FORMAT else RowTotals.read_hourly
        totals, count = read(reader, unit), reader.varint()
        if count > _MOST_ROWS:
            raise CorruptError(f"{count} rows are said to have come twice; {_MOST_ROWS} are the most")
        steps, times = (read_planes(reader.blob(), 0, count)[0] for _ in range(2))
        if count and (int(times.max()) > _MOST_COUNT or int(steps.max()) > _MOST_ROWS or not steps[1:].all()):
            raise CorruptError("rows that came more than once are out of order, or came too often")
        return cls(totals, np.cumsum(steps.view(np.int64)), times.view(np.int64))


@dataclass(frozen=True, slots=True)
class SampleHead:
    """All of a sample but its rows."""

    kind: Kind
    extremes: Extremes
    labels: Labels
    names: tuple[str, ...]
    cuts: Cuts
    seen: Seen | None = None
    known: Known = field(default_factory=dict)  # of the fields, by name

    @property
    def version(self) -> int:
        """The format that it is written in."""
        if self.known:
            return FIELDS_FORMAT if self.seen is None else FIELD_TOTALS_FORMAT
        return SAMPLE_FORMAT if self.seen is None else TOTALS_FORMAT

    def to_bytes(self) -> bytes:
        writer = Writer()
        write_head(writer, self.kind, self.extremes, self.labels)
        writer.varint(len(self.names))
        for name in self.names:
            writer.blob(name.encode())
        write_cuts(writer, self.cuts.of_weight, NO_CUT)
        write_cuts(writer, self.cuts.of_count, NO_CUT)
        writer.i64(self.cuts.fine)
        for cut in self.cuts.of_sources.tolist():
            writer.i64(cut)
        if self.known:
            writer.u8(self.seen is not None)
        if self.seen is not None:
            self.seen.write(writer)
        if self.known:
            if self.seen is not None:
                self.seen.totals.write_by_field(writer)
            _write_known(writer, self.known)
        return writer.to_bytes()

    @classmethod
    def from_reader(cls, reader: Reader, parameters: LadderParameters) -> SampleHead:
        kind, extremes, labels = read_head(reader)
        try:
            names = tuple(reader.blob().decode() for _ in range(_checked_count(reader)))
        except UnicodeDecodeError as error:
            raise CorruptError("the name of a source is not UTF-8 text") from error
        if any(one >= other for one, other in pairwise(names)):
            raise CorruptError("the names of sources are not in order")
        of_weight, of_count = read_cuts(reader, NO_CUT, LEVELS), read_cuts(reader, NO_CUT, LEVELS)
        fine = reader.i64()
        of_sources = [reader.i64() for _ in range(len(names) if parameters.per_source else 0)]
        counted = reader.u8() == 1 if reader.version >= FIELDS_FORMAT else reader.version >= COUNTED_FORMAT
        seen = Seen.read(reader, parameters.unit) if counted else None
        if seen is not None and reader.version >= FIELD_TOTALS_FORMAT:
            seen = seen._replace(totals=seen.totals.with_fields_of(reader, parameters.unit))
        known = _read_known(reader) if reader.version >= FIELDS_FORMAT else {}
        reader.done()
        cuts = Cuts(of_weight, of_count, np.array(of_sources, np.int64), fine)
        return cls(kind, extremes, labels, names, cuts, seen, known)

    def rows_of(self, stored: LadderRows, kind: Kind) -> LadderRows:
        """The rows of segments with their keys, once it is clear that they belong to this head."""
        if kind is not self.kind:
            raise CorruptError(f"a sample of {self.kind} values holds {kind} values")
        if int(stored.sources.max()) >= len(self.names):
            raise CorruptError(f"a source has number {stored.sources.max()}, but there are {len(self.names)} names")
        if kind is not Kind.KEY:
            return stored
        if int(stored.values.max()) >= len(self.labels.texts):
            texts = len(self.labels.texts)
            raise CorruptError(f"a key has number {stored.values.max()}, but there are {texts} labels")
        return replace(stored, values=self.labels.hashes[stored.values.astype(np.intp)])


def numbered(rows: LadderRows, kind: Kind, labels: Labels) -> LadderRows:
    """The rows as they are stored: with the number of its label for each key."""
    if kind is not Kind.KEY:
        return rows
    return replace(rows, values=np.searchsorted(labels.hashes, rows.values).astype(np.uint64))


def seal_sample(parameters: LadderParameters, head: SampleHead, segments: Sequence[bytes]) -> bytes:
    """An envelope with a head and segments; a store keeps the latter apart."""
    writer, version, uncounted = Writer(), head.version, Uncounted.of(head.seen)
    if uncounted != Uncounted() or version > UNKNOWN_FORMAT:
        writer.u8(version)
        uncounted.write(writer)
        version = max(version, UNKNOWN_FORMAT)
    content = head.to_bytes()
    writer.varint(len(content))
    writer.blob(_head_block(content))
    writer.varint(len(segments))
    for segment in segments:
        writer.blob(segment)
    return seal(FAMILY, version, parameters.to_bytes(), parameters.seed, writer.to_bytes())


def _head_block(content: bytes) -> bytes:
    """A head as a block; where it is nearly all totals, which are packed already, to try longer gains nothing."""
    quickly = write_block(content, quickly=True)
    return quickly if len(quickly) > len(content) else write_block(content)


def open_sample(envelope: Envelope) -> tuple[LadderParameters, SampleHead, list[bytes]]:
    """What `seal_sample` was given."""
    parameters = LadderParameters.from_bytes(envelope.parameters, envelope.seed)
    reader, version, uncounted = envelope.reader(), envelope.version, Uncounted()
    if version >= UNKNOWN_FORMAT:
        version, uncounted = reader.u8(), Uncounted.read(reader)
    size = reader.varint()
    if size > _MOST_HEAD:
        raise CorruptError(f"the head of a sample takes {size} bytes; {_MOST_HEAD} are the most")
    content, _ = read_block(reader.blob(), 0, size)
    head = SampleHead.from_reader(Reader(content, version), parameters)
    said = max(version, UNKNOWN_FORMAT) == envelope.version and uncounted == Uncounted.of(head.seen)
    if envelope.version >= UNKNOWN_FORMAT and not (said and (version > UNKNOWN_FORMAT or uncounted != Uncounted())):
        raise CorruptError("a sample does not say rightly up to when its rows were not counted")
    segments = [reader.blob() for _ in range(_checked_count(reader))]
    reader.done()
    return parameters, head, segments


def _write_known(writer: Writer, known: Known) -> None:
    writer.u8(len(known))
    for name, one in sorted(known.items()):
        writer.blob(name.encode())
        writer.u8(tuple(FieldKind).index(one.kind))
        has_numbers, has_unknown = one.least <= one.greatest, one.unknown_since is not None
        writer.u8(has_numbers + 2 * has_unknown)
        if has_numbers:
            writer.f64(one.least)
            writer.f64(one.greatest)
        if one.unknown_since is not None and one.unknown_until is not None:
            writer.i64(one.unknown_since)
            writer.i64(one.unknown_until)


def _read_known(reader: Reader) -> dict[str, KnownField]:
    count = reader.u8()
    found: dict[str, KnownField] = {}
    for _ in range(count):
        name, kind, holds = reader.blob().decode(errors="replace"), reader.u8(), reader.u8()
        if name_fault(name) is not None or kind >= len(FieldKind) or holds > 3:
            raise CorruptError(f"a sample has a field {name[:40]!r} of kind {kind}")
        one = KnownField(tuple(FieldKind)[kind])
        if holds & 1:
            one = one._replace(least=reader.f64(), greatest=reader.f64())
            if not -MAX_VALUE <= one.least <= one.greatest <= MAX_VALUE:
                raise CorruptError(f"field {name!r} of a sample lies between {one.least} and {one.greatest}")
        if holds & 2:
            one = one.without(reader.i64(), reader.i64())
            if not -MAX_TIME <= (one.unknown_since or 0) <= (one.unknown_until or 0) <= MAX_TIME:
                raise CorruptError(f"field {name!r} of a sample is unknown for times out of range")
        found[name] = one
    if count > MOST_FIELDS or len(found) < count or list(found) != sorted(found):
        raise CorruptError("the fields of a sample are too many, or not in order")
    return found


def _checked_count(reader: Reader) -> int:
    count = reader.varint()
    if count > reader.remaining:
        raise CorruptError(f"{count} entries are announced, but only {reader.remaining} bytes are left")
    return count
