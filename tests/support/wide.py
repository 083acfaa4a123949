"""Wide events: exact answers about events with fields, from the sentence that a user reads, and random questions.

Which events satisfy a predicate is left to DuckDB, which reads the same text; everything else is plain sums in numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from sketches import Events, Question
from sketches.errors import QuestionError
from sketches.estimate import Group
from sketches.fields import FieldColumn, FieldKind
from sketches.predicate import ColumnType, Predicate, columns_with

DECAYS = ("none", "window:{third}s", "exp:half_life={tenth}s", "poly:alpha=1.2,unit={hundredth}s")

SPAN = 400_000
PATHS = np.array(["/", "/cart", "/pay", "/about", "/it's", "/ä", "/old", "/new"], object)
NAMES = ["east", "north", "west"]


@dataclass(frozen=True, eq=False)
class Wide:
    """Rows of events in order of arrival; fields are arrays whose missing entries are None or NaN."""

    ids: Any
    times: Any
    values: Any
    weights: Any
    sources: Any
    fields: Mapping[str, Any]

    def events(self) -> Events:
        return Events.of(self.ids, self.times, self.values, self.weights, fields=self.fields)

    @cached_property
    def kinds(self) -> dict[str, FieldKind]:
        return {name: FieldColumn.of(column).kind for name, column in self.fields.items()}

    @cached_property
    def numbers(self) -> list[str]:
        """What can be summed."""
        return ["value", "weight", *(name for name, kind in self.kinds.items() if kind.is_number)]

    @cached_property
    def first(self) -> Any:
        """The rows that are the first of their event."""
        keys = np.stack([np.asarray(one).astype(np.float64).view(np.int64) for one in (self.values, self.weights)])
        table = np.stack([self.ids.astype(np.int64), self.times.astype(np.int64), *keys])
        return np.sort(np.unique(table, axis=1, return_index=True)[1])

    def column(self, name: str) -> Any:
        """A column of the distinct events; missing numbers are NaN, missing text is None."""
        if name not in self._columns:
            self._columns[name] = self._column(name)
        return self._columns[name]

    @cached_property
    def _columns(self) -> dict[str, Any]:
        return {}

    def _column(self, name: str) -> Any:
        own = {"value": self.values, "weight": self.weights, "time": self.times, "source": self.sources}
        found = np.asarray(own.get(name, self.fields.get(name)))[self.first]
        if name in own or self.kinds[name] is FieldKind.TEXT:
            return found
        return np.array([np.nan if one is None else one for one in found.tolist()], np.float64)

    @cached_property
    def _table(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect()
        names = ["value", "weight", "time", "source", *self.fields]
        columns = {name: pa.array(self.column(name).tolist(), from_pandas=True) for name in names}
        for name, kind in self.kinds.items():
            if kind is FieldKind.BOOLEAN:
                columns[name] = pa.array([None if np.isnan(one) else bool(one) for one in self.column(name)])
        table = pa.table({"place": np.arange(len(self.first)), **columns})
        connection.register("arrived", table)
        connection.execute("CREATE TABLE events AS FROM arrived")
        return connection

    def satisfy(self, predicate: Predicate) -> Any:
        """Which of the distinct events satisfy a predicate, as DuckDB reads its text."""
        if not predicate:
            return np.ones(len(self.first), bool)
        rows = self._table.execute(f"SELECT coalesce(({predicate}), false) FROM events ORDER BY place").fetchall()
        return np.array([one for (one,) in rows], bool)

    def faded(self, question: Question) -> Any:
        """What each of the distinct events counts at its age."""
        times = self.times[self.first]
        assert question.as_of is not None
        ages = question.as_of - times
        return np.where(ages >= 0, question.decay(np.maximum(ages, 0).astype(np.float64)), 0.0)

    def rows(self, which: Any) -> Wide:
        """Some of the rows that arrived, as a stream of their own."""
        columns = (self.ids, self.times, self.values, self.weights, self.sources)
        fields = {name: column[which] for name, column in self.fields.items()}
        return Wide(*(column[which] for column in columns), fields)

    def exact(self, question: Question, inside: Any = True) -> float:
        """The exact answer, over the events that are `inside` besides; NaN where nothing counts."""
        f, about = self._counted(question, inside)
        return _ANSWERS[question.aggregate.removeprefix("correlated-")](self, question, f, about)

    def exact_by(self, question: Question, name: str) -> dict[Group, float]:
        """The exact answers of all groups of a field."""
        answer = _ANSWERS[question.aggregate.removeprefix("correlated-")]
        if question.threshold is not None and question.threshold.own:
            f, about = self._before_thresholds(question, True)
            about = about & self._above_own(question, f, self.rows_by(name))
            f = self._summed_by(question, f)
        else:
            f, about = self._counted(question, True)
        return {
            group: answer(_Some(self, rows), question, f[rows], about[rows])
            for group, rows in self.rows_by(name).items()
        }

    def rows_by(self, name: str) -> dict[Group, Any]:
        """The groups of a field, and the numbers of the distinct events in each."""
        column = self.column(name)
        texts = self.kinds[name] is FieldKind.TEXT
        known = np.array([one is not None for one in column]) if texts else ~np.isnan(column)
        groups, codes = np.unique(column[known].astype(str) if texts else column[known], return_inverse=True)
        order = np.argsort(codes, kind="stable")
        parts = np.split(np.flatnonzero(known)[order], np.cumsum(np.bincount(codes, minlength=len(groups)))[:-1])
        found: dict[Group, Any] = dict(zip(groups.tolist(), parts, strict=True))
        return found | ({} if known.all() else {None: np.flatnonzero(~known)})

    def _counted(self, question: Question, inside: Any) -> tuple[Any, Any]:
        """What each of the distinct events counts, and which of them the question is about."""
        f, about = self._before_thresholds(question, inside)
        if question.threshold is not None:
            compared = self.column(question.compared)
            assert question.threshold.phi is not None
            tau = question.threshold.factor * quantile(compared, f, question.threshold.phi)
            about = about & (compared >= tau)
        elif question.tau is not None and question.aggregate.startswith("correlated"):
            about = about & (self.column("value") >= question.tau)
        return self._summed_by(question, f), about

    def _before_thresholds(self, question: Question, inside: Any) -> tuple[Any, Any]:
        f, about = self.faded(question), self.satisfy(question.where) & inside
        return (f * self.column("weight") if question.by_weight else f), about

    def _summed_by(self, question: Question, f: Any) -> Any:
        of_weight = question.sums and not question.of_value  # the weight itself, however events are counted
        return self.faded(question) if of_weight else f

    def _above_own(self, question: Question, f: Any, groups: Mapping[Group, Any]) -> Any:
        """Which events are at or above the threshold of their own group."""
        assert question.threshold is not None
        assert question.threshold.phi is not None
        compared, found = self.column(question.compared), np.zeros(len(f), bool)
        for rows in groups.values():
            tau = question.threshold.factor * quantile(compared[rows], f[rows], question.threshold.phi)
            found[rows] = compared[rows] >= tau
        return found

    def groups(self, name: str) -> dict[Group, Any]:
        """The groups of a field, and which of the distinct events are in each."""
        column = self.column(name)
        if self.kinds[name] is FieldKind.TEXT:
            found: dict[Group, Any] = {text: column == text for text in {one for one in column if one is not None}}
            missing = np.array([one is None for one in column])
        else:
            found = {one: column == one for one in np.unique(column[~np.isnan(column)]).tolist()}
            missing = np.isnan(column)
        return found | ({None: missing} if missing.any() else {})


class _Some:
    """Some of the distinct events."""

    def __init__(self, wide: Wide, rows: Any) -> None:
        self.wide, self.rows = wide, rows

    def column(self, name: str) -> Any:
        return self.wide.column(name)[self.rows]

    def satisfy(self, predicate: Predicate) -> Any:
        return self.wide.satisfy(predicate)[self.rows]

    def faded(self, question: Question) -> Any:
        return self.wide.faded(question)[self.rows]


@cache
def requests(seed: int, size: int = 20_000) -> Wide:
    """Requests of three sources: floats as values, weights, five fields; a tenth comes twice, some from two sources."""
    rng = np.random.default_rng(seed)
    latency = np.round(rng.lognormal(3.0, 1.2, size), 2)
    status = rng.choice([200, 301, 404, 500], size, p=[0.85, 0.05, 0.07, 0.03])
    path = PATHS[np.minimum(rng.geometric(0.35, size) - 1, len(PATHS) - 1)]
    size_kb = rng.gamma(2.0, 20.0, size) * (1.0 + (status == 200))
    agent = np.where(rng.random(size) < 0.1, None, path + "!")  # known only of some
    times = np.sort(rng.integers(0, SPAN, size))
    rows = np.concatenate([np.arange(size), rng.choice(size, size // 10), rng.choice(size, size // 20)])
    rows = rows[rng.permutation(len(rows))]
    return Wide(
        (10_000_000 * seed + np.arange(size))[rows],
        times[rows],
        latency[rows],
        rng.poisson(3.0, size)[rows],
        rng.integers(0, len(NAMES), len(rows)),
        {
            "status": status[rows],
            "path": path[rows],
            "size_kb": np.where(rng.random(size) < 0.05, np.nan, size_kb)[rows],
            "cached": (rng.random(size) < 0.3)[rows],
            "agent": agent[rows],
        },
    )


def quantile(column: Any, f: Any, phi: float) -> float:
    """The smallest value whose cumulated decayed count reaches φ."""
    known = ~np.isnan(column) & (f > 0)
    values, f = column[known], f[known]
    if not len(values):
        return np.nan
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(f[order]) >= phi * f.sum() * (1 - 1e-12)
    return float(values[order][np.argmax(reached)])


def _known(wide: Wide | _Some, name: str) -> tuple[Any, Any]:
    column = wide.column(name)
    known = np.array([one is not None for one in column]) if column.dtype == object else ~np.isnan(column * 1.0)
    return column, known


def _sum(wide: Wide | _Some, question: Question, f: Any, about: Any) -> float:
    column, known = _known(wide, question.measured)
    which = about & known
    return float((column[which].astype(np.float64) * f[which]).sum())


def _mean(wide: Wide | _Some, question: Question, f: Any, about: Any) -> float:
    _, known = _known(wide, question.measured)
    whole = f[about & known].sum()
    return _sum(wide, question, f, about) / whole if whole > 0 else np.nan


def _ratio_of_sums(wide: Wide | _Some, question: Question, f: Any, about: Any) -> float:
    sums = []
    for name in (question.of, question.per):
        assert name is not None
        if name != "events":
            about = about & _known(wide, name)[1]
    for name in (question.of, question.per):
        column = np.ones(len(f)) if name == "events" else wide.column(str(name)).astype(np.float64)
        counted = wide.faded(question) if name == "weight" else f  # a weight is summed once, however events count
        sums.append((column[about] * counted[about]).sum())
    return _ratio(sums[0], sums[1])


def _variance(wide: Wide | _Some, question: Question, f: Any, about: Any) -> float:
    column, known = _known(wide, question.measured)
    which = about & known
    if f[which].sum() <= 0:
        return np.nan
    values = column[which].astype(np.float64)
    mean = (values * f[which]).sum() / f[which].sum()
    return float((np.square(values - mean) * f[which]).sum() / f[which].sum())


def _stddev(wide: Wide | _Some, question: Question, f: Any, about: Any) -> float:
    return float(np.sqrt(_variance(wide, question, f, about)))


def _count(wide: Wide | _Some, question: Question, f: Any, about: Any) -> float:
    return float(f[about].sum())


def _share(wide: Wide | _Some, question: Question, f: Any, about: Any) -> float:
    if question.share:
        return _ratio(f[about & wide.satisfy(question.share)].sum(), f[about].sum())
    column, known = _known(wide, question.compared)
    which = about & known
    if question.aggregate == "frequency":
        inside = column == question.value
    elif question.aggregate == "rank":
        inside = column <= question.value
    else:
        numbers = np.where(known, column, 0)
        low, high = (question.tau, None) if question.tau is not None else (question.low, question.high)
        inside = (numbers >= (-np.inf if low is None else low)) & (numbers <= (np.inf if high is None else high))
    return _ratio(f[which & inside].sum(), f[which].sum())


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else np.nan


def _quantile(wide: Wide | _Some, question: Question, f: Any, about: Any) -> float:
    assert question.phi is not None
    ranked = question.ranked if question.ranks_above else question.compared
    return quantile(wide.column(ranked).astype(np.float64), np.where(about, f, 0.0), question.phi)


_ANSWERS: dict[str, Callable[[Wide | _Some, Question, Any, Any], float]] = {
    "sum": _sum,
    "mean": _mean,
    "count": _count,
    "variance": _variance,
    "stddev": _stddev,
    "ratio": _ratio_of_sums,
    "selectivity": _share,
    "frequency": _share,
    "rank": _share,
    "quantile": _quantile,
    "median": _quantile,
}


def random_term(wide: Wide, rng: np.random.Generator) -> str:
    """A condition on one column, from common to rare."""
    name = str(rng.choice(["value", "weight", "time", *wide.fields]))
    column, known = _known(wide, name)
    some = column[known]
    if not len(some):
        return f"{name} is null"
    if name in wide.fields and rng.random() < 0.1:
        return f"{name} is {'not ' if rng.random() < 0.8 else ''}null"
    if name in wide.kinds and wide.kinds[name] is FieldKind.BOOLEAN:
        return f"{name} = {str(bool(rng.choice(some))).lower()}"
    if some.dtype == object:
        texts = [str(one).replace("'", "''") for one in rng.choice(some, rng.integers(1, 4))]
        if rng.random() < 0.2 and "_" not in texts[0] and "%" not in texts[0] and "'" not in texts[0]:
            return f"{name} like '{texts[0][:2]}%'"
        listed = ", ".join(f"'{text}'" for text in texts)
        return f"{name} {rng.choice(['in', 'in', 'not in'])} ({listed})"
    number = float(np.quantile(some.astype(np.float64), rng.random(), method="nearest"))
    written = repr(int(number)) if number == int(number) else repr(number)
    return f"{name} {rng.choice(['>=', '>', '<', '<=', '>=', '='] if name != 'time' else ['>=', '<'])} {written}"


def random_where(wide: Wide, rng: np.random.Generator, columns: Mapping[str, ColumnType], most: int = 4) -> Predicate:
    """Up to four conditions, joined by and, or and not."""
    terms = [random_term(wide, rng) for _ in range(rng.integers(0, most + 1))]
    if not terms:
        return Predicate()
    text = terms[0]
    for term in terms[1:]:
        text = f"({text}) {rng.choice(['and', 'and', 'or'])} {'not ' if rng.random() < 0.15 else ''}({term})"
    return Predicate.parse(text, columns)


def random_question(wide: Wide, rng: np.random.Generator, *, grouped: bool = False) -> Question:
    """Any aggregate of any column, where up to four terms hold, under some decay, as of now or the past."""
    while True:
        try:
            return _random_question(wide, rng, grouped)
        except QuestionError as error:
            if "no event has both" not in str(error) and "no value can be both" not in str(error):
                raise


def _random_question(wide: Wide, rng: np.random.Generator, grouped: bool) -> Question:
    span = int(wide.times.max() - wide.times.min())
    lengths = {"third": span // 3, "tenth": max(span // 10, 1), "hundredth": max(span // 100, 1)}
    decay = str(rng.choice(DECAYS)).format(**lengths)
    as_of = int(wide.times.max() - (0 if rng.random() < 0.5 else rng.random() * 0.6 * span))
    columns = columns_with(wide.kinds)
    where = random_where(wide, rng, columns)
    number = str(rng.choice(wide.numbers))
    common: dict[str, Any] = {"as_of": as_of, "where": where}
    kinds = ["ratio", "sum", "mean", "count", "median", "quantile", "tau", "selectivity"]
    kinds += ["variance", "stddev"] if grouped else ["variance", "stddev", "threshold", "share", "frequency"]
    match str(rng.choice(kinds)):
        case "sum" | "mean" | "variance" | "stddev" as aggregate:
            return Question(aggregate, decay, of=number, **common)
        case "ratio":
            measures = rng.choice([*wide.numbers, "events"], 2, replace=False)
            return Question("ratio", decay, of=str(measures[0]), per=str(measures[1]), **common)
        case "tau":
            tau = float(np.quantile(wide.values, rng.uniform(0.2, 0.95), method="nearest"))
            return Question(str(rng.choice(["sum", "mean"])), decay, of=number, tau=tau, **common)
        case "median" | "quantile" as aggregate:
            phi = None if aggregate == "median" else float(rng.choice([0.1, 0.9, 0.99]))
            return Question(aggregate, decay, of=number, phi=phi, **common)
        case "selectivity":
            column, known = _known(wide, number)
            tau = float(np.quantile(column[known].astype(np.float64), rng.random(), method="nearest"))
            return Question("selectivity", decay, of=number, tau=tau, **common)
        case "threshold":
            compared = str(rng.choice([name for name in wide.numbers if name != "weight"]))
            term = Predicate.parse(f"{compared} >= median({compared})", columns)
            common["where"] = where.and_also(term)  # median() over all events, before the other terms
            aggregate = str(rng.choice(["sum", "mean", "count", "quantile"]))
            if aggregate == "quantile":
                return Question(aggregate, decay, of=number, phi=float(rng.choice([0.1, 0.5, 0.9])), **common)
            return Question(aggregate, decay, of=None if aggregate == "count" else number, **common)
        case "share":
            share = Predicate.parse(random_term(wide, rng), columns)
            return Question("selectivity", decay, share=share, **common)
        case "frequency" if any(kind is FieldKind.TEXT for kind in wide.kinds.values()):
            name = str(rng.choice([name for name, kind in wide.kinds.items() if kind is FieldKind.TEXT]))
            column, known = _known(wide, name)
            return Question("frequency", decay, of=name, value=str(rng.choice(column[known])), **common)
        case _:
            return Question("count", decay, **common)
