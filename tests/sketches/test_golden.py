"""Bytes of every format version ever written keep loading, and mean the same for ever.

The files under `tests/golden/` were written once, by the first wane of their format version, and are never written
again: a new version adds files beside them. To write those of the current version that are missing::

    WANE_GOLDEN=write .venv/bin/python -m pytest tests/sketches/test_golden.py

Delete a file first to replace it, which is right only while its version has not been released.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sketches import Ecm, Events, Question, Retractable, Sample
from sketches.countmin.log_bytes import ENTRIES_FORMAT
from sketches.countmin.retractable import SIGNED_FORMAT
from sketches.digests.divided import DOUBT_FORMAT
from sketches.digests.division import Division
from sketches.digests.dyadic_tree import PATHS_FORMAT
from sketches.digests.exponential import Exponential
from sketches.digests.forest_bytes import FADED_FORMAT
from sketches.digests.histogram import Histogram
from sketches.digests.qdigest import QDigest
from sketches.digests.wbmh import Wbmh
from sketches.encoding.envelope import FORMAT_VERSION, open_envelope
from sketches.family import Sketch
from sketches.fields import FieldKind
from sketches.kll.kll import Kll
from sketches.kll.kll_bytes import KllBytes
from sketches.predicate import Predicate, columns_with
from sketches.registry import load
from sketches.sampling.epoch_sample import EpochSample
from sketches.sampling.integral import Integral
from sketches.sampling.sample_bytes import (
    FIELD_TOTALS_FORMAT,
    FIELDS_FORMAT,
    SAMPLE_FORMAT,
    TOTALS_FORMAT,
    UNKNOWN_FORMAT,
)

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
START = 1_700_000_000
NUMBERS = (
    {"aggregate": "sum", "decay": "exp:half_life=10m"},
    {"aggregate": "count", "decay": "window:20m"},
    {"aggregate": "mean", "decay": "poly:alpha=1.5,unit=1m"},
    {"aggregate": "quantile", "decay": "none", "phi": 0.9},
    {"aggregate": "correlated-sum", "decay": "chordal:40m", "tau": 400, "as_of": START + 3000},
)
KEYS = (
    {"aggregate": "sum", "decay": "none"},
    {"aggregate": "frequency", "decay": "exp:half_life=10m", "value": "日本語"},
    {"aggregate": "heavy-hitters", "decay": "window:50m", "top": 3},
)
LABELS = ("", "naïve café", "日本語", "👩‍🔬 lab", "tab\tand\nnewline", "/index.html")
TOTALS = (
    *NUMBERS[:3],
    {"aggregate": "sum", "decay": "window:1000s", "as_of": START + 3000},
)
FADED = (
    {"aggregate": "sum", "decay": "exp:half_life=10m"},
    {"aggregate": "quantile", "decay": "exp:half_life=10m", "phi": 0.9},
    {"aggregate": "rank", "decay": "exp:half_life=10m", "value": 300, "as_of": START + 9000},
    {"aggregate": "correlated-sum", "decay": "exp:half_life=10m", "tau": "median"},
)
FADED_KEYS = (
    {"aggregate": "sum", "decay": "exp:half_life=10m"},
    {"aggregate": "frequency", "decay": "exp:half_life=10m", "value": "日本語"},
    {"aggregate": "heavy-hitters", "decay": "exp:half_life=10m", "top": 3, "as_of": START + 5000},
)


INTEGRAL = (
    {"aggregate": "sum", "decay": "exp:half_life=10m"},
    {"aggregate": "median", "decay": "exp:half_life=10m"},
    {"aggregate": "correlated-sum", "decay": "exp:half_life=10m", "tau": "q0.9", "as_of": START + 5000},
)
INTEGRAL_KEYS = (
    {"aggregate": "sum", "decay": "window:30m"},
    {"aggregate": "frequency", "decay": "window:30m", "value": "日本語"},
    {"aggregate": "heavy-hitters", "decay": "window:30m", "top": 3},
)
COUNTED = (
    {"aggregate": "sum", "decay": "exp:half_life=10m"},
    {"aggregate": "frequency", "decay": "window:20m", "value": 9},
    {"aggregate": "self-join", "decay": "none"},
)


def columns(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, times within the hour and values below 1,000 by arithmetic alone, which no library can change."""
    number = np.arange(rows, dtype=np.int64)
    return number * 1_000_003 % 999_983, START + number * 7919 % 3600, number * number % 997


