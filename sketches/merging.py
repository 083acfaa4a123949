"""What must agree before sketches of one family merge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from sketches.drawn import Extremes
from sketches.errors import IncompatibleError, WaneError
from sketches.events import Kind


class Sampling(Protocol):
    """A sketch that keeps events: its parameters, the kind of their values, and what is known of all of them."""

    family: ClassVar[str]

    @property
    def parameters(self) -> Any: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def extremes(self) -> Extremes: ...


S = TypeVar("S", bound=Sampling)


def mergeable(sketches: Sequence[S]) -> list[S]:
    """Those of the sketches that have seen events, once it is clear that all may merge; the error names both sides."""
    if not sketches:
        raise WaneError("a union needs at least one sketch")
    first = sketches[0]
    for other in sketches[1:]:
        if other.parameters != first.parameters:
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
