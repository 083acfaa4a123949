"""What the counters of `ecm` sketches hold under a decay: from logs of times to decayed counts with limits.

Each entry of a log is a mass with the range of times in which its arrivals came. A value weighs at most the least of
its counters, and at least that less ε_cm of the total, except by chance (paper E §4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Floats, Ints, Limits, Words
from sketches.countmin.counter_places import ZERO_CODE, places_of
from sketches.countmin.ecm_parameters import EcmParameters
from sketches.decay.functions import LastEvents
from sketches.event_rules import MAX_TIME
from sketches.events import Extremes, Kind, Labels
from sketches.question import Question
from sketches.records import dataclass
from sketches.special_functions import ndtri
from sketches.time_ranges import TimeRanges, elapsed

Factors = Callable[[TimeRanges, slice], tuple[Floats, Floats]]  # least and greatest f by range, for some moments

_CHUNK: Final = 1 << 21
_EVER: Final = np.iinfo(np.int64).min  # the beginning of a window that holds everything
_ROUNDING: Final = 1e-9  # of a number of arrivals that is a sum of shares of entries


@dataclass(frozen=True)
class CounterContents:
    """Logs of one or many sketches, by counter, that can be read under any decay."""

    parameters: EcmParameters
    kind: Kind
    labels: Labels = field(repr=False)
    candidates: Words = field(repr=False)
    extremes: Extremes
    depth: int
    bounds: NDArray[np.intp] = field(repr=False)
    start: Ints = field(repr=False)
    end: Ints = field(repr=False)
    size: Floats = field(repr=False)
    error: Floats = field(repr=False)  # of an entry's counter, where it was aggregated; else its range is certain

    @property
    def certain(self) -> bool:
        """Whether every counter's content is between its bounds with certainty."""
        return self.parameters.keeping != "rw"

    @property
    def has_ranges(self) -> bool:
        """Whether there are sketches of dyadic ranges."""
        return self.kind is Kind.INTEGER and self.parameters.bits > 0

    @cached_property
    def beyond_codes(self) -> Words:
        """The ends of the domain that stand for values beyond it as well, because some came."""
        last = (1 << self.parameters.bits) - 1
        ends = [(0, self.extremes.least_value < 0), (last, self.extremes.greatest_value > last)]
        return np.array([ZERO_CODE + end for end, crossed in ends if self.has_ranges and crossed], np.uint64)

    @property
    def beyond(self) -> bool:
        """Whether values outside the domain came."""
        return len(self.beyond_codes) > 0

    def contents_of(self, question: Question, moments: Ints, cells: NDArray[np.intp]) -> Limits:
        """The decayed content of some counters: value, lower and upper limit, a row a moment, a column a counter.

        The newest arrivals by number are a window that begins no later and no earlier than two known times: what the
        narrower window holds at least, and the wider one at most.
        """
        decay = question.decay
        if not isinstance(decay, LastEvents):
            newest = float(decay(0.0))
            return self._contents(cells, moments, lambda ranges, part: ranges.factors(decay, moments[part]), newest)
        begins = self.begin_of_newest(decay.count, moments)[:2]
        narrow, wide = (self._contents(cells, moments, _since(begin, moments)) for begin in begins)
        return (narrow[0] + wide[0]) / 2.0, narrow[1], wide[2]

    def _contents(self, cells: NDArray[np.intp], moments: Ints, factors: Factors, newest: float = 1.0) -> Limits:
        """`contents_of` by the limits of f; `newest` is the greatest f that there is."""
        lengths = self.bounds[cells + 1] - self.bounds[cells]
        which = np.repeat(self.bounds[cells] - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
        which = which + np.arange(len(which))
        ranges = TimeRanges(self.start[which], self.end[which], self.parameters.unit)
        size, error = self.size[which], self.error[which]
        sure = error == 0.0
        found = [np.zeros((len(moments), len(cells))) for _ in range(3)]
        used = np.flatnonzero(lengths)
        if len(which) == 0:
            return found[0], found[1], found[2]
        begins = np.concatenate(([0], np.cumsum(lengths[used])[:-1]))
        step = max(1, _CHUNK // len(which))
        for begin in range(0, len(moments), step):
            part = slice(begin, begin + step)
            here = moments[part]
            least, most = factors(ranges, part)
            come = self.end[which] <= here[:, None]
            # the newest arrival of an entry came at its end, the others since the end of the entry before
            least, most = (size - 1.0) * least + most * come, (size - ~come) * most
            middle = (least + most) / 2.0
            if not sure.all():
                # an aggregated counter errs by a share of every window's count, of what came after the moment as well
                after = 2.0 * newest * error * size * ~come
                least = np.where(sure, least, (middle - after) / (1.0 + error))
                most = np.where(sure, most, (middle + after) / np.maximum(1.0 - error, 1e-9))
            for limit, content in zip(found, (middle, least, most), strict=True):
                limit[part, used] = np.add.reduceat(content, begins, axis=1)
        rounding = 1e-12 + len(which) * 2.0**-52  # of f, and of a sum of so many
        return found[0], np.maximum(found[1], 0.0) * (1.0 - rounding), found[2] * (1.0 + rounding)

    def total(self, question: Question, moments: Ints) -> Limits:
        """What all arrivals weigh: limits by the last counter, which holds all, and between them the rows' mean sum.

        The errors of a row's counters cancel out, so its sum is nearer than the last counter (E §6.1).
        """
        contents = self.contents_of(question, moments, np.array([len(self.bounds) - 2]))
        lower, upper = contents[1][:, 0], contents[2][:, 0]
        if isinstance(question.decay, LastEvents) and self.counts_events:
            # of the newest N there are N, or all that came, and more only where several came at the time of the oldest
            count = question.decay.count
            lower = np.maximum(lower, np.minimum(count, self.begin_of_newest(count, moments)[2]))
            upper = np.maximum(upper, lower)
        return np.clip(self._mean_of_rows(question, moments), lower, upper), lower, upper

    def _mean_of_rows(self, question: Question, moments: Ints) -> Floats:
        """What the counters of a row of values hold together, in the mean over the rows."""
        times, masses = self._times
        decay, unit = question.decay, self.parameters.unit
        stops = np.searchsorted(times, moments, side="right")
        if isinstance(decay, LastEvents):
            sums = np.concatenate(([0.0], np.cumsum(masses)))
            begins = (np.searchsorted(times, begin) for begin in self.begin_of_newest(decay.count, moments)[:2])
            narrow, wide = (sums[np.maximum(stops, begin)] - sums[begin] for begin in begins)
            return np.asarray((narrow + wide) / (2.0 * self.parameters.rows))
        reach = decay.horizon * unit.denominator / unit.numerator
        found = np.zeros(len(moments))
        for at, (now, stop) in enumerate(zip(moments.tolist(), stops.tolist(), strict=True)):
            begin = int(np.searchsorted(times, now - math.ceil(reach) - 1)) if reach < MAX_TIME // 2 else 0
            ages = unit.seconds(elapsed(np.array(now), times[begin:stop]))
            found[at] = decay(ages) @ masses[begin:stop]
        return found / self.parameters.rows

    @cached_property
    def _times(self) -> tuple[Ints, Floats]:
        """All times of entries in the rows of values, and what came then: half of an entry's arrivals but the newest at
        its start, the others at its end."""
        log = slice(0, self.bounds[self.parameters.rows * self.parameters.width])
        half = self.size[log] / 2.0
        newest = np.minimum(half, 0.5)
        times, places = np.unique(np.concatenate((self.start[log], self.end[log])), return_inverse=True)
        masses = np.bincount(places, np.concatenate((half - newest, half + newest)), minlength=len(times))
        return times, masses.astype(np.float64)

    def widened(self, counters: int) -> CounterContents:
        """The same counters with limits that hold for so many of them at once: those of a sample are wider then."""
        if self.certain:
            return self
        tail = self.parameters.sketch_delta / 2.0
        return replace(self, error=self.error * float(ndtri(tail / counters) / ndtri(tail)))

    @property
    def counts_events(self) -> bool:
        """Whether an arrival in a log is an event."""
        return self.parameters.counting == "events" or self.extremes.unit_weights

    def begin_of_newest(self, count: float, moments: Ints) -> tuple[Ints, Ints, Floats]:
        """When the newest `count` arrivals as of each moment begin: at the latest, at the earliest, as the log of all
        arrivals tells; and how many arrivals there are by then at least."""
        if self.parameters.basis == "count":  # an arrival's time is its number
            newest = np.minimum(moments, self.extremes.newest or 0)
            return newest - int(count) + 1, newest - int(count) + 1, np.maximum(newest, 0).astype(np.float64)
        latest, earliest = np.full(len(moments), _EVER), np.full(len(moments), _EVER)
        known = np.zeros(len(moments))
        log = slice(self.bounds[-2], self.bounds[-1])
        start, end, size, error = self.start[log], self.end[log], self.size[log], self.error[log]
        last = np.minimum(size, 1.0)  # an entry's newest arrival is at its end, the others at its start or later
        times, errors = np.concatenate((start, end, end)), np.tile(error, 3)
        order = np.argsort(times, kind="stable")[::-1]
        less, more = 1.0 + error, np.maximum(1.0 - error, 1e-9)
        none, slack = np.zeros(len(size)), _ROUNDING if error.any() else 0.0
        for at, now in enumerate(moments.tolist() if len(size) else ()):
            come = end <= now
            surely = np.concatenate(((size - last) * come, last * come, none))
            maybe = np.concatenate((none, none, (size - ~come) * (start <= now)))
            middle = (surely + maybe) / 2.0
            after = 2.0 * error * size * ~come
            least = np.where(errors == 0.0, surely, middle / np.tile(less, 3))[order].cumsum() - (after / less).sum()
            most = np.where(errors == 0.0, maybe, middle / np.tile(more, 3))[order].cumsum() + (after / more).sum()
            for begin, counted, goal in (
                (latest, most, count * (1.0 - slack)),
                (earliest, least, count * (1.0 + slack)),
            ):
                reached = int(np.searchsorted(counted, goal))
                if reached < len(order):
                    begin[at] = min(int(times[order[reached]]), now)
            known[at] = max(least[-1], 0.0)
        return latest, earliest, known

    def cells_of(self, codes: Words, level: int) -> NDArray[np.intp]:
        """The counters of codes (or of their dyadic ranges at a level), a row of counters each."""
        parameters = self.parameters
        salts = parameters.salts[level * parameters.rows : (level + 1) * parameters.rows]
        return places_of(codes, salts, parameters.width, level * parameters.rows).astype(np.intp)

    def shares_of(self, mass: Limits, total: tuple[float, float, float]) -> Limits:
        value, lower, upper = mass
        whole, least, most = total
        if most == 0.0:
            return np.full(len(value), np.nan), np.zeros(len(value)), np.ones(len(value))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            high = np.minimum(np.nan_to_num(upper / least, nan=1.0, posinf=1.0), 1.0) if least else np.ones(len(value))
            low = lower / most
            return np.clip(value / max(whole, 1e-300), low, high), low, high


def _since(begins: Ints, moments: Ints) -> Factors:
    """The limits of f, 1 from a time on that each moment has for itself and 0 before."""

    def factors(ranges: TimeRanges, part: slice) -> tuple[Floats, Floats]:
        now, begin = moments[part, None], begins[part, None]
        least = (ranges.last <= now) & (ranges.first >= begin)
        most = (ranges.first <= now) & (np.minimum(ranges.last, now) >= begin)
        return least.astype(np.float64), most.astype(np.float64)

    return factors
