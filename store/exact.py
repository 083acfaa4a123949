"""Exact answers from the raw files that a stream was ingested from, where they are still at hand: what estimates are
held against.

Ingest takes Spark's SQL expressions for its columns, and those are not DuckDB's: a stream is checked here only where
each of them is a plain column or a constant. No text of the settings enters a statement but as a quoted identifier.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import duckdb
import numpy as np
import pyarrow as pa
from duckdb.func import ARROW
from numpy.typing import ArrayLike, NDArray

from sketches.answers import ORDERED
from sketches.decay import Decay, parse_decay
from sketches.drawn import SECOND, TimeUnit
from sketches.errors import QuestionError, UnanswerableError
from sketches.events import MAX_TIME, MAX_VALUE, Kind
from sketches.question import Question
from sketches.range_sample import MAX_WEIGHT
from store.database import WAIT, StoreError, connected
from store.ledger import KnownFile
from store.schema import check

MOST_ROWS: Final = 50_000_000  # beyond, loading takes minutes and tens of gigabytes of disk
MEMORY: Final = "2GB"  # what DuckDB takes before it goes to disk
ROLES: Final = ("source", "id", "time", "value", "weight")

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_QUOTED_NAME: Final = re.compile(r"`([^`]+)`")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_TEXT: Final = re.compile(r"'([^'\\]*)'")
_CONSTANTS: Final = ("true", "false", "null")
_PACKED: Final = (".gz", ".zst")
_UNREAD: Final = (".bz2", ".lz4", ".snappy")
_ROUNDING: Final = 1e-12  # a cumulated share this close below phi, relatively, has reached it
_SELECTIONS: Final = 4  # choices of sources kept ready

_WHOLE_TYPES: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_ZONED: Final = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")
_FINE: Final = ("TIMESTAMP_NS", "TIMESTAMPTZ_NS")
_MOMENTS: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", *_FINE, *_ZONED)
_NO_ID: Final = ("FLOAT", "DOUBLE", "BOOLEAN")

# What Spark would take a column of CSV or JSON for: the first type that all its values fit.
_CSV_TYPES: Final = {
    "BIGINT": "regexp_full_match({c}, '[+-]?[0-9]+') AND TRY_CAST({c} AS BIGINT) IS NOT NULL",
    "DOUBLE": r"regexp_full_match({c}, '[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|NaN|-?Inf')",
    "DATE": r"regexp_full_match({c}, '\d{{4}}-\d\d-\d\d') AND TRY_CAST({c} AS DATE) IS NOT NULL",
    "TIMESTAMPTZ": r"regexp_matches({c}, '^\d{{4}}-\d\d-\d\d') AND TRY_CAST({c} AS TIMESTAMPTZ) IS NOT NULL",
    "BOOLEAN": "lower({c}) IN ('true', 'false')",
}
_JSON_TYPES: Final = {
    "BIGINT": "json_type({c}) IN ('BIGINT', 'UBIGINT')",
    "DOUBLE": "json_type({c}) IN ('BIGINT', 'UBIGINT', 'DOUBLE')",
    "BOOLEAN": "json_type({c}) = 'BOOLEAN'",
    "VARCHAR": "json_type({c}) NOT IN ('OBJECT', 'ARRAY')",
}
_READERS: Final = {
    "parquet": "read_parquet($paths{n}, filename = 'file of wane', hive_partitioning = false)",
    "csv": "read_csv($paths{n}, filename = 'file of wane', hive_partitioning = false, all_varchar = true, "
    "header = true, skip = 0, delim = ',', quote = '\"', escape = '\"', comment = '', null_padding = true, "
    "allow_quoted_nulls = false)",
    "json": "read_json($paths{n}, filename = 'file of wane', hive_partitioning = false, columns = $columns, "
    "format = 'newline_delimited', ignore_errors = true)",
}

# Per aggregate: what is summed over the events that match, what it is divided by, and whether those must match too.
_SUMS: Final = {
    "sum": ("{of}", None, False),
    "count": ("number", None, False),
    "mean": ("{of}", "number", False),
    "selectivity": ("weight", "weight", False),
    "rank": ("weight", "weight", False),
    "frequency": ("weight", "weight", False),
    "range-sum": ("weight", None, False),
    "range-frequency": ("weight", "weight", False),
    "correlated-sum": ("weight", None, False),
    "correlated-count": ("number", None, False),
    "correlated-mean": ("weight", "number", True),
}


@dataclass(frozen=True, slots=True)
class Plain:
    """A role as a column of the input, or as a constant."""

    column: str | None
    constant: int | str | None = None


@dataclass(frozen=True, slots=True)
class RawFiles:
    """The files that the ledger says a stream was read from, by what became of them, and how they become events.

    `reason` says why the stream cannot be checked against them, None where it can. Copies, which ingest did not read,
    are left out. Where the ledger of an old store has no time of change, the size alone tells a changed file.
    """

    stream: str
    present: tuple[KnownFile, ...] = ()
    changed: tuple[KnownFile, ...] = ()
    missing: tuple[KnownFile, ...] = ()
    reason: str | None = None
    format: str = ""
    kind: Kind | None = None
    unit: TimeUnit = SECOND
    columns: Mapping[str, Plain] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether all of the stream's events can be read again."""
        return bool(self.present) and not (self.changed or self.missing)

    @property
    def rows(self) -> int:
        """The rows in the files at hand, rejected ones and repeats included."""
        return sum(file.rows for file in self.present)


