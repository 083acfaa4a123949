"""Asking a store: find the sketches, merge them, pick the family, answer, and say what is missing.

>>> from store import Store                                                     # doctest: +SKIP
>>> Store("wane.duckdb").ask("calls", Question("sum", "exp:half_life=30m"))      # doctest: +SKIP
"""

from __future__ import annotations

import difflib
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from sketches.curves import Curve
from sketches.decay import Decay
from sketches.errors import QuestionError, UnanswerableError
from sketches.estimate import Estimate, Series
from sketches.integral import Integral
from sketches.question import Question
from sketches.sampled import Sampled
from store.catalogue import Catalogue, Epoch, Gap, StreamHeld, read_catalogue
from store.database import WAIT
from store.loading import Selection, refresh

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
        """What the store holds now; read again only when the file has changed."""
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
            question = self._dated(question, held, (*selection.sources, *((other,) if other else ())))
            estimate = self._asked(selection, question, other)
            provenance = self._provenance(selection, held, question, why, start)
        return Answer(_marked(estimate, provenance), provenance)

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
            selection, held, why = self._select(stream, question, sources, family)
            series = self._askable(selection).series(question, moments)
            newest = int(moments.max(initial=held.newest(selection.sources) or 0))
            provenance = self._provenance(selection, held, question.at(newest), why, start)
        return series, provenance

    def threshold_curve(
        self, stream: str, question: Question, thresholds: ArrayLike, *, sources: Sequence[str] = ()
    ) -> tuple[Curve, Provenance]:
        """Σ w·f over v ≥ τ against τ, under the question's decay."""
        return self._curve(stream, question, sources, lambda sampled, asked: sampled.threshold_curve(asked, thresholds))

    def quantile_curve(
        self, stream: str, question: Question, shares: ArrayLike, *, sources: Sequence[str] = ()
    ) -> tuple[Curve, Provenance]:
        """The value at every share, under the question's decay."""
        return self._curve(stream, question, sources, lambda sampled, asked: sampled.quantile_curve(asked, shares))

    def compare(
        self, stream: str, question: Question, decays: Iterable[Decay | str], *, sources: Sequence[str] = ()
    ) -> list[Answer]:
        """The same question under several decays, side by side."""
        return [self.ask(stream, replace(question, decay=decay), sources=sources) for decay in decays]

    def _curve(self, stream: str, question: Question, sources: Sequence[str], draw: Any) -> tuple[Curve, Provenance]:
        start = time.perf_counter()
        with self._turn:
            selection, held, why = self._select(stream, question, sources, "sample")
            question = self._dated(question, held, selection.sources)
            sampled = self._askable(selection)
            curve = draw(sampled, question)
            return curve, self._provenance(selection, held, question, why, start)

    def _select(
        self, stream: str, question: Question, sources: Sequence[str], family: str | None
    ) -> tuple[Selection, StreamHeld, str]:
        catalogue = self.catalogue()
        held = self._stream(catalogue, stream)
        chosen = tuple(sorted(set(sources))) if sources else tuple(held.sources)
        for source in chosen:
            _known("source", source, held.sources)
        family, why = _pick(held, question, family)
        key = (stream, chosen, family)
        selection = self._selections.setdefault(key, Selection(stream, chosen, family))
        self._selections.move_to_end(key)
        self._catalogue = refresh(selection, self.path, catalogue, self._wait)
        self._evict(key)
        return selection, self._catalogue.streams[stream], why

    def _stream(self, catalogue: Catalogue, stream: str) -> StreamHeld:
        _known("stream", stream, list(catalogue.streams))
        return catalogue.streams[stream]

    def _askable(self, selection: Selection) -> Sampled | Integral:
        if selection.askable is None:
            sources = ", ".join(selection.sources[:5])
            raise UnanswerableError(
                f"stream {selection.stream!r} has no readable {selection.family} sketch of {sources}"
            )
        return selection.askable

    def _asked(self, selection: Selection, question: Question, other: str | None) -> Estimate:
        askable = self._askable(selection)
        if other is None:
            return askable.answer(question)
        second, _, _ = self._select(selection.stream, question, [other], selection.family)
        partner = self._askable(second)
        if not isinstance(askable, Sampled) or not isinstance(partner, Sampled):
            raise UnanswerableError(f"family {selection.family!r} has no inner products; sample has")
        return askable.answer(question, other=partner)

    def _dated(self, question: Question, held: StreamHeld, sources: Sequence[str]) -> Question:
        if question.as_of is not None:
            return question
        newest = held.newest(sources)
        return question if newest is None else question.at(newest)

    def _provenance(
        self, selection: Selection, held: StreamHeld, question: Question, why: str, start: float
    ) -> Provenance:
        covered = _asked_epochs(held, selection.sources, question)
        return Provenance(
            stream=selection.stream,
            sources=selection.sources,
            family=selection.family,
            why=why,
            epochs=len({(epoch.start, epoch.length) for epoch in covered}),
            missing=_missing(held, selection, covered),
            sketch_bytes=selection.sketch_bytes,
            generation=selection.generation,
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


def _pick(held: StreamHeld, question: Question, asked: str | None) -> tuple[str, str]:
    """The family, by what each guarantees and never by what it would answer: the narrowest of several random intervals
    covers less often than each of them says."""
    stored = sorted(held.sketches)
    if asked is not None:
        _known("family", asked, stored)
        return asked, "asked for"
    if "sample" in stored:
        return "sample", "the only stored family that answers every aggregate under any decay"
    if not stored:
        raise UnanswerableError(f"stream {held.name!r} holds no sketches yet")
    return stored[0], f"the only stored family for {question.aggregate}"


def _asked_epochs(held: StreamHeld, sources: Sequence[str], question: Question) -> list[Epoch]:
    """The epochs that can carry weight: begun by the as-of time, and not wholly beyond the decay's horizon."""
    assert isinstance(question.decay, Decay)
    as_of = question.as_of if question.as_of is not None else 0
    reach = question.decay.horizon * held.unit.denominator / held.unit.numerator
    wanted = set(sources)
    return [
        epoch
        for epoch in held.epochs
        if epoch.source in wanted and epoch.start <= as_of and epoch.start + epoch.length > as_of - reach
    ]


def _missing(held: StreamHeld, selection: Selection, covered: Sequence[Epoch]) -> tuple[Gap, ...]:
    """Epochs with events but without a readable sketch of the family, and those a damaged sketch was set aside of."""
    stored = held.sketches.get(selection.family, {})
    asked = set(covered)
    gaps = [
        Gap(epoch.source, epoch.start, epoch.length, selection.family, f"no {selection.family} sketch is stored")
        for epoch in covered
        if epoch not in stored
    ]
    found = [gap for gap in selection.gaps if (gap.source, gap.start, gap.length) in asked]
    aside = [
        gap for gap in held.set_aside if gap.family == selection.family and (gap.source, gap.start, gap.length) in asked
    ]
    return tuple(sorted({*gaps, *found, *aside}, key=lambda gap: (gap.start, gap.source)))


def _marked(estimate: Estimate, provenance: Provenance) -> Estimate:
    """An answer with gaps says so in its guarantee, and is no longer exact."""
    if provenance.complete:
        return estimate
    named = ", ".join(f"{gap.source} at {gap.start}" for gap in provenance.missing[:3])
    more = f" and {len(provenance.missing) - 3} more" if len(provenance.missing) > 3 else ""
    said = (
        f"INCOMPLETE: {len(provenance.missing)} epochs are missing ({named}{more}); for the rest: {estimate.guarantee}"
    )
    return replace(estimate, guarantee=said)


def _known(what: str, name: str, names: Sequence[str]) -> None:
    if name in names:
        return
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(sorted(names)[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    raise QuestionError(f"{what} {name!r} is not in the store; it holds {listed or 'none'}{hint}")
