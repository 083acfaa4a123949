"""What a run of ingest hands to the store: sketches and totals as tables, the files it read, the rows it rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sketches.family import Sketch
from sketches.records import dataclass
from sketches.registry import FAMILIES
from sketches.units import SECOND, TimeUnit
from store.database import StoreError
from store.keys import Epoch, sketch_key, spans_epochs

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
    """What the store must know of a stream to answer: its unit of time, the usual length of an epoch, its settings."""

    name: str
    epoch: int
    unit: TimeUnit = SECOND
    settings: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EpochSketches:
    """The new events of one epoch of one source: their totals, and one sketch for each family."""

    source: str
    start: int
    length: int
    events: int
    weight: float
    oldest: int
    newest: int
    sketches: Sequence[Sketch]


@dataclass(frozen=True)
class SketchTables:
    """The new events of a stream as two tables. Rows of one epoch add up, sketches of one epoch and family merge.

    `epochs` has the columns source, start, length, events, weight, oldest, newest; `sketches` has source, start,
    length, family, payload. A sketch of a family that covers many epochs gets the key under which it is stored.
    """

    epochs: pa.Table
    sketches: pa.Table

    def __post_init__(self) -> None:
        object.__setattr__(self, "epochs", _shaped("epochs", self.epochs, EPOCHS))
        object.__setattr__(self, "sketches", _under_stored_keys(_shaped("sketches", self.sketches, SKETCHES)))

    @classmethod
    def of(cls, epochs: Sequence[EpochSketches]) -> SketchTables:
        """The tables of a few epochs that are at hand as objects."""
        totals = {name: [getattr(epoch, name) for epoch in epochs] for name in EPOCHS.names}
        rows = [(epoch, sketch) for epoch in epochs for sketch in epoch.sketches]
        sketches: dict[str, list[object]] = {
            name: [getattr(epoch, name) for epoch, _ in rows] for name in ("source", "start", "length")
        }
        sketches["family"] = [sketch.family for _, sketch in rows]
        sketches["payload"] = [sketch.named(epoch.source).to_bytes() for epoch, sketch in rows]
        return cls(pa.table(totals, schema=EPOCHS), pa.table(sketches, schema=SKETCHES))

    @property
    def spanning_families(self) -> set[str]:
        """The families whose sketches cover many epochs."""
        return {family for family in pc.unique(self.sketches["family"]).to_pylist() if spans_epochs(family)}


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
    """The rows that were rejected for one reason, with a few of them as examples."""

    reason: str
    rows: int
    examples: Sequence[object] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of ingest adds to one stream.

    A backfill first drops what it has read again: the epochs in the range of times `replacing`, and from the ledger the
    paths in `replaced_files`.

    `clock` is when the run started, in units of the stream: what is later cannot have happened yet. None where times
    are no times of a clock.
    """

    stream: Stream
    tables: SketchTables
    started: datetime
    finished: datetime
    files: Sequence[InputFile] = ()
    rejects: Sequence[Reject] = ()
    rows: int = 0
    conflicts: int = 0
    replacing: tuple[int, int] | None = None
    replaced_files: Sequence[str] = ()
    clock: int | None = None
    repeats: int = 0  # about how many rows repeat an event of the run
    ahead: int = 0  # rows that are ahead of the clock


def _under_stored_keys(sketches: pa.Table) -> pa.Table:
    """The sketches under the keys by which they are stored: all epochs of a family that covers many share one."""
    families = pc.unique(sketches["family"]).to_pylist()
    spanning = list(filter(spans_epochs, families))
    if not spanning:
        return sketches
    apart = [sketches.filter(pc.equal(sketches["family"], family)) for family in spanning]
    rows = [
        (*(epoch if FAMILIES[family].is_earlier(payload) else sketch_key(family, epoch)), family, payload)
        for table in apart
        for epoch, family, payload in _keyed(table)
    ]
    moved = pa.table({name: [row[at] for row in rows] for at, name in enumerate(SKETCHES.names)}, schema=SKETCHES)
    rest = sketches.filter(pc.invert(pc.is_in(sketches["family"], pa.array(spanning))))
    return pa.concat_tables([rest, moved])


def _keyed(sketches: pa.Table) -> Iterator[tuple[Epoch, str, bytes]]:
    source, start, length, family, payload = (column.to_pylist() for column in sketches.columns)
    return zip(map(Epoch._make, zip(source, start, length, strict=True)), family, payload, strict=True)


def _shaped(name: str, table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly these columns and types, in this order."""
    missing = [column for column in schema.names if column not in table.column_names]
    if missing:
        raise StoreError(f"{name} lack the columns {', '.join(missing)}; they need {', '.join(schema.names)}")
    try:
        return table.select(schema.names).cast(schema)
    except pa.ArrowInvalid as error:
        raise StoreError(f"{name} do not have the types {', '.join(map(str, schema.types))}: {error}") from error