def raw_files(path: str | Path, stream: str, wait: float = WAIT) -> RawFiles:
    """Hold the ledger of a stream against the files as they lie there now; reads none of them."""
    file = Path(path)
    with connected(file, write=False, wait=wait) as connection:
        check(connection, file)
        held = connection.execute(
            "SELECT unit_numerator, unit_denominator, settings FROM streams WHERE stream = $1", [stream]
        ).fetchall()
        rows = connection.execute(
            "SELECT run, path, size, fingerprint, modified, rows, oldest, newest FROM files "
            "WHERE stream = $1 AND rows > 0 ORDER BY path",
            [stream],
        ).fetchall()
    if not held:
        raise StoreError(f"stream {stream!r} is not in {file}")
    numerator, denominator, text = held[0]
    ledger = [KnownFile(*row) for row in rows]
    states = {known.path: _state(known) for known in ledger}
    present, changed, missing = (
        tuple(known for known in ledger if states[known.path] == state) for state in ("present", "changed", "missing")
    )
    settings = json.loads(text)
    kind = Kind(settings["kind"]) if settings.get("kind") in list(Kind) else None
    columns = {role: _plain(settings.get(role)) for role in ROLES}
    reason = _reason(settings, kind, columns, ledger, present)
    plain = {role: column for role, column in columns.items() if column is not None}
    unit = TimeUnit(numerator, denominator)
    return RawFiles(stream, present, changed, missing, reason, settings.get("format", ""), kind, unit, plain)


def _state(known: KnownFile) -> str:
    try:
        status = Path(known.path).stat()
    except OSError:
        return "missing"
    same = status.st_size == known.size and known.modified in (0, status.st_mtime_ns)
    return "present" if same else "changed"


def _plain(expression: object) -> Plain | None:
    """An expression as a column or constant, None where it is more than that."""
    if not isinstance(expression, str):
        return None
    if _NAME.fullmatch(expression) and expression.lower() not in _CONSTANTS:
        return Plain(expression)
    if match := _QUOTED_NAME.fullmatch(expression):
        return Plain(match[1])
    if _NUMBER.fullmatch(expression):
        return Plain(None, int(expression))
    match = _TEXT.fullmatch(expression)
    return Plain(None, match[1]) if match else None


def _reason(
    settings: Mapping[str, Any],
    kind: Kind | None,
    columns: Mapping[str, Plain | None],
    ledger: Sequence[KnownFile],
    present: Sequence[KnownFile],
) -> str | None:
    if not ledger:
        return "the store has no record of the files that this stream was read from"
    for role, column in columns.items():
        if role not in settings:
            return f"the store does not say what the stream's {role} was read from"
        if column is None:
            return (
                f"`{role}` is the expression `{settings[role]}`; only plain columns and constants (whole numbers, "
                "quoted text) can be checked here"
            )
    if kind is None:
        return "the store does not say whether the stream's values are numbers or text"
    if settings.get("format") not in _READERS:
        return f"files of format {settings.get('format')!r} cannot be checked here; {', '.join(_READERS)} can"
    for known in ledger:
        if known.path.lower().endswith(_UNREAD):
            return f"{known.path} is packed in a way that cannot be read here; {' and '.join(_PACKED)} can"
    if not present:
        return f"none of the stream's {len(ledger):,} input files is at hand as it was when it was read"
    return None


