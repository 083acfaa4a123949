"""Asks a store what a statement asks: one call for each aggregate, whatever the number of rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from sketches.arrays import Flags, Floats, Rows
from sketches.errors import UnanswerableError
from sketches.estimate import Estimate, Series, Split, trade_places
from sketches.formatting import calendar_time, counted, number_text, numbered_moment_text
from sketches.records import dataclass
from sketches.sentences import sentence
from sketches.units import TimeUnit
from store.serving.catalogue import StoredStream
from store.serving.planner import counts_rows
from store.serving.provenance import Provenance
from store.serving.resolving import names_of
from store.serving.split_answer import BY_GROUP, SOURCE, family_by_source, group_text
from store.serving.sql.aggregates import Measure
from store.serving.sql.clauses import FORM, Clauses
from store.serving.sql.conditions import Interval
from store.serving.sql.limits import Limits
from store.serving.sql.sql_answer import HAVING_UNDECIDED, ORDER_UNDECIDED, TOO_WIDE, SqlAnswer
from store.serving.sql.statement import (
    AS_OF,
    OMIT,
    STRICT,
    TIME,
    Contract,
    Reader,
    Statement,
    named_stream,
    stream_name,
)
from store.serving.sql.text import Text
from store.serving.sql.values import Clock

if TYPE_CHECKING:
    from store.serving.store import Store


def answer(store: Store, statement: str, now: datetime | None = None, limits: Limits | None = None) -> SqlAnswer:
    """The answer to a statement; `now` is the time that now() means."""
    text, clock = Text.read(statement), Clock(now or datetime.now(UTC))
    match text.upper(0):
        case "SELECT":
            return replace(_selected(store, _read(store, text, 0, clock), limits or Limits()), of_now=clock.asked)
        case "EXPLAIN" if text.upper(1) == "SELECT":
            return _explained(store, _read(store, text, 1, clock))
        case "EXPLAIN":
            raise text.refusal(text.words[0].end + 1, "expected SELECT after EXPLAIN")
        case "SHOW":
            return _streams(store, text)
        case "DESCRIBE" | "DESC":
            return _described(store, text)
    raise text.refusal(0, f"expected SELECT, EXPLAIN SELECT, SHOW STREAMS or DESCRIBE and a stream; {FORM}")


def _read(store: Store, text: Text, first: int, clock: Clock) -> Statement:
    clauses = Clauses.read(text, first)
    name = stream_name(text, clauses.select, _known(store))
    return Reader(clauses, store.catalogue(name).stream(name), clock).read()


def _known(store: Store) -> list[str]:
    held = store.catalogue()
    return sorted(held.streams)


@dataclass(frozen=True)
class _Answered:
    """One aggregate's answers, one a row, and what tells the rows apart."""

    keys: tuple[Any, ...]
    interval: Interval
    confidence: float
    guarantee: str
    as_of: int | None  # None: each row has its own
    provenance: Provenance

    def told(self) -> dict[str, Any]:
        origin = self.provenance
        return {
            "asked": origin.asked,
            "confidence": self.confidence,
            "family": origin.family,
            "why": origin.why,
            "guarantee": self.guarantee,
            "as_of": self.as_of,
            "complete": origin.complete,
        }


def _ask(store: Store, asked: Statement, measure: Measure) -> _Answered:
    stream, question = asked.stream, measure.question
    given: dict[str, Any] = {"sources": list(asked.sources), "family": asked.family}
    if measure.joined is not None:
        given |= {"sources": [measure.joined[0]], "other": measure.joined[1]}
    with asked.text.refusing(measure.place):
        if asked.group is not None:
            split = store.split(stream, question, by=asked.group, **given)
            return _of(split.split.names, split.split, split.provenance)
        if asked.times is not None:
            series, origin = store.series(stream, question, asked.times, **given)
            return _of(tuple(series.as_of.tolist()), series, origin)
        found = store.ask(stream, question, **given)
    return _of_estimate(found.estimate, found.provenance, listed=measure.column is not None)


