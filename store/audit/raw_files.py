"""The raw files that a stream was ingested from: which are still there, and whether answers can be checked by them.

The settings of ingest are expressions of Spark SQL, which DuckDB does not understand. So only plain columns and
constants can be read here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from sketches.event_rules import ROLES, PlainColumn
from sketches.events import Kind
from sketches.question import Counting
from sketches.units import SECOND, TimeUnit
from store.database import StoreError, connected
from store.file_formats import CHECKABLE_COMPRESSIONS, COMPRESSIONS, FORMATS
from store.schema import check
from store.writing.ledger import KnownFile, files_in

_UNREAD: Final = tuple(ending for ending in COMPRESSIONS if ending not in CHECKABLE_COMPRESSIONS)


@dataclass(frozen=True, slots=True)
class RawFiles:
    """The files that a stream was read from, as the ledger says: unchanged, changed or missing, and how to read them.

    `reason` says why the stream cannot be checked against them; it is None where it can. Copies, which ingest did not
    read, are left out. Where the ledger of an old store has no time of change, only the size tells a changed file.
    """

    stream: str
    present: tuple[KnownFile, ...] = ()
    changed: tuple[KnownFile, ...] = ()
    missing: tuple[KnownFile, ...] = ()
    reason: str | None = None
    format: str = ""
    kind: Kind | None = None
    unit: TimeUnit = SECOND
    columns: Mapping[str, PlainColumn] = field(default_factory=dict)
    weight_step: Fraction = Fraction(1)  # of the user's unit of weight: weights are whole numbers of it
    counting: Counting = "events"  # what a question counts that does not say
    counts_repeats: bool = False  # whether a row that came twice is two events

    @property
    def complete(self) -> bool:
        """Whether all of the stream's events can be read again."""
        return bool(self.present) and not (self.changed or self.missing)

    @property
    def has_weight(self) -> bool:
        """Whether events have a weight of their own; a stream without one has the constant 1."""
        return self.columns.get("weight") != PlainColumn(None, 1)

    @property
    def rows(self) -> int:
        """The rows in the files at hand, rejected ones and repeats included."""
        return sum(file.rows for file in self.present)


def raw_files(path: str | Path, stream: str) -> RawFiles:
    """Compare the ledger of a stream with the files as they are now. Reads no file."""
    file = Path(path)
    with connected(file, write=False) as connection:
        check(connection, file)
        found = connection.execute(
            "SELECT unit_numerator, unit_denominator, settings FROM streams WHERE stream = $1", [stream]
        ).fetchall()
        files = files_in(connection, stream)
    if not found:
        raise StoreError(f"stream {stream!r} is not in {file}")
    numerator, denominator, text = found[0]
    ledger = sorted((known for known in files if known.rows > 0), key=lambda known: known.path)
    states = {known.path: state_of(known) for known in ledger}
    present, changed, missing = (
        tuple(known for known in ledger if states[known.path] == state) for state in ("present", "changed", "missing")
    )
    settings = json.loads(text)
    kind = Kind(settings["kind"]) if settings.get("kind") in list(Kind) else None
    columns = {role: PlainColumn.read(settings.get(role)) for role in ROLES}
    reason = _reason(settings, kind, columns, ledger, present)
    plain = {role: column for role, column in columns.items() if column is not None}
    return RawFiles(
        stream,
        present,
        changed,
        missing,
        reason,
        settings.get("format", ""),
        kind,
        TimeUnit(numerator, denominator),
        plain,
        Fraction(str(settings.get("weight_step") or 1)),
        "weight" if settings.get("counting") == "weight" else "events",
        settings.get("repeats") == "count",
    )


def state_of(known: KnownFile) -> str:
    try:
        status = Path(known.path).stat()
    except OSError:
        return "missing"
    same = status.st_size == known.size and known.modified in (0, status.st_mtime_ns)
    return "present" if same else "changed"


def _reason(
    settings: Mapping[str, Any],
    kind: Kind | None,
    columns: Mapping[str, PlainColumn | None],
    ledger: Sequence[KnownFile],
    present: Sequence[KnownFile],
) -> str | None:
    if not ledger:
        return "the store has no record of the files that this stream was read from"
    for role, column in columns.items():
        if role not in settings:
            return f"the store does not say what the stream's {role} was read from"
        if column is None:
            return (
                f"`{role}` is the expression `{settings[role]}`; only plain columns and constants (whole numbers, "
                "quoted text) can be checked here"
            )
    if kind is None:
        return "the store does not say whether the stream's values are numbers or text"
    if settings.get("format") not in FORMATS.values():
        checkable = ", ".join(dict.fromkeys(FORMATS.values()))
        return f"files of format {settings.get('format')!r} cannot be checked here; {checkable} can"
    for known in ledger:
        if known.path.lower().endswith(_UNREAD):
            readable = " and ".join(CHECKABLE_COMPRESSIONS)
            return f"{known.path} is packed in a way that cannot be read here; {readable} can"
    if not present:
        return f"none of the stream's {len(ledger):,} input files is at hand as it was when it was read"
    return None
