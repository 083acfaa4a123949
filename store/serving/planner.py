"""Which stored family answers: the one with the tightest guarantee, by what each promises and never by its answer.

The narrowest of several random intervals covers less often than each of them says, so nothing here looks at an answer.
What a family promises it says itself (`sketches.family.Sketch.promise`).

A stream forgives repeated rows or counts them, by its setting. A family that does the other answers only when asked by
name, or where the stream is known to have no repeats: adding a family must not change the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sketches.errors import UnanswerableError
from sketches.family import Built, Promise
from sketches.question import Question
from sketches.registry import FAMILIES, family_of
from store.serving.catalogue import StoredStream


class Picked(NamedTuple):
    """The family that answers, and why; `at_ends` where it has charts only at the ends of epochs."""

    family: str
    why: str
    at_ends: bool


class _Candidate(NamedTuple):
    promise: Promise
    at_ends: bool


def pick(held: StoredStream, question: Question, wanted: str | None, past: bool) -> Picked:
    """The family and why; `past` where the answer is as of times before the newest event, such as those of a chart."""
    stored = sorted(held.sketches)
    if wanted is not None:
        return Picked(family_of(wanted).family, "asked for", past and not FAMILIES[wanted].abilities.past)
    if not stored:
        raise UnanswerableError(f"stream {held.name!r} holds no sketches yet")
    known = [name for name in stored if name in FAMILIES]
    unknown = [name for name in stored if name not in FAMILIES]
    if not known:
        family_of(stored[0])  # says that this version does not know it
    left_out = f"; stored but not known to this version of wane: {', '.join(unknown)}" if unknown else ""
    apart = [name for name in known if not answers_by_itself(held, name)]
    if apart:
        left_out += f"; left out because {_why_apart(held)}: {', '.join(apart)}"
    if len(stored) == 1 and not apart:  # it says itself why it does not answer
        only = FAMILIES[stored[0]]
        return Picked(only.family, "the only stored family", past and not only.abilities.past)
    found = {name: one for name in known if name not in apart if (one := _candidate(held, question, name, past))}
    if not found:
        kept = ", ".join(stored)
        raise UnanswerableError(
            f"none of the stored families ({kept}) answers {question.aggregate} under {question.decay.spec} as it is "
            f"asked here{left_out}{_advice(held, apart)}"
        )

    def place(name: str) -> tuple[bool, bool, float, bool, str]:
        """Families that lack epochs come last, then those with few points on a chart, the widest, the uncertain."""
        promise, at_ends = found[name]
        return held.lacks_epochs(name), at_ends, promise.width, not promise.certain, name

    best = min(found, key=place)
    if len(found) == 1:
        why = f"the only stored family that answers {question.aggregate} as it is asked here{left_out}"
        return Picked(best, why, found[best].at_ends)
    others = ", ".join(f"{name} {found[name].promise.words}" for name in found if name != best)
    tightest = f"the tightest guarantee of those stored: {found[best].promise.words} (others: {others}){left_out}"
    return Picked(best, tightest, found[best].at_ends)


def answers_by_itself(held: StoredStream, family: str) -> bool:
    """Whether the family treats repeated rows as the stream does, so that it may answer without being asked for."""
    if held.described.get("unique") is True:
        return True
    forgives = held.described.get("repeats", "forgive") != "count"
    return FAMILIES[family].abilities.forgives_repeats is forgives


def counts_rows(held: StoredStream, family: str) -> bool:
    """Whether the family's answers may count an event more than once because its row came more than once."""
    return not FAMILIES[family].abilities.forgives_repeats and held.described.get("unique") is not True


def _why_apart(held: StoredStream) -> str:
    if held.described.get("repeats", "forgive") == "count":
        return "they forgive repeated rows, which this stream counts"
    return "they count repeated rows, which this stream forgives"


def _advice(held: StoredStream, apart: list[str]) -> str:
    if not apart:
        return ""
    other = "forgive" if held.described.get("repeats", "forgive") == "count" else "count"
    return (
        f". Ask for it by name (--family {apart[0]}), or say in the stream's settings that no row repeats "
        f'(unique = true) or repeats = "{other}"'
    )


def _candidate(held: StoredStream, question: Question, name: str, past: bool) -> _Candidate | None:
    own = held.described.get(name)
    seconds = held.epoch * held.unit.numerator / held.unit.denominator
    built = Built(own if isinstance(own, Mapping) else {}, held.described, seconds, held.weighted)
    family = FAMILIES[name]
    at_ends = past and not family.abilities.past
    promise = family.promise(question, built, past=past and not at_ends)
    return None if promise is None else _Candidate(promise, at_ends)
