"""Rows that hold sketches which others have made: each is checked, and becomes one of ours of its source and epoch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingest.executor.arrow_columns import is_bytes
from ingest.executor.grouping import group
from sketches.arrays import Flags, Ints
from sketches.errors import CorruptError
from sketches.family import Sketch

Families = tuple[tuple[type[Sketch], Mapping[str, Any]], ...]  # with the keywords of their `build`

_NONE: Final = "no sketch"
_EMPTY: Final = "the sketch is of no rows"


def sketches_of(array: pa.Array, families: Families) -> tuple[NDArray[Any], Ints, list[tuple[Flags, str]]]:
    """The sketches of a column as bytes, of how many rows each is, and which of them are refused, and why."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    held = array.to_pylist() if is_bytes(array.type) else [None] * len(array)
    found, rows = np.empty(len(held), object), np.ones(len(held), np.int64)
    refused: dict[str, Flags] = {}
    for at, data in enumerate(held):
        found[at] = data
        fault = _NONE if data is None else None
        if data is not None:
            try:
                rows[at] = max(family.rows_taken_in(data, **keywords) for family, keywords in families)
                fault = _EMPTY if rows[at] == 0 else None
            except CorruptError as error:
                fault = _reason(error)
        if fault is not None:
            refused.setdefault(fault, np.zeros(len(held), bool))[at] = True
            rows[at] = 1
    return found, rows, [(mask, fault) for fault, mask in refused.items()]


def _reason(error: CorruptError) -> str:
    """Why, without the numbers of one sketch: rejected rows are counted by reason."""
    words = " ".join(word for word in str(error).split() if not any(letter.isdigit() for letter in word))
    return f"the sketch cannot be read: {words}"


def sketched(
    sources: NDArray[np.int32], times: Ints, found: NDArray[Any], rows: Ints, epoch: int, families: Families
) -> tuple[NDArray[np.int32], dict[str, Any]]:
    """The source of each group of sketches of one source and epoch, and the columns of its row of the output."""
    groups = group(sources, times, epoch)
    order = np.argsort(groups.place, kind="stable")
    placed = found[order]
    starts = groups.epochs * epoch
    events = np.add.reduceat(rows[order], groups.bounds[:-1])
    columns: dict[str, Any] = {
        "start": starts,
        "events": events,
        "weight": events.astype(np.float64),
        "oldest": starts,
        "newest": starts + epoch - 1,
    }
    for family, keywords in families:
        columns[family.family] = [
            family.taken_in(list(placed[begin:end]), start, start + epoch, **keywords)[0]
            for (begin, end), start in zip(pairwise(groups.bounds.tolist()), starts.tolist(), strict=True)
        ]
    return groups.sources, columns