def units() -> EpochSample:
    return EpochSample.build(Events.of(*columns(600)), epsilon=0.3, seed=11)


def weights() -> EpochSample:
    ids, times, values = columns(600)
    return EpochSample.build(Events.of(ids, times, values, 1 + values**2 // 50), epsilon=0.3, seed=12)


def floats() -> EpochSample:
    ids, times, values = columns(300)
    return EpochSample.build(Events.of(ids, times, values / 8 - 20.0, 1 + ids % 5), epsilon=0.4, seed=13)


def keys() -> EpochSample:
    ids, times, values = columns(300)
    return EpochSample.build(Events.of(ids, times, np.array(LABELS, object)[values % 6]), epsilon=0.4, seed=2**64 - 1)


def empty() -> EpochSample:
    return EpochSample.build(Events.of([], []), epsilon=0.05, seed=0)


def copies() -> EpochSample:
    ids, times, values = columns(400)
    return EpochSample.build(Events.of(ids, times, values, 1 + ids % 3), epsilon=0.6, delta=0.001, seed=14)


def merged(rows: int, build: Callable[[Events], Any], values: Callable[[np.ndarray], Any], step: int = 1) -> Any:
    """A batch of half of the rows and many small ones: some masses lie where they were laid, some were folded."""
    ids, times, numbers = columns(rows)
    part = np.where(np.arange(rows) < rows // 2, 0, 1 + np.arange(rows) % 40)
    sketches = [
        build(Events.of(ids[here], times[here] // step * step, values(numbers[here]), 1 + numbers[here] ** 2 % 7))
        for here in (part == number for number in range(41))
    ]
    return reduce(lambda one, other: one.merge(other), sketches)


def overlapping(starts: np.ndarray, heights: np.ndarray) -> bool:
    """Whether some range lies in another, as no two of one batch do."""
    ends = [start + (1 << height) for start, height in zip(starts.tolist(), heights.tolist(), strict=True)]
    ranges = list(zip(starts.tolist(), ends, strict=True))
    return any(a <= c and d <= b and (a, b) != (c, d) for a, b in ranges for c, d in ranges)


def histogram() -> Histogram:
    found: Histogram = merged(1500, lambda events: Histogram.build(events, epsilon=0.4, seed=21), lambda v: v)
    assert overlapping(found.forest.start, found.forest.height), "folded, and laid by different parts"
    return found


def qdigest_integers() -> QDigest:
    found: QDigest = merged(800, lambda events: QDigest.build(events, epsilon=0.7, span=3600, seed=22), lambda v: v)
    assert overlapping(found.forest.start, found.forest.height), "folded in time"
    return found


def histogram_faded() -> Histogram:
    found: Histogram = merged(1500, lambda events: Histogram.build(events, epsilon=0.4, span=900, seed=21), lambda v: v)
    faded = Histogram.faded([found], found.mass * 10)
    assert faded.forest.height.max() > 10, "ranges of several intervals"
    return faded


def qdigest_faded() -> QDigest:
    labels = np.array(LABELS, object)
    found: QDigest = merged(
        800, lambda events: QDigest.build(events, epsilon=0.5, span=900, seed=24), lambda v: labels[v % 6]
    )
    faded = QDigest.faded([found], found.mass * 10)
    assert faded.forest.height.max() > 10, "ranges of several intervals"
    return faded


def qdigest_floats() -> QDigest:
    found: QDigest = merged(
        2000, lambda events: QDigest.build(events, epsilon=0.9, span=900, seed=23), lambda v: v / 8 - 20.0, 1200
    )
    assert set(found.forest.height.tolist()) == {0}
    assert found.forest.code_height.any(), "folded in value"
    return found


def qdigest_keys() -> QDigest:
    labels = np.array(LABELS, object)
    found: QDigest = merged(
        500, lambda events: QDigest.build(events, epsilon=0.5, span=3600, seed=24), lambda v: labels[v % 6]
    )
    return found


def exponential(rows: int, epsilon: float, values: Callable[[np.ndarray], Any]) -> Exponential:
    found: Exponential = merged(
        rows,
        lambda events: Exponential.build(
            events, decay="exp:half_life=10m", epsilon=epsilon, counting="weight", seed=25
        ),
        values,
    )
    return found


def exponential_numbers() -> Exponential:
    found = exponential(1000, 0.4, lambda v: v)
    assert overlapping(found.masses.code, found.masses.height)
    return found


def exponential_keys() -> Exponential:
    labels = np.array(LABELS, object)
    found = exponential(500, 0.3, lambda v: labels[v % 6])
    assert found.masses.astray > 0.0
    return found


def wbmh(values: Callable[[np.ndarray], Any], seed: int) -> Wbmh:
    found: Wbmh = merged(
        1200,
        lambda events: Wbmh.build(events, decay="poly:alpha=1.5,unit=1m", epsilon=0.7, span=100, seed=seed),
        values,
    )
    assert found.forest.height.max() > 7, "blocks of several epochs"
    assert overlapping(found.forest.code, found.forest.code_height), "folded in value"
    return found


def wbmh_integers() -> Wbmh:
    return wbmh(lambda v: v, 61)


def wbmh_floats() -> Wbmh:
    return wbmh(lambda v: v / 8 - 20.0, 62)


def wbmh_cut() -> Wbmh:
    """Some events were taken out of it, by a time that cuts a block."""
    whole = wbmh_integers()
    found = whole.without(-(1 << 50), (whole.extremes.oldest or 0) + 900)
    assert len(found.doubt) > 0
    return found


def division_keys() -> Division:
    labels = np.array(LABELS, object)
    found: Division = merged(
        800,
        lambda events: Division.build(events, decay="log:unit=1m", epsilon=0.5, span=100, seed=63),
        lambda v: labels[v % 6],
    )
    return found


def ecm_aggregated() -> Ecm:
    labels = np.array(LABELS, object)
    found: Ecm = merged(
        600,
        lambda events: Ecm.build(events, epsilon=0.4, delta=0.2, counting="weight", seed=26),
        lambda v: labels[v % 6],
    )
    assert found.depth == 0
    return found


def ecm_ranges() -> Ecm:
    ids, times, values = columns(600)
    events = Events.of(ids, times, values, 1 + values % 4)
    return Ecm.build(events, epsilon=0.4, delta=0.2, keeping="dw", purpose="inner", bits=10, counting="weight", seed=27)


def ecm_randomised() -> Ecm:
    return Ecm.build(Events.of(*columns(3000)), epsilon=0.9, delta=0.4, keeping="rw", counting="weight", seed=28)


def integral_weights() -> Integral:
    ids, times, values = columns(900)
    events = Events.of(ids, times, values, 1 + values**2 // 50)
    return Integral.build(events, decay="exp:half_life=10m", epsilon=0.3, counting="weight", scale=1, seed=31)


def integral_keys() -> Integral:
    labels = np.array(LABELS, object)
    found: Integral = merged(
        600,
        lambda events: Integral.build(events, decay="window:30m", epsilon=0.4, delta=0.001, counting="weight", seed=32),
        lambda v: labels[v % 6],
    )
    assert len(found.copies) > 1
    return found


def retractable() -> Retractable:
    ids, times, values = columns(600)
    events = Events.of(ids, times, values % 20, 1 + values % 4)
    sketch = Retractable.build(events, decay="exp:half_life=10m", epsilon=0.3, delta=0.2, counting="weight", seed=29)
    return sketch.delete(events.rows(100, 200))


def zeros() -> EpochSample:
    """Weights of 0, which only format 2 and later can hold."""
    ids, times, values = columns(600)
    return EpochSample.build(Events.of(ids, times, values, np.maximum(values - 500, 0)), epsilon=0.3, seed=41)


def qdigest_zeros() -> QDigest:
    ids, times, values = columns(600)
    weights = np.maximum(values - 500, 0) // 100
    return QDigest.build(Events.of(ids, times, values % 50, weights), epsilon=0.5, span=3600, seed=42)


def exponential_events() -> Exponential:
    ids, times, values = columns(600)
    events = Events.of(ids, times, values, values % 3)
    return Exponential.build(events, decay="exp:half_life=10m", epsilon=0.4, counting="events", seed=43)


def ecm_events() -> Ecm:
    ids, times, values = columns(600)
    return Ecm.build(Events.of(ids, times, values % 20, values % 3), epsilon=0.4, delta=0.2, seed=44)


def integral_events() -> Integral:
    ids, times, values = columns(900)
    events = Events.of(ids, times, values, values % 3)
    return Integral.build(events, decay="exp:half_life=10m", epsilon=0.3, seed=45)


def retractable_events() -> Retractable:
    ids, times, values = columns(600)
    events = Events.of(ids, times, values % 20, values % 4)
    return Retractable.build(events, decay="exp:half_life=10m", epsilon=0.3, delta=0.2, seed=46)


def stream_of(values: Callable[[np.ndarray], Any], weights: Callable[[np.ndarray], Any], **settings: Any) -> Sample:
    """Three sources, events that two of them report, weights of 0 and heavy ones, all of it thinned and merged."""
    ids, times, numbers = columns(900)
    rows = np.concatenate([np.arange(900), np.arange(0, 900, 7)])
    sources = np.array(["north", "süd", "日本"])[np.concatenate([np.arange(900) % 3, np.arange(0, 900, 7) % 2])]
    parts = [
        Sample.build(
            Events.of(ids[here], times[here], values(numbers[here]), weights(numbers[here])),
            epsilon=0.3,
            detail=1,
            sources=sources[part::2],
            **settings,
        )
        for part in range(2)
        for here in (rows[part::2],)
    ]
    found = Sample.union(parts)
    assert found.kept < 700
    return found


def stream_counted() -> Sample:
    """Rows that came up to three times, and the totals of hours, some of them forgotten."""
    ids, times, numbers = columns(900)
    rows = np.concatenate([np.arange(900), np.arange(0, 900, 5), np.arange(0, 900, 45)])
    events = Events.of(ids[rows], times[rows], numbers[rows], numbers[rows] % 7)
    sources = (np.arange(len(rows)) % 2).astype(np.int32)
    whole = Sample.partial(events, sources, ["north", "south"], epsilon=0.3, detail=1, seed=55)
    assert whole.kept < 700
    return whole.without(START + 900, START + 1000)


def stream_uncounted() -> Sample:
    """Rows of the second half alone were counted."""
    ids, times, numbers = columns(900)
    names = [f"site {number}" for number in range(3)]
    early, late = (
        (Events.of(ids[here], times[here], numbers[here], numbers[here] % 7), (ids[here] % 3).astype(np.int32))
        for here in (times < START + 1500, times >= START + 1500)
    )
    before = Sample.build(early[0], epsilon=0.3, detail=1, seed=57, sources=np.array(names)[early[1]])
    found = before.merge(Sample.partial(*late, names, epsilon=0.3, detail=1, seed=57))
    assert found.kept < 700
    return found


def kll() -> Kll:
    """Rows that are all kept, and sketches of others laid out by hand: what the library builds differs each time."""
    ids, times, values = columns(600)
    kept = Kll.build(Events.of(ids, times, values / 8), epsilon=0.003, seed=61)
    numbers = np.arange(550) % 101 / 4
    for begin, end in ((0, 100), (100, 250), (250, 550)):
        numbers[begin:end].sort()
    foreign = KllBytes(300, 100, 100 + 2 * 150 + 4 * 300, (100, 150, 300), numbers, 0.0, 25.0)
    data, _ = Kll.taken_in([foreign.to_bytes()], START + 3600, START + 7200, epsilon=0.003, seed=61)
    return kept.merge(Kll.from_bytes(data))


def kll_integers() -> Kll:
    return Kll.build(Events.of(*columns(400)), epsilon=0.005, seed=62)


def stream_units() -> Sample:
    return stream_of(lambda v: v, lambda v: np.ones(len(v), np.int64), seed=51)


def stream_weights() -> Sample:
    return stream_of(lambda v: v, lambda v: np.maximum(v - 300, 0) ** 2, seed=52, per_source=7, fine=120)


def stream_floats() -> Sample:
    return stream_of(lambda v: v / 8 - 20.0, lambda v: 1 + v % 5, seed=53, bits=20)


def stream_keys() -> Sample:
    return stream_of(lambda v: np.array(LABELS, object)[v % 6], lambda v: v % 3, seed=2**64 - 1, per_source=3)


def stream_empty() -> Sample:
    return Sample.build(Events.of([], []), seed=54)


def stream_fields() -> Sample:
    """Fields of every kind, missing here and there, one of them added later; all of it thinned and merged."""
    ids, times, numbers = columns(900)
    fields: dict[str, Any] = {
        "status": 100 * (numbers % 5) - 2**40 * (numbers == 3),
        "share": np.where(numbers % 11 == 0, np.nan, numbers / 7),
        "price": np.round(numbers / 100, 2),
        "cached": numbers % 3 == 0,
        "path": np.array([*LABELS, None], object)[numbers % 7],
    }
    parts = [
        Sample.build(
            Events.of(ids[here], times[here], numbers[here], fields={name: fields[name][here] for name in known}),
            epsilon=0.3,
            detail=1,
            seed=56,
        )
        for here, known in ((slice(0, 450), ("status", "share", "cached", "path")), (slice(450, 900), tuple(fields)))
    ]
    found = Sample.union(parts)
    assert found.kept < 700
    return found


def stream_field_totals() -> Sample:
    """Totals by fields of every kind: of one with too many values, one that came later, one that copies contest."""
    ids, times, numbers = columns(900)
    fields: dict[str, Any] = {
        "status": 100 * (numbers % 5),
        "ratio": np.where(numbers % 11 == 0, np.nan, numbers % 4 / 8),
        "cached": numbers % 3 == 0,
        "path": np.array([*LABELS, None], object)[numbers % 7],
        "bytes": numbers,
        "later": np.where(ids % 2, "a", "b"),
        "contested": np.repeat(["x", "y"], 450),
    }
    parts = []
    for here in (slice(0, 460), slice(440, 900)):
        known = {name: fields[name][here] for name in fields if name != "later" or here.start}
        known["contested"] = np.full(460, "x" if here.start else "y")
        events = Events.of(ids[here], times[here], numbers[here], 1 + ids[here] % 3, fields=known)
        parts.append(Sample.partial(events, (ids[here] % 2).astype("i4"), ["a", "b"], epsilon=0.3, detail=1, seed=57))
    found = Sample.union(parts)
    assert found.kept < 800
    return found


FIELDS = (
    {"aggregate": "sum", "decay": "exp:half_life=10m", "of": "status"},
    {"aggregate": "quantile", "decay": "window:20m", "phi": 0.9, "of": "share"},
    {"aggregate": "mean", "decay": "poly:alpha=1.5,unit=1m", "of": "price"},
    {"aggregate": "mean", "decay": "none", "of": "cached", "as_of": START + 3000},
    {"aggregate": "frequency", "decay": "none", "of": "path", "value": "日本語"},
    {"aggregate": "heavy-hitters", "decay": "window:50m", "of": "path", "top": 3},
)
FIELD_TOTALS = (
    {"aggregate": "sum", "decay": "exp:half_life=10m", "where": "status >= 300"},
    {"aggregate": "count", "decay": "none", "where": "path is null"},
    {"aggregate": "mean", "decay": "poly:alpha=1.5,unit=1m", "where": "ratio = 0.125"},
    {"aggregate": "count", "decay": "window:20m", "where": "cached = true", "as_of": START + 3000},
    {"aggregate": "count", "decay": "none", "where": "later = 'a'"},
    {"aggregate": "count", "decay": "none", "where": "contested = 'x'"},
)
OF_FIELDS = columns_with(
    {
        "status": FieldKind.FLOAT,
        "ratio": FieldKind.FLOAT,
        "cached": FieldKind.BOOLEAN,
        "path": FieldKind.TEXT,
        "later": FieldKind.TEXT,
        "contested": FieldKind.TEXT,
    }
)
RANKS = (
    {"aggregate": "count", "decay": "exp:half_life=10m"},
    {"aggregate": "rank", "decay": "window:90m", "value": 12, "counting": "events"},
    {"aggregate": "quantile", "decay": "poly:alpha=1.5,unit=1m", "phi": 0.9, "counting": "events"},
    {"aggregate": "correlated-count", "decay": "none", "tau": 20, "as_of": START + 3000},
)
EACH_ONCE = (
    {"aggregate": "count", "decay": "exp:half_life=10m"},
    {"aggregate": "frequency", "decay": "exp:half_life=10m", "value": 9, "counting": "events"},
)
ANY_MEAN = {"sample-counted-v5", "sample-uncounted-v9", "sample-field-totals-v10"}  # they lean on totals
BETTER_SINCE = ("ecm",)  # families that read more out of the same bytes: old estimates lie within the bounds
SINCE_2 = ("zeros", "events", "kll-floats", "kll-integers")  # cases that format 1 does not have

CASES: dict[str, tuple[Callable[[], Sketch], tuple[dict[str, Any], ...]]] = {
    "sample-units": (units, NUMBERS),
    "sample-weights": (weights, NUMBERS),
    "sample-floats": (floats, NUMBERS),
    "sample-keys": (keys, KEYS),
    "sample-empty": (empty, NUMBERS),
    "sample-copies": (copies, NUMBERS),
    "integral-weights": (integral_weights, INTEGRAL),
    "integral-keys": (integral_keys, INTEGRAL_KEYS),
    "histogram-weights": (histogram, TOTALS),
    "histogram-faded": (histogram_faded, TOTALS),
    "qdigest-faded": (qdigest_faded, KEYS),
    "qdigest-integers": (qdigest_integers, NUMBERS),
    "qdigest-floats": (qdigest_floats, NUMBERS),
    "qdigest-keys": (qdigest_keys, KEYS),
    "wbmh-integers": (wbmh_integers, NUMBERS),
    "wbmh-floats": (wbmh_floats, NUMBERS),
    "wbmh-cut": (wbmh_cut, NUMBERS),
    "division-keys": (division_keys, KEYS),
    "exponential-numbers": (exponential_numbers, FADED),
    "exponential-keys": (exponential_keys, FADED_KEYS),
    "ecm-aggregated": (ecm_aggregated, KEYS),
    "ecm-ranges": (ecm_ranges, (*COUNTED, *(one for one in NUMBERS if one["aggregate"] not in ("count", "mean")))),
    "ecm-randomised": (ecm_randomised, COUNTED[:2]),
    "retractable-numbers": (retractable, FADED[:1]),
    "sample-zeros": (zeros, (*NUMBERS, *EACH_ONCE)),
    "sample-stream-units": (stream_units, NUMBERS),
    "sample-counted": (stream_counted, (*NUMBERS, *EACH_ONCE)),
    "sample-uncounted": (stream_uncounted, (*NUMBERS, *EACH_ONCE)),
    "sample-stream-weights": (stream_weights, (*NUMBERS, *EACH_ONCE)),
    "sample-stream-floats": (stream_floats, NUMBERS),
    "sample-stream-keys": (stream_keys, KEYS),
    "sample-fields": (stream_fields, (*NUMBERS, *FIELDS)),
    "sample-field-totals": (stream_field_totals, (*NUMBERS, *FIELD_TOTALS)),
    "sample-stream-empty": (stream_empty, NUMBERS),
    "qdigest-zeros": (qdigest_zeros, (*NUMBERS, *EACH_ONCE)),
    "exponential-events": (exponential_events, EACH_ONCE),
    "ecm-events": (ecm_events, EACH_ONCE),
    "integral-events": (integral_events, EACH_ONCE),
    "retractable-events": (retractable_events, EACH_ONCE),
    "kll-floats": (kll, RANKS),
    "kll-integers": (kll_integers, RANKS),
}


def golden(name: str) -> Path:
    """The file of a case, in the format version that its family writes today or wrote last."""
    version = SAMPLE_FORMAT if name.startswith("sample-stream") else FORMAT_VERSION
    if name.startswith("ecm") and name != "ecm-randomised":
        version = ENTRIES_FORMAT
    if name.startswith(("histogram", "qdigest", "wbmh", "division", "exponential")):
        version = PATHS_FORMAT
    if name.endswith("-faded"):
        version = FADED_FORMAT
    if name == "wbmh-cut":
        version = DOUBT_FORMAT
    if name.startswith("retractable"):
        version = SIGNED_FORMAT
    of_samples = {
        "sample-counted": TOTALS_FORMAT,
        "sample-fields": FIELDS_FORMAT,
        "sample-uncounted": UNKNOWN_FORMAT,
        "sample-field-totals": FIELD_TOTALS_FORMAT,
    }
    version = of_samples.get(name, version)
    return GOLDEN / f"{name}-v{version}.bin"


def asked(aggregate: str, **settings: Any) -> Question:
    """A question as it was meant before there was a choice: events were counted, and shares were of weight."""
    counting = "events" if aggregate.endswith("count") else "weight"
    if "where" in settings:
        settings["where"] = Predicate.parse(settings["where"], OF_FIELDS)
    return Question(aggregate, **({"counting": counting} | settings))


def answers(sketch: Sketch, questions: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    """Each question with its estimate: what the bytes mean. Intervals may become tighter, so they are not kept."""
    found = []
    for question in questions:
        estimate = sketch.answer(asked(**question))
        items = [[item.value, item.estimate] for item in estimate.items]
        shape = estimate.as_dict()
        found.append({"question": question, "estimate": shape["estimate"], "as_of": estimate.as_of, "items": items})
    return found


@pytest.fixture(scope="module", autouse=True)
def _written_on_request() -> None:
    if os.environ.get("WANE_GOLDEN") != "write":
        return
    GOLDEN.mkdir(exist_ok=True)
    for name, (build, questions) in CASES.items():
        path = golden(name)
        if not path.exists():
            sketch = build()
            path.write_bytes(sketch.to_bytes())
            text = json.dumps(answers(sketch, questions), ensure_ascii=False, indent=1)
            path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")


def files() -> list[Path]:
    return sorted(GOLDEN.glob("*.bin"))


@pytest.mark.parametrize("name", CASES)
def test_every_case_has_its_file(name: str) -> None:
    """For the current format version each case is there, with its answers."""
    path = golden(name)
    assert path.exists()
    assert path.with_suffix(".json").exists()


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_old_bytes_load(path: Path) -> None:
    """Bytes of any version load; those that are written today are so again to the byte, samples as zlib deflates."""
    data = path.read_bytes()
    envelope = open_envelope(data)
    assert path.stem.endswith(f"-v{envelope.version}")
    sketch = load(data)
    if envelope.version in (FORMAT_VERSION, ENTRIES_FORMAT, PATHS_FORMAT) and path == golden(
        path.stem.rpartition("-v")[0]
    ):
        assert sketch.to_bytes() == data
    assert sketch.family == envelope.family
    assert load(sketch.to_bytes()).to_bytes() == sketch.to_bytes()


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_old_bytes_mean_the_same(path: Path) -> None:
    """Loaded sketches give the estimates that they gave when they were written."""
    sketch = load(path.read_bytes())
    for line in json.loads(path.with_suffix(".json").read_text(encoding="utf-8")):
        (found,) = answers(sketch, (line["question"],))
        assert found["as_of"] == line["as_of"]
        expected = float("nan") if line["estimate"] is None else line["estimate"]
        actual = float("nan") if found["estimate"] is None else found["estimate"]
        if sketch.family in BETTER_SINCE or path.stem == "sample-counted-v4":  # means lean on totals since
            now = sketch.answer(asked(**line["question"]))
            assert [item.value for item in now.items] == [value for value, _ in line["items"]]
            old = [(expected, now), *((share, item) for (_, share), item in zip(line["items"], now.items, strict=True))]
            assert all(each.lower <= share <= each.upper for share, each in old)
            continue
        # what totals are taken together under one g, and which mean g is, may change: any is unbiased
        digits = 1e-5 if path.stem in ANY_MEAN else 1e-9
        assert actual == pytest.approx(expected, rel=digits, nan_ok=True)
        assert [value for value, _ in found["items"]] == [value for value, _ in line["items"]]
        assert [share for _, share in found["items"]] == pytest.approx([share for _, share in line["items"]], rel=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_todays_build_gives_the_old_bytes(name: str) -> None:
    """The same events built today give the bytes of the file: hashing, sampling and folding have not moved.

    Of decayed masses the last digits are the processor's, and of what is deflated the bytes are zlib's: those alone
    may differ.
    """
    old, new = golden(name).read_bytes(), CASES[name][0]()
    if isinstance(new, Retractable):
        known = Retractable.from_bytes(old)
        assert (known.parameters, known.kind, known.extremes) == (new.parameters, new.kind, new.extremes)
        np.testing.assert_allclose(new.counters, known.counters, rtol=1e-12, atol=1e-12)
        return
    if not isinstance(new, Exponential):
        assert new.to_bytes() == (load(old).to_bytes() if isinstance(new, Sample) else old)
        return
    before = Exponential.from_bytes(old)
    assert (before.parameters, before.kind, before.extremes) == (new.parameters, new.kind, new.extremes)
    assert before.labels.texts == new.labels.texts
    for field in dataclasses.fields(new.masses):
        here, there = getattr(new.masses, field.name), getattr(before.masses, field.name)
        np.testing.assert_allclose(here, there, rtol=1e-12 if field.name in ("mass", "total", "astray") else 0)


def test_golden_sketches_merge_with_new_ones() -> None:
    """A sketch that was stored long ago merges with one built today, duplicates forgiven."""
    old = Sample.from_bytes((GOLDEN / "sample-weights-v1.bin").read_bytes())
    assert type(old) is EpochSample
    assert dataclasses.asdict(old.parameters) == dataclasses.asdict(weights().parameters)
    assert old.merge(weights()).to_bytes() == weights().to_bytes()
    stream = Sample.from_bytes(golden("sample-stream-weights").read_bytes())
    assert stream.merge(stream_weights()).to_bytes() == stream_weights().to_bytes()
    first = Integral.from_bytes((GOLDEN / "integral-weights-v1.bin").read_bytes())
    assert first.merge(integral_weights()).to_bytes() == integral_weights().to_bytes()


@pytest.mark.parametrize(
    "name", [name for name in CASES if not name.startswith(("sample", "integral")) and not name.endswith(SINCE_2)]
)
def test_golden_sketches_that_count_repeats_merge(name: str) -> None:
    """Merged with the same events built today they hold each of them twice, and all of their weight."""
    first = GOLDEN / f"{name}-v1.bin"
    old = load((first if first.exists() else golden(name)).read_bytes())
    question = asked("sum", decay="exp:half_life=10m", as_of=START + 3600)
    both = load(old.merge(CASES[name][0]()).to_bytes()).answer(question)
    once = old.answer(question)
    assert both.lower <= 2 * once.upper
    assert both.upper >= 2 * once.lower
    everything = Question("sum", "none")
    if isinstance(old, Histogram | QDigest):
        assert old.merge(CASES[name][0]()).answer(everything).value == 2 * old.answer(everything).value


@pytest.mark.parametrize("name", ["units", "weights", "floats", "keys", "zeros"])
def test_samples_of_epochs_are_taken_over(name: str) -> None:
    """Every golden sample of an epoch loads as one, and is moved whole or, where it was thinned, stays."""
    for path in sorted(GOLDEN.glob(f"sample-{name}-v*.bin")):
        data = path.read_bytes()
        old = Sample.from_bytes(data)
        assert isinstance(old, EpochSample)
        assert Sample.is_earlier(data)
        empty = Sample.build(Events.of([], []), seed=old.parameters.seed)
        moved, left = empty.moved([("a", old)])
        assert (left, moved.kept) == (([], old.kept) if old.complete else ([0], 0))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("ecm-aggregated-v*.bin")), ids=lambda path: path.stem)
def test_what_was_aggregated_wears_out_no_further(path: Path) -> None:
    """Logs that an earlier wane aggregated stay as they are beside those that are merged with them, and say so."""
    old = Ecm.from_bytes(path.read_bytes())
    depth = {"v1": 40, "v2": 40, "v7": 0}[path.stem.rpartition("-")[2]]
    assert old.depth == depth
    whole = reduce(lambda one, other: one.merge(other), [ecm_aggregated() for _ in range(3)], old)
    again = Ecm.from_bytes(Ecm.union([whole, old]).to_bytes())
    assert again.depth == depth
    assert (
        again.answer(Question("sum", counting="weight")).value
        == 5 * old.answer(Question("sum", counting="weight")).value
    )
    for decay in ("window:20m", "exp:half_life=10m"):
        found, once, new = (
            each.answer(Question("sum", decay, START + 3600)) for each in (again, old, ecm_aggregated())
        )
        assert found.lower <= 2 * once.upper + 3 * new.upper
        assert found.upper >= 2 * once.lower + 3 * new.lower
        assert ("aggregated 40 times" in found.guarantee) == (depth > 0)
