"""Where pages ask: one store for all sessions of the server, and the answers given last.

An answer belongs to a generation of the store, so it is kept until the store changes or newer answers push it out.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from dashboard.view import PARAMETERS, View
from sketches.curves import Curve
from sketches.decay import Decay
from sketches.errors import QuestionError, WaneError
from sketches.estimate import Series
from sketches.question import Question
from store import Answer, Provenance, Store
from store.catalogue import Catalogue, StreamHeld
from store.exact import Exact
from store.raw import RawFiles, raw_files
from store.report import report
from store.timeline import extent, moments, silences

KEPT: Final = 500  # answers
POINTS: Final = 200  # of a series
FEWER_POINTS: Final = 60  # where the sums of a series must be searched
FEW_POINTS: Final = 24  # where each point of a series costs a whole answer
SHARES: Final = np.concatenate([[0.001, 0.005], np.arange(1, 100) / 100, [0.995, 0.999]])

Found = TypeVar("Found")


class Desk:
    """A store with the answers it gave lately."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = Store(path)
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._clock = threading.local()
        self._turn = threading.Lock()
        self._exact: Exact | None = None
        self._reading = threading.Lock()

    def catalogue(self) -> Catalogue:
        return self.store.catalogue()

    @property
    def spent_ms(self) -> float:
        """What finding answers has cost since `begin`, on this thread: what a rerun of a page computed."""
        return self._spent * 1e3

    def begin(self) -> None:
        """A page is drawn from here on."""
        self._clock.spent = 0.0

    @property
    def _spent(self) -> float:
        return float(getattr(self._clock, "spent", 0.0))

    def report(self) -> dict[str, Any]:
        """What `wane info` says, without opening every payload."""
        return self._once(("report",), lambda: report(self.path, check=False))

    def is_ready(self, view: View) -> bool:
        """Whether the sketches of the view's sources are loaded: if not, the first answer may take seconds."""
        key = (self.catalogue().generation, ("ready", view.stream, view.source))
        with self._turn:
            return key in self._kept

    def prepare(self, view: View) -> None:
        """Load and merge them; whatever is wrong with them is said by the question that needs them."""

        def load() -> bool:
            with suppress(WaneError):
                self.store.ask(view.stream, Question("sum"), sources=view.source)
            return True

        self._once(("ready", view.stream, view.source), load)

    def ask(self, view: View, held: StreamHeld, question: Question | None = None) -> Answer:
        """The one number of a view, the same as `wane query` gives."""
        asked = question or view.question(held.unit)
        other = view.other if asked.aggregate == "inner-product" else None
        if other == "":
            raise QuestionError("an inner product needs a second source")
        return self._once(
            ("ask", view.stream, view.source, view.family, other, asked),
            lambda: self.store.ask(
                view.stream, asked, sources=view.source, family=view.family or None, other=other or None
            ),
        )

    def series(self, view: View, held: StreamHeld, as_of: NDArray[np.int64]) -> tuple[Series, Provenance]:
        """The number of a view at many as-of times."""
        question = replace(view.question(held.unit), as_of=None)
        key = ("series", view.stream, view.source, view.family, view.other, question, as_of.tobytes())
        if question.aggregate == "inner-product":
            return self._once(key, lambda: self._one_by_one(view, held, question, as_of))
        return self._once(
            key,
            lambda: self.store.series(view.stream, question, as_of, sources=view.source, family=view.family or None),
        )

    def _one_by_one(
        self, view: View, held: StreamHeld, question: Question, as_of: NDArray[np.int64]
    ) -> tuple[Series, Provenance]:
        answers = [self.ask(view, held, question.at(moment)) for moment in as_of.tolist()]
        last = answers[-1]
        series = Series(
            as_of,
            np.array([answer.estimate.value for answer in answers]),
            np.array([answer.estimate.lower for answer in answers]),
            np.array([answer.estimate.upper for answer in answers]),
            last.estimate.confidence,
            last.estimate.guarantee,
            last.estimate.family,
            np.array([answer.estimate.used for answer in answers]),
        )
        missing = {gap for answer in answers for gap in answer.provenance.missing}
        elapsed = sum(answer.provenance.elapsed_ms for answer in answers)
        return series, replace(last.provenance, missing=tuple(missing), elapsed_ms=elapsed)

    def quantiles(self, view: View, held: StreamHeld, shares: NDArray[np.float64] = SHARES) -> tuple[Curve, Provenance]:
        """The value at every share, under the view's decay."""
        question = Question("median", view.fading, as_of=view.moment(held.unit), confidence=view.confidence or None)
        return self._once(
            ("quantiles", view.stream, view.source, view.family, question, shares.tobytes()),
            lambda: self.store.quantile_curve(
                view.stream, question, shares, sources=view.source, family=view.family or None
            ),
        )

    def thresholds(self, view: View, held: StreamHeld, at: NDArray[np.float64]) -> tuple[Curve, Provenance]:
        """The weight at or above every threshold, under the view's decay."""
        question = Question("sum", view.fading, as_of=view.moment(held.unit), confidence=view.confidence or None)
        return self._once(
            ("thresholds", view.stream, view.source, view.family, question, at.tobytes()),
            lambda: self.store.threshold_curve(
                view.stream, question, at, sources=view.source, family=view.family or None
            ),
        )

    def steps(self, view: View) -> list[float]:
        """Values that a slider goes through: those at equal shares of all that is stored, each once."""
        question = Question("median", "none")
        curve, _ = self._once(
            ("steps", view.stream, view.source),
            lambda: self.store.quantile_curve(view.stream, question, SHARES, sources=view.source),
        )
        return sorted(set(curve.value[np.isfinite(curve.value)].tolist()))

    def extent(self, view: View, held: StreamHeld) -> tuple[int, int] | None:
        """The oldest and the newest event of the view's sources."""
        return self._once(("extent", view.stream, view.source), lambda: extent(held, view.source))

    def silences(self, view: View, held: StreamHeld) -> list[tuple[int, int]]:
        """Where the view's sources have no events stored."""
        return self._once(("silences", view.stream, view.source), lambda: silences(held, view.source))

    def raw_files(self, stream: str) -> RawFiles:
        """The raw files a stream came from, as they lie there now."""
        return raw_files(self.path, stream)

    def exact(self, raw: RawFiles) -> Exact:
        """The events of the raw files; those of the stream asked for last are kept."""
        with self._reading:
            if self._exact is None or self._exact.raw != raw:
                if self._exact is not None:
                    self._exact.close()
                    self._exact = None
                begun = time.perf_counter()
                self._exact = Exact(raw)
                self._clock.spent = self._spent + time.perf_counter() - begun
            return self._exact

    def exact_answer(self, view: View, exact: Exact, question: Question) -> float:
        """An exact answer, found once for a generation and its files."""
        other = view.other if question.aggregate == "inner-product" else None
        return self._once(
            ("exact", exact.raw.stream, exact.raw.present, view.source, other, question),
            lambda: exact.answer(question, sources=view.source, other=other),
        )

    def moments(self, view: View, held: StreamHeld, span: float) -> NDArray[np.int64]:
        """The as-of times of a chart that ends at the view's as-of time and is `span` seconds long, or all there is."""
        known = self.extent(view, held)
        if known is None:
            return np.empty(0, np.int64)
        oldest, newest = known
        last = view.moment(held.unit)
        last = newest if last is None else last
        reach = span * held.unit.denominator / held.unit.numerator
        first = oldest if reach >= last - oldest else last - max(1, round(reach))
        return moments(min(first, last), last, _points(view))

    def _once(self, key: Hashable, find: Callable[[], Found]) -> Found:
        """What was found for this key in this generation, or finds it now."""
        whole = (self.store.catalogue().generation, key)
        with self._turn:
            if whole in self._kept:
                self._kept.move_to_end(whole)
                return self._kept[whole]  # type: ignore[no-any-return]
        begun = time.perf_counter()
        found = find()
        self._clock.spent = self._spent + time.perf_counter() - begun
        with self._turn:
            self._kept[whole] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found


def _points(view: View) -> int:
    """How many points a series can have and still follow the hand that moves a slider."""
    needs_tau = "tau" in PARAMETERS.get(view.aggregate, ())
    if view.aggregate in ("inner-product", "self-join") or (needs_tau and view.tau[:1] in ("m", "q")):
        return FEW_POINTS
    return FEWER_POINTS if view.aggregate in ("median", "quantile") else POINTS


def picture(decay: Decay) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ages and weights that show a decay: as far as it is of interest, jumps and corners exactly."""
    window = decay.split()[1]
    faded = min(decay.fades_by(0.01), 8 * decay.half_age, window)
    reach = 86_400.0 if math.isinf(faded) else faded * (1.12 if faded == decay.horizon else 1.0)
    corners = [age for age in decay.breaks() if age <= reach]
    ages = np.unique(np.concatenate([np.linspace(0.0, reach, 161), corners, np.nextafter(corners, 0.0)]))
    return ages, decay(ages)
