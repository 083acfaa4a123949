"""What docs/references.md says about lines of the papers: as printed they fail on small examples, as read they hold."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pytest

from sketches.decay import parse_decay
from sketches.question import Question
from tests.support.oracle import Oracle
from tests.support.streams import Stream

NOW: Final = 9
AGES: Final = np.array([0, 0, 2, 3, 3, 7, 9])


def g(age: float) -> float:
    return 1 / (1 + age)


def in_window(width: int) -> int:
    """How many items are younger than the width."""
    return int((width > AGES).sum())


def test_polyexponential_decay_as_printed_rises() -> None:
    """B §1.2 with k = 1 and α = ½ goes up from 1; ours never does."""
    printed = [(x + 1) * 2 ** (-x / 2) for x in range(4)]
    assert printed[1] > printed[0]
    assert (np.diff(parse_decay("polyexp:k=1,half_life=2s")(np.arange(50))) <= 0).all()


def test_the_median_of_two_values() -> None:
    """A's rule takes the lower value, as we do; the definitions of B and C take the upper one."""
    values = [1, 2]
    ours = Oracle(Stream.of("two", [1, 2], [0, 0], values)).answer(Question("median"))
    at_or_below = {q: sum(v <= q for v in values) for q in values}
    below = {q: sum(v < q for v in values) for q in values}
    assert ours == min(q for q in values if at_or_below[q] / 2 >= 0.5) == 1  # A §3, C §3.2
    assert [q for q in values if below[q] <= 1 < at_or_below[q]] == [2]  # C Definition 3
    assert max(q for q in values if below[q] / 2 <= 0.5) == 2  # B §1.1


def test_any_decay_from_windows() -> None:
    """C §5.1: as printed an item of age 0 counts g(t); with the signs of A Lemma 4.1 the sum is the decayed count."""
    alone = g(0) + sum(g(j) - g(j - 1) for j in range(1, NOW + 1))
    assert alone == pytest.approx(g(NOW))
    truth = math.fsum(map(g, AGES.tolist()))
    printed = g(0) * in_window(0) + sum((g(j) - g(j - 1)) * in_window(j) for j in range(1, NOW + 1))
    assert printed < 0 < truth
    mended = g(NOW) * in_window(NOW + 1) + sum((g(j - 1) - g(j)) * in_window(j) for j in range(1, NOW + 1))
    assert mended == pytest.approx(truth)
    times = NOW - AGES
    first = int(times.min())
    lemma = g(NOW - first) * len(times) + sum(
        (g(NOW - t) - g(NOW - t + 1)) * int((times >= t).sum()) for t in range(first + 1, NOW + 1)
    )
    assert lemma == pytest.approx(truth)


def test_a_lazily_decayed_counter() -> None:
    """C Figure 3: multiplied by g(t - time) a counter has the decayed count; the printed factor is negative."""
    read = printed = 0.0
    last = 0
    arrivals = [(1, 1), (4, 2), (6, 6)]  # observed at, timestamp
    for now, stamp in arrivals:
        read = read * math.exp(-(now - last) / 5) + math.exp(-(now - stamp) / 5)
        printed = printed * (math.exp(-now / 5) - math.exp(-last / 5)) + math.exp(-(now - stamp) / 5)
        last = now
    truth = math.fsum(math.exp(-(last - stamp) / 5) for _, stamp in arrivals)
    assert read == pytest.approx(truth)
    assert abs(printed - truth) > 0.3 * truth


def test_boundaries_of_another_decay() -> None:
    """C Lemma 1: the ratios of g itself are always 1 + θ; those of g′ give the θ′ of the paper's example."""
    theta, alpha = 0.1, 1.5
    ends = (1 + theta) ** (np.arange(20) / alpha) - 1
    own = (1 + ends) ** -alpha
    other = (1 + ends) ** (-2 * alpha)
    assert own[:-1] / own[1:] == pytest.approx(1 + theta)
    assert other[:-1] / other[1:] == pytest.approx(1 + 2 * theta + theta**2)
    assert (1 + ends[1]) ** -alpha == pytest.approx(1 / (1 + theta))
