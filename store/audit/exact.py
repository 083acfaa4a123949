"""Exact answers from the raw files that a stream was ingested from, where they are still there. Estimates are compared
with them.
"""

from __future__ import annotations

import math
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import duckdb
import numpy as np
import pyarrow as pa
from duckdb.func import ARROW
from numpy.typing import ArrayLike, NDArray

from sketches.decay import Decay
from sketches.errors import QuestionError, UnanswerableError
from sketches.event_rules import MAX_TIME
from sketches.events import Kind
from sketches.question import NEEDS_ORDER, Question
from sketches.units import TimeUnit
from store.audit.raw_events import link, load
from store.audit.raw_files import RawFiles, state_of
from store.database import StoreError
from store.writing.ledger import KnownFile

MOST_ROWS: Final = 50_000_000  # beyond, loading takes minutes and tens of gigabytes of disk
MEMORY: Final = "2GB"  # what DuckDB takes before it goes to disk
_ROUNDING: Final = 1e-12  # a cumulated share this close below phi, relatively, has reached it
_SELECTIONS: Final = 4  # choices of sources kept ready

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


class Exact:
    """Exact answers over the raw files of one stream, whose distinct events are loaded once.

    Events are told apart as in ingest: rows with the same id, time, value and weight are one event, and an event that
    several of the chosen sources report counts once. `events` counts the accepted rows, repeats included. It equals the
    sum of `epochs.events` where the files are complete and were read with the settings that the store has now.

        with Exact(raw_files("wane.duckdb", "calls")) as exact:
            exact.answer(Question("sum", "exp:half_life=30m"), as_of)

    The store does not have the `schema` and `options` of a reader. So columns of a CSV or JSON file get the types that
    Spark would find by itself.
    """

    def __init__(self, raw: RawFiles) -> None:
        if raw.reason is not None:
            raise StoreError(f"stream {raw.stream!r} cannot be checked: {raw.reason}")
        if raw.rows > MOST_ROWS:
            raise StoreError(
                f"the raw files of stream {raw.stream!r} hold {raw.rows:,} rows; exact answers are given up to "
                f"{MOST_ROWS:,}"
            )
        assert raw.kind is not None
        self.raw = raw
        self.kind = raw.kind
        self._turn = threading.RLock()
        self._decay = _DecayFunction()
        self._chosen: dict[tuple[str, ...], str] = {}
        self._made = 0
        self._folder = tempfile.TemporaryDirectory(prefix="wane-exact-", ignore_cleanup_errors=True)
        self._connection: duckdb.DuckDBPyConnection | None = None
        try:
            links = link(raw.present, Path(self._folder.name))
            with self._plain_errors(links):
                self._connection = _opened(Path(self._folder.name))
                load(self._connection, raw, links)
                self._connection.execute("SET enable_external_access = false")
                self._connection.execute("SET lock_configuration = true")
                self._connection.create_function(
                    "fade", self._decay, ["DOUBLE"], "DOUBLE", type=ARROW, side_effects=True
                )
                found = self._connection.execute(
                    "SELECT coalesce(sum(repeats), 0)::BIGINT, min(t), max(t), list(DISTINCT source) FROM events"
                ).fetchall()
            for known in raw.present:
                if state_of(known) != "present":
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
        """Give back memory and disk. Later questions are refused."""
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
        """The exact answer; NaN for a ratio or quantile of no events. Without `sources` it is of all of them.

        `as_of` takes precedence over the question's own. Without either it is the time of the newest event chosen.
        `other` is the second source of an inner product.
        """
        self._check(question, other)
        with self._turn, self._plain_errors():
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
        allow, or with `every` all that carry weight."""
        with self._turn, self._plain_errors():
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
        if self.kind is Kind.KEY and question.aggregate in NEEDS_ORDER:
            raise UnanswerableError(f"{question.aggregate} needs ordered values, but this stream's values are text")
        if self.kind is Kind.KEY and question.of == "value":
            raise UnanswerableError("of='value' needs numbers, but this stream's values are text")

    def _table(self, sources: Sequence[str]) -> str:
        """The name of the table of the chosen sources: by time and value, the weight and number of distinct events."""
        chosen = tuple(sorted(set(sources)))
        for source in chosen:
            if source not in self.sources:
                known = ", ".join(self.sources[:20]) or "none"
                raise QuestionError(f"source {source!r} is not in the raw files at hand; they hold {known}")
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
        """A bound on whole numbers, as a whole number itself: as a float, a large one would be rounded."""
        return towards(number) if self.kind is Kind.INTEGER and abs(number) < MAX_TIME else float(number)

    def _number(self, value: float | str | None) -> float:
        """A value as a number; text is read as one, as in `Store`."""
        if isinstance(value, str):
            for read in (int, float):
                with suppress(ValueError):
                    return read(value)
        if isinstance(value, int | float):
            return value
        raise UnanswerableError(f"value is {value!r}, but this stream's values are numbers")

    def _quantile(self, question: Question, moment: int, table: str, phi: float) -> float | None:
        """The smallest value whose cumulated weight reaches the share. Cumulated in 80 bits, in the order of values."""
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
        return self._execute(query, self._decay.parameters(question, moment, self.raw.unit) | values)

    def _relation(self, query: str, question: Question, moment: int) -> pa.Table:
        values = self._decay.parameters(question, moment, self.raw.unit)
        return self._open.sql(query, params=values).to_arrow_table()

    def _execute(self, query: str, values: Mapping[str, Any] | None = None) -> list[Any]:
        return self._open.execute(query, dict(values or {})).fetchall()

    @property
    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            raise StoreError(f"the exact events of stream {self.raw.stream!r} were closed")
        return self._connection

    @contextmanager
    def _plain_errors(self, links: Mapping[str, KnownFile] | None = None) -> Iterator[None]:
        """Turn an error of DuckDB into one sentence, with the paths of the files instead of their links."""
        try:
            yield
        except duckdb.Error as error:
            text = str(error).strip()
            for link in sorted(links or {}, key=len, reverse=True):
                text = text.replace(link, (links or {})[link].path)
            said = " ".join(text.split("\n\n")[0].split())[:400]
            doing = "cannot be read" if links else "cannot be asked"
            raise StoreError(f"the raw files of stream {self.raw.stream!r} {doing}: {said}") from error


class _DecayFunction:
    """The decay of the current question, as a function for DuckDB: from ages in seconds to weights."""

    def __init__(self) -> None:
        self.decay: Decay | None = None

    def __call__(self, ages: pa.Array | pa.ChunkedArray) -> pa.Array:
        assert self.decay is not None
        whole = ages.combine_chunks() if isinstance(ages, pa.ChunkedArray) else ages
        weights = self.decay(np.from_dlpack(whole))
        # `pa.array` of a numpy array would import pandas, which takes a second
        return pa.Array.from_buffers(pa.float64(), len(weights), [None, pa.py_buffer(weights)])

    def parameters(self, question: Question, moment: int, unit: TimeUnit) -> dict[str, Any]:
        """Set the decay of the question, and return the parameters of `_faded`. Beyond the horizon f is exactly 0."""
        self.decay = question.decay
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


def _opened(folder: Path) -> duckdb.DuckDBPyConnection:
    """A database in memory that writes to this folder what does not fit."""
    settings = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "threads": "2"}
    connection = duckdb.connect(config={**settings, "memory_limit": MEMORY})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET temp_directory = $1", [str(folder / "spilled")])
    connection.execute("CREATE MACRO floored(x, n) AS x // n - CASE WHEN x % n < 0 THEN 1 ELSE 0 END")
    return connection
