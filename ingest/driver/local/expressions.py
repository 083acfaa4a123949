"""Expressions of Spark SQL as DuckDB evaluates them: those of which it is tested that both give the same.

Both have functions of the same names that differ at the edges: overflow, division by zero, NaN, what is a number.
So every operation is written out here for the types of its operands, and what is not listed is refused by name. The
differential test is tests/ingest/driver/local/test_expressions.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from sketches.errors import WaneError

_WHOLE: Final = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
_NUMBERS: Final = (*_WHOLE, "DOUBLE")
_MOMENT: Final = "TIMESTAMPTZ"
_ARROW: Final = (
    (pa.types.is_int8, "TINYINT"),
    (lambda kind: pa.types.is_int16(kind) or pa.types.is_uint8(kind), "SMALLINT"),
    (lambda kind: pa.types.is_int32(kind) or pa.types.is_uint16(kind), "INTEGER"),
    (lambda kind: pa.types.is_int64(kind) or pa.types.is_uint32(kind), "BIGINT"),
    (pa.types.is_float64, "DOUBLE"),
    (pa.types.is_boolean, "BOOLEAN"),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), "VARCHAR"),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit in ("us", "ms"), _MOMENT),
    (pa.types.is_null, "NULL"),
)
_WORDS: Final = {"BIGINT": "BIGINT", "INT": "INTEGER", "DOUBLE": "DOUBLE", "TEXT": "VARCHAR", "BOOLEAN": "BOOLEAN"}
_COMPARED: Final = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_UNITS: Final = {"MINUTE": 60, "HOUR": 3_600, "DAY": 86_400, "SECOND": 1}
_UNLIKE: Final = re.compile(r"[^a-zA-Z0-9 .,:;/_%<>=!@#&*()+-]")  # letters of patterns beyond these are left to Spark


class NeedsSparkError(WaneError):
    """An expression is not among those that are evaluated without Spark; the message names what is not."""


class Made(NamedTuple):
    """SQL of DuckDB, and the type that both give it."""

    sql: str
    type: str


def columns_of(expression: str) -> list[str]:
    """The names of the columns in an expression, as they are written."""
    return list(dict.fromkeys(_name(column) for column in _parsed(expression).find_all(exp.Column)))


def translated(expression: str, columns: Mapping[str, tuple[str, pa.DataType]]) -> Made:
    """The expression for DuckDB. `columns` are those that it names, with the SQL and the type of each.

    >>> translated("upper(region)", {"region": ("r", pa.string())}).type
    Traceback (most recent call last):
    ingest.driver.local.expressions.NeedsSparkError: upper() is not evaluated without Spark
    >>> translated("bytes / 1000", {"bytes": ("b", pa.int64())})
    Made(sql='(CAST(b AS DOUBLE) / nullif(CAST(1000 AS DOUBLE), 0))', type='DOUBLE')
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


def _type_of(kind: pa.DataType) -> str | None:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return next((name for fits, name in _ARROW if fits(kind)), None)


