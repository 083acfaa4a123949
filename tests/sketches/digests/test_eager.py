"""`qdigest` defers merging; the *eager merge* version of paper C §3.2 beside it: both right, and within both bounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from sketches import Events, Question
from sketches.decay import parse_decay
from sketches.digests.qdigest import QDigest
from tests.support.eager import Eager

VALUE_BITS = 10
POLYNOMIAL = "poly:alpha=1.3,unit=30s"
# events, bits of time, ε, how they come
CASES = (
    (300, 10, 0.2, "shuffled"),
    (1500, 10, 0.3, "late"),
    (2500, 11, 0.3, "reversed"),
    (2500, 12, 0.4, "bursty"),
    (4000, 12, 0.5, "late"),
)


@dataclass(frozen=True)
class Both:
    """The two summaries of one stream, and the stream."""

    times: NDArray[np.int64]
    values: NDArray[np.int64]
    eager: Eager
    ours: QDigest
    epsilon: float

    @property
    def now(self) -> int:
        return int(self.times.max())

    def exact(self, decay: str, value: int) -> float:
        ages = (self.now - self.times[self.values <= value]).astype(np.float64)
        return float(parse_decay(decay)(ages).sum())


@cache
def built(events: int, time_bits: int, epsilon: float, order: str) -> Both:
    rng = np.random.default_rng([events, time_bits])
    last = (1 << time_bits) - 1
    times = rng.integers(0, last + 1, events)
    match order:
        case "late":
            times = np.clip(np.sort(times) - (20 * rng.pareto(1.1, events)).astype(np.int64), 0, last)
        case "reversed":
            times = np.sort(times)[::-1]
        case "bursty":
            burst = last * 3 // 4 + rng.integers(0, 40, events)
            times = np.where(rng.random(events) < 0.7, burst, times)
    values = (1024 * rng.beta(1, 4, events)).astype(np.int64)
    eager = Eager(epsilon, time_bits, VALUE_BITS, events)
    for time, value in zip(times.tolist(), values.tolist(), strict=True):
        eager.arrive(value, time)
    ours = QDigest.build(Events.of(np.arange(events), times, values), epsilon=epsilon, span=1 << time_bits)
    return Both(times, values, eager, ours, epsilon)


def check(both: Both, decay: str, value: int, found: tuple[float, float]) -> None:
    """Both against the exact answer and against each other: the peer is below it, by at most its bound."""
    estimate, bound = found
    exact, whole = both.exact(decay, value), both.exact(decay, 1 << VALUE_BITS)
    rounding = 1e-9 * whole
    assert estimate - rounding <= exact <= estimate + bound + rounding, (decay, value)
    assert exact - estimate <= both.epsilon * whole + rounding, "Theorems 2 and 5"
    answer = both.ours.answer(Question("range-sum", decay, low=0, high=value))
    assert answer.lower - rounding <= exact <= answer.upper + rounding, (decay, value)
    width = answer.upper - answer.lower
    assert width <= both.epsilon * whole + rounding, "one end of the range lies outside the domain"
    assert abs(answer.value - estimate) <= bound + width / 2 + rounding, (decay, value)
    assert min(answer.upper, estimate + bound) >= max(answer.lower, estimate) - rounding, "the intervals meet"


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[3]}-{case[0]}")
def test_windows(case: tuple[int, int, float, str]) -> None:
    """r(w, x) of windows from one tick to everything, and of values from the least to the greatest."""
    both = built(*case)
    rng = np.random.default_rng(case[0])
    widths = {1, 2, both.now + 1, *(2 ** rng.uniform(0, case[1], 25)).astype(int).tolist()}
    coarse = 0
    for width in sorted(widths):
        for value in (0, 1023, *rng.choice(both.values, 4).tolist()):
            found = both.eager.window(width, value)
            coarse += found.bound > 0
            check(both, f"window:{width}s", value, (found.value, found.bound))
    assert coarse > 0, "else the peer has answered all from its buffer"


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[3]}-{case[0]}")
def test_polynomial_decay(case: tuple[int, int, float, str]) -> None:
    """Theorem 5: windows of all widths together make a decayed rank, and their errors add up to ε of what counts."""
    both = built(*case)
    decay = parse_decay(POLYNOMIAL)
    for value in np.quantile(both.values, (0.05, 0.3, 0.5, 0.9)).astype(int).tolist():
        found = both.eager.decayed(decay, value)
        check(both, POLYNOMIAL, value, (found.value, found.bound))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[3]}-{case[0]}")
def test_deferred_merging_keeps_less(case: tuple[int, int, float, str]) -> None:
    """Fewer rows than the peer has nodes, as C §6 found; and the peer keeps to its own α ranges a level."""
    both = built(*case)
    assert all(len(level.values) <= both.eager.alpha for level in both.eager.levels)
    assert both.eager.levels[-1].tau == -1, "the last level discards nothing"
    assert both.ours.kept < both.eager.nodes
    pairs = len(set(zip(both.times.tolist(), both.values.tolist(), strict=True)))
    assert both.ours.kept <= (pairs if case[0] < 1000 else 0.8 * pairs), "and from a thousand events on it folds"


def test_the_peer_forgets_what_is_old() -> None:
    """Fine levels have discarded old times, and the peer's answers come from several levels."""
    eager = built(*CASES[-1]).eager
    taus = [level.tau for level in eager.levels]
    assert taus == sorted(taus, reverse=True)
    assert taus[0] > taus[-1] == -1
    bounds = {eager.window(width, 1023).bound for width in range(1, eager.now + 2, 16)}
    assert len(bounds) >= 3
