"""The store, one DuckDB file: sketches by stream, source and epoch, the ledger of ingest runs, rejected rows.

All SQL lives here. May import `sketches`; never `ingest`, `dashboard` or Spark.
"""

from typing import TYPE_CHECKING

from sketches.lazy import imported_when_used

if TYPE_CHECKING:
    from store.database import StoreBusyError, StoreError
    from store.merging.export import Exported, export
    from store.merging.merge_command import MergeReport, merge
    from store.serving.store import Answer, Provenance, Store
    from store.writing.compacting import Compacted, compact
    from store.writing.forgetting import Forgotten, forget
    from store.writing.ledger import AlreadyIngestedError, KnownFile, known_files
    from store.writing.run import EpochSketches, InputFile, Reject, Run, SketchTables, Stream
    from store.writing.transaction import commit

__getattr__ = imported_when_used(
    __name__,
    {
        "store.database": ["StoreBusyError", "StoreError"],
        "store.merging.export": ["Exported", "export"],
        "store.merging.merge_command": ["MergeReport", "merge"],
        "store.serving.store": ["Answer", "Provenance", "Store"],
        "store.writing.compacting": ["Compacted", "compact"],
        "store.writing.forgetting": ["Forgotten", "forget"],
        "store.writing.ledger": ["AlreadyIngestedError", "KnownFile", "known_files"],
        "store.writing.run": ["EpochSketches", "InputFile", "Reject", "Run", "SketchTables", "Stream"],
        "store.writing.transaction": ["commit"],
    },
)

__all__ = [
    "AlreadyIngestedError",
    "Answer",
    "Compacted",
    "EpochSketches",
    "Exported",
    "Forgotten",
    "InputFile",
    "KnownFile",
    "MergeReport",
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
    "export",
    "forget",
    "known_files",
    "merge",
]
