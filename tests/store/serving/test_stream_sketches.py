"""A sketch of a stream that is held follows the store: after a commit only the segments that it wrote are read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import store.serving.stream_sketches
from sketches import Question
from store import Store, Stream, commit
from store.serving.selection import Selection
from store.writing.compacting import compact
from store.writing.forgetting import forget
from tests.support.stores import (
    EPOCH,
    STREAM,
    execute,
    parts,
    run_of,
    stored,
    wide_parts,
)
from tests.support.streams import STREAMS
from tests.support.streams import Stream as Rows
from tests.support.wide import NAMES as WIDE_NAMES
from tests.support.wide import Wide, requests

COARSE: dict[str, Any] = {"epsilon": 0.3, "detail": 1}  # so few events that each commit thins old ones out
KINDS = ("late", "floats", "keys")
COUNT = Question("count")


class Watched:
    """A store that is asked after each commit, and how many segments it read for that."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.path, self.store, self.read = path, Store(path), 0
        inner = store.serving.stream_sketches._stored_parts

        def counting(*arguments: Any) -> Any:
            heads, segments = inner(*arguments)
            self.read += sum(payload is not None for _, payload in segments)
            return heads, segments

        patch.setattr(store.serving.stream_sketches, "_stored_parts", counting)

    def reads(self) -> int:
        """How many segments a question reads."""
        self.read = 0
        self.store.ask(STREAM, COUNT)
        return self.read

    def selection(self, asked: Store) -> Selection:
        catalogue = asked.catalogue(STREAM)
        sources = tuple(catalogue.stream(STREAM).sources)
        return asked._reads.selection((STREAM, sources, "sample"), catalogue)[0]

    def follows(self) -> bool:
        """Whether what is held is what another store reads that knows nothing yet, to the byte, fields too."""
        held, fresh = self.selection(self.store).whole, self.selection(Store(self.path)).whole
        assert held is not None
        assert held.sketch is not None
        assert fresh is not None
        assert fresh.sketch is not None
        assert held.gaps == fresh.gaps
        return held.sketch.to_bytes() == fresh.sketch.to_bytes()

    def marks(self) -> list[int]:
        """Of the segments that are stored now."""
        with duckdb.connect(str(self.path), read_only=True) as connection:
            return [mark for (mark,) in connection.execute("SELECT generation FROM segments").fetchall()]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sketches.sampling.layout.segments.SEGMENT_ROWS", 100)
        yield Watched(tmp_path / "wane.duckdb", patch)


def by_time(rows: Rows, pieces: int) -> list[Rows]:
    """The rows as they came, in pieces of equal size."""
    return [rows.take(np.sort(some)) for some in np.array_split(np.argsort(rows.t, kind="stable"), pieces)]


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_a_commit_wrote_is_read(watched: Watched, kind: str) -> None:
    """Of every commit that appends, so many segments are read as it wrote: others stay as they were read."""
    first, *following = by_time(STREAMS[kind](3_000, 4), 5)
    stored(watched.path, {"east": first, "west": first.take(slice(0, 50))}, **COARSE)
    assert watched.reads() == len(watched.marks())
    known = set(watched.marks())
    for piece in following:
        stored(watched.path, {"east": piece}, **COARSE)
        marks = watched.marks()
        read = watched.reads()
        assert read == sum(mark not in known for mark in marks)
        assert watched.follows()
        known |= set(marks)
        assert watched.reads() == 0


def test_small_streams_read_the_end_alone(watched: Watched) -> None:
    """Where every event is kept, a commit of new events changes the last stretches and no other one."""
    rows = STREAMS["late"](3_000, 2)
    before, last = by_time(rows.take(rows.t < np.sort(rows.t)[-50]), 1)[0], rows.take(rows.t >= np.sort(rows.t)[-50])
    stored(watched.path, {"east": before})
    assert watched.reads() == len(watched.marks()) > 20
    stored(watched.path, {"east": last})
    assert watched.reads() <= 4
    assert watched.follows()