class Exact:
    """Exact answers over the raw files of one stream, whose distinct events are loaded once.

    Events are told apart as ingest tells them: rows that agree in id, time, value and weight are one, and one that
    several of the chosen sources report counts once. `events` counts the rows accepted, repeats included: it equals
    the sum of `epochs.events` where the files are complete and were read with the settings that the store has now.

        with Exact(raw_files("wane.duckdb", "calls")) as exact:
            exact.answer(Question("sum", "exp:half_life=30m"), as_of)

    Not known here, because the store does not have it: the `schema` and `options` of a reader. Events of a CSV or JSON
    file take the types that Spark would find by itself.
    """

    def __init__(self, raw: RawFiles, *, most_rows: int = MOST_ROWS, memory: str = MEMORY) -> None:
        if raw.reason is not None:
            raise StoreError(f"stream {raw.stream!r} cannot be checked: {raw.reason}")
        if raw.rows > most_rows:
            raise StoreError(
                f"the raw files of stream {raw.stream!r} hold {raw.rows:,} rows; exact answers are given up to "
                f"{most_rows:,}"
            )
        assert raw.kind is not None
        self.raw = raw
        self.kind = raw.kind
        self._turn = threading.RLock()
        self._fading = _Fading()
        self._chosen: dict[tuple[str, ...], str] = {}
        self._made = 0
        self._folder = tempfile.TemporaryDirectory(prefix="wane-exact-", ignore_cleanup_errors=True)
        self._connection: duckdb.DuckDBPyConnection | None = None
        try:
            links = _link(raw.present, Path(self._folder.name))
            with self._saying(links):
                self._connection = _opened(Path(self._folder.name), memory)
                _load(self._connection, raw, links)
                self._connection.execute("SET enable_external_access = false")
                self._connection.execute("SET lock_configuration = true")
                self._connection.create_function(
                    "fade", self._fading, ["DOUBLE"], "DOUBLE", type=ARROW, side_effects=True
                )
                found = self._connection.execute(
                    "SELECT coalesce(sum(repeats), 0)::BIGINT, min(t), max(t), list(DISTINCT source) FROM events"
                ).fetchall()
            for known in raw.present:
                if _state(known) != "present":
                    raise StoreError(f"{known.path} was changed or removed while it was read; try again")
        except BaseException:
            self.close()
            raise
        [(events, oldest, newest, sources)] = found
        self.events: int = events
        self.oldest: int | None = oldest
        self.newest: int | None = newest
        self.sources: tuple[str, ...] = tuple(sorted(sources or ()))

    def close(self) -> None:
        """Give back memory and disk; whoever asks afterwards is refused."""
        with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def answer(
        self, question: Question, as_of: int | None = None, sources: Sequence[str] = (), *, other: str | None = None
    ) -> float:
        """The exact answer, NaN where a ratio or quantile of nothing is asked; no sources are all of them.

        `as_of` goes before the question's own; without either it is the time of the newest event chosen. `other` is
        the second source of an inner product.
        """
        self._check(question, other)
        with self._turn, self._saying():
            table = self._table(sources)
            partner = None if other is None else self._table([other])
            moment = self._moment(question, as_of, [table] if partner is None else [table, partner])
            return self._answered(question, moment, table, partner)

    def series(
        self, question: Question, as_of: ArrayLike, sources: Sequence[str] = (), *, other: str | None = None
    ) -> NDArray[np.float64]:
        """One question at many as-of times."""
        moments = np.asarray(as_of, np.int64)
        return np.array([self.answer(question, moment, sources, other=other) for moment in moments.tolist()], float)

    def shares(
        self, question: Question, as_of: int | None = None, sources: Sequence[str] = (), *, every: bool = False
    ) -> list[tuple[int | float | str, float]]:
        """Values with their shares of the decayed weight, largest first: those that the question's `top` and `phi`
        let through, or every one that carries weight."""
        with self._turn, self._saying():
            table = self._table(sources)
            moment = self._moment(question, as_of, [table])
            found = self._run(
                f"WITH masses AS ({_masses(table)}), whole AS (SELECT fsum(mass) AS whole FROM masses) "
                "SELECT v, mass / whole AS share FROM masses, whole WHERE mass > 0 AND share >= $least "
                "ORDER BY share DESC, v LIMIT $top",
                question,
                moment,
                least=0.0 if every or question.phi is None else question.phi * (1 - _ROUNDING),
                top=None if every else question.top,
            )
        return [(value, share) for value, share in found]

    def _check(self, question: Question, other: str | None) -> None:
        if question.aggregate == "heavy-hitters":
            raise UnanswerableError("heavy-hitters is a list: ask for shares")
        if (question.aggregate == "inner-product") != (other is not None):
            raise QuestionError("inner-product needs another source, and only inner-product takes one")
        if self.kind is Kind.KEY and question.aggregate in ORDERED:
            raise UnanswerableError(f"{question.aggregate} needs ordered values, but this stream's values are text")
        if self.kind is Kind.KEY and question.of == "value":
            raise UnanswerableError("of='value' needs numbers, but this stream's values are text")

    def _table(self, sources: Sequence[str]) -> str:
        """The table of the chosen sources: per time and value the weight and the number of distinct events."""
        chosen = tuple(sorted(set(sources)))
        for source in chosen:
            if source not in self.sources:
                held = ", ".join(self.sources[:20]) or "none"
                raise QuestionError(f"source {source!r} is not in the raw files at hand; they hold {held}")
        if chosen == self.sources:
            chosen = ()
        table = self._chosen.pop(chosen, None)
        if table is None:
            if len(self._chosen) >= _SELECTIONS:
                oldest = self._chosen.pop(next(iter(self._chosen)))
                self._execute(f"DROP TABLE {oldest}")
                self._execute(f"DROP TABLE IF EXISTS {oldest}_by_value")
            self._made += 1
            table = f"chosen_{self._made}"
            among = "WHERE list_contains($sources, source)" if chosen else ""
            self._execute(
                f"CREATE TABLE {table} AS SELECT t, v, sum(w)::DOUBLE AS weight, count(*)::DOUBLE AS number "
                f"FROM (SELECT DISTINCT id, t, v, w FROM events {among}) GROUP BY t, v ORDER BY t, v",
                {"sources": list(chosen)} if chosen else {},
            )
        self._chosen[chosen] = table  # the one used last stands last
        return table

    def _moment(self, question: Question, as_of: int | None, tables: Sequence[str]) -> int:
        """The as-of time asked for, or that of the newest event."""
        stated = question.as_of if as_of is None else as_of
        if stated is not None:
            return question.at(stated).as_of or 0
        newest = [self._execute(f"SELECT max(t) FROM {table}")[0][0] for table in tables]
        return max((time for time in newest if time is not None), default=0)

    def _answered(self, question: Question, moment: int, table: str, partner: str | None) -> float:
        match question.aggregate:
            case "quantile" | "median":
                assert question.phi is not None
                value = self._quantile(question, moment, table, question.phi)
                return math.nan if value is None else float(value)
            case "self-join":
                found = self._run(f"SELECT fsum(mass * mass) FROM ({_masses(table)})", question, moment)
                return found[0][0] or 0.0
            case "inner-product":
                assert partner is not None
                found = self._run(
                    f"SELECT fsum(here.mass * there.mass) FROM ({_masses(table)}) AS here "
                    f"JOIN ({_masses(partner)}) AS there USING (v)",
                    question,
                    moment,
                )
                return found[0][0] or 0.0
        top, bottom, both = _SUMS[question.aggregate]
        matches, values = self._predicate(question, moment, table)
        of = "v::DOUBLE * number" if question.of == "value" else "weight"
        found = self._run(
            f"SELECT fsum({top.format(of=of)} * f) FILTER ({matches}), fsum({bottom or 'number'} * f) "
            f"FILTER ({matches if both else 'true'}) FROM ({_faded(table)})",
            question,
            moment,
            **values,
        )
        [(part, whole)] = found
        if bottom is None:
            return part or 0.0
        return (part or 0.0) / whole if whole else math.nan

    def _predicate(self, question: Question, moment: int, table: str) -> tuple[str, dict[str, Any]]:
        """Which values count, as SQL and its parameters."""
        match question.aggregate:
            case "rank":
                return "v <= $value", {"value": self._bound(self._number(question.value), math.floor)}
            case "frequency" if self.kind is Kind.KEY:
                return "v = $value", {"value": str(question.value)}
            case "frequency":
                number = self._number(question.value)
                whole = isinstance(number, int) or number.is_integer()
                return "v = $value", {"value": self._bound(number, int) if whole else number}
            case "sum" | "mean" | "count":
                return "true", {}
        if question.tau is not None:
            least: float | None
            if question.tau_quantile is not None:
                least = self._quantile(question, moment, table, question.tau_quantile)
            else:
                least = float(question.tau)
            return "v >= $least", {"least": least if least is None else self._bound(least, math.ceil)}
        low = -math.inf if question.low is None else question.low
        high = math.inf if question.high is None else question.high
        return "v BETWEEN $low AND $high", {"low": self._bound(low, math.ceil), "high": self._bound(high, math.floor)}

    def _bound(self, number: float, towards: Callable[[float], int]) -> float:
        """A bound of whole numbers as one: compared as floats, large ones would be rounded."""
        return towards(number) if self.kind is Kind.INTEGER and abs(number) < MAX_TIME else float(number)

    def _number(self, value: float | str | None) -> float:
        """A value given as text is the number that it spells, as in `Store`."""
        if isinstance(value, str):
            for read in (int, float):
                with suppress(ValueError):
                    return read(value)
        if isinstance(value, int | float):
            return value
        raise UnanswerableError(f"value is {value!r}, but this stream's values are numbers")

    def _quantile(self, question: Question, moment: int, table: str, phi: float) -> float | None:
        """The smallest value whose cumulated mass reaches the share; cumulated in 80 bits, in the order of values."""
        self._execute(f"CREATE TABLE IF NOT EXISTS {table}_by_value AS FROM {table} ORDER BY v")
        values, masses = (
            np.from_dlpack(column.combine_chunks())
            for column in self._relation(
                f"SELECT v, weight * f AS mass FROM ({_faded(f'{table}_by_value')})", question, moment
            ).columns
        )
        cumulated = np.cumsum(masses, dtype=np.longdouble)
        if len(cumulated) == 0 or cumulated[-1] <= 0:
            return None
        first = np.searchsorted(cumulated, phi * cumulated[-1] * (1 - np.longdouble(_ROUNDING)))
        value: float = values[first].item()
        return value

    def _run(self, query: str, question: Question, moment: int, **values: Any) -> list[Any]:
        return self._execute(query, self._fading.parameters(question, moment, self.raw.unit) | values)

    def _relation(self, query: str, question: Question, moment: int) -> pa.Table:
        values = self._fading.parameters(question, moment, self.raw.unit)
        return self._open.sql(query, params=values).to_arrow_table()

    def _execute(self, query: str, values: Mapping[str, Any] | None = None) -> list[Any]:
        return self._open.execute(query, dict(values or {})).fetchall()

    @property
    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            raise StoreError(f"the exact events of stream {self.raw.stream!r} were closed")
        return self._connection

    @contextmanager
    def _saying(self, links: Mapping[str, KnownFile] | None = None) -> Iterator[None]:
        """What DuckDB refuses, in one sentence with the names of the files themselves."""
        try:
            yield
        except duckdb.Error as error:
            text = str(error).strip()
            for link in sorted(links or {}, key=len, reverse=True):
                text = text.replace(link, (links or {})[link].path)
            said = " ".join(text.split("\n\n")[0].split())[:400]
            doing = "cannot be read" if links else "cannot be asked"
            raise StoreError(f"the raw files of stream {self.raw.stream!r} {doing}: {said}") from error


