"""What a site has contributed to a stream that cannot be merged twice: totals of epochs and sources, what was counted
of rows, gaps and rejects. The centre keeps one for each site, and adds all up whenever one has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

import numpy as np

from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError
from sketches.records import dataclass
from store.merging.from_outside import table_of
from store.packed_columns import Column, write_table
from store.packed_sources import SourceColumns, pack, unpack

_FORM: Final = b"WSC1"
_CHECKSUM: Final = 8
LEDGER: Final = ("rows", "rejected", "conflicts", "late", "repeats", "ahead")
EPOCHS: Final = ("start", "length", "events", "weight", "oldest", "newest", "latest")
_TABLES: Final = {  # with their columns of numbers and of text
    "epochs": (EPOCHS, ()),
    "aside": (("start", "length"), ("source", "family", "reason")),
    "rejects": (("rows",), ("reason",)),
    "ledger": (LEDGER, ()),
    "segments": (("oldest", "newest", "mark"), ("family",)),
}

Table = Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Contribution:
    """One site's part of a stream.

    `segments` are the parts of its sketch of the whole stream: family, oldest, newest, and the mark of the commit which
    wrote each; `tallies` is by family what such a sketch has counted of rows. `ledger` is one row over all runs.
    """

    epochs: Table
    sources: SourceColumns
    aside: Table
    rejects: Table
    ledger: Table
    segments: Table
    tallies: Mapping[str, bytes] = field(default_factory=dict)

    def under(self, prefix: str) -> Contribution:
        """The same with other names for the sources; gaps of all sources stay those of all."""
        aside = dict(self.aside)
        named = [prefixed(prefix, source) if source else "" for source in aside["source"].tolist()]
        aside["source"] = texts(named)
        names = [prefixed(prefix, name) for name in self.sources.names]
        return replace(self, aside=aside, sources=self.sources._replace(names=names))

    def to_bytes(self) -> bytes:
        writer = Writer()
        for name in _TABLES:
            table = dict(getattr(self, name))
            if "weight" in table:
                table["weight"] = np.ascontiguousarray(table["weight"], np.float64).view(np.int64)
            writer.blob(write_table(table))
        writer.blob(pack(self.sources))
        writer.varint(len(self.tallies))
        for family, tally in sorted(self.tallies.items()):
            writer.blob(family.encode())
            writer.blob(tally)
        content = _FORM + writer.to_bytes()
        return content + hashlib.blake2b(content, digest_size=_CHECKSUM).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> Contribution:
        """What `to_bytes` wrote; `CorruptError` where the bytes are damaged."""
        content, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
        if not data.startswith(_FORM) or hashlib.blake2b(content, digest_size=_CHECKSUM).digest() != checksum:
            raise CorruptError("what a site has contributed was changed after it was written")
        reader = Reader(content[len(_FORM) :])
        tables: dict[str, Any] = {name: table_of(reader.blob(), *_TABLES[name]) for name in _TABLES}
        tables["epochs"]["weight"] = tables["epochs"]["weight"].view(np.float64)
        sources = unpack(reader.blob())
        tallies = {reader.blob().decode(errors="replace"): reader.blob() for _ in range(reader.varint())}
        reader.done()
        return cls(**tables, sources=sources, tallies=tallies)


def prefixed(prefix: str, source: str) -> str:
    """The name of a site's source at the centre."""
    if not prefix:
        return source
    return f"{prefix}/{source}" if source else prefix


def texts(found: Sequence[str]) -> Column:
    return np.array([*found, None], object)[:-1]


def epochs_of_all(parts: Sequence[Contribution]) -> dict[str, Column]:
    """The totals of the epochs of all sites, in the order of time."""
    columns = {name: np.concatenate([part.epochs[name] for part in parts]) for name in EPOCHS}
    keys = np.stack([columns["start"], columns["length"]], axis=1)
    unique, place = np.unique(keys, axis=0, return_inverse=True)
    place = place.ravel()
    found: dict[str, Column] = {"start": unique[:, 0], "length": unique[:, 1]}
    order = np.argsort(place, kind="stable")
    first = np.flatnonzero(np.diff(place[order], prepend=-1))
    for name, add in {
        "events": np.add,
        "weight": np.add,
        "oldest": np.minimum,
        "newest": np.maximum,
        "latest": np.maximum,
    }.items():
        found[name] = add.reduceat(columns[name][order], first) if len(first) else columns[name]
    return found


def sources_of_all(parts: Sequence[Contribution]) -> SourceColumns:
    """The totals of the sources of all sites, each of which belongs to one, in the order of their names."""
    names = [name for part in parts for name in part.sources.names]
    order = sorted(range(len(names)), key=names.__getitem__)
    columns = [np.concatenate([part.sources[at] for part in parts])[order] for at in range(1, 6)]
    return SourceColumns([names[at] for at in order], *columns)
