"""The values with the largest shares of all masses that a question is about, and what any other value may have.

A value has masses of its own, whose ranges hold nothing else, and may have some of those that it shares with others.
All limits are sums of masses, never differences of sums: a small rest beside a large mass keeps its digits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sketches.arrays import Flags, Floats, Rows, Words
from sketches.digests.code_ranges import Codes, restriction
from sketches.digests.mass_bounds import Bounds, MassBounds
from sketches.encoding.value_codes import values_of
from sketches.estimate import Item
from sketches.events import Kind
from sketches.question import DEFAULT_TOP, Question


class Listed(NamedTuple):
    """The listed values by their shares, and the largest share that any value has which is not listed."""

    items: tuple[Item, ...]
    unlisted: float


def heavy_hitters(held: MassBounds, question: Question, moment: int) -> Listed:
    """The values that a mass of their own speaks for, by their shares.

    With φ asked for, those whose share may reach it. A value that only shares its ranges with others cannot be named;
    `unlisted` covers it, and what `top` and φ cut off.
    """
    masses = _Masses.of(held, question, moment)
    if not masses.any:
        return Listed((), 0.0 if masses.nothing else 1.0)
    codes = masses.own_codes
    lower, upper = masses.shares(codes)
    value = (lower + upper) / 2.0
    order = np.lexsort((codes, -value))
    order = order[masses.own.upper[order] > 0.0]
    if question.phi is not None:
        order = order[upper[order] >= question.phi]
    if question.top is not None or question.phi is None:
        order = order[: question.top or DEFAULT_TOP]
    left_out = np.ones(len(codes), bool)
    left_out[order] = False
    unlisted = max(float(upper[left_out].max(initial=0.0)), masses.most_without_own(np.sort(codes[order])))
    names = codes[order].tolist() if held.kind is Kind.KEY else values_of(codes[order], held.kind).tolist()
    texts = [held.labels.text_of(name) for name in names] if held.kind is Kind.KEY else names
    columns = (column[order].tolist() for column in (value, lower, upper))
    return Listed(tuple(Item(*each) for each in zip(texts, *columns, strict=True)), unlisted)


class _Masses(NamedTuple):
    """The decayed masses of a question: by value where they are of one, else by the range that several share."""

    own_codes: Words  # in order
    own: Bounds
    low: Words  # of the shared ones
    high: Words
    shared: Bounds  # what they are
    one: Floats  # what one value can have of each
    others: Floats  # what the others have of each at the least, where one value has the most
    where: Codes
    slack: float
    faded: float
    nothing: bool  # nothing counts at all

    @classmethod
    def of(cls, held: MassBounds, question: Question, moment: int) -> _Masses:
        where = restriction(question.where, held.kind)
        mass = held.counted(question)
        inside, touched = held.within(where)
        own, shared = (held.low == held.high) & touched, (held.low != held.high) & touched
        every = held.decayed(question, moment, held.part(mass, where))
        codes, which = np.unique(held.low[own], return_inverse=True)
        sums = (np.bincount(which, weights=amount[own], minlength=len(codes)) for amount in every)
        single = mass if held.single is None else held.single
        of_one = held.decayed(question, moment, Bounds((mass - single) * inside, single * touched))
        return cls(
            codes,
            Bounds(*(np.asarray(amount, np.float64) for amount in sums)),
            held.low[shared],
            held.high[shared],
            Bounds(*(amount[shared] for amount in every)),
            of_one.upper[shared],
            of_one.lower[shared],
            where,
            4.0 * held.slack(question.decay),
            held.faded,
            not every.upper.any(),
        )

    @property
    def any(self) -> bool:
        """Whether what counts can be told from nothing."""
        return float(self.own.upper.sum() + self.shared.upper.sum()) >= self.faded

    def shares(self, codes: Words) -> tuple[Floats, Floats]:
        """The least and the greatest share of each value; all values that have masses of their own, in order."""
        rest_most = _but_each(self.own.upper) + self.shared.upper.sum()
        reach, rest_least = self._shared_with(codes)
        return self._limits(self.own.lower, rest_most, self.own.upper + reach, _but_each(self.own.lower) + rest_least)

    def most_without_own(self, listed: Words) -> float:
        """The greatest share of a value that is not listed and has no mass of its own.

        It has most at the start of a stretch of codes that the same ranges cover; a stretch of listed codes has none.
        """
        first = np.unique(np.concatenate((self.low, self.high[self.high != ~np.uint64(0)] + np.uint64(1))))
        last = np.append(first[1:] - np.uint64(1), ~np.uint64(0))[: len(first)]
        if self.where.empty:
            return 0.0
        least, most = np.uint64(self.where.least), np.uint64(self.where.most)
        inside = (first <= most) & (last >= least)
        first, last = np.maximum(first[inside], least), np.minimum(last[inside], most)
        taken = np.searchsorted(listed, last, side="right") - np.searchsorted(listed, first, side="left")
        first = first[taken.astype(np.uint64) <= last - first]
        reach, rest_least = self._shared_with(first)
        none = np.zeros(len(first))
        return float(self._limits(none, none, reach, rest_least + self.own.lower.sum())[1].max(initial=0.0))

    def _shared_with(self, codes: Words) -> tuple[Floats, Floats]:
        """What each value may have of the shared masses, and what is left of them at the least."""
        by_low, by_high = np.argsort(self.low, kind="stable"), np.argsort(self.high, kind="stable")
        later = np.append(np.cumsum(self.shared.lower[by_low][::-1])[::-1], 0.0)
        earlier = np.append(0.0, np.cumsum(self.shared.lower[by_high]))
        rest = later[np.searchsorted(self.low[by_low], codes, side="right")]
        rest = rest + earlier[np.searchsorted(self.high[by_high], codes, side="left")]
        reach = np.zeros(len(codes))
        for width in np.unique(self.high - self.low):  # dyadic: at most 64, and those of one width do not overlap
            alike = np.flatnonzero(self.high - self.low == width)
            starts, place = np.unique(self.low[alike], return_inverse=True)
            found, at = _places(starts, codes & ~width)
            one, others = (
                np.bincount(place, weights=amount[alike], minlength=len(starts)) for amount in (self.one, self.others)
            )
            reach += np.where(found, one[at], 0.0)
            rest += np.where(found, others[at], 0.0)
        return reach, rest

    def _limits(
        self, part_least: Floats, rest_most: Floats, part_most: Floats, rest_least: Floats
    ) -> tuple[Floats, Floats]:
        with np.errstate(invalid="ignore", divide="ignore"):
            lower = part_least / (part_least + rest_most)
            upper = part_most / (part_most + rest_least)
        lower, upper = np.nan_to_num(lower) * (1.0 - self.slack), np.nan_to_num(upper) * (1.0 + self.slack)
        return lower, np.minimum(upper, 1.0)


def _but_each(amounts: Floats) -> Floats:
    """The sum of all others, for each."""
    before, after = np.cumsum(amounts), np.cumsum(amounts[::-1])[::-1]
    return np.asarray(np.append(0.0, before[:-1])[: len(amounts)] + np.append(after[1:], 0.0)[: len(amounts)])


def _places(starts: Words, codes: Words) -> tuple[Flags, Rows]:
    """Whether each code is one of some sorted ones, and which."""
    at = np.minimum(np.searchsorted(starts, codes), len(starts) - 1)
    return starts[at] == codes, at
