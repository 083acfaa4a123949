"""From the rows of a ladder to a Poisson sample that can be asked: of some sources, and as a stream takes repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sketches.arrays import Rows
from sketches.errors import IncompatibleError, UnanswerableError
from sketches.event_rules import Repeats
from sketches.events import Extremes, Kind, Labels
from sketches.refusals import mergeable
from sketches.sampling.epoch_sample import EpochSample
from sketches.sampling.known_totals import KnownTotals
from sketches.sampling.ladder import NO_CUT, Cuts, LadderRows, inclusion_probabilities
from sketches.sampling.ladder_parameters import LadderParameters
from sketches.sampling.poisson_sample import PoissonSample
from sketches.sampling.sampling_number import shortened
from sketches.sampling.strata import Strata


def sample_of_ladder(
    rows: LadderRows,
    cuts: Cuts,
    sources: Rows | None,
    parameters: LadderParameters,
    known: tuple[Kind, Labels, Extremes],
    totals: KnownTotals | None,
) -> PoissonSample:
    """The events of some sources of a ladder, by number, or of all; an event of several sources comes once.

    `totals` are those of all rows that were seen of these sources.
    """
    kind, labels, extremes = known
    if sources is not None:
        wanted = np.zeros(int(rows.sources.max(initial=-1)) + 1, bool)
        wanted[sources[sources < len(wanted)]] = True
        rows = rows.take(wanted[rows.sources])
    probability = inclusion_probabilities(rows, cuts, parameters.bits)
    first, counts = rows.first_of_event, rows.counts
    if not first.all():
        if counts is not None:
            counts = np.add.reduceat(counts, np.flatnonzero(first))
        rows, probability = rows.take(first), probability[first]
        totals = totals if len(cuts.of_sources) == 0 else None  # rows of an event may be kept of one source alone
    strata = [Strata.of_ladder(cuts, cuts.complete_since(sources), extremes)] if extremes.newest is not None else []
    return PoissonSample(
        times=rows.times,
        hashes=rows.hashes,
        values=rows.values,
        weights=rows.weights,
        design_weights=1.0 / probability,
        exclusion_probabilities=1.0 - probability,
        copy_numbers=np.zeros(len(rows), np.int16),
        strata=Strata.joined(strata),
        unit=parameters.unit,
        kind=kind,
        labels=labels,
        newest=extremes.newest,
        least_value=extremes.least_value,
        greatest_value=extremes.greatest_value,
        least_weight=extremes.least_weight,
        greatest_weight=extremes.greatest_weight,
        lost_before=NO_CUT,
        counts=counts,
        totals=totals,
    )


def with_repeats(sample: PoissonSample, repeats: Repeats, *, counted: bool) -> PoissonSample:
    """The sample as its stream takes repeats; `counted`: how often rows came is known of all of them.

    That no row repeats is believed until a kept event has come twice.
    """
    if repeats is Repeats.COUNTED and len(sample):
        if not counted:
            raise UnanswerableError(
                "this stream counts repeated rows, but how often rows came was not counted when some of them did: "
                'a sample can only answer for events here, with repeats = "forgive"'
            )
        return sample.each_row
    if repeats is Repeats.NONE and sample.totals is not None and sample.most_rows == 1:
        return replace(sample, totals=sample.totals._replace(unique=True))
    return sample


def rows_of_epochs(
    sketches: Sequence[tuple[str, EpochSample]], parameters: LadderParameters
) -> tuple[tuple[str, ...], LadderRows]:
    """The names of the sources, in order, and the rows of sketches of the earlier form, each of which kept them all."""
    mergeable([sketch for _, sketch in sketches])
    earlier = sketches[0][1].parameters
    if (earlier.unit, earlier.seed) != (parameters.unit, parameters.seed):
        raise IncompatibleError(f"samples by {earlier} cannot be taken over by {parameters}")
    names = tuple(sorted({source for source, _ in sketches}))
    place = {name: at for at, name in enumerate(names)}
    copies = [sketch.copies[0] for _, sketch in sketches]
    times, hashes, values, weights = (
        np.concatenate(column) for column in zip(*(copy.rows for copy in copies), strict=True)
    )
    numbers = np.array([place[source] for source, _ in sketches], np.int32)
    sources = np.repeat(numbers, [len(copy) for copy in copies])
    return names, LadderRows.sorted(times, shortened(hashes, parameters.bits), values, weights, sources)
