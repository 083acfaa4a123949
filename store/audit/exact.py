"""Exact answers from the raw files that a stream was ingested from, where they are still there. Estimates are compared
with them.
"""

from __future__ import annotations

import math
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import duckdb
import numpy as np
from duckdb.func import ARROW
from numpy.typing import ArrayLike, NDArray

from sketches.arrays import Floats, Ints
from sketches.decay.weighed_time import weighed_time
from sketches.errors import QuestionError, UnanswerableError
from sketches.events import Kind
from sketches.measured_types import fitting
from sketches.predicate import Predicate
from sketches.question import Question
from store.audit.conditions import Condition, RawColumns, measured, restriction
from store.audit.fading import Asked, DecayFunction, beginning
from store.audit.raw_events import link, load
from store.audit.raw_files import RawFiles, check_content, field_column, state_of
from store.database import StoreError
from store.serving.catalogue import check_known
from store.serving.source_terms import by_source_terms
from store.writing.ledger import KnownFile

MOST_ROWS: Final = 50_000_000  # beyond, loading takes minutes and tens of gigabytes of disk
MEMORY: Final = "2GB"  # what DuckDB takes before it goes to disk
_ROUNDING: Final = 1e-12  # a cumulated share this close below phi, relatively, has reached it
_SELECTIONS: Final = 4  # choices of sources kept ready

# Per aggregate: what is summed over the events that it measures, and what that is divided by: nothing; for a share, the
# same over all events of the question; or what a mean divides by, over the events measured.
_SUMS: Final = {
    "sum": ("summed", None),
    "count": ("counted", None),
    "mean": ("summed", "averaged"),
    "selectivity": ("counted", "whole"),
    "rank": ("counted", "whole"),
    "frequency": ("counted", "whole"),
    "range-sum": ("summed", None),
    "range-frequency": ("counted", "whole"),
    "correlated-sum": ("summed", None),
    "correlated-count": ("counted", None),
    "correlated-mean": ("summed", "averaged"),
}