def test_deletions_retention_and_compaction_are_followed(watched: Watched) -> None:
    """Events that were forgotten are gone from what is held, and nothing else is read; a file written anew is the
    same store, of which nothing is read."""
    rows = STREAMS["late"](3_000, 6)
    stored(watched.path, {"east": rows.take(slice(0, None, 2)), "west": rows.take(slice(1, None, 2))})
    watched.reads()
    middle = int(np.median(rows.t))
    forget(watched.path, STREAM, begin=middle, end=middle + 60)
    assert 0 < watched.reads() < len(watched.marks()) // 2
    assert watched.follows()
    forget(watched.path, STREAM, sources=["west"])
    watched.reads()
    assert watched.follows()
    compact(watched.path)
    assert watched.reads() == 0
    assert watched.follows()
    more = rows.take(slice(0, 20))
    last = replace(more, t=more.t - more.t.min() + rows.t.max() + 1)
    kept_for = Stream(STREAM, EPOCH, settings={"retention": "20m"})
    commit(watched.path, replace(run_of(parts({"east": last})), stream=kept_for))
    assert watched.reads() < len(watched.marks()) + 3
    assert watched.follows()
    oldest = watched.selection(watched.store).whole
    assert oldest is not None
    assert oldest.segments[0].oldest >= int(last.t.max()) - 20 * 60 - 2 * EPOCH


def test_a_store_in_the_same_place_is_read_anew(watched: Watched) -> None:
    """Another store, or one that was restored from a backup and went on otherwise, gives none of the former rows."""
    rows = by_time(STREAMS["late"](2_000, 3), 4)
    stored(watched.path, {"east": rows[0]})
    backup = watched.path.with_name("backup")
    shutil.copy2(watched.path, backup)
    stored(watched.path, {"east": rows[1]})
    watched.reads()
    shutil.copy2(backup, watched.path)
    stored(watched.path, {"east": rows[2]})
    assert watched.reads() < len(watched.marks())
    assert watched.follows()
    watched.path.unlink()
    stored(watched.path, {"east": replace(rows[0], w=rows[0].w + 1)})
    assert watched.reads() == len(watched.marks())
    assert watched.follows()


def test_segments_of_one_moment_are_always_read(watched: Watched) -> None:
    """A commit may write several of them: what the table says of them does not tell them apart."""
    moment = np.full(350, EPOCH * 1000)
    stored(watched.path, {"east": Rows.of("moment", range(350), moment, np.arange(350) % 9)})
    assert watched.reads() == len(watched.marks()) == 4
    stored(watched.path, {"east": Rows.of("later", range(500, 520), moment[:20] + 5000, np.arange(20))})
    assert watched.reads() == 5
    assert watched.follows()


def test_damage_is_looked_at_again(watched: Watched) -> None:
    """A segment that could not be read is a gap, and is read again by the next commit; the others are not."""
    rows = by_time(STREAMS["late"](2_000, 8), 2)
    stored(watched.path, {"east": rows[0]})
    with duckdb.connect(str(watched.path)) as connection:
        found = connection.execute("SELECT rowid, payload FROM segments ORDER BY oldest LIMIT 1").fetchall()
    ((row, payload),) = found
    execute(watched.path, "UPDATE segments SET payload = $1 WHERE rowid = $2", [b"x" + payload[1:], row])
    watched.reads()
    assert len(watched.selection(watched.store).gaps) == 1
    execute(watched.path, "UPDATE segments SET payload = $1 WHERE rowid = $2", [payload, row])
    commit(watched.path, run_of([], stream="other"))
    stored(watched.path, {"east": rows[1].take(slice(len(rows[1]) - 5, None))})
    assert 0 < watched.reads() < len(watched.marks()) // 2
    assert watched.selection(watched.store).gaps == []
    assert watched.follows()


def test_fields_of_segments_that_stayed_are_there(watched: Watched) -> None:
    """Fields are read when they are asked for, of old segments and of new ones, and hold on to no earlier sketch."""
    wide = requests(5, 1_500)
    order = np.argsort(wide.times, kind="stable")
    pieces = [some_of(wide, some) for some in np.array_split(order, 3)]
    for number, piece in enumerate(pieces):
        found = wide_parts(piece, WIDE_NAMES, 40_000)
        commit(watched.path, replace(run_of(found), stream=Stream(STREAM, 40_000)))
        watched.reads()
        assert watched.follows()
        fields = watched.selection(watched.store).whole.sketch.rows.fields  # type: ignore[union-attr]
        assert all(not part._parts for part in fields._parts.values()), number
        assert set(fields) == set(wide.fields)


def some_of(wide: Wide, rows: Any) -> Wide:
    columns = (one[rows] for one in (wide.ids, wide.times, wide.values, wide.weights, wide.sources))
    return Wide(*columns, {name: np.asarray(column)[rows] for name, column in wide.fields.items()})
