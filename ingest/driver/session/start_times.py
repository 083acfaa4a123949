"""How long a run took to read its first row, part by part."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path


def process_begun() -> float:
    """When this process began, as the kernel knows it; now, where it does not tell."""
    try:
        begun = int(Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
        up = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    except OSError:
        return time.time()
    return time.time() - up + begun / os.sysconf("SC_CLK_TCK")


class StartTimes:
    """The moments at which the parts of a run's start had ended, each at its first time."""

    def __init__(self, begun: float | None = None) -> None:
        self._begun = time.time() if begun is None else begun
        self._ended: dict[str, float] = {}

    def ended(self, part: str, at: float | None = None) -> None:
        """Note that a part has ended, now or at a moment that a worker tells."""
        self._ended.setdefault(part, time.time() if at is None else at)

    @property
    def parts(self) -> Mapping[str, float]:
        """The seconds that each part took, in the order of their ends.

        >>> start = StartTimes(begun=100.0)
        >>> start.ended("files", at=100.5)
        >>> start.ended("Java", at=102.0)
        >>> start.ended("files", at=109.0)
        >>> dict(start.parts)
        {'files': 0.5, 'Java': 1.5}
        """
        ends = sorted(self._ended.items(), key=lambda one: one[1])
        begins = [self._begun, *(end for _, end in ends)]
        return {part: end - begin for (part, end), begin in zip(ends, begins[:-1], strict=True)}
