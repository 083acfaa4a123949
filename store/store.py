"""Asking a store: find the sketches, merge them, pick the family, answer, and say what is missing.

Store("wane.duckdb").ask("calls", Question("sum", "exp:half_life=30m"))
"""

from __future__ import annotations

import difflib
import math
import threading
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sketches.boxes import Boxes
from sketches.counters import Counters
from sketches.curves import Curve
from sketches.decay import Decay
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Estimate, Series
from sketches.events import Kind
from sketches.question import Question
from sketches.sampled import Sampled
from store.catalogue import Catalogue, Epoch, Gap, StreamHeld, read_catalogue
from store.database import WAIT
from store.loading import Askable, Selection, refresh
from store.planner import pick

MEMORY: Final = 1 << 30  # bytes of merged sketches kept between questions


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where an answer comes from: which family and why, which epochs, what is missing, of which generation."""

    stream: str
    sources: tuple[str, ...]
    family: str
    why: str
    epochs: int
    missing: tuple[Gap, ...]
    sketch_bytes: int
    generation: int
    elapsed_ms: float

    @property
    def complete(self) -> bool:
        return not self.missing


@dataclass(frozen=True, slots=True)
class Answer:
    """An estimate with its provenance; `as_dict` is the command line's JSON."""

    estimate: Estimate
    provenance: Provenance

    def as_dict(self) -> dict[str, Any]:
        origin = self.provenance
        return self.estimate.as_dict() | {
            "stream": origin.stream,
            "sources": list(origin.sources),
            "why": origin.why,
            "epochs": origin.epochs,
            "complete": origin.complete,
            "missing": [gap.as_dict() for gap in origin.missing],
            "sketch_bytes": origin.sketch_bytes,
            "generation": origin.generation,
            "elapsed_ms": round(origin.elapsed_ms, 3),
        }


