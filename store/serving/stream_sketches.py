"""The one sketch that a stream keeps of a family, read from its parts; it answers for all sources or for some."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sketches.errors import CorruptError, UnanswerableError
from sketches.event_rules import Repeats
from sketches.family import Askable, Gathered, Sketch
from sketches.recent import Recent
from sketches.records import dataclass
from sketches.registry import family_of, load
from sketches.splittable import Splittable
from store.engine import duckdb
from store.keys import WHOLE_STREAM, Epoch, Span
from store.serving.catalogue import Gap, StoredStream


class _Segment(NamedTuple):
    """What tells a stored segment from all others: a commit writes a stretch of time once, and its mark is random."""

    oldest: int
    newest: int
    rows: int
    mark: int  # of the commit that wrote it

    @property
    def can_be_told(self) -> bool:
        """Not where a commit may have written several segments of one moment."""
        return self.oldest < self.newest


@dataclass(frozen=True)
class StreamSketch:
    """The sketch of a stream, the sketches of epochs that its family kept before, and what is missing.

    `segments` are those that its rows were read from, one after the other.
    """

    family: str
    sketch: Sketch | None
    earlier: Sequence[tuple[Epoch, Sketch]] = ()
    gaps: Sequence[Gap] = ()
    stored: int = 0
    segments: Sequence[_Segment] = ()

    @property
    def rows_of_segments(self) -> dict[_Segment, slice]:
        """Which rows of the sketch each of the segments is."""
        ends = np.cumsum([0, *(segment.rows for segment in self.segments)]).tolist()
        rows = (slice(*edges) for edges in pairwise(ends))
        return {one: these for one, these in zip(self.segments, rows, strict=True) if one.can_be_told}

    def of(self, sources: Sequence[str], *, every: bool, repeats: Repeats = Repeats.FORGIVEN) -> Askable | None:
        """What answers for these sources, which may be every one; None where nothing can be read."""
        wanted = set(sources)
        found = [] if self.sketch is None else [self.sketch.of(None if every else sources, repeats)]
        by_epoch: dict[Span, list[Sketch]] = defaultdict(list)
        for epoch, sketch in self.earlier:
            if epoch.source in wanted:
                by_epoch[epoch.span].append(sketch)
        if not by_epoch:
            return found[0] if found else None
        if repeats is Repeats.COUNTED:
            raise UnanswerableError(
                "this stream counts repeated rows, but sketches of before rows were counted know only events: they "
                'answer with repeats = "forgive"'
            )
        before = family_of(self.family).earlier
        assert before is not None
        epochs = [before.gather(sketches) for _, sketches in sorted(by_epoch.items())]
        return before.side_by_side([*(Gathered(one) for one in found), *epochs])

    def by_source(self, sources: tuple[str, ...], repeats: Repeats) -> Splittable:
        """What answers for each of these sources at once; kept for the next question."""
        if self.earlier:
            raise UnanswerableError(
                "this stream still holds sketches of epochs, as an earlier wane kept them, and these are not answered "
                "by source at once: the next run of ingest moves them over"
            )
        if self.sketch is None:
            raise UnanswerableError(f"no {self.family} sketch of the stream can be read")
        sketch = self.sketch
        return self._split.get((sources, repeats), lambda: sketch.by_source(sources, repeats))

    @cached_property
    def _split(self) -> Recent[Splittable]:
        return Recent(kept=1)

    def forget_split(self) -> None:
        """Give up what was kept for the next question by source."""
        vars(self).pop("_split", None)


def read_stream_sketch(
    connection: duckdb.DuckDBPyConnection, stream: StoredStream, family: str, before: StreamSketch | None = None
) -> StreamSketch:
    """Read the head, and the segments that were not read `before`, of an earlier commit of the same store; what is
    damaged is a gap of just its stretch of time."""
    known = {} if before is None else before.rows_of_segments
    heads, stored = _stored_parts(connection, [stream.name, family], known)
    earlier, gaps = _earlier(connection, stream, family)
    if not heads:
        return StreamSketch(family, None, earlier, gaps, stream.stored_bytes(family))
    segments = [segment for segment, _ in stored]
    pieces = [known[segment] if payload is None else payload for segment, payload in stored]
    sketch: Sketch | None = None
    try:
        sketch, damaged = family_of(family).from_parts(heads[0], pieces, before.sketch if before else None)
        for number, reason in damaged.items():
            oldest, newest, *_ = segments[number]
            gaps.append(Gap("", oldest, newest - oldest + 1, family, f"set aside: {reason}"))
        segments = [one for number, one in enumerate(segments) if number not in damaged]
        if sum(one.rows for one in segments) != sketch.kept:  # what the table says of them is of no use
            segments = []
    except CorruptError as error:
        gaps += stream.gaps_of(family, WHOLE_STREAM, f"set aside: {error}")
        segments = []
    return StreamSketch(family, sketch, earlier, gaps, stream.stored_bytes(family), segments)


def _stored_parts(
    connection: duckdb.DuckDBPyConnection, key: list[str], known: Collection[_Segment]
) -> tuple[list[bytes], list[tuple[_Segment, bytes | None]]]:
    """The head, and all segments in the order of time with their bytes; those that are known without."""
    payload = "NULL" if known else "payload"
    rows = connection.execute(
        "SELECT oldest, newest, rows, generation, place, payload FROM ("
        "SELECT NULL AS oldest, NULL AS newest, NULL AS rows, NULL AS generation, 0 AS place, payload FROM heads "
        "WHERE stream = $1 AND family = $2 "
        f"UNION ALL SELECT oldest, newest, rows, generation, rowid, {payload} FROM segments "
        "WHERE stream = $1 AND family = $2) ORDER BY oldest NULLS FIRST, newest, place",
        key,
    ).fetchall()
    heads = [row[-1] for row in rows if row[0] is None]
    segments = [(_Segment(*row[:4]), *row[4:]) for row in rows[len(heads) :]]
    places = [place for segment, place, _ in segments if segment not in known] if known else []
    fresh = dict[int, bytes]()
    if places:
        statement = "SELECT rowid, payload FROM segments WHERE rowid IN (SELECT unnest($1))"
        fresh.update(connection.execute(statement, [places]).fetchall())
    return heads, [(segment, fresh.get(place, payload)) for segment, place, payload in segments]


def _earlier(
    connection: duckdb.DuckDBPyConnection, stream: StoredStream, family: str
) -> tuple[list[tuple[Epoch, Sketch]], list[Gap]]:
    found: list[tuple[Epoch, Sketch]] = []
    gaps: list[Gap] = []
    if stream.earlier_keys(family):
        rows = connection.execute(
            "SELECT source, start, length, payload FROM sketches WHERE stream = $1 AND family = $2 AND length > 0",
            [stream.name, family],
        )
        for source, start, length, payload in rows.fetchall():
            epoch = Epoch(source, start, length)
            try:
                found.append((epoch, load(payload)))
            except CorruptError as error:
                gaps += stream.gaps_of(family, epoch, f"set aside: {error}")
    return found, gaps
