"""Checked rows of many batches, collected until there are enough to sketch together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingest.executor.columns import CheckedRows
from ingest.executor.field_columns import FieldRows, fields_of
from ingest.executor.grouping import Groups, group, put
from ingest.executor.sketches_of_others import sketched
from ingest.executor.stream_sketches import StreamSketches
from ingest.executor.tally import Tally
from ingest.executor.worker_settings import EarlierEpochs, WorkerSettings, record
from sketches.arrays import Flags
from sketches.events import Events, Labels
from sketches.family import Scope, Sketch

_LABEL_BYTES: Final = 120  # about what a key's text takes besides its characters


class Chunk:
    """Checked rows of many batches, until there are enough to sketch."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._sources: dict[str, int] = {}
        self._clear()

    def _clear(self) -> None:
        retracts = self._settings.conversion.retracts
        self._columns: list[list[NDArray[Any]]] = [[] for _ in range(6 if retracts else 5)]
        self._fields: dict[str, list[FieldRows]] = {name: [] for name in self._settings.conversion.fields}
        self._labels: dict[int, str] = {}
        self.nbytes = 0

    def add(self, rows: CheckedRows) -> None:
        if len(rows) == 0:
            return
        numbers = np.array([self._sources.setdefault(name, len(self._sources)) for name in rows.source_names], np.int32)
        columns: list[NDArray[Any]] = [numbers[rows.sources], rows.ids, rows.times, rows.values, rows.weights]
        columns += [] if rows.gone is None else [rows.gone]
        fields = rows.fields
        if (within := self._settings.within) is not None:
            inside = (rows.times >= within[0]) & (rows.times < within[1])
            columns = [column[inside] for column in columns]
            fields = {name: field.take(inside) for name, field in fields.items()}
        for kept, column in zip(self._columns, columns, strict=True):
            kept.append(column)
            self.nbytes += column.nbytes if column.dtype != object else sum(map(len, column))
        for name, parts in self._fields.items():
            parts.append(fields[name])
            self.nbytes += fields[name].nbytes
        for code, text in rows.labels.items():
            if code not in self._labels:
                self._labels[code] = text
                self.nbytes += _LABEL_BYTES + len(text)

    def sketched(self, tally: Tally, whole: StreamSketches) -> Iterator[pa.RecordBatch]:
        """The totals and sketches of the collected rows by source and epoch; the chunk is empty afterwards.

        What families keep for the whole stream is added to `whole`.
        """
        if not self._columns[0]:
            return
        sources, ids, times, values, weights, *back = (np.concatenate(parts) for parts in self._columns)
        gone: Flags | None = back[0] if back else None
        labels = sorted_labels(self._labels)
        fields = fields_of(len(times), self._settings.conversion.fields, self._fields)
        self._clear()
        if len(times) == 0:
            return
        if families := self._settings.conversion.sketches:
            codes, found = sketched(sources, times, values, weights, self._settings.epoch, families)
            names = pa.array(list(self._sources), pa.string()).take(pa.array(codes))
            yield record(self._settings.schema, len(codes), {"source": names, **found})
            return
        if gone is None:
            tally.shared_ids.add(ids, times, values, weights, fields)
        else:  # a row that takes an event back repeats it, and is no repeat
            tally.shared_ids.add(ids[~gone], times[~gone], values[~gone], weights[~gone])
        units = weights if (weights != 1).any() else None
        events = Events(ids, times, values, units, labels, self._settings.conversion.kind, fields)
        groups = group(sources, times, self._settings.epoch)
        found = self._totals(events, groups, gone) | self._payloads(events, groups, gone)
        yield record(self._settings.schema, len(groups.sources), found)
        del found
        names = list(self._sources)
        for family, _ in self._settings.of_stream:
            earlier = self._earlier_groups(self._settings.earlier.get(family.family), groups)
            if earlier is None:
                whole.add(family, events, sources, names)
            else:
                new = ~np.repeat(earlier, np.diff(groups.bounds))[groups.place]
                whole.add(family, events.take(new), sources[new], names)

    def _totals(self, events: Events, groups: Groups, gone: Flags | None) -> dict[str, Any]:
        begins = groups.bounds[:-1]
        times = put(events.times, groups.place)
        number = np.diff(groups.bounds)
        weight = number if events.weights is None else np.add.reduceat(put(events.weights, groups.place), begins)
        if gone is not None:
            sign = np.where(gone, -1, 1)
            signed = sign if events.weights is None else sign * events.weights
            number, weight = (np.add.reduceat(put(column, groups.place), begins) for column in (sign, signed))
        return {
            "source": pa.array(list(self._sources), pa.string()).take(pa.array(groups.sources)),
            "start": groups.epochs * self._settings.epoch,
            "events": number,
            "weight": weight,
            "oldest": np.minimum.reduceat(times, begins),
            "newest": np.maximum.reduceat(times, begins),
        }

    def _payloads(self, events: Events, groups: Groups, gone: Flags | None) -> dict[str, Any]:
        """The payloads of each group, for families that keep sketches by epoch or still have some in a store."""
        found: dict[str, Any] = {}
        placed: Events | None = None
        for family, keywords in self._settings.families:
            earlier = self._settings.earlier.get(family.family)
            old = self._earlier_groups(earlier, groups)
            if family.scope is Scope.STREAM and old is None:
                continue
            placed = _placed(events, groups) if placed is None else placed
            if gone is not None:
                found[family.family] = family.payloads_less(placed, groups.bounds, put(gone, groups.place), **keywords)
            elif family.scope is not Scope.STREAM:
                found[family.family] = family.payloads(placed, groups.bounds, **keywords)
            elif old is not None and earlier is not None and family.earlier is not None:
                found[family.family] = _payloads_of(family.earlier, placed, groups, old, earlier.keywords)
        return found

    def _earlier_groups(self, earlier: EarlierEpochs | None, groups: Groups) -> Flags | None:
        """Which groups lie where a store still has a family's earlier form; None where there are none."""
        if earlier is None or not earlier.starts:
            return None
        found = np.isin(groups.epochs * self._settings.epoch, np.fromiter(earlier.starts, np.int64))
        return found if found.any() else None


def _payloads_of(
    family: type[Sketch], placed: Events, groups: Groups, which: Flags, keywords: Mapping[str, Any]
) -> list[bytes | None]:
    """The payloads of some groups, and None for the others."""
    sizes = np.diff(groups.bounds)
    bounds = np.concatenate(([0], np.cumsum(sizes[which])))
    payloads = iter(family.payloads(placed.take(np.repeat(which, sizes)), bounds, **keywords))
    return [next(payloads) if wanted else None for wanted in which.tolist()]


def _placed(events: Events, groups: Groups) -> Events:
    """The events in the order of groups."""
    weights = None if events.weights is None else put(events.weights, groups.place)
    ids, times, values = (put(column, groups.place) for column in (events.ids, events.times, events.values))
    fields = events.fields
    if fields:
        fields = fields.take(put(np.arange(len(events)), groups.place), len(events))
    return Events(ids, times, values, weights, events.labels, events.kind, fields)


def sorted_labels(labels: Mapping[int, str]) -> Labels:
    if not labels:
        return Labels.none()
    hashes = np.fromiter(labels.keys(), np.uint64, len(labels))
    order = np.argsort(hashes)
    texts: Sequence[str] = list(labels.values())
    return Labels(hashes[order], tuple(texts[at] for at in order.tolist()))
