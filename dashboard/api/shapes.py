"""Answers as programs take them: one row for each time, bounds as columns of their own, times in ISO 8601."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from sketches.formatting import calendar_time
from sketches.units import TimeUnit
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.provenance import provenance_dict
from store.serving.query_command import Line, OverTime
from store.serving.resolving import columns_of, names_of
from store.serving.timeline import extent


def time_text(moment: int, unit: TimeUnit) -> str | int:
    """A time in ISO 8601, to the millisecond; outside the calendar the bare number."""
    found = calendar_time(moment, unit)
    return moment if found is None else found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def series_shape(found: OverTime, unit: TimeUnit, by: str | None) -> dict[str, Any]:
    """A question at many times; split by a field, each row names its group, and of several shares its own."""
    first = next(iter(found.lines), None)
    return {
        "rows": [row for line in found.lines for row in _rows(line, unit)],
        "by": by,
        "confidence": None if first is None else first.series.confidence,
        "guarantee": None if first is None else first.series.guarantee,
        "family": None if first is None else first.series.family,
    } | provenance_dict(found.provenance)


def _rows(line: Line, unit: TimeUnit) -> Iterator[dict[str, Any]]:
    named = {name: one for name, one in (("group", line.group), ("phi", line.phi)) if one is not None}
    series = line.series
    columns = (series.as_of, series.value, series.lower, series.upper)
    for moment, *numbers in zip(*(column.tolist() for column in columns), strict=True):
        estimate, lower, upper = (one if math.isfinite(one) else None for one in numbers)
        yield {"time": time_text(moment, unit)} | named | {"estimate": estimate, "lower": lower, "upper": upper}


def streams_shape(catalogue: Catalogue) -> dict[str, Any]:
    """All streams: what can be asked of each, and from when to when it has events."""
    return {
        "generation": catalogue.generation,
        "streams": [_stream_shape(stream) for _, stream in sorted(catalogue.streams.items())],
    }


def _stream_shape(stream: StoredStream) -> dict[str, Any]:
    lived, names = extent(stream), names_of(stream)
    oldest, newest = (None, None) if lived is None else (time_text(one, stream.unit) for one in lived)
    unit = stream.unit
    return {
        "stream": stream.name,
        "rows": sum(totals.events for totals in stream.by_source.values()),
        "sources": len(stream.by_source),
        "oldest": oldest,
        "newest": newest,
        "seconds_per_unit": unit.numerator / unit.denominator,
        "families": sorted(stream.sketches),
        "value": names.value or "value",
        "weight": names.weight or "weight",
        "columns": sorted(columns_of(stream).types),
        "fields": {name: str(kind) for name, kind in sorted(stream.fields.items())},
    }
