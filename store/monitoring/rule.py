"""What is watched: a function of the windows of all sites, and the threshold that it may cross."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from sketches.durations import format_duration
from sketches.family import Sketch
from sketches.formatting import number_text
from sketches.monitoring.readings import Readings
from sketches.monitoring.watched import Watched, watched_of
from sketches.records import dataclass
from sketches.units import TimeUnit

DIGEST: Final = 8  # bytes
_OF_NAME: Final = 3  # of them


@dataclass(frozen=True)
class Rule:
    """One `[monitor.NAME]` of the settings, the same at all sites and at the centre.

    `sketch` is one of no events, with the settings of the stream: its parameters are those of all sites.
    """

    name: str
    streams: tuple[str, ...]
    function: str
    value: str | float | None
    window: str  # a decay
    threshold: float
    lease: int  # seconds
    promise: str
    sites: tuple[str, ...]
    sketch: Sketch
    unit: TimeUnit

    @cached_property
    def watched(self) -> Watched:
        return watched_of(self.function, self.promise, self.sketch.shape)

    @cached_property
    def digest(self) -> bytes:
        """Of the name, and of all else that sites and centre must agree about."""
        parts: Sequence[Any] = (
            [list(self.streams), self.function, repr(self.value), self.window, repr(self.threshold)],
            [self.lease, self.promise, list(self.sites), self.sketch.family, repr(self.sketch.parameters)],
        )
        name, rest = (json.dumps(part).encode() for part in (self.name, parts))
        return _hashed(name, _OF_NAME) + _hashed(rest, DIGEST - _OF_NAME)

    def is_otherwise(self, digest: bytes) -> bool:
        """Whether a digest is of this rule by name, with other settings."""
        return digest != self.digest and digest[:_OF_NAME] == self.digest[:_OF_NAME]

    @property
    def nothing(self) -> Readings:
        """The readings of a window in which nothing came."""
        shape = self.sketch.shape
        return Readings.none((shape.rows, shape.width if self.value is None else 1))

    @property
    def words(self) -> str:
        """What is watched, in a sentence."""
        of = " and ".join(self.streams) if self.value is None else f"{self.value!r} in {self.streams[0]}"
        span = self.window.removeprefix("window:")
        what = {"self-join": "self-join size", "inner-product": "inner product"}.get(self.function, self.function)
        return f"{what} of {of} over {span} at {len(self.sites)} sites, against {number_text(self.threshold)}"

    @property
    def lease_text(self) -> str:
        return format_duration(self.lease)


def _hashed(text: bytes, size: int) -> bytes:
    return hashlib.blake2b(text, digest_size=size).digest()
