"""Spark's daemon of Python workers with our code imported, and its kernels loaded, before it forks them: a new worker
does neither again.

`python -m` runs it in place of pyspark.daemon; what a worker does is pyspark's own.
"""

from __future__ import annotations

from pyspark.daemon import manager

import ingest.executor.worker  # noqa: F401 - for the workers
from sketches import Events, Integral, Sample


def load_kernels() -> None:
    """Build and read back the sketches that nearly all tests ask for: numba loads what they need from its cache."""
    events = Events.of(range(100), range(100), range(100), [1, 2] * 50)
    for sketch in (Sample.build(events, sources=["north", "south"] * 50), Integral.build(events, decay="window:20m")):
        type(sketch).from_bytes(sketch.to_bytes()).merge(sketch)


if __name__ == "__main__":
    load_kernels()
    manager()
