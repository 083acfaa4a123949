"""Every group above a threshold τ that is itself an aggregate: of all events, or of each group's own.

τ has an interval. What lies above a threshold only shrinks as the threshold rises, so the sums at both ends of its
interval enclose those at τ itself (`sketches.sampling.answers.thresholds`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sketches.arrays import stable_order
from sketches.question import Question
from sketches.sampling.answers.above_quantile import Around, Taus
from sketches.sampling.answers.cuts import Cuts, cuts_of, taus_of
from sketches.sampling.answers.thresholds import SumsAround, enclosed_estimates, ranked_above
from sketches.sampling.estimation.coefficients import Coefficients
from sketches.sampling.estimation.inquiry import Estimates, Inquiry
from sketches.sampling.groups.grouped_answers import mean_of_groups, refuse_text, unknown_where_faint
from sketches.sampling.groups.grouped_inquiry import GroupedInquiry
from sketches.sampling.groups.grouped_quantiles import grouped_quantiles
from sketches.threshold import Threshold


def taus_of_all(inquiry: Inquiry, threshold: Threshold, groups: int) -> Taus:
    """τ over all events: the same for every group."""
    return Taus(*(np.broadcast_to(end, groups) for end in cuts_of(inquiry, threshold).taus))


def taus_of_each(inquiry: GroupedInquiry, threshold: Threshold) -> Taus:
    """τ over the events of each group by itself."""
    if threshold.phi is None:
        asked = replace(inquiry, question=Question("mean", inquiry.decay, of="value"))
        found = mean_of_groups(asked, asked.sums(asked.mean_coefficients))
    else:
        found = grouped_quantiles(replace(inquiry, question=Question("quantile", inquiry.decay, phi=threshold.phi)))
    return taus_of((found.value, found.lower, found.upper), threshold.factor)


def groups_above(inquiry: GroupedInquiry, taus: Taus) -> Estimates:
    """The estimates of all groups, each above its threshold."""
    refuse_text(inquiry)
    values, codes = inquiry.sample.values.astype(np.float64), inquiry.sample.codes
    assert codes is not None
    above = (values >= taus.low[codes], values >= taus.middle[codes], values >= taus.high[codes])
    if inquiry.question.ranks_above:
        ranked = inquiry.sample.by_summed
        order = ranked[stable_order(codes[ranked])]
        return ranked_above(inquiry, order, inquiry.bounds(), inquiry.factors[0].factors, above, taus.low)

    def sums(coefficients: Coefficients) -> Around:
        return Around(*(inquiry.sums(coefficients, np.flatnonzero(chosen)) for chosen in above))

    def sums_below(coefficients: Coefficients) -> Around:
        return Around(*(inquiry.sums(coefficients, np.flatnonzero(~chosen)) for chosen in above))

    found = enclosed_estimates(inquiry, Cuts(taus, taus, None), SumsAround(sums, sums_below))
    if inquiry.question.aggregate != "correlated-mean":
        return found
    return unknown_where_faint(inquiry, found, sums(inquiry.mean_coefficients).few)
