"""The shares of classes of values at many times: how a distribution moves, as a heatmap shows it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sketches.arrays import Floats
from sketches.errors import UnanswerableError
from sketches.events import Kind
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
    order = np.argsort(codes, kind="stable")
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
