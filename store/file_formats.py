"""The formats and compressions of input files, told by how their names end."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FORMATS: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
CHECKABLE_COMPRESSIONS: Final = (".gz", ".zst")  # DuckDB reads these, so exact answers can be computed
COMPRESSIONS: Final = (*CHECKABLE_COMPRESSIONS, ".bz2", ".lz4", ".snappy")  # Spark reads all of them


def format_of(path: str) -> str | None:
    """The format that the ending of a path tells, compressed or not; None where it is not known.

    >>> format_of("in/calls.csv.gz"), format_of("in/calls.JSONL"), format_of("in/calls.xml")
    ('csv', 'json', None)
    """
    suffixes = Path(path).suffixes
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return FORMATS.get(suffixes[-1].lower()) if suffixes else None