class _Translator:
    """Goes through the tree of an expression; every kind of node has one method, found by its class."""

    def __init__(self, columns: Mapping[str, tuple[str, pa.DataType]]) -> None:
        self._columns = columns
        self._makers: dict[type[exp.Expr], Callable[[Any], Made]] = {
            exp.Column: self._column,
            exp.Literal: _literal,
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
        found = _type_of(kind)
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
            return _literal(node.this, "-")
        made = self.made(node.this)
        if made.type == "DOUBLE":
            return Made(f"(-{made.sql})", "DOUBLE")
        self._of(node.this, *_WHOLE)
        return _wrapped(f"-CAST({made.sql} AS HUGEINT)", made.type)

    def _summed(self, node: exp.Add | exp.Sub | exp.Mul) -> Made:
        if any(isinstance(side, exp.DPipe) for side in (node.this, node.expression)):
            raise NeedsSparkError("|| beside + or - needs parentheses")
        (left, right), kind = self._alike([node.this, node.expression])
        sign = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}[type(node)]
        if kind == "DOUBLE":
            return Made(f"({left} {sign} {right})", kind)
        if kind not in _WHOLE:
            raise NeedsSparkError(f"{_called(node)} of {kind} is not evaluated without Spark")
        return _wrapped(f"CAST({left} AS HUGEINT) {sign} CAST({right} AS HUGEINT)", kind)

    def _divided(self, node: exp.Div) -> Made:
        left, right = (self._of(one, *_NUMBERS) for one in (node.this, node.expression))
        return Made(f"(CAST({left} AS DOUBLE) / nullif(CAST({right} AS DOUBLE), 0))", "DOUBLE")

    def _remainder(self, node: exp.IntDiv | exp.Mod) -> Made:
        (left, right), kind = self._alike([node.this, node.expression])
        if kind not in _WHOLE:
            raise NeedsSparkError(f"{_called(node)} of {kind} is not evaluated without Spark")
        sign = "//" if isinstance(node, exp.IntDiv) else "%"
        made = f"CAST({left} AS HUGEINT) {sign} nullif(CAST({right} AS HUGEINT), 0)"
        return _wrapped(made, "BIGINT" if sign == "//" else kind)

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
        texts = [f"CAST({self._of(one, 'VARCHAR', *_WHOLE, 'BOOLEAN')} AS VARCHAR)" for one in parts]
        return Made(f"({' || '.join(texts)})", "VARCHAR")

    def _trimmed(self, node: exp.Trim) -> Made:
        if node.expression is not None:
            raise _refused(node)
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), "trim")
        return Made(f"{name}({self._of(node.this, 'VARCHAR')}, ' ')", "VARCHAR")

    def _part(self, node: exp.Substring) -> Made:
        begin, length = (_whole_literal(node.args.get(name)) for name in ("start", "length"))
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
        return _wrapped(f"abs(CAST({made.sql} AS HUGEINT))", made.type)

    def _rounded(self, node: exp.Floor | exp.Ceil) -> Made:
        if set(node.args) - {"this"} and any(node.args[name] is not None for name in set(node.args) - {"this"}):
            raise _refused(node)
        name = "floor" if isinstance(node, exp.Floor) else "ceil"
        return _truncated(f"{name}({self._of(node.this, 'DOUBLE')})", "BIGINT")

    def _cast(self, node: exp.Cast | exp.TryCast) -> Made:
        target = _WORDS.get(node.args["to"].this.name)
        made = self.made(node.this)
        if target is None or node.args.get("format") or made.type == target:
            if target is not None and made.type == target:
                return made
            raise NeedsSparkError(f"a cast to {node.args['to'].sql('spark')} is not evaluated without Spark")
        if made.type == "NULL":
            return Made(f"CAST(NULL AS {target})", target)
        if target == "DOUBLE" and made.type in _WHOLE:
            return Made(f"CAST({made.sql} AS DOUBLE)", target)
        if target == "VARCHAR" and made.type in (*_WHOLE, "BOOLEAN"):
            return Made(f"CAST({made.sql} AS VARCHAR)", target)
        if target in _WHOLE and made.type in _WHOLE:
            return _wrapped(f"CAST({made.sql} AS HUGEINT)", target)
        if target in _WHOLE and made.type == "BOOLEAN":
            return Made(f"CAST({made.sql} AS {target})", target)
        if target in _WHOLE and made.type == "DOUBLE":
            return _truncated(made.sql, target)
        if target == "BIGINT" and made.type == _MOMENT:
            return Made(_floored(f"epoch_us({made.sql})", 1_000_000), "BIGINT")
        raise NeedsSparkError(f"a cast from {made.type} to {target} is not evaluated without Spark")

    def _moment(self, node: exp.UnixSeconds | exp.UnixMillis | exp.UnixMicros) -> Made:
        size = {exp.UnixSeconds: 1_000_000, exp.UnixMillis: 1_000, exp.UnixMicros: 1}[type(node)]
        return Made(_floored(f"epoch_us({self._of(node.this, _MOMENT)})", size), "BIGINT")

    def _begun(self, node: exp.TimestampTrunc) -> Made:
        """The beginning of a minute, an hour or a day in UTC, which is the zone of a run's session."""
        size = _UNITS.get(str(node.args["unit"].name).upper())
        if size is None or node.args.get("zone"):
            raise _refused(node)
        stamp = f"epoch_us({self._of(node.this, _MOMENT)})"
        return Made(f"make_timestamptz({_floored(stamp, size * 1_000_000)} * {size * 1_000_000})", _MOMENT)

    def _function(self, node: exp.Anonymous) -> Made:
        name, arguments = str(node.this).lower(), node.expressions
        if name in ("isnull", "isnotnull") and len(arguments) == 1:
            return Made(f"({self.made(arguments[0]).sql} IS {'NOT ' * (name != 'isnull')}NULL)", "BOOLEAN")
        if name in ("timestamp_millis", "timestamp_micros") and len(arguments) == 1:
            size = 1_000 if name == "timestamp_millis" else 1
            stamp = f"CAST({self._of(arguments[0], *_WHOLE)} AS BIGINT) * {size}"
            return Made(f"make_timestamptz({stamp})", _MOMENT)
        raise _refused(node)


