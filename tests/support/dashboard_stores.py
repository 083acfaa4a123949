"""A small store for tests without a browser: numbers at three sources, texts at two, numbers without weights, and a
stream without events."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sketches.sampling.layout import segments
from sketches.units import SECOND
from store import InputFile, Run, SketchTables, Stream, commit
from store.keys import Span
from store.serving.catalogue import Catalogue, StoredStream, Totals
from store.writing.ledger import fingerprint
from tests.support.stores import EPOCH, NOON, overlapping, parts
from tests.support.streams import START, STREAMS
from tests.support.streams import Stream as Rows

CALLS, PAGES, NOTHING, LATENCIES = "calls", "pages", "nothing", "latencies"
SITES = ("-south", "north", 'o\'hare "east"')
BLOGS = ("blog", "shop")
SCRIPT = "<img src=x onerror=alert(1)>"
LABELS = ("-v", "a 'b\" c", SCRIPT, "[x](javascript:alert(1))", "$x$ :red[hot] **bold**", "plain", "two words")
ACCURACY = {"epsilon": 0.3, "delta": 0.1}
END = START + 3600


def calls(number: int = 2500, seed: int = 3) -> dict[str, Rows]:
    """Numbers at three sources; some events are reported by two of them."""
    rows = STREAMS["sorted"](number, seed)
    return overlapping(rows, SITES, seed)


def pages(number: int = 600, seed: int = 4) -> dict[str, Rows]:
    """Text values, some of them hostile, at two sources."""
    rows = STREAMS["uniform"](number, seed)
    odds = 1 / np.arange(1, len(LABELS) + 1)
    values = np.random.default_rng(seed).choice(len(LABELS), number, p=odds / odds.sum())
    named = Rows.of("pages", rows.ids, rows.t, [LABELS[value] for value in values], rows.w)
    return overlapping(named, BLOGS, seed)


def latencies(number: int = 40, seed: int = 6) -> dict[str, Rows]:
    """Numbers without weights, so few that every answer is exact."""
    rows = STREAMS["uniform"](number, seed)
    return {"east": Rows.of("latencies", rows.ids, rows.t, rows.v, np.ones_like(rows.w))}


def settings(kind: str, **more: object) -> dict[str, object]:
    """A stream's settings as ingest stores them."""
    return {
        "input": ["/data/*"],
        "format": "parquet",
        "source": "site",
        "id": "id",
        "time": "t",
        "value": "v",
        "weight": "w",
        "time_unit": "1s",
        "epoch": "10m",
        "families": ["sample"],
        **ACCURACY,
        "detail": 1,
        "kind": kind,
        **more,
    }


def raw(folder: Path, by_site: Mapping[str, Rows]) -> InputFile:
    """Write the rows as one Parquet file; its row of the ledger comes back."""
    path = folder / "raw.parquet"
    tables = [
        pa.table({"site": [site] * len(rows), "id": rows.ids, "t": rows.t, "v": pa.array(rows.v.tolist()), "w": rows.w})
        for site, rows in by_site.items()
    ]
    pq.write_table(pa.concat_tables(tables), path)
    status, times = path.stat(), np.concatenate([rows.t for rows in by_site.values()])
    number = sum(map(len, by_site.values()))
    content = fingerprint(str(path))
    return InputFile(str(path), status.st_size, content, number, status.st_mtime_ns, int(times.min()), int(times.max()))


def damage(path: Path, moment: int, stream: str = CALLS) -> int:
    """Break the segment of the sample that covers a time; how many segments that were."""
    with duckdb.connect(str(path)) as connection:
        rows = connection.execute(
            "UPDATE segments SET payload = 'broken' WHERE stream = $1 AND oldest <= $2 AND newest >= $2 RETURNING 1",
            [stream, moment],
        ).fetchall()
    return len(rows)


def run(stream: str, by_site: Mapping[str, Rows], described: dict[str, object], *, detail: int = 1, **more: Any) -> Run:
    """One run of ingest; little of it is kept, unless `detail` says otherwise."""
    epochs = parts(by_site, detail=detail, **ACCURACY) if by_site else []
    rows = sum(map(len, by_site.values()))
    return Run(Stream(stream, EPOCH, SECOND, described), SketchTables.of(epochs), NOON, NOON, rows=rows, **more)


def build(folder: Path) -> Path:
    """The whole store, with the raw file of its numeric stream."""
    path = folder / "small store.duckdb"
    numbers = calls()
    described = settings("integer", value_unit="s", weight_unit="loss", input=[f"{folder}/*"])
    runs = [
        run(CALLS, numbers, described, files=[raw(folder, numbers)]),
        run(PAGES, pages(), settings("key")),
        run(NOTHING, {}, settings("integer")),
        run(LATENCIES, latencies(), settings("integer", value="latency", weight="1", value_unit="ms")),
    ]
    with short_segments():
        commit(path, runs)
    return path


def short_segments() -> AbstractContextManager[object]:
    """Segments of a few rows, so that one of them is a small part of a store."""
    return patch.object(segments, "SEGMENT_ROWS", 40)


def more(path: Path, seed: int = 9) -> int:
    """Commit another hour of calls; the new generation comes back."""
    rows = STREAMS["sorted"](200, seed)
    later = Rows.of("later", rows.ids, rows.t + 3600, rows.v, rows.w)
    return commit(path, run(CALLS, {"north": later}, settings("integer", value_unit="s", weight_unit="loss")))


def stored_stream(
    *spans: tuple[str, int, int], unit: Any = SECOND, kind: str = "integer", **known: Any
) -> StoredStream:
    """A stream as a catalogue has it: with epochs (source, start, length), each with events from start to end."""
    epochs = {Span(start, length): Totals(1, 1.0, start, start + length - 1) for _, start, length in spans}
    sources: dict[str, Totals] = {}
    for source, start, length in spans:
        before = sources.get(source, Totals(0, 0.0, start, start))
        oldest, newest = min(before.oldest, start), max(before.newest, start + length - 1)
        sources[source] = Totals(before.events + 1, before.weight + 1.0, oldest, newest)
    return StoredStream("s", unit, EPOCH, f'{{"kind": "{kind}"}}', epochs, sources, **known)


def catalogue(*streams: StoredStream) -> Catalogue:
    return Catalogue(1, {stream.name: stream for stream in streams})
