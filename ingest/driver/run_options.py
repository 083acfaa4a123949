"""What one run of ingest is asked to do: the options of the command line, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of one run. Without `streams` it takes all of them."""

    master: str | None = None
    streams: Sequence[str] = ()
    backfill: tuple[int, int] | None = None  # the range of times to replace, in units of the stream
    allow_missing: bool = False
    wait: float = 0.0  # seconds to wait for another run
    verbose: bool = False
    configuration: Mapping[str, str] = field(default_factory=dict)  # settings of Spark
