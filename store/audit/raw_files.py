"""The raw files that a stream was ingested from: which are still there, and whether answers can be checked by them.

The ledger is part of the store, and a store may come from elsewhere. So its paths are not simply followed: only plain
files inside folders that are told, or that the stream's settings name as its input, are read, and what is read must
have the fingerprint that the ledger has.

The settings of ingest are expressions of Spark SQL, which DuckDB does not understand. So only plain columns and
constants can be read here.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import duckdb

from sketches.errors import CorruptError
from sketches.event_rules import RETRACT, ROLES, PlainColumn
from sketches.events import Kind
from sketches.fields import FieldKind
from sketches.question import Counting
from sketches.records import dataclass
from sketches.registry import FAMILIES
from sketches.units import SECOND, TimeUnit
from store.database import StoreError, connected
from store.file_formats import CHECKABLE_COMPRESSIONS, COMPRESSIONS, FORMATS
from store.schema import check
from store.writing.ledger import BATCH, KnownFile, content_of, files_in, fingerprint

_UNREAD: Final = tuple(ending for ending in COMPRESSIONS if ending not in CHECKABLE_COMPRESSIONS)


@dataclass(frozen=True, slots=True)
class RawFiles:
    """The files that a stream was read from, as the ledger says: unchanged, changed, missing or refused, and how to
    read them.

    `reason` says why the stream cannot be checked against them; it is None where it can. Copies, which ingest did not
    read, are left out. Where the ledger of an old store has no time of change, only the size tells a changed file.
    """

    stream: str
    present: tuple[KnownFile, ...] = ()
    changed: tuple[KnownFile, ...] = ()
    missing: tuple[KnownFile, ...] = ()
    refused: tuple[KnownFile, ...] = ()  # outside the folders, or not a plain file: never opened
    reason: str | None = None
    format: str = ""
    kind: Kind | None = None
    unit: TimeUnit = SECOND
    columns: Mapping[str, PlainColumn] = field(default_factory=dict)
    weight_step: Fraction = Fraction(1)  # of the user's unit of weight: weights are whole numbers of it
    counting: Counting = "events"  # what a question counts that does not say
    counts_repeats: bool = False  # whether a row that came twice is two events
    folders: tuple[str, ...] = ()  # whose files may be read
    expressions: tuple[str, ...] = ()  # of the settings: which keys of folders they name is part of a fingerprint
    fields: Mapping[str, PlainColumn] = field(default_factory=dict)  # those that can be checked
    field_kinds: Mapping[str, FieldKind] = field(default_factory=dict)  # of all fields
    refused_fields: Mapping[str, str] = field(default_factory=dict)  # why the others cannot

    @property
    def complete(self) -> bool:
        """Whether all of the stream's events can be read again."""
        return bool(self.present) and not (self.changed or self.missing or self.refused)

    @property
    def parts(self) -> dict[str, PlainColumn]:
        """Where the parts of an event and its fields are found."""
        return {**self.columns, **{field_column(name): plain for name, plain in self.fields.items()}}

    @property
    def has_weight(self) -> bool:
        """Whether events have a weight of their own; a stream without one has the constant 1."""
        return self.columns.get("weight") != PlainColumn(None, 1)

    @property
    def sums_values(self) -> bool:
        """Whether a sum that does not say what it is of is of the values; every value of a stream without one is 0."""
        has_values = self.columns.get("value") != PlainColumn(None, 0)
        return has_values and not self.has_weight and self.kind is not Kind.KEY

    @property
    def rows(self) -> int:
        """The rows in the files at hand, rejected ones and repeats included."""
        return sum(file.rows for file in self.present)


def field_column(name: str) -> str:
    """What the column of a field is called in a table of events: no part of an event is called so."""
    return f"field_{name}"


def raw_files(path: str | Path, stream: str, folders: Sequence[str] = ()) -> RawFiles:
    """Compare the ledger of a stream with the files as they are now. Reads no file.

    `folders` are those whose files may be read later; without them, those that the stream's settings name as input.
    """
    file = Path(path)
    with connected(file, write=False) as connection:
        check(connection, file)
        found = connection.execute(
            "SELECT unit_numerator, unit_denominator, settings FROM streams WHERE stream = $1", [stream]
        ).fetchall()
        files = files_in(connection, stream)
        added = _added_later(connection, stream) if found and "field_kinds" in json.loads(found[0][2]) else set()
    if not found:
        raise StoreError(f"stream {stream!r} is not in {file}")
    numerator, denominator, text = found[0]
    ledger = sorted((known for known in files if known.rows > 0), key=lambda known: known.path)
    settings = json.loads(text)
    admitted = _resolved(folders or input_folders(settings.get("input")))
    states = {known.path: state_of(known, admitted) for known in ledger}
    present, changed, missing, refused = (
        tuple(known for known in ledger if states[known.path] == state)
        for state in ("present", "changed", "missing", "refused")
    )
    kind = Kind(settings["kind"]) if settings.get("kind") in list(Kind) else None
    columns = {role: PlainColumn.read(settings.get(role)) for role in ROLES}
    reason = _reason(settings, kind, columns, ledger) or _none_at_hand(ledger, present, refused, admitted)
    plain = {role: column for role, column in columns.items() if column is not None}
    kinds = {name: FieldKind(one) for name, one in settings.get("field_kinds", {}).items() if one in list(FieldKind)}
    fields, refused_fields = _fields(settings, kinds, added)
    return RawFiles(
        stream,
        present,
        changed,
        missing,
        refused,
        reason,
        settings.get("format", ""),
        kind,
        TimeUnit(numerator, denominator),
        plain,
        Fraction(str(settings.get("weight_step") or 1)),
        "weight" if settings.get("counting") == "weight" else "events",
        settings.get("repeats") == "count",
        admitted,
        tuple(str(settings.get(role)) for role in ROLES) + tuple(map(str, settings.get("fields", {}).values())),
        fields,
        kinds,
        refused_fields,
    )


