"""What a store can still answer, at which age and how well: the past fades on disk too, and this says by how much."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from sketches.durations import human_duration
from sketches.errors import WaneError
from sketches.family import Sketch
from sketches.promise import DEFAULT_DELTA, DEFAULT_EPSILON
from sketches.registry import FAMILIES
from sketches.special_functions import ndtri
from store.engine import duckdb
from store.serving.catalogue import StoredStream
from store.serving.epoch_holdings import holdings_of

AGES: Final = {"an hour": 3_600, "a day": 86_400, "a week": 604_800, "a month": 2_629_800, "a year": 31_557_600}
_ENOUGH: Final = 1.25  # times (z/ε)²: sampled events that answer a sum within ε
_CUT: Final = 1.0 / 3.0  # of a slice: p·(1 - p) at both ends, wherever they cut one
_FEW: Final = 10.0  # sampled events to expect, below which an interval is too wide to be of use


class Resolution(NamedTuple):
    """What is kept of the events of one age.

    `stretch` is the shortest stretch of time, in seconds, that is answered within ε for all sources together; `epoch`
    and `typical` are the half-widths to expect, over the answer, of a count over one epoch: of all sources, and of the
    source in the middle by its events. None where too few events are kept to say.
    """

    age: str
    kept: float
    stretch: float
    epoch: float | None
    typical: float | None

    def as_dict(self) -> dict[str, Any]:
        return self._asdict() | {"stretch": None if math.isinf(self.stretch) else self.stretch}

    def line(self) -> str:
        widths = [
            "too few" if width is None else "exact" if width == 0.0 else f"±{100.0 * width:.2g}%"
            for width in (self.epoch, self.typical)
        ]
        stretch = "all kept" if self.kept == 1.0 else human_duration(self.stretch)
        return f"{self.age:9} {_percent(self.kept):>8}   {stretch:>14}   {widths[0]:>9}   {widths[1]:>9}"


HEADER: Final = f"{'age':9} {'kept':>8}   {'within ε from':>14}   {'an epoch':>9}   {'a source':>9}"


def resolutions(connection: duckdb.DuckDBPyConnection, stream: StoredStream) -> list[Resolution]:
    """What is kept at each age that the stream has; empty where no family fades on disk."""
    rows = connection.execute("SELECT family, payload FROM heads WHERE stream = $1", [stream.name]).fetchall()
    now, columns = stream.as_of(), stream.epoch_columns
    for family, head in rows:
        if family in FAMILIES and now is not None and len(columns.start):
            try:
                sketch, _ = FAMILIES[family].from_parts(head, [])
            except WaneError:
                return []
            return list(_resolutions(stream, now, sketch))
    return []


def _resolutions(stream: StoredStream, now: int, sketch: Sketch) -> Iterator[Resolution]:
    held = holdings_of(stream, stream.sources)
    seconds = stream.unit.numerator / stream.unit.denominator
    epsilon, delta = (
        float(stream.described.get(name, default))
        for name, default in (("epsilon", DEFAULT_EPSILON), ("delta", DEFAULT_DELTA))
    )
    z = -float(ndtri(delta / 2.0))
    events = np.sort(stream.source_columns.events)
    part = float(events[len(events) // 2]) / max(float(events.sum()), 1.0)
    oldest = int(stream.epoch_columns.oldest.min())
    length = stream.epoch * seconds
    for age, ago in AGES.items():
        moment = now - round(ago / seconds)
        if moment < oldest:
            return
        kept = float(sketch.kept_share(np.array([moment]))[0])
        slices = [None if one is None else one * seconds / length for one in sketch.slice_lengths(moment)]
        newer = held.newer_than(now, np.array([ago + length / 2.0, max(ago - length / 2.0, 0.0)]))
        count = max(float(newer[0] - newer[1]), 0.0)  # events of an epoch of that age
        stretch = _ENOUGH * (z / epsilon) ** 2 / kept * length / count if count and kept < 1.0 else math.inf
        yield Resolution(
            age,
            kept,
            0.0 if kept == 1.0 else stretch,
            _half_width(kept, count, z, slices[0]),
            _half_width(kept, count * part, z, slices[1]),
        )


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g}%"


def _half_width(kept: float, count: float, z: float, slice_length: float | None) -> float | None:
    """Of a count of so many events over an epoch, each of which was kept with this probability.

    Beside exact totals of slices, whose length is given in epochs, only those count that the epoch's ends cut.
    """
    if kept == 1.0:
        return 0.0
    if count * kept < _FEW:
        return None
    cut = 1.0 if slice_length is None else min(1.0, _CUT * slice_length)
    return z * math.sqrt((1.0 / kept - 1.0) * cut / count)
