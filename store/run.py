"""What a run of ingest hands to the store: sketches and counts as columns, the files it read, what it rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import pyarrow as pa

from sketches.drawn import SECOND, TimeUnit
from sketches.family import Sketch
from store.database import StoreError

EPOCHS: Final = pa.schema(
    [
        ("source", pa.string()),
        ("start", pa.int64()),
        ("length", pa.int64()),
        ("events", pa.int64()),
        ("weight", pa.float64()),
        ("oldest", pa.int64()),
        ("newest", pa.int64()),
    ]
)
SKETCHES: Final = pa.schema(
    [
        ("source", pa.string()),
        ("start", pa.int64()),
        ("length", pa.int64()),
        ("family", pa.string()),
        ("payload", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class Stream:
    """What the store must know of a stream to answer: its unit of time and the usual length of an epoch in it."""

    name: str
    epoch: int
    unit: TimeUnit = SECOND
    settings: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """One epoch of one source with its new events: how many, and their sketches, one a family."""

    source: str
    start: int
    length: int
    events: int
    weight: float
    oldest: int
    newest: int
    sketches: Sequence[Sketch]


@dataclass(frozen=True)
class Sketched:
    """The new events of a stream as two tables. Rows of one epoch add up, sketches of one epoch and family merge.

    `epochs` has the columns source, start, length, events, weight, oldest, newest; `sketches` has source, start,
    length, family, payload.
    """

    epochs: pa.Table
    sketches: pa.Table

    def __post_init__(self) -> None:
        object.__setattr__(self, "epochs", _shaped("epochs", self.epochs, EPOCHS))
        object.__setattr__(self, "sketches", _shaped("sketches", self.sketches, SKETCHES))

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Sketched:
        """The tables of a few parts that are at hand as objects."""
        epochs = {name: [getattr(part, name) for part in parts] for name in EPOCHS.names}
        rows = [(part, sketch) for part in parts for sketch in part.sketches]
        sketches: dict[str, list[object]] = {
            name: [getattr(part, name) for part, _ in rows] for name in ("source", "start", "length")
        }
        sketches["family"] = [sketch.family for _, sketch in rows]
        sketches["payload"] = [sketch.to_bytes() for _, sketch in rows]
        return cls(pa.table(epochs, schema=EPOCHS), pa.table(sketches, schema=SKETCHES))


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that a run read whole: its rows, when it was last modified (ns since 1970), and the event times in it.

    A file whose content is known under another name has rows = 0: it was not read.
    """

    path: str
    size: int
    fingerprint: str
    rows: int
    modified: int
    oldest: int | None = None
    newest: int | None = None


@dataclass(frozen=True, slots=True)
class Reject:
    """Rows that cannot be events, by reason, with a few of them."""

    reason: str
    rows: int
    examples: Sequence[object] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """All that one run of ingest has to say about one stream.

    A backfill drops what it has read again: `replacing` is a range of times whose epochs go first, `replaced_files`
    are paths that the ledger forgets first.
    """

    stream: Stream
    sketched: Sketched
    started: datetime
    finished: datetime
    files: Sequence[InputFile] = ()
    rejects: Sequence[Reject] = ()
    rows: int = 0
    conflicts: int = 0
    labels: Mapping[int, str] = field(default_factory=dict)
    replacing: tuple[int, int] | None = None
    replaced_files: Sequence[str] = ()


def _shaped(name: str, table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly these columns and types, in this order."""
    missing = [column for column in schema.names if column not in table.column_names]
    if missing:
        raise StoreError(f"{name} lack the columns {', '.join(missing)}; they need {', '.join(schema.names)}")
    try:
        return table.select(schema.names).cast(schema)
    except pa.ArrowInvalid as error:
        raise StoreError(f"{name} do not have the types {', '.join(map(str, schema.types))}: {error}") from error
