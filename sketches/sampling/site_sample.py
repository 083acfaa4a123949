"""A sample of the streams of many sites. Events, cuts and what is known of all events are those of a set, and merge
however often; each site counts its own rows, and a source belongs to one site."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sketches.arrays import Flags, Ints
from sketches.events import Labels
from sketches.sampling.inclusion.ladder import Cuts, LadderRows
from sketches.sampling.inclusion.unremembered import unnamed
from sketches.sampling.totals.row_totals import RowTotals
from sketches.site_parts import SitePart

if TYPE_CHECKING:
    from sketches.sampling.sample import Sample

_AT_ONCE = 4_000_000  # rows that are merged in one go


class SiteSample(SitePart):
    """What `Sample` says of sites."""

    def tally(self: Any) -> Any:
        none = LadderRows.empty(self.kind.dtype)
        cuts = Cuts.none(len(self.names) if self.parameters.per_source else 0)
        return replace(self, rows=none, cuts=cuts, labels=Labels.none(), known={})

    def under(self: Any, prefix: str) -> Any:
        if not prefix:
            return self
        return replace(self, names=tuple(f"{prefix}/{name}" if name else prefix for name in self.names))

    def between(self: Any, stretches: Sequence[tuple[int, int]]) -> Any:
        inside = _inside(self.rows.times, stretches)
        more = replace(self.rows, counts=self.rows.counted - inside.astype(np.int32))
        rows = more.take(more.counted > 0)
        return replace(self, rows=rows, labels=Labels.kept([self.labels], self.kind, [rows.values]))

    @classmethod
    def of_sites(
        cls: Any, held: Any, fresh: Sequence[Any], kept: Sequence[Sequence[tuple[int, int]]], tallies: Sequence[Any]
    ) -> Any:
        merged = None if held is None else _without_others(held, {name for one in tallies for name in one.names})
        waiting: list[Sample] = []
        for one, stretches in zip(fresh, kept, strict=True):
            if merged is not None:
                merged = _apart(merged, one, stretches)
            waiting.append(replace(one, totals=None))
            if sum(len(other.rows) for other in waiting) > _AT_ONCE:
                merged, waiting = _together(merged, waiting), []
        merged = _together(merged, waiting)
        counted = [(one.totals, one._numbers(merged.names), one.extremes.newest or 0) for one in tallies]
        lost = merged.rows.fields.contested | _given_up(held)
        return replace(merged, totals=RowTotals.union(counted, merged.parameters.unit, len(merged.rows), lost))


def _given_up(held: Sample | None) -> Set[str]:
    """The fields whose totals were given up before: copies at two sites may have differed, which neither knows of."""
    totals = None if held is None else held.totals
    return {name for name, one in totals.by_field.items() if one.given_up} if totals is not None else set()


def _together(merged: Sample | None, fresh: Sequence[Sample]) -> Sample:
    """The union, of the least capacity of all: what one has thinned, nobody has."""
    parts = [*([] if merged is None else [replace(merged, totals=None)]), *fresh]
    found = type(parts[0]).union(parts)
    for one in parts:
        found = found.smaller(one)
    return found


def _without_others(held: Sample, names: Set[str]) -> Sample:
    """What is held of these sources alone."""
    gone = set(held.names) - names
    if not gone:
        return held
    numbers = np.array([at for at, name in enumerate(held.names) if name in gone], np.intp)
    return unnamed(replace(held, rows=held.rows.take(~np.isin(held.rows.sources, numbers)), totals=None), gone)


def _apart(held: Sample, one: Sample, stretches: Sequence[tuple[int, int]]) -> Sample:
    """What is held without the rows that a fresh sketch brings anew; those that stay came once, and more often if it
    says so."""
    numbers = np.array([at for at, name in enumerate(held.names) if name in set(one.names)], np.intp)
    mine = np.isin(held.rows.sources, numbers)
    stay = mine & _inside(held.rows.times, stretches)
    rows = replace(held.rows, counts=np.where(stay, 1, held.rows.counted).astype(np.int32))
    return replace(held, rows=rows.take(~mine | stay), totals=None)


def _inside(times: Ints, stretches: Sequence[tuple[int, int]]) -> Flags:
    """Whether each time lies in one of the stretches, which do not overlap."""
    if not stretches:
        return np.zeros(len(times), bool)
    begins, ends = (np.array(column, np.int64) for column in zip(*sorted(stretches), strict=True))
    at = np.searchsorted(begins, times, side="right") - 1
    return np.asarray((at >= 0) & (times <= ends[np.maximum(at, 0)]))
