"""Raw files from named streams, a settings file beside them, and what a run made of it."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.driver.configuration.settings import Settings, read_settings
from ingest.driver.job import run
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions
from ingest.driver.summary import Summary
from sketches import Events, Integral, Sample
from sketches.family import Sketch
from sketches.registry import FAMILIES
from tests.support.stores import STREAM, content, payloads
from tests.support.streams import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH = 600
WHOLE = ("", 0, "sample")  # the key of the sketch of a stream
DECAY = "window:20m"
BOTH = f'families = ["sample", "integral"]\n[streams.calls.integral]\ndecay = "{DECAY}"\n'


def table_of(rows: Stream, sources: Sequence[str]) -> pa.Table:
    """The rows as a raw file has them; the source is told by the id, so that repeats stay at theirs."""
    return pa.table(
        {
            "source": pa.array([sources[one % len(sources)] for one in rows.ids.tolist()], pa.string()),
            "id": rows.ids,
            "t": rows.t,
            "v": pa.array(rows.v.tolist()),
            "w": rows.w,
        }
    )


def write(path: Path, rows: Stream, sources: Sequence[str] = ("north", "south"), group: int = 1000) -> Path:
    """A Parquet file with several row groups."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table_of(rows, sources), path, row_group_size=group)
    return path


def configure(folder: Path, more: str = "", name: str = "wane", **settings: str | list[str]) -> Settings:
    """A settings file for the stream `calls`; keywords are settings, `more` is added as it is."""
    stated: dict[str, str | list[str]] = {
        "input": "raw/*.parquet",
        "source": "source",
        "id": "id",
        "time": "t",
        "value": "v",
        "weight": "w",
        "epoch": "10m",
    } | settings
    lines = [f'store = "{name}.duckdb"', "[streams.calls]", "epsilon = 0.2"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in stated.items()]
    file = folder / f"{name}.toml"
    file.write_text("\n".join(lines) + "\n" + more)
    return read_settings(file)


def ingest(settings: Settings, spark: SparkSession | None, **options: Any) -> Summary:
    return run(settings, RunOptions(**options), Progress(quiet=True), spark)


def expected(
    rows: Stream, sources: Sequence[str] = ("north", "south"), detail: int = 16, **accuracy: Any
) -> dict[Any, bytes]:
    """The payloads that one machine makes of all the rows: of the stream, and by source, epoch and family."""
    keywords: dict[str, Any] = {"epsilon": 0.2} | accuracy
    whose = rows.ids % len(sources)
    starts = rows.t - rows.t % EPOCH
    names = [sources[number] for number in whose.tolist()]
    every = Events.of(rows.ids, rows.t, rows.v, rows.w)
    found = {WHOLE: Sample.build(every, sources=names, detail=detail, **keywords).to_bytes()}
    for number, source in enumerate(sources):
        for start in np.unique(starts[whose == number]).tolist():
            part = rows.take((whose == number) & (starts == start))
            events = Events.of(part.ids, part.t, part.v, part.w)
            found[source, start, "integral"] = Integral.build(events, decay=DECAY, **keywords).to_bytes()
    return found


def stored(settings: Settings) -> dict[Any, bytes]:
    """The payloads in the store: those by source and epoch, and of the sketch of the stream its events and cuts."""
    found: dict[Any, bytes] = dict(payloads(settings.store))
    whole = content(settings.store)
    for stream, family, *_, head in whole["heads"]:
        if stream != STREAM:
            continue
        segments = sorted(row[2:] for row in whole["segments"] if row[:2] == (stream, family))
        sketch, damaged = FAMILIES[family].from_parts(head, [row[-1] for row in segments])
        assert not damaged
        found["", 0, family] = uncounted(sketch).to_bytes()
    return found


def uncounted(sketch: Sketch) -> Sketch:
    """The sketch without what was counted of rows: events and cuts alone do not depend on repeats and backfills."""
    if not isinstance(sketch, Sample):
        return sketch
    return dataclasses.replace(sketch, totals=None, rows=dataclasses.replace(sketch.rows, counts=None))


def totals(settings: Settings) -> tuple[int, float]:
    """Rows and weight of all epochs."""
    epochs = content(settings.store)["epochs"]
    return sum(row[3] for row in epochs), sum(row[4] for row in epochs)


def outcome_of(path: Path) -> dict[str, Any]:
    """All that a store holds but for what tells when and in how many runs it came: sketches, counts, rejects."""
    whole = content(path)
    return {
        "sketches": [(*row[:5], row[-1]) for row in whole["sketches"]],
        "heads": [(*row[:2], row[-1]) for row in whole["heads"]],
        "segments": [(*row[:5], row[-1]) for row in whole["segments"]],
        "epochs": whole["epochs"],
        "sources": whole["sources"],
        "set_aside": whole["set_aside"],
        "rejects": sorted((row[1], row[2], row[3]) for row in whole["rejects"]),
        "files": sorted(row[1:] for row in whole["files"]),
    }


def wane(
    *arguments: str, folder: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, as cron starts it."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("wane")), *arguments],
        cwd=folder,
        env=os.environ | dict(environment or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