class _Fading:
    """The decay of the question at hand as a function of DuckDB: ages in seconds in, weights out."""

    def __init__(self) -> None:
        self.decay: Decay | None = None

    def __call__(self, ages: pa.Array | pa.ChunkedArray) -> pa.Array:
        assert self.decay is not None
        whole = ages.combine_chunks() if isinstance(ages, pa.ChunkedArray) else ages
        weights = self.decay(np.from_dlpack(whole))
        # `pa.array` of a numpy array would import pandas, which takes a second
        return pa.Array.from_buffers(pa.float64(), len(weights), [None, pa.py_buffer(weights)])

    def parameters(self, question: Question, moment: int, unit: TimeUnit) -> dict[str, Any]:
        """Take the question's decay; what `_faded` needs to know of the time. Beyond the horizon f is 0 exactly."""
        self.decay = parse_decay(question.decay) if isinstance(question.decay, str) else question.decay
        reach = self.decay.horizon * unit.denominator / unit.numerator
        since = moment - math.ceil(reach) if reach < MAX_TIME else -MAX_TIME - 1
        seconds = {"numerator": float(unit.numerator), "denominator": float(unit.denominator)}
        return {"as_of": moment, "since": max(since, -MAX_TIME - 1), **seconds}


def _faded(table: str) -> str:
    return (
        "SELECT v, weight, number, fade(($as_of - t)::DOUBLE * $numerator::DOUBLE / $denominator::DOUBLE) AS f "
        f"FROM {table} WHERE t <= $as_of AND t > $since"
    )


