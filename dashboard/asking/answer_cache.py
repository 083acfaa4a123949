"""The answers of one store, shared by all sessions of the server. Pages ask here; recent answers are kept.

An answer belongs to a commit of the store, known by its random name. It is used until the store changes or newer
answers take its place. Sessions that ask for the same at once wait for one answer; others do not wait for each other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from dashboard.asking.kept_answers import KeptAnswers
from dashboard.asking.view import View, by_number
from sketches.arrays import Floats, Ints
from sketches.errors import QuestionError, WaneError
from sketches.estimate import Curve, Group, Series
from sketches.events import Kind
from sketches.parts import HourTotals
from sketches.question import Question
from sketches.registry import FAMILIES, family_of
from store import Answer, Provenance, Store
from store.audit.exact import Exact
from store.audit.raw_files import RawFiles, raw_files
from store.audit.totals import stored_totals
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.report import report
from store.serving.resolving import refuse_threshold, resolved
from store.serving.split_answer import SplitAnswer
from store.serving.timeline import extent, moments, read_moment, silences

PATIENCE: Final = 5.0  # seconds that a page waits for another process before it says which one holds the store
POINTS: Final = 200  # of a series
COARSE: Final = 24  # of one whose points each cost a whole answer
SHARES: Final = np.concatenate([[0.001, 0.005], np.arange(1, 100) / 100, [0.995, 0.999]])

Found = TypeVar("Found")
Sketches = tuple[tuple[str, ...], str]  # sources and family


class AnswerCache:
    """A store and its recent answers. Methods take the view of a session and the stream that it shows."""

    def __init__(
        self, path: Path, raw: Sequence[str] = (), streams: Set[str] | None = None, store: Store | None = None
    ) -> None:
        self.path = path
        self.streams = streams  # those that may be seen, None: all
        self._raw = tuple(raw)  # the folders whose files Audit may read
        whole = store or Store(path, wait=PATIENCE)
        self.store = whole if streams is None else whole.opened_to(streams)
        self._kept = KeptAnswers()
        self._exact: Exact | None = None
        self._exact_lock = threading.Lock()

    def catalogue(self) -> Catalogue:
        return self.store.catalogue()

    def begin(self, pause: Callable[[], object] = lambda: None) -> None:
        """Count the time spent on answers from zero: a page is drawn from here on.

        `pause` is called before each answer that has to be found, and while it is. It may raise, where the page is not
        wanted any more.
        """
        self._kept.begin(pause)

    @property
    def spent_ms(self) -> float:
        """The time spent on finding answers since `begin`, on this thread."""
        return self._kept.spent * 1e3

    def report(self) -> dict[str, Any]:
        """What `wane info` reports, without opening every payload."""
        return self.once(("report",), lambda: report(self.path, check=False, streams=self.streams))

    def checked_report(self) -> dict[str, Any]:
        """What `wane info` reports, with every payload read."""
        return report(self.path, streams=self.streams)

    def is_ready(self, view: View) -> bool:
        """Whether the sketches that answer the view are loaded. If not, the first answer may take seconds."""
        return (self.catalogue().name, ("loaded", view.stream, self._needed(view))) in self._kept

    def prepare(self, view: View) -> None:
        """Load and merge these sketches. What is wrong with them is said by the question that needs them."""
        needed = self._needed(view)

        def load() -> bool:
            for sources, family in needed:
                with suppress(WaneError):
                    self.store.load(view.stream, family, sources=sources)
            return True

        self.once(("loaded", view.stream, needed), load)

    def _needed(self, view: View) -> tuple[Sketches, ...]:
        """The sketches that answer the view's question, as of one time and over time alike."""
        stream = self.catalogue().streams.get(view.stream)
        if stream is None:
            return ()
        try:
            question = view.question(stream)
        except QuestionError:  # the view still lacks a threshold or a value
            question = Question("sum", view.fading)
        try:
            family = self.family(view, question, charted=True)
        except WaneError:
            return ()
        joined = question.aggregate == "inner-product" and view.other
        chosen = [view.source, (view.other,)] if joined else [view.source]
        return tuple((sources, family) for sources in chosen)

    def family(self, view: View, question: Question, *, charted: bool = False, curves: bool = False) -> str:
        """The family that answers a question of the view: beside a chart or a curve, the one that draws it."""
        asked = replace(question, as_of=None) if charted else question
        return self.once(
            ("family", view.stream, view.source, view.family, asked, charted, curves),
            lambda: self.store.family_for(
                view.stream, asked, sources=view.source, family=view.family or None, past=charted, curves=curves
            ),
        )

    def question(self, view: View, stream: StoredStream) -> Question:
        """The question of a view with all that the stream's settings say: what it counts and what it is of."""
        return resolved(view.question(stream), stream, lambda: self._kind(stream))

    def _kind(self, stream: StoredStream) -> Kind | None:
        """What the values of a stream are."""
        stated = stream.described.get("kind")
        return Kind(stated) if stated in list(Kind) else self.store.kind(stream.name)

    def ask(
        self, view: View, stream: StoredStream, question: Question | None = None, *, charted: bool = False
    ) -> Answer:
        """The number of a view, or the answer to another question; `charted` where it stands beside its series."""
        asked = question or view.question(stream)
        other = _second_source(view, asked)
        return self.once(
            ("ask", view.stream, view.source, view.family, other, asked, charted),
            lambda: self.store.ask(
                view.stream, asked, sources=view.source, family=view.family or None, other=other, charted=charted
            ),
        )

    def distinct_events(self, stream: StoredStream) -> Answer | None:
        """About how many events a stream has, by a family that counts a repeated row once; None where there is none."""
        newest = stream.newest(stream.sources)
        question = Question("count", "none", as_of=newest, counting="events")
        for name in sorted(stream.sketches):
            known = FAMILIES.get(name)
            if known is None or not known.abilities.forgives_repeats:
                continue
            view = View(stream.name, family=name)
            with suppress(WaneError):
                return self.ask(view, stream, question)
        return None

    def series(self, view: View, stream: StoredStream, as_of: Ints) -> tuple[Series, Provenance]:
        """The number of a view at many as-of times."""
        question = replace(view.question(stream), as_of=None)
        other = _second_source(view, question)
        return self.once(
            _key_of_series(view, stream, as_of),
            lambda: self.store.series(
                view.stream, question, as_of, sources=view.source, family=view.family or None, other=other
            ),
        )

    def has_series(self, view: View, stream: StoredStream, as_of: Ints) -> bool:
        """Whether the number of a view at these as-of times is known, and costs nothing."""
        return (self.store.catalogue().name, _key_of_series(view, stream, as_of)) in self._kept

    def split(self, view: View, stream: StoredStream, top: int | None = None) -> SplitAnswer:
        """The answer of each group that the view splits by, the first of them listed, and of all others as one."""
        question, most = view.question(stream), view.groups if top is None else top
        return self.once(
            ("split", view.stream, view.source, view.family, view.by, view.smallest, question, most),
            lambda: self.store.split(
                view.stream,
                question,
                by=view.by,
                sources=view.source,
                family=view.family or None,
                top=most,
                smallest=view.smallest,
                others=True,
            ),
        )

    def series_by(self, view: View, stream: StoredStream, as_of: Ints) -> dict[Group, Series]:
        """The numbers of the listed groups at many as-of times."""
        question, groups = view.question(stream), (view.by, view.smallest, view.groups)
        return self.once(
            ("series by", view.stream, view.source, view.family, groups, question, as_of.tobytes()),
            lambda: self.store.series_by(
                *(view.stream, question, as_of, view.by),
                sources=view.source,
                family=view.family or None,
                top=view.groups,
                smallest=view.smallest,
            )[0],
        )

    def quantiles(self, view: View, stream: StoredStream, shares: Floats = SHARES) -> tuple[Curve, Provenance]:
        """The value at every share, under the view's decay; share by share where the family draws no curve."""
        question, together = _of_all(view, stream, "median"), view.band == "all"

        def find() -> tuple[Curve, Provenance]:
            family = view.family or None
            if self._draws(view, question):
                return self.store.quantile_curve(
                    view.stream, question, shares, sources=view.source, family=family, together=together
                )
            chosen = _thinned(shares)
            asked = replace(question, aggregate="quantile", phi=None, phis=tuple(chosen.tolist()))
            answer = self.store.ask(view.stream, asked, sources=view.source, family=family)
            return _curve(chosen, [answer]), answer.provenance

        key = ("quantiles", view.stream, view.source, view.family, question, shares.tobytes(), together)
        return self.once(key, find)

    def thresholds(self, view: View, stream: StoredStream, at: Floats) -> tuple[Curve, Provenance]:
        """The view's sum, count or mean at or above every threshold; one by one where the family draws no curve."""
        question, together = _of_all(view, stream, view.curve), view.band == "all"
        refuse_threshold(question)

        def find() -> tuple[Curve, Provenance]:
            family = view.family or None
            asked = replace(question, aggregate=f"correlated-{view.curve}", tau=0.0)
            if self._draws(view, asked):
                return self.store.threshold_curve(
                    view.stream, question, at, sources=view.source, family=family, together=together
                )
            chosen = _thinned(at)
            found = [
                self.store.ask(view.stream, replace(asked, tau=tau), sources=view.source, family=family)
                for tau in chosen.tolist()
            ]
            return _curve(chosen, found), found[-1].provenance

        key = ("thresholds", view.stream, view.source, view.family, question, at.tobytes(), together)
        return self.once(key, find)

    def _draws(self, view: View, question: Question) -> bool:
        """Whether a family that answers a question draws whole curves."""
        return family_of(self.family(view, question, curves=True)).abilities.curves

    def steps(self, view: View, stream: StoredStream) -> list[float]:
        """The values that a slider goes through: those at equal shares of all stored events, each once."""
        curve, _ = self.quantiles(View(view.stream, view.source, decay="none"), stream)
        return sorted(set(curve.value[np.isfinite(curve.value)].tolist()))

    def extent(self, view: View, stream: StoredStream) -> tuple[int, int] | None:
        """The time of the oldest event of the view's sources, and the end of the stream, whatever its sources."""
        known = self.once(("extent", view.stream, view.source), lambda: extent(stream, view.source))
        end = stream.as_of()
        return None if known is None or end is None else (min(known[0], end), end)

    def silences(self, view: View, stream: StoredStream) -> list[tuple[int, int]]:
        """The stretches in which the view's sources have no events."""
        return self.once(("silences", view.stream, view.source), lambda: silences(stream, view.source))

    def raw_files(self, stream: str) -> RawFiles:
        """The raw files that a stream was read from, and which of them are still there."""
        return raw_files(self.path, self._seen(stream), self._raw)

    def hour_totals(self, stream: str) -> HourTotals | None:
        """The exact totals that the store keeps of a stream; None where it has none."""
        return stored_totals(self.path, self._seen(stream))

    def _seen(self, stream: str) -> str:
        """The name of a stream that may be seen; refuses any other."""
        return self.store.catalogue(stream).stream(stream).name

    def exact(self, raw: RawFiles) -> Exact:
        """The events of the raw files. They stay in memory until those of other files are asked for."""
        with self._exact_lock:
            if self._exact is None or self._exact.raw != raw:
                if self._exact is not None:
                    self._exact.close()
                    self._exact = None
                begun = time.perf_counter()
                self._exact = Exact(raw)
                self._kept.spend(time.perf_counter() - begun)
            return self._exact

    def exact_answer(self, view: View, exact: Exact, question: Question) -> float:
        """An exact answer from the raw files."""
        other = _second_source(view, question)
        return self.once(
            ("exact", exact.raw.stream, exact.raw.present, view.source, other, question),
            lambda: exact.answer(question, sources=view.source, other=other),
        )

    def moments(self, view: View, stream: StoredStream, span: float, *, fine: bool = False) -> Ints:
        """The as-of times of a chart: the view's range, or else `span` seconds up to its as-of time; none before the
        oldest event, unless all are. Where points are dear there are few, unless it shall be `fine`."""
        points = COARSE if is_dear(view) and not fine else POINTS
        known = self.extent(view, stream)
        if known is None:
            return np.empty(0, np.int64)
        oldest, newest = known
        last = view.moment(stream.unit)
        last = newest if last is None else last
        if view.ranged:
            last = read_moment(view.end, stream.unit) if view.end else last
            first = read_moment(view.start, stream.unit) if view.start else oldest
            return moments(min(max(first, oldest), last), last, points)
        length = span * stream.unit.denominator / stream.unit.numerator
        first = oldest if length >= last - oldest else last - max(1, round(length))
        return moments(min(first, last), last, points)

    def once(self, key: Hashable, find: Callable[[], Found]) -> Found:
        """What `find` gives; kept under this key until the next commit."""
        commit = self.store.catalogue().name
        return self._kept.once((commit, key), find, lambda: self.store.catalogue().name == commit)


