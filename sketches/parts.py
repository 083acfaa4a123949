"""A sketch of a stream in parts, as a store keeps it: a head, and segments in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
