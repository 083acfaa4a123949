"""What families refuse in the same words: questions that they do not answer, and sketches that do not merge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sketches.errors import IncompatibleError, UnanswerableError, WaneError
from sketches.events import Extremes
from sketches.family import Abilities, Sketch
from sketches.question import Counting, Question

S = TypeVar("S", bound=Sketch)


def refuse(family: str, abilities: Abilities, question: Question) -> None:
    """`UnanswerableError` with the reason where the family has no answer, whatever a sketch's settings."""
    if reason := abilities.refusal(question):
        raise UnanswerableError(f"the {family} family {reason}")


def refuse_other_mass(family: str, question: Question, counting: Counting, extremes: Extremes) -> None:
    """`UnanswerableError` where a sketch keeps 1 of each event and its weight is asked for, or the other way round.

    Where all events weigh 1 the two are the same.
    """
    if question.masses == {counting} or (extremes.unit_weights and "value" not in question.masses):
        return
    kept = "each event once, without its weight" if counting == "events" else "each event by its weight"
    asked = " and ".join(sorted(question.masses))
    raise UnanswerableError(
        f"this {family} sketch counts {kept} (counting = {counting!r}); {question.aggregate} here needs {asked}"
    )


def mergeable(sketches: Sequence[S], fixed: Callable[[Any], object] = lambda parameters: parameters) -> list[S]:
    """Those of the sketches that have seen events, once it is clear that all may merge; the error names both sides.

    `fixed` says what of the parameters must agree, where not all of them must.
    """
    if not sketches:
        raise WaneError("a union needs at least one sketch")
    first = sketches[0]
    for other in sketches[1:]:
        if fixed(other.parameters) != fixed(first.parameters):
            raise IncompatibleError(
                f"{first.family} sketches with different parameters cannot be merged: "
                f"{first.parameters} and {other.parameters}"
            )
    seen = [sketch for sketch in sketches if sketch.extremes.newest is not None]
    kinds = {sketch.kind for sketch in seen}
    if len(kinds) > 1:
        raise IncompatibleError(
            f"{first.family} sketches of different kinds of values cannot be merged: {', '.join(sorted(kinds))}"
        )
    return seen
