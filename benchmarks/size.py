"""A store against the Parquet files it was made from: bytes, kept events, bytes a kept event, bytes of exact totals.

python -m benchmarks.size [--rows 34000000] [--large]

Generated streams (`benchmarks/streams.py`) and the real ones of ../shared/data where they are at hand. Parquet is
written by pyarrow with zstd at level 3. Batches go to the builder directly, as Spark's tasks do, and are committed to a
real store; the ledger has one file. Totals are what a sample takes more than the same one that has counted no rows: of
slices of time, and how often kept rows came. `--large` adds 340 million rows.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import publish, table
from benchmarks.streams import Batch, Generated
from sketches import Events, Sample
from sketches.sampling.inclusion.ladder_parameters import LadderParameters
from sketches.units import SECOND
from store import InputFile, Run, SketchTables, Stream, commit, compact
from store.writing.run import EPOCHS, SKETCHES

NOW = datetime(2026, 1, 31, 12)  # noqa: DTZ001 - DuckDB's TIMESTAMP has no zone
DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
ROOM, SPARE = 8, 64_000  # of totals: an eighth of the sample's bytes, and so many more
BEFORE = {  # of the version before, where it was measured: store over Parquet
    "3 million": "2.07",
    "34 million, random ids": "2.05",
}


@dataclass(frozen=True, slots=True)
class Real:
    """A data set of ../shared/data, in the order of its file."""

    name: str
    epoch: int
    value: str = "value"

    @property
    def path(self) -> Path:
        return DATA / f"{self.name}.parquet"

    def batches(self) -> Iterator[tuple[Batch, list[str]]]:
        rows = pq.read_table(self.path, columns=["source", "id", "ts", self.value, "weight"])
        sources = rows["source"].combine_chunks().dictionary_encode()
        columns = [rows[name].to_numpy() for name in ("id", "ts", self.value, "weight")]
        yield Batch(*columns, sources.indices.to_numpy().astype(np.int32)), sources.dictionary.to_pylist()


def kept_by_formula(rows: int, capacity: int) -> int:
    return rows if rows <= capacity else round(capacity * (1.0 + math.log2(rows / capacity) / 2.0))


def totals(batch: Batch, names: list[str], epoch: int) -> pa.Table:
    """The totals of each source and epoch, as a task of ingest has them."""
    frame = pa.table({"source": pa.array(names).take(pa.array(batch.sources)), "t": batch.times, "w": batch.weights})
    with duckdb.connect() as connection:
        connection.register("frame", frame)
        return connection.sql(
            f"SELECT source, t // {epoch} * {epoch} AS start, {epoch}::BIGINT AS length, count(*) AS events, "
            "sum(w)::DOUBLE AS weight, min(t) AS oldest, max(t) AS newest FROM frame GROUP BY 1, 2"
        ).to_arrow_table()


def store_of(batches: Iterable[tuple[Batch, list[str]]], epoch: int, path: Path) -> Sample:
    """Commit all batches as one run."""
    sample: Sample | None = None
    found = []
    for batch, names in batches:
        weights = None if (batch.weights == 1).all() else batch.weights
        part = Sample.partial(Events.of(batch.ids, batch.times, batch.values, weights), batch.sources, names)
        sample = part if sample is None else sample.merge(part)
        found.append(totals(batch, names, epoch).cast(EPOCHS))
    assert sample is not None
    payload = pa.table([[""], [0], [0], ["sample"], [sample.to_bytes()]], schema=SKETCHES)
    tables = SketchTables(pa.concat_tables(found), payload)
    file = InputFile("raw.parquet", 1, "0" * 64, 1, 0)
    commit(path, Run(Stream("stream", epoch), tables, NOW, NOW, files=[file], rows=1))
    return sample


def parquet_bytes(stream: Generated, folder: Path) -> int:
    path = folder / "raw.parquet"
    writer: pq.ParquetWriter | None = None
    for batch in stream.batches():
        rows = batch.table()
        if writer is None:
            writer = pq.ParquetWriter(path, rows.schema, compression="zstd", compression_level=3)
        writer.write_table(rows, row_group_size=1 << 20)
    assert writer is not None
    writer.close()
    return path.stat().st_size


def measure(stream: Generated | Real, epoch: int, folder: Path) -> tuple[str, ...]:
    store = folder / f"{stream.name}.duckdb".replace(" ", "-")
    if isinstance(stream, Generated):
        raw = parquet_bytes(stream, folder)
        names = [f"site-{number}" for number in range(stream.sources)]
        sample = store_of(((batch, names) for batch in stream.batches()), epoch, store)
        rows = stream.rows
    else:
        raw = stream.path.stat().st_size
        sample = store_of(stream.batches(), epoch, store)
        rows = pq.read_metadata(stream.path).num_rows
    size = store.stat().st_size
    compacted = compact(store, dry_run=True).after
    capacity = LadderParameters.derive(0.05, 0.05, SECOND, 0).capacity
    plain = len(replace(sample, totals=None, rows=replace(sample.rows, counts=None)).to_bytes())
    segments = sum(len(segment.payload) for segment in sample.parts(epoch).segments)
    return (
        stream.name,
        f"{rows:,}",
        f"{raw:,}",
        f"{size:,}",
        f"1/{raw / size:.1f}",
        f"{compacted:,}",
        BEFORE.get(stream.name, ""),
        f"{sample.kept:,}",
        f"{kept_by_formula(rows, capacity):,}",
        f"{segments / max(sample.kept, 1):.2f}",
        f"{len(sample.to_bytes()) - plain:,}",
        f"{plain // ROOM + SPARE:,}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=34_000_000, help="rows of the longer generated streams")
    parser.add_argument("--large", action="store_true", help="add 340 million rows")
    options = parser.parse_args()
    hour, day = 3_600, 86_400
    million = f"{options.rows // 1_000_000} million"
    wanted: list[tuple[Generated | Real, int]] = [
        (Generated("3 million", 3_000_000, 180, 229, tick=60, heavy=1.5), day),
        (Generated(f"{million}, random ids", options.rows, 30, 20), hour),
        (Generated(f"{million}, sequential ids", options.rows, 30, 20, random_ids=False), hour),
    ]
    if options.large:
        wanted.append((Generated("340 million", 340_000_000, 300, 20), day))
    real = [
        Real("azure_vm_noise", day),
        Real("bikeshare14", day),
        Real("cran_downloads", hour),
        Real("nginx_wikibase_minutes", day),
        Real("online_retail", day),
        Real("zeek_wrccdc", 60),
    ]
    wanted += [(one, one.epoch) for one in real if one.path.exists()]
    measured = []
    for stream, epoch in wanted:
        with tempfile.TemporaryDirectory() as folder:
            measured.append(measure(stream, epoch, Path(folder)))
            print(measured[-1], flush=True)
    header = (
        *("stream", "rows", "Parquet", "store", "store over Parquet", "compacted", "before", "kept", "by formula"),
        *("bytes a kept event", "totals", "allowed"),
    )
    text = (
        "Defaults (ε = δ = 0.05, detail 16). Asked: 1/8 for azure_vm_noise, 1/6 for 3 million, 1/30 for 34 million; "
        "totals at most an eighth of the sample's bytes and 64 kB.\n\n"
    )
    publish(
        "benchmarks.md",
        "Size of a store",
        shlex.join(["python", "-m", "benchmarks.size", *sys.argv[1:]]),
        text + table(header, measured),
    )


if __name__ == "__main__":
    main()
