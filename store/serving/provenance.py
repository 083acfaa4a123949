"""An answer of a store, and where it comes from: the family, the epochs, and those that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import Any, Final

from sketches.arrays import Ints
from sketches.durations import human_duration
from sketches.estimate import Estimate, Split
from sketches.family import Askable
from sketches.formatting import counted, limit_texts, listed, number_text, numbered_moment_text, size_text
from sketches.question import Question
from sketches.records import dataclass
from sketches.sentences import sentence
from sketches.units import TimeUnit
from store.keys import Span
from store.serving.catalogue import Gap, Rejected, StoredStream
from store.serving.planner import counts_rows
from store.serving.resolving import names_of
from store.serving.selection import Selection
from store.serving.timeline import epochs_asked

_SHOWN: Final = 3  # sources that lag


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
    commit: tuple[str, str]  # the random names of the store and of its commit: a store made anew counts from 1 again
    elapsed_ms: float
    asked: str = ""  # in words
    in_own_words: str = ""  # the same, in the names that the stream has for its columns
    rejected: Rejected | None = None  # rows of the stream that were no events
    unknown: tuple[str, ...] = ()  # fields that some events came without, in words
    lagging: tuple[str, ...] = ()  # sources of which nothing has come for more than an epoch, in words

    @property
    def complete(self) -> bool:
        return not self.missing

    def qualify(self, guarantee: str) -> str:
        """The guarantee of an answer: for the rows taken, where some were rejected; first of all, what is missing."""
        if self.rejected is not None and guarantee.startswith("exact"):
            guarantee = f"exact for the rows taken{guarantee.removeprefix('exact')}"
        if self.complete:
            return guarantee
        epochs = sorted({(gap.start, gap.source) for gap in self.missing})
        named = listed([f"{source or 'all sources'} at {start}" for start, source in epochs])
        count = counted(len(epochs), "epoch is", "epochs are")
        return f"INCOMPLETE: {count} missing ({named}); for the rest: {guarantee}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An estimate with its provenance, as `wane query` gives it: `as_dict` for JSON, `lines` for people."""

    estimate: Estimate
    provenance: Provenance

    def as_dict(self) -> dict[str, Any]:
        return self.estimate.as_dict() | provenance_dict(self.provenance)

    def lines(self, unit: TimeUnit) -> Iterator[str]:
        """The answer as `wane query` prints it; `unit` is the stream's unit of time."""
        estimate, origin = self.estimate, self.provenance
        lower, upper = limit_texts(estimate.lower, estimate.upper)
        yield f"{'asked':12} {origin.asked}"
        yield f"{'estimate':12} {number_text(estimate.value)}"
        yield f"{'lower':12} {lower}"
        yield f"{'upper':12} {upper}"
        yield f"{'confidence':12} {number_text(estimate.confidence)}"
        for item in estimate.items:
            between = " to ".join(limit_texts(item.lower, item.upper))
            yield f"  {item.value!s:24} {number_text(item.estimate):>12}  {between}"
        if estimate.left_out:
            yield f"{'not listed':12} {estimate.left_out[0].lower()}{estimate.left_out[1:]}"
        if estimate.seen is not None:
            for name, one in (("rows", estimate.seen.rows), ("repeated", estimate.seen.repeated)):
                between = " and ".join(limit_texts(one.lower, one.upper))
                yield f"{name:12} {number_text(one.estimate)}, between {between}"
        yield from provenance_lines(origin, estimate, unit)


def provenance_dict(origin: Provenance) -> dict[str, Any]:
    """Where an answer comes from, for JSON."""
    return {
        "stream": origin.stream,
        "sources": list(origin.sources),
        "asked": origin.asked,
        "why": origin.why,
        "epochs": origin.epochs,
        "complete": origin.complete,
        "missing": [gap.as_dict() for gap in origin.missing],
        "rejected": None if origin.rejected is None else origin.rejected.as_dict(),
        "unknown": list(origin.unknown),
        "lagging": list(origin.lagging),
        "sketch_bytes": origin.sketch_bytes,
        "generation": origin.generation,
        "elapsed_ms": round(origin.elapsed_ms, 3),
    }


