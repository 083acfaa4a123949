"""The store, one DuckDB file: sketches by stream, source and epoch, the ledger of ingest runs, rejected rows.

All SQL lives here. May import `sketches`; never `ingest`, `dashboard` or Spark.
"""

from store.database import StoreBusyError, StoreError
from store.serving.store import Answer, Provenance, Store
from store.writing.compacting import Compacted, compact
from store.writing.forgetting import Forgotten, forget
from store.writing.ledger import AlreadyIngestedError, KnownFile, known_files
from store.writing.run import EpochSketches, InputFile, Reject, Run, SketchTables, Stream
from store.writing.transaction import commit

__all__ = [
    "AlreadyIngestedError",
    "Answer",
    "Compacted",
    "EpochSketches",
    "Forgotten",
    "InputFile",
    "KnownFile",
    "Provenance",
    "Reject",
    "Run",
    "SketchTables",
    "Store",
    "StoreBusyError",
    "StoreError",
    "Stream",
    "commit",
    "compact",
    "forget",
    "known_files",
]
