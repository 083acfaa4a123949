"""Generated streams of events for benchmarks: their columns and distributions, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

START = 1_700_000_000
DAY = 86_400


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a stream in the order of time; a source is its number."""

    ids: NDArray[np.int64]
    times: NDArray[np.int64]
    values: NDArray[np.int64]
    weights: NDArray[np.int64]
    sources: NDArray[np.int32]

    def table(self) -> pa.Table:
        """The rows as raw files hold them."""
        return pa.table(
            {
                "source": pa.array([f"site-{number}" for number in range(int(self.sources.max()) + 1)]).take(
                    pa.array(self.sources)
                ),
                "id": self.ids,
                "ts": self.times,
                "value": self.values,
                "weight": self.weights,
            }
        )


@dataclass(frozen=True, slots=True)
class Generated:
    """A stream of so many rows over so many days.

    Sources are skewed (a Zipf law with exponent 1). Times are uniform, with a daily wave of half the height, rounded to
    `tick` seconds. Values are lognormal durations in seconds. Weights are lognormal (median 20, sigma `heavy`), or 1.
    """

    name: str
    rows: int
    days: int
    sources: int
    tick: int = 1
    heavy: float = 0.0
    random_ids: bool = True
    seed: int = 1

    def batches(self, size: int = 2_000_000) -> Iterator[Batch]:
        rng = np.random.default_rng(self.seed)
        shares = 1.0 / np.arange(1, self.sources + 1)
        edges = np.cumsum(shares / shares.sum())
        parts = max(1, -(-self.rows // size))
        for part in range(parts):
            count = self.rows // parts + (part < self.rows % parts)
            first, last = self.days * part / parts, self.days * (part + 1) / parts
            at = np.sort(first + (last - first) * rng.random(count))
            at += 0.08 * np.sin(2 * np.pi * at) * (parts == 1)  # a wave would leave the part of a longer stream
            times = START + (np.sort(at) * DAY / self.tick).astype(np.int64) * self.tick
            begin = part * (self.rows // parts)
            ids = rng.integers(0, 1 << 62, count) if self.random_ids else np.arange(begin, begin + count)
            weights = np.ones(count, np.int64)
            if self.heavy:
                weights = np.ceil(20.0 * np.exp(self.heavy * rng.standard_normal(count))).astype(np.int64)
            yield Batch(
                ids,
                times,
                np.ceil(np.exp(4.0 + 1.2 * rng.standard_normal(count))).astype(np.int64),
                weights,
                np.searchsorted(edges, rng.random(count)).astype(np.int32),
            )
