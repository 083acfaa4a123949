"""What is known of a store without opening a sketch: decayed totals, and how much ranges of time leave in doubt."""

from __future__ import annotations

import numpy as np
import pytest

from sketches import Question
from sketches.holdings import LISTED, ONE_END, ONE_VALUE, TWO_ENDS, Holdings, measured_share, restricted_share
from sketches.predicate import Predicate, Range
from sketches.units import SECOND, TimeUnit
from tests.support.oracle import DECAYS

HOUR = 3600
COUNTS = (7_200, 3_600, 14_400, 0, 36_000)  # events of each hour, spread evenly


def held(unit: TimeUnit = SECOND) -> Holdings:
    """Five hours, one of them empty."""
    full = [at for at, count in enumerate(COUNTS) if count]
    oldest, events = np.array(full) * HOUR, np.array([float(COUNTS[at]) for at in full])
    ones = np.ones(len(full))
    return Holdings(oldest, oldest + HOUR - 1, events, events, ones, 0.0 * ones, unit)


def times_of(count: int, hour: int) -> np.ndarray:
    return hour * HOUR + (np.arange(count) + 0.5) * HOUR / max(count, 1)


EVENTS = np.concatenate([times_of(count, hour) for hour, count in enumerate(COUNTS)])


@pytest.mark.parametrize("as_of", [5 * HOUR - 1, 5 * HOUR + 2000, 4 * HOUR + 900, 2 * HOUR + 1800])
@pytest.mark.parametrize("decay", [*DECAYS, "window:3h", "last:20000", "exp:half_life=1h,window=90m"])
def test_the_decayed_count_of_even_events(decay: str, as_of: int) -> None:
    """As counted event by event, within 2%: now, later, and as of the past, when newer events do not count."""
    question = Question("count", decay, as_of)
    ages = as_of + 1.0 - EVENTS
    if decay.startswith("last:"):
        exact = float(min(20_000, np.count_nonzero(ages >= 0.0)))
    else:
        exact = float(question.decay(np.maximum(ages, 0.0))[ages >= 0.0].sum())
    assert held().faded(question).total == pytest.approx(exact, rel=0.02, abs=10.0)


@pytest.mark.parametrize("as_of", [5 * HOUR - 1, 4 * HOUR + 1800, 2 * HOUR + 600])
@pytest.mark.parametrize("decay", ["none", "window:20m", "exp:half_life=10m", "poly:alpha=1.5,unit=1m"])
@pytest.mark.parametrize("seconds", [60, 600])
def test_what_ranges_leave_in_doubt(decay: str, as_of: int, seconds: int) -> None:
    """As found by laying the events into ranges, over all places where the first range may begin."""
    question = Question("count", decay, as_of)
    faded = held().faded(question)
    found = []
    for shift in np.linspace(0.0, seconds, 12, endpoint=False):
        begin = np.floor((EVENTS - shift) / seconds) * seconds + shift
        hour = np.floor(EVENTS / HOUR) * HOUR  # no range leaves its epoch
        far = as_of + 1.0 - np.maximum(begin, hour)
        near = as_of + 1.0 - np.minimum(begin + seconds, hour + HOUR)
        least = np.where(near >= 0.0, question.decay(np.maximum(far, 0.0)), 0.0)  # all of the range has come
        most = np.where(far >= 0.0, question.decay(np.maximum(near, 0.0)), 0.0)
        found.append(float((most - least).sum()))
    wanted = np.mean(found) / faded.total
    assert faded.uncertain(np.full(len(faded.age), float(seconds))) == pytest.approx(wanted, rel=0.25, abs=2e-3)


def test_other_units_of_time() -> None:
    """Milliseconds: the same events a thousandfold finer."""
    fine, coarse = held(TimeUnit(1, 1000)), held()
    question = Question("count", "window:600ms", 4 * HOUR + 1800)
    assert fine.faded(question).total == pytest.approx(
        coarse.faded(Question("count", "window:600s", 4 * HOUR + 1800)).total, rel=1e-6
    )


def test_nothing_is_held() -> None:
    """Sources without events have nothing in doubt."""
    faded = Holdings.none().faded(Question("count", "window:1h", 17))
    assert faded.total == 0.0
    assert faded.uncertain(np.zeros(0)) == 0.0


def test_times_over_all_of_it() -> None:
    """In the middle of equal parts."""
    assert Holdings.one_epoch(1001.0).spread_over(5) == [100, 300, 500, 700, 900]


def test_what_is_assumed_of_thresholds_and_predicates() -> None:
    """The same for all families; where a question names a share itself, that is taken."""
    assert measured_share(Question("correlated-count", tau=7)) == ONE_END
    assert measured_share(Question("range-sum", low=1, high=2)) == TWO_ENDS
    assert measured_share(Question("frequency", value=7)) == ONE_VALUE
    assert measured_share(Question("heavy-hitters", top=3)) == LISTED
    assert measured_share(Question("quantile", phi=0.9)) == 0.9
    assert measured_share(Question("correlated-sum", tau="q0.9")) == pytest.approx(0.1)
    assert measured_share(Question("count")) == restricted_share(Question("count")) == 1.0
    both = Predicate.of(None, value=Range(1, 2), weight=Range(low=3))
    assert restricted_share(Question("count", where=both)) == TWO_ENDS * ONE_END
    assert restricted_share(Question("count", where=Predicate.of("GET /"))) == ONE_VALUE
