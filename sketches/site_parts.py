"""What a sketch of a stream must say so that the streams of many sites merge: how often rows came is no property of the
events, and must be known for each site by itself to be counted once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self


class SitePart:
    """The part of a family's contract that merging stores asks for, of a family that is stored in parts."""

    family: ClassVar[str]

    def tally(self) -> Self:
        """What is counted of the rows, without the rows: it adds up, so it may be merged only once."""
        raise NotImplementedError(f"the {self.family} family keeps no tally of its rows")

    def under(self, prefix: str) -> Self:
        """The sketch with other names for its sources: `prefix/name`, and the prefix for one that has no name;
        without a prefix as it is."""
        raise NotImplementedError(f"the {self.family} family does not know its sources")

    def between(self, stretches: Sequence[tuple[int, int]]) -> Self:
        """The sketch without its rows from the first to the last time of each stretch; those that came more than once
        stay, as often as they came again."""
        raise NotImplementedError(f"the {self.family} family does not know its rows")

    @classmethod
    def of_sites(
        cls,
        held: Self | None,
        fresh: Sequence[Self],
        kept: Sequence[Sequence[tuple[int, int]]],
        tallies: Sequence[Self],
    ) -> Self:
        """The sketch of the events of all sites: what was held before, in which the fresh sketches take the place of
        all rows of their sources. Of these the held ones stay that lie in the stretches `kept`, one list for each
        fresh sketch. `tallies` are those of all sites."""
        raise NotImplementedError(f"the {cls.family} family does not know its sources")