def _masses(table: str) -> str:
    return f"SELECT v, fsum(weight * f) AS mass FROM ({_faded(table)}) GROUP BY v"


def _link(files: Sequence[KnownFile], folder: Path) -> dict[str, KnownFile]:
    """Names of our own for the files: DuckDB takes *, ? and [ in a path for a glob."""
    links = {}
    for number, known in enumerate(files):
        link = folder / f"{number}{Path(known.path).suffix if known.path.endswith(_PACKED) else ''}"
        link.symlink_to(known.path)
        links[str(link)] = known
    return links


def _opened(folder: Path, memory: str) -> duckdb.DuckDBPyConnection:
    """A database in memory that spills to this folder."""
    settings = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "threads": "2"}
    connection = duckdb.connect(config={**settings, "memory_limit": memory})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET temp_directory = $1", [str(folder / "spilled")])
    connection.execute("CREATE MACRO floored(x, n) AS x // n - CASE WHEN x % n < 0 THEN 1 ELSE 0 END")
    return connection


def _load(connection: duckdb.DuckDBPyConnection, raw: RawFiles, links: Mapping[str, KnownFile]) -> None:
    """The table `events`: every distinct row of every source that ingest took for an event."""
    # Times outside a file's span were rejected by `max_future` or `max_age`, which the store does not have.
    connection.execute("CREATE TEMP TABLE spans (link VARCHAR, oldest BIGINT, newest BIGINT)")
    spans = [(link, *_span(known)) for link, known in links.items()]
    connection.executemany("INSERT INTO spans VALUES ($1, $2, $3)", spans)
    values: dict[str, Any] = {role: plain.constant for role, plain in raw.columns.items() if plain.constant is not None}
    if raw.format == "json":
        values["columns"] = {plain.column: "JSON" for plain in raw.columns.values() if plain.column is not None}
    parts = []
    for number, (types, paths) in enumerate(_groups(connection, raw, links, values)):
        events = ", ".join(f"{_converted(role, *types[role], raw)} AS {role}" for role in ROLES)
        parts.append(
            f'SELECT source, id, time, value, weight FROM (SELECT {events}, "file of wane" AS link '
            f"FROM {_READERS[raw.format].format(n=number)}) JOIN spans USING (link) "
            f"WHERE time BETWEEN oldest AND newest AND weight BETWEEN 1 AND {MAX_WEIGHT} AND source IS NOT NULL "
            "AND id IS NOT NULL AND value IS NOT NULL"
        )
        values[f"paths{number}"] = paths
    query = (
        "CREATE TABLE events AS SELECT source, id, time AS t, value AS v, weight AS w, count(*) AS repeats "
        f"FROM ({' UNION ALL '.join(parts)}) GROUP BY ALL"
    )
    connection.execute(query, values)


