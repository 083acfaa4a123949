"""Orders of numbers are those of numpy's stable sort, whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from sketches.arrays import Column, stable_order

RNG = np.random.default_rng(1)


@pytest.mark.parametrize(
    "column",
    [
        RNG.integers(0, 50, 1_000),
        RNG.integers(-(2**40), 2**40, 3_000),
        RNG.integers(-(2**62), 2**62, 3_000),  # no room for places
        RNG.integers(0, 9, 500).astype(np.uint64) + np.uint64(2**64 - 10),
        RNG.integers(0, 2**64, 500, dtype=np.uint64),
        RNG.integers(-(2**31), 2**31, 99).astype(np.int32),
        RNG.integers(0, 5, 77).astype(np.uint8),
        RNG.integers(0, 5, 99) / 7.0,
        np.array([-(2**63), 2**63 - 1]),
        np.array([1 - 2**63, -(2**63), 1 - 2**63]),
        np.zeros(0, np.int64),
    ],
    ids=lambda column: f"{column.dtype} {len(column)}",
)
def test_the_order_is_stable(column: Column) -> None:
    assert stable_order(column).tolist() == np.argsort(column, kind="stable").tolist()