class Store:
    """A store opened for questions: holds no connection, keeps merged sketches in memory within a bound.

    Every answer belongs to one generation. As long as the file does not change, nothing is read or merged again: a new
    decay, threshold or as-of time costs the arithmetic only.
    """

    def __init__(self, path: str | Path, *, memory: int = MEMORY, wait: float = WAIT) -> None:
        self.path = Path(path)
        self._memory = memory
        self._wait = wait
        self._catalogue: Catalogue | None = None
        self._seen: tuple[object, ...] | None = None
        self._selections: OrderedDict[tuple[str, tuple[str, ...], str], Selection] = OrderedDict()
        self._turn = threading.RLock()

    def catalogue(self) -> Catalogue:
        """What the store holds now; read again only when the file has changed. Waits for no answer under way."""
        now = self._signature()
        seen, known = self._seen, self._catalogue
        if known is not None and now == seen:
            return known
        with self._turn:
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
    ) -> Answer:
        """One answer, from all sources or some; `other` is the second source of an inner product."""
        start = time.perf_counter()
        with self._turn:
            selection, held, why = self._select(stream, question, sources, family)
            partner = None
            while other is not None:
                partner, held, _ = self._select(stream, question, [other], selection.family, self._catalogue)
                if partner.generation == selection.generation:
                    break
                selection, held, why = self._select(stream, question, sources, family, self._catalogue)
            selections = [selection] if partner is None else [selection, partner]
            question = self._dated(question, held, [source for one in selections for source in one.sources])
            estimate = self._asked(selection, question, partner)
            moments = np.array([estimate.as_of])
            provenance = self._provenance(selections, held, question, moments, why, start)
        return Answer(replace(estimate, guarantee=_marked(estimate.guarantee, provenance)), provenance)

    def series(
        self,
        stream: str,
        question: Question,
        as_of: ArrayLike,
        *,
        sources: Sequence[str] = (),
        family: str | None = None,
    ) -> tuple[Series, Provenance]:
        """One question at many as-of times, in one pass."""
        start = time.perf_counter()
        moments = np.asarray(as_of, np.int64)
        with self._turn:
            selection, held, why = self._select(stream, question, sources, family, past=True)
            askable = self._askable(selection)
            series = askable.series(_valued(question, askable), moments)
            provenance = self._provenance([selection], held, question, moments, why, start)
        return replace(series, guarantee=_marked(series.guarantee, provenance)), provenance

    def threshold_curve(
        self,
        stream: str,
        question: Question,
        thresholds: ArrayLike,
        *,
        sources: Sequence[str] = (),
        family: str | None = None,
    ) -> tuple[Curve, Provenance]:
        """Σ w·f over v ≥ τ against τ, under the question's decay."""
        asked = Question("correlated-sum", question.decay, question.as_of, tau=0.0, confidence=question.confidence)
        return self._curve(stream, asked, sources, family, lambda one, put: one.threshold_curve(put, thresholds))

    def quantile_curve(
        self,
        stream: str,
        question: Question,
        shares: ArrayLike,
        *,
        sources: Sequence[str] = (),
        family: str | None = None,
    ) -> tuple[Curve, Provenance]:
        """The value at every share, under the question's decay."""
        asked = Question("quantile", question.decay, question.as_of, phi=0.5, confidence=question.confidence)
        return self._curve(stream, asked, sources, family, lambda one, put: one.quantile_curve(put, shares))

    def compare(
        self, stream: str, question: Question, decays: Iterable[Decay | str], *, sources: Sequence[str] = ()
    ) -> list[Answer]:
        """The same question under several decays, side by side."""
        return [self.ask(stream, replace(question, decay=decay), sources=sources) for decay in decays]

    def _curve(
        self, stream: str, question: Question, sources: Sequence[str], family: str | None, draw: Any
    ) -> tuple[Curve, Provenance]:
        start = time.perf_counter()
        with self._turn:
            selection, held, why = self._select(stream, question, sources, family)
            question = self._dated(question, held, selection.sources)
            askable = self._askable(selection)
            if not isinstance(askable, Sampled | Boxes):
                raise UnanswerableError(
                    f"family {selection.family!r} has no curves; sample, qdigest and exponential have"
                )
            curve = draw(askable, question)
            moments = np.array([question.as_of or 0])
            return curve, self._provenance([selection], held, question, moments, why, start)

    def _select(
        self,
        stream: str,
        question: Question,
        sources: Sequence[str],
        family: str | None,
        catalogue: Catalogue | None = None,
        *,
        past: bool = False,
    ) -> tuple[Selection, StreamHeld, str]:
        catalogue = catalogue or self.catalogue()
        while True:
            held = self._stream(catalogue, stream)
            chosen = tuple(sorted(set(sources))) if sources else tuple(held.sources)
            for source in chosen:
                _known("source", source, held.sources)
            if family is not None:
                _known("family", family, sorted(held.sketches))
            newest = held.newest(chosen)
            before = question.as_of is not None and newest is not None and question.as_of < newest
            picked, why = pick(held, question, family, past or before)
            key = (stream, chosen, picked)
            selection = self._selections.setdefault(key, Selection(stream, chosen, picked))
            self._selections.move_to_end(key)
            self._catalogue = refresh(selection, self.path, catalogue, self._wait)
            if self._catalogue.generation == catalogue.generation:
                break
            catalogue = self._catalogue  # of a newer generation, in which there may be more sources or families
        self._evict(key)
        return selection, held, why

    def _stream(self, catalogue: Catalogue, stream: str) -> StreamHeld:
        _known("stream", stream, list(catalogue.streams))
        return catalogue.streams[stream]

    def _askable(self, selection: Selection) -> Askable:
        if selection.askable is None:
            sources = ", ".join(selection.sources[:5])
            raise UnanswerableError(
                f"stream {selection.stream!r} has no readable {selection.family} sketch of {sources}"
            )
        return selection.askable

    def _asked(self, selection: Selection, question: Question, partner: Selection | None) -> Estimate:
        askable = self._askable(selection)
        if partner is None:
            return askable.answer(_valued(question, askable))
        other = self._askable(partner)
        if isinstance(askable, Sampled) and isinstance(other, Sampled):
            return askable.answer(question, other=other)
        if isinstance(askable, Counters) and isinstance(other, Counters):
            return askable.answer(question, other=other)
        raise UnanswerableError(f"family {selection.family!r} has no inner products; sample and ecm have")

    def _dated(self, question: Question, held: StreamHeld, sources: Sequence[str]) -> Question:
        if question.as_of is not None:
            return question
        newest = held.newest(sources)
        return question if newest is None else question.at(newest)

    def _provenance(
        self,
        selections: Sequence[Selection],
        held: StreamHeld,
        question: Question,
        moments: NDArray[np.int64],
        why: str,
        start: float,
    ) -> Provenance:
        first = selections[0]
        assert isinstance(question.decay, Decay)
        sources = {source for one in selections for source in one.sources}
        covered = set(_asked_epochs(held, sources, question.decay, moments))
        gaps = {gap for one in selections for gap in _missing(held, one, covered)}
        return Provenance(
            stream=first.stream,
            sources=first.sources,
            family=first.family,
            why=why,
            epochs=len({(epoch.start, epoch.length) for epoch in covered}),
            missing=tuple(sorted(gaps, key=lambda gap: (gap.start, gap.source, gap.reason))),
            sketch_bytes=sum(one.sketch_bytes for one in selections),
            generation=first.generation,
            elapsed_ms=(time.perf_counter() - start) * 1e3,
        )

    def _evict(self, keep: tuple[str, tuple[str, ...], str]) -> None:
        """Forget the selections asked longest ago until the rest fits; the one just asked always stays."""
        while len(self._selections) > 1 and sum(one.nbytes for one in self._selections.values()) > self._memory:
            oldest = next(key for key in self._selections if key != keep)
            del self._selections[oldest]

    def _signature(self) -> tuple[object, ...]:
        """Changes whenever a commit does: the file and its write-ahead log, by identity, size and time."""
        parts: list[object] = []
        for path in (self.path, self.path.with_name(self.path.name + ".wal")):
            try:
                stat = path.stat()
                parts += [stat.st_ino, stat.st_size, stat.st_mtime_ns]
            except FileNotFoundError:
                parts.append(None)
        return tuple(parts)