def _span(known: KnownFile) -> tuple[int, int]:
    if known.oldest is None or known.newest is None:
        return (1, 0) if known.modified else (-MAX_TIME, MAX_TIME)  # an old ledger says nothing, a new one that all
    return known.oldest, known.newest


Types = dict[str, tuple[str, str]]  # role → SQL of its column, and its type


def _groups(
    connection: duckdb.DuckDBPyConnection, raw: RawFiles, links: Mapping[str, KnownFile], values: Mapping[str, Any]
) -> list[tuple[Types, list[str]]]:
    """The files by the types of their columns. Others than Parquet are read as one, as by Spark."""
    if raw.format != "parquet":
        return [(_types_inferred(connection, raw, list(links), values), list(links))]
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for link, known in links.items():
        names = _described(connection, "parquet", {"paths0": [link]})
        columns = _found(raw, names, known.path)
        found = (columns.get(role) or ("", "") for role in ROLES)
        groups.setdefault(tuple(found), []).append(link)
    return [
        ({role: _constant(raw, role) or column for role, column in zip(ROLES, found, strict=True)}, paths)
        for found, paths in groups.items()
    ]


def _described(connection: duckdb.DuckDBPyConnection, form: str, values: Mapping[str, Any]) -> dict[str, str]:
    cursor = connection.execute(f"FROM {_READERS[form].format(n=0)} LIMIT 0", dict(values))
    return {name: str(kind) for name, kind, *_ in cursor.description or ()}


