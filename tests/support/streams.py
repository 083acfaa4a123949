"""Named, seeded streams of events: the data that every family is tested on.

``STREAMS[name](n, seed)`` gives n rows (``empty`` gives none and ``single`` one). The same name, n and seed always give
the same rows; different names or seeds give different ids, so that failures counted over seeds are independent.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sketches.arrays import Ints

START = 1_700_000_000  # epoch seconds; times lie in [START, START + HOUR) unless a stream says otherwise
HOUR = 3600
MONTH = 30 * 86_400


@dataclass(frozen=True, eq=False)
class Stream:
    """The four columns of a list of rows, in order of arrival; values are int64, float64 or text (object).

    The columns are read-only, as columns that come from Arrow are: a sketch that writes to its input fails.
    """

    name: str
    ids: Ints
    t: Ints
    v: NDArray[Any]
    w: Ints

    def __post_init__(self) -> None:
        lengths = {column: len(getattr(self, column)) for column in ("ids", "t", "v", "w")}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"stream {self.name!r} has columns of unequal lengths: {lengths}")
        for column in ("ids", "t", "v", "w"):
            view = getattr(self, column).view()
            view.flags.writeable = False
            object.__setattr__(self, column, view)

    @classmethod
    def of(cls, name: str, ids: ArrayLike, t: ArrayLike, v: ArrayLike, w: ArrayLike | None = None) -> Stream:
        """A stream from any four columns (weights 1 if none are given), each brought to its own type.

        >>> Stream.of("two", [1, 2], [10, 11], ["a", "b"]).v.dtype
        dtype('O')
        """
        ids = np.asarray(ids, dtype=np.int64)
        values = np.asarray(v)
        if values.dtype.kind in "iu":
            values = values.astype(np.int64)
        elif values.dtype.kind == "f":
            values = values.astype(np.float64)
        else:
            values = np.asarray(v, dtype=object)
        weights = np.ones(len(ids), np.int64) if w is None else np.asarray(w, dtype=np.int64)
        return cls(name, ids, np.asarray(t, dtype=np.int64), values, weights)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_text(self) -> bool:
        """True where the values are keys."""
        return self.v.dtype.kind not in "if"

    def take(self, rows: NDArray[Any]) -> Stream:
        """The rows that an index or a mask picks, in its order."""
        return Stream(self.name, self.ids[rows], self.t[rows], self.v[rows], self.w[rows])

    def distinct(self) -> Stream:
        """One row an event, at its first arrival: rows that agree in all four columns are one event."""
        if not len(self):
            return self
        codes = np.unique(self.v, return_inverse=True)[1].reshape(-1)
        columns = (self.w, codes, self.t, self.ids)
        order = np.lexsort(columns)  # stable, so the first of equal rows is the first that arrived
        differs = np.zeros(len(self) - 1, dtype=bool)
        for column in columns:
            differs |= np.diff(column[order]) != 0
        return self.take(np.sort(order[np.concatenate(([True], differs))]))

    def shuffled(self, seed: int) -> Stream:
        """The same rows in a random order."""
        return self.take(np.random.default_rng(seed).permutation(len(self)))

    def split(self, parts: int, seed: int) -> list[Stream]:
        """A random partition of the rows, order kept; equal rows may fall apart, and a part may be empty."""
        part = np.random.default_rng(seed).integers(0, parts, len(self))
        return [self.take(np.flatnonzero(part == number)) for number in range(parts)]

    def duplicated(self, seed: int, factor: int) -> Stream:
        """Every row 1 to `factor` times, shuffled: the same events, seen more often."""
        rng = np.random.default_rng(seed)
        rows = np.repeat(np.arange(len(self)), rng.integers(1, factor + 1, len(self)))
        return self.take(rng.permutation(rows))


def joined(streams: Sequence[Stream], name: str = "joined") -> Stream:
    """The rows of several streams one after the other: what `Stream.split` took apart, together again."""
    ids, t, v, w = (
        np.concatenate([getattr(stream, column) for stream in streams]) for column in ("ids", "t", "v", "w")
    )
    return Stream(name, ids, t, v, w)


def _rng(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def _ids(rng: np.random.Generator, n: int) -> Ints:
    """Consecutive ids from a random start: the pattern that a weak hash would show, yet other ids for every seed."""
    return rng.integers(0, 2**50) + np.arange(n, dtype=np.int64)


def _times(rng: np.random.Generator, n: int, span: int = HOUR) -> Ints:
    return rng.integers(START, START + span, n)


def _small_weights(rng: np.random.Generator, n: int) -> Ints:
    return rng.integers(1, 11, n)


def uniform(n: int, seed: int) -> Stream:
    """Times uniform over the hour, values 0 to 999, weight 1."""
    rng = _rng("uniform", seed)
    return Stream.of("uniform", _ids(rng, n), _times(rng, n), rng.integers(0, 1000, n))


def sorted_times(n: int, seed: int) -> Stream:
    """Oldest first; weights 1 to 10."""
    rng = _rng("sorted", seed)
    t = np.sort(_times(rng, n))
    return Stream.of("sorted", _ids(rng, n), t, rng.integers(0, 1000, n), _small_weights(rng, n))


def reversed_times(n: int, seed: int) -> Stream:
    """Newest first; weights 1 to 10."""
    rng = _rng("reversed", seed)
    t = np.sort(_times(rng, n))[::-1]
    return Stream.of("reversed", _ids(rng, n), t, rng.integers(0, 1000, n), _small_weights(rng, n))


def zipf(n: int, seed: int) -> Stream:
    """Values Zipf with exponent 1.2, clipped to a million: few common ones, very many rare ones; weights 1 to 10."""
    rng = _rng("zipf", seed)
    v = np.minimum(rng.zipf(1.2, n), 1_000_000)
    return Stream.of("zipf", _ids(rng, n), _times(rng, n), v, _small_weights(rng, n))


def bursty(n: int, seed: int) -> Stream:
    """90% of the events within 1% of the hour, somewhere in its second half; weights 1 to 10."""
    rng = _rng("bursty", seed)
    burst = rng.integers(START + HOUR // 2, START + HOUR - HOUR // 100)
    t = np.where(rng.random(n) < 0.9, rng.integers(burst, burst + HOUR // 100, n), _times(rng, n))
    return Stream.of("bursty", _ids(rng, n), t, rng.integers(0, 1000, n), _small_weights(rng, n))


def one_second(n: int, seed: int) -> Stream:
    """All events at the same time; weights 1 to 10."""
    rng = _rng("one-second", seed)
    t = np.full(n, START + HOUR // 2)
    return Stream.of("one-second", _ids(rng, n), t, rng.integers(0, 1000, n), _small_weights(rng, n))


def heavy_weights(n: int, seed: int) -> Stream:
    """Weights half log-normal, half Pareto, up to four million: a few events carry most of the sum."""
    rng = _rng("heavy-weights", seed)
    w = np.where(rng.random(n) < 0.5, rng.lognormal(4, 3, n), 1 + rng.pareto(0.5, n))
    w = np.clip(np.ceil(w), 1, 4_000_000).astype(np.int64)
    return Stream.of("heavy-weights", _ids(rng, n), _times(rng, n), rng.integers(0, 1000, n), w)


def heavy_duplicates(n: int, seed: int) -> Stream:
    """n rows in which every event comes 1 to 20 times, shuffled; about n / 10 events, weights 1 to 10."""
    rng = _rng("heavy-duplicates", seed)
    events = Stream.of(
        "heavy-duplicates", _ids(rng, n), _times(rng, n), rng.integers(0, 1000, n), _small_weights(rng, n)
    )
    rows = np.repeat(np.arange(n), rng.integers(1, 21, n))[:n]
    return events.take(rng.permutation(rows))


def late(n: int, seed: int) -> Stream:
    """In order of arrival, t being the arrival less a lateness, half exponential and half Pareto; weights 1 to 10."""
    rng = _rng("late", seed)
    arrival = np.sort(rng.random(n) * HOUR)
    lateness = np.where(rng.random(n) < 0.5, rng.exponential(60, n), 30 * rng.pareto(1.1, n))
    before = rng.random(n) * arrival  # for those later than the hour is old, anywhere since its start
    t = START + np.where(lateness > arrival, before, arrival - lateness).astype(np.int64)
    return Stream.of("late", _ids(rng, n), t, rng.integers(0, 1000, n), _small_weights(rng, n))


def empty(n: int, seed: int) -> Stream:
    """No events, whatever n."""
    return Stream.of("empty", [], [], np.zeros(0, np.int64))


def single(n: int, seed: int) -> Stream:
    """One event, whatever n; its weight is 1 to 10."""
    rng = _rng("single", seed)
    return Stream.of("single", _ids(rng, 1), _times(rng, 1), rng.integers(0, 1000, 1), _small_weights(rng, 1))


def conflicts(n: int, seed: int) -> Stream:
    """About three rows an id, agreeing in time and weight but mostly not in value; a few agree in all four."""
    rng = _rng("conflicts", seed)
    count = n // 3 + 1
    ids, t, w = _ids(rng, count), _times(rng, count), _small_weights(rng, count)
    base = rng.integers(0, 990, count)
    row = rng.integers(0, count, n)
    return Stream.of("conflicts", ids[row], t[row], base[row] + rng.integers(0, 10, n), w[row])


def floats(n: int, seed: int) -> Stream:
    """Values of type float64 with long tails on both sides of zero, in thousandths; weights 1 to 10."""
    rng = _rng("floats", seed)
    v = np.round(10 + 25 * rng.standard_t(3, n), 3) + 0.0  # + 0.0 makes -0.0, another bit pattern, 0.0
    return Stream.of("floats", _ids(rng, n), _times(rng, n), v, _small_weights(rng, n))


LABELS = (
    "/index.html",
    "",
    "/наука/статья",
    "00:1b:44:11:3a:b7",
    "日本語",
    "naïve café",
    "👩‍🔬 lab",
    " leading and trailing ",
    "tab\tand\nnewline",
    "'; DROP TABLE labels; --",
    *(f"https://example.org/page/{number}" for number in range(490)),
)


def keys(n: int, seed: int) -> Stream:
    """Text values, Zipf over 500 labels, among them the empty string and several scripts; weights 1 to 10."""
    rng = _rng("keys", seed)
    odds = 1 / np.arange(1, len(LABELS) + 1) ** 1.1
    v = np.array(LABELS, dtype=object)[rng.choice(len(LABELS), n, p=odds / odds.sum())]
    return Stream.of("keys", _ids(rng, n), _times(rng, n), v, _small_weights(rng, n))


def correlated(n: int, seed: int) -> Stream:
    """Weights that grow with the square of the value, with noise: the tail of the values holds most of the sum."""
    rng = _rng("correlated", seed)
    v = rng.integers(0, 1000, n)
    w = 1 + (v * v / 1000 * rng.uniform(0.5, 1.5, n)).astype(np.int64)
    return Stream.of("correlated", _ids(rng, n), _times(rng, n), v, w)


def unit_wide(n: int, seed: int) -> Stream:
    """Times uniform over 30 days; weights 1 to 10."""
    rng = _rng("unit-wide", seed)
    return Stream.of("unit-wide", _ids(rng, n), _times(rng, n, MONTH), rng.integers(0, 1000, n), _small_weights(rng, n))


STREAMS: dict[str, Callable[[int, int], Stream]] = {
    "uniform": uniform,
    "sorted": sorted_times,
    "reversed": reversed_times,
    "zipf": zipf,
    "bursty": bursty,
    "one-second": one_second,
    "heavy-weights": heavy_weights,
    "heavy-duplicates": heavy_duplicates,
    "late": late,
    "empty": empty,
    "single": single,
    "conflicts": conflicts,
    "floats": floats,
    "keys": keys,
    "correlated": correlated,
    "unit-wide": unit_wide,
}
NUMERIC_STREAMS = tuple(name for name in STREAMS if name != "keys")