def _of(keys: tuple[Any, ...], found: Split | Series, origin: Provenance) -> _Answered:
    interval = Interval(found.value, found.lower, found.upper)
    as_of = found.as_of if isinstance(found, Split) else None
    return _Answered(keys, interval, found.confidence, found.guarantee, as_of, origin)


def _of_estimate(found: Estimate, origin: Provenance, *, listed: bool) -> _Answered:
    rows = found.items if listed else ()
    numbers = [(one.estimate, one.lower, one.upper) for one in rows]
    if not listed:
        numbers = [(found.value, found.lower, found.upper)]
    columns = np.array(numbers, np.float64).reshape(-1, 3).T
    keys = tuple(one.value for one in rows) if listed else (None,)
    return _Answered(keys, Interval(*columns), found.confidence, found.guarantee, found.as_of, origin)


def _all_asked(store: Store, asked: Statement, limits: Limits) -> list[_Answered]:
    """The answers of all aggregates, of one commit of the store."""
    begun, found = time.monotonic(), list[_Answered]()
    rows = len(asked.times) if asked.times is not None else 1
    for measure in asked.measures:
        shown = rows if asked.limit is None else min(rows, asked.limit)
        if (cells := shown * (1 + 3 * asked.shown)) > limits.cells:
            raise asked.text.refusal(
                measure.place,
                f"the answer would have {cells:,} numbers; at most {limits.cells:,} are given: ask for fewer "
                "aggregates or times, or say LIMIT",
                UnanswerableError,
            )
        if time.monotonic() - begun > limits.seconds:
            raise asked.text.refusal(
                measure.place,
                f"the aggregates before this one have taken {limits.seconds:g} s, which is all that a statement may "
                "take: ask for fewer of them, or fewer times",
                UnanswerableError,
            )
        found.append(_ask(store, asked, measure))
        rows = len(found[-1].keys)
    assert len({one.provenance.commit for one in found}) == 1, "answers of several commits"
    return found


def _selected(store: Store, asked: Statement, limits: Limits) -> SqlAnswer:
    found = _all_asked(store, asked, limits)
    keys, intervals = _aligned(asked, found)
    notes: list[str] = []
    marks: dict[str, Flags] = {}
    known = ~np.logical_and.reduce([np.isnan(one.value) for one in intervals])
    rows = np.flatnonzero(known) if asked.key is not None else np.arange(len(keys))
    if asked.having is not None:
        truth = asked.having.truth(intervals)
        marks[HAVING_UNDECIDED] = truth.undecided
        missed = int((truth.possibly & ~truth.estimated)[rows].sum())
        rows = rows[truth.estimated[rows]]
        if missed:
            notes.append(f"HAVING may hold for {counted(missed, 'more row')}, by their intervals")
    if asked.contract is not None:
        rows = _within(asked, asked.contract, intervals, keys, rows, marks, notes)
    rows = _ordered(asked, keys, intervals, rows, marks)
    if asked.limit is not None and len(rows) > asked.limit:
        notes.append(f"{counted(len(rows) - asked.limit, 'more row is', 'more rows are')} beyond LIMIT")
        rows = rows[: asked.limit]
    unit = store.catalogue(asked.stream).stream(asked.stream).unit
    columns = _columns(asked, keys, intervals, rows, unit)
    columns |= {name: flags[rows].tolist() for name, flags in marks.items()}
    shown = list(zip(asked.measures, found, strict=True))[: asked.shown]
    answers = {measure.name: one.told() for measure, one in shown}
    return SqlAnswer(columns, answers, (*notes, *_remarks(found, unit)))


def _remarks(found: Sequence[_Answered], unit: TimeUnit) -> Iterator[str]:
    """What must be known of the stream besides, each once."""
    moments = {one.as_of for one in found if one.as_of is not None}
    yield from (f"as of {numbered_moment_text(moment, unit)}" for moment in sorted(moments))
    remarks: dict[str, None] = {}
    for one in found:
        origin = one.provenance
        if origin.rejected is not None:
            remarks[origin.rejected.words()] = None
        remarks |= dict.fromkeys((*origin.unknown, *origin.lagging))
    yield from remarks


