"""Which sources have been silent for longer than they should: by the stream's setting, or by their own rhythm."""

from __future__ import annotations

from typing import Final, NamedTuple

from sketches.durations import parse_duration
from sketches.errors import WaneError
from store.serving.catalogue import StoredStream

USUAL_GAPS: Final = 20  # a source may be silent for so many of the gaps that usually lie between two of its rows


class SourceState(NamedTuple):
    """How far a source is behind the stream's newest event, and how far it may be; in seconds."""

    source: str
    newest: int  # in units of the stream
    lag: float
    allowed: float

    @property
    def stale(self) -> bool:
        return self.lag > self.allowed


def source_states(stream: StoredStream) -> list[SourceState]:
    """All sources, the one that is furthest behind first.

    The setting `stale` says how long a source may be silent. Without it, that is an epoch, or twenty times the usual
    gap between two of its rows where that is longer.
    """
    if not stream.by_source:
        return []
    seconds = stream.unit.numerator / stream.unit.denominator
    latest = max(totals.newest for totals in stream.by_source.values())
    stated = _stated(stream)
    found = []
    for source, totals in stream.by_source.items():
        gap = (totals.newest - totals.oldest) / max(1, totals.events - 1)
        allowed = seconds * max(stream.epoch, USUAL_GAPS * gap) if stated is None else stated
        found.append(SourceState(source, totals.newest, (latest - totals.newest) * seconds, allowed))
    return sorted(found, key=lambda one: (-one.lag, one.source))


def _stated(stream: StoredStream) -> float | None:
    stated = stream.described.get("stale")
    try:
        return parse_duration(stated) if isinstance(stated, str) and stated else None
    except WaneError:
        return None
