"""The DuckDB file: sketches by stream, source and epoch, the ledger of ingest runs, rejected rows, labels of keys.

All SQL lives here. May import `sketches`; never `ingest`, `dashboard` or Spark.
"""

from store.commit import InputFile, Part, Reject, Run, Stream, commit
from store.database import StoreBusyError, StoreError
from store.store import Answer, Provenance, Store

__all__ = [
    "Answer",
    "InputFile",
    "Part",
    "Provenance",
    "Reject",
    "Run",
    "Store",
    "StoreBusyError",
    "StoreError",
    "Stream",
    "commit",
]