def _added_later(connection: duckdb.DuckDBPyConnection, stream: str) -> set[str]:
    """The fields that some events came without, though their files may have the columns."""
    found = set()
    heads = connection.execute("SELECT family, payload FROM heads WHERE stream = $1", [stream]).fetchall()
    for family, head in heads:
        if family in FAMILIES and FAMILIES[family].abilities.fields:
            with suppress(CorruptError):
                known = FAMILIES[family].from_parts(head, [])[0].known_fields()
                found |= {name for name, one in known.items() if one.unknown_since is not None}
    return found


def _fields(
    settings: Mapping[str, Any], kinds: Mapping[str, FieldKind], added: set[str]
) -> tuple[dict[str, PlainColumn], dict[str, str]]:
    """The fields that can be checked, and why the others cannot."""
    found, refused = {}, {}
    for name in kinds:
        expression = settings.get("fields", {}).get(name)
        plain = PlainColumn.read(expression)
        if expression is None:
            refused[name] = "the settings no longer say what it was read from"
        elif plain is None:
            refused[name] = f"it is the expression `{expression}`; only plain columns and constants can be checked here"
        elif name in added:
            refused[name] = "some events were taken without it, and the store does not say of which files"
        else:
            found[name] = plain
    return found, refused


def input_folders(patterns: object) -> list[str]:
    """The folders that the input of a stream lies in: what its globs begin with.

    >>> input_folders(["/data/calls/*.csv", "/data/20[0-9]/x/*.csv", "/data/all/one.csv"])
    ['/data/calls', '/data', '/data/all']
    """
    texts = [pattern for pattern in patterns if isinstance(pattern, str)] if isinstance(patterns, list) else []
    found = []
    for text in texts:
        parts = Path(text).parts
        plain = next((number for number, part in enumerate(parts) if set(part) & set("*?[")), len(parts))
        # Without a glob it is a file, or a folder that stands for its files.
        folder = Path(*parts[:plain])
        found.append(str(folder.parent if plain == len(parts) and not folder.is_dir() else folder))
    return found


def _resolved(folders: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(folder) for folder in folders))


def state_of(known: KnownFile, folders: Sequence[str]) -> str:
    """Whether a file is present, changed, missing, or refused: it, or what a link in its path leads to, lies outside
    the folders, or is not a plain file."""
    if known.path.startswith(BATCH):
        return "missing"
    try:
        real = os.path.realpath(known.path)
        if not any(os.path.commonpath([real, folder]) == folder for folder in folders):
            return "refused"
        status = os.stat(real)  # noqa: PTH116 - the path is a text here
    except (OSError, ValueError):
        return "missing"
    if not stat.S_ISREG(status.st_mode):
        return "refused"
    same = status.st_size == known.size and known.modified in (0, status.st_mtime_ns)
    return "present" if same else "changed"


def refusal(refused: Sequence[KnownFile], folders: Sequence[str]) -> str:
    """Why files are not read, and what to do about it."""
    first = refused[0].path
    if any(os.path.commonpath([os.path.realpath(first), folder]) == folder for folder in folders):
        return f"{first} is not a plain file"
    named = ", ".join(folders) or "none is named in the stream's settings"
    return f"{first} is outside the folders that Audit may read ({named}); `wane dashboard --raw DIR` names others"


def _reason(
    settings: Mapping[str, Any],
    kind: Kind | None,
    columns: Mapping[str, PlainColumn | None],
    ledger: Sequence[KnownFile],
) -> str | None:
    if not ledger:
        return "the store has no record of the files that this stream was read from"
    if RETRACT in settings:
        return "some of its rows take events back, which only its sketches know"
    if "sketch" in settings:
        return "its rows are sketches that others have made, and the events are not there"
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
    return None


def _none_at_hand(
    ledger: Sequence[KnownFile], present: Sequence[KnownFile], refused: Sequence[KnownFile], folders: Sequence[str]
) -> str | None:
    if present:
        return None
    if refused:
        return refusal(refused, folders)
    if any(known.path.startswith(BATCH) for known in ledger):
        return "its events came from queries of Spark, which leave no raw files"
    return f"none of the stream's {len(ledger):,} input files is at hand as it was when it was read"


def check_content(known: KnownFile, expressions: Sequence[str]) -> None:
    """Refuse a file that is not the one that was read, though its size and its time of change are the same."""
    try:
        found = fingerprint(known.path)
    except OSError as error:
        raise StoreError(f"{known.path} cannot be read: {error.strerror}") from None
    if known.fingerprint not in (found, content_of(known.path, found, expressions)):
        raise StoreError(
            f"{known.path} is not the file that was read: its content has another fingerprint than the ledger has"
        )
