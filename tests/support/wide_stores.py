"""A small store of requests: latencies without weights, from three services, with path, status, bytes and cached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sketches import Events, Sample
from sketches.units import SECOND
from store import EpochSketches, Run, SketchTables, Stream, commit
from tests.support.stores import EPOCH, NOON
from tests.support.streams import START
from tests.support.wide import Wide

REQUESTS, LOGS = "requests", "logs"
PATHS = ("/pay", "/cart", "/it's", "/", "/help")
SERVICES = ("api", "shop", "web")
SETTINGS: dict[str, object] = {
    "input": ["/data/*"],
    "format": "csv",
    "source": "service",
    "id": "id",
    "time": "at",
    "value": "latency_ms",
    "weight": "1",
    "time_unit": "1s",
    "epoch": "10m",
    "families": ["sample"],
    "epsilon": 0.3,
    "delta": 0.1,
    "detail": 1,
    "kind": "float",
    "value_unit": "ms",
    "field_kinds": {"path": "text", "status": "integer", "bytes": "integer", "cached": "boolean"},
}


def requests(number: int = 1500, seed: int = 11) -> Wide:
    """An hour of requests; the path and the status go with the latency."""
    rng = np.random.default_rng(seed)
    path = rng.choice(len(PATHS), number, p=[0.1, 0.2, 0.05, 0.6, 0.05])
    latency = rng.gamma(2.0, 20.0 * (1 + (path == 0) * 4 + (path == 1)), number).round(1)
    status = np.where(rng.random(number) < np.where(latency > 100, 0.3, 0.02), 500, 200)
    texts = np.array([PATHS[at] for at in path.tolist()], object)
    return Wide(
        np.arange(number),
        START + np.sort(rng.integers(0, 3600, number)),
        latency,
        np.ones(number, np.int64),
        rng.choice(SERVICES, number, p=[0.5, 0.3, 0.2]),
        {"path": texts, "status": status, "bytes": rng.integers(100, 5000, number), "cached": rng.random(number) < 0.4},
    )


def run(stream: str, rows: Wide, described: dict[str, object], values: Any) -> Run:
    """One run of ingest; what is kept of it is a sample."""
    found = []
    starts = rows.times - rows.times % EPOCH
    for source in SERVICES:
        for start in np.unique(starts).tolist():
            inside = (rows.sources == source) & (starts == start)
            if not inside.any():
                continue
            fields = {name: column[inside] for name, column in rows.fields.items()}
            events = Events.of(rows.ids[inside], rows.times[inside], values[inside], fields=fields)
            sketch = Sample.build(events, epsilon=0.3, delta=0.1, detail=1)
            number, times = int(inside.sum()), rows.times[inside]
            found.append(
                EpochSketches(source, start, EPOCH, number, float(number), int(times.min()), int(times.max()), [sketch])
            )
    return Run(Stream(stream, EPOCH, SECOND, described), SketchTables.of(found), NOON, NOON, rows=len(rows.ids))


def build(folder: Path) -> Path:
    """Requests by their latency, and the same by their path, which is text."""
    path, rows = folder / "wide.duckdb", requests()
    keyed = SETTINGS | {"value": "path", "kind": "key", "value_unit": ""}
    commit(path, [run(REQUESTS, rows, SETTINGS, rows.values), run(LOGS, rows, keyed, rows.fields["path"])])
    return path
