"""The shares of classes of values at many times: how a distribution moves, as a heatmap shows it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from sketches import guarantees
from sketches.arrays import Floats, stable_order
from sketches.decay.functions import LastEvents
from sketches.errors import UnanswerableError
from sketches.estimate import SplitSeries
from sketches.events import Kind
from sketches.question import Question
from sketches.sampling.askable_sample import FAMILY, AskableSample
from sketches.sampling.estimation.inquiry import Inquiry
from sketches.sampling.estimation.intervals import Total, share_bounds
from sketches.sampling.groups.grouped_inquiry import GroupedInquiry


def class_shares(inquiry: Inquiry, edges: Floats) -> tuple[Floats, Floats, Floats]:
    """Share and limits of each class, a row each, at every time of an inquiry; NaN where nothing counts.

    Its confidence is that of all classes together.
    """
    sample = inquiry.sample
    if sample.kind is Kind.KEY and len(sample):
        raise UnanswerableError("classes of values need numbers, but these are text")
    codes, classes = np.searchsorted(edges, sample.values, side="right"), len(edges) + 1
    order = stable_order(codes)
    by_class = replace(sample.take(order), codes=codes[order])
    each = 1.0 - (1.0 - inquiry.confidence) / classes
    complete = np.full(classes, np.iinfo(np.int64).max)
    found = [
        _at(GroupedInquiry(by_class, inquiry.question, as_of, each, inquiry.share_error, complete_since=complete))
        for as_of in inquiry.as_of[:, None]
    ]
    value, lower, upper = (np.stack(column, axis=1) for column in zip(*found, strict=True))
    return value, lower, upper


def _at(inquiry: GroupedInquiry) -> tuple[Floats, Floats, Floats]:
    part, used = inquiry.weight()
    whole = Total(
        part.certain.sum(keepdims=True),
        part.sampled.sum(keepdims=True),
        part.variance.sum(keepdims=True),
        part.unseen.max(keepdims=True),
        part.unseen_variance.max(keepdims=True),
    )
    if whole.value[0] <= 0.0:
        nothing = np.full(len(used), np.nan)
        return nothing, np.zeros(len(used)), np.ones(len(used))
    value = part.value / whole.value
    lower, upper = share_bounds(part, whole.without(part), inquiry.confidence)
    return (value, value, value) if whole.exact[0] else (value, np.fmin(lower, value), np.fmax(upper, value))


def classes_over_time(askable: AskableSample, question: Question, as_of: ArrayLike, edges: Floats) -> SplitSeries:
    """The share of values in each class between two edges at many times, and beyond them."""
    if isinstance(question.decay, LastEvents):
        raise UnanswerableError("shares of classes of values are not drawn over the newest events by number")
    moments, confidence = np.asarray(as_of, np.int64), askable.confidence(question)
    askable.refuse_lost(question, int(moments.min(initial=askable.as_of(question))))
    sample = askable.asked(question)
    value, lower, upper = class_shares(
        Inquiry(sample, question, moments, confidence, askable.parameters.epsilon), edges
    )
    together = guarantees.lists_hold(confidence, together=True)
    guarantee = guarantees.clauses(guarantees.FROM_SAMPLE, together)
    return SplitSeries((None, *edges.tolist()), moments, value, lower, upper, confidence, guarantee, FAMILY)
