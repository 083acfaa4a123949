"""Small stores built from named streams, what a store file holds, and damage done to it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from sketches import Events, Sample
from sketches.family import Sketch
from sketches.sampling.integral import Integral
from sketches.units import SECOND, TimeUnit
from store import EpochSketches, Run, SketchTables, Stream, commit
from store.packed_ledger import open_ledger
from store.packed_sources import unpack
from store.schema import RANDOM_BITS
from tests.support.by_epoch_family import ByEpoch
from tests.support.streams import Stream as Rows
from tests.support.streams import joined
from tests.support.wide import Wide

EPOCH = 600
STREAM = "calls"
NOON = datetime(2026, 1, 31, 12)  # noqa: DTZ001 - DuckDB's TIMESTAMP has no zone
TABLES = ["wane", "streams", "epochs", "sources", "heads", "segments", "sketches", "set_aside"]
TABLES += ["runs", "files", "rejects", "sites"]
BY_EPOCH = ("by-epoch",)  # a family of sketches by source and epoch

# Children fork from a server that has imported everything (pyarrow pandas, kernels numba) and holds no thread and no
# connection.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pytest", "pandas", "tests.support.warm"])

GENERATION = f"if(generation >> {RANDOM_BITS} = 0, generation, generation >> {RANDOM_BITS})"  # of a mark, or of before


def events(rows: Rows) -> Events:
    return Events.of(rows.ids, rows.t, rows.v, rows.w)


def sketches_of(
    rows: Rows, families: Sequence[str] = ("sample",), *, decay: str = "window:20m", **accuracy: Any
) -> list[Sketch]:
    """One sketch a family; `decay` is that of the integral family, "counted" is `sample` with rows counted."""
    build: dict[str, Callable[[], Sketch]] = {
        "sample": lambda: Sample.build(events(rows), **accuracy),
        "counted": lambda: Sample.partial(events(rows), np.zeros(len(rows), np.int32), [""], **accuracy),
        "by-epoch": lambda: ByEpoch.build(events(rows), **accuracy),
        "integral": lambda: Integral.build(events(rows), decay=decay, counting="weight", **accuracy),
    }
    return [build[family]() for family in families]


def part(rows: Rows, source: str, start: int, length: int = EPOCH, **settings: Any) -> EpochSketches:
    """One epoch of one source from its rows."""
    return EpochSketches(
        source,
        start,
        length,
        len(rows),
        float(rows.w.sum()),
        int(rows.t.min()),
        int(rows.t.max()),
        sketches_of(rows, **settings),
    )


def parts(by_source: Mapping[str, Rows], length: int = EPOCH, **settings: Any) -> list[EpochSketches]:
    """The rows of every source cut into epochs."""
    found = []
    for source, rows in by_source.items():
        starts = rows.t - rows.t % length
        found += [
            part(rows.take(starts == start), source, int(start), length, **settings) for start in np.unique(starts)
        ]
    return found


def wide_parts(wide: Wide, names: Sequence[str], length: int, **accuracy: Any) -> list[EpochSketches]:
    """Events with fields, cut into epochs of every source."""
    found, starts = [], wide.times - wide.times % length
    for number, source in enumerate(names):
        for start in np.unique(starts[wide.sources == number]).tolist():
            rows = np.flatnonzero((wide.sources == number) & (starts == start))
            fields = {name: column[rows] for name, column in wide.fields.items()}
            events = Events.of(wide.ids[rows], wide.times[rows], wide.values[rows], wide.weights[rows], fields)
            times, weight = wide.times[rows], float(wide.weights[rows].sum())
            ends = (int(times.min()), int(times.max()))
            sample = Sample.build(events, **accuracy)
            found.append(EpochSketches(source, start, length, len(rows), weight, *ends, [sample]))
    return found


def run_of(found: Sequence[EpochSketches], *, stream: str = STREAM, unit: TimeUnit = SECOND, **settings: Any) -> Run:
    return Run(Stream(stream, EPOCH, unit), SketchTables.of(found), NOON, NOON, **settings)


def stored(path: Path, by_source: Mapping[str, Rows], *, stream: str = STREAM, **settings: Any) -> int:
    """Commit the rows of every source in one run; the generation comes back."""
    unit = settings.get("unit", SECOND)
    return commit(path, run_of(parts(by_source, **settings), stream=stream, unit=unit))


def overlapping(rows: Rows, names: Sequence[str], seed: int, share: float = 0.3) -> dict[str, Rows]:
    """Every row at one source, and some at the next one too: sources that report the same events."""
    split = rows.split(len(names), seed)
    rng = np.random.default_rng(seed)
    also = [one.take(rng.random(len(one)) < share) for one in split]
    return {name: joined([split[at], also[at - 1]]) for at, name in enumerate(names)}


def content(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, sorted: the whole state of a store, of marks of commits only their generations. Sources
    and ledger are unpacked."""
    with duckdb.connect(str(path), read_only=True) as connection:
        names = {row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        if "packed_ledger" in names:
            open_ledger(connection)
            names = names - {"packed_ledger", "runs", "files"} | {"all_runs", "all_files"}
        names -= {"commits"}  # their names are random, and there are as many as were tried
        found = {name: sorted(connection.execute(_rows_of(name)).fetchall(), key=repr) for name in sorted(names)}
    found = {name.removeprefix("all_"): rows for name, rows in found.items()}
    if "packed_sources" in found:
        found["sources"] = [
            (stream, *row) for stream, packed, *_ in found.pop("packed_sources") for row in unpacked(packed)
        ]
    return found


def _rows_of(table: str) -> str:
    if table not in ("heads", "segments", "sketches", "set_aside"):
        return f"FROM {table}"
    return f"SELECT * REPLACE ({GENERATION} AS generation) FROM {table}"


def unpacked(packed: bytes) -> list[tuple[Any, ...]]:
    """The totals of the sources of a stream: source, events, weight, oldest, newest, latest."""
    names, *columns = unpack(packed)
    return list(zip(names, *(column.tolist() for column in columns), strict=True))


def payloads(path: Path, stream: str = STREAM) -> dict[tuple[str, int, str], bytes]:
    """The stored bytes by source, start and family."""
    with duckdb.connect(str(path), read_only=True) as connection:
        rows = connection.execute("SELECT source, start, family, payload FROM sketches WHERE stream = $1", [stream])
        return {(source, start, family): bytes(payload) for source, start, family, payload in rows.fetchall()}


def execute(path: Path, statement: str, values: Sequence[object] = ()) -> None:
    """A statement put to the file behind the store's back."""
    with duckdb.connect(str(path)) as connection:
        connection.execute(statement, list(values))


def packs(path: Path) -> list[tuple[Any, ...]]:
    """The packed parts of the ledger: stream, which table, first run, rows, payload."""
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute("FROM packed_ledger ORDER BY ALL").fetchall()


def replace_payload(path: Path, source: str, start: int, payload: bytes, family: str = "by-epoch") -> None:
    """Change the bytes of a sketch of a source's epoch."""
    execute(
        path,
        "UPDATE sketches SET payload = $1 WHERE source = $2 AND start = $3 AND family = $4",
        [payload, source, start, family],
    )


def stream_parts(
    path: Path, stream: str = STREAM, family: str = "sample"
) -> tuple[bytes, list[tuple[int, int, bytes]]]:
    """The sketch of a stream that is stored in parts: its head, and oldest, newest and bytes of its segments."""
    with duckdb.connect(str(path), read_only=True) as connection:
        key = [stream, family]
        ((head,),) = connection.execute("SELECT payload FROM heads WHERE stream = $1 AND family = $2", key).fetchall()
        segments = connection.execute(
            "SELECT oldest, newest, payload FROM segments WHERE stream = $1 AND family = $2 ORDER BY ALL", key
        ).fetchall()
    return bytes(head), segments


def replace_head(path: Path, payload: bytes, family: str = "sample") -> None:
    execute(path, "UPDATE heads SET payload = $1 WHERE family = $2", [payload, family])


def replace_segment(path: Path, oldest: int, payload: bytes, family: str = "sample") -> None:
    execute(path, "UPDATE segments SET payload = $1 WHERE oldest = $2 AND family = $3", [payload, oldest, family])


def stretch(path: Path, moment: int, stream: str = STREAM) -> tuple[int, int]:
    """The oldest and the newest time of the segment that holds a moment."""
    ((oldest, newest),) = [found[:2] for found in stream_parts(path, stream)[1] if found[0] <= moment <= found[1]]
    return oldest, newest


def named(path: Path) -> tuple[str, str]:
    """The random names of a store and of its last commit."""
    ((_, _, store, last),) = content(path)["wane"]
    return store, last


def beside(path: Path) -> list[str]:
    """What lies in the store's folder besides the store and the lock that writers leave."""
    return sorted(file.name for file in path.parent.iterdir() if file.name not in (path.name, f"{path.name}.lock"))


def flipped(data: bytes, at: int, bit: int = 0) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1 << bit
    return bytes(changed)