class Exact:
    """Exact answers over the raw files of one stream, whose distinct events are loaded once.

    Events are told apart as in ingest: rows with the same id, time, value and weight are one event, and an event that
    several of the chosen sources report counts once; in a stream that counts repeats, each row is an event. Weights are
    in the user's unit. `events` counts the accepted rows, repeats included. It equals the sum of `epochs.events` where
    the files are complete and were read with the settings that the store has now.

    What a question leaves open is settled by the stream: whether it counts events or weight, and whether it sums the
    weight or, in a stream of numbers without a weight, the value.

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
        self.columns = RawColumns(raw.kind, raw.weight_step, raw.field_kinds)
        self._turn = threading.RLock()
        self._decay = DecayFunction()
        self._chosen: dict[tuple[tuple[str, ...], bool], str] = {}
        self._made = 0
        self._folder = tempfile.TemporaryDirectory(prefix="wane-exact-", ignore_cleanup_errors=True)
        self._connection: duckdb.DuckDBPyConnection | None = None
        try:
            for known in raw.present:
                check_content(known, self.raw.expressions)
            links = link(raw.present, Path(self._folder.name))
            with self._plain_errors(links):
                self._connection = _opened(Path(self._folder.name))
                self._refused = {**raw.refused_fields, **load(self._connection, raw, links)}
                self._connection.execute("SET enable_external_access = false")
                self._connection.execute("SET lock_configuration = true")
                self._connection.create_function(
                    "fade", self._decay, ["DOUBLE"], "DOUBLE", type=ARROW, side_effects=True
                )
                found = self._connection.execute(
                    "SELECT coalesce(sum(repeats), 0)::BIGINT, min(t), max(t), list(DISTINCT source) FROM events"
                ).fetchall()
            for known in raw.present:
                if state_of(known, raw.folders) != "present":
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

        `as_of` takes precedence over the question's own. Without either it is the time of the stream's newest event,
        whatever the sources. `other` is the second source of an inner product. Of several shares of a quantile it
        answers the first; `quantiles` answers all.
        """
        self._check(question, other)
        with self._turn, self._plain_errors():
            asked = self._asked(question, as_of, sources)
            found = self._answered(asked, None if other is None else self._asked(question, as_of, [other]))
            return found / self._weighed_time(asked) if question.per_second else found

    def quantiles(
        self, question: Question, as_of: int | None = None, sources: Sequence[str] = ()
    ) -> NDArray[np.float64]:
        """The quantiles at all shares of the question, in their order; NaN where nothing counts."""
        self._check(question, None)
        with self._turn, self._plain_errors():
            asked = self._asked(question, as_of, sources)
            found = self._quantiles(asked, question.phis or ((question.phi or 0.5),))
            unit = self._unit_of(asked)
        return np.array([math.nan if value is None else value * unit for value in found], float)

    def series(
        self, question: Question, as_of: ArrayLike, sources: Sequence[str] = (), *, other: str | None = None
    ) -> NDArray[np.float64]:
        """One question at many as-of times."""
        moments = np.asarray(as_of, np.int64)
        return np.array([self.answer(question, moment, sources, other=other) for moment in moments.tolist()], float)

    def shares(
        self, question: Question, as_of: int | None = None, sources: Sequence[str] = (), *, every: bool = False
    ) -> list[tuple[int | float | str, float]]:
        """Values with their shares of what counts, largest first: those that the question's `top` and `phi` allow, or
        with `every` all that count."""
        with self._turn, self._plain_errors():
            asked = self._asked(question, as_of, sources)
            found = self._run(
                f"WITH masses AS ({asked.masses}), whole AS (SELECT fsum(mass) AS whole FROM masses) "
                "SELECT x, mass / whole AS share FROM masses, whole WHERE mass > 0 AND share >= $share "
                "ORDER BY share DESC, x LIMIT $top",
                asked,
                share=0.0 if every or question.phi is None else question.phi * (1 - _ROUNDING),
                top=None if every else question.top,
            )
            unit = self._unit_of(asked)
        return [(value if unit == 1.0 else value * unit, share) for value, share in found]

    def _check(self, question: Question, other: str | None) -> None:
        if question.aggregate == "heavy-hitters":
            raise UnanswerableError("heavy-hitters is a list: ask for shares")
        if (question.aggregate == "inner-product") != (other is not None):
            raise QuestionError("inner-product needs another source, and only inner-product takes one")

    def hours(self, length: int) -> tuple[Ints, Floats, Floats, Floats]:
        """Of every hour with rows, whose length is given: its beginning, its rows, their weight in steps and values."""
        value = "0" if self.kind is Kind.KEY else "v"
        with self._turn, self._plain_errors():
            rows = self._execute(
                f"SELECT t - ((t % {length}) + {length}) % {length} AS hour, sum(repeats)::DOUBLE, "
                f"fsum(w::DOUBLE * repeats), fsum({value}::DOUBLE * repeats) FROM events GROUP BY hour ORDER BY hour",
                {},
            )
        begins, *columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
        count, weights, values = (np.array(column, np.float64) for column in columns)
        return np.array(begins, np.int64), count, weights, values

    def _table(self, sources: Sequence[str], *, wide: bool) -> str:
        """The name of the table of the chosen sources: by time, value and weight, the number of events. A wide one is
        by the fields too."""
        chosen = tuple(sorted(set(sources)))
        for source in chosen:
            if source not in self.sources:
                known = ", ".join(self.sources[:20]) or "none"
                raise QuestionError(f"source {source!r} is not in the raw files at hand; they hold {known}")
        if chosen == self.sources:
            chosen = ()
        table = self._chosen.pop((chosen, wide), None)
        if table is None:
            if len(self._chosen) >= _SELECTIONS:
                oldest = self._chosen.pop(next(iter(self._chosen)))
                self._execute(f"DROP TABLE {oldest}")
                self._execute(f"DROP TABLE IF EXISTS {oldest}_by_value")
            self._made += 1
            table = f"chosen_{self._made}"
            among = "WHERE list_contains($sources, source)" if chosen else ""
            once = "SELECT DISTINCT id, t, v, w, 1 AS repeats FROM events"
            rows = f"({'FROM events' if self.raw.counts_repeats else once} {among})"
            columns = ["t", "v", "w"]
            if wide:
                rows += " JOIN event_fields USING (id, t, v, w)"
                columns += map(field_column, self.raw.fields)
            named, step = ", ".join(columns), self.raw.weight_step
            self._execute(
                f"CREATE TABLE {table} AS SELECT {named}, w * {float(step.numerator)!r}::DOUBLE / "
                f"{float(step.denominator)!r}::DOUBLE AS weight, sum(repeats)::DOUBLE AS number "
                f"FROM {rows} GROUP BY {named} ORDER BY {named}",
                {"sources": list(chosen)} if chosen else {},
            )
        self._chosen[chosen, wide] = table  # the one used last stands last
        return table

    def _asked(self, question: Question, as_of: int | None, sources: Sequence[str]) -> Asked:
        """The question with what it leaves open settled: as of when, what it counts, and what it sums."""
        if question.counting is None:
            question = replace(question, counting=self.raw.counting)
        for name in sorted(question.fields):
            if (why := self._refused.get(name)) is not None:
                raise UnanswerableError(f"field {name!r} cannot be checked against the raw files: {why}")
            check_known("field", name, sorted(self.raw.field_kinds))
        question = fitting(question, self.columns.type_of)
        if question.of is None and question.sums and self.raw.sums_values:
            question = replace(question, of="value")
        stated = question.as_of if as_of is None else as_of
        moment = (self.newest or 0) if stated is None else question.at(stated).as_of or 0
        chosen, question = by_source_terms(question, sources or self.sources)
        table = self._table(chosen, wide=bool(question.fields))
        since = beginning(question.decay, moment, table, self.raw.unit, self._execute)
        where = self._satisfying(question.where, "where")
        return Asked(self.columns.in_steps(question), moment, table, since, where, self.columns)

    def _satisfying(self, predicate: Predicate, name: str) -> Condition:
        return restriction(predicate, self.columns, self.raw.unit, name)

    def _answered(self, asked: Asked, partner: Asked | None) -> float:
        match asked.question.aggregate:
            case "quantile" | "median":
                assert asked.question.phi is not None
                above = self._threshold(asked) if asked.question.ranks_above else None
                [value] = self._quantiles(asked, [asked.question.phi], above=above)
                return math.nan if value is None else value * self._unit_of(asked)
            case "variance" | "stddev":
                return self._spread(asked)
            case "ratio":
                sums = (f"fsum({asked.part(name or '')} * f)" for name in (asked.question.of, asked.question.per))
                [(part, whole)] = self._run(f"SELECT {', '.join(sums)} FROM ({asked.faded()})", asked)
                return (part or 0.0) / whole if whole else math.nan
            case "self-join":
                return self._run(f"SELECT fsum(mass * mass) FROM ({asked.masses})", asked)[0][0] or 0.0
            case "inner-product":
                assert partner is not None
                found = self._run(
                    f"SELECT fsum(here.mass * there.mass) FROM ({asked.masses}) AS here "
                    f"JOIN ({partner.masses}) AS there USING (x)",
                    asked,
                )
                return found[0][0] or 0.0
        top, bottom = _SUMS[asked.question.aggregate]
        share = asked.question.share
        condition = (
            self._satisfying(share, "share")
            if share
            else measured(asked.question, self.columns, self._threshold(asked))
        )
        divisor = asked.averaged if bottom == "averaged" else asked.counted
        over = "true" if bottom == "whole" else condition.sql
        [(part, whole)] = self._run(
            f"SELECT fsum({asked.summed if top == 'summed' else asked.counted} * f) FILTER ({condition.sql}), "
            f"fsum({divisor} * f) FILTER ({over}) FROM ({asked.faded()})",
            asked,
            **condition.values,
        )
        if bottom is None:
            return part or 0.0
        return (part or 0.0) / whole if whole else math.nan

    def _unit_of(self, asked: Asked) -> float:
        """What one is of that a question ranks: weights are ranked in steps."""
        return float(self.raw.weight_step) if asked.ranked == "weight" else 1.0

    def _weighed_time(self, asked: Asked) -> float:
        """The time since the first event of the stream, in seconds, as the decay weighs it."""
        [(first,)] = self._execute("SELECT min(t) FROM events")
        span = self.raw.unit.seconds(np.array([asked.moment - (first or 0) + 1]))
        return float(weighed_time(asked.question.decay, span)[0]) or math.nan

    def _spread(self, asked: Asked) -> float:
        """The mean of the squared distances from the mean, or its root."""
        mass = f"{asked.averaged} * f"
        mean = f"(SELECT fsum({asked.measured} * {mass}) / fsum({mass}) FROM ({asked.faded()}))"
        [(found,)] = self._run(
            f"SELECT fsum(pow({asked.measured} - {mean}, 2) * {mass}) / fsum({mass}) FROM ({asked.faded()})", asked
        )
        if found is None or math.isnan(found):
            return math.nan
        return math.sqrt(found) if asked.question.aggregate == "stddev" else float(found)

    def _threshold(self, asked: Asked) -> float | None:
        """τ as a number; an aggregate is over all events, also those that the question is not about."""
        threshold = asked.question.threshold
        if threshold is None:
            return None if asked.question.tau is None else float(asked.question.tau)
        asked = replace(asked, where=Condition())
        if threshold.phi is not None:
            [found] = self._quantiles(asked, [threshold.phi], everything=True)
        else:
            query = f"SELECT fsum({asked.x}::DOUBLE * {asked.counted} * f), fsum({asked.counted} * f)"
            [(summed, counted)] = self._run(f"{query} FROM ({asked.faded(everything=True)})", asked)
            found = summed / counted if counted else None
        return found if found is None or threshold.factor == 1 else found * threshold.factor

    def _quantiles(
        self, asked: Asked, phis: Sequence[float], *, everything: bool = False, above: float | None = None
    ) -> list[float | None]:
        """The smallest values whose share, cumulated in 80 bits, reaches each phi, of the question's events (above τ)
        or of all; weights in steps."""
        inside = Condition() if above is None else measured(asked.question, self.columns, above)
        if asked.question.compared == "value" and above is None:
            self._execute(f"CREATE TABLE IF NOT EXISTS {asked.table}_by_value AS FROM {asked.table} ORDER BY v")
            query = f"SELECT v, {asked.counted} * f AS mass FROM ({asked.faded('_by_value', everything=everything)})"
        else:
            faded = asked.faded(everything=everything)
            x = asked.x if everything else asked.columns.number(asked.ranked)
            query = f"SELECT {x} AS x, {asked.counted} * f AS mass FROM ({faded}) WHERE {inside.sql} ORDER BY x"
        found = self._open.sql(query, params=self._parameters(asked) | inside.values).to_arrow_table()
        values, masses = (np.from_dlpack(column.combine_chunks()) for column in found.columns)
        cumulated = np.cumsum(masses, dtype=np.longdouble)
        if len(cumulated) == 0 or cumulated[-1] <= 0:
            return [None] * len(phis)
        reached = np.array(phis, np.longdouble) * cumulated[-1] * (1 - np.longdouble(_ROUNDING))
        return list(values[np.searchsorted(cumulated, reached)].tolist())

    def _parameters(self, asked: Asked) -> dict[str, Any]:
        return self._decay.parameters(asked, self.raw.unit) | asked.where.values

    def _run(self, query: str, asked: Asked, **values: Any) -> list[Any]:
        return self._execute(query, self._parameters(asked) | values)

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


def _opened(folder: Path) -> duckdb.DuckDBPyConnection:
    """A database in memory that writes to this folder what does not fit."""
    settings = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "threads": "2"}
    connection = duckdb.connect(config={**settings, "memory_limit": MEMORY})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET temp_directory = $1", [str(folder / "spilled")])
    connection.execute("CREATE MACRO floored(x, n) AS x // n - CASE WHEN x % n < 0 THEN 1 ELSE 0 END")
    return connection
