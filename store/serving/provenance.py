"""An answer of a store, and where it comes from: the family, the epochs, and those that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sketches.arrays import Ints
from sketches.decay import Decay
from sketches.estimate import Estimate
from sketches.formatting import counted, limit_texts, listed, number_text, numbered_moment_text, size_text
from sketches.units import TimeUnit
from store.keys import Epoch
from store.serving.catalogue import Gap, StoredStream
from store.serving.selection import Selection
from store.serving.timeline import epochs_asked


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where an answer comes from: which family and why, which epochs, which are missing, and the generation."""

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

    def qualify(self, guarantee: str) -> str:
        """The guarantee of an answer; where epochs are missing it says so first."""
        if self.complete:
            return guarantee
        epochs = sorted({(gap.start, gap.source) for gap in self.missing})
        named = listed([f"{source} at {start}" for start, source in epochs])
        count = counted(len(epochs), "epoch is", "epochs are")
        return f"INCOMPLETE: {count} missing ({named}); for the rest: {guarantee}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An estimate with its provenance, as `wane query` gives it: `as_dict` for JSON, `lines` for people."""

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

    def lines(self, unit: TimeUnit) -> Iterator[str]:
        """The answer as `wane query` prints it; `unit` is the stream's unit of time."""
        estimate, origin = self.estimate, self.provenance
        lower, upper = limit_texts(estimate.lower, estimate.upper)
        yield f"{'estimate':12} {number_text(estimate.value)}"
        yield f"{'lower':12} {lower}"
        yield f"{'upper':12} {upper}"
        yield f"{'confidence':12} {number_text(estimate.confidence)}"
        for item in estimate.items:
            between = " to ".join(limit_texts(item.lower, item.upper))
            yield f"  {item.value!s:24} {number_text(item.estimate):>12}  {between}"
        yield f"{'as of':12} {numbered_moment_text(estimate.as_of, unit)}"
        epochs = counted(origin.epochs, "epoch")
        yield f"{'from':12} {epochs}, {size_text(origin.sketch_bytes)} of {estimate.family} sketches"
        yield f"{'why':12} {origin.why}"
        yield f"{'guarantee':12} {estimate.guarantee}"
        for gap in origin.missing:
            yield f"{'missing':12} {gap.source} at {numbered_moment_text(gap.start, unit)}: {gap.reason}"
        yield f"{'took':12} {origin.elapsed_ms:.1f} ms"


def provenance_of(
    stored: StoredStream, selections: Sequence[Selection], why: str, decay: Decay, moments: Ints, elapsed_ms: float
) -> Provenance:
    """The provenance of an answer from these selections under a decay, as of one or many times.

    An inner product has two selections. `why` is why the family of the first was picked.
    """
    first = selections[0]
    sources = {source for one in selections for source in one.sources}
    covered = set(epochs_asked(stored, sources, decay, moments))
    gaps = {gap for one in selections for gap in _missing(stored, one, covered)}
    return Provenance(
        stream=first.stream,
        sources=first.sources,
        family=first.family,
        why=why,
        epochs=len({(epoch.start, epoch.length) for epoch in covered}),
        missing=tuple(sorted(gaps, key=lambda gap: (gap.start, gap.source, gap.reason))),
        sketch_bytes=sum(one.sketch_bytes for one in selections),
        generation=first.generation,
        elapsed_ms=elapsed_ms,
    )


def _missing(stored: StoredStream, selection: Selection, covered: set[Epoch]) -> list[Gap]:
    """Epochs with events but without a readable sketch of the family: never stored, damaged, or set aside."""
    gaps = [
        Gap(epoch.source, epoch.start, epoch.length, selection.family, f"no {selection.family} sketch is stored")
        for epoch in covered
        if not stored.is_sketched(selection.family, epoch)
    ]
    aside = [gap for gap in stored.set_aside if gap.family == selection.family]
    return gaps + [gap for gap in [*selection.gaps, *aside] if Epoch(gap.source, gap.start, gap.length) in covered]
