"""What answers for many groups of events at once; a family makes it of its sketches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from sketches.arrays import Floats, Rows
from sketches.changes import Stretch
from sketches.estimate import Group, Split, SplitSeries
from sketches.question import Question


class Splittable(ABC):
    """What answers one question for each of many groups at once: of many sources, or of the values of a field."""

    names: tuple[Group, ...]

    @abstractmethod
    def answer(self, question: Question) -> Split:
        """The answer of every group; `UnanswerableError` where the family has none by groups."""

    @abstractmethod
    def over_time(self, question: Question, as_of: ArrayLike, listed: Rows) -> SplitSeries:
        """The answers of some groups, by number, at many times: at each time all intervals hold together, whichever of
        all groups were picked."""

    @abstractmethod
    def correlation(self, question: Question, other: Question) -> Floats:
        """That of the errors of two answers of each group, under another decay or as of another time; -1 where nothing
        is known of it."""

    @abstractmethod
    def compared(self, question: Question, inside: Stretch, outside: Sequence[Stretch]) -> Any:
        """The groups as one more column of `Askable.changes`."""