def _aligned(asked: Statement, found: Sequence[_Answered]) -> tuple[tuple[Any, ...], list[Interval]]:
    """The rows of all aggregates, and the answers of each in their order; NaN where one has no such row."""
    keys = found[0].keys
    if all(one.keys == keys for one in found):
        return keys, [one.interval for one in found]
    if asked.times is not None:
        raise asked.text.refusal(
            asked.measures[0].place,
            "these families answer at different times; ask for one aggregate, or say USING sample",
            UnanswerableError,
        )
    keys = tuple(dict.fromkeys(chain.from_iterable(one.keys for one in found)))
    aligned = []
    for one in found:
        places = {key: at for at, key in enumerate(one.keys)}
        at = np.array([places.get(key, len(places)) for key in keys], np.int64)
        aligned.append(Interval(*(np.append(column, np.nan)[at] for column in one.interval)))
    return keys, aligned


def _within(
    asked: Statement,
    contract: Contract,
    intervals: Sequence[Interval],
    keys: tuple[Any, ...],
    rows: Rows,
    marks: dict[str, Flags],
    notes: list[str],
) -> Rows:
    """Mark, leave out or refuse the rows whose interval is wider than the contract allows."""
    wide = np.zeros(len(keys), bool)
    for measure, one in zip(asked.measures[: asked.shown], intervals, strict=False):
        error = _errors(measure, one)
        # Where there is no estimate, but an interval, all of it is open.
        too_wide = ~(error <= contract.error) & ~np.isnan(one.lower)
        wide |= too_wide
        failed = rows[too_wide[rows]]
        if contract.otherwise == STRICT and len(failed):
            at = int(failed[0])
            row = "" if asked.key is None else f" of {asked.key} {group_text(keys[at])}"
            raise asked.text.refusal(
                contract.place,
                f"{measure.name}{row} is {number_text(one.value[at])}, from {number_text(one.lower[at])} to "
                f"{number_text(one.upper[at])}: an error of {number_text(error[at])}, not {contract.error:g} at most",
                UnanswerableError,
            )
    if contract.otherwise == OMIT:
        left_out = int(wide[rows].sum())
        if left_out:
            notes.append(f"{counted(left_out, 'row is', 'rows are')} left out: wider than WITH ERROR allows")
        return rows[~wide[rows]]
    if contract.otherwise != STRICT:
        marks[TOO_WIDE] = wide
    return rows


def _errors(measure: Measure, one: Interval) -> Floats:
    """The larger half of each interval: over the answer, or as it is for a share."""
    half = np.maximum(one.upper - one.value, one.value - one.lower)
    if measure.absolute:
        return half
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(half == 0.0, 0.0, half / np.abs(one.value))


def _places(keys: tuple[Any, ...]) -> Rows:
    """The place of each key among all in their order; what is missing comes last."""
    known = np.array([key is not None for key in keys], bool)
    places = np.full(len(keys), len(keys), np.int64)
    _, places[known] = np.unique(np.array(keys, object)[known], return_inverse=True)
    return places


def _ordered(
    asked: Statement, keys: tuple[Any, ...], intervals: Sequence[Interval], rows: Rows, marks: dict[str, Flags]
) -> Rows:
    """The rows in their order; those that may have another place by their intervals are marked."""
    if not asked.order:
        return rows
    sort_by = []
    for key in asked.order:
        ranks: Any = _places(keys)[rows] if key.measure is None else intervals[key.measure].value[rows]
        upwards = -ranks if key.descending else ranks
        sort_by.append(np.where(np.isnan(upwards), np.inf, upwards) if key.measure is not None else upwards)
    first = asked.order[0].measure
    if first is not None:
        flags = np.zeros(len(intervals[first].value), bool)
        flags[rows] = trade_places(*(column[rows] for column in intervals[first]))
        marks[ORDER_UNDECIDED] = flags
    return rows[np.lexsort(sort_by[::-1])]


