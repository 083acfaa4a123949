"""A whole statement as questions and what is done with their answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from sqlglot import TokenType, exp

from sketches.arrays import Ints
from sketches.decay import parse_decay
from sketches.predicate import EVERY_EVENT
from sketches.records import dataclass
from sketches.suggestions import did_you_mean
from sketches.units import TimeUnit
from sketches.vocabulary import COUNTINGS
from store.serving.catalogue import StoredStream, check_known
from store.serving.resolving import columns_of
from store.serving.split_answer import SOURCE
from store.serving.sql import clauses as clause
from store.serving.sql import values
from store.serving.sql.aggregates import Aggregates, Measure
from store.serving.sql.clauses import Clauses, Part
from store.serving.sql.conditions import Condition, condition
from store.serving.sql.sql_answer import ENDS, MARKS
from store.serving.sql.text import Text, only
from store.serving.sql.values import Clock

MOST_MEASURES: Final = 50
MOST_TIMES: Final = 10_000  # of a series
MOST_ROWS: Final = 1_000_000
TIME, AS_OF = "time", "as_of"  # the columns of a series
MARK, OMIT, STRICT = "MARK", "OMIT", "STRICT"


@dataclass(frozen=True)
class Order:
    """One key to order rows by: a measure by its number, or the group or time where it is None."""

    measure: int | None
    descending: bool


@dataclass(frozen=True)
class Contract:
    """How wide an interval may be: half of it over the answer, or as it is for shares; and what happens otherwise."""

    error: float
    otherwise: str
    place: int


@dataclass(frozen=True)
class Statement:
    """A SELECT that is understood. The first `shown` measures are selected; HAVING and ORDER BY may add others."""

    text: Text
    stream: str
    measures: tuple[Measure, ...]
    shown: int
    columns: tuple[str, ...]  # of the answer, in order: the group or time, and the names of measures
    group: str | None = None
    times: Ints | None = None  # of a series
    having: Condition | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    contract: Contract | None = None
    sources: tuple[str, ...] = ()
    family: str | None = None

    @property
    def key(self) -> str | None:
        """What tells rows apart: the group, the time, or the value of a list."""
        return self.group or (TIME if self.times is not None else self.measures[0].column)


def stream_name(text: Text, select: exp.Select, known: list[str]) -> str:
    """The stream that FROM names."""
    source = select.args.get("from_")
    if source is None:
        raise text.refusal(len(text.text), f"expected FROM and a stream: {', '.join(known)}")
    if isinstance(source.this, exp.Subquery):
        raise text.refusal(text.words[text.index(text.place_of("FROM") or 0) + 1].start, _one_stream(known))
    return named_stream(text, source.this, known)


def named_stream(text: Text, node: exp.Expr, known: list[str]) -> str:
    instead = _one_stream(known)
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise text.refusal(node, instead)
    only(text, node, frozenset({"this"}), instead)
    if node.name not in known:
        raise text.refusal(
            node, f"there is no such stream; there are {', '.join(known)}{did_you_mean(node.name, known)}"
        )
    return node.name


def _one_stream(known: list[str]) -> str:
    return f"FROM takes one stream by its name: {', '.join(known)}"


class Reader:
    """Reads the clauses of one statement about one stream."""

    def __init__(self, found: Clauses, stream: StoredStream, clock: Clock) -> None:
        self.text, self.clauses, self.stream, self.clock = found.text, found, stream, clock
        self.unit: TimeUnit = stream.unit
        self.contract, confidence = self._contract()
        asked = Aggregates(found.text, columns_of(stream), found.shares, {}, list(stream.by_source))
        where = found.own.get(clause.WHERE)
        common: dict[str, Any] = {
            "decay": self._decay(),
            "as_of": self._as_of(),
            "confidence": confidence,
            "counting": self._counting(),
            "where": EVERY_EVENT if where is None else asked.predicate(where),
        }
        self.aggregates = replace(asked, common=common)
        self.measures: list[Measure] = []
        self.names: dict[str, int] = {}
        self.places: dict[str, int] = {}  # of what is selected, by its name

    def read(self) -> Statement:
        select = self.clauses.select
        group = self._group(select.args.get("group"))
        times = self._times()
        if group is not None and times is not None:
            raise self.text.refusal(
                self.clauses.own[clause.EVERY].place,
                "a series is of one group: leave GROUP BY out, and choose a group by WHERE",
            )
        key = group or (None if times is None else TIME)
        columns = self._select(select.expressions, key)
        if (listed := self.measures[0].column) is not None and key is None:
            columns = (listed, *columns)
        shown = len(self.measures)
        having, order = select.args.get("having"), select.args.get("order")
        found = Statement(
            self.text,
            self.stream.name,
            (),
            shown,
            columns,
            group,
            times,
            None if having is None else condition(self.text, having.this, self._measure),
            () if order is None else tuple(self._order(one, key) for one in order.expressions),
            self._limit(select.args.get("limit")),
            self.contract,
            self._sources(),
            self._family(),
        )
        found = replace(found, measures=tuple(self.measures))
        self._check(found)
        return found

    def _part(self, name: str, expected: str) -> exp.Expr | None:
        part = self.clauses.own.get(name)
        return None if part is None else self.text.part(part.begin, part.end, expected)

    def _decay(self) -> Any:
        node = self._part(clause.DECAY_BY, "a decay")
        found = parse_decay("none") if node is None else values.decay(self.text, node)
        window = self._part(clause.WINDOW, "a length of time like INTERVAL 1 DAY")
        if window is None:
            return found
        length = values.seconds(self.text, window)
        with self.text.refusing(self.clauses.own[clause.WINDOW].place):
            return found.cut(length)

    def _as_of(self) -> int | None:
        node = self._part(clause.AS_OF, "a time")
        if node is None:
            return None
        if clause.EVERY in self.clauses.own:
            raise self.text.refusal(self.clauses.own[clause.AS_OF].place, "EVERY … FROM … TO … says as of when")
        return values.moment(self.text, node, self.unit, self.clock)

    def _counting(self) -> Any:
        part = self.clauses.own.get(clause.COUNTING)
        if part is None:
            return None
        found = self._words(part)
        if len(found) != 1 or found[0].lower() not in COUNTINGS:
            raise self.text.refusal(part.begin, f"expected {' or '.join(COUNTINGS)}")
        return found[0].lower()

    def _family(self) -> str | None:
        part = self.clauses.own.get(clause.USING)
        if part is None:
            return None
        known = sorted(self.stream.sketches)
        found = self._words(part)
        if len(found) != 1 or found[0].lower() not in known:
            raise self.text.refusal(part.begin, f"expected a stored family: {', '.join(known)}")
        return found[0].lower()

    def _sources(self) -> tuple[str, ...]:
        part = self.clauses.own.get(clause.SOURCES)
        if part is None:
            return ()
        expected = "sources like 'north', 'south'"
        first = self.text.index(part.begin)
        words = [word for word in self.text.words[first:] if word.start < part.end]
        if words[0].token_type is TokenType.L_PAREN and self.text.closing(first) == first + len(words) - 1:
            words = words[1:-1]
        for number, word in enumerate(words):
            if word.token_type is not (TokenType.COMMA if number % 2 else TokenType.STRING):
                raise self.text.refusal(word.start, f"expected {expected}, each in single quotes")
        if len(words) % 2 == 0:
            raise self.text.refusal(part.begin, f"expected {expected}")
        for word in words[::2]:
            with self.text.refusing(word.start):
                check_known("source", word.text, list(self.stream.by_source))
        return tuple(word.text for word in words[::2])

    def _times(self) -> Ints | None:
        part = self.clauses.own.get(clause.EVERY)
        if part is None:
            return None
        first = self.text.index(part.begin)
        words = {
            self.text.upper(at): self.text.words[at]
            for at in range(first, len(self.text.words))
            if self.text.words[at].start < part.end and self.text.upper(at) in ("FROM", "TO")
        }
        if list(words) != ["FROM", "TO"]:
            raise self.text.refusal(part.place, "write it like EVERY INTERVAL 1 HOUR FROM '2026-01-01' TO now()")
        begin, end = words["FROM"], words["TO"]
        length = values.seconds(self.text, self.text.part(part.begin, begin.start, "a length of time"))
        ends = ((begin.end + 1, end.start), (end.end + 1, part.end))
        start, stop = (values.moment(self.text, self.text.part(*one, "a time"), self.unit, self.clock) for one in ends)
        step = round(length * self.unit.denominator / self.unit.numerator)
        if step < 1:
            raise self.text.refusal(part.begin, "this is shorter than the unit in which the stream counts time")
        if stop < start:
            raise self.text.refusal(end.start, "the end lies before the beginning")
        if (stop - start) // step >= MOST_TIMES:
            raise self.text.refusal(part.begin, f"a series has at most {MOST_TIMES:,} times; take a longer interval")
        return np.arange(start, stop + 1, step, dtype=np.int64)

    def _contract(self) -> tuple[Contract | None, float | None]:
        """WITH [ERROR e] [CONFIDENCE c] [MARK | OMIT | STRICT]."""
        part = self.clauses.own.get(clause.WITH)
        if part is None:
            return None, None
        numbers: dict[str, float] = {}
        otherwise = None
        first = self.text.index(part.begin)
        at = first
        while at < len(self.text.words) and self.text.words[at].start < part.end:
            word, place = self.text.upper(at), self.text.words[at].start
            if word in ("ERROR", "CONFIDENCE") and word not in numbers:
                at += 1
                numbers[word] = self._share(at, word)
            elif word in (MARK, OMIT, STRICT) and otherwise is None and "ERROR" in numbers:
                otherwise = word
            else:
                raise self.text.refusal(
                    place,
                    "write it like WITH ERROR 0.05 CONFIDENCE 0.95, then MARK, OMIT or STRICT; one may be missing",
                )
            at += 1
        error = numbers.get("ERROR")
        contract = None if error is None else Contract(error, otherwise or MARK, part.place)
        return contract, numbers.get("CONFIDENCE")

    def _share(self, at: int, word: str) -> float:
        place = self.text.words[at].start if at < len(self.text.words) else len(self.text.text)
        try:
            found = float(self.text.upper(at))
        except ValueError:
            found = 0.0
        if not 0 < found < 1:
            raise self.text.refusal(place, f"expected a number strictly between 0 and 1 after {word}")
        return found

    def _words(self, part: Part) -> list[str]:
        return self.text.text[part.begin : part.end].split()

    def _group(self, node: exp.Expr | None) -> str | None:
        if node is None:
            return None
        known = [SOURCE, *sorted(self.stream.fields)]
        instead = f"GROUP BY takes one of {', '.join(known)}"
        only(self.text, node, frozenset({"expressions"}), instead)
        one, *more = node.expressions
        if more:
            raise self.text.refusal(more[0], f"{instead}, and no second one")
        name = one.name if isinstance(one, exp.Column) and len(one.parts) == 1 else ""
        name = columns_of(self.stream).column(name)
        found = name if name in known else name.lower()
        if found not in known:
            raise self.text.refusal(one, f"{instead}{did_you_mean(found, known) if found else ''}")
        return found

    def _select(self, items: list[exp.Expr], key: str | None) -> tuple[str, ...]:
        columns: list[str] = []
        for item in items:
            node, alias = (item.this, item.alias) if isinstance(item, exp.Alias) else (item, None)
            if isinstance(node, exp.Column) and key is not None and self._is_called(node.name, key):
                if alias:
                    raise self.text.refusal(item, f"{key} keeps its name")
                name = key
            else:
                if isinstance(node, exp.Column | exp.Star):
                    raise self.text.refusal(node, self._why_no_column(key))
                name = self._new_measure(node, alias)
            if name in columns:
                raise self.text.refusal(item, f"two columns are called {name}; name one of them by AS")
            columns.append(name)
            self.places.setdefault(name, self.text.place(item))
        if not self.measures:
            raise self.text.refusal(items[0], "expected an aggregate as well, like count(*)")
        return tuple(columns if key is None or key in columns else [key, *columns])

    def _is_called(self, name: str, column: str) -> bool:
        return column.lower() in (name.lower(), columns_of(self.stream).column(name).lower())

    @staticmethod
    def _why_no_column(key: str | None) -> str:
        what = "single events are not kept: select aggregates, like count(*) or mean(a column)"
        return what if key is None else f"{what}, and {key}"

    def _new_measure(self, node: exp.Expr, alias: str | None) -> str:
        found = self.aggregates.read(node, alias)
        if alias is None:
            name, number = found.name, 2
            while found.name in self.names:
                found = replace(found, name=f"{name}_{number}")
                number += 1
        if len(self.measures) == MOST_MEASURES:
            raise self.text.refusal(node, f"at most {MOST_MEASURES} aggregates are answered at a time")
        self.names.setdefault(found.name, len(self.measures))
        self.measures.append(found)
        return found.name

    def _measure(self, node: exp.Expr) -> int:
        """The number of the measure that HAVING or ORDER BY names, or asks for."""
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            if node.name not in self.names:
                known = ", ".join(self.names)
                raise self.text.refusal(node, f"there is no such answer; there are {known}, and any aggregate")
            return self.names[node.name]
        found = self.aggregates.read(node)
        for number, measure in enumerate(self.measures):
            if (measure.question, measure.joined) == (found.question, found.joined):
                return number
        if len(self.measures) == MOST_MEASURES:
            raise self.text.refusal(node, f"at most {MOST_MEASURES} aggregates are answered at a time")
        self.measures.append(found)
        return len(self.measures) - 1

    def _order(self, node: exp.Expr, key: str | None) -> Order:
        instead = "ORDER BY takes aggregates, their names or the group, each with ASC or DESC"
        only(self.text, node, frozenset({"this", "desc", "nulls_first"}), instead)
        inner = node.this
        if (nulls := self.text.place_of("NULLS")) is not None:
            raise self.text.refusal(nulls, "rows without an answer come last")
        if isinstance(inner, exp.Literal):
            raise self.text.refusal(inner, instead)
        descending = bool(node.args.get("desc"))
        if isinstance(inner, exp.Column) and key is not None and inner.name.lower() == key.lower():
            return Order(None, descending)
        return Order(self._measure(inner), descending)

    def _limit(self, node: exp.Expr | None) -> int | None:
        if node is None:
            return None
        only(self.text, node, frozenset({"expression"}), "LIMIT takes how many rows")
        found = values.number(self.text, node.expression)
        if not isinstance(found, int) or not 1 <= found <= MOST_ROWS:
            raise self.text.refusal(node, f"expected how many rows, from 1 to {MOST_ROWS:,}")
        return found

    def _check_names(self, found: Statement) -> None:
        """Refuse names under which one column of the answer would hide another."""
        taken = {*MARKS} | ({TIME, AS_OF} if found.times is not None else set())
        taken |= {found.key} if found.key is not None else set()
        for measure in found.measures[: found.shown]:
            for name in (measure.name, *(f"{measure.name}{end}" for end in ENDS)):
                if name in taken:
                    place = self.places.get(measure.name, measure.place)
                    raise self.text.refusal(place, f"two columns are called {name}; name one of them by AS")
                taken.add(name)

    def _check(self, found: Statement) -> None:
        self._check_names(found)
        for measure in found.measures:
            lists = measure.column is not None
            if lists and (len(found.measures) > 1 or found.key != measure.column or found.order or found.limit):
                raise self.text.refusal(
                    measure.place, "a list has its own rows and order: ask for it alone, without GROUP BY and EVERY"
                )
            if measure.joined is not None and (found.group is not None or found.sources):
                raise self.text.refusal(measure.place, "it names its two sources: leave GROUP BY and SOURCES out")
