"""What the counters of `ecm` sketches hold under a decay: from logs of times to decayed counts with limits.

Each entry of a log is a mass with the range of times in which its arrivals came. A value weighs at most the least of
its counters, and at least that less ε_cm of the total, except by chance (paper E §4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Floats, Ints, Limits, Words
from sketches.countmin.counter_places import places_of
from sketches.countmin.ecm_parameters import EcmParameters
from sketches.events import Extremes, Kind, Labels
from sketches.question import Question
from sketches.time_ranges import TimeRanges

_CHUNK: Final = 1 << 21


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

    def contents_of(self, question: Question, moments: Ints, cells: NDArray[np.intp]) -> Limits:
        """The decayed content of some counters: value, lower and upper limit, a row a moment, a column a counter."""
        lengths = self.bounds[cells + 1] - self.bounds[cells]
        which = np.repeat(self.bounds[cells] - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
        which = which + np.arange(len(which))
        ranges = TimeRanges(self.start[which], self.end[which], self.parameters.clock)
        size, error = self.size[which], self.error[which]
        sure = error == 0.0
        found = [np.zeros((len(moments), len(cells))) for _ in range(3)]
        used = np.flatnonzero(lengths)
        if len(which) == 0:
            return found[0], found[1], found[2]
        begins = np.concatenate(([0], np.cumsum(lengths[used])[:-1]))
        decay = question.decay
        newest = float(decay(0.0))
        step = max(1, _CHUNK // len(which))
        for begin in range(0, len(moments), step):
            here = moments[begin : begin + step]
            least, most = ranges.factors(decay, here)
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
                limit[begin : begin + step, used] = np.add.reduceat(content, begins, axis=1)
        rounding = 1e-12 + len(which) * 2.0**-52  # of f, and of a sum of so many
        return found[0], np.maximum(found[1], 0.0) * (1.0 - rounding), found[2] * (1.0 + rounding)

    def total(self, question: Question, moments: Ints) -> Limits:
        value, lower, upper = self.contents_of(question, moments, np.array([len(self.bounds) - 2]))
        return value[:, 0], lower[:, 0], upper[:, 0]

    def cells_of(self, codes: Words, level: int) -> NDArray[np.intp]:
        """The counters of codes (or of their dyadic ranges at a level), a row of counters each."""
        parameters = self.parameters
        salts = parameters.salts[level * parameters.rows : (level + 1) * parameters.rows]
        return places_of(codes, salts, parameters.width, level * parameters.rows).astype(np.intp)

    def point_masses(self, question: Question, moment: int, codes: Words, level: int = 0) -> Limits:
        """What codes weigh: at most the least of their counters, and at least that less ε_cm of all, but for chance."""
        moments = np.array([moment], np.int64)
        cells = self.cells_of(codes, level)
        distinct, places = np.unique(cells, return_inverse=True)
        shape = cells.shape
        value, lower, upper = (
            limit[0][places].reshape(shape).min(axis=1) for limit in self.contents_of(question, moments, distinct)
        )
        excess = self.parameters.sketch_error * self.total(question, moments)[2][0]
        return value, np.maximum(lower - excess, 0.0), upper

    def shares_of(self, mass: Limits, total: tuple[float, float, float]) -> Limits:
        value, lower, upper = mass
        whole, least, most = total
        if most == 0.0:
            return np.full(len(value), np.nan), np.zeros(len(value)), np.ones(len(value))
        with np.errstate(divide="ignore", invalid="ignore"):
            high = np.minimum(np.nan_to_num(upper / least, nan=1.0, posinf=1.0), 1.0) if least else np.ones(len(value))
        low = lower / most
        return np.clip(value / max(whole, 1e-300), low, high), low, high