def _asked_epochs(held: StreamHeld, wanted: set[str], decay: Decay, moments: NDArray[np.int64]) -> list[Epoch]:
    """The epochs that can carry weight at one of these times: begun by then, and not wholly beyond the horizon."""
    if len(moments) == 0:
        return []
    horizon = decay.horizon * held.unit.denominator / held.unit.numerator
    reach = math.ceil(horizon) if math.isfinite(horizon) else math.inf  # ages are whole
    ordered = sorted(moments.tolist())
    least, most = ordered[0] - reach + 1, ordered[-1]
    between = [
        epoch
        for epoch in held.epochs
        if epoch.start <= most and epoch.start + epoch.length > least and epoch.source in wanted
    ]
    if len(ordered) == 1:
        return between
    following = [ordered[bisect_left(ordered, epoch.start)] for epoch in between]
    return [
        epoch
        for epoch, moment in zip(between, following, strict=True)
        if moment - (epoch.start + epoch.length - 1) < reach
    ]


def _missing(held: StreamHeld, selection: Selection, covered: set[Epoch]) -> list[Gap]:
    """Epochs with events but without a readable sketch of the family, and those a damaged sketch was set aside of."""
    stored = held.sketches.get(selection.family, {})
    gaps = [
        Gap(epoch.source, epoch.start, epoch.length, selection.family, f"no {selection.family} sketch is stored")
        for epoch in covered
        if epoch not in stored
    ]
    aside = [gap for gap in held.set_aside if gap.family == selection.family]
    return gaps + [gap for gap in [*selection.gaps, *aside] if Epoch(gap.source, gap.start, gap.length) in covered]


def _marked(guarantee: str, provenance: Provenance) -> str:
    """The guarantee of an answer, which says so where the answer has gaps."""
    if provenance.complete:
        return guarantee
    epochs = sorted({(gap.start, gap.source) for gap in provenance.missing})
    named = ", ".join(f"{source} at {start}" for start, source in epochs[:3])
    more = f" and {len(epochs) - 3} more" if len(epochs) > 3 else ""
    count = "1 epoch is" if len(epochs) == 1 else f"{len(epochs)} epochs are"
    return f"INCOMPLETE: {count} missing ({named}{more}); for the rest: {guarantee}"


def _valued(question: Question, askable: Askable) -> Question:
    """A value given as text is a key where the stream's values are keys, else the number that it spells."""
    kind = askable.drawn.kind if isinstance(askable, Sampled) else askable.kind
    if not isinstance(question.value, str) or kind is Kind.KEY:
        return question
    for read in (int, float):
        with suppress(ValueError):
            return replace(question, value=read(question.value))
    return question


def _known(what: str, name: str, names: Sequence[str]) -> None:
    if name in names:
        return
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(sorted(names)[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    raise QuestionError(f"{what} {name!r} is not in the store; it holds {listed or 'none'}{hint}")
