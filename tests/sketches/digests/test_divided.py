"""Events taken out of `wbmh` and `division` by their time: every answer has the exact one of what is left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from sketches import Events, Question
from sketches.arrays import Flags, Floats
from sketches.decay import parse_decay
from sketches.digests.divided import DOUBT_FORMAT, DividedDigest
from sketches.digests.division import Division
from sketches.digests.wbmh import Wbmh
from sketches.encoding.envelope import open_envelope
from sketches.errors import CorruptError
from sketches.event_rules import MAX_TIME

DAY: Final = 86_400
NOW: Final = 1_700_000_000
ROWS: Final = 3_000
DECAY: Final = "poly:alpha=1,unit=1m"
DECAYS: Final = (DECAY, "none", "log:unit=1m", "exp:half_life=3d", "window:5d")


class Numbers:
    """Thirty days of numbers, in two parts: the first half and the rest, or each of them at random."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.t = NOW - np.sort(rng.integers(0, 30 * DAY, ROWS))[::-1]
        self.v = np.round(np.exp(rng.normal(3.0, 1.5, ROWS)))
        self.w = rng.integers(0, 9, ROWS)
        self.first = np.arange(ROWS) < ROWS // 2 if seed % 2 else rng.random(ROWS) < 0.5
        begin, end = sorted(rng.choice(self.t, 2).tolist())
        self.range = (-MAX_TIME, end // 3600 * 3600) if seed % 3 else (begin, end)

    def sketch(self, family: type[DividedDigest], which: Flags) -> Any:
        events = Events.of(np.flatnonzero(which), self.t[which], self.v[which], self.w[which])
        return family.build(events, decay=DECAY, epsilon=0.2, span=3600)

    def exact(self, question: Question, left: Flags) -> float:
        faded: Floats = parse_decay(question.decay.spec)((question.as_of - self.t).astype(float))
        faded = faded * (left & (self.t <= question.as_of))
        whole = faded.sum()
        match question.aggregate:
            case "count":
                return float(whole)
            case "sum":
                return float((faded * self.w).sum())
            case "correlated-count":
                return float(faded[self.v >= question.tau].sum())
            case "frequency":
                return float(faded[self.v == question.value].sum() / whole)
            case "mean":
                return float((faded * self.w).sum() / whole)
        order = np.argsort(self.v, kind="stable")
        place = np.searchsorted(np.cumsum(faded[order]) / whole, question.phi or 0.5)
        return float(self.v[order][min(place, ROWS - 1)])


def questions(held: Numbers, left: Flags) -> list[Question]:
    newest = int(held.t[left].max())
    found = []
    for decay in DECAYS:
        for moment in (newest, newest + DAY, newest - 3 * DAY):
            found += [Question(name, decay, moment) for name in ("count", "sum", "mean", "median")]
            found.append(Question("correlated-count", decay, moment, tau=200.0))
            found.append(Question("frequency", decay, moment, value=20.0))
    return found


@pytest.mark.parametrize("family", [Wbmh, Division])
def test_what_is_left_is_never_outside(family: type[DividedDigest]) -> None:
    """Whether the oldest go or those between two times, for good or not, before or after further parts came."""
    wrong = asked = 0
    for seed in range(10):
        held = Numbers(seed)
        begin, end = held.range
        gone = held.first & (held.t >= begin) & (held.t < end)
        less = held.sketch(family, held.first).without(begin, end, for_good=seed % 5 == 0)
        found = family.from_bytes(less.to_bytes()).merge(held.sketch(family, ~held.first))
        left = ~gone
        if seed % 4 == 0:
            found = found.without(-MAX_TIME, end + 7 * DAY)
            left &= held.t >= end + 7 * DAY
        found = family.from_bytes(found.to_bytes())
        for question in questions(held, left) if left.any() else ():
            exact = held.exact(question, left)
            if question.aggregate not in family.abilities.aggregates or np.isnan(exact):
                continue
            answer = found.answer(question)
            asked += 1
            wrong += not answer.lower - 1e-9 * abs(exact) <= exact <= answer.upper + 1e-9 * abs(exact)
    assert asked > 500
    assert wrong == 0


@pytest.mark.parametrize("family", [Wbmh, Division])
def test_little_is_in_doubt(family: type[DividedDigest]) -> None:
    """Only the one block that the kept time begins in: its share of what counts, and no more."""
    held = Numbers(1)
    since = NOW - 20 * DAY
    found = held.sketch(family, np.ones(ROWS, bool)).without(-MAX_TIME, since)
    times = found.rows.times(3600)[0]
    assert len(np.unique(times[len(found.forest) :])) == 1
    kept = held.t >= since
    for decay, widest in ((DECAY, 0.25), ("none", 0.15)):
        answer = found.answer(Question("count", decay))
        exact = held.exact(Question("count", parse_decay(decay), NOW), kept)
        assert answer.upper - answer.lower <= widest * exact
    assert found.without(-MAX_TIME, since) is found
    assert found.without(-MAX_TIME, NOW + 1).extremes.newest is None


def test_no_value_that_was_forgotten_is_left() -> None:
    """A block that the range cuts keeps how much it holds; keys go with the last block that had them."""
    names = np.array(["a secret", "public"], object)
    times = NOW - np.arange(1000)[::-1] * 600
    secret = np.arange(1000) < 400
    events = Events.of(np.arange(1000), times, names[np.where(secret, 0, 1)])
    held = Division.build(events, decay=DECAY, epsilon=0.2, span=3600)
    left = held.without(int(times[0]), int(times[400]), for_good=True)
    assert b"a secret" in held.to_bytes()
    assert b"a secret" not in left.to_bytes()
    assert not np.isin(left.doubt.code_height, [0]).any()
    answer = left.answer(Question("count", "none"))
    assert answer.lower <= 600 <= answer.upper


def test_damaged_doubt_is_refused() -> None:
    """A format that says there is doubt must have some, and blocks do not overlap, whichever kind they are of."""
    held = Numbers(1)
    found = held.sketch(Wbmh, held.first).without(-MAX_TIME, NOW - 20 * DAY)
    assert open_envelope(found.to_bytes()).version == DOUBT_FORMAT
    shifted = replace(found.doubt, start=found.doubt.start * 0, height=np.full(len(found.doubt), 5, np.uint8))
    with pytest.raises(CorruptError, match=r"overlap|not in its interval|in no block"):
        Wbmh.from_bytes(replace(found, doubt=shifted.gathered()).to_bytes())
