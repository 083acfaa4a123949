"""In how many rows events came, and which share of the rows repeats an event: both with their intervals."""

from __future__ import annotations

from typing import Final

import numpy as np

from sketches.arrays import Floats, Limits
from sketches.estimate import Item, RowsSeen
from sketches.sampling.estimation.inquiry import Estimates, Inquiry
from sketches.sampling.estimation.intervals import Unseen
from sketches.sampling.estimation.quotients import Quotient

_KNOWN: Final = 1e-9
_MORE_ROWS: Final = 2.0  # that an unseen event may have come in, at the least


def rows_seen(inquiry: Inquiry, events: Estimates, rows: Estimates) -> RowsSeen:
    """At the one as-of time of an inquiry about events; `events` is the answer, `rows` that about their rows."""
    value, lower, upper = _among_known_rows(events, rows, *_repeated(inquiry))
    return RowsSeen(
        Item("rows", float(rows.value[0]), float(rows.lower[0]), float(rows.upper[0])),
        Item("repeated", float(value[0]), float(lower[0]), float(upper[0])),
    )


def _among_known_rows(events: Estimates, rows: Estimates, value: Floats, lower: Floats, upper: Floats) -> Limits:
    """The share where the number of rows is known but for rounding: it is also 1 - events / rows, and in the limits of
    that."""
    known = (rows.lower > 0.0) & (rows.upper - rows.lower <= _KNOWN * rows.value)
    number = np.where(known, rows.value, 1.0)
    share, least, most = (1.0 - one / number for one in (events.value, events.upper, events.lower))
    low, high = np.maximum(least, lower), np.minimum(most, upper)
    known &= low <= high
    share = np.clip(share, low, high)
    return np.where(known, share, value), np.where(known, low, lower), np.where(known, high, upper)


def _repeated(inquiry: Inquiry) -> Limits:
    """1 - events / rows: that quotient is between 1 over the most rows of an event, and 1."""
    sample = inquiry.sample
    assert sample.counts is not None
    most = max(float(sample.most_rows), _MORE_ROWS)
    sums = inquiry.sums(sample.repeat_coefficients)
    events = inquiry.unseen_event
    top = sums.total(0, 1, 0, events)
    bottom = sums.total(2, 3, 1, Unseen(events.contribution * most, events.variance * most**2))
    quotient = Quotient(top, bottom, sums.squared[:, 2], np.array([1.0 / most]), np.ones(1))
    lower, upper = quotient.bounds(inquiry.confidence)
    value, exact = quotient.value, top.exact
    lower, upper = np.where(exact, value, lower), np.where(exact, value, upper)
    return 1.0 - value, 1.0 - upper, 1.0 - lower
