"""The time axis of a stream: as-of times as text and on a chart, stretches without events, and which epochs count
when."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence, Set
from datetime import UTC, datetime

import numpy as np

from sketches.arrays import Flags, Ints
from sketches.decay import Decay
from sketches.errors import QuestionError
from sketches.event_rules import MAX_TIME
from sketches.records import dataclass
from sketches.units import TimeUnit
from store.keys import Span
from store.serving.catalogue import Gap, Lived, StoredStream


@dataclass(frozen=True, slots=True)
class Affected:
    """For each as-of time: whether it lies in a missing epoch, and whether a missing epoch would carry weight then."""

    inside: Flags
    reached: Flags


def read_moment(text: str, unit: TimeUnit, clock: datetime | None = None) -> int:
    """A time as people type it: an integer in the stream's unit, or an ISO time, which is UTC unless it says otherwise.

    With a clock, `now` is its time.

    >>> read_moment("2026-01-31T12:00", TimeUnit(1, 1000)), read_moment("-5", TimeUnit(1, 1))
    (1769860800000, -5)
    """
    try:
        moment = int(text)
    except ValueError:
        if clock is not None and text.strip().lower() == "now":
            return math.floor(clock.timestamp() * unit.denominator / unit.numerator)
        try:
            stamp = datetime.fromisoformat(text)
            seconds = (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            raise QuestionError(
                f"{text!r} is not a time; it must be an integer or an ISO time like 2026-01-31T12:00"
            ) from None
        moment = round(seconds * unit.denominator / unit.numerator)
    if abs(moment) > MAX_TIME:
        raise QuestionError(f"{text!r} is not a time; times lie between {-MAX_TIME} and {MAX_TIME}")
    return moment


def extent(stream: StoredStream, sources: Sequence[str] = ()) -> tuple[int, int] | None:
    """The times of the oldest and the newest event of these sources, or of all; None where they have no events."""
    lived = stream.lived(sources or stream.by_source)
    return None if lived is None else (lived.oldest, lived.newest)


def moments(oldest: int, newest: int, points: int) -> Ints:
    """As-of times from the oldest to the newest, at equal distances, each once."""
    if newest <= oldest:
        return np.array([newest], np.int64)
    steps = max(1, min(points - 1, newest - oldest))
    # Whole numbers, not floats: nanoseconds of a year have more digits than a float.
    return np.array([oldest + (newest - oldest) * step // steps for step in range(steps + 1)], np.int64)


def silences(stream: StoredStream, sources: Sequence[str] = ()) -> list[tuple[int, int]]:
    """The stretches between the first and the last epoch in which no event of these sources is stored."""
    lived = extent(stream, sources)
    spans = sorted((span.start, span.end) for span in stream.epochs if _lies_in(span, lived))
    found = []
    end = spans[0][1] if spans else 0
    for start, stop in spans:
        if start > end:
            found.append((end, start))
        end = max(end, stop)
    return found


def affected(missing: Sequence[Gap], as_of: Ints, decay: Decay, unit: TimeUnit, share: float = 1e-6) -> Affected:
    """The as-of times of a series that missing epochs affect.

    An epoch counts from its start until its newest events have faded to `share` of their weight. Until then bounds
    computed without it do not hold, so `share` is small.
    """
    inside = np.zeros(len(as_of), bool)
    reached = np.zeros(len(as_of), bool)
    faded = decay.fades_by(share) * unit.denominator / unit.numerator
    reach = math.ceil(faded) if faded < 2**62 else 2**62
    for start, length in {(gap.start, gap.length) for gap in missing}:
        inside |= (as_of >= start) & (as_of < start + length)
        reached |= (as_of >= start) & (as_of < start + length - 1 + reach)
    return Affected(inside, reached)


def _lies_in(span: Span, lived: tuple[int, int] | Lived | None) -> bool:
    """Whether an epoch may hold events of sources that have brought some between these times."""
    return lived is not None and lived[0] < span.end and lived[1] >= span.start


def epochs_asked(stream: StoredStream, sources: Set[str], decay: Decay, moments: Ints) -> list[Span]:
    """The epochs that can carry weight at one of these times: begun by then, and not wholly beyond the horizon."""
    if len(moments) == 0:
        return []
    horizon = decay.horizon * stream.unit.denominator / stream.unit.numerator
    reach = math.ceil(horizon) if math.isfinite(horizon) else math.inf  # ages are whole numbers
    ordered = sorted(moments.tolist())
    lived = stream.lived(sources)
    least, most = ordered[0] - reach + 1, ordered[-1]
    between = [epoch for epoch in stream.epochs if epoch.start <= most and epoch.end > least and _lies_in(epoch, lived)]
    if len(ordered) == 1:
        return between
    following = [ordered[bisect_left(ordered, epoch.start)] for epoch in between]
    return [
        epoch
        for epoch, moment in zip(between, following, strict=True)
        if moment - (epoch.start + epoch.length - 1) < reach
    ]