def _found(raw: RawFiles, names: Mapping[str, str], where: str) -> Types:
    """The columns of the roles among those of a file, found as Spark finds them: whatever the case."""
    spelled = {name.lower(): name for name in names}
    found = {}
    for role, plain in raw.columns.items():
        if plain.column is None:
            continue
        name = plain.column if plain.column in names else spelled.get(plain.column.lower())
        if name is None:
            raise _lacking(raw, role, where)
        found[role] = (_quoted(name), names[name])
    return found


def _lacking(raw: RawFiles, role: str, where: str) -> StoreError:
    name = raw.columns[role].column
    return StoreError(f"{where} has no column `{name}`, which is the {role} of stream {raw.stream!r}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _constant(raw: RawFiles, role: str) -> tuple[str, str] | None:
    constant = raw.columns[role].constant
    if constant is None:
        return None
    kind = "VARCHAR" if isinstance(constant, str) else "BIGINT"
    return f"${role}::{kind}", kind


def _types_inferred(
    connection: duckdb.DuckDBPyConnection, raw: RawFiles, paths: list[str], values: Mapping[str, Any]
) -> Types:
    """The types that Spark finds by itself in text, from one pass over all files."""
    known = {"paths0": paths} | ({"columns": values["columns"]} if raw.format == "json" else {})
    first = raw.present[0].path
    columns = _found(raw, _described(connection, raw.format, known), first)
    rules = _CSV_TYPES if raw.format == "csv" else _JSON_TYPES
    tests = [
        f"bool_and({rule.format(c=column)}) FILTER ({column} IS NOT NULL)"
        for column, _ in columns.values()
        for rule in rules.values()
    ]
    query = f"SELECT {', '.join(tests) or 'NULL'} FROM {_READERS[raw.format].format(n=0)}"
    fits = connection.execute(query, known).fetchall()[0]
    types = {role: constant for role in ROLES if (constant := _constant(raw, role)) is not None}
    for number, (role, (column, _)) in enumerate(columns.items()):
        fit = dict(zip(rules, fits[number * len(rules) :], strict=False))
        text = column if raw.format == "csv" else f"({column} ->> '$')"
        kind = next(
            (name for name, fits_all in fit.items() if fits_all), "VARCHAR" if raw.format == "csv" else "JSON[]"
        )
        types[role] = (f"TRY_CAST({text} AS {kind})", kind)
        if fit["BIGINT"] is None:  # there is no value
            if raw.format == "json":
                raise _lacking(raw, role, first)
            types[role] = ("NULL", "NULL")
    return types


def _converted(role: str, column: str, kind: str, raw: RawFiles) -> str:
    """SQL that makes of a raw column what ingest makes of it (see `ingest.columns`), NULL where it rejects the row."""
    assert raw.kind is not None
    target = {"source": "VARCHAR", "id": "VARCHAR", "value": _VALUE_TYPES[raw.kind]}.get(role, "BIGINT")
    made = None
    if kind in ("NULL", '"NULL"'):
        made = f"NULL::{target}"
    elif role == "time":
        made = _time(column, kind, raw.unit)
    elif role == "id":
        made = _id(column, kind)
    elif role == "weight":
        made = _whole(column, kind)
    elif role == "source" or raw.kind is Kind.KEY:
        made = _label(column, kind, 1_000 if role == "source" else 1 << 20)
    elif kind == "VARCHAR":
        made = _spelled(column, raw.kind)
    elif kind == "BOOLEAN":
        made = f"{column}::{target}"
    elif raw.kind is Kind.INTEGER:
        made = _whole(column, kind)
    elif kind in _WHOLE_TYPES or _is_number(kind):
        made = _finite(f"{column}::DOUBLE")
    if made is None:
        raise StoreError(f"`{raw.columns[role].column}` is of type {kind}, which cannot be checked here as a {role}")
    return made


_VALUE_TYPES: Final = {Kind.INTEGER: "BIGINT", Kind.FLOAT: "DOUBLE", Kind.KEY: "VARCHAR"}


def _is_number(kind: str) -> bool:
    return kind in ("FLOAT", "DOUBLE") or kind.startswith("DECIMAL")


def _time(column: str, kind: str, unit: TimeUnit) -> str | None:
    if kind in _MOMENTS:
        stamp, resolution = f"epoch_us({column})", 1_000_000
        if kind in _FINE:
            stamp, resolution = f"epoch_ns({column})", 1_000_000_000
        elif kind not in _ZONED:
            stamp = f"epoch_us({column}::TIMESTAMP)"
        top, bottom = unit.denominator, unit.numerator * resolution
        shared = math.gcd(top, bottom)
        made = f"TRY(floored({stamp}::HUGEINT * {top // shared}, {bottom // shared}))"
    elif kind in _WHOLE_TYPES:
        made = column
    elif _is_number(kind):
        made = f"floor({column})"
    else:
        return None
    made = f"TRY_CAST({made} AS BIGINT)"
    return f"CASE WHEN {made} BETWEEN {-MAX_TIME} AND {MAX_TIME} THEN {made} END"


def _id(column: str, kind: str) -> str | None:
    if kind in _NO_ID or (kind.endswith(("]", ")")) and not kind.startswith(("DECIMAL", "ENUM"))):
        return None
    return f"{column}::BIGINT" if kind in _WHOLE_TYPES and kind != "UBIGINT" else f"{column}::VARCHAR"


def _label(column: str, kind: str, longest: int) -> str | None:
    if kind == "VARCHAR" or kind.startswith("ENUM"):
        return f"CASE WHEN strlen({column}::VARCHAR) <= {longest} THEN {column}::VARCHAR END"
    return f"{column}::VARCHAR" if kind in (*_WHOLE_TYPES, "BOOLEAN", "DATE") else None


def _whole(column: str, kind: str) -> str | None:
    if kind in _WHOLE_TYPES:
        return f"TRY_CAST({column} AS BIGINT)"
    if kind.startswith("DECIMAL"):
        return f"CASE WHEN {column} % 1 = 0 THEN TRY_CAST({column} AS BIGINT) END"
    if _is_number(kind):
        return f"CASE WHEN isfinite({column}) AND {column} = trunc({column}) THEN TRY_CAST({column} AS BIGINT) END"
    return None


def _finite(number: str) -> str:
    return f"CASE WHEN abs({number}) <= {MAX_VALUE!r} THEN {number} + 0.0::DOUBLE END"


def _spelled(column: str, kind: Kind) -> str:
    """A number written as text."""
    trimmed = f"trim({column}, E' \\t\\n\\r\\v\\f')"
    if kind is Kind.INTEGER:
        return (
            f"CASE WHEN regexp_full_match({trimmed}, '[+-]?[0-9]{{1,18}}') "
            f"THEN TRY_CAST(ltrim({trimmed}, '+') AS BIGINT) END"
        )
    pattern = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
    number = f"TRY_CAST(ltrim({trimmed}, '+') AS DOUBLE)"
    return f"CASE WHEN regexp_full_match({trimmed}, '{pattern}') THEN {_finite(number)} END"
