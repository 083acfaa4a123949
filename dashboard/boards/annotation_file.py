"""Annotations: moments with a text, in a TOML file of their own or in the settings file.

    [[annotation]]
    time = 2026-01-03T12:00:00Z
    text = "Release 4.2"
    stream = "calls"

Without `stream` they stand in the charts of all streams. A time is also an integer in the unit of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from dashboard.boards.board_folder import content_of
from dashboard.boards.toml_text import BoardError, check_known, read_table, shown, text_of
from sketches.errors import QuestionError
from sketches.units import SECOND
from store.serving.timeline import read_moment

MOST: Final = 1000
LONGEST: Final = 200  # characters
_KEYS: Final = ("time", "text", "stream")
_OF_SETTINGS: Final = ("store", "streams", "access")  # what stands beside them in a settings file


@dataclass(frozen=True, slots=True)
class Annotation:
    """A time as it is written, a text, and the stream that it is about; empty: all of them."""

    time: str
    text: str
    stream: str = ""


@lru_cache(maxsize=8)
def read_annotations(where: str, content: bytes) -> tuple[Annotation, ...]:
    """All annotations of a file; refuses the file where one is wrong."""
    table, _ = read_table(where, content)
    check_known(where, table, ("annotation", *_OF_SETTINGS))
    entries = table.get("annotation", [])
    if not isinstance(entries, list):
        raise BoardError(f"{where}: annotations are tables that each begin with [[annotation]], in double brackets")
    if len(entries) > MOST:
        raise BoardError(f"{where} has {len(entries):,} annotations; there can be at most {MOST:,}")
    return tuple(_annotation(f"{where}: annotation {number}", entry) for number, entry in enumerate(entries, 1))


def _annotation(where: str, entry: object) -> Annotation:
    if not isinstance(entry, dict):
        raise BoardError(f"{where} is {shown(entry)}; it must be a table with time and text")
    check_known(where, entry, _KEYS)
    for key in ("time", "text"):
        if key not in entry:
            raise BoardError(f"{where} has no {key}; it needs a time and a text")
    stated = entry["time"]
    time = stated.isoformat() if isinstance(stated, datetime | date) else str(stated)
    try:
        read_moment(time, SECOND)
    except QuestionError as error:
        raise BoardError(f"{where}: time: {error}") from None
    stream = text_of(f"{where}: stream", entry.get("stream", ""), LONGEST)
    return Annotation(time, text_of(f"{where}: text", entry["text"], LONGEST), stream)


def annotations_in(file: Path) -> tuple[Annotation, ...]:
    """The annotations of a file; none where there is no such file."""
    content = content_of(file)
    return () if content is None else read_annotations(file.name, content)
