"""Answers from a store: pick the family, load and merge its sketches, answer, and say which epochs are missing.

Store("wane.duckdb").ask("calls", Question("sum", "exp:half_life=30m"))
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import reuse_freed_memory
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Curve, Group, Series
from sketches.events import Kind
from sketches.family import Askable
from sketches.predicate import StreamColumns
from sketches.question import DEFAULT_TOP, Question
from sketches.registry import families_with, family_of
from store.database import WAIT, connected
from store.serving import sql
from store.serving.catalogue import Catalogue, StoredStream, check_known
from store.serving.planner import Times, pick, tail_share
from store.serving.provenance import Answer, Provenance
from store.serving.reads.cached_reads import CachedReads
from store.serving.reads.one_commit import AnotherCommit, OneCommitReads, Reads, of_one_commit
from store.serving.reads.opened_streams import OpenedReads
from store.serving.resolving import (
    above_any_threshold,
    columns_of,
    one_share,
    refuse_threshold,
    resolved,
)
from store.serving.selected import Plan, Selected, askable_of, estimate_of, series_of, splits_of, with_others
from store.serving.series_of_groups import series_of_groups
from store.serving.source_terms import by_source_terms
from store.serving.split_answer import (
    BY_GROUP,
    SOURCE,
    SplitAnswer,
    family_by_source,
)

if TYPE_CHECKING:
    from store.serving.sql import SqlAnswer
    from store.serving.sql.limits import Limits

__all__ = ["Answer", "Provenance", "Store"]

MEMORY: Final = 1 << 30  # bytes of merged sketches kept between questions
Found = TypeVar("Found")


class Store:
    """A store opened for questions: it holds no connection, and keeps merged sketches in memory up to a limit.

    Every answer belongs to one generation. While the file does not change, nothing is read or merged again: a new
    decay, threshold or as-of time costs only arithmetic. Threads may ask at once: they share what was read, and only
    reading takes turns.
    """

    def __init__(self, path: str | Path, *, memory: int = MEMORY, wait: float = WAIT) -> None:
        self.path = Path(path)
        self._wait = wait
        reuse_freed_memory()
        self._reads: Reads = CachedReads(self.path, memory, wait)

    def opened_to(self, streams: Set[str]) -> Store:
        """This store for those who may see some streams: the others are not there. What was read is shared."""
        assert not isinstance(self._reads, OneCommitReads), "within an answer"
        return self._read_by(OpenedReads(self._reads, streams))

    def _read_by(self, reads: Reads) -> Store:
        store = copy(self)
        store._reads = reads
        return store

    def at_one_commit(self, asked: Callable[[Store], Found]) -> Found:
        """What is asked of a store in several parts, all of them of one commit: again where another one has landed.

        store.at_one_commit(lambda one: [one.ask("calls", question) for question in questions])
        """
        if isinstance(self._reads, OneCommitReads):
            return asked(self)
        reads = OneCommitReads(self._reads)
        while True:
            try:
                return asked(self._read_by(reads))
            except AnotherCommit as found:
                reads = OneCommitReads(self._reads, found.catalogue)

    @contextmanager
    def held_open(self) -> Iterator[None]:
        """Keep the file open meanwhile, and so closed to writers: for a command that asks once and ends.

        Opening it anew for the catalogue, then for the sketches, takes as long as reading them.
        """
        with connected(self.path, write=False, wait=self._wait):
            yield

    def catalogue(self, stream: str | None = None) -> Catalogue:
        """What the store holds now, of one stream or of all; read again only when the file has changed."""
        return self._reads.catalogue(stream)

    @of_one_commit
    def ask(
        self,
        stream: str,
        question: Question,
        *,
        sources: Sequence[str] = (),
        family: str | None = None,
        other: str | None = None,
        charted: bool = False,
    ) -> Answer:
        """One answer, from all sources or some; `other` is the second source of an inner product.

        `charted`: the number stands beside a chart of `series`, so the family that draws the chart gives it too.
        """
        start = time.perf_counter()
        selected = self._select(stream, question, sources, family, other, past=charted)
        estimate = selected.told(estimate_of(selected, selected.question))
        provenance = selected.provenance(np.array([estimate.as_of]), start)
        return Answer(replace(estimate, guarantee=provenance.qualify(estimate.guarantee)), provenance)

    @of_one_commit
    def series(
        self,
        stream: str,
        question: Question,
        as_of: ArrayLike,
        *,
        sources: Sequence[str] = (),
        family: str | None = None,
        other: str | None = None,
    ) -> tuple[Series, Provenance]:
        """One question at many as-of times: in one pass; `other` is the second source of an inner product.

        A family that answers as of its newest event or later gives points at the ends of epochs instead.
        """
        start = time.perf_counter()
        moments = np.asarray(as_of, np.int64)
        selected = self._select(stream, one_share(question), sources, family, other, past=True)
        series = selected.told(series_of(selected, moments))
        provenance = selected.provenance(series.as_of, start)
        return replace(series, guarantee=provenance.qualify(series.guarantee)), provenance

    @of_one_commit
    def split(
        self,
        stream: str,
        question: Question,
        *,
        by: str = SOURCE,
        sources: Sequence[str] = (),
        family: str | None = None,
        top: int = DEFAULT_TOP,
        smallest: bool = False,
        others: bool = False,
    ) -> SplitAnswer:
        """The answer of each source, or of each value of a field, the largest first or the smallest; in one pass.

        `others`: also that of all groups which are not among the `top`, as one.
        """
        start = time.perf_counter()
        held = self.catalogue(stream).stream(stream)
        by = columns_of(held).column(by)
        if by != SOURCE:
            check_known("field", by, sorted(held.fields))
        selected = self._select(stream, question, sources, family or family_by_source(held))
        splits = splits_of(selected, by)
        provenance = selected.provenance(np.array([splits[0].as_of]), start, by)
        if family is None:
            provenance = replace(provenance, why=BY_GROUP)
        answer = SplitAnswer.of(splits, provenance, question.phis, top=top, by=by, smallest=smallest)
        if others and answer.left_out and answer.places:  # where none is listed, none has an answer
            answer = with_others(selected, answer)
        return answer

    @of_one_commit
    def series_by(
        self,
        stream: str,
        question: Question,
        as_of: ArrayLike,
        by: str,
        *,
        sources: Sequence[str] = (),
        family: str | None = None,
        top: int = DEFAULT_TOP,
        smallest: bool = False,
    ) -> tuple[dict[Group, Series], SplitAnswer]:
        """The question at many as-of times for each of the groups that a split lists, and that split.

        At every time the intervals of all groups hold together, whichever of them were listed for their size.
        """
        asked = one_share(question)
        split = self.split(stream, asked, by=by, sources=sources, family=family, top=top, smallest=smallest)
        return series_of_groups(self, stream, asked, as_of, split, sources, family), split

    @of_one_commit
    def correlation(
        self, stream: str, one: tuple[Question, Sequence[str]], other: tuple[Question, Sequence[str]], family: str
    ) -> float:
        """How much of their chance the answers of a family to two questions share; -1 where nothing is known of it."""
        sides = [self._select(stream, question, sources, family) for question, sources in (one, other)]
        first, second = (askable_of(side.selections[0]) for side in sides)
        return family_of(family).correlation(first, sides[0].question, second, sides[1].question)

    @of_one_commit
    def selected(self, stream: str, question: Question, family: str) -> Selected:
        """The loaded sketches of all sources in a family, for whoever reads more of them than an answer."""
        return self._select(stream, question, (), family)

    @of_one_commit
    def by_group(self, stream: str, question: Question, sources: Sequence[str] = ()) -> Selected:
        """The loaded sketches that answer a question for many groups of events at once."""
        return self._select(stream, question, sources, family_by_source(self.catalogue(stream).stream(stream)))

    @of_one_commit
    def threshold_curve(
        self,
        stream: str,
        question: Question,
        thresholds: ArrayLike,
        *,
        sources: Sequence[str] = (),
        family: str | None = None,
        together: bool = False,
    ) -> tuple[Curve, Provenance]:
        """The sum, count or mean over v ≥ τ against τ, under the question's decay; a sum unless the question says.

        Its limits hold at each point by itself or, if asked `together`, at all points at once.
        """

        def curve_of(askable: Askable, dated: Question) -> Curve:
            return askable.threshold_curve(dated, thresholds, together=together)

        return self._curve(stream, above_any_threshold(question), sources, family, curve_of)

    @of_one_commit
    def quantile_curve(
        self,
        stream: str,
        question: Question,
        shares: ArrayLike,
        *,
        sources: Sequence[str] = (),
        family: str | None = None,
        together: bool = False,
    ) -> tuple[Curve, Provenance]:
        """The value at every share, under the question's decay; its limits hold as those of `threshold_curve`."""
        refuse_threshold(question)
        asked = replace(question, aggregate="quantile", phi=0.5, phis=(), tau=None, top=None, of=None)

        def curve_of(askable: Askable, dated: Question) -> Curve:
            return askable.quantile_curve(dated, shares, together=together)

        return self._curve(stream, asked, sources, family, curve_of)

    def _curve(
        self,
        stream: str,
        question: Question,
        sources: Sequence[str],
        family: str | None,
        curve_of: Callable[[Askable, Question], Curve],
    ) -> tuple[Curve, Provenance]:
        if question.per_second:
            raise QuestionError("a curve has no rates per second: ask for one threshold")
        start = time.perf_counter()
        selected = self._select(stream, question, sources, family, curves=True)
        (selection,) = selected.selections
        if not family_of(selection.family).abilities.curves:
            raise UnanswerableError(f"family {selection.family!r} has no curves; {families_with('curves')}")
        asked = selected.question
        curve = selected.told(curve_of(askable_of(selection), asked))
        return curve, selected.provenance(np.array([asked.as_of or 0]), start)

    def family_for(
        self,
        stream: str,
        question: Question,
        *,
        sources: Sequence[str] = (),
        family: str | None = None,
        past: bool = False,
        curves: bool = False,
    ) -> str:
        """The family that answers a question; `past` for one asked by `series`, `curves` for a curve. Loads nothing."""
        return self.plan(stream, question, sources=sources, family=family, past=past, curves=curves).picked.family

    @of_one_commit
    def plan(
        self,
        stream: str,
        question: Question,
        *,
        sources: Sequence[str] = (),
        family: str | None = None,
        other: str | None = None,
        past: bool = False,
        curves: bool = False,
    ) -> Plan:
        """Which sources and which family answer a question, and why; loads nothing."""
        return self._plan(self.catalogue(stream), stream, question, sources, family, other, past=past, curves=curves)

    @of_one_commit
    def sql(self, statement: str, *, now: datetime | None = None, limits: Limits | None = None) -> SqlAnswer:
        """The answer to a statement in SQL with DECAY BY (docs/sql.md); `now` is the time that now() means, `limits`
        how much of an answer may be found.

        Store("wane.duckdb").sql("SELECT source, mean(loss) FROM calls GROUP BY source DECAY BY window(INTERVAL 1 DAY)")
        """
        return sql.answer(self, statement, now, limits)

    @of_one_commit
    def load(self, stream: str, family: str, *, sources: Sequence[str] = ()) -> None:
        """Load and merge the sketches of a family, so that the first question need not wait for it."""
        catalogue = self.catalogue(stream)
        self._reads.selection((stream, _chosen(catalogue.stream(stream), sources), family), catalogue)

    def _select(
        self,
        stream: str,
        question: Question,
        sources: Sequence[str],
        family: str | None,
        other: str | None = None,
        *,
        past: bool = False,
        curves: bool = False,
    ) -> Selected:
        """What a question is asked of, loaded."""
        catalogue = self.catalogue(stream)
        plan = self._plan(catalogue, stream, question, sources, family, other, past=past, curves=curves)
        first, _ = self._reads.selection((stream, plan.sources, plan.picked.family), catalogue)
        if other is None:
            return Selected((first,), plan)
        there = self._plan(catalogue, stream, question, [other], first.family, None, past=past)
        second, _ = self._reads.selection((stream, there.sources, first.family), catalogue)
        return Selected((first, second), plan)

    def _plan(
        self,
        catalogue: Catalogue,
        stream: str,
        question: Question,
        sources: Sequence[str],
        family: str | None,
        other: str | None,
        *,
        past: bool,
        curves: bool = False,
    ) -> Plan:
        held = catalogue.stream(stream)
        chosen = _chosen(held, sources)
        if family is not None:
            check_known("family", family, sorted(held.sketches))
        chosen, about = by_source_terms(question, chosen, joined=other is not None)
        asked = replace(resolved(about, held, lambda: self._reads.kind(catalogue, stream)[0]), per_second=False)
        newest = held.newest(chosen)
        before = asked.as_of is not None and newest is not None and asked.as_of < newest
        times = Times.MANY if past else Times.PAST if before else Times.NOW
        there = [] if other is None or other not in held.sources else [other]
        share = None if family is not None or past else tail_share(self._reads, catalogue, held, chosen, asked)
        picked = pick(held, replace(asked, phis=()), family, times, chosen, there, curves=curves, share=share)
        return Plan(held, chosen, asked, question, picked)

    def kind(self, stream: str) -> Kind | None:
        """What the values of a stream are; None where no sketch knows."""
        return self._reads.kind(self.catalogue(stream), stream)[0]

    def columns(self, stream: str) -> StreamColumns:
        """The columns of a stream's events, under all names that a question may use; of no stream those of all."""
        held = self.catalogue(stream).streams.get(stream)
        return StreamColumns() if held is None else columns_of(held)


def _chosen(stored: StoredStream, sources: Sequence[str]) -> tuple[str, ...]:
    """The named sources in order, each once; all of them where none is named."""
    for source in sources:
        check_known("source", source, stored.sources)
    return tuple(sorted(set(sources))) if sources else tuple(stored.sources)
