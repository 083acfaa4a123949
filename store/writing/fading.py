"""Old epochs fade: the sketches of neighbouring epochs of a source become one, smaller than they were together.

Which of them follows from the clock, the stream's newest event, and its settings `detail` and `fine`
(`sketches.blocks.ageing`). `find_fading` reads them, `fade` makes them one, and no connection is open meanwhile;
`write_faded` writes what was made. What a run itself brings stays as it is until a later run: so late events get a
sketch of their epoch beside the one that covers it, and join it then.

Nothing that is missing may vanish in a longer stretch. So epochs of which a sketch was lost, or was never made, stay
apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sketches.arrays import Flags, Ints
from sketches.blocks.ageing import Ageing
from sketches.encoding.envelope import FORMAT_VERSION
from sketches.errors import CorruptError, IncompatibleError
from sketches.family import Sketch
from sketches.formatting import moment_text
from sketches.records import dataclass
from sketches.registry import FAMILIES, load
from store.database import StoreError
from store.writing.clock import clock_of, stated_duration
from store.writing.late_merge import KEY, by_key
from store.writing.run import SKETCHES, Run

_PENDING: Final = 8  # sketches fade once an eighth of a source's could be fewer: each commit reads few
_MOST_BYTES: Final = 1 << 27  # of payloads that one commit reads for it; the rest is left to the next ones


class Stretch(NamedTuple):
    """A stretch of time of which one sketch is to be made, and the numbers of the sketches that it takes."""

    start: int
    length: int
    rows: Ints


@dataclass(frozen=True, slots=True)
class HeldEpochs:
    """The sketches of one family and source by their start, as long as they may count as what came later, and which of
    them stand together."""

    source: str
    family: str
    start: Ints
    length: Ints
    payloads: Sequence[bytes | None]  # None: not read
    stretches: Sequence[Stretch]
    ageing: Ageing


@dataclass(frozen=True, slots=True)
class Faded:
    """The keys that go, and the sketches that take their place."""

    gone: pa.Table
    fresh: pa.Table


def ageing_of(run: Run, family: str) -> Ageing | None:
    """How epochs of a family age in the stream; None where its settings do not let them."""
    own = run.stream.settings.get(family)
    detail = own["detail"] if isinstance(own, dict) and "detail" in own else run.stream.settings.get("detail")
    if not isinstance(detail, int) or detail < 1:
        return None
    return Ageing(run.stream.epoch, detail, stated_duration(run.stream, "fine") or 0)


def find_fading(connection: duckdb.DuckDBPyConnection, run: Run) -> list[HeldEpochs]:
    """The stored sketches that are to stand together by the clock of the run, with those that came after them.

    Nothing where the run begins no epoch, or takes some out.
    """
    before, now = clock_of(connection, run)
    begins = before is not None and now is not None and now // run.stream.epoch > before // run.stream.epoch
    ages = {one: ageing_of(run, one) for one, kind in FAMILIES.items() if kind.fades}
    if not begins or now is None or run.replacing is not None or not any(ages.values()):
        return []
    held = _Held.read(connection, run)
    found: list[HeldEpochs] = []
    size = 0
    fading = ((ageing, one) for name, ageing in ages.items() if ageing for one in held.fading(name, ageing, now))
    for ageing, (rows, stretches) in fading:
        family, source = held.family[rows[0]], held.source[rows[0]]
        some = [one for one in stretches if held.may_stand(one, rows)]
        if not some or size > _MOST_BYTES:
            continue
        stored = _payloads(connection, run.stream.name, family, source, min(one.start for one in some))
        size += sum(map(len, stored.values()))
        start, length = held.start[rows], held.length[rows]
        payloads = [stored.get(key) for key in zip(start.tolist(), length.tolist(), strict=True)]
        found.append(HeldEpochs(source, family, start, length, payloads, some, ageing))
    return found


@dataclass(frozen=True)
class _Held:
    """The keys of all sketches by epoch of a stream in the order of source, family and time, and what is missing."""

    source: NDArray[Any]
    family: NDArray[Any]
    start: Ints
    length: Ints
    epoch: int
    brought: Set[tuple[str, str, int, int]]  # source, family, start and length of what the run brings
    aside: Sequence[tuple[str, str, int, int]]  # likewise of what could not be read
    unsketched: Mapping[str, Ints]  # family → the starts of epochs with events of which it has no sketch at all

    @classmethod
    def read(cls, connection: duckdb.DuckDBPyConnection, run: Run) -> _Held:
        name = [run.stream.name]
        rows = connection.execute(
            "SELECT source, family, start, length FROM sketches WHERE stream = $1 AND length > 0 "
            "ORDER BY source, family, start, length",
            name,
        ).fetchnumpy()
        source, family = rows["source"].astype(object), rows["family"].astype(object)
        start, length = rows["start"].astype(np.int64), rows["length"].astype(np.int64)
        new = by_key(run).select(["source", "family", "start", "length"])
        aside = connection.execute(
            "SELECT source, family, start, length FROM set_aside WHERE stream = $1", name
        ).fetchall()
        epochs = connection.execute("SELECT start FROM epochs WHERE stream = $1 ORDER BY start", name).fetchnumpy()
        starts = epochs["start"].astype(np.int64)
        unsketched = {
            one: starts[~_covered(starts, start[family == one], length[family == one])] for one in set(family.tolist())
        }
        brought = set(zip(*(column.to_pylist() for column in new.columns), strict=True))
        return cls(source, family, start, length, run.stream.epoch, brought, aside, unsketched)

    def fading(self, name: str, ageing: Ageing, now: int) -> Iterator[tuple[Ints, list[Stretch]]]:
        """The rows of a family, source by source, where enough can stand together, and their stretches by a clock."""
        if name not in self.unsketched:
            return
        owner = np.zeros(len(self.start), np.int64)
        owner[1:] = np.cumsum((self.source[1:] != self.source[:-1]) | (self.family[1:] != self.family[:-1]))
        whole = (self.start % self.epoch == 0) & (self.length % self.epoch == 0) & (self.start <= now)
        rows = np.flatnonzero(whole & (self.family == name))
        blocks = ageing.stretches(self.start[rows], now)
        longer = np.flatnonzero(blocks.height > ageing.top)
        rows, first, height = rows[longer], blocks.first[longer], blocks.height[longer]
        end = first + (np.int64(self.epoch) << (height - ageing.top).astype(np.int64))
        begins = np.ones(len(rows), bool)
        begins[1:] = (owner[rows[1:]] != owner[rows[:-1]]) | (first[1:] != first[:-1])
        groups = np.split(np.arange(len(rows)), np.flatnonzero(begins)[1:])
        several = [one for one in groups if len(one) > 1]
        several = [one for one in several if (self.start + self.length)[rows[one]].max() <= end[one[0]]]
        fewer: defaultdict[int, int] = defaultdict(int)
        stretches: defaultdict[int, list[Stretch]] = defaultdict(list)
        for one in several:
            of = int(owner[rows[one[0]]])
            fewer[of] += len(one) - 1
            stretches[of].append(Stretch(int(first[one[0]]), int(end[one[0]] - first[one[0]]), rows[one]))
        bounds = np.searchsorted(owner, np.arange(owner[-1] + 2))
        for of, count in fewer.items():
            mine = np.arange(bounds[of], bounds[of + 1])
            if count * _PENDING >= len(mine):
                yield mine, [one._replace(rows=one.rows - mine[0]) for one in stretches[of]]

    def may_stand(self, stretch: Stretch, mine: Ints) -> bool:
        """Whether the sketches of a stretch may become one: the run brings none of them, and none is missing."""
        begin, end = stretch.start, stretch.start + stretch.length
        source, family = self.source[mine[0]], self.family[mine[0]]
        start, length = self.start[mine][stretch.rows], self.length[mine][stretch.rows]
        keys = zip(start.tolist(), length.tolist(), strict=True)
        if any((source, family, *key) in self.brought for key in keys):
            return False
        if any(
            of in ("", source) and known == family and first < end and first + long > begin
            for of, known, first, long in self.aside
        ):
            return False
        missing = self.unsketched[family]
        if ((missing >= begin) & (missing < end)).any():
            return False
        low, high = np.searchsorted(self.source, source), np.searchsorted(self.source, source, side="right")
        others = slice(int(low), int(high))  # that a source has events in an epoch, sketches of another family tell
        known = self.start[others][self.length[others] == self.epoch]
        return bool(_covered(known[(known >= begin) & (known < end)], start, length).all())


def _covered(times: Ints, start: Ints, length: Ints) -> Flags:
    """Whether each time lies in one of these stretches, none of which overlaps another but lies in it."""
    if len(start) == 0:
        return np.zeros(len(times), bool)
    order = np.argsort(start, kind="stable")
    end = np.maximum.accumulate((start + length)[order])
    at = np.searchsorted(start[order], times, side="right") - 1
    return (at >= 0) & (times < end[np.maximum(at, 0)])


def _payloads(
    connection: duckdb.DuckDBPyConnection, stream: str, family: str, source: str, since: int
) -> dict[tuple[int, int], bytes]:
    rows = connection.execute(
        "SELECT start, length, payload FROM sketches "
        "WHERE stream = $1 AND family = $2 AND source = $3 AND length > 0 AND start >= $4",
        [stream, family, source, since],
    ).fetchall()
    return {(start, length): payload for start, length, payload in rows}


def fade(held: Sequence[HeldEpochs]) -> Faded:
    """One sketch for each stretch, which takes a part of what came later as come after it."""
    gone: list[tuple[object, ...]] = []
    fresh: list[tuple[object, ...]] = []
    for one in held:
        for stretch, payload in _faded(one):
            keys = zip(one.start[stretch.rows].tolist(), one.length[stretch.rows].tolist(), strict=True)
            gone += [(one.source, *key, one.family, b"") for key in keys]
            fresh.append((one.source, stretch.start, stretch.length, one.family, payload))
    return Faded(_table(gone), _table(fresh))


def _faded(held: HeldEpochs) -> Iterator[tuple[Stretch, bytes]]:
    """The stretches of which one sketch could be made, and its bytes.

    So much counts as come later that, as of a time when nothing of it had come, a stretch that holds a `detail`-th of
    what has come since it began is still known as well as promised.
    """
    sketches = [_opened(payload) for payload in held.payloads]
    known = [(begin, one.mass) for begin, one in zip(held.start.tolist(), sketches, strict=True) if one is not None]
    for stretch in held.stretches:
        together = [sketches[row] for row in stretch.rows.tolist()]
        whole = [one for one in together if one is not None]
        if len(whole) < len(together):
            continue
        later = [mass for begin, mass in known if begin >= stretch.start + stretch.length]
        more = np.sum(later, axis=0, dtype=np.int64) if later else np.zeros_like(whole[0].mass)
        with suppress(IncompatibleError):
            yield stretch, type(whole[0]).faded(whole, more // held.ageing.detail).to_bytes()


def _opened(payload: bytes | None) -> Sketch | None:
    """A stored sketch; none where it was not read, or its bytes are damaged: then it stays where it is, as a gap."""
    try:
        return None if payload is None else load(payload)
    except CorruptError:
        return None


def _table(rows: Sequence[tuple[object, ...]]) -> pa.Table:
    return pa.table({name: [row[at] for row in rows] for at, name in enumerate(SKETCHES.names)}, schema=SKETCHES)


def write_faded(connection: duckdb.DuckDBPyConnection, stream: str, faded: Faded, mark: int) -> None:
    """Write the sketches of stretches in place of those that they were made of."""
    if faded.fresh.num_rows == 0:
        return
    for name, table in (("wane_gone", faded.gone), ("wane_fresh", faded.fresh)):
        connection.register(name, table)
    alike = " AND ".join(f"sketches.{name} = wane_gone.{name}" for name in KEY.split(", "))
    connection.execute(f"DELETE FROM sketches USING wane_gone WHERE sketches.stream = $1 AND {alike}", [stream])
    connection.execute(
        f"INSERT INTO sketches SELECT $1, {KEY}, $2, octet_length(payload), $3, payload FROM wane_fresh "
        "ORDER BY source, start",
        [stream, FORMAT_VERSION, mark],
    )
    for name in ("wane_gone", "wane_fresh"):
        connection.unregister(name)


def refuse_cut(connection: duckdb.DuckDBPyConnection, run: Run) -> None:
    """Refuse to replace a part of the epochs that one sketch stands for."""
    if run.replacing is None:
        return
    begin, end = run.replacing
    while True:
        ((first, last),) = connection.execute(
            "SELECT min(start), max(start + length) FROM sketches "
            "WHERE stream = $1 AND length > $2 AND start < $4 AND start + length > $3",
            [run.stream.name, run.stream.epoch, begin, end],
        ).fetchall()
        wider = (begin if first is None else min(begin, first), end if last is None else max(end, last))
        if wider == (begin, end):
            break
        begin, end = wider
    if (begin, end) != run.replacing:
        unit = run.stream.unit
        raise StoreError(
            f"stream {run.stream.name!r}: some of the epochs to be read again stand together with their neighbours "
            f"since they have faded; a backfill must take all of them, from {moment_text(begin, unit)} to "
            f"{moment_text(end, unit)}"
        )