def _literal(node: exp.Literal, sign: str = "") -> Made:
    text = str(node.this)
    if node.is_string:
        if sign:
            raise NeedsSparkError("- of a text is not evaluated without Spark")
        return Made("'" + text.replace("'", "''") + "'", "VARCHAR")
    if text.isdecimal() and abs(number := int(sign + text)) < 1 << 63:
        return Made(f"{number}", "INTEGER" if -(1 << 31) <= number < 1 << 31 else "BIGINT")
    if re.fullmatch(r"[0-9.]+[eE][+-]?[0-9]+", text):
        return Made(f"CAST('{sign}{text}' AS DOUBLE)", "DOUBLE")
    raise NeedsSparkError(f"{text} is a decimal to Spark, and is not evaluated without it; {text}e0 is a number")


def _whole_literal(node: exp.Expr | None) -> int | None:
    return int(node.this) if isinstance(node, exp.Literal) and not node.is_string and node.this.isdecimal() else None


def _wrapped(number: str, kind: str) -> Made:
    """A number of any size in as many bits as the type has, as Java does it."""
    half = 1 << (_WHOLE[kind] - 1)
    moved = f"({number} + {half}::HUGEINT)"
    return Made(f"CAST((({moved} % {2 * half}::HUGEINT) + {2 * half}) % {2 * half}::HUGEINT - {half} AS {kind})", kind)


def _truncated(number: str, kind: str) -> Made:
    """A floating-point number without its fraction, at the limits of the type where it is beyond; 0 where it is NaN."""
    half = 1 << (_WHOLE[kind] - 1)
    return Made(
        f"CASE WHEN isnan({number}) THEN 0::{kind} WHEN {number} >= {half}::DOUBLE THEN {half - 1}::{kind} "
        f"WHEN {number} <= {-half}::DOUBLE THEN ({-half})::{kind} ELSE CAST(trunc({number}) AS {kind}) END",
        kind,
    )


def _floored(number: str, size: int) -> str:
    return f"CAST(({number} - ((({number}) % {size}) + {size}) % {size}) // {size} AS BIGINT)"


def _refused(node: exp.Expr) -> NeedsSparkError:
    return NeedsSparkError(f"{_called(node)} is not evaluated without Spark")


def _called(node: exp.Expr) -> str:
    """What people call a node: the name of a function, or what stands there."""
    if isinstance(node, exp.Anonymous):
        return f"{node.this}()"
    if isinstance(node, exp.Func):
        return f"{node.sql_name().lower()}()"
    return node.sql("spark")[:60]
