"""The answers of one store, shared by all sessions of the server. Pages ask here; recent answers are kept.

An answer belongs to a generation of the store. It is used until the store changes or newer answers take its place.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from dashboard.view import PARAMETERS, View
from sketches.arrays import Floats, Ints
from sketches.errors import QuestionError, WaneError
from sketches.estimate import Curve, Series
from sketches.question import Question
from store import Answer, Provenance, Store
from store.audit.exact import Exact
from store.audit.raw_files import RawFiles, raw_files
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.report import report
from store.serving.timeline import extent, moments, silences

KEPT: Final = 500  # answers
POINTS: Final = 200  # of a series
POINTS_OF_QUANTILES: Final = 60  # each of which is searched for
POINTS_OF_JOINS: Final = 24  # each of which costs a whole answer
SHARES: Final = np.concatenate([[0.001, 0.005], np.arange(1, 100) / 100, [0.995, 0.999]])

Found = TypeVar("Found")
Sketches = tuple[tuple[str, ...], str]  # sources and family


class AnswerCache:
    """A store and its recent answers. Methods take the view of a session and the stream that it shows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = Store(path)
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._page = threading.local()  # each page is drawn by a thread of its own
        self._exact: Exact | None = None
        self._exact_lock = threading.Lock()

    def catalogue(self) -> Catalogue:
        return self.store.catalogue()

    def begin(self) -> None:
        """Count the time spent on answers from zero: a page is drawn from here on."""
        self._page.spent = 0.0

    @property
    def spent_ms(self) -> float:
        """The time spent on finding answers since `begin`, on this thread."""
        return self._spent * 1e3

    @property
    def _spent(self) -> float:
        return float(getattr(self._page, "spent", 0.0))

    def report(self) -> dict[str, Any]:
        """What `wane info` reports, without opening every payload."""
        return self._once(("report",), lambda: report(self.path, check=False))

    def is_ready(self, view: View) -> bool:
        """Whether the sketches that answer the view are loaded. If not, the first answer may take seconds."""
        key = (self.catalogue().generation, ("loaded", view.stream, self._needed(view)))
        with self._lock:
            return key in self._kept

    def prepare(self, view: View) -> None:
        """Load and merge these sketches. What is wrong with them is said by the question that needs them."""
        needed = self._needed(view)

        def load() -> bool:
            for sources, family in needed:
                with suppress(WaneError):
                    self.store.load(view.stream, family, sources=sources)
            return True

        self._once(("loaded", view.stream, needed), load)

    def _needed(self, view: View) -> tuple[Sketches, ...]:
        """The sketches that answer the view's question as of one time and over time: of one family, or of two."""
        stream = self.catalogue().streams.get(view.stream)
        if stream is None:
            return ()
        try:
            question = view.question(stream.unit)
        except QuestionError:  # the view still lacks a threshold or a value
            question = Question("sum", view.fading)
        families = set()
        for asked, past in ((question, False), (replace(question, as_of=None), True)):
            with suppress(WaneError):
                families.add(self._family(view, asked, past=past))
        joined = question.aggregate == "inner-product" and view.other
        chosen = [view.source, (view.other,)] if joined else [view.source]
        return tuple((sources, family) for sources in chosen for family in sorted(families))

    def _family(self, view: View, question: Question, *, past: bool) -> str:
        return self._once(
            ("family", view.stream, view.source, view.family, question, past),
            lambda: self.store.family_for(
                view.stream, question, sources=view.source, family=view.family or None, past=past
            ),
        )

    def ask(self, view: View, stream: StoredStream, question: Question | None = None) -> Answer:
        """The number of a view, the same as `wane query` gives; or the answer to another question."""
        asked = question or view.question(stream.unit)
        other = _second_source(view, asked)
        return self._once(
            ("ask", view.stream, view.source, view.family, other, asked),
            lambda: self.store.ask(view.stream, asked, sources=view.source, family=view.family or None, other=other),
        )

    def series(self, view: View, stream: StoredStream, as_of: Ints) -> tuple[Series, Provenance]:
        """The number of a view at many as-of times."""
        question = replace(view.question(stream.unit), as_of=None)
        other = _second_source(view, question)
        return self._once(
            ("series", view.stream, view.source, view.family, other, question, as_of.tobytes()),
            lambda: self.store.series(
                view.stream, question, as_of, sources=view.source, family=view.family or None, other=other
            ),
        )

    def quantiles(self, view: View, stream: StoredStream, shares: Floats = SHARES) -> tuple[Curve, Provenance]:
        """The value at every share, under the view's decay."""
        question = Question("median", view.fading, as_of=view.moment(stream.unit), confidence=view.confidence or None)
        return self._once(
            ("quantiles", view.stream, view.source, view.family, question, shares.tobytes()),
            lambda: self.store.quantile_curve(
                view.stream, question, shares, sources=view.source, family=view.family or None
            ),
        )

    def thresholds(self, view: View, stream: StoredStream, at: Floats) -> tuple[Curve, Provenance]:
        """The weight at or above every threshold, under the view's decay."""
        question = Question("sum", view.fading, as_of=view.moment(stream.unit), confidence=view.confidence or None)
        return self._once(
            ("thresholds", view.stream, view.source, view.family, question, at.tobytes()),
            lambda: self.store.threshold_curve(
                view.stream, question, at, sources=view.source, family=view.family or None
            ),
        )

    def steps(self, view: View) -> list[float]:
        """The values that a slider goes through: those at equal shares of all stored events, each once."""
        question = Question("median", "none")
        curve, _ = self._once(
            ("steps", view.stream, view.source),
            lambda: self.store.quantile_curve(view.stream, question, SHARES, sources=view.source),
        )
        return sorted(set(curve.value[np.isfinite(curve.value)].tolist()))

    def extent(self, view: View, stream: StoredStream) -> tuple[int, int] | None:
        """The times of the oldest and the newest event of the view's sources."""
        return self._once(("extent", view.stream, view.source), lambda: extent(stream, view.source))

    def silences(self, view: View, stream: StoredStream) -> list[tuple[int, int]]:
        """The stretches in which the view's sources have no events."""
        return self._once(("silences", view.stream, view.source), lambda: silences(stream, view.source))

    def raw_files(self, stream: str) -> RawFiles:
        """The raw files that a stream was read from, and which of them are still there."""
        return raw_files(self.path, stream)

    def exact(self, raw: RawFiles) -> Exact:
        """The events of the raw files. They stay in memory until those of other files are asked for."""
        with self._exact_lock:
            if self._exact is None or self._exact.raw != raw:
                if self._exact is not None:
                    self._exact.close()
                    self._exact = None
                begun = time.perf_counter()
                self._exact = Exact(raw)
                self._page.spent = self._spent + time.perf_counter() - begun
            return self._exact

    def exact_answer(self, view: View, exact: Exact, question: Question) -> float:
        """An exact answer from the raw files."""
        other = _second_source(view, question)
        return self._once(
            ("exact", exact.raw.stream, exact.raw.present, view.source, other, question),
            lambda: exact.answer(question, sources=view.source, other=other),
        )

    def moments(self, view: View, stream: StoredStream, span: float) -> Ints:
        """The as-of times of a chart: `span` seconds up to the view's as-of time, but none before the oldest event."""
        known = self.extent(view, stream)
        if known is None:
            return np.empty(0, np.int64)
        oldest, newest = known
        last = view.moment(stream.unit)
        last = newest if last is None else last
        length = span * stream.unit.denominator / stream.unit.numerator
        first = oldest if length >= last - oldest else last - max(1, round(length))
        return moments(min(first, last), last, _points(view))

    def _once(self, key: Hashable, find: Callable[[], Found]) -> Found:
        """What `find` gives; kept under this key until the store's generation changes."""
        whole = (self.store.catalogue().generation, key)
        with self._lock:
            if whole in self._kept:
                self._kept.move_to_end(whole)
                return self._kept[whole]  # type: ignore[no-any-return]
        begun = time.perf_counter()
        found = find()
        self._page.spent = self._spent + time.perf_counter() - begun
        with self._lock:
            self._kept[whole] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found


def _second_source(view: View, question: Question) -> str | None:
    """The second source of an inner product; None for any other question."""
    if question.aggregate != "inner-product":
        return None
    if not view.other:
        raise QuestionError("an inner product needs a second source")
    return view.other


def _points(view: View) -> int:
    """How many points a series can have and still follow a slider that is being moved."""
    needs_tau = "tau" in PARAMETERS.get(view.aggregate, ())
    if view.aggregate in ("inner-product", "self-join") or (needs_tau and view.tau[:1] in ("m", "q")):
        return POINTS_OF_JOINS
    return POINTS_OF_QUANTILES if view.aggregate in ("median", "quantile") else POINTS
