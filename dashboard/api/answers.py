"""The answers to requests, as dictionaries: pure of HTTP. Each is asked of the store that the sender's role may see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from dashboard.api.questions import read_options, unknown, whole_number
from dashboard.api.shapes import series_shape, streams_shape
from sketches.arrays import Ints
from sketches.durations import parse_duration
from sketches.errors import QuestionError
from sketches.question import DEFAULT_TOP
from store import Store
from store.serving.catalogue import StoredStream
from store.serving.query_command import ask, ask_over_time, shape
from store.serving.sql import SqlAnswer
from store.serving.sql.limits import Limits
from store.serving.timeline import extent, moments, read_moment

Pairs = Sequence[tuple[str, str]]

POINTS: Final = 200  # of a series, unless it is asked for more
MOST_POINTS: Final = 5_000
MOST_ROWS: Final = 100_000  # of one answer
MOST_GROUPS: Final = 10_000
MOST_CELLS: Final = 400_000  # numbers in the answer to a statement
MOST_SECONDS: Final = 10.0  # after which no further aggregate of it is asked
_LIMITS: Final = Limits(MOST_CELLS, MOST_SECONDS)
OVER_TIME: Final = ("from", "to", "points", "every")  # the parameters of a series besides those of a question
STATEMENT: Final = ("statement", "format")


def streams(store: Store, pairs: Pairs) -> dict[str, Any]:
    """All streams of the store."""
    _only(pairs, ())
    return streams_shape(store.catalogue())


def query(store: Store, pairs: Pairs) -> dict[str, Any]:
    """One question, single or split, like `wane query --json`."""
    options = read_options(pairs)
    _check_groups(options.top)
    return shape(ask(store, options, datetime.now(UTC)), options)


def series(store: Store, pairs: Pairs) -> dict[str, Any]:
    """One question at many times."""
    times = dict(_only([pair for pair in pairs if pair[0] in OVER_TIME], OVER_TIME))
    options = read_options([pair for pair in pairs if pair[0] not in OVER_TIME])
    if options.as_of is not None:
        raise QuestionError("parameter as_of does not go with a series: from and to say as of when")
    stream = store.catalogue(options.stream).stream(options.stream)
    found = _times(stream, options.source, times, datetime.now(UTC))
    groups = 1 if options.by is None else options.top or DEFAULT_TOP
    _check_groups(options.top)
    groups *= max(len(options.phi), 1)
    if len(found) * groups > MOST_ROWS:
        raise QuestionError(
            f"{len(found):,} times of {groups:,} series are more than {MOST_ROWS:,} rows; ask for fewer of them"
        )
    return series_shape(ask_over_time(store, options, found), stream.unit, options.by)


def sql(store: Store, pairs: Pairs) -> tuple[SqlAnswer, str]:
    """The answer to a statement, and the format it is asked for in."""
    found = dict(_only(pairs, STATEMENT))
    if "statement" not in found:
        raise QuestionError("parameter statement is missing: SELECT … FROM a stream … DECAY BY …, or SHOW STREAMS")
    form = found.get("format", "json")
    if form not in ("json", "csv"):
        raise QuestionError(f"parameter format is {form[:80]!r}; it must be json or csv")
    return store.sql(found["statement"], limits=_LIMITS), form


def _only(pairs: Pairs, known: Iterable[str]) -> Pairs:
    """The pairs, each once, if there is a parameter of each name."""
    names = tuple(known)
    seen: set[str] = set()
    for name, _ in pairs:
        if name not in names:
            raise unknown(name, names)
        if name in seen:
            raise QuestionError(f"parameter {name} is given twice")
        seen.add(name)
    return pairs


def _times(stream: StoredStream, sources: Sequence[str], asked: Mapping[str, str], now: datetime) -> Ints:
    """The as-of times of a series: from the oldest event to the newest, unless it is asked otherwise."""
    lived = extent(stream, sources) or extent(stream) or (0, 0)
    begin, end = (
        read_moment(asked[name], stream.unit, now) if name in asked else other
        for name, other in zip(("from", "to"), lived, strict=True)
    )
    if end < begin:
        raise QuestionError(f"parameter to lies before from: {end} is before {begin} in the stream's unit of time")
    if "every" not in asked:
        return moments(begin, end, whole_number("points", asked.get("points", str(POINTS)), MOST_POINTS))
    if "points" in asked:
        raise QuestionError("parameters points and every do not go together: each says how many times there are")
    step = parse_duration(asked["every"]) * stream.unit.denominator / stream.unit.numerator
    if not 1 <= step < 2**62:
        raise QuestionError(f"parameter every is {asked['every'][:80]!r}; it must be at least one unit of time")
    if (end - begin) // round(step) >= MOST_POINTS:
        raise QuestionError(f"a series has at most {MOST_POINTS:,} times; take a longer parameter every")
    return np.arange(begin, end + 1, round(step), dtype=np.int64)


def _check_groups(top: int | None) -> None:
    if top is not None and top > MOST_GROUPS:
        raise QuestionError(f"parameter top is {top:,}; at most {MOST_GROUPS:,} are listed")
