"""Spark's daemon of Python workers with our code imported before it forks them: a new worker does not import it again.

`python -m` runs it in place of pyspark.daemon; what a worker does is pyspark's own.
"""

from __future__ import annotations

from pyspark.daemon import manager

import ingest.executor.worker  # noqa: F401 - for the workers

if __name__ == "__main__":
    manager()
