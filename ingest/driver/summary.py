"""What a run of ingest did: as JSON, and as lines for people and for cron's mail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sketches.durations import human_duration
from sketches.formatting import counted

_SHOWN: Final = 10  # files of one sort that are named one by one


def _printable(line: str) -> str:
    """The line with control characters replaced: the name of a file could break the line or steer the terminal."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)


@dataclass
class StreamOutcome:
    """What a run did for one stream."""

    stream: str
    files: int = 0
    known: int = 0
    rows: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    conflicts: int = 0
    conflicts_exact: bool = True  # and so are `field_conflicts` and `repeats`
    field_conflicts: int = 0  # events whose copies differ in a field
    field_faults: dict[str, dict[str, int]] = field(default_factory=dict)  # field → why it is missing → rows
    fields_missing: dict[str, str] = field(default_factory=dict)  # field → which files have it in none of their rows
    repeats: int = 0  # rows that repeat an event of the same run
    unique_revoked: str | None = None  # why the stream is not taken to have no repeats, as its settings say
    revoked_now: bool = False  # by this run
    ahead: int = 0  # rows ahead of this machine's clock
    furthest_ahead: float = 0.0  # seconds
    sources: int = 0
    epochs: int = 0
    sketches: int = 0  # that the workers sent: they are merged with those that are stored
    bytes: int = 0  # of these
    replaced: tuple[int, int] | None = None
    copies: dict[str, str] = field(default_factory=dict)  # path → the same content
    changed: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)  # path → why
    silent: dict[str, float] = field(default_factory=dict)  # source that fell silent with this run → seconds behind
    silent_before: int = 0  # sources that had fallen silent before
    error: str | None = None

    @property
    def needs_attention(self) -> bool:
        return bool(self.changed or self.unreadable or self.silent)

    def lines(self) -> Iterator[str]:
        files = f"{counted(self.files, 'new file')}, {self.known:,} known before"
        yield f"{self.stream}: {counted(self.rows, 'row')} of {files}"
        if self.sketches:
            yield (
                f"  {counted(self.sources, 'source')} in {counted(self.epochs, 'epoch')}, sent to the store as "
                f"{counted(self.sketches, 'sketch', 'sketches')} of {self.bytes / 1e6:,.2f} MB"
            )
        for reason, rows in self.rejected.items():
            yield f"  rejected {counted(rows, 'row')}: {reason} (wane info shows some)"
        for name, reasons in self.field_faults.items():
            for reason, rows in reasons.items():
                yield f"  field {name} is missing in {counted(rows, 'row')}: {reason}"
        for name, where in self.fields_missing.items():
            yield f"  field {name} is missing {where}"
        about = "" if self.conflicts_exact else "about "
        if self.conflicts:
            yield f"  {about}{counted(self.conflicts, 'id')} shared by different events, each of which counts by itself"
        if self.field_conflicts:
            events = counted(self.field_conflicts, "event")
            yield f"  copies of {about}{events} differ in a field; the same one is kept in whatever order they come"
        if self.repeats:
            yield f"  {about}{counted(self.repeats, 'row')} repeated an event of this run"
        if self.unique_revoked is not None and not self.revoked_now:
            yield f"  unique = true stays revoked: {self.unique_revoked}"
        if self.ahead:
            verb = "is" if self.ahead == 1 else "are"
            furthest = human_duration(self.furthest_ahead)
            yield f"  {counted(self.ahead, 'row')} {verb} ahead of this machine's clock by up to {furthest}"
        if self.silent_before:
            yield f"  {counted(self.silent_before, 'source')} silent since earlier runs (the page Health lists them)"
        for path, original in list(self.copies.items())[:_SHOWN]:
            yield f"  {path} has the content of {original} and was not read"
        if len(self.copies) > _SHOWN:
            yield f"  and {len(self.copies) - _SHOWN} more files with known content"
        yield from (f"  {line}" for line in self.problems())

    def problems(self) -> Iterator[str]:
        if self.error is not None:
            yield f"{self.stream} failed, nothing of it was committed: {self.error}"
        if self.unique_revoked is not None and self.revoked_now:
            yield f"{self.stream} says unique = true, which does not hold and is revoked: {self.unique_revoked}"
        for path in self.changed[:_SHOWN]:
            yield f"{path} has changed since it was read and was not read again; --backfill replaces what it brought"
        if len(self.changed) > _SHOWN:
            yield f"and {len(self.changed) - _SHOWN} more files have changed since they were read"
        for path, reason in list(self.unreadable.items())[:_SHOWN]:
            yield f"{path} was left for the next run: {reason}"
        if len(self.unreadable) > _SHOWN:
            yield f"and {len(self.unreadable) - _SHOWN} more files were left for the next run"
        for source, behind in list(self.silent.items())[:_SHOWN]:
            yield (
                f"{self.stream}: source {source} has fallen silent, {human_duration(behind)} behind the newest event; "
                "the setting stale says how long it may be"
            )
        if len(self.silent) > _SHOWN:
            yield f"and {len(self.silent) - _SHOWN} more sources of {self.stream} have fallen silent"


@dataclass
class Summary:
    """What a run did."""

    outcomes: list[StreamOutcome]
    generation: int | None = None  # None: there was nothing to commit
    seconds: float = 0.0
    store_bytes: int = 0  # after the commit
    start: Mapping[str, float] = field(default_factory=dict)  # seconds of each part until the first row was read

    @property
    def rows(self) -> int:
        return sum(outcome.rows for outcome in self.outcomes)

    def as_dict(self) -> dict[str, Any]:
        return {
            "generation": self.generation,
            "seconds": round(self.seconds, 3),
            "rows": self.rows,
            "rows_per_second": round(self.rows / self.seconds) if self.seconds else 0,
            "store_bytes": self.store_bytes,
            "start": {part: round(seconds, 3) for part, seconds in self.start.items()},
            "streams": [
                {name: getattr(outcome, name) for name in outcome.__dataclass_fields__} for outcome in self.outcomes
            ],
        }

    @property
    def exit_code(self) -> int:
        """0: done; 1: a stream failed; 3: done, but a file or a source needs attention."""
        if any(outcome.error is not None for outcome in self.outcomes):
            return 1
        return 3 if any(outcome.needs_attention for outcome in self.outcomes) else 0

    def lines(self) -> Iterator[str]:
        """All that a run did."""
        for outcome in self.outcomes:
            yield from map(_printable, outcome.lines())
        if self.rows and self.start:
            parts = ", ".join(f"{part} {seconds:.1f}" for part, seconds in self.start.items())
            yield f"Read the first row after {sum(self.start.values()):.1f} s ({parts})."
        if self.generation is None:
            yield f"Nothing to commit; took {self.seconds:.1f} s."
        else:
            speed = f", {self.rows / self.seconds:,.0f} rows per second" if self.rows and self.seconds else ""
            size = f"; the store takes {self.store_bytes / 1e6:,.2f} MB" if self.store_bytes else ""
            yield f"Committed as generation {self.generation} in {self.seconds:.1f} s{speed}{size}."

    def problems(self) -> Iterator[str]:
        """Only what needs attention."""
        for outcome in self.outcomes:
            yield from map(_printable, outcome.problems())
