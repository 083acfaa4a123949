"""From raw events to the store: reads them, checks them, builds and merges partial sketches, and commits.

All Spark lives here. May import `sketches` and `store`; never `dashboard`.
"""

from typing import TYPE_CHECKING

from sketches.lazy import imported_when_used

if TYPE_CHECKING:
    from ingest.driver.local.builder import Builder

__getattr__ = imported_when_used(__name__, {"ingest.driver.local.builder": ["Builder"]})

__all__ = ["Builder"]
