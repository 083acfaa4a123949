"""A tree of time: groups of slices, slices of exact totals, and the parts of slices in which many rows lie.

At the top are a few groups of neighbouring slices, below them smaller groups, then the slices themselves. A slice that
holds many rows has parts of equal length, and these have parts again, until a part holds a few rows or is one unit of
time long.

`SliceTree.cover` finds for each as-of time which of the nodes count, all as-of times going down the tree together:

- *Steps*, groups of slices or slices in each of which the mean of f is taken for g. Together they hold all time that
  counts. A group is a step where f hardly changes in it. That depends on f and on the slices, never on the rows.
- *Cells*, nodes over which f is a parabola but for next to nothing, as is measured at two ages between the three that
  it goes through. A step is a cell, or is made of smaller ones.
- Rows, where f jumps in the smallest part or the as-of time lies inside.

What a cell adds to a decayed sum is three products of f with weights that depend neither on the decay nor on the as-of
time: each row's part of them is Lagrange's polynomial at its age. `SliceTree.weights` has those of all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Flags, Floats, Ints, Rows, product, ranges
from sketches.decay import Decay
from sketches.records import dataclass
from sketches.sampling.difference_estimator.steps import MEAN_TOLERANCE, mean_between
from sketches.units import TimeUnit

NODES: Final = 3  # ages at which f is known in a cell
FINE_TOLERANCE: Final = 1e-6  # of f in a cell, relatively, at a few as-of times
TOLERANCE: Final = 1e-4  # at many
_EVEN: Final = 0.12  # by how much f may change in a group of slices that is one step
_FAINT: Final = 1e-3  # of the most that f·age is: where f is less, it may change by more, and be off by more
_NOTHING: Final = 1e-8  # of f of the newest: likewise
_GROUP: Final = 4  # slices or groups that form a larger group
_PARTS: Final = 8  # of a slice or of a part that holds many rows
_FEW_GROUPS: Final = 48  # that need no larger ones
_AT_ONCE: Final = 1 << 14  # rows that are looked at together: what is computed on the way stays in the cache
_FEW_ROWS: Final = 64  # that need no parts
_POSITIONS: Final = np.linspace(0.0, 1.0, 2 * NODES - 1)[:, None]  # from newest to oldest: ages of f, and between them
_BOOLE: Final = np.array([7.0, 32.0, 12.0, 32.0, 7.0]) / 90.0  # the mean from f at five ages
_FROM_POWERS: Final = np.array([[1.0, -3.0, 2.0], [0.0, 4.0, -4.0], [0.0, -1.0, 2.0]])  # to Lagrange's polynomials


def _lagrange(positions: Floats) -> Floats:
    """Lagrange's polynomials (first axis) at positions from 0, at a node's newest time, to 1, at its oldest."""
    return np.stack(
        [
            (1.0 - 2.0 * positions) * (1.0 - positions),
            4.0 * positions * (1.0 - positions),
            positions * (2.0 * positions - 1.0),
        ]
    )


_BETWEEN: Final = _lagrange(_POSITIONS[1::2, 0]).T  # from f at the three ages to the parabola at the two

_Number = TypeVar("_Number", bound=np.generic)


class Cells(NamedTuple):
    """Nodes over which f is a parabola: the number of the as-of time and of the node, f at the three ages (first axis),
    how far the parabola may be off, and g."""

    times: Rows
    nodes: Rows
    factors: Floats
    off: Floats
    heights: Floats


class Steps(NamedTuple):
    """Nodes of which each has one g: the number of the as-of time and of the node, g, and f at its newest and at its
    oldest time; f is 0 at times that are newer than the as-of time."""

    times: Rows
    nodes: Rows
    heights: Floats
    newest: Floats
    oldest: Floats


class Parts(NamedTuple):
    """Rows that are looked at one by one: the number of the as-of time, the rows, and g."""

    times: Rows
    first: Rows
    last: Rows
    heights: Floats


class Cover(NamedTuple):
    steps: Steps
    cells: Cells
    parts: Parts


class _Nodes(NamedTuple):
    """Those of one depth: where each begins and ends, its first row and the one behind its last."""

    begins: Ints
    ends: Ints
    first: Rows
    last: Rows

    def parts(self, times: Ints) -> tuple[_Nodes, Rows]:
        """The parts of nodes that hold many rows, but for empty ones; and how many each node has."""
        large = np.flatnonzero((self.last - self.first > _FEW_ROWS) & (self.ends - self.begins > 1))
        lengths = -(-(self.ends - self.begins)[large, None] // _PARTS)
        begins = self.begins[large, None] + lengths * np.arange(_PARTS)
        begins, ends = (np.minimum(edge, self.ends[large, None]).ravel() for edge in (begins, begins + lengths))
        first, last = np.searchsorted(times, (begins, ends))
        held = np.flatnonzero(last > first)
        many = np.bincount(np.repeat(large, _PARTS)[held], minlength=len(self.begins))
        return _Nodes(begins[held], ends[held], first[held], last[held]), many


@dataclass(frozen=True)
class SliceTree:
    """All nodes, from the largest groups to the smallest parts, those of one depth in the order of time."""

    times: Ints  # of the rows
    there: Flags  # whether events may have come in a slice or group of slices
    depths: tuple[int, ...]  # where nodes of each depth begin, and where the last end
    slices: int  # at which depth the slices are
    begins: Ints
    ends: Ints
    first: Rows  # of the rows of each
    last: Rows  # the one behind the last
    children: Rows  # the number of the first child
    offspring: Rows  # how many children follow one another

    @classmethod
    def over(cls, edges: Ints, times: Ints, filled: Flags) -> SliceTree:
        """The tree of slices between edges, which hold all rows; `times` are those of the rows, in order.

        `filled` says in which slices events may have come, for all that is known without the rows.
        """
        groups = [(edges[:-1], edges[1:])]
        while len(groups[0][0]) > _FEW_GROUPS:
            begins, ends = groups[0]
            starts = np.arange(0, len(begins), _GROUP)
            groups.insert(0, (begins[starts], ends[np.minimum(starts + _GROUP, len(begins)) - 1]))
        levels = [_Nodes(begins, ends, *np.searchsorted(times, (begins, ends))) for begins, ends in groups]
        offspring = [np.bincount(np.arange(len(below[0])) // _GROUP) for below in groups[1:]]
        while True:
            below, many = levels[-1].parts(times)
            offspring.append(many)
            if not len(below.begins):
                break
            levels.append(below)
        depths = np.cumsum([0, *(len(level.begins) for level in levels)]).tolist()
        children = [end + np.cumsum(many) - many for end, many in zip(depths[1:], offspring, strict=True)]
        columns = [np.concatenate(column) for column in (*zip(*levels, strict=True), children, offspring)]
        there = of_groups(np.logical_or, filled | (levels[len(groups) - 1].last > levels[len(groups) - 1].first))
        return cls(times, there, tuple(depths), len(groups) - 1, *columns)

    @property
    def steps(self) -> int:
        """How many nodes are slices or groups of them; they come first."""
        return self.depths[self.slices + 1]

    @cached_property
    def _lengths(self) -> Ints:
        """From the oldest time of each node to its newest."""
        return self.ends - self.begins - 1

    def weights(self, columns: Callable[[slice], Sequence[Floats]]) -> list[Floats]:
        """What all nodes (second axis) weigh in decayed sums of columns over rows, at the three ages (first axis).

        Columns are made of a few rows after the other.
        """
        found = [np.zeros((NODES, len(self.begins))) for _ in columns(slice(0, 0))]
        for leaves in self._some_leaves:
            first = self.first[leaves]
            rows, sizes = slice(first[0], self.last[leaves[-1]]), self.last[leaves] - first
            newest, lengths = self.ends[leaves] - 1, np.maximum(self._lengths[leaves], 1)
            positions = (np.repeat(newest, sizes) - self.times[rows]) / np.repeat(lengths, sizes)
            for weights, column in zip(found, columns(rows), strict=True):
                linear = column * positions
                powers = [np.add.reduceat(one, first - rows.start) for one in (column, linear, linear * positions)]
                weights[:, leaves] = product(_FROM_POWERS, np.stack(powers))
        for parents, below in self._families:
            shares = self._shares(parents, below)
            for weights in found:
                moved = np.einsum("jic,ic->jc", shares, weights[:, below])
                weights[:, parents] = np.add.reduceat(moved, self.children[parents] - below.start, axis=1)
        return found

    def sums(self, column: Floats) -> Floats:
        """The sums of a column over the rows of all nodes."""
        found, leaves = np.zeros(len(self.begins)), self._leaves
        found[leaves] = np.add.reduceat(column, self.first[leaves])
        for parents, below in self._families:
            found[parents] = np.add.reduceat(found[below], self.children[parents] - below.start)
        return found

    @cached_property
    def _leaves(self) -> Rows:
        """Nodes with rows and without children, in the order of rows."""
        leaves = np.flatnonzero((self.offspring == 0) & (self.last > self.first))
        return leaves[np.argsort(self.first[leaves], kind="stable")]

    @property
    def _some_leaves(self) -> list[Rows]:
        """The leaves, a few after the other: those that begin in the same stretch of rows."""
        leaves = self._leaves
        stretch = self.first[leaves] // _AT_ONCE
        return np.split(leaves, np.flatnonzero(stretch[1:] != stretch[:-1]) + 1) if len(leaves) else []

    @property
    def _families(self) -> Iterator[tuple[Rows, slice]]:
        """Parents of one depth and all nodes of the next, which are their children, from the deepest up."""
        for depth in range(len(self.depths) - 3, -1, -1):
            parents = np.arange(self.depths[depth], self.depths[depth + 1])
            yield parents[self.offspring[parents] > 0], slice(self.depths[depth + 1], self.depths[depth + 2])

    def _shares(self, parents: Rows, below: slice) -> Floats:
        """By how much a parabola at the three ages of a parent (first axis) counts at those of each child."""
        parent = np.repeat(parents, self.offspring[parents])
        lengths = np.maximum(self._lengths[parent], 1)
        own = self._lengths[below] * _POSITIONS[::2]
        return _lagrange((self.ends[parent] - self.ends[below] + own) / lengths)

    def cover(self, decay: Decay, unit: TimeUnit, as_of: Ints, tolerance: float) -> Cover:
        """What counts at each as-of time."""
        slices = slice(self.depths[self.slices], self.steps)
        begins, newest = (edge[slices][self.there[slices]] for edge in (self.begins, self.ends - 1))
        nothing, peak = _NOTHING * _newest_factors(decay, unit, as_of, begins, newest), np.zeros(len(as_of))
        roots = slice(0, self.depths[1])
        last = np.searchsorted(self.begins[roots], as_of, side="right")
        first = np.searchsorted(self.ends[roots], as_of - unit.whole(decay.horizon), side="right")
        nodes, times = ranges(first, last)
        heights = np.zeros(len(times))
        steps, cells, parts = [], [], []
        for depth in range(len(self.depths) - 1):
            if depth <= self.slices:
                begun = np.flatnonzero((self.begins[nodes] <= as_of[times]) & self.there[nodes])
                times, nodes = times[begun], nodes[begun]
            elif depth == self.slices + 1:  # what is a step does not depend on which events were kept
                nothing = _NOTHING * _newest_factors(decay, unit, as_of, self.times, self.times)
            ages, lengths = as_of[times] - self.ends[nodes] + 1, self._lengths[nodes]
            since = np.maximum(ages, 0) + lengths * _POSITIONS
            factors = decay(unit.seconds(since))
            future = ages + lengths < 0
            factors[:, future] = 0.0
            inside = (ages < 0) & ~future  # the as-of time lies inside
            if depth == 0:
                np.maximum.at(peak, times, (factors * since).max(axis=0))
            faint = np.maximum(_FAINT * peak[times] / np.maximum(since[-1], 1.0), nothing[times])
            off, whole = _parabolic(factors, faint, tolerance)
            whole &= ~inside
            left = ~whole
            if depth <= self.slices:
                counts = factors[0] > 0.0
                whole &= counts if depth == self.slices else counts & _even(factors, faint)
                left = counts & ~whole
                alone = np.flatnonzero(counts if depth == self.slices else whole)
                heights = (factors[0] + 4.0 * factors[2] + factors[4]) / 6.0  # Simpson's rule
                if depth == self.slices:
                    cut = np.flatnonzero(left)
                    finer = _BOOLE @ factors[:, cut]
                    bent = inside[cut] | (np.abs(finer - heights[cut]) > MEAN_TOLERANCE * finer)
                    heights[cut], cut = finer, cut[bent]
                    ends = as_of[times[cut]], self.begins[nodes[cut]], self.ends[nodes[cut]]
                    heights[cut] = mean_between(decay, unit, *ends)
                oldest = np.where(inside, 0.0, factors[-1])
                steps.append(Steps(times[alone], nodes[alone], heights[alone], factors[0, alone], oldest[alone]))
            these, rest = np.flatnonzero(whole), np.flatnonzero(left)
            cells.append(Cells(times[these], nodes[these], factors[::2, these], off[these], heights[these]))
            times, nodes, heights = times[rest], nodes[rest], heights[rest]
            many = self.offspring[nodes]
            leaf = np.flatnonzero(many == 0)
            parts.append(Parts(times[leaf], self.first[nodes[leaf]], self.last[nodes[leaf]], heights[leaf]))
            nodes, which = ranges(self.children[nodes], self.children[nodes] + many)
            times, heights = times[which], heights[which]
        return Cover(_joined(steps), _joined(cells), _joined(parts))


def _newest_factors(decay: Decay, unit: TimeUnit, as_of: Ints, begins: Ints, newest: Ints) -> Floats:
    """f of the newest time, up to each as-of time, of stretches of time in order; f(0) where there is none."""
    if not len(begins):
        return decay(np.zeros(len(as_of)))
    last = np.maximum(np.searchsorted(begins, as_of, side="right") - 1, 0)
    return decay(unit.seconds(np.maximum(as_of - newest[last], 0)))


def of_groups(together: np.ufunc, of_slices: NDArray[_Number]) -> NDArray[_Number]:
    """For each slice and group of slices what its slices have together (last axis: the slices)."""
    found = [of_slices]
    while found[0].shape[-1] > _FEW_GROUPS:
        starts = np.arange(0, found[0].shape[-1], _GROUP)
        found.insert(0, together.reduceat(found[0], starts, axis=-1))
    return np.concatenate(found, axis=-1)


def _parabolic(factors: Floats, faint: Floats, tolerance: float) -> tuple[Floats, Flags]:
    """How far the parabola through three of five factors may be off: twice as far as it is at the two others; and
    whether it is close enough."""
    between = factors[1::2]
    apart = np.abs(product(_BETWEEN, factors[::2]) - between)
    close = apart <= tolerance * np.maximum(between, faint)
    return 2.0 * apart.max(axis=0), close[0] & close[1]


def _even(factors: Floats, faint: Floats) -> Flags:
    """Whether f changes little enough for one mean of it."""
    return np.asarray((factors[0] - factors[-1] <= _EVEN * factors[0]) | (factors[0] <= faint))


_Found = TypeVar("_Found", Steps, Cells, Parts)


def _joined(found: Sequence[_Found]) -> _Found:
    """Those of all depths in one."""
    return type(found[0])(*(np.concatenate(column, axis=-1) for column in zip(*found, strict=True)))