def _columns(
    asked: Statement, keys: tuple[Any, ...], intervals: Sequence[Interval], rows: Rows, unit: TimeUnit
) -> dict[str, list[Any]]:
    chosen = [keys[at] for at in rows.tolist()]
    by_name = {measure.name: one for measure, one in zip(asked.measures[: asked.shown], intervals, strict=False)}
    columns: dict[str, list[Any]] = {}
    for name in asked.columns:
        if name == asked.key and asked.times is not None:
            columns[TIME] = [_iso(moment, unit) for moment in chosen]
            columns[AS_OF] = chosen
        elif name == asked.key:
            columns[name] = chosen
        else:
            for end, column in zip(("", "_lower", "_upper"), by_name[name], strict=True):
                columns[f"{name}{end}"] = [None if one != one else one for one in column[rows].tolist()]  # noqa: PLR0124
    return columns


def _iso(moment: int, unit: TimeUnit) -> str:
    found = calendar_time(moment, unit)
    return str(moment) if found is None else found.isoformat()


def _explained(store: Store, asked: Statement) -> SqlAnswer:
    """Which family would answer each aggregate, and why; nothing is loaded and nothing answered."""
    held = store.catalogue(asked.stream).stream(asked.stream)
    rows = [_plan(store, asked, measure, held) for measure in asked.measures]
    return SqlAnswer({name: [row[name] for row in rows] for name in rows[0]})


def _plan(store: Store, asked: Statement, measure: Measure, held: StoredStream) -> dict[str, Any]:
    sources, other = (asked.sources, None) if measure.joined is None else ((measure.joined[0],), measure.joined[1])
    with asked.text.refusing(measure.place):
        family = asked.family or (None if asked.group is None else family_by_source(held))
        plan = store.plan(
            asked.stream, measure.question, sources=sources, family=family, other=other, past=asked.times is not None
        )
    given, why = measure.question, plan.picked.why
    if asked.group is not None and asked.family is None:
        why = BY_GROUP
    question = replace(plan.question, where=given.where, share=given.share, per_second=given.per_second)
    rows_or_events = "rows" if counts_rows(held, plan.picked.family) else "events"
    words = sentence(question, names_of(held), weighted=held.weighted, counted=rows_or_events)
    return {
        "column": measure.name,
        "asked": words if asked.group is None else f"{words}, by {asked.group}",
        "decay": question.decay.spec,
        "family": plan.picked.family,
        "why": why,
        "sources": len(plan.sources),
        "answers": "one for each group" if asked.group else 1 if asked.times is None else len(asked.times),
    }


def _streams(store: Store, text: Text) -> SqlAnswer:
    if len(text.words) != 2 or text.upper(1) != "STREAMS":
        raise text.refusal(text.words[0].end + 1, "SHOW STREAMS is all that is shown; DESCRIBE shows a stream")
    held = [stream for _, stream in sorted(store.catalogue().streams.items())]
    ends = [(one.epoch_columns, one.unit) for one in held]
    return SqlAnswer(
        {
            "stream": [one.name for one in held],
            "events": [int(columns.events.sum()) for columns, _ in ends],
            "sources": [len(one.by_source) for one in held],
            "oldest": [_iso(int(one.oldest.min()), unit) if len(one.oldest) else None for one, unit in ends],
            "newest": [_iso(int(one.newest.max()), unit) if len(one.newest) else None for one, unit in ends],
            "families": [", ".join(sorted(one.sketches)) for one in held],
        }
    )


def _described(store: Store, text: Text) -> SqlAnswer:
    if len(text.words) != 2:
        raise text.refusal(text.words[0].end + 1, "expected one stream after DESCRIBE")
    begin = text.words[1].start
    table = text.parsed(" " * (begin - 5) + "FROM " + text.text[begin:].rstrip("; \t\r\n"), begin, "a stream")
    source = table.args.get("from_")
    name = named_stream(text, table if source is None else source.this, _known(store))
    columns = store.columns(name)
    called = {column: own for own, column in columns.names.items()}
    fields = store.catalogue(name).stream(name).fields
    return SqlAnswer(
        {
            "column": [called.get(one, one) for one in columns.types],
            "holds": [str(held) for held in columns.types.values()],
            "is": [_role(one, fields) for one in columns.types],
        }
    )


def _role(column: str, fields: Any) -> str:
    if column in fields:
        return "a field; GROUP BY takes it"
    return "what each event comes from; GROUP BY takes it" if column == SOURCE else f"the {column} of each event"
