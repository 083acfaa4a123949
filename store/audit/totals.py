"""Whether the exact totals that a store keeps of every hour are those of the raw files: rows, weight and values."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from sketches.arrays import Flags, Ints
from sketches.errors import CorruptError
from sketches.events import Kind
from sketches.parts import HourTotals
from sketches.registry import FAMILIES
from store.audit.exact import Exact
from store.database import WAIT, connected

ROUNDING: Final = 1e-12  # declared of sums


def stored_totals(path: Path, stream: str, wait: float = WAIT) -> HourTotals | None:
    """The totals that a store keeps of a stream; None where no family has counted all of its rows."""
    with connected(path, write=False, wait=wait) as connection:
        heads = connection.execute(
            "SELECT family, payload FROM heads WHERE stream = $1 AND NOT EXISTS ("
            "SELECT 1 FROM sketches AS earlier WHERE earlier.stream = $1 AND earlier.family = heads.family)",
            [stream],
        ).fetchall()
    for family, head in heads:
        if family in FAMILIES:
            with suppress(CorruptError):
                sketch, _ = FAMILIES[family].from_parts(head, [])
                if (found := sketch.hour_totals()) is not None:
                    return found
    return None


class ComparedTotals(NamedTuple):
    """The hours that were compared, by their beginnings, and which of them differ from the raw files."""

    begins: Ints
    differs: Flags

    @property
    def equal(self) -> bool:
        return not self.differs.any()


def compare_totals(totals: HourTotals, exact: Exact) -> ComparedTotals:
    """Compare every hour that one of both knows."""
    begins, rows, weights, values = exact.hours(totals.length)
    known = begins > totals.unknown_up_to
    there = np.union1d(totals.begins, begins[known])
    differs = np.zeros(len(there), bool)
    columns = [(totals.rows, rows), (totals.weights, weights)]
    if exact.kind is not Kind.KEY and not np.isnan(totals.values).any():
        columns.append((totals.values, values))
    for stored, raw in columns:
        both = np.zeros((2, len(there)))
        both[0, np.searchsorted(there, totals.begins)] = stored
        both[1, np.searchsorted(there, begins[known])] = raw[known]
        differs |= np.abs(both[0] - both[1]) > ROUNDING * np.maximum(np.abs(both).max(axis=0), 1.0)
    return ComparedTotals(there, differs)