def _key_of_series(view: View, stream: StoredStream, as_of: Ints) -> Hashable:
    question = replace(view.question(stream), as_of=None)
    other = _second_source(view, question)
    return "series", view.stream, view.source, view.family, other, question, as_of.tobytes()


def _second_source(view: View, question: Question) -> str | None:
    """The second source of an inner product; None for any other question."""
    if question.aggregate != "inner-product":
        return None
    if not view.other:
        raise QuestionError("an inner product needs a second source")
    return view.other


def _of_all(view: View, stream: StoredStream, aggregate: str) -> Question:
    """An aggregate of all that the view asks about, under its decay."""
    return replace(view, aggregate=aggregate, tau="").question(stream)


def _thinned(places: Floats) -> Floats:
    """Some of the places of a curve, where each costs an answer: the first, the last, and those in the middle."""
    if len(places) <= COARSE:
        return places
    kept = np.linspace(0, len(places) - 1, COARSE + 1).round().astype(int)
    return np.asarray(places[kept])


def _curve(places: Floats, found: Sequence[Answer]) -> Curve:
    """Single answers, or the items of one answer, as a curve."""
    first = found[0].estimate
    estimates = [(one.estimate.value, one.estimate.lower, one.estimate.upper) for one in found]
    if len(found) == 1 and first.items:
        estimates = [(item.estimate, item.lower, item.upper) for item in first.items]
    value, lower, upper = np.array(estimates, float).T
    confidence = min(one.estimate.confidence for one in found)
    return Curve(places, value, lower, upper, confidence)


def is_dear(view: View) -> bool:
    """Whether each point of a series may cost as much as an answer: joins, and where the newest events begin."""
    return view.aggregate in ("inner-product", "self-join") or by_number(view.fading)
