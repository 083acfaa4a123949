"""A sketch of a stream in parts, as a store keeps it: a head, and segments in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sketches.arrays import Floats, Ints
from sketches.records import dataclass


@dataclass(frozen=True, slots=True)
class Segment:
    """The bytes of a stretch of time of a sketch: the times of its oldest and newest row, and how many rows it has."""

    oldest: int
    newest: int
    rows: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Parts:
    """A sketch of a stream as it is stored: what concerns all of it, and segments in the order of time."""

    head: bytes
    segments: Sequence[Segment]


# What a sketch is read from: the bytes of a segment, or which rows it is of a sketch that was read before.
Piece = bytes | memoryview | slice


class HourTotals(NamedTuple):
    """Exact totals of all rows of a stream, by the hour: when each hour with rows begins, and what came in it."""

    length: int  # of an hour, in the stream's unit
    begins: Ints
    rows: Floats
    weights: Floats
    values: Floats  # NaN where they were not summed
    unknown_up_to: int  # nothing is known of what came at this time or before


class SliceLengths(NamedTuple):
    """How long the slices around a time are of which exact totals are kept, in the stream's unit; None: none are."""

    of_all: int | None = None  # for all sources together
    of_source: int | None = None  # for each source


class FieldGap(NamedTuple):
    """Which events a field is not known of: those of a stretch of time, or some of them; and all that were sampled
    after a time, so many that it has hardly been missing by chance."""

    since: int | None = None
    until: int | None = None
    gone_after: int | None = None
    gone: int = 0
