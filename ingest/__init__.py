"""From raw events to the store: reads them, checks them, builds and merges partial sketches, and commits.

All Spark lives here. May import `sketches` and `store`; never `dashboard`. `Builder` is for processes that have events
in memory, `sketch` and `commit_batch` are for Spark queries of one's own.
"""

from typing import TYPE_CHECKING

from sketches.lazy import imported_when_used

if TYPE_CHECKING:
    from ingest.driver.batches import commit_batch
    from ingest.driver.local.builder import Builder
    from ingest.driver.sketch_column import sketch

__getattr__ = imported_when_used(
    __name__,
    {
        "ingest.driver.batches": ["commit_batch"],
        "ingest.driver.local.builder": ["Builder"],
        "ingest.driver.sketch_column": ["sketch"],
    },
)

__all__ = ["Builder", "commit_batch", "sketch"]
