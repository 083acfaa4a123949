"""Reads predicates: a small language, a subset of SQL's, by a hand-written parser. Nothing in a text is executed.

    predicate   = conjunction {"or" conjunction}
    conjunction = negation {"and" negation}
    negation    = {"not"} (column condition | "(" predicate ")")
    condition   = ("=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">=") bound
                | ["not"] "in" "(" literal {"," literal} ")"
                | ["not"] "between" bound "and" bound
                | ["not"] "like" text                           _ is any character, % only at the end
                | "is" ["not"] "null"
    bound       = literal | [number "*"] ["own"] ("median" | "mean" | "quantile") "(" column ["," share] ")"
    literal     = number | text | "true" | "false"

Text stands in single quotes, and a quote in it is written twice. Names of operators may be in capitals. Length, terms
and depth are bounded, so reading takes milliseconds whatever is typed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from sketches.errors import QuestionError
from sketches.event_rules import NUMBER, WHOLE_NUMBER
from sketches.predicate.columns import ColumnType, Literal, type_of
from sketches.predicate.terms import (
    Aggregate,
    Among,
    Bound,
    Comparison,
    Like,
    Missing,
    Term,
    all_of,
    any_of,
    bound_text,
)
from sketches.suggestions import did_you_mean

LONGEST: Final = 2_000  # characters of a predicate
MOST_TERMS: Final = 50
DEEPEST: Final = 30  # parentheses inside each other
_SHOWN: Final = 40  # characters of what stands where something else was expected
_TOKEN: Final = re.compile(
    rf"(?P<number>{NUMBER})(?![\w.])|(?P<text>'(?:[^']|'')*')|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><=|>=|<>|!=|==|[=<>(),*])",
    re.ASCII,
)
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_SIGNS: Final = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_WORDS: Final = frozenset({"and", "or", "not", "in", "between", "like", "is", "null", "true", "false", "own"})
_AGGREGATES: Final = ("median", "mean", "quantile")
_CONDITION: Final = "a comparison like = 3, < 3, in (1, 2), between 1 and 2, like 'a%' or is null"
_LITERAL: Final = "a number, a text in single quotes, true or false"


class _Token(NamedTuple):
    kind: str  # number, text, name, word (a name that the language has taken), sign or end
    text: str
    position: int  # from 1


def parse(text: str, columns: Mapping[str, ColumnType], names: Mapping[str, str] | None = None) -> Term:
    """The term that a text says about these columns; `QuestionError` names the place and what was expected there.

    `names` are further names of some columns.
    """
    if len(text) > LONGEST:
        raise QuestionError(f"the predicate has {len(text):,} characters; at most {LONGEST:,} are allowed")
    return _Parser(text, columns, names or {}).parse()


class _Parser:
    """Recursive descent, no deeper than `DEEPEST`."""

    def __init__(self, text: str, columns: Mapping[str, ColumnType], names: Mapping[str, str]) -> None:
        self.columns = columns
        self.names = names
        self.tokens = _tokens(text)
        self.at = 0
        self.terms = 0

    def parse(self) -> Term:
        found = self._any(0)
        if self._next.kind != "end":
            raise self._expected("and, or, or the end")
        return found

    @property
    def _next(self) -> _Token:
        return self.tokens[self.at]

    def _take(self, *texts: str) -> str | None:
        """The next token, where it is one of these words or signs."""
        token = self._next
        found = token.text.lower() if token.kind == "word" else token.text
        if token.kind not in ("word", "sign") or found not in texts:
            return None
        self.at += 1
        return found

    def _need(self, text: str, why: str = "") -> None:
        if self._take(text) is None:
            raise self._expected(f"'{text}'{why}")

    def _any(self, depth: int) -> Term:
        found = [self._all(depth)]
        while self._take("or"):
            found.append(self._all(depth))
        return any_of(found)

    def _all(self, depth: int) -> Term:
        found = [self._negation(depth)]
        while self._take("and"):
            found.append(self._negation(depth))
        return all_of(found)

    def _negation(self, depth: int) -> Term:
        negated = False
        while self._take("not"):
            negated = not negated
        position = self._next.position
        if self._take("("):
            if depth == DEEPEST:
                raise _error(position, f"parentheses stand inside each other more than {DEEPEST} deep")
            found = self._any(depth + 1)
            self._need(")", f" for the '(' at character {position}")
        else:
            found = self._condition()
        return found.negated() if negated else found

    def _condition(self) -> Term:
        position = self._next.position
        column = self._column("a column or '('")
        self._count(position)
        if sign := self._take(*_SIGNS):
            return self._comparison(column, _SIGNS[sign])
        if self._take("is"):
            negated = self._take("not")
            self._need("null", "; other comparisons go with =")
            return Missing(column).negated() if negated else Missing(column)
        negated = self._take("not")
        match self._take("in", "between", "like"):
            case "in":
                found = self._among(column)
            case "between":
                self._count(position)
                low = self._comparison(column, ">=")
                self._need("and", " between the two ends")
                found = all_of([low, self._comparison(column, "<=")])
            case "like":
                found = self._like(column)
            case _:
                raise self._expected("'in', 'between' or 'like'" if negated else _CONDITION)
        return found.negated() if negated else found

    def _count(self, position: int) -> None:
        self.terms += 1
        if self.terms > MOST_TERMS:
            raise _error(position, f"the predicate has more than the {MOST_TERMS} comparisons allowed")

    def _column(self, expected: str) -> str:
        token = self._next
        if token.kind != "name":
            raise self._expected(expected)
        self.at += 1
        name = token.text if token.text in {*self.columns, *self.names} else token.text.lower()
        name = name if name in self.columns else self.names.get(name, name)
        if name not in self.columns:
            known = [*self.columns, *self.names]
            raise _error(
                token.position,
                f"{token.text[:_SHOWN]!r} is not a column; they are {', '.join(known)}{did_you_mean(name, known)}",
            )
        return name

    def _comparison(self, column: str, sign: str) -> Term:
        position = self._next.position
        bound = self._bound(column)
        if not isinstance(bound, Aggregate) and sign not in ("=", "!=") and not self.columns[column].orders(bound):
            what = "text" if isinstance(bound, str) else bound_text(bound)
            more = ", in, not in and like" if isinstance(bound, str) else ""
            raise _error(position, f"{what} goes with =, !={more}, not with {sign}: it has no order")
        return Comparison(column, sign, bound)

    def _bound(self, column: str) -> Bound:
        """What a column is compared with: an aggregate of numbers, or a literal."""
        token, after = self._next, self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        times = token.kind == "number" and after.text == "*"
        if not times and token.text.lower() not in ("own", *_AGGREGATES):
            return self._literal(column)
        factor = 1.0
        if times:
            self.at += 2
            factor = float(_number(token))
            if factor < 0:
                raise _error(token.position, "a multiple of an aggregate must not be negative")
        if self.columns[column] not in (ColumnType.NUMBER, ColumnType.EITHER):
            raise _error(token.position, f"{column} holds {self.columns[column]}, which has no median and no mean")
        return self._aggregate(factor)

    def _aggregate(self, factor: float) -> Aggregate:
        own = self._take("own") is not None
        token = self._next
        name = token.text.lower()
        if name not in _AGGREGATES:
            raise self._expected("median, mean or quantile")
        self.at += 1
        self._need("(", f" after {name}")
        column = self._column("a column")
        phi = None if name == "mean" else 0.5
        if name == "quantile":
            self._need(",", " and a share, like quantile(value, 0.9)")
            share = self._next
            if share.kind != "number" or not 0 < (phi := float(_number(share))) < 1:
                raise self._expected("a share strictly between 0 and 1")
            self.at += 1
        self._need(")", f" after {name}({column}")
        return Aggregate(column, phi, factor, own)

    def _among(self, column: str) -> Term:
        self._need("(", " after in")
        wanted = [self._literal(column)]
        while self._take(","):
            position = self._next.position
            wanted.append(self._literal(column))
            if type_of(wanted[-1]) is not type_of(wanted[0]):
                raise _error(position, f"in takes {type_of(wanted[0])} here, as before, not {type_of(wanted[-1])}")
        self._need(")", " or ',' in the list")
        distinct = sorted(set(wanted))
        return Comparison(column, "=", distinct[0]) if len(distinct) == 1 else Among(column, tuple(distinct))

    def _like(self, column: str) -> Term:
        token = self._next
        if self.columns[column] not in (ColumnType.TEXT, ColumnType.EITHER):
            raise _error(token.position, f"{column} holds {self.columns[column]}; like goes with text")
        if token.kind != "text":
            raise self._expected("a text in single quotes, like 'GET /%'")
        self.at += 1
        pattern = _unquoted(token)
        if "%" in pattern[:-1]:
            raise _error(token.position, "like takes one % only, at the end of its text")
        return Like(column, pattern) if pattern.endswith("%") or "_" in pattern else Comparison(column, "=", pattern)

    def _literal(self, column: str) -> Literal:
        token = self._next
        found: Literal
        if token.kind == "number":
            found = _number(token)
        elif token.kind == "text":
            found = _unquoted(token)
        elif token.kind == "word" and token.text.lower() in ("true", "false"):
            found = token.text.lower() == "true"
        elif token.kind == "word" and token.text.lower() == "null":
            raise _error(token.position, f"nothing equals null; ask {column} is null, or {column} is not null")
        else:
            raise self._expected(_LITERAL)
        self.at += 1
        held = self.columns[column]
        if not held.takes(found) or (isinstance(found, bool) and held is not ColumnType.BOOLEAN):
            raise _error(
                token.position, f"{column} holds {held} and cannot be compared with {bound_text(found)[:_SHOWN]}"
            )
        return found

    def _expected(self, what: str) -> QuestionError:
        token = self._next
        found = "the end" if token.kind == "end" else f"{token.text[:_SHOWN]!r}"
        hint = f"; {_quotes_hint(token)}" if token.kind == "name" and what == _LITERAL else ""
        return _error(token.position, f"expected {what}, found {found}{hint}")


def _quotes_hint(token: _Token) -> str:
    return f"write text in single quotes: '{token.text[:_SHOWN]}'"


def _tokens(text: str) -> list[_Token]:
    found, at = [], _blank_end(text, 0)
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            unread = text[at:].split(maxsplit=1)[0][:_SHOWN]
            raise _error(
                at + 1, "this text has no closing quote" if text[at] == "'" else f"{unread!a} means nothing here"
            )
        kind = match.lastgroup or ""
        if kind == "name" and match[0].lower() in _WORDS:
            kind = "word"
        found.append(_Token(kind, match[0], at + 1))
        at = _blank_end(text, match.end())
    return [*found, _Token("end", "", len(text) + 1)]


def _blank_end(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _number(token: _Token) -> float:
    """A number as it is written: a whole one keeps all its digits."""
    number = int(token.text) if re.fullmatch(WHOLE_NUMBER, token.text) else float(token.text)
    if not math.isfinite(number):
        raise _error(token.position, f"{token.text[:_SHOWN]!r} is too large a number")
    return number


def _unquoted(token: _Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _error(position: int, problem: str) -> QuestionError:
    return QuestionError(f"the predicate cannot be read at character {position}: {problem}")
