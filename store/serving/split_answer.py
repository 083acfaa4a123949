"""The answer of each source, or of each value of a field, ranked, as `wane query --by` gives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Rows
from sketches.errors import UnanswerableError
from sketches.estimate import Estimate, Group, Item, Split, limits_shape, outward
from sketches.formatting import counted, limit_texts, number_text
from sketches.predicate import Among, Comparison, Missing, Term
from sketches.predicate.ranges import number_words
from sketches.predicate.terms import all_of, any_of
from sketches.question import Question
from sketches.records import dataclass
from sketches.registry import FAMILIES, families_with
from sketches.units import TimeUnit
from store.serving.catalogue import StoredStream
from store.serving.provenance import Provenance, provenance_dict, provenance_lines

SOURCE: Final = "source"
BY_GROUP: Final = "the stored family that answers for all groups at once"


class Place(NamedTuple):
    """One listed group; `tie`: another group may have its place."""

    value: Group
    estimate: float
    lower: float
    upper: float
    tie: bool

    @property
    def name(self) -> str:
        return group_text(self.value)


@dataclass(frozen=True)
class SplitAnswer:
    """The groups with the largest answers, or the smallest, and all others together."""

    split: Split
    provenance: Provenance
    top: int
    by: str = SOURCE
    smallest: bool = False
    others: Estimate | None = None  # of all that are not listed, as one; None where none is left, or it was not asked

    @cached_property
    def listed(self) -> Rows:
        """The numbers of the listed groups, in order; groups without an answer are not listed."""
        order = self.split.ranked(smallest=self.smallest)[: self.top]
        return order[~np.isnan(self.split.value[order])]

    @cached_property
    def texts(self) -> NDArray[np.object_]:
        """What each group is called. Sources are texts already, however many there are."""
        names = self.split.names
        plain = set(map(type, names)) <= {str}
        return np.array(names if plain else [group_text(name) for name in names], object)

    @property
    def left_out(self) -> tuple[Group, ...]:
        """All other groups."""
        rest = np.ones(len(self.split), bool)
        rest[self.listed] = False
        return tuple(self.split.names[at] for at in np.flatnonzero(rest).tolist())

    @property
    def places(self) -> tuple[Place, ...]:
        return self.first(len(self.listed))

    def first(self, most: int) -> tuple[Place, ...]:
        """The first of the listed groups."""
        split, which = self.split, self.listed[:most]
        columns = (split.value, split.lower, split.upper, split.ties)
        names = (split.names[at] for at in which.tolist())
        return tuple(map(Place, names, *(column[which].tolist() for column in columns)))

    def as_dict(self) -> dict[str, Any]:
        others = None
        if self.others is not None:
            others = limits_shape(Item("others", self.others.value, self.others.lower, self.others.upper))
        return {
            "by": self.by,
            "items": [
                {"value": one.value} | limits_shape(Item(one.name, *one[1:4])) | {"tie": one.tie} for one in self.places
            ],
            "others": others,
            "groups": len(self.split),
            "unseen_share": self.split.unseen_share,
            "confidence": self.split.confidence,
            "guarantee": self.split.guarantee,
            "family": self.split.family,
            "as_of": self.split.as_of,
        } | provenance_dict(self.provenance)

    def lines(self, unit: TimeUnit) -> Iterator[str]:
        """The answer as `wane query` prints it; `unit` is the stream's unit of time."""
        split, origin = self.split, self.provenance
        yield f"{'asked':12} {origin.asked}, by {self.by}"
        wide = max((len(place.name) for place in self.places), default=0)
        for rank, place in enumerate(self.places, 1):
            between = " to ".join(limit_texts(place.lower, place.upper))
            tie = "  (tie)" if place.tie else ""
            yield f"{rank:>4}  {place.name:{wide}}  {number_text(place.estimate):>12}  {between}{tie}"
        left = len(split) - len(self.listed)
        if self.others is not None:
            between = " to ".join(limit_texts(self.others.lower, self.others.upper))
            yield f"{'others':12} {number_text(self.others.value)}, {between} ({self._counted(left)} together)"
        elif left:
            yield f"{'others':12} {self._counted(left)}, without an answer as one"
        if split.unseen_share:
            share = number_text(outward(split.unseen_share, up=True))
            yield f"{'unseen':12} a {self.by} of which no event was sampled has a share of at most {share}"
        yield f"{'confidence':12} {number_text(split.confidence)}, of all intervals together"
        yield from provenance_lines(origin, split, unit)

    def _counted(self, groups: int) -> str:
        return counted(groups, "source") if self.by == SOURCE else f"{counted(groups, 'value')} of {self.by}"


def group_text(group: Group) -> str:
    """What a group is called."""
    if group is None:
        return "(missing)"
    if isinstance(group, bool):
        return str(group).lower()
    return group if isinstance(group, str) else number_words(group)


def is_in_group(field: str, group: Group) -> Term:
    """The condition that an event is in a group of a field."""
    return Missing(field) if group is None else Comparison(field, "=", group)


def is_in_none(field: str, groups: Sequence[Group]) -> Term:
    """The condition that an event is in none of some groups of a field, at least one."""
    named = tuple(group for group in groups if group is not None)
    other = Among(field, named).negated() if named else None
    if len(named) < len(groups):
        known = Missing(field).negated()
        return known if other is None else all_of([known, other])
    assert other is not None
    return any_of([Missing(field), other])


def family_by_source(stream: StoredStream) -> str:
    """The stored family that answers for all sources at once."""
    for name in sorted(stream.sketches):
        if name in FAMILIES and FAMILIES[name].abilities.by_source:
            return name
    stored = ", ".join(sorted(stream.sketches))
    raise UnanswerableError(
        f"none of the stored families ({stored}) answers for all sources at once; {families_with('by_source')} it"
    )


def of_one_group(question: Question, by: str) -> Question:
    """The question as it is asked of one group at many times: one source's own threshold is that of all it has."""
    threshold = question.threshold
    if threshold is None or threshold.own == (by == SOURCE):
        return question if threshold is None or not threshold.own else replace(question, tau=threshold.text(own=False))
    whose = "all sources" if by == SOURCE else f"each {by}"
    raise UnanswerableError(f"a series of groups above {question.tau}, which is of {whose}, is not answered")
