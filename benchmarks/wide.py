"""Fields of events: how often the intervals of answers about them hold, what they cost in bytes, and how fast they are.

    python -m benchmarks.wide [--questions 2000] [--rows 34000000] [--only coverage bytes speed ingest] [--publish]

Coverage: random questions to stores of thinned samples (ε = 0.2, detail 1) of the real data sets in ../shared/data
beside the repository, with copies of a tenth of their rows (`benchmarks/wide_coverage.py`), against exact answers
(`tests/support/wide.py`). Speed: `--rows` generated events with four fields in a store, against DuckDB over the same
events as a native table, 2 threads, warm, turn by turn, as in `benchmarks.query`. `--publish` writes the sections of
docs/accuracy.md and docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.ingest import FILES, MASTER, generate, ingested
from benchmarks.query import DAY, FEW_POINTS, POINTS, START, STREAM, exact, exponential, holds, race, say
from benchmarks.query import days as generated
from benchmarks.report import publish, table
from benchmarks.size import DATA, totals
from benchmarks.wide_coverage import coverage
from ingest.driver.session.spark import spark_session
from sketches import Events, Question, Sample
from sketches.fields import FieldColumn, FieldKind, Fields
from sketches.predicate import Predicate, columns_with
from store import Run, SketchTables, Store, Stream, commit
from store.writing.run import EPOCHS, SKETCHES
from tests.support.wide import Wide

SETS: Final = {
    "bikeshare14": ("subscriber", "end_terminal", "bike_id"),
    "online_retail": ("country", "quantity", "unit_price_pence"),
    "cran_downloads": ("country", "r_os"),
    "zeek_wrccdc": ("port", "resp"),
}
LONGEST: Final = 100_000  # rows of a data set, its first: an exact answer takes a tenth of a second
A_SEED: Final = 10  # questions to one sample
CONFIDENCE: Final = 0.95
ROUNDING: Final = 1e-9
SOURCES: Final = 20

REGIONS: Final = tuple(f"region {number:02d}" for number in range(50))
DEVICES: Final = tuple(f"device {number}" for number in range(10))
KINDS: Final = {
    "region": FieldKind.TEXT,
    "device": FieldKind.TEXT,
    "status": FieldKind.INTEGER,
    "kilobytes": FieldKind.INTEGER,
}


def load(name: str) -> Wide:
    """A data set; of the rows a tenth comes again, half of these from another source."""
    rows = pq.read_table(DATA / f"{name}.parquet").slice(0, LONGEST)
    rng = np.random.default_rng(len(name))
    texts = rows["source"].combine_chunks().dictionary_encode()
    fields = {}
    for field in SETS[name]:
        column = rows[field].combine_chunks()
        text = pa.types.is_string(column.type)
        values = np.array(column.to_pylist(), object) if text or column.null_count else column.to_numpy()
        fields[field] = values if text else values.astype(np.float64 if column.null_count else np.int64)
    again = rng.choice(len(rows), len(rows) // 10)
    which = np.concatenate([np.arange(len(rows)), again])
    sources = texts.indices.to_numpy().astype(np.int32)[which]
    elsewhere = rng.integers(0, max(len(texts.dictionary), 2), len(which))
    sources = np.where((np.arange(len(which)) >= len(rows)) & (rng.random(len(which)) < 0.5), elsewhere, sources)
    keys: list[Any] = []  # of copies that differ, the least is the event: it stands first
    for field in sorted(fields, reverse=True):
        keys += FieldColumn.of(fields[field][which]).sort_keys()
    which = which[order := np.lexsort(keys)]
    columns = [rows[part].to_numpy()[which] for part in ("id", "ts", "value", "weight")]
    return Wide(*columns, sources[order], {field: column[which] for field, column in fields.items()})


def costs() -> list[str]:
    """Bytes that a field costs an event that is kept."""
    rng = np.random.default_rng(3)
    size = 400_000
    rows: list[tuple[object, ...]] = []
    made = {
        "16 texts, equally frequent (≤ 0.6)": np.array([f"text {at}" for at in range(16)], object)[
            rng.integers(0, 16, size)
        ],
        "50 texts, equally frequent": np.array([f"text {at}" for at in range(50)], object)[rng.integers(0, 50, size)],
        "true and false": rng.random(size) < 0.5,
        "whole numbers below 1,000 (≤ 1.5)": rng.integers(0, 1_000, size),
        "floats of two decimals below 100": np.round(rng.random(size) * 100, 2),
        "any floats": rng.random(size),
    }
    times = np.sort(rng.integers(0, 30 * DAY, size))
    ids, values = np.arange(size), rng.integers(0, 1_000, size)

    def bytes_of(fields: dict[str, Any]) -> tuple[int, int]:
        sample = Sample.build(Events.of(ids, times, values, fields=fields))
        return len(sample.to_bytes()), sample.kept

    plain, kept = bytes_of({})
    for name, column in made.items():
        rows.append((f"generated: {name}", f"{(bytes_of({'x': column})[0] - plain) / kept:.2f}"))
    for name, fields in SETS.items():
        wide = load(name)
        about = (wide.ids, wide.times, wide.values, wide.weights)
        without = Sample.build(Events.of(*about))
        for field in fields:
            with_it = Sample.build(Events.of(*about, fields={field: wide.fields[field]}))
            cost = (len(with_it.to_bytes()) - len(without.to_bytes())) / without.kept
            distinct = len(set(wide.fields[field].tolist()))
            rows.append((f"{name}: {field}, {distinct:,} distinct", f"{cost:.2f}"))
    return [
        "Bytes of a stored sample with one field more, for each event that is kept.",
        table(("field", "bytes"), rows),
    ]


def ingest(rows: int, folder: Path, turns: int = 3) -> list[str]:
    """Files to a committed store with five fields, with none, and three streams over the same files."""
    some = "".join(f'{name} = "{name}"\n' for name in (*KINDS, "code"))
    own = dict.fromkeys(("no field", "five fields"), "") | {"three streams over the same files": ""}
    own["five fields"] = f"[streams.bench.fields]\n{some}"
    own["three streams over the same files"] = "".join(
        f'[streams.{name}]\ninput = "wide/*.parquet"\nsource = "source"\nid = "id"\ntime = "ts"\nvalue = "{value}"\n'
        f'weight = "weight"\nepoch = "1h"\n'
        for name, value in (("other", "kilobytes"), ("third", "region"))
    )
    generate_wide(folder, rows)
    taken: dict[str, list[float]] = {name: [] for name in own}
    with spark_session(MASTER) as spark:
        for turn in range(turns + 1):
            for name, more in own.items():
                seconds = ingested(spark, folder, "wide/*.parquet", more=more)
                if turn:  # the first turn warms up
                    taken[name].append(seconds)
                    say(f"{name}: {seconds:.2f} s")
    middle = {name: float(np.median(times)) for name, times in taken.items()}
    asked = {"five fields": "0.5"}
    head = ("stream", "seconds", "M rows/s", "speed, of that without fields", "asked")
    lines = [
        (name, f"{found:.2f}", f"{rows / found / 1e6:.2f}", f"{middle['no field'] / found:.2f}", asked.get(name, ""))
        for name, found in middle.items()
    ]
    said = (
        f"{rows:,} generated rows in {FILES} Parquet files, from files to a committed store, {MASTER}, one session, "
        f"medians of {turns} turns that alternate. Fields: {', '.join((*KINDS, 'code'))}: 50, 10 and 4 distinct texts "
        "and numbers, whole numbers below 1,000, and true and false."
    )
    return [said, table(head, lines)]


def generate_wide(folder: Path, rows: int) -> None:
    """The files of `benchmarks.ingest` with five more columns."""
    generate(folder / "plain", rows, shuffled=False)
    (folder / "wide").mkdir()
    for number, path in enumerate(sorted((folder / "plain").iterdir())):
        found, rng = pq.read_table(path), np.random.default_rng([5, number])
        made = {
            "region": pa.array(np.array(REGIONS, object)[rng.integers(0, len(REGIONS), len(found))]),
            "device": pa.array(np.array(DEVICES, object)[rng.integers(0, len(DEVICES), len(found))]),
            "status": pa.array(rng.choice(np.array([200, 301, 404, 500]), len(found))),
            "kilobytes": pa.array(rng.integers(0, 1_000, len(found))),
            "code": pa.array(rng.random(len(found)) < 0.5),
        }
        for name, column in made.items():
            found = found.append_column(name, column)
        pq.write_table(found, folder / "wide" / path.name, compression="zstd", row_group_size=500_000)


def days(events: int) -> Iterator[tuple[Any, Fields]]:
    """The events of `benchmarks.query` with four fields."""
    shares = 1.0 / np.arange(1, len(REGIONS) + 1)
    for day, batch in enumerate(generated(events, SOURCES)):
        rng, rows = np.random.default_rng([11, day]), len(batch.ids)
        status = rng.choice(np.array([200, 301, 404, 500]), rows, p=[0.85, 0.05, 0.07, 0.03])
        columns = {
            "region": rng.choice(len(REGIONS), rows, p=shares / shares.sum()).astype(np.int32),
            "device": rng.integers(0, len(DEVICES), rows).astype(np.int32),
            "status": status.astype(np.int64),
            "kilobytes": rng.integers(0, 1_000, rows),
        }
        texts = {"region": REGIONS, "device": DEVICES}
        made = {name: FieldColumn(kind, columns[name], None, texts.get(name, ())) for name, kind in KINDS.items()}
        yield batch, Fields.of(rows, made)


def build(folder: Path, events: int) -> tuple[Path, Path, int, int]:
    """A store and a DuckDB table of the same events; the newest time and how many are kept."""
    names = [f"source {number:03d}" for number in range(SOURCES)]
    store, database, newest = folder / "store.duckdb", folder / "events.duckdb", 0
    sample: Sample | None = None
    epochs = []
    with duckdb.connect(str(database), config={"threads": 2, "memory_limit": "3GB"}) as peer:
        peer.execute(f"CREATE TYPE regions AS ENUM {REGIONS}; CREATE TYPE devices AS ENUM {DEVICES}")
        peer.execute(
            "CREATE TABLE events (source SMALLINT, id BIGINT, t BIGINT, v INTEGER, w INTEGER, region regions, "
            "device devices, status SMALLINT, kilobytes SMALLINT)"
        )
        for batch, fields in days(events):
            columns = (batch.sources, batch.ids, batch.times, batch.values, batch.weights)
            arrived = dict(zip(("source", "id", "t", "v", "w"), map(pa.array, columns), strict=True))
            for name in ("region", "device"):
                arrived[name] = pa.DictionaryArray.from_arrays(fields[name].values, list(fields[name].texts))
            arrived |= {name: pa.array(fields[name].values) for name in ("status", "kilobytes")}
            peer.register("day", pa.table(arrived))
            peer.execute("INSERT INTO events SELECT * FROM day")
            peer.unregister("day")
            plain = Events.of(batch.ids, batch.times, batch.values, batch.weights)
            part = Sample.partial(replace(plain, fields=fields), batch.sources, names)
            sample = part if sample is None else sample.merge(part)
            epochs.append(totals(batch, names, DAY).cast(EPOCHS))
            newest = int(batch.times[-1])
        peer.execute("CHECKPOINT")
    assert sample is not None
    payload = pa.table([[""], [0], [0], ["sample"], [sample.to_bytes()]], schema=SKETCHES)
    now = datetime.now(UTC)
    settings = {
        "fields": {name: name for name in KINDS},
        "field_kinds": {name: str(kind) for name, kind in KINDS.items()},
    }
    stream = Stream(STREAM, DAY, settings={**settings, "kind": "integer"})
    commit(store, Run(stream, SketchTables(pa.concat_tables(epochs), payload), now, now, rows=events))
    say(f"{events:,} events stored, {sample.kept:,} kept")
    return store, database, newest, sample.kept


def speed(events: int, folder: Path) -> list[str]:
    path, database, newest, kept = build(folder, events)
    store, where = Store(path), Predicate.parse("status = 500", columns_with(KINDS))
    with duckdb.connect(str(database), read_only=True, config={"threads": 2, "memory_limit": "4GB"}) as peer:
        rows = [split_row(store, peer, newest, where), series_row(store, peer, newest, where)]
    head = ("question", "exact ms", "wane ms", "ratio", "asked at 34 million", "exact inside")
    said = (
        f"{events:,} generated events with four fields, of which {kept:,} are kept (ε = δ = 0.05), against DuckDB "
        f"{duckdb.__version__} over the same events as a native table sorted by time, 2 threads, warm; medians of "
        f"turns that alternate. Exact SQL of the series was asked at {FEW_POINTS} points, its time scaled up to all."
    )
    return [said, table(head, rows)]


def split_row(store: Store, peer: duckdb.DuckDBPyConnection, newest: int, where: Predicate) -> tuple[object, ...]:
    """The decayed sum of kilobytes of failed requests, by region."""
    sql = (
        "SELECT region::VARCHAR, sum(kilobytes * FADED) AS mass FROM events WHERE t <= AT AND status = 500 "
        "GROUP BY region ORDER BY mass DESC"
    ).replace("FADED", exponential(0)[1])

    def ours(step: int) -> Any:
        question = Question("sum", exponential(step)[0], of="kilobytes", where=where)
        return store.split(STREAM, question, by="region", top=len(REGIONS))

    split, truth = ours(0).split, dict(exact(peer, sql, newest))
    found = [holds(split.lower[at], truth[name], split.upper[at]) for at, name in enumerate(split.names)]
    times = race(ours, lambda: exact(peer, sql, newest), 5)
    return result("filtered and split by 50 texts", *times, 30, f"{int(np.sum(found))} of {len(found)}")


def series_row(store: Store, peer: duckdb.DuckDBPyConnection, newest: int, where: Predicate) -> tuple[object, ...]:
    """Failed requests at 200 times, by device."""
    sql = (
        "SELECT device::VARCHAR, sum(FADED) AS mass FROM events WHERE t <= AT AND status = 500 GROUP BY device"
    ).replace("FADED", exponential(0)[1])
    moments = np.linspace(START + DAY, newest, POINTS).astype(np.int64)
    points = np.linspace(0, POINTS - 1, FEW_POINTS).astype(np.int64)

    def ours(step: int) -> Any:
        return store.series_by(STREAM, Question("count", exponential(step)[0], where=where), moments, "device", top=10)[
            0
        ]

    def theirs() -> list[dict[Any, float]]:
        return [dict(exact(peer, sql, moment)) for moment in moments[points].tolist()]

    found, held, asked = ours(0), 0, 0
    for at, truth in zip(points.tolist(), theirs(), strict=True):
        for device, series in found.items():
            asked += 1
            held += bool(holds(series.lower[at], truth.get(device, 0.0), series.upper[at]))
    own, peers = race(ours, theirs, 3)
    return result(
        f"series of {POINTS} points split in ten", own, peers * POINTS / FEW_POINTS, 200, f"{held} of {asked}"
    )


def result(name: str, ours: float, theirs: float, wanted: int, held: str) -> tuple[object, ...]:
    say(f"{name}: exact {theirs * 1e3:.0f} ms, wane {ours * 1e3:.2f} ms, {theirs / ours:.0f} times, {held}")
    return name, f"{theirs * 1e3:.0f}", f"{ours * 1e3:.2f}", f"{theirs / ours:.0f}", wanted, held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=2_000)
    parser.add_argument("--rows", type=int, default=34_000_000, help="generated, to measure speed")
    parser.add_argument("--ingested", type=int, default=5_000_000, help="rows in files, to measure ingest")
    parser.add_argument("--only", nargs="*", choices=("coverage", "bytes", "speed", "ingest"), help="some of the parts")
    parser.add_argument("--folder", help="where the temporary files go (default: the system's)")
    parser.add_argument("--publish", action="store_true", help="write the sections of the docs")
    options = parser.parse_args()
    command = shlex.join(["python", "-m", "benchmarks.wide", *sys.argv[1:]])
    with tempfile.TemporaryDirectory(prefix="wane-wide-", dir=options.folder) as folder:
        makers: dict[str, tuple[str, str, Callable[[], list[str]]]] = {
            "coverage": (
                "accuracy.md",
                "Questions about fields",
                lambda: coverage(options.questions, SETS, load, LONGEST),
            ),
            "bytes": ("benchmarks.md", "Bytes of fields", costs),
            "speed": ("benchmarks.md", "Questions about fields", lambda: speed(options.rows, Path(folder))),
            "ingest": ("benchmarks.md", "Ingest of fields", lambda: ingest(options.ingested, Path(folder))),
        }
        for name in options.only or makers:
            page, section, make = makers[name]
            text = "\n\n".join(
                part if part.startswith("|") else textwrap.fill(part, 120, break_on_hyphens=False) for part in make()
            )
            if options.publish:
                publish(page, section, command, text)
            else:
                print(f"{section}\n\n{text}\n")


if __name__ == "__main__":
    main()
