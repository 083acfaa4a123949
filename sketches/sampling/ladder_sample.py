"""From the rows of a ladder to a Poisson sample that can be asked: of some sources, and as a stream takes repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sketches.arrays import Floats, Ints, Rows, stable_order
from sketches.errors import IncompatibleError, UnanswerableError
from sketches.event_rules import Repeats
from sketches.events import Extremes, Kind, Labels
from sketches.fields import Known
from sketches.refusals import mergeable
from sketches.sampling.epoch_sample import EpochSample
from sketches.sampling.estimation.poisson_sample import PoissonSample
from sketches.sampling.inclusion.ladder import NO_CUT, Cuts, LadderRows, inclusion_probabilities
from sketches.sampling.inclusion.ladder_parameters import LadderParameters
from sketches.sampling.inclusion.sampling_number import shortened
from sketches.sampling.inclusion.strata import Strata
from sketches.sampling.totals.known_totals import KnownTotals
from sketches.sampling.totals.row_totals import RowTotals


class Facts(NamedTuple):
    """What is known of all events: the kind of their values, the labels of keys, the ends, and their fields."""

    kind: Kind
    labels: Labels
    extremes: Extremes
    known: Known


def sample_of_ladder(
    rows: LadderRows,
    cuts: Cuts,
    sources: Rows | None,
    parameters: LadderParameters,
    facts: Facts,
    totals: KnownTotals | None,
) -> PoissonSample:
    """The events of some sources of a ladder, by number, or of all; an event of several sources comes once.

    `totals` are those of all rows that were seen of these sources.
    """
    if sources is not None:
        wanted = np.zeros(int(rows.sources.max(initial=-1)) + 1, bool)
        wanted[sources[sources < len(wanted)]] = True
        rows = rows.take(wanted[rows.sources])
    probability = inclusion_probabilities(rows, cuts, parameters.bits)
    first, counts = rows.first_of_event, rows.counts
    if not first.all():
        if counts is not None:
            counts = np.add.reduceat(counts, np.flatnonzero(first))
        rows, probability = replace(rows.take(first), counts=counts), probability[first]
        totals = totals if len(cuts.of_sources) == 0 else None  # rows of an event may be kept of one source alone
    return _poisson_sample(rows, probability, cuts, cuts.complete_since(sources), parameters, facts, totals)


def sample_by_source(
    rows: LadderRows,
    cuts: Cuts,
    sources: Rows,
    parameters: LadderParameters,
    facts: Facts,
    totals: RowTotals | None,
) -> tuple[PoissonSample, Ints]:
    """The rows of some sources, by number, one source after the other, with the place of each row's source among them;
    and the time after which all events of each source were kept. An event of several sources is a row of each."""
    place = np.full(max(int(rows.sources.max(initial=-1)), int(sources.max(initial=-1))) + 1, -1, np.int64)
    place[sources] = np.arange(len(sources))
    of_rows = place[rows.sources]
    order = stable_order(of_rows)
    rows = rows.take(order[np.searchsorted(of_rows[order], 0) :])
    probability = inclusion_probabilities(rows, cuts, parameters.bits, each_row=True)
    slices = None if totals is None else KnownTotals(totals.by_source.renumbered(place), totals.hourly)
    sample = _poisson_sample(rows, probability, cuts, cuts.fine, parameters, facts, slices)
    complete = np.full(len(sources), cuts.fine, np.int64)
    if len(cuts.of_sources):
        complete = np.minimum(complete, cuts.of_sources[sources])
    return replace(sample, codes=place[rows.sources].astype(np.intp)), complete


def _poisson_sample(
    rows: LadderRows,
    probability: Floats,
    cuts: Cuts,
    complete_since: int,
    parameters: LadderParameters,
    facts: Facts,
    totals: KnownTotals | None,
) -> PoissonSample:
    kind, labels, extremes, known = facts
    strata = [Strata.of_ladder(cuts, complete_since, extremes)] if extremes.newest is not None else []
    return PoissonSample(
        times=rows.times,
        hashes=rows.hashes,
        values=rows.values,
        weights=rows.weights,
        design_weights=1.0 / probability,
        exclusion_probabilities=1.0 - probability,
        copy_numbers=np.broadcast_to(np.int16(0), len(rows)),
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
        counts=rows.counts,
        totals=totals,
        fields=rows.fields,
        known=known,
    )


def with_repeats(sample: PoissonSample, repeats: Repeats, totals: RowTotals | None) -> PoissonSample:
    """The sample as its stream takes repeats; `totals` are those of all rows that were seen.

    That no row repeats is believed until a kept event has come twice.
    """
    if repeats is Repeats.COUNTED and len(sample):
        if totals is None or totals.unknown_up_to != NO_CUT:
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
