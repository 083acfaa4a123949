"""Counting how often the intervals of answers that lean on exact totals miss, by cells, against plain brute force.

A *cell* is a kind of stream, a question, a decay, a selection of sources, how repeats are taken, whether few or many
as-of times are asked for together (two ways through the code), and one of the times. In place of sources some values of
a field may be selected. Every trial has fresh data and a fresh seed. The sample is built as ingest builds it: parts
that have counted their rows, merged in any order.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sketches import Events, Question, Sample
from sketches.arrays import Flags, Floats, Ints
from sketches.decay import Decay
from sketches.estimate import Series
from sketches.family import Repeats
from sketches.fields import FieldKind
from sketches.predicate import Predicate, Range, Texts, columns_with
from sketches.sampling.askable_sample import AskableSample
from sketches.sampling.totals.row_totals import RowTotals
from tests.support.thinned import ALLOWED, Count

HOUR: Final = 3_600
DAY: Final = 24 * HOUR
DAYS: Final = 10
NAMES: Final = ("s0", "s1", "s2", "s3")
_ODDS: Final = (0.4, 0.3, 0.25, 0.05)  # that a source reports an event first
_BURST: Final = (6 * DAY, 6 * DAY + 3 * HOUR)  # in which 40% of the events come
_BEGINNING: Final = (0, 6 * HOUR)  # in which 20% come
_CHANGED: Final = (3 * DAY + 12 * HOUR + 900, 6 * DAY + 4_000)  # both ends cut an hour
_UNKNOWN: Final = 3 * DAY  # before it nothing was counted, in one kind of stream
MOMENTS: Final = {"now": DAYS * DAY - 1, "burst": 6 * DAY + 2 * HOUR, "past": 4 * DAY + 1_234, "early": 5 * HOUR}
_MANY: Final = np.array([*MOMENTS.values(), 2 * DAY, 5 * DAY + 77, 7 * DAY, 8 * DAY])
DECAYS: Final = ("exp:half_life=6h", "window:1d", "window:40m", "poly:alpha=1.5,unit=6h", "none")
SELECTIONS: Final[Mapping[str, tuple[str, ...]]] = {"one": NAMES[1:2], "two": (NAMES[0], NAMES[2]), "all": NAMES}
REGIONS: Final = np.array(["eu", "us", "ap", "sa", None], object)  # the field of events; None: it is missing
WHERES: Final[Mapping[str, Predicate]] = {
    name: Predicate.parse(text, columns_with({"region": FieldKind.TEXT}))
    for name, text in {
        "field = common": "region = 'eu'",
        "field = rare": "region = 'sa'",
        "field in two": "region in ('us', 'ap')",
        "field not common": "region != 'eu'",
        "field missing": "region is null",
    }.items()
}
EVENTS: Final = 12_000
EPSILON: Final = 0.15
_LOOKED_AT: Final = 3  # trials in which answers are compared with those that do not lean
TIMES_ASKED: Final = {"few": np.array(list(MOMENTS.values())), "many": _MANY}
_LAST_DIGITS: Final = 1e-12  # of the exact answer, which is added up in floats, too
_BELOW, _LOW, _HIGH, _COMMON, _SCARCE, _RARE = 0.5, 0.2, 0.6, 0.7, 0.9, 0.99  # shares of values that lie below
QUESTIONS: Final[Mapping[str, dict[str, Any]]] = {  # what is of values is given as a share of them
    "sum": {"aggregate": "sum"},
    "count": {"aggregate": "count"},
    "count by weight": {"aggregate": "count", "counting": "weight"},
    "mean": {"aggregate": "mean"},
    "sum of values": {"aggregate": "sum", "of": "value"},
    "sum of values by weight": {"aggregate": "sum", "of": "value", "counting": "weight"},
    "mean of values": {"aggregate": "mean", "of": "value"},
    "count below": {"aggregate": "count", "where": _BELOW},
    "sum of values below": {"aggregate": "sum", "of": "value", "where": _BELOW},
    "mean of values below": {"aggregate": "mean", "of": "value", "where": _BELOW},
    "range-sum": {"aggregate": "range-sum", "low": _LOW, "high": _HIGH},
    "range-sum of values": {"aggregate": "range-sum", "of": "value", "low": _LOW, "high": _HIGH},
    "correlated-sum, 30%": {"aggregate": "correlated-sum", "tau": _COMMON},
    "correlated-sum, 1%": {"aggregate": "correlated-sum", "tau": _RARE},
    "correlated-count, 30%": {"aggregate": "correlated-count", "tau": _COMMON},
    "correlated-count by weight, 10%": {"aggregate": "correlated-count", "tau": _SCARCE, "counting": "weight"},
    "correlated-count, 1%": {"aggregate": "correlated-count", "tau": _RARE},
    "correlated-sum of values, 10%": {"aggregate": "correlated-sum", "of": "value", "tau": _SCARCE},
    "correlated-mean, 30%": {"aggregate": "correlated-mean", "tau": _COMMON},
    "correlated-mean of values, 10%": {"aggregate": "correlated-mean", "of": "value", "tau": _SCARCE},
}


class Kind(NamedTuple):
    """A kind of stream: which share of its events repeats, weights, values, and what is done to its sample."""

    repeats: float
    weights: str
    values: str
    change: str = ""
    late: bool = False
    clustered: bool = False

    @property
    def taken(self) -> tuple[Repeats, ...]:
        """The ways in which its repeats may be taken."""
        if self.change == "unknown":
            return (Repeats.FORGIVEN,)
        return (Repeats.FORGIVEN, Repeats.COUNTED if self.repeats else Repeats.NONE)


KINDS: Final[Mapping[str, Kind]] = {
    "no repeats": Kind(0.0, "heavy", "uniform"),
    "4% repeated": Kind(0.04, "zero", "lognormal"),
    "30% repeated, tall values": Kind(0.3, "unit", "tall", late=True),
    "60% repeated": Kind(0.6, "heavy", "negative"),
    "repeats in one stretch": Kind(0.02, "zero", "zeros", clustered=True),
    "late by days": Kind(0.0, "constant", "floats below 1", late=True),
    "tall values": Kind(0.0, "zero", "tall"),
    "backfilled": Kind(0.04, "heavy", "lognormal", "backfill"),
    "source forgotten": Kind(0.3, "unit", "uniform", "source"),
    "stretch forgotten": Kind(0.0, "heavy", "zeros", "stretch"),
    "long slices": Kind(0.04, "heavy", "lognormal", "coarse"),
    "long slices, no repeats": Kind(0.0, "unit", "tall", "coarse"),
    "unknown before": Kind(0.04, "unit", "lognormal", "unknown"),
}


class Cell(NamedTuple):
    """What is counted together."""

    kind: str
    question: str
    decay: str
    selection: str
    repeats: str
    asked: str  # few times together, or many
    when: str


class Asked(NamedTuple):
    """What is asked at once: a cell but for the time."""

    question: str
    decay: str
    selection: str
    repeats: Repeats
    asked: str

    def cell(self, kind: str, when: str) -> Cell:
        return Cell(kind, self.question, self.decay, self.selection, self.repeats.value, self.asked, when)


@dataclass
class Widths(Count):
    """A count that also remembers how far estimates were off and how wide intervals were, relative to the truth."""

    errors: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)

    @property
    def slack(self) -> float:
        """The median width over that of a normal interval by the true standard deviation of the estimates."""
        spread = float(np.std(self.errors)) if len(self.errors) > 1 else 0.0
        return float(np.median(self.widths)) / (2 * 1.96 * spread) if spread > 0.0 else float("nan")


@dataclass(frozen=True)
class Rows:
    """Rows that came: the four columns, the number of each row's source, and the batch in which it came."""

    ids: Ints
    times: Ints
    values: NDArray[Any]
    weights: Ints
    sources: NDArray[np.int32]
    batches: Ints

    def take(self, which: Flags | Ints) -> Rows:
        return Rows(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    def and_also(self, other: Rows) -> Rows:
        return Rows(
            *(np.concatenate([getattr(self, name), getattr(other, name)]) for name in self.__dataclass_fields__)
        )


def values_of(kind: str, size: int, rng: np.random.Generator) -> NDArray[Any]:
    match kind:
        case "uniform":
            return rng.integers(0, 100, size)
        case "lognormal":
            return np.ceil(rng.lognormal(3.0, 1.2, size)).astype(np.int64)
        case "tall":
            return rng.lognormal(3.0, 2.0, size)
        case "zeros":
            return rng.integers(1, 500, size) * (rng.random(size) < 0.6)
        case "negative":
            return rng.normal(20.0, 50.0, size)
        case "floats below 1":
            return rng.random(size) ** 3
    raise ValueError(kind)


def _weights(kind: str, size: int, rng: np.random.Generator) -> Ints:
    match kind:
        case "unit":
            return np.ones(size, np.int64)
        case "zero":
            return rng.integers(0, 3, size)
        case "heavy":
            return np.ceil(rng.lognormal(2.0, 1.5, size)).astype(np.int64)
        case "constant":
            return np.full(size, 3)
    raise ValueError(kind)


def rows_of(kind: Kind, events: int, rng: np.random.Generator, between: tuple[int, int] = (0, DAYS * DAY)) -> Rows:
    """Fresh rows of about so many events, in any order and in batches."""
    ids = rng.integers(0, 1 << 60, events)
    lot = rng.random(events)
    times = np.where(lot < 0.4, rng.integers(*_BURST, events), rng.integers(0, DAYS * DAY, events))
    times = np.where(lot > 0.8, rng.integers(*_BEGINNING, events), times)
    times = np.where((times >= between[0]) & (times < between[1]), times, rng.integers(*between, events))
    values, weights = values_of(kind.values, events, rng), _weights(kind.weights, events, rng)
    share = np.full(events, kind.repeats)
    if kind.clustered:
        share[(times >= _BURST[0] + HOUR // 2) & (times < _BURST[0] + 2 * HOUR)] = 0.95
        share[times // DAY == 3] = 0.95
    more = np.where(rng.random(events) < share, rng.integers(1, 4, events), 0)
    first = rng.choice(len(NAMES), events, p=_ODDS)
    again = np.repeat(np.arange(events), more)
    elsewhere = rng.random(len(again)) < 0.5
    others = np.where(elsewhere, rng.choice(len(NAMES), len(again), p=_ODDS), first[again])
    order = rng.permutation(events + len(again))
    event = np.append(np.arange(events), again)[order]
    sources = np.append(first, others)[order].astype(np.int32)
    batches = rng.integers(0, 3, len(event))
    if kind.late:
        batches = np.where(rng.random(len(event)) < 0.2, 3, times[event] // (4 * DAY))
    return Rows(ids[event], times[event], values[event], weights[event], sources, batches)


def stream_of(name: str, events: int, seed: int, epsilon: float) -> tuple[Sample, Rows]:
    """A sample that has counted its rows, and the rows that it is then asked about."""
    kind, rng = KINDS[name], np.random.default_rng([seed, zlib.crc32(name.encode())])
    rows = rows_of(kind, events, rng)
    settings: dict[str, Any] = {"epsilon": epsilon, "detail": 1, "seed": seed}
    parts = [_partial(rows.take(rows.batches == batch), settings) for batch in np.unique(rows.batches).tolist()]
    if kind.change == "coarse":
        parts = [_coarse(part) for part in parts]
    if kind.change == "unknown":
        old = rows.times < _UNKNOWN
        before = _partial(rows.take(old), settings)
        before = replace(before, totals=None, rows=replace(before.rows, counts=None))
        parts = [before, *(_partial(rows.take(~old & (rows.batches == batch)), settings) for batch in range(3))]
    sample = Sample.union([parts[at] for at in rng.permutation(len(parts))])
    begin, end = _CHANGED
    inside = (rows.times >= begin) & (rows.times < end)
    match kind.change:
        case "backfill":
            fresh = rows_of(kind, events // 2, rng, _CHANGED)
            sample = Sample.union([sample.without(begin, end), _partial(fresh, settings)])
            rows = rows.take(~inside).and_also(fresh)
        case "source":
            sample, rows = sample.without(begin, end, [NAMES[2]]), rows.take(~(inside & (rows.sources == 2)))
        case "stretch":
            sample, rows = sample.without(begin, end), rows.take(~inside)
        case "coarse":
            sample = _coarse(sample)
    return sample, rows


def _partial(rows: Rows, settings: Mapping[str, Any]) -> Sample:
    """The sample that a worker makes of some rows."""
    fields = {"region": REGIONS[regions_of(rows.ids, rows.times)]}
    events = Events.of(rows.ids, rows.times, rows.values, rows.weights, fields=fields)
    return Sample.partial(events, rows.sources, NAMES, **settings)


def regions_of(ids: Ints, times: Ints) -> Ints:
    """The number of each event's region: the same in all copies of it, and by and by others are frequent."""
    lot = (ids ^ ids >> 17) % 100 + times // (2 * DAY) * 3
    return np.searchsorted([45, 75, 95, 98], lot % 100, side="right")


def _coarse(sample: Sample) -> Sample:
    """The sample with so little room for totals that most slices are many hours long."""
    totals = sample.totals
    assert totals is not None
    by_field = {name: one.fitted(100) for name, one in totals.by_field.items()}
    by_source, by_class = totals.by_source.fitted(80), totals.by_class.fitted(160)
    return replace(sample, totals=RowTotals(totals.hourly, by_source, by_class, by_field))


@cache
def value_below(values: str, share: float) -> float:
    """What about such a share of the values of a kind lies below, fixed for all trials; whole where values are."""
    drawn = np.sort(values_of(values, 200_000, np.random.default_rng(1)))
    return float(drawn[int(share * len(drawn))])


@cache
def question_of(question: str, decay: str, values: str) -> Question:
    settings = dict(QUESTIONS[question])
    for name in ("tau", "low", "high"):
        if name in settings:
            settings[name] = value_below(values, settings[name])
    if "where" in settings:
        settings["where"] = Predicate.of(None, value=Range(high=value_below(values, settings["where"]), open_high=True))
    return Question(decay=decay, confidence=1 - ALLOWED, **settings)


class Exact:
    """Exact answers about the rows of some sources, from the sentences of docs/rows and `sketches.question` alone.

    Rows that agree in id, time, value and weight are one event. It counts once, or as often as it came.
    """

    def __init__(self, rows: Rows) -> None:
        columns = (rows.weights, rows.values, rows.times, rows.ids)
        order = np.lexsort(columns)
        new = np.append(True, np.logical_or.reduce([np.diff(column[order]) != 0 for column in columns]))
        number = np.cumsum(new) - 1
        first = order[new]
        self.times, self.values, self.weights = rows.times[first], rows.values[first], rows.weights[first]
        self.regions = regions_of(rows.ids[first], rows.times[first])
        self.came = np.zeros((len(NAMES), len(first)))
        np.add.at(self.came, (rows.sources[order], number), 1.0)
        self._factors: dict[str, Floats] = {}

    def factors(self, decay: Decay) -> Floats:
        """f of each event at each of the times that are counted."""
        if decay.spec not in self._factors:
            ages = TIMES_ASKED["few"][:, None] - self.times
            found = decay(np.maximum(ages, 0).astype(np.float64))
            self._factors[decay.spec] = np.where(ages >= 0, found, 0.0)
        return self._factors[decay.spec]

    def answers(self, question: Question, sources: Sequence[str], repeats: Repeats) -> Floats:
        came = self.came[[NAMES.index(name) for name in sources]].sum(axis=0)
        once = came if repeats is Repeats.COUNTED else (came > 0).astype(np.float64)
        if "region" in question.where.columns:
            missing = self.regions == len(REGIONS) - 1
            texts = Texts(np.where(missing, 0, self.regions), tuple(REGIONS[:-1]), missing)
            once = once * question.where.holds(lambda _: texts)
        counted = once * self.weights if question.by_weight else once
        for bound, inside in (
            (question.tau, lambda limit: self.values >= limit),
            (question.low, lambda limit: self.values >= limit),
            (question.high, lambda limit: self.values <= limit),
            (question.where.range_of("value").high if question.where else None, lambda limit: self.values < limit),
        ):
            if bound is not None:
                once, counted = once * inside(bound), counted * inside(bound)
        f = self.factors(question.decay)
        summed = counted * self.values if question.of_value else once * self.weights
        if question.aggregate.endswith("count"):
            return np.asarray(f @ counted)
        if question.aggregate.endswith("sum"):
            return np.asarray(f @ summed)
        mass = f @ (counted if question.of_value else once)
        return np.asarray(np.divide(f @ summed, mass, out=np.full(len(mass), np.nan), where=mass > 0.0))


def asked_of(name: str, *, every: bool = False) -> list[Asked]:
    """What is asked of a kind of stream: every other question, or all, each under a decay and of sources by lot."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    found: list[Asked] = []
    for question, settings in QUESTIONS.items():
        restricted = any(key in settings for key in ("tau", "where", "low"))  # totals by class are of all sources
        possible = [
            Asked(question, decay, selection, repeats, asked)
            for decay in DECAYS
            for selection in (("all",) if restricted else SELECTIONS)
            for repeats in KINDS[name].taken
            for asked in TIMES_ASKED
        ]
        found.append(possible[int(rng.integers(len(possible)))])
    return found if every else found[list(KINDS).index(name) % 2 :: 2]


def asked_of_field(name: str) -> list[Asked]:
    """What is asked of a kind of stream about some values of a field: each selection of them, with each question that
    is not restricted otherwise, by lot."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    questions = ("sum", "count", "count by weight", "mean", "sum of values", "mean of values")
    possible = [
        Asked(question, decay, where, repeats, asked)
        for decay in DECAYS
        for question in questions
        for where in WHERES
        for repeats in KINDS[name].taken
        for asked in TIMES_ASKED
    ]
    return [possible[at] for at in rng.choice(len(possible), 12, replace=False).tolist()]


def count(
    name: str, asked: Sequence[Asked], seeds: Iterable[int], *, events: int = EVENTS, epsilon: float = EPSILON
) -> dict[Cell, Widths]:
    """Count the cells of one kind of stream, each once a seed; those in which no answer leans are left out."""
    counts, leans = dict[Cell, Widths](), set[Cell]()
    for trial, seed in enumerate(seeds):
        if trial == _LOOKED_AT:
            asked = [one for one in asked if leans.intersection(one.cell(name, when) for when in MOMENTS)]
        sample, rows = stream_of(name, events, seed, epsilon)
        exact = Exact(rows)
        assert sample.kept < 0.4 * len(exact.times), "the sample must have been thinned"
        askables = _askables(sample, asked)
        for one in asked:
            question = question_of(one.question, one.decay, KINDS[name].values)
            if one.selection in WHERES:
                question = replace(question, where=WHERES[one.selection])
            askable, times = askables[one.selection, one.repeats], TIMES_ASKED[one.asked]
            found = askable.series(question, times)
            truth = exact.answers(question, SELECTIONS.get(one.selection, NAMES), one.repeats)
            if trial < _LOOKED_AT:
                plain = _without_totals(askable).series(question, times)
                leant = (found.upper != plain.upper) | (found.lower != plain.lower)
                leans |= {one.cell(name, when) for at, when in enumerate(MOMENTS) if leant[at]}
            for at, when in enumerate(MOMENTS):
                _see(counts.setdefault(one.cell(name, when), Widths()), found, at, float(truth[at]))
    return {cell: counts[cell] for cell in counts if cell in leans}


def _askables(sample: Sample, asked: Sequence[Asked]) -> dict[tuple[str, Repeats], AskableSample]:
    pairs = dict.fromkeys((one.selection, one.repeats) for one in asked)
    return {(selection, repeats): sample.of(SELECTIONS.get(selection, NAMES), repeats) for selection, repeats in pairs}


def _without_totals(askable: AskableSample) -> AskableSample:
    return replace(askable, sample=replace(askable.sample, totals=None))


def _see(counted: Widths, found: Series, at: int, truth: float) -> None:
    if np.isnan(truth):
        return
    lower, upper, slack = float(found.lower[at]), float(found.upper[at]), _LAST_DIGITS * abs(truth)
    counted.trials += 1
    counted.missed += not lower - slack <= truth <= upper + slack
    counted.above += truth > upper + slack
    counted.exact += lower == upper
    if truth:
        counted.errors.append((float(found.value[at]) - truth) / abs(truth))
        counted.widths.append((upper - lower) / abs(truth))
