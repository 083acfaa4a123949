"""A sample after some of its rows were taken out for good: without the names and the ends that only those had."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sketches.sampling.inclusion.batches import trim, with_fine
from sketches.sampling.inclusion.extremes_left import extremes_left, fields_left
from sketches.sampling.inclusion.ladder import NO_CUT, Cuts

if TYPE_CHECKING:
    from sketches.sampling.sample import Sample


def unremembered(sample: Sample, empty: Sample) -> Sample:
    """The sample without what it knew of all events before; `empty` is one that has seen none."""
    gone_until = int(sample.cuts.of_count[0])
    extremes = extremes_left(sample.extremes, sample.rows, sample.kind, gone_until)
    known = fields_left(sample.known, sample.rows, gone_until)
    if gone_until != NO_CUT:
        newest = sample.cuts.fine if extremes.newest is None else extremes.newest
        cuts = replace(sample.cuts, fine=min(sample.cuts.fine, newest))
        return replace(sample, extremes=extremes, known=known, cuts=cuts)
    if extremes.newest is None:
        return empty
    silent = set(sample.names) - {sample.names[at] for at in np.unique(sample.rows.sources).tolist()}
    found = unnamed(replace(sample, extremes=extremes, known=known), silent)
    cuts = with_fine(Cuts.none(len(found.cuts.of_sources)), extremes, sample.parameters)
    rows, cuts = trim(found.rows, cuts, sample.parameters)
    return replace(found, rows=rows, cuts=cuts)


def unnamed(sample: Sample, forgotten: set[str]) -> Sample:
    """The sample without the names of some sources, which have no rows."""
    left = np.array([at for at, name in enumerate(sample.names) if name not in forgotten], np.intp)
    numbers = np.zeros(len(sample.names), np.int32)
    numbers[left] = np.arange(len(left), dtype=np.int32)
    cuts = sample.cuts
    if len(cuts.of_sources):
        cuts = replace(cuts, of_sources=cuts.of_sources[left])
    rows = replace(sample.rows, sources=numbers[sample.rows.sources])
    totals = sample.totals
    if totals is not None:
        kept = np.full(len(sample.names), -1, np.int64)
        kept[left] = np.arange(len(left))
        totals = totals.renumbered(kept)
    return replace(sample, rows=rows, cuts=cuts, names=tuple(sample.names[at] for at in left), totals=totals)
