"""Generated rows, cut into the files in which they arrive."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sketches.errors import WaneError


def arrival_files(
    name: str, table: pa.Table, arrived: NDArray[np.int64], begin: int, end: int, count: int
) -> list[tuple[str, pa.Table]]:
    """`count` files, each with the rows of an equal part of [begin, end); the last also has all later rows."""
    if count < 1:
        raise WaneError(f"count is {count}; it must be at least 1")
    cuts = np.searchsorted(arrived, np.linspace(begin, end, count + 1)[1:-1])
    edges = [0, *cuts.tolist(), len(table)]
    return [
        (f"{name}-{i:04d}.parquet", table.slice(edges[i], edges[i + 1] - edges[i]).combine_chunks())
        for i in range(count)
    ]
