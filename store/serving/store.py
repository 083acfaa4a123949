"""Answers from a store: pick the family, load and merge its sketches, answer, and say which epochs are missing.

Store("wane.duckdb").ask("calls", Question("sum", "exp:half_life=30m"))
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Ints
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Curve, Estimate, Item, Series
from sketches.events import Kind
from sketches.family import Askable
from sketches.question import Question
from sketches.registry import families_with, family_of
from store.database import WAIT, connected
from store.serving.catalogue import Catalogue, StoredStream, check_known, read_catalogue
from store.serving.epoch_ends import series_at_ends
from store.serving.planner import Picked, Times, pick
from store.serving.provenance import Answer, Provenance, provenance_of
from store.serving.resolving import above_any_threshold, in_users_unit, resolved, weight_step, with_numbers
from store.serving.selection import Selection, StreamSketches, as_of_then, kind_of_values, refresh

__all__ = ["Answer", "Provenance", "Store"]

MEMORY: Final = 1 << 30  # bytes of merged sketches kept between questions


class _Plan(NamedTuple):
    """Which sources and which family answer a question, and why that family; `question` leaves nothing open."""

    stream: StoredStream
    sources: tuple[str, ...]
    question: Question
    picked: Picked


class _Selected(NamedTuple):
    """The loaded sketches that a question is asked of. An inner product has two selections, any other question one."""

    selections: tuple[Selection, ...]
    plan: _Plan

    @property
    def question(self) -> Question:
        """The question as the first selection's sketches understand it."""
        return with_numbers(self.plan.question, _askable(self.selections[0]).kind)

    def provenance(self, moments: Ints, start: float) -> Provenance:
        """Where an answer as of these times comes from; its question was taken up at `start`."""
        elapsed_ms = (time.perf_counter() - start) * 1e3
        return provenance_of(
            self.plan.stream, self.selections, self.plan.picked.why, self.plan.question, moments, elapsed_ms
        )


class Store:
    """A store opened for questions: it holds no connection, and keeps merged sketches in memory up to a limit.

    Every answer belongs to one generation. While the file does not change, nothing is read or merged again: a new
    decay, threshold or as-of time costs only arithmetic.
    """

    def __init__(self, path: str | Path, *, memory: int = MEMORY, wait: float = WAIT) -> None:
        self.path = Path(path)
        self._memory = memory
        self._wait = wait
        self._catalogue: Catalogue | None = None
        self._seen: tuple[object, ...] | None = None  # the file's signature when the catalogue was read
        self._selections: OrderedDict[tuple[str, tuple[str, ...], str], Selection] = OrderedDict()
        self._kinds: dict[tuple[object, ...], Kind | None] = {}
        self._stream_sketches = StreamSketches()
        self._lock = threading.RLock()

    @contextmanager
    def held_open(self) -> Iterator[None]:
        """Keep the file open meanwhile, and so closed to writers: for a command that asks once and ends.

        Opening it anew for the catalogue, then for the sketches, takes as long as reading them.
        """
        with connected(self.path, write=False, wait=self._wait):
            yield

    def catalogue(self) -> Catalogue:
        """What the store holds now, read again only when the file has changed. It does not wait for other answers."""
        now = self._signature()
        seen, known = self._seen, self._catalogue
        if known is not None and now == seen:
            return known
        with self._lock:
            now = self._signature()
            if self._catalogue is None or now != self._seen:
                self._catalogue = read_catalogue(self.path, self._wait)
                self._seen = now
            return self._catalogue

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
        with self._lock:
            selected = self._select(stream, question, sources, family, other, past=charted)
            estimate = _estimate(selected, selected.question)
            estimate = in_users_unit(estimate, selected.question, weight_step(selected.plan.stream))
            provenance = selected.provenance(np.array([estimate.as_of]), start)
        return Answer(replace(estimate, guarantee=provenance.qualify(estimate.guarantee)), provenance)

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
        """One question at many as-of times: in one pass, or time by time for an inner product with `other`.

        A family that answers as of its newest event or later gives points at the ends of epochs instead.
        """
        start = time.perf_counter()
        moments = np.asarray(as_of, np.int64)
        with self._lock:
            selected = self._select(stream, question, sources, family, other, past=True)
            asked, first = selected.question, selected.selections[0]
            if other is not None:
                series = _one_by_one(selected, asked, moments)
            elif selected.plan.picked.at_ends:
                newest = selected.plan.stream.newest(first.sources)
                series = series_at_ends(first, asked, moments, 0 if newest is None else newest)
            else:
                series = _askable(first).series(asked, moments)
            series = in_users_unit(series, asked, weight_step(selected.plan.stream))
            provenance = selected.provenance(series.as_of, start)
        return replace(series, guarantee=provenance.qualify(series.guarantee)), provenance

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
        asked = replace(question, aggregate="quantile", phi=0.5, tau=None, top=None, of=None)

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
        start = time.perf_counter()
        with self._lock:
            selected = self._select(stream, question, sources, family, curves=True)
            (selection,) = selected.selections
            if not family_of(selection.family).abilities.curves:
                raise UnanswerableError(f"family {selection.family!r} has no curves; {families_with('curves')}")
            asked = selected.question
            curve = in_users_unit(curve_of(_askable(selection), asked), asked, weight_step(selected.plan.stream))
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
        plan = self._plan(self.catalogue(), stream, question, sources, family, None, past=past, curves=curves)
        return plan.picked.family

    def load(self, stream: str, family: str, *, sources: Sequence[str] = ()) -> None:
        """Load and merge the sketches of a family, so that the first question need not wait for it."""
        with self._lock:
            catalogue = self.catalogue()
            stored = catalogue.stream(stream)
            self._load(stream, _chosen(stored, sources), family, catalogue)

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
    ) -> _Selected:
        """What a question is asked of, loaded; both sides of an inner product are of the same generation."""
        asked = question, sources, family, other
        first, plan, catalogue = self._planned(self.catalogue(), stream, *asked, past=past, curves=curves)
        if other is None:
            return _Selected((first,), plan)
        while True:
            second, _, catalogue = self._planned(catalogue, stream, question, [other], first.family, None, past=past)
            if second.name == first.name:
                return _Selected((first, second), plan)
            first, plan, catalogue = self._planned(catalogue, stream, *asked, past=past)

    def _planned(
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
    ) -> tuple[Selection, _Plan, Catalogue]:
        """Plan and load; plan again where loading found a newer generation, which may have more sources or families."""
        while True:
            plan = self._plan(catalogue, stream, question, sources, family, other, past=past, curves=curves)
            selection, now = self._load(stream, plan.sources, plan.picked.family, catalogue)
            if now.name == catalogue.name:
                return selection, plan, now
            catalogue = now

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
    ) -> _Plan:
        held = catalogue.stream(stream)
        chosen = _chosen(held, sources)
        if family is not None:
            check_known("family", family, sorted(held.sketches))
        asked = resolved(question, held, lambda: self._kind(held))
        newest = held.newest(chosen)
        before = asked.as_of is not None and newest is not None and asked.as_of < newest
        times = Times.MANY if past else Times.PAST if before else Times.NOW
        there = [] if other is None or other not in held.sources else [other]
        return _Plan(held, chosen, asked, pick(held, asked, family, times, chosen, there, curves=curves))

    def _kind(self, held: StoredStream) -> Kind | None:
        """What the values of a stream are, from one of its sketches; None where no sketch knows."""
        key = (held.name, *next(iter(held.epochs), ()))
        if key not in self._kinds:
            self._kinds[key] = kind_of_values(self.path, held, self._wait)
        return self._kinds[key]

    def _load(
        self, stream: str, sources: tuple[str, ...], family: str, catalogue: Catalogue
    ) -> tuple[Selection, Catalogue]:
        """The sketches of some sources in one family, up to date, and the catalogue of their generation."""
        key = (stream, sources, family)
        selection = self._selections.setdefault(key, Selection(stream, sources, family))
        self._selections.move_to_end(key)
        self._catalogue = refresh(selection, self.path, catalogue, self._wait, self._stream_sketches)
        self._evict(key)
        return selection, self._catalogue

    def _evict(self, keep: tuple[str, tuple[str, ...], str]) -> None:
        """Forget the selections asked longest ago until the rest fits; the one just asked always stays."""
        while len(self._selections) > 1 and sum(one.nbytes for one in self._selections.values()) > self._memory:
            oldest = next(key for key in self._selections if key != keep)
            del self._selections[oldest]

    def _signature(self) -> tuple[object, ...]:
        """Identity, size and time of the file and of its write-ahead log: they change with every commit."""
        found: list[object] = []
        for path in (self.path, self.path.with_name(self.path.name + ".wal")):
            try:
                stat = path.stat()
                found += [stat.st_ino, stat.st_size, stat.st_mtime_ns]
            except FileNotFoundError:
                found.append(None)
        return tuple(found)


