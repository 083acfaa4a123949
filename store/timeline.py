"""The axis of time of a stream: which as-of times to ask for, where nothing is stored, what a missing epoch touches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from sketches.decay import Decay
from sketches.drawn import TimeUnit
from sketches.errors import QuestionError
from sketches.events import MAX_TIME
from store.catalogue import Gap, StreamHeld

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Affected:
    """Per as-of time: whether it lies in a missing epoch, and whether a missing epoch would carry weight at it."""

    inside: Flags
    reached: Flags


def read_moment(text: str, unit: TimeUnit) -> int:
    """A time as it is typed: an integer of the stream's unit, or ISO text, which is UTC unless it says otherwise.

    >>> read_moment("2026-01-31T12:00", TimeUnit(1, 1000)), read_moment("-5", TimeUnit(1, 1))
    (1769860800000, -5)
    """
    try:
        moment = int(text)
    except ValueError:
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


def extent(held: StreamHeld, sources: Sequence[str] = ()) -> tuple[int, int] | None:
    """The oldest and the newest event of these sources, or of all; None where there are none."""
    wanted = set(sources)
    known = [events for epoch, events in held.epochs.items() if not wanted or epoch.source in wanted]
    if not known:
        return None
    return min(one.oldest for one in known), max(one.newest for one in known)


def moments(oldest: int, newest: int, points: int) -> Ints:
    """As-of times from the first to the last, equally far apart, each once."""
    if newest <= oldest:
        return np.array([newest], np.int64)
    steps = max(1, min(points - 1, newest - oldest))
    # Whole numbers, not floats: nanoseconds of a year have more digits than a float.
    return np.array([oldest + (newest - oldest) * step // steps for step in range(steps + 1)], np.int64)


def silences(held: StreamHeld, sources: Sequence[str] = ()) -> list[tuple[int, int]]:
    """The stretches between the first and the last epoch in which no event of these sources is stored."""
    wanted = set(sources)
    spans = sorted(
        {(epoch.start, epoch.start + epoch.length) for epoch in held.epochs if not wanted or epoch.source in wanted}
    )
    found = []
    end = spans[0][1] if spans else 0
    for start, stop in spans:
        if start > end:
            found.append((end, start))
        end = max(end, stop)
    return found


def affected(missing: Sequence[Gap], as_of: Ints, decay: Decay, unit: TimeUnit, share: float = 1e-6) -> Affected:
    """What missing epochs do to a series: an epoch is felt from its begin until its newest events have faded to
    `share` of their weight. Until then no bound holds that was computed without them, so `share` is small."""
    inside = np.zeros(len(as_of), bool)
    reached = np.zeros(len(as_of), bool)
    faded = decay.fades_by(share) * unit.denominator / unit.numerator
    reach = math.ceil(faded) if faded < 2**62 else 2**62
    for start, length in {(gap.start, gap.length) for gap in missing}:
        inside |= (as_of >= start) & (as_of < start + length)
        reached |= (as_of >= start) & (as_of < start + length - 1 + reach)
    return Affected(inside, reached)
