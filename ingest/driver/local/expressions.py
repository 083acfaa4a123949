"""Expressions of Spark SQL as DuckDB evaluates them: those of which it is tested that both give the same.

Both have functions of the same names that differ at the edges: overflow, division by zero, NaN, what is a number.
So every operation is written out here for the types of its operands, and what is not listed is refused by name. The
differential test is tests/ingest/driver/local/test_expressions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from ingest.driver.local.java_numbers import WHOLE, floored, truncated, wrapped
from ingest.driver.local.values import MOMENT, Made, NeedsSparkError, literal, type_of, whole_literal

_NUMBERS: Final = (*WHOLE, "DOUBLE")
_WORDS: Final = {"BIGINT": "BIGINT", "INT": "INTEGER", "DOUBLE": "DOUBLE", "TEXT": "VARCHAR", "BOOLEAN": "BOOLEAN"}
_COMPARED: Final = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
# What a node may say; whatever else it says would change what it means.
_HEEDED: Final = (
    *(
        "this",
        "expression",
        "expressions",
        "is_string",
        "table",
        "low",
        "high",
        "ifs",
        "default",
        "true",
        "false",
        "to",
    ),
    *("start", "length", "unit", "position", "typed", "negate", "_type"),
)
_UNITS: Final = {"MINUTE": 60, "HOUR": 3_600, "DAY": 86_400, "SECOND": 1}
# Letters of which Java and DuckDB know the same capitals: Latin, Greek and Cyrillic but for those that become two, or
# depend on what stands beside them; and scripts that have none.
_CASED: Final = (
    r"\x{0000}-\x{00DE}\x{00E0}-\x{012F}\x{0131}-\x{0148}\x{014A}-\x{017F}\x{0391}-\x{03A1}"
    r"\x{03A4}-\x{03A9}\x{03B1}-\x{03C9}\x{0400}-\x{052F}\x{3040}-\x{9FFF}\x{AC00}-\x{D7A3}\x{1F300}-\x{1F64F}"
)


def columns_of(expression: str) -> list[str]:
    """The names of the columns in an expression, as they are written."""
    return list(dict.fromkeys(_name(column) for column in _parsed(expression).find_all(exp.Column)))


def translated(expression: str, columns: Mapping[str, tuple[str, pa.DataType]]) -> Made:
    """The expression for DuckDB. `columns` are those that it names, with the SQL and the type of each.

    >>> translated("initcap(region)", {"region": ("r", pa.string())}).type
    Traceback (most recent call last):
    ingest.driver.local.values.NeedsSparkError: initcap() is not evaluated without Spark
    >>> translated("bytes / 1000", {"bytes": ("b", pa.int64())})
    Made(sql='(CAST(CAST(b AS BIGINT) AS DOUBLE) / nullif(CAST(1000 AS DOUBLE), 0))', type='DOUBLE')
    """
    made = _Translator(columns).made(_parsed(expression))
    return Made("NULL", "VARCHAR") if made.type == "NULL" else made


def _parsed(expression: str) -> exp.Expr:
    if "\\" in expression:  # in texts Spark reads what follows it as an escape
        raise NeedsSparkError("a backslash is not read without Spark")
    try:
        return parse_one(expression, read="spark")
    except SqlglotError as error:
        raise NeedsSparkError("it cannot be read without Spark") from error


def _name(column: exp.Column) -> str:
    return ".".join(part.name for part in column.parts)


class _Translator:
    """Goes through the tree of an expression; every kind of node has one method, found by its class."""

    def __init__(self, columns: Mapping[str, tuple[str, pa.DataType]]) -> None:
        self._columns = columns
        self._makers: dict[type[exp.Expr], Callable[[Any], Made]] = {
            exp.Column: self._column,
            exp.Literal: literal,
            exp.Boolean: lambda node: Made(str(bool(node.this)).lower(), "BOOLEAN"),
            exp.Null: lambda _: Made("NULL", "NULL"),
            exp.Paren: lambda node: self.made(node.this),
            exp.Neg: self._negated,
            exp.Add: self._summed,
            exp.Sub: self._summed,
            exp.Mul: self._summed,
            exp.Div: self._divided,
            exp.IntDiv: self._remainder,
            exp.Mod: self._remainder,
            exp.And: self._logical,
            exp.Or: self._logical,
            exp.Not: lambda node: Made(f"(NOT {self._of(node.this, 'BOOLEAN')})", "BOOLEAN"),
            exp.Is: self._is,
            exp.In: self._in,
            exp.Between: self._between,
            exp.Case: self._case,
            exp.If: self._if,
            exp.Coalesce: lambda node: self._together("coalesce", [node.this, *node.expressions]),
            exp.Nullif: self._nullif,
            exp.DPipe: self._joined,
            exp.Concat: self._joined,
            exp.Trim: self._trimmed,
            exp.Lower: self._in_case,
            exp.Upper: self._in_case,
            exp.Like: self._like,
            exp.Length: lambda node: Made(f"CAST(length({self._of(node.this, 'VARCHAR')}) AS INTEGER)", "INTEGER"),
            exp.Substring: self._part,
            exp.StartsWith: self._contains,
            exp.Contains: self._contains,
            exp.Abs: self._absolute,
            exp.Floor: self._rounded,
            exp.Ceil: self._rounded,
            exp.Cast: self._cast,
            exp.TryCast: self._cast,
            exp.UnixSeconds: self._moment,
            exp.UnixMillis: self._moment,
            exp.UnixMicros: self._moment,
            exp.TimestampTrunc: self._begun,
            exp.Anonymous: self._function,
        }

    def made(self, node: exp.Expr) -> Made:
        unknown = {name for name, value in node.args.items() if value and name not in _HEEDED}
        if unknown - ({"safe"} if isinstance(node, exp.Div | exp.DPipe | exp.Concat) else set()):
            raise _refused(node)
        if type(node) in _COMPARED:
            return self._compared(node)
        maker = self._makers.get(type(node))
        if maker is None:
            raise _refused(node)
        return maker(node)

    def _of(self, node: exp.Expr, *types: str) -> str:
        made = self.made(node)
        if made.type not in types and made.type != "NULL":
            raise NeedsSparkError(f"{_called(node.parent or node)} of {made.type} is not evaluated without Spark")
        return made.sql if made.type != "NULL" else f"CAST(NULL AS {types[0]})"

    def _column(self, node: exp.Column) -> Made:
        sql, kind = self._columns[_name(node)]
        found = type_of(kind)
        if found is None:
            raise NeedsSparkError(
                f"the column {_name(node)} is of type {kind}, which no expression takes without Spark"
            )
        return Made(f"CAST({sql} AS {found})" if found != "NULL" else "NULL", found)

    def _alike(self, nodes: Sequence[exp.Expr]) -> tuple[list[str], str]:
        """Operands in the one type that Spark gives them all: the widest number, or the same type as it is."""
        made = [self.made(node) for node in nodes]
        types = {one.type for one in made} - {"NULL"}
        if not types:
            return [one.sql for one in made], "NULL"
        if len(types) == 1:
            return [one.sql for one in made], types.pop()
        if not types <= set(_NUMBERS):
            raise NeedsSparkError(
                f"{_called(nodes[0].parent or nodes[0])} of {' and '.join(sorted(types))} needs a cast"
            )
        widest = max(types, key=_NUMBERS.index)
        return [f"CAST({one.sql} AS {widest})" for one in made], widest

    def _negated(self, node: exp.Neg) -> Made:
        if isinstance(node.this, exp.Literal):
            return literal(node.this, "-")
        made = self.made(node.this)
        if made.type == "DOUBLE":
            return Made(f"(-{made.sql})", "DOUBLE")
        self._of(node.this, *WHOLE)
        return _whole_of(f"-CAST({made.sql} AS HUGEINT)", made.type)

    def _summed(self, node: exp.Add | exp.Sub | exp.Mul) -> Made:
        if any(isinstance(side, exp.DPipe) for side in (node.this, node.expression)):
            raise NeedsSparkError("|| beside + or - needs parentheses")
        (left, right), kind = self._alike([node.this, node.expression])
        sign = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}[type(node)]
        if kind == "DOUBLE":
            return Made(f"({left} {sign} {right})", kind)
        if kind not in WHOLE:
            raise NeedsSparkError(f"{_called(node)} of {kind} is not evaluated without Spark")
        return _whole_of(f"CAST({left} AS HUGEINT) {sign} CAST({right} AS HUGEINT)", kind)

    def _divided(self, node: exp.Div) -> Made:
        left, right = (self._of(one, *_NUMBERS) for one in (node.this, node.expression))
        return Made(f"(CAST({left} AS DOUBLE) / nullif(CAST({right} AS DOUBLE), 0))", "DOUBLE")

    def _remainder(self, node: exp.IntDiv | exp.Mod) -> Made:
        (left, right), kind = self._alike([node.this, node.expression])
        if kind not in WHOLE:
            raise NeedsSparkError(f"{_called(node)} of {kind} is not evaluated without Spark")
        sign = "//" if isinstance(node, exp.IntDiv) else "%"
        made = f"CAST({left} AS HUGEINT) {sign} nullif(CAST({right} AS HUGEINT), 0)"
        return _whole_of(made, "BIGINT" if sign == "//" else kind)

    def _compared(self, node: Any) -> Made:
        (left, right), kind = self._alike([node.this, node.expression])
        if kind == "NULL":
            return Made("CAST(NULL AS BOOLEAN)", "BOOLEAN")
        return Made(f"({left} {_COMPARED[type(node)]} {right})", "BOOLEAN")

    def _logical(self, node: exp.And | exp.Or) -> Made:
        sides = [self._of(one, "BOOLEAN") for one in (node.this, node.expression)]
        return Made(f"({(' AND ' if isinstance(node, exp.And) else ' OR ').join(sides)})", "BOOLEAN")

    def _is(self, node: exp.Is) -> Made:
        if not isinstance(node.expression, exp.Null):
            raise _refused(node)
        return Made(f"({self.made(node.this).sql} IS NULL)", "BOOLEAN")

    def _in(self, node: exp.In) -> Made:
        if not node.expressions or set(node.args) - {"this", "expressions"}:
            raise _refused(node)
        (one, *others), kind = self._alike([node.this, *node.expressions])
        return Made(f"({one} IN ({', '.join(others)}))" if kind != "NULL" else "CAST(NULL AS BOOLEAN)", "BOOLEAN")

    def _between(self, node: exp.Between) -> Made:
        (one, low), _ = self._alike([node.this, node.args["low"]])
        (same, high), _ = self._alike([node.this, node.args["high"]])
        return Made(f"({one} >= {low} AND {same} <= {high})", "BOOLEAN")

    def _case(self, node: exp.Case) -> Made:
        if node.this is not None:
            raise NeedsSparkError("case with a value behind it is not evaluated without Spark; write case when … then")
        branches = node.args["ifs"]
        tests = [self._of(one.this, "BOOLEAN") for one in branches]
        default = node.args.get("default") or exp.Null()
        (*results, last), kind = self._alike([*(one.args["true"] for one in branches), default])
        cases = " ".join(f"WHEN {test} THEN {made}" for test, made in zip(tests, results, strict=True))
        return Made(f"CASE {cases} ELSE {last} END", kind)

    def _if(self, node: exp.If) -> Made:
        test = self._of(node.this, "BOOLEAN")
        (yes, no), kind = self._alike([node.args["true"], node.args.get("false") or exp.Null()])
        return Made(f"CASE WHEN {test} THEN {yes} ELSE {no} END", kind)

    def _together(self, name: str, nodes: Sequence[exp.Expr]) -> Made:
        made, kind = self._alike(nodes)
        return Made(f"{name}({', '.join(made)})", kind)

    def _nullif(self, node: exp.Nullif) -> Made:
        (left, right), kind = self._alike([node.this, node.expression])
        own = self.made(node.this)
        return Made(f"CASE WHEN {left} = {right} THEN NULL ELSE {own.sql} END" if kind != "NULL" else "NULL", own.type)

    def _joined(self, node: exp.DPipe | exp.Concat) -> Made:
        parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression]
        if isinstance(node, exp.DPipe) and any(isinstance(one, exp.Add | exp.Sub) for one in parts):
            raise NeedsSparkError("|| beside + or - needs parentheses")
        texts = [f"CAST({self._of(one, 'VARCHAR', *WHOLE, 'BOOLEAN')} AS VARCHAR)" for one in parts]
        return Made(f"({' || '.join(texts)})", "VARCHAR")

    def _trimmed(self, node: exp.Trim) -> Made:
        if node.expression is not None:
            raise _refused(node)
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), "trim")
        return Made(f"{name}({self._of(node.this, 'VARCHAR')}, ' ')", "VARCHAR")

    def _in_case(self, node: exp.Lower | exp.Upper) -> Made:
        text, name = self._of(node.this, "VARCHAR"), "lower" if isinstance(node, exp.Lower) else "upper"
        sentence = f"{name}() meets a letter whose capitals only Spark knows: this needs Spark"
        known = f"regexp_full_match({text}, '[{_CASED}]*')"
        return Made(
            f"CASE WHEN {known} THEN {name}({text}) WHEN {text} IS NOT NULL THEN wane_fails('{sentence}', {text}) END",
            "VARCHAR",
        )

    def _like(self, node: exp.Like) -> Made:
        if not isinstance(node.expression, exp.Literal):
            raise NeedsSparkError("like takes a text as its pattern without Spark")
        negated = "NOT " if node.args.get("negate") else ""
        sides = [self._of(one, "VARCHAR") for one in (node.this, node.expression)]
        return Made(f"({sides[0]} {negated}LIKE {sides[1]})", "BOOLEAN")

    def _part(self, node: exp.Substring) -> Made:
        begin, length = (whole_literal(node.args.get(name)) for name in ("start", "length"))
        if begin is None or begin < 1 or (node.args.get("length") is not None and length is None):
            raise NeedsSparkError("substring() takes places as numbers from 1 without Spark")
        rest = "" if length is None else f", {length}"
        return Made(f"substring({self._of(node.this, 'VARCHAR')}, {begin}{rest})", "VARCHAR")

    def _contains(self, node: exp.StartsWith | exp.Contains) -> Made:
        name = "starts_with" if isinstance(node, exp.StartsWith) else "contains"
        sides = ", ".join(self._of(one, "VARCHAR") for one in (node.this, node.expression))
        return Made(f"{name}({sides})", "BOOLEAN")

    def _absolute(self, node: exp.Abs) -> Made:
        made = self.made(node.this)
        self._of(node.this, *_NUMBERS)
        if made.type == "DOUBLE":
            return Made(f"abs({made.sql})", "DOUBLE")
        return _whole_of(f"abs(CAST({made.sql} AS HUGEINT))", made.type)

    def _rounded(self, node: exp.Floor | exp.Ceil) -> Made:
        name = "floor" if isinstance(node, exp.Floor) else "ceil"
        return _truncation(f"{name}({self._of(node.this, 'DOUBLE')})", "BIGINT")

    def _cast(self, node: exp.Cast | exp.TryCast) -> Made:
        target = _WORDS.get(node.args["to"].this.name)
        made = self.made(node.this)
        if made.type == target:
            return made
        if target is None:
            raise NeedsSparkError(f"a cast to {node.args['to'].sql('spark')} is not evaluated without Spark")
        if made.type == "NULL":
            return Made(f"CAST(NULL AS {target})", target)
        if target == "DOUBLE" and made.type in WHOLE:
            return Made(f"CAST({made.sql} AS DOUBLE)", target)
        if target == "VARCHAR" and made.type in (*WHOLE, "BOOLEAN"):
            return Made(f"CAST({made.sql} AS VARCHAR)", target)
        if target in WHOLE and made.type in WHOLE:
            return _whole_of(f"CAST({made.sql} AS HUGEINT)", target)
        if target in WHOLE and made.type == "BOOLEAN":
            return Made(f"CAST({made.sql} AS {target})", target)
        if target in WHOLE and made.type == "DOUBLE":
            return _truncation(made.sql, target)
        if target == "BIGINT" and made.type == MOMENT:
            return Made(floored(f"epoch_us({made.sql})", 1_000_000), "BIGINT")
        raise NeedsSparkError(f"a cast from {made.type} to {target} is not evaluated without Spark")

    def _moment(self, node: exp.UnixSeconds | exp.UnixMillis | exp.UnixMicros) -> Made:
        size = {exp.UnixSeconds: 1_000_000, exp.UnixMillis: 1_000, exp.UnixMicros: 1}[type(node)]
        return Made(floored(f"epoch_us({self._of(node.this, MOMENT)})", size), "BIGINT")

    def _begun(self, node: exp.TimestampTrunc) -> Made:
        """The beginning of a minute, an hour or a day in UTC, which is the zone of a run's session."""
        size = _UNITS.get(str(node.args["unit"].name).upper())
        if size is None or node.args.get("zone"):
            raise _refused(node)
        stamp = f"epoch_us({self._of(node.this, MOMENT)})"
        return Made(f"make_timestamptz({floored(stamp, size * 1_000_000)} * {size * 1_000_000})", MOMENT)

    def _function(self, node: exp.Anonymous) -> Made:
        name, arguments = str(node.this).lower(), node.expressions
        if name in ("isnull", "isnotnull") and len(arguments) == 1:
            return Made(f"({self.made(arguments[0]).sql} IS {'NOT ' * (name != 'isnull')}NULL)", "BOOLEAN")
        if name in ("timestamp_millis", "timestamp_micros") and len(arguments) == 1:
            size = 1_000 if name == "timestamp_millis" else 1
            stamp = f"CAST({self._of(arguments[0], *WHOLE)} AS BIGINT) * {size}"
            return Made(f"make_timestamptz({stamp})", MOMENT)
        raise _refused(node)


def _whole_of(number: str, kind: str) -> Made:
    return Made(wrapped(number, kind), kind)


def _truncation(number: str, kind: str) -> Made:
    return Made(truncated(number, kind), kind)


def _refused(node: exp.Expr) -> NeedsSparkError:
    return NeedsSparkError(f"{_called(node)} is not evaluated without Spark")


def _called(node: exp.Expr) -> str:
    """What people call a node: the name of a function, or what stands there."""
    if isinstance(node, exp.Anonymous):
        return f"{node.this}()"
    if isinstance(node, exp.Func):
        return f"{node.sql_name().lower()}()"
    return node.sql("spark")[:60]
