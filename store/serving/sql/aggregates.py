"""From a call such as quantile(duration, 0.9) to the question that it asks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from sqlglot import exp

from sketches.predicate import ColumnType, Predicate, StreamColumns
from sketches.question import Question
from sketches.records import dataclass
from sketches.suggestions import did_you_mean
from sketches.vocabulary import EVENTS
from store.serving.catalogue import check_known
from store.serving.sql.clauses import Part
from store.serving.sql.text import Text, only
from store.serving.sql.values import number, string

_SUMS: Final = {
    "sum": "sum",
    "mean": "mean",
    "avg": "mean",
    "stddev": "stddev",
    "stddev_pop": "stddev",
    "variance": "variance",
    "var_pop": "variance",
}
FORMS: Final = {
    "count": "count(*)",
    **{name: f"{name}(a column)" for name in _SUMS},
    "rate": "rate(*) or rate(a column)",
    "median": "median(a column)",
    "quantile": "quantile(a column, 0.9)",
    "rank": "rank(a column, 60)",
    "ratio": "ratio(a column, another) or ratio(a column, *)",
    "share": "share(a condition)",
    "frequency": "frequency(a column, 'key')",
    "top": "top(a column, 10)",
    "self_join": "self_join()",
    "inner_product": "inner_product('a source', 'another')",
}
_CALL: Final = frozenset({"this", "expressions"})
_ABSOLUTE: Final = frozenset({"selectivity", "frequency", "rank", "heavy-hitters"})  # answers that are shares


@dataclass(frozen=True)
class Measure:
    """One aggregate of a statement: its question, and the word that asks it."""

    name: str  # of the column in the answer
    question: Question
    place: int
    column: str | None = None  # of a list: what its values are called
    joined: tuple[str, str] | None = None  # the two sources of an inner product

    @property
    def absolute(self) -> bool:
        """Whether its error is that of a share, and not relative to the answer."""
        return self.question.aggregate in _ABSOLUTE


@dataclass(frozen=True)
class Aggregates:
    """Reads the aggregates of one statement; `common` is what all its questions have alike."""

    text: Text
    columns: StreamColumns
    shares: dict[int, Part]
    common: dict[str, Any]
    sources: Sequence[str]

    def read(self, node: exp.Expr, name: str | None = None) -> Measure:
        """The measure that a call asks for, under a name of its own or one made of its words."""
        if not isinstance(node, exp.Anonymous):
            raise self.text.refusal(node, f"expected an aggregate: {', '.join(FORMS.values())}")
        called = str(node.this).lower()
        if called not in FORMS:
            hint = did_you_mean(called, FORMS)
            raise self.text.refusal(node, f"there is no such aggregate; there are {', '.join(FORMS.values())}{hint}")
        only(self.text, node, _CALL, f"write {FORMS[called]}")
        place = self.text.place(node)
        column = joined = None
        if called == "inner_product":
            one, other = self._arguments(node, called, 2)
            joined = (self._source(one), self._source(other))
        if called == "top":
            column = self._arguments(node, called, 2)[0].name
        with self.text.refusing(place):
            question = Question(**self._asked(called, node), **self.common)
        return Measure(name or self._name(called, node), question, place, column, joined)

    def _asked(self, called: str, node: exp.Anonymous) -> dict[str, Any]:
        match called:
            case "count":
                (one,) = self._arguments(node, called, 1)
                if not isinstance(one, exp.Star):
                    raise self.text.refusal(one, "events are counted by count(*); WHERE says which")
                return {"aggregate": "count"}
            case "rate":
                (one,) = self._arguments(node, called, 1)
                if isinstance(one, exp.Star):
                    return {"aggregate": "count", "per_second": True}
                return {"aggregate": "sum", "per_second": True, "of": self._numbers(one)}
            case "median":
                (one,) = self._arguments(node, called, 1)
                return {"aggregate": "median", "of": self._ranked(self._numbers(one))}
            case "quantile" | "rank":
                one, other = self._arguments(node, called, 2)
                wanted = number(self.text, other)
                if called == "quantile" and not 0 < wanted < 1:
                    raise self.text.refusal(other, "expected a share strictly between 0 and 1")
                return {"aggregate": called, "of": self._ranked(self._numbers(one))} | {
                    "phi" if called == "quantile" else "value": wanted
                }
            case "ratio":
                of, per = (
                    EVENTS if isinstance(part, exp.Star) else self._numbers(part)
                    for part in self._arguments(node, called, 2)
                )
                return {"aggregate": "ratio", "of": of, "per": per}
            case "share":
                return {"aggregate": "selectivity", "share": self._share(node)}
            case "frequency":
                one, other = self._arguments(node, called, 2)
                return {"aggregate": "frequency", "of": self._ranked(self.column(one)), "value": self._key(other)}
            case "top":
                one, other = self._arguments(node, called, 2)
                most = number(self.text, other)
                if not isinstance(most, int):
                    raise self.text.refusal(other, "expected how many values, a whole number")
                return {"aggregate": "heavy-hitters", "of": self._ranked(self.column(one)), "top": most}
            case "self_join":
                self._arguments(node, called, 0)
                return {"aggregate": "self-join"}
            case "inner_product":
                return {"aggregate": "inner-product"}
        (one,) = self._arguments(node, called, 1)
        return {"aggregate": _SUMS[called], "of": self._numbers(one)}

    def _key(self, node: exp.Expr) -> float | str | bool:
        """One value of a column: a number, a text, or true or false."""
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Literal) and node.is_string:
            return str(node.this)
        return number(self.text, node)

    def _source(self, node: exp.Expr) -> str:
        name = string(self.text, node, "a source")
        with self.text.refusing(node):
            check_known("source", name, self.sources)
        return name

    def _arguments(self, node: exp.Anonymous, called: str, wanted: int) -> list[exp.Expr]:
        if len(node.expressions) != wanted:
            raise self.text.refusal(node, f"write {FORMS[called]}")
        return list(node.expressions)

    def column(self, node: exp.Expr, what: str = "a column") -> str:
        """The column of the stream that a name stands for, but not its source or time."""
        known = [*self.columns.types, *self.columns.names]
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            raise self.text.refusal(node, f"expected {what}: {', '.join(known)}")
        only(self.text, node, frozenset({"this"}), f"name {what} alone")
        name = node.name if node.name in known or node.this.quoted else node.name.lower()
        if name not in known:
            raise self.text.refusal(
                node, f"there is no such column; there are {', '.join(known)}{did_you_mean(name, known)}"
            )
        found = self.columns.column(name)
        if found in ("source", "time"):
            instead = "GROUP BY source" if found == "source" else "WHERE time >= '2026-01-31', or EVERY,"
            raise self.text.refusal(node, f"no aggregate is of the {found}; {instead} asks by {found}")
        return found

    def _numbers(self, node: exp.Expr) -> str:
        found = self.column(node)
        held = self.columns.types[found]
        if held not in (ColumnType.NUMBER, ColumnType.EITHER, ColumnType.BOOLEAN):
            raise self.text.refusal(
                node, f"{found} holds {held}, not numbers; frequency, top and share go with it, and GROUP BY"
            )
        return found

    @staticmethod
    def _ranked(column: str) -> str | None:
        """Of what values are ranked: without a word on it, of the value, which every family knows."""
        return None if column == "value" else column

    def _share(self, node: exp.Anonymous) -> Predicate:
        part = self.shares[self.text.place(node)]
        return self.predicate(part)

    def predicate(self, part: Part) -> Predicate:
        with self.text.refusing_predicate(part.begin):
            return self.columns.parse(self.text.text[part.begin : part.end])

    def _name(self, called: str, node: exp.Anonymous) -> str:
        """A name made of the words of a call: mean_loss, quantile_duration_0_9."""
        parts = [called, *(re.sub(r"\W+", "_", one.name) for one in node.expressions)]
        return "_".join(part.strip("_") for part in parts if part.strip("_"))
