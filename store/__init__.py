"""The DuckDB file: sketches by stream, source and epoch, the ledger of ingest runs, rejected rows, labels of keys.

All SQL lives here. May import `sketches`; never `ingest`, `dashboard` or Spark.
"""

from store.commit import commit
from store.database import StoreBusyError, StoreError
from store.ledger import AlreadyIngestedError, KnownFile, known_files
from store.run import InputFile, Part, Reject, Run, Sketched, Stream
from store.store import Answer, Provenance, Store

__all__ = [
    "AlreadyIngestedError",
    "Answer",
    "InputFile",
    "KnownFile",
    "Part",
    "Provenance",
    "Reject",
    "Run",
    "Sketched",
    "Store",
    "StoreBusyError",
    "StoreError",
    "Stream",
    "commit",
    "known_files",
]
