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
    phi: float | None = None  # the share that it is at, where a question names several
    further: tuple[SplitAnswer, ...] = ()  # the same groups at the other shares
    order: Rows | None = None  # the listed groups, where those of another share are listed

    @classmethod
    def of(
        cls,
        splits: Sequence[Split],
        provenance: Provenance,
        phis: Sequence[float],
        *,
        top: int,
        by: str,
        smallest: bool,
    ) -> SplitAnswer:
        """The answers at one share or at several: which groups are listed, the first share says."""
        told = [replace(one, guarantee=provenance.qualify(one.guarantee)) for one in splits]
        if len(told) == 1:
            return cls(told[0], provenance, top, by, smallest)
        first = cls(told[0], provenance, top, by, smallest, phi=phis[0])
        rest = zip(told[1:], phis[1:], strict=True)
        further = tuple(cls(one, provenance, top, by, smallest, phi=phi, order=first.listed) for one, phi in rest)
        return replace(first, further=further)

    @property
    def shares(self) -> tuple[SplitAnswer, ...]:
        """The answers at each share that the question names."""
        return (self, *self.further)

    @cached_property
    def listed(self) -> Rows:
        """The numbers of the listed groups, in order; groups without an answer are not listed."""
        if self.order is not None:
            return self.order
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
        rows = zip(*(one.items() for one in self.shares), strict=True)
        others = [one.others_shape() for one in self.shares if one.others is not None]
        return {
            "by": self.by,
            "items": [item for row in rows for item in row],
            "others": others if self.further else next(iter(others), None),
            "groups": len(self.split),
            "unseen_share": self.split.unseen_share,
            "confidence": self.split.confidence,
            "guarantee": self.split.guarantee,
            "family": self.split.family,
            "as_of": self.split.as_of,
        } | provenance_dict(self.provenance)

    def items(self) -> list[dict[str, Any]]:
        """The listed groups for JSON, with the share that their answers are at where there are several."""
        return [
            {"value": one.value} | self._at() | limits_shape(Item(one.name, *one[1:4])) | {"tie": one.tie}
            for one in self.places
        ]

    def others_shape(self) -> dict[str, Any]:
        assert self.others is not None
        return self._at() | limits_shape(Item("others", self.others.value, self.others.lower, self.others.upper))

    @property
    def at(self) -> str:
        """The share that it is at as `wane query` prints it."""
        return "" if self.phi is None else f"{self.phi:>8g}"

    def _at(self) -> dict[str, float]:
        return {} if self.phi is None else {"phi": self.phi}

    def lines(self, unit: TimeUnit) -> Iterator[str]:
        """The answer as `wane query` prints it; `unit` is the stream's unit of time."""
        split, origin = self.split, self.provenance
        yield f"{'asked':12} {origin.asked}, by {self.by}"
        wide = max((len(place.name) for place in self.places), default=0)
        for rank, row in enumerate(zip(*(one.places for one in self.shares), strict=True), 1):
            for one, place in zip(self.shares, row, strict=True):
                between = " to ".join(limit_texts(place.lower, place.upper))
                tie = "  (tie)" if place.tie else ""
                name = f"{place.name:{wide}}{one.at}"
                yield f"{rank:>4}  {name}  {number_text(place.estimate):>12}  {between}{tie}"
        left = len(split) - len(self.listed)
        for one in self.shares:
            if one.others is not None:
                between = " to ".join(limit_texts(one.others.lower, one.others.upper))
                number = number_text(one.others.value)
                yield f"{'others':12}{one.at} {number}, {between} ({self._counted(left)} together)"
            elif left:
                yield f"{'others':12}{one.at} {self._counted(left)}, without an answer as one"
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
