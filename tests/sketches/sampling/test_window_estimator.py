"""Paper A §4.2's estimator against a direct reading of the paper, unit by unit."""

from __future__ import annotations

import numpy as np
import pytest

from sketches import Events, Question, parse_decay
from sketches.errors import UnanswerableError
from sketches.sampling.epoch_sample import EpochSample
from sketches.sampling.inclusion.nested_sample import NO_CUT, starts_of
from sketches.sampling.inclusion.range_sample import PRIME, STEP
from tests.support import window_estimator
from tests.support.coverage import build_epoch
from tests.support.oracle import DECAYS, Oracle
from tests.support.streams import STREAMS


def window_by_hand(sketch: EpochSample, begin: int, as_of: int, least: float, per: str) -> float:
    """The weight of [begin, as_of] from the finest level that is complete there (Theorem 4.1), median of copies."""
    answers = []
    for copy in sketch.copies:
        cuts = copy.weight_cuts if per == "weight" else copy.count_cuts
        level = next(i for i, cut in enumerate(cuts.tolist()) if cut < begin or cut == NO_CUT)
        limit = PRIME >> level
        hits = 0
        rows = zip(
            copy.times.tolist(),
            starts_of(copy.hashes).tolist(),
            copy.values.tolist(),
            copy.weights.tolist(),
            strict=True,
        )
        for time, start, value, weight in rows:
            if begin <= time <= as_of and value >= least:
                units = weight if per == "weight" else 1
                hits += sum((start + STEP * unit) % PRIME < limit for unit in range(units))
        answers.append(hits * PRIME / limit)
    return float(np.median(answers))


def decayed_by_hand(sketch: EpochSample, spec: str, as_of: int, least: float, per: str) -> float:
    """Lemma 4.1: windows that begin at every second, each as high as the decay rises there."""
    decay = parse_decay(spec)
    oldest = min(int(copy.times[0]) for copy in sketch.copies)
    total, below = 0.0, 0.0
    for begin in range(oldest, as_of + 1):
        height = float(decay(np.array([as_of - begin], np.float64))[0])
        total += (height - below) * window_by_hand(sketch, begin, as_of, least, per)
        below = height
    return total


@pytest.mark.parametrize("delta", [0.05, 0.01])
@pytest.mark.parametrize("spec", ["window:40s", "exp:half_life=20s", "poly:alpha=1.5,unit=5s", "none"])
def test_probing_at_sampled_times_equals_probing_at_every_second(spec: str, delta: float) -> None:
    """The shortcut of Theorem 4.2 changes nothing: sums, counts and shares equal those of Lemma 4.1."""
    rng = np.random.default_rng(4)
    events = Events.of(np.arange(300), rng.integers(0, 90, 300), rng.integers(0, 9, 300), rng.integers(1, 6, 300))
    sketch = EpochSample.build(events, epsilon=0.45, delta=delta, seed=3)
    assert (sketch.copies[0].weight_cuts > NO_CUT).any()
    whole = decayed_by_hand(sketch, spec, 89, -np.inf, "weight")
    part = decayed_by_hand(sketch, spec, 89, 6, "weight")
    count = decayed_by_hand(sketch, spec, 89, -np.inf, "count")
    expected_answers = {
        "sum": (Question("sum", spec, 89), whole),
        "correlated-sum": (Question("correlated-sum", spec, 89, tau=6), part),
        "selectivity": (Question("selectivity", spec, 89, tau=6, counting="weight"), part / whole),
        "count": (Question("count", spec, 89), count),
        "mean": (Question("mean", spec, 89), whole / count),
    }
    for question, expected in expected_answers.values():
        assert window_estimator.answer(sketch, question).value == pytest.approx(expected, rel=1e-9), question


@pytest.mark.parametrize("spec", DECAYS)
def test_windows_are_exact_while_everything_is_kept(spec: str) -> None:
    """Without dropped events both estimators give the exact answer, for every aggregate that windows know."""
    stream = STREAMS["correlated"](400, 2)
    sketch, oracle = build_epoch(stream, 1, 0.05, 0.05), Oracle(stream)
    middle = float(np.median(stream.v))
    questions = [
        Question("sum", spec),
        Question("count", spec),
        Question("mean", spec),
        Question("selectivity", spec, low=middle / 2, high=middle, counting="weight"),
        Question("rank", spec, value=middle, counting="weight"),
        Question("median", spec, counting="weight"),
        Question("quantile", spec, phi=0.9, counting="weight"),
        Question("frequency", spec, value=float(stream.v[7]), counting="weight"),
        Question("range-sum", spec, low=middle / 2, high=middle),
        Question("range-frequency", spec, low=middle / 2, high=middle, counting="weight"),
        Question("correlated-sum", spec, tau="median", counting="weight"),
        Question("correlated-count", spec, tau=middle),
        Question("correlated-mean", spec, tau="q0.9", counting="weight"),
    ]
    for question in questions:
        found = window_estimator.answer(sketch, question)
        truth = oracle.answer(question)
        assert found.value == pytest.approx(truth, rel=1e-9), question
        assert found.lower <= truth * (1 + 1e-9)
        assert truth * (1 - 1e-9) <= found.upper


def test_heavy_hitters_by_windows_list_the_same_values() -> None:
    """While everything is kept, windows list the same values with the same shares as the default estimator."""
    stream = STREAMS["keys"](600, 2)
    sketch = build_epoch(stream, 1, 0.05, 0.05)
    question = Question("heavy-hitters", "exp:half_life=10m", top=5, counting="weight")
    by_windows, plain = window_estimator.answer(sketch, question), sketch.answer(question)
    assert [item.estimate for item in by_windows.items] == pytest.approx([item.estimate for item in plain.items])


def test_the_guarantee_cites_its_theorems_by_author_and_year() -> None:
    """Users see whose theorem it is, not a letter."""
    found = window_estimator.answer(build_epoch(STREAMS["uniform"](600, 2), 1, 0.05, 0.05), Question("sum"))
    assert "(Cormode, Tirthapura and Xu 2007, Theorems 4.1 to 4.3)" in found.guarantee


def test_windows_refuse_what_they_do_not_bound() -> None:
    """Joins, sums of values and more confidence than planned are refused by name."""
    sketch = build_epoch(STREAMS["uniform"](600, 2), 1, 0.05, 0.05)
    for question in (Question("self-join"), Question("sum", of="value"), Question("sum", confidence=0.99)):
        with pytest.raises(UnanswerableError):
            window_estimator.answer(sketch, question)


def test_windows_of_an_empty_sketch() -> None:
    """A sum over no events is 0; a share of no weight is NaN."""
    sketch = EpochSample.build(Events.of([], []))
    assert window_estimator.answer(sketch, Question("sum")).value == 0.0
    assert np.isnan(window_estimator.answer(sketch, Question("selectivity", low=0)).value)
