"""The one sketch that a stream keeps of a family, read from its parts; it answers for all sources or for some."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Final

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

_BYTES_A_ROW: Final = 64  # about what a kept row takes in memory once it can be asked


@dataclass(frozen=True)
class StreamSketch:
    """The sketch of a stream, the sketches of epochs that its family kept before, and what is missing."""

    family: str
    sketch: Sketch | None
    earlier: Sequence[tuple[Epoch, Sketch]] = ()
    gaps: Sequence[Gap] = ()
    stored: int = 0

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
        return before.side_by_side([*(Gathered(one, 0) for one in found), *epochs])

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

    @property
    def nbytes(self) -> int:
        """About what it takes in memory."""
        kept = 0 if self.sketch is None else self.sketch.kept
        return _BYTES_A_ROW * (kept + sum(sketch.kept for _, sketch in self.earlier))


def read_stream_sketch(connection: duckdb.DuckDBPyConnection, stream: StoredStream, family: str) -> StreamSketch:
    """Read all parts at once; what is damaged is a gap of just its stretch of time."""
    rows = connection.execute(
        "SELECT oldest, newest, payload FROM ("
        "SELECT NULL AS oldest, NULL AS newest, 0 AS place, payload FROM heads WHERE stream = $1 AND family = $2 "
        "UNION ALL SELECT oldest, newest, rowid, payload FROM segments WHERE stream = $1 AND family = $2"
        ") ORDER BY oldest NULLS FIRST, newest, place",
        [stream.name, family],
    ).fetchall()
    heads = [payload for oldest, _, payload in rows if oldest is None]
    segments = rows[len(heads) :]
    earlier, gaps = _earlier(connection, stream, family)
    sketch: Sketch | None = None
    if heads:
        try:
            sketch, damaged = family_of(family).from_parts(heads[0], [payload for *_, payload in segments])
            for number, reason in damaged.items():
                oldest, newest, _ = segments[number]
                gaps.append(Gap("", oldest, newest - oldest + 1, family, f"set aside: {reason}"))
        except CorruptError as error:
            gaps += stream.gaps_of(family, WHOLE_STREAM, f"set aside: {error}")
    return StreamSketch(family, sketch, earlier, gaps, stream.stored_bytes(family))


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