def provenance_lines(origin: Provenance, answer: Estimate | Split, unit: TimeUnit) -> Iterator[str]:
    """What must be known besides an answer: of when, from what, what holds, what is missing, the time it took."""
    yield f"{'as of':12} {numbered_moment_text(answer.as_of, unit)}"
    epochs = counted(origin.epochs, "epoch")
    yield f"{'from':12} {epochs}, {size_text(origin.sketch_bytes)} of {answer.family} sketches"
    yield f"{'why':12} {origin.why}"
    yield f"{'guarantee':12} {answer.guarantee}"
    if origin.rejected is not None:
        yield f"{'rejected':12} {origin.rejected.words()}"
    for words in origin.unknown:
        yield f"{'unknown':12} {words}"
    for words in origin.lagging:
        yield f"{'lagging':12} {words}"
    for gap in origin.missing:
        moment = numbered_moment_text(gap.start, unit)
        yield f"{'missing':12} {gap.source or 'all sources'} at {moment}: {gap.reason}"
    yield f"{'took':12} {origin.elapsed_ms:.1f} ms"


def provenance_of(
    stored: StoredStream,
    selections: Sequence[Selection],
    why: str,
    question: Question,
    moments: Ints,
    elapsed_ms: float,
    by: str | None = None,
) -> Provenance:
    """The provenance of an answer to a question from these selections, as of one or many times.

    An inner product has two selections. `why` is why the family of the first was picked, `by` what splits the answer.
    The bounds of the question's predicates are in the user's words.
    """
    first, latest = selections[0], int(moments.max(initial=0))
    fields = question.fields | ({by or ""} & stored.fields.keys())
    sources = {source for one in selections for source in one.sources}
    covered = set(epochs_asked(stored, sources, question.decay, moments))
    rows_or_events = "rows" if counts_rows(stored, first.family) else "events"
    names = names_of(stored)
    gaps = {gap for one in selections for gap in _missing(stored, one, covered)}
    return Provenance(
        stream=first.stream,
        sources=first.sources,
        family=first.family,
        why=why,
        epochs=len(covered),
        missing=tuple(sorted(gaps, key=lambda gap: (gap.start, gap.source, gap.reason))),
        sketch_bytes=sum(one.sketch_bytes for one in selections),
        generation=first.generation,
        commit=first.name,
        elapsed_ms=elapsed_ms,
        asked=sentence(question, names, weighted=stored.weighted, counted=rows_or_events),
        in_own_words=sentence(question, replace(names, alone=True), weighted=stored.weighted, counted=rows_or_events),
        rejected=stored.rejected,
        unknown=() if first.askable is None or not fields else unknown_in_words(stored, first.askable, fields, latest),
        lagging=_lagging(stored, sources, latest) if len(moments) else (),
    )


def unknown_in_words(stored: StoredStream, askable: Askable, names: Set[str], as_of: int) -> tuple[str, ...]:
    """Of these fields those that events of some time came without."""
    found = []
    for name, gap in askable.unknown_fields(names, as_of).items():
        if gap.since is not None:
            since, until = (numbered_moment_text(time or 0, stored.unit) for time in (gap.since, gap.until))
            found.append(f"{name} is not known of events between {since} and {until}, or of some of them")
        if gap.gone_after is not None:
            last = numbered_moment_text(gap.gone_after, stored.unit)
            found.append(f"{name} is missing in all {gap.gone:,} sampled events after {last}")
    return tuple(found)


def _lagging(stored: StoredStream, sources: Set[str], as_of: int) -> tuple[str, ...]:
    """The sources whose newest event is more than an epoch older than the as-of time, the longest silent first, and by
    how much it is."""
    newest, lived = stored.newest_by_source, stored.lived(sources)
    if lived is None or lived.silent >= as_of - stored.epoch:
        return ()
    late = sorted((newest[one], one) for one in sources if newest.get(one, as_of) < as_of - stored.epoch)
    second = stored.unit.numerator / stored.unit.denominator
    shown = [f"{source} by {human_duration((as_of - time) * second)}" for time, source in late[:_SHOWN]]
    more = len(late) - len(shown)
    return (*shown, f"and {counted(more, 'more source')}") if more > 0 else tuple(shown)


def _missing(stored: StoredStream, selection: Selection, covered: set[Span]) -> list[Gap]:
    """Epochs with events but without a readable sketch of the family: never stored, damaged, or set aside."""
    aside = [gap for gap in stored.set_aside if gap.family == selection.family]
    unread = [gap for gap in [*selection.gaps, *aside] if gap.source in ("", *selection.sources)]
    gaps = stored.missing(selection.family, set(selection.sources), covered)
    return gaps + [gap for gap in unread if any(gap.start < span.end and gap.end > span.start for span in covered)]
