"""Poisson samples made of others: of the independent copies of one sketch, and of the epochs of a stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sketches.arrays import Column, stable_order
from sketches.events import Extremes, Kind, Labels
from sketches.fields import Fields, known_together
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.inclusion.nested_sample import NestedSample
from sketches.sampling.inclusion.strata import Strata
from sketches.units import TimeUnit


def sample_of_copies(
    copies: Sequence[NestedSample], unit: TimeUnit, kind: Kind, labels: Labels, extremes: Extremes
) -> PoissonSample:
    """The rows of the independent copies of one sketch, averaged."""
    probabilities = [copy.inclusion_probabilities() for copy in copies]
    times = np.concatenate([copy.times for copy in copies])
    order = stable_order(times) if len(copies) > 1 else np.arange(len(times))
    probability = np.concatenate(probabilities)[order]
    strata = [Strata.of(copy, len(copies), extremes) for copy in copies] if extremes.newest is not None else []
    return PoissonSample(
        times=times[order],
        hashes=np.concatenate([copy.hashes for copy in copies])[order],
        values=np.concatenate([copy.values for copy in copies])[order],
        weights=np.concatenate([copy.weights for copy in copies])[order],
        design_weights=1.0 / (probability * len(copies)),
        exclusion_probabilities=1.0 - probability,
        copy_numbers=np.concatenate([np.full(len(copy), i, np.int16) for i, copy in enumerate(copies)])[order],
        strata=Strata.joined(strata),
        unit=unit,
        kind=kind,
        labels=labels,
        newest=extremes.newest,
        least_value=extremes.least_value,
        greatest_value=extremes.greatest_value,
        least_weight=extremes.least_weight,
        greatest_weight=extremes.greatest_weight,
        lost_before=max(int(max(copy.weight_cuts[-1], copy.count_cuts[-1])) for copy in copies),
    )


def side_by_side(parts: Sequence[PoissonSample]) -> PoissonSample:
    """Samples of different times (the epochs of a stream) as one; every row keeps its design weight."""
    first = parts[0]
    filled = [part for part in parts if part.newest is not None]
    if not filled:
        return first
    times = np.concatenate([part.times for part in filled])
    order = stable_order(times)

    def column(name: str) -> Column:
        return np.concatenate([getattr(part, name) for part in filled])[order]

    keys = [part.labels for part in filled]
    values = column("values")
    return PoissonSample(
        times=times[order],
        hashes=column("hashes"),
        values=values,
        weights=column("weights"),
        design_weights=column("design_weights"),
        exclusion_probabilities=column("exclusion_probabilities"),
        copy_numbers=column("copy_numbers"),
        strata=Strata.joined([part.strata for part in filled]),
        unit=first.unit,
        kind=filled[0].kind,
        labels=Labels.merged(keys, values) if filled[0].kind is Kind.KEY else Labels.none(),
        newest=max(part.newest for part in filled if part.newest is not None),
        least_value=min(part.least_value for part in filled),
        greatest_value=max(part.greatest_value for part in filled),
        least_weight=min(part.least_weight for part in filled),
        greatest_weight=max(part.greatest_weight for part in filled),
        lost_before=max(part.lost_before for part in filled),
        fields=Fields.together([part.fields or Fields.none(len(part)) for part in filled]).take(order, len(times)),
        known=known_together([(part.known, *_ends(part)) for part in filled]),
    )


def _ends(sample: PoissonSample) -> tuple[int | None, int | None]:
    """The oldest and the newest event."""
    oldest = int(sample.strata.oldest.min()) if len(sample.strata.oldest) else sample.newest
    return oldest, sample.newest
