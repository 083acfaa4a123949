"""The part of DuckDB's Python package that opens files and runs statements.

The rest describes relations and data types for programs, and takes longer to import than answering takes. A release of
DuckDB may pack its parts differently: then the whole package serves.
"""

from __future__ import annotations

try:
    import _duckdb as duckdb
except ImportError:
    import duckdb  # type: ignore[no-redef]

__all__ = ["duckdb"]
