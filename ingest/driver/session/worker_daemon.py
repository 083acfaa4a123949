"""Spark's daemon of Python workers with our code imported, and its kernels loaded, before it forks them.

Spark on this machine runs it in place of pyspark.daemon (`python -m ingest.driver.session.worker_daemon`). What a
worker does is pyspark's own. A worker that imported all this itself would be at work a second later, and so would the
next one.
"""

from __future__ import annotations

# ruff: noqa: E402
from ingest.driver.session.without_pandas import hidden, keep_arrow_without_pandas

keep_arrow_without_pandas()

import pyarrow as pa
import pyspark.worker  # noqa: F401 - else each worker imports it
from pyspark.daemon import manager

from ingest.executor.columns import Conversion
from ingest.executor.worker import merge, sketch
from ingest.executor.worker_settings import WorkerSettings
from sketches.events import Kind
from sketches.registry import DEFAULT_FAMILIES, FAMILIES
from sketches.units import SECOND


def load_kernels() -> None:
    """Sketch a few rows, as of a stream that says nothing else: numba loads what that takes from its cache."""
    numbers = pa.array(range(100))
    rows = dict.fromkeys(("id", "time", "value", "weight"), numbers)
    rows |= {name: numbers.cast(pa.string()) for name in ("source", "file")}
    how = WorkerSettings(Conversion(Kind.INTEGER, SECOND), 60, tuple((FAMILIES[name], {}) for name in DEFAULT_FAMILIES))
    with hidden("scipy"):
        for _ in merge(sketch([rows], how), how):
            pass


if __name__ == "__main__":
    load_kernels()
    manager()