def _chosen(stored: StoredStream, sources: Sequence[str]) -> tuple[str, ...]:
    """The named sources in order, each once; all of them where none is named."""
    for source in sources:
        check_known("source", source, stored.sources)
    return tuple(sorted(set(sources))) if sources else tuple(stored.sources)


def _askable(selection: Selection) -> Askable:
    if selection.askable is None:
        sources = ", ".join(selection.sources[:5])
        raise UnanswerableError(f"stream {selection.stream!r} has no readable {selection.family} sketch of {sources}")
    return selection.askable


def _estimate(selected: _Selected, question: Question) -> Estimate:
    first, *second = selected.selections
    askable = _askable(first)
    if second:
        if not family_of(first.family).abilities.joins:
            raise UnanswerableError(f"family {first.family!r} has no inner products; {families_with('joins')}")
        return askable.answer(question, other=_askable(second[0]))
    if selected.plan.picked.at_ends and question.as_of is not None:
        askable = as_of_then(first, question.as_of)
    return askable.answer(question) if not question.phis else _at_shares(askable, question)


def _at_shares(askable: Askable, question: Question) -> Estimate:
    """The quantiles at several shares as a list; the number beside it is the first of them."""
    one = replace(question, phis=())
    if len(question.phis) == 1:
        return askable.answer(one)
    found = [askable.answer(replace(one, phi=phi)) for phi in question.phis]
    items = tuple(Item(phi, each.value, each.lower, each.upper) for phi, each in zip(question.phis, found, strict=True))
    return replace(found[0], items=items, confidence=min(each.confidence for each in found))


def _one_by_one(selected: _Selected, question: Question, moments: Ints) -> Series:
    """A series of single answers: no family has inner products at many times in one pass."""
    if len(moments) == 0:
        raise QuestionError("an inner product over time needs at least one as-of time")
    found = [_estimate(selected, question.at(moment)) for moment in moments.tolist()]
    return Series(
        moments,
        np.array([estimate.value for estimate in found]),
        np.array([estimate.lower for estimate in found]),
        np.array([estimate.upper for estimate in found]),
        min(estimate.confidence for estimate in found),
        found[-1].guarantee,
        found[-1].family,
        np.array([estimate.used for estimate in found]),
    )
