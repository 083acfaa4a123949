"""What a threshold that is an aggregate costs over time: 200 points with τ = median against 200 with a fixed τ.

    python -m benchmarks.thresholds

Thirty daily samples of 100,000 events each stand side by side, as a store holds them.
"""

from __future__ import annotations

import time

import numpy as np

from sketches import Events, Question, Sample
from sketches.sampling.askable_sample import AskableSample

DAYS, EVENTS, DAY, POINTS, TURNS = 30, 100_000, 86_400, 200, 7
DECAYS = {"exponential": "exp:half_life={}h", "window": "window:{}h"}
FIXED, MEDIAN = 55.0, "median"


def month() -> AskableSample:
    """Values and weights as of calls: skewed values, weights that are often 0."""
    rng = np.random.default_rng(1)
    parts = []
    for day in range(DAYS):
        times = np.sort(rng.integers(day * DAY, (day + 1) * DAY, EVENTS))
        weights = rng.integers(0, 50, EVENTS)
        events = Events.of(np.arange(EVENTS) + day * EVENTS, times, rng.lognormal(4, 1, EVENTS), weights)
        parts.append(Sample.build(events).askable_sample)
    return AskableSample.side_by_side(parts)


def best(askable: AskableSample, aggregate: str, decay: str, tau: float | str) -> float:
    """Seconds of the fastest of a few turns, each under a decay that was not asked before."""
    moments = np.linspace(3 * DAY, DAYS * DAY, POINTS).astype(np.int64)
    askable.series(Question(aggregate, decay.format(6), tau=tau), moments)
    found = []
    for turn in range(TURNS):
        question = Question(aggregate, decay.format(24 + turn), tau=tau)
        start = time.perf_counter()
        askable.series(question, moments)
        found.append(time.perf_counter() - start)
    return min(found)


def main() -> None:
    askable = month()
    print(f"{len(askable.sample):,} sampled events, {POINTS} points")
    for aggregate in ("correlated-sum", "correlated-mean", "selectivity"):
        for name, decay in DECAYS.items():
            fixed, median = (best(askable, aggregate, decay, tau) for tau in (FIXED, MEDIAN))
            print(
                f"{aggregate:16} {name:12} {fixed * 1e3:7.1f} ms  {median * 1e3:7.1f} ms  {median / fixed:5.1f} times"
            )


if __name__ == "__main__":
    main()
