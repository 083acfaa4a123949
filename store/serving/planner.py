"""Which stored family answers: the one with the tightest guarantee, by what each promises and never by its answer.

The narrowest of several random intervals covers less often than each of them says, so nothing here looks at an answer.
What a family promises it says itself (`sketches.family.Sketch.promise`).
"""

from __future__ import annotations

from collections.abc import Mapping

from sketches.errors import UnanswerableError
from sketches.family import Built, Promise
from sketches.question import Question
from sketches.registry import FAMILIES, family_of
from store.serving.catalogue import StoredStream


def pick(held: StoredStream, question: Question, wanted: str | None, past: bool) -> tuple[str, str]:
    """The family and why; `past` where the answer is as of times before the newest event."""
    stored = sorted(held.sketches)
    if wanted is not None:
        return family_of(wanted).family, "asked for"
    if not stored:
        raise UnanswerableError(f"stream {held.name!r} holds no sketches yet")
    if len(stored) == 1:
        return family_of(stored[0]).family, "the only stored family"
    promises = {name: _promise(held, question, name, past) for name in stored if name in FAMILIES}
    found = {name: promise for name, promise in promises.items() if promise is not None}
    unknown = [name for name in stored if name not in FAMILIES]
    left_out = f"; stored but not known to this version of wane: {', '.join(unknown)}" if unknown else ""
    if not found:
        kept = ", ".join(stored)
        raise UnanswerableError(
            f"none of the stored families ({kept}) answers {question.aggregate} under {question.decay.spec}{left_out}"
        )

    def place(name: str) -> tuple[bool, float, bool, str]:
        """Families that lack epochs come last, then the widest, then those that may fail."""
        return held.lacks_epochs(name), found[name].width, not found[name].certain, name

    best = min(found, key=place)
    if len(found) == 1:
        return best, f"the only stored family that answers {question.aggregate} under this decay{left_out}"
    others = ", ".join(f"{name} {found[name].words}" for name in found if name != best)
    return best, f"the tightest guarantee of those stored: {found[best].words} (others: {others}){left_out}"


def _promise(held: StoredStream, question: Question, name: str, past: bool) -> Promise | None:
    own = held.described.get(name)
    seconds = held.epoch * held.unit.numerator / held.unit.denominator
    built = Built(own if isinstance(own, Mapping) else {}, held.described, seconds)
    return FAMILIES[name].promise(question, built, past=past)
