"""The values with the largest shares of all masses that a question is about."""

from __future__ import annotations

import numpy as np

from sketches.arrays import Flags, Floats, Words
from sketches.digests.code_ranges import restriction
from sketches.digests.mass_bounds import Bounds, MassBounds
from sketches.encoding.value_codes import values_of
from sketches.estimate import Item
from sketches.events import Kind
from sketches.question import DEFAULT_TOP, Question


def heavy_hitters(held: MassBounds, question: Question, moment: int) -> tuple[Item, ...]:
    """The values that a mass of their own speaks for, by their shares; any other has at most a share of ε.

    With φ asked for, those whose share may reach it: so none is left out that has it.
    """
    where = restriction(question.where, held.kind)
    mass = held.counted(question)
    inside, touched = held.within(where)
    own = (held.low == held.high) & touched
    codes, which = np.unique(held.low[own], return_inverse=True)
    least, most = held.decayed(question, moment, held.part(mass, where))
    least_total, most_total = float(least.sum()), float(most.sum())
    if len(codes) == 0 or most_total == 0.0:
        return ()
    own_least = np.bincount(which, weights=least[own], minlength=len(codes))
    own_most = np.bincount(which, weights=most[own], minlength=len(codes))
    of_one = mass if held.single is None else held.single
    shared = held.decayed(question, moment, Bounds(of_one * inside, of_one * touched))
    shared_least, shared_most = (_covering(held, codes, touched & ~own, amount) for amount in shared)
    slack = 4.0 * held.slack(question.decay)
    lost = slack * most_total  # differences of sums are as exact as the sums
    with np.errstate(invalid="ignore", divide="ignore"):
        lower = own_least / (own_least + np.maximum(most_total - own_most, 0.0) + lost)
        reach = own_most + shared_most + lost
        upper = reach / (reach + np.maximum(least_total - own_least - shared_least - lost, 0.0))
    lower = np.nan_to_num(lower) * (1.0 - slack)
    upper = np.minimum(np.nan_to_num(upper, nan=1.0) * (1.0 + slack), 1.0)
    value = (lower + upper) / 2.0
    order = np.lexsort((codes, -value))
    order = order[own_most[order] > 0.0]
    if question.phi is not None:
        order = order[upper[order] >= question.phi]
    if question.top is not None or question.phi is None:
        order = order[: question.top or DEFAULT_TOP]
    names = codes[order].tolist() if held.kind is Kind.KEY else values_of(codes[order], held.kind).tolist()
    texts = [held.labels.text_of(name) for name in names] if held.kind is Kind.KEY else names
    columns = (column[order].tolist() for column in (value, lower, upper))
    return tuple(Item(*each) for each in zip(texts, *columns, strict=True))


def _covering(held: MassBounds, codes: Words, which: Flags, mass: Floats) -> Floats:
    """For each code the mass of those masses that hold it."""
    low, high, some = held.low[which], held.high[which], mass[which]
    begun, ended = np.argsort(low, kind="stable"), np.argsort(high, kind="stable")
    started = np.concatenate(([0.0], np.cumsum(some[begun])))[np.searchsorted(low[begun], codes, side="right")]
    gone = np.concatenate(([0.0], np.cumsum(some[ended])))[np.searchsorted(high[ended], codes, side="left")]
    return np.asarray(np.maximum(started - gone, 0.0))
