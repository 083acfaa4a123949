"""Strata of a Poisson sample: stretches of one sampling probability, and what an unseen event there could count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from sketches.arrays import Floats, Ints, distinct_sorted
from sketches.events import Extremes
from sketches.predicate import Range
from sketches.records import dataclass
from sketches.sampling.inclusion.ladder import Cuts
from sketches.sampling.inclusion.nested_sample import NestedSample
from sketches.sampling.inclusion.range_sample import LEVEL_PROBABILITY, LEVELS

# With fewer expected sampled units than this, one unit of an event is sampled or none, and weight/π is exactly 1/p.
# With more, weight·p/π is at most the second factor. test_range_sample.py checks both.
_SINGLE_UNIT = 0.29
_CROWDED = 2.14


@dataclass(frozen=True, slots=True)
class Strata:
    """Stretches of time in which the sampling probability is constant, and what an unseen event there could count.

    An unseen event is one that came and was not kept. For each stretch: the times of its ends, the largest design
    weight that an unseen unit of weight or an unseen event could have (0 where all were kept), and its 1 - π.
    """

    newest: Ints
    oldest: Ints
    unit_design_weight: Floats
    event_design_weight: Floats
    unit_exclusion_probability: Floats
    event_exclusion_probability: Floats

    @classmethod
    def of(cls, sample: NestedSample, copies: int, extremes: Extremes) -> Strata:
        """The strata of one of the copies of a sketch that has seen events."""
        assert extremes.newest is not None
        assert extremes.oldest is not None
        cuts = np.concatenate([sample.weight_cuts, sample.count_cuts])
        edges = distinct_sorted(np.concatenate([cuts[cuts >= extremes.oldest], [extremes.newest]]))
        weight_levels, count_levels = sample.levels_at(edges)
        reached = np.maximum(weight_levels, count_levels) < LEVELS
        edges, weight_levels, count_levels = edges[reached], weight_levels[reached], count_levels[reached]
        unit_probability, event_probability = LEVEL_PROBABILITY[weight_levels], LEVEL_PROBABILITY[count_levels]
        crowding = np.where(extremes.greatest_weight * unit_probability < _SINGLE_UNIT, 1.0, _CROWDED)
        return cls(
            newest=edges,
            oldest=np.concatenate([[extremes.oldest], edges[:-1] + 1])[: len(edges)],
            unit_design_weight=np.where(weight_levels > 0, crowding / unit_probability / copies, 0.0),
            event_design_weight=np.where(count_levels > 0, 1.0 / event_probability / copies, 0.0),
            unit_exclusion_probability=1.0 - unit_probability,
            event_exclusion_probability=1.0 - event_probability,
        )

    @classmethod
    def of_ladder(cls, cuts: Cuts, complete_since: int, extremes: Extremes) -> Strata:
        """The strata of the ladder of a stream that has seen events; what is newer than `complete_since` was kept."""
        assert extremes.newest is not None
        assert extremes.oldest is not None
        times = np.concatenate([cuts.of_weight, cuts.of_count, [complete_since]])
        inside = (times >= extremes.oldest) & (times < extremes.newest)
        edges = distinct_sorted(np.append(times[inside], extremes.newest))
        unit_levels, event_levels = (
            np.where(edges > complete_since, 0, levels).astype(np.float64) for levels in cuts.levels_at(edges)
        )
        return cls(
            newest=edges,
            oldest=np.concatenate([[extremes.oldest], edges[:-1] + 1]),
            unit_design_weight=np.where(unit_levels > 0, np.exp2(unit_levels), 0.0),
            event_design_weight=np.where(event_levels > 0, np.exp2(event_levels), 0.0),
            unit_exclusion_probability=1.0 - np.exp2(-unit_levels),
            event_exclusion_probability=1.0 - np.exp2(-event_levels),
        )

    def within(self, times: Range) -> Strata:
        """Those that reach into a range of times with ends that belong to it."""
        if not times:
            return self
        inside = (self.newest >= times.low) & (self.oldest <= times.high)
        return Strata(*(getattr(self, one.name)[inside] for one in fields(self)))

    def kept_at(self, moment: int) -> float:
        """The share of the events of a time that is kept; where stretches overlap, the least."""
        there = (self.oldest <= moment) & (self.newest >= moment)
        return float(1.0 - self.event_exclusion_probability[there].max(initial=0.0))

    @classmethod
    def joined(cls, parts: Sequence[Strata]) -> Strata:
        """The strata of all parts."""
        if not parts:
            no_times, nothing = np.empty(0, np.int64), np.empty(0)
            return cls(no_times, no_times, nothing, nothing, nothing, nothing)
        return cls(
            np.concatenate([part.newest for part in parts]),
            np.concatenate([part.oldest for part in parts]),
            np.concatenate([part.unit_design_weight for part in parts]),
            np.concatenate([part.event_design_weight for part in parts]),
            np.concatenate([part.unit_exclusion_probability for part in parts]),
            np.concatenate([part.event_exclusion_probability for part in parts]),
        )
