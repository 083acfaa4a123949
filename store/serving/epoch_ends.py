"""Charts of families that answer as of their newest event or later: a point at the end of each epoch.

As of the end of an epoch, the union of the epochs up to it is all that had come by then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import numpy as np

from sketches.arrays import Ints
from sketches.errors import UnanswerableError
from sketches.estimate import Estimate, Series
from sketches.family import Askable, Gathered
from sketches.question import Question
from sketches.registry import family_of
from store.serving.resolving import with_numbers
from store.serving.selection import Selection, Slot


def answered_times(selection: Selection, moments: Ints, newest: int) -> Ints:
    """Of these times those from the newest event on, and instead of the others the ends of epochs between them."""
    earlier, later = moments[moments < newest], moments[moments >= newest]
    if len(earlier) == 0:
        return later
    first, last = int(earlier.min()), min(int(moments.max()), newest - 1)
    ends = [end for end in _whole_ends(selection.slots) if first <= end <= last]
    if len(ends) > len(earlier):
        ends = [ends[at] for at in np.linspace(0, len(ends) - 1, len(earlier)).astype(int).tolist()]
    return np.concatenate([np.array(ends, np.int64), later])


def _whole_ends(slots: Iterable[Slot]) -> list[int]:
    """The ends of epochs, rising, that do not lie within a stretch of several epochs."""
    found: list[int] = []
    for start, length in sorted(slots, key=lambda slot: (slot[0], -slot[1])):
        if not found or start > found[-1]:
            found.append(start + length - 1)
    return found


def series_at_ends(selection: Selection, question: Question, moments: Ints, newest: int) -> Series:
    """The question at the ends of epochs before the newest event, and at the times from then on.

    The epochs are merged one after the other, each of them once.
    """
    if question.aggregate == "heavy-hitters":
        raise UnanswerableError("heavy-hitters is a list: ask for it at one as-of time")
    ends = np.sort(answered_times(selection, moments, newest))
    slots = [(slot, held.gathered) for slot, held in sorted(selection.slots.items()) if held.gathered is not None]
    starts = [start for (start, _), _ in slots]
    found: list[Estimate] = []
    come: list[Gathered] = []
    taken = 0
    for moment in ends.tolist():
        upto = bisect_right(starts, moment)
        come += [gathered for _, gathered in slots[taken:upto]]
        taken = upto
        if not come:
            continue
        come, askable = _together(selection.family, come)
        found.append(askable.answer(with_numbers(question, askable.type_of).at(moment)))
    if not found:
        raise UnanswerableError(f"stream {selection.stream!r} has no {selection.family} sketch at these times")
    return Series(
        np.array([one.as_of for one in found], np.int64),
        np.array([one.value for one in found]),
        np.array([one.lower for one in found]),
        np.array([one.upper for one in found]),
        min(one.confidence for one in found),
        min(found, key=lambda one: one.confidence).guarantee,
        selection.family,
        np.array([one.used for one in found], np.int64),
    )


def _together(family: str, epochs: list[Gathered]) -> tuple[list[Gathered], Askable]:
    """What these epochs answer together, and they themselves: as one where the family merges them to answer."""
    kind = family_of(family)
    if kind.merged_to_answer:
        merged = kind.gather([sketch for epoch in epochs for sketch in epoch.content])
        return [merged], kind.side_by_side([merged])
    return epochs, kind.side_by_side(epochs)
