"""What one run of ingest is asked to do: the options of the command line, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ingest.driver.configuration.settings import Settings
from sketches.errors import QuestionError
from sketches.units import SECOND
from store.serving.timeline import read_moment


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
    engine: str = "spark"  # or "local": this process alone, without Java


def backfilled(text: str | None, settings: Settings, chosen: Sequence[str], now: datetime) -> tuple[int, int] | None:
    """A backfill's range in units of the stream. Streams with different units are backfilled one at a time."""
    if text is None:
        return None
    units = {stream.unit for name, stream in settings.streams.items() if not chosen or name in chosen}
    if len(units) > 1:
        raise QuestionError("--backfill needs one --stream, because the streams count time in different units")
    start, dots, end = text.partition("..")
    if not dots:
        raise QuestionError(f"--backfill is {text!r}; it must be FROM..TO, like 2026-01-01..2026-01-08")
    unit = next(iter(units), SECOND)
    return read_moment(start.strip(), unit, now), read_moment(end.strip(), unit, now)
